"""What the operators over stores have in common: reading rows, progress of several inputs, skewed keys."""
