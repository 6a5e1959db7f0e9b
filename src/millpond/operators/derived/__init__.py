"""Derived streams: rows and answers of an epoch that the next one takes in."""
