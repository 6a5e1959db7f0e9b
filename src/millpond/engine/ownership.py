"""Who may write a pond: its folder, its identity, the lock of one process, and the fence against those before it."""

from __future__ import annotations

import fcntl
import os
import uuid
from typing import Any

from millpond.sources.table_sources.versions import TABLES
from millpond.support.damaged_files import reading
from millpond.support.errors import PondError
from millpond.support.event_log import event_log
from millpond.synopses import connection, query_table
from millpond.tables import read_json, write_json
from millpond.types import leads_away
from millpond.types.options import Settings

LOG = event_log(__name__)

FORMAT = 1
_FOLDERS = (
    "catalog",
    "intake",
    "manifests",
    "published",
    "backfills",
    "streams",
    "copies",
    "dead",
    "state",
    "results",
    "summaries",
    TABLES,
)


class Ownership:
    """A pond's folder, locked for this process; it is made when it is not there.

    Args:
        path: the folder.
        shards: of a pond that is made.

    Attributes:
        pond_id: says which pond this is, wherever its folder lies.
        shards: how many state shards it was made with.
        opening: says which opening this is; written to `fence.json`, and into the manifests of its epochs.

    Raises:
        PondError: another process has it open, its folder cannot be made or written, it is of another format, or DuckDB
            hashes differently than it did.
    """

    def __init__(self, path: str, shards: int = Settings.shards) -> None:
        self.path = os.path.abspath(path)
        self._file = _locked(self.path)
        try:
            meta = _meta(self.path, shards)
            for name in _FOLDERS:
                os.makedirs(os.path.join(self.path, name), exist_ok=True)
            self.opening = uuid.uuid4().hex
            write_json(os.path.join(self.path, "fence.json"), self.opening)
        except BaseException:
            self.release()
            raise
        self.pond_id: str = meta["id"]
        self.shards: int = meta["shards"]

    def check_fence(self) -> None:
        """Refuse to write when somebody else has opened the pond since (a lock can be lost on shared storage)."""
        if read_json(os.path.join(self.path, "fence.json")) != self.opening:
            LOG.error("fence lost", path=self.path)
            raise PondError(f"the pond {self.path} was opened by another process; this one may not write any more")

    def release(self) -> None:
        """Give the lock back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _locked(path: str) -> int:
    """The file descriptor that holds the lock of a pond's folder."""
    if leads_away(path):
        raise PondError(
            f"{path} cannot be a pond's folder: Delta tables take a \\, and a % with two hex digits, for something "
            "else; give it another name"
        )
    try:
        os.makedirs(path, exist_ok=True)
        file = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except (OSError, ValueError) as error:  # a file in its place, no permission, a NUL in its name
        reason = getattr(error, "strerror", None) or error
        raise PondError(
            f"{path!r} cannot be a pond's folder: {reason}; give one that can be made and written"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise PondError(
            f"the pond {path} is open already, here or in another process; close it there or open another"
        ) from None
    return file


def _meta(path: str, shards: int) -> dict[str, Any]:
    """The pond's own description: made once, checked at every opening."""
    file = os.path.join(path, "pond.json")
    probe = query_table(connection(), "SELECT hash(1::BIGINT)::VARCHAR || hash('a', 2.5::DOUBLE)::VARCHAR AS h")["h"][
        0
    ].as_py()
    if not os.path.exists(file):
        # A process that was killed while it made the pond leaves its half-written description.
        others = [n for n in os.listdir(path) if n not in ("lock", "pools.xml") and not n.startswith("pond.json.")]
        if others:
            raise PondError(f"{path} is not a pond and not empty (it holds {others[0]}); name another folder")
        meta = {"format": FORMAT, "id": uuid.uuid4().hex, "shards": shards, "hash": probe}
        write_json(file, meta)
        return meta
    found: dict[str, Any] = read_json(file)
    with reading(file):
        form, made_with, _ = found["format"], found["hash"], found["shards"]
    if form != FORMAT:
        raise PondError(f"the pond {path} has format {form}, this Millpond reads format {FORMAT}; upgrade Millpond")
    if made_with != probe:
        raise PondError(
            f"the pond {path} was made with a DuckDB that places groups differently; use that version or a new pond"
        )
    return found
