"""Filters with registered functions, and pipelines of joins: run in a measured order, and observed on the way."""
