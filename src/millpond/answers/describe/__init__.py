"""What SHOW and EXPLAIN say, one module a subject: rows of text and numbers, made from published state only."""
