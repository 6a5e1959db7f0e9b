"""The command `millpond`: its commands (`app`, `serve`), how answers are written (`output`), ponds for a command
(`session`), and the interactive prompt (`prompt`, with `typed`, `completion`, `names`, `describing`, `fitting`,
`waiting`).

This is the rim: nothing imports it, and it uses ponds by the interface that `millpond.open` and `millpond.connect`
share. Texts, colours and columns may be changed freely; formats for programs (json, csv) and exit statuses are
promises to users.
"""

from millpond.cli.app import main

__all__ = ["main"]
