"""Reading the past as it was planned: rows of files and row groups, in bounded batches, counted as they are read."""
