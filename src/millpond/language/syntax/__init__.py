"""What a text says: tokens, the parser, its clauses and nodes, and places in it."""
