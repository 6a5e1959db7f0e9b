"""The command `millpond`: its commands (`app`), how answers are written (`output`), ponds for a command (`session`).

This is the rim: nothing imports it, and it uses only `millpond.open`, `millpond.doctor` and `millpond.demo`. Texts,
colours and columns may be changed freely; formats for programs (json, csv) and exit statuses are promises to users.
"""

from millpond.cli.app import main

__all__ = ["main"]
