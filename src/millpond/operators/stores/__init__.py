"""Stores of rows: what relational queries need of a stream, kept once for all that read it."""
