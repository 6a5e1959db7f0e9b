"""Statements into effects: each changes the catalog by events, waits for epochs, or reads answers."""
