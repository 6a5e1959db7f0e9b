"""Answers of SELECTs."""
