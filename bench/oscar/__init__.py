"""OSCAR, section 3 of its experiments: what archives of four designs cost to write, and to read at a reduction.

`archives` makes them, `figures` measures, `lag` runs live rows beside scans, `aims` says what holds of what is wanted.
"""
