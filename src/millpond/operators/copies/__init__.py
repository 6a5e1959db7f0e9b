"""Reduced copies of archives, written as rows arrive."""
