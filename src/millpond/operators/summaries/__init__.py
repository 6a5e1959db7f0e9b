"""Summary copies of an archive: for each of its files an entry with the file's pane partials."""
