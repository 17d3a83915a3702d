"""From files to batches: readers, cleaning, splits, template, tokens."""
