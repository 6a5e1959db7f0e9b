"""Jobs beside the epochs: back-fill, upkeep of files, reading of tables. Each step is short and safe to kill."""
