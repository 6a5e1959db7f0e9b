"""Recorded lives of ponds, one per kind of query: what epochs wrote and answered, to be compared with golden records.

`kinds` has the lives, `life` runs one and notes every file and answer; `tests/test_same_bytes.py` compares.
"""
