"""What users hold: ponds, handles of queries, feeds from Spark. Everything is done by `commands` and `answers`."""
