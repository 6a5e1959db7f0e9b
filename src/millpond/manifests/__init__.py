"""Manifests and publish records: what an epoch is to do and what it has done. They are on disk: take care.

`quarantine` keeps the failures of queries apart from everybody else's work; publish records name them.
"""
