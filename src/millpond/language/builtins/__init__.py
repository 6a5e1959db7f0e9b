"""Which functions queries may call, and how."""
