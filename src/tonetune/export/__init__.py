"""Files that others can run."""
