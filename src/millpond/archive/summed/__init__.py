"""Summary copies of an archive: for each of its files an entry with the pane partials of the file's rows."""
