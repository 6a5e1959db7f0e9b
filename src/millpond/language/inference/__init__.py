"""Types of expressions, as DuckDB sees them."""
