"""Streams whose archive lies in an object store: the pond's folder remembers where, for when the stream is dropped."""

from __future__ import annotations

import os

from deltalake.exceptions import DeltaError

from millpond.archive.archive_files import archive_home
from millpond.tables import read_json, write_json
from millpond.tables.locations import is_remote, know, remove_tree
from millpond.types import StreamDefinition

#: In `streams/<stream>` of the pond: the place in the object store that is the stream's own.
FILE = "elsewhere.json"


def mark_remote(pond: str, stream: StreamDefinition) -> None:
    """Note down where the archive of a stream lies, before anything is written there."""
    home = archive_home(pond, stream)
    if is_remote(home):
        folder = os.path.join(pond, "streams", stream.folder)
        os.makedirs(folder, exist_ok=True)
        write_json(os.path.join(folder, FILE), {"home": home})


def remote_place_of(folder: str) -> str | None:
    """Where the archive of a stream lies in an object store, by its folder `streams/<stream>`; None: it does not."""
    try:
        home: str = read_json(os.path.join(folder, FILE))["home"]
    except FileNotFoundError:
        return None
    return home


def remove_remote(pond: str, home: str) -> bool:
    """Delete what the archive of a dropped stream has in an object store; False: it cannot be reached now."""
    try:
        know(home, pond)
        remove_tree(home)
    except (DeltaError, OSError):
        return False
    return True
