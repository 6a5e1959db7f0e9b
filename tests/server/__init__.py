"""Tests of the HTTP server and its client."""
