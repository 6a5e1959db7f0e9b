"""Operators: the standing computations over streams that queries share, a package for each kind."""
