"""Names and types: what a tree says becomes what it means over the catalog's columns."""
