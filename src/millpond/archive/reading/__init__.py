"""Reading the past: which files and row groups of which copy, how much of them, and their rows, in bounded batches."""
