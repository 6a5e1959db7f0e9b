"""The pane state of a synopsis in one shard: committed chunks read back, kept in memory by whoever used them last.

A kept table holds what was there after one epoch of one pond. A task of a later epoch adds the files of the epochs
since; a repeated one, or one that finds files put together across that epoch, reads the files instead. Both give the
same bytes: floating sums are added in the order of the files, and forgotten when files are put together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.engine.cuts import without_cut
from millpond.engine.prefixes import fold_prefix
from millpond.engine.records import manifest_path
from millpond.progress import FOREVER
from millpond.synopses import PanesSpec, merge_partials
from millpond.tables import Chunk, Segment, read_chunks
from millpond.windows.covers import FAR

#: Rows of a synopsis kept in memory beyond what open windows need.
KEPT_ROWS = 500_000

PANES = "panes"


@dataclass
class _Kept:
    """Merged pane rows from pane `low` on, as of the end of `epoch`.

    files: the state files in it, with the end of their event time; the files that `epoch` itself wrote are in it too.
    manifest: which file the manifest of `epoch` was: another one means another history (a restored pond).
    """

    epoch: int
    low: int
    table: pa.Table
    files: dict[str, int]
    manifest: tuple[int, int] | None


_kept: dict[tuple[str, str, int], _Kept] = {}


def state_folder(pond: str) -> str:
    """The folder of the state table."""
    return os.path.join(pond, "state")


@dataclass
class PaneState:
    """State of one synopsis in one shard, before and after the epoch's delta.

    Arguments:
        pond, pond_id: folder and identity of the pond.
        segments: the shard's committed state files, oldest first.
        epoch: the running epoch. delta: merged partials of this epoch.
        since: for a query that answered last before this epoch: what came from it on is delta (see `parts`, `show`).
        settled: see `prefixes.fold_prefix`.
    """

    db: duckdb.DuckDBPyConnection
    pond: str
    pond_id: str
    segments: Sequence[Segment]
    shard: int
    owner: str
    spec: PanesSpec
    epoch: int
    delta: pa.Table
    since: int | None = None
    settled: int = -FAR
    _before: _Kept | None = field(default=None, init=False)
    _after: dict[int, pa.Table] = field(default_factory=dict, init=False)

    def parts(self) -> list[pa.Table]:
        """Stored pane rows from epoch `since` on, with their cuts."""
        since = self.since or 0
        return self._read(self.segments, None, lambda epoch: epoch >= since)

    def show(self, delta: pa.Table) -> None:
        """Take `delta` as what came since."""
        self.delta = delta
        self._after.clear()

    def before(self, low: int) -> pa.Table:
        """Merged pane rows from pane `low` on, as of the epoch before."""
        if self._before is None and self.since is None:
            self._before = self._caught_up(low)
        if self._before is None or self._before.low > low:
            since = self.since
            wanted = None if since is None else lambda epoch: epoch < since
            self._before = self._as_of_before(low, self._load(low, wanted))
            self._after.clear()
        return _from(self._before.table, low)

    def _as_of_before(self, low: int, table: pa.Table) -> _Kept:
        return _Kept(self.epoch - 1, low, table, self._files(), None)

    def _files(self) -> dict[str, int]:
        return {s.path: s.high for s in self.segments}

    def _caught_up(self, wanted: int) -> _Kept | None:
        """What this process keeps, with the files of the epochs since; None when it keeps nothing of use from pane
        `wanted` on."""
        kept = _kept.get((self.pond_id, self.owner, self.shard))
        if kept is None or kept.epoch >= self.epoch or kept.manifest is None:
            return None
        if kept.manifest != manifest_file(self.pond, kept.epoch):
            return None
        low, panes = kept.low, self.spec.panes
        if _rounds(
            self.spec, kept.table.schema
        ):  # files that are gone were put together or expired: their panes are no longer what reading gives
            left = self._files()
            low = max([low, *(panes.pane(high) + 1 for path, high in kept.files.items() if path not in left)])
        if low > wanted:
            return None
        since: list[Segment] = []
        for segment in self.segments:
            if segment.path in kept.files or segment.high < panes.start(low) or segment.last_epoch <= kept.epoch:
                continue  # a file that is not named and not younger was made of ones that are, or by the epoch itself
            if segment.level or segment.first_epoch <= kept.epoch:
                return None
            since.append(segment)
        parts = [_from(kept.table, low), *self._rows_of(since, low, None)]
        return self._as_of_before(low, self._merged(parts) if since else kept.table)

    def after(self, low: int) -> pa.Table:
        """Merged pane rows from pane `low` on, with this epoch's delta."""
        before = self.before(low)
        assert self._before is not None
        held = self._before.low
        if held not in self._after:
            parts = [p for p in (self._before.table, _from(self.delta, held)) if p.num_rows]
            self._after = {held: merge_partials(self.db, self.spec, parts) if parts else before}
        return _from(self._after[held], low)

    def keep(self, low: int, rewritten: bool) -> None:
        """Keep the state for the next epoch, at least from pane `low` on.

        Arguments:
            rewritten: this epoch puts state files together, so that reading them would add in another order.
        """
        table = self.after(low)
        if rewritten and _rounds(self.spec, table.schema):
            return
        assert self._before is not None
        held = self._before.low
        whole = self._after[held]
        if whole.num_rows > KEPT_ROWS and held < low:
            held, whole = low, table
        if rewritten:
            whole = fold_prefix(self.db, self.spec, whole, self.settled)
        _kept[(self.pond_id, self.owner, self.shard)] = _Kept(
            self.epoch, held, whole, self._files(), manifest_file(self.pond, self.epoch)
        )

    def _load(self, low: int, wanted: Callable[[int], bool] | None) -> pa.Table:
        return self._merged(self._rows_of(self.segments, low, wanted))

    def _merged(self, parts: list[pa.Table]) -> pa.Table:
        """Parts, in order of their epochs, as one row per (pane, group)."""
        if len(parts) < 2 or not any(_rounds(self.spec, p.schema) for p in parts):
            return merge_partials(self.db, self.spec, parts)
        # File by file, as epochs did it: floating sums that are added in another order differ in their last bits, and
        # a repeated epoch must give the same bytes.
        table = parts[0]
        for part in parts[1:]:
            table = merge_partials(self.db, self.spec, [table, part])
        return table

    def _rows_of(self, segments: Sequence[Segment], low: int, wanted: Callable[[int], bool] | None) -> list[pa.Table]:
        return [_from(without_cut(self.db, self.spec, t), low) for t in self._read(segments, low, wanted)]

    def _read(
        self, segments: Sequence[Segment], low: int | None, wanted: Callable[[int], bool] | None
    ) -> list[pa.Table]:
        """Stored pane rows, chunk by chunk, of chunks that reach to pane `low` and whose epoch is wanted."""
        since = None if low is None else self.spec.panes.start(low)
        paths = [os.path.join(state_folder(self.pond), s.path) for s in segments if since is None or s.high >= since]
        chunks = read_chunks(
            paths,
            {self.owner},
            lambda _owner, kind, epoch, _low, high: (
                kind == PANES and (since is None or high >= since) and (wanted is None or wanted(epoch))
            ),
        )
        return [c.table for c in chunks]


