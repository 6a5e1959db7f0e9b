"""Streams of pairs: the order-agnostic join of two streams, each pair once."""
