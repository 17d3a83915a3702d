"""Labels from people and rules: what to label next, agreement of annotators, weak labels, files of annotation tools."""