def pane_chunk(owner: str, spec: PanesSpec, epoch: int, table: pa.Table) -> Chunk:
    """The chunk that stores pane rows."""
    bounds = pc.min_max(table["pane"]).as_py()
    if spec.rows is not None:  # how long rows are needed is not a matter of time; compaction leaves out what is not
        return Chunk(owner, PANES, epoch, bounds["min"], FOREVER, table)
    return Chunk(owner, PANES, epoch, spec.panes.start(bounds["min"]), spec.panes.start(bounds["max"] + 1) - 1, table)


def forget(pond_id: str, owners: set[str]) -> None:
    """Drop what is kept for synopses of this pond that no longer exist."""
    for key in [k for k in _kept if k[0] == pond_id and k[1] not in owners]:
        del _kept[key]


def manifest_file(pond: str, epoch: int) -> tuple[int, int] | None:
    """Which file the manifest of an epoch is; None when it has been removed."""
    try:
        status = os.stat(manifest_path(pond, epoch))
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _rounds(spec: PanesSpec, schema: pa.Schema) -> bool:
    """Whether the order in which parts are merged shows in the result, if only in its last bits."""
    return any(
        c.kind in ("moments", "comoments", "frequent", "quantiles", "steps")
        or (c.kind == "add" and c.name in schema.names and pa.types.is_floating(schema.field(c.name).type))
        for c in spec.components
    )


def _from(table: pa.Table, low: int) -> pa.Table:
    if not table.num_rows:
        return table
    mask = pc.greater_equal(table["pane"], low)
    return table if pc.all(mask).as_py() else table.filter(mask)
