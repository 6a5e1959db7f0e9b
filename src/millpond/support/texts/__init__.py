"""Values as text, the same for everybody: JSON and CSV of the command line and of HTTP, tables for people.

What an answer looks like is said here alone; nothing here knows what a query is.
"""
