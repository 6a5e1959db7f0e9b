"""Formats: from the bytes of an item to rows in the stream's columns, one module a format.

How a format is read may be changed here alone, as long as the same item still gives the same rows and rejections.
"""
