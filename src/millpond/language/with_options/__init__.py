"""`WITH (name = value, …)` behind CREATE and `SET (…)` behind ALTER."""
