"""What conditions say: their factors, and the ranges of attributes that these are."""
