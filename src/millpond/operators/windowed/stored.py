"""What the state of windows has in common: rows of a synopsis in one shard, read back from committed chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import duckdb
import pyarrow as pa

from millpond.manifests.places import state_folder
from millpond.synopses import connection
from millpond.synopses.partials.specs import SynopsisSpec
from millpond.tables import Segment, read_chunks
from millpond.tables.shard_cache import Version

#: Chunks of state that are pane rows, or rows of windows that end with rows.
PANES = "panes"

#: Rows of a synopsis kept in memory beyond what open windows need.
KEPT_ROWS = 500_000

S = TypeVar("S", bound=SynopsisSpec)


@dataclass
class StoredState(Generic[S]):
    """State of one synopsis in one shard, before and after the epoch's delta.

    Args:
        version: the state with the running epoch. segments: the shard's committed state files, oldest first.
        delta: merged partials of this epoch.
        since: for a query that answered last before this epoch: what came from it on is delta (see `parts`, `show`).
    """

    version: Version
    segments: Sequence[Segment]
    shard: int
    owner: str
    spec: S
    delta: pa.Table
    since: int | None = None

    @property
    def db(self) -> duckdb.DuckDBPyConnection:
        """The connection of this thread, which may be another one after an error."""
        return connection()

    def parts(self) -> list[pa.Table]:
        """Stored rows from epoch `since` on, with their cuts."""
        since = self.since or 0
        return self.read(self.segments, None, lambda epoch: epoch >= since)

    def show(self, delta: pa.Table) -> None:
        """Take `delta` as what came since."""
        self.delta = delta

    def files_named(self) -> dict[str, int]:
        """The state files as of the epoch before, with the end of their event time."""
        return {s.path: s.high for s in self.segments}

    def read(
        self,
        segments: Sequence[Segment],
        since: int | None,
        wanted: Callable[[int], bool] | None,
        kinds: Sequence[str] = (PANES,),
    ) -> list[pa.Table]:
        """Stored rows, chunk by chunk, of chunks that reach to the event time `since` and whose epoch is wanted."""
        folder = state_folder(self.version.pond)
        paths = [os.path.join(folder, s.path) for s in segments if since is None or s.high >= since]
        chunks = read_chunks(
            paths,
            {self.owner},
            lambda _owner, kind, epoch, _low, high: (
                kind in kinds and (since is None or high >= since) and (wanted is None or wanted(epoch))
            ),
        )
        return [c.table for c in chunks]
