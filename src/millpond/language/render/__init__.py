"""From trees to DuckDB SQL."""
