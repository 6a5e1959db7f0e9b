"""The pane state of a synopsis in one shard: committed chunks read back, kept in memory by whoever used them last.

A cached table is valid for exactly one epoch of one pond; a repeated or moved task reads the files instead, which gives
the same bytes. So floating sums are added in the order of the files, and forgotten when files are put together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.engine.cuts import without_cut
from millpond.progress import FOREVER
from millpond.synopses import PanesSpec, merge_partials
from millpond.synopses.rows import fold, together
from millpond.tables import Chunk, Segment, read_chunks

#: Rows of a synopsis kept in memory beyond what open windows need.
KEPT_ROWS = 500_000

PANES = "panes"


@dataclass
class _Kept:
    epoch: int
    low: int
    table: pa.Table


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
    _before: _Kept | None = field(default=None, init=False)
    _after: dict[int, pa.Table] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        kept = _kept.get((self.pond_id, self.owner, self.shard))
        if self.since is None and kept is not None and kept.epoch == self.epoch - 1:
            self._before = kept

    def parts(self) -> list[pa.Table]:
        """Stored pane rows from epoch `since` on, with their cuts."""
        since = self.since or 0
        return self._read(None, lambda epoch: epoch >= since)

    def show(self, delta: pa.Table) -> None:
        """Take `delta` as what came since."""
        self.delta = delta
        self._after.clear()

    def before(self, low: int) -> pa.Table:
        """Merged pane rows from pane `low` on, as of the epoch before."""
        if self._before is None or self._before.low > low:
            since = self.since
            wanted = None if since is None else lambda epoch: epoch < since
            self._before = _Kept(self.epoch - 1, low, self._load(low, wanted))
            self._after.clear()
        return self._from(self._before.table, low)

    def after(self, low: int) -> pa.Table:
        """Merged pane rows from pane `low` on, with this epoch's delta."""
        before = self.before(low)
        assert self._before is not None
        held = self._before.low
        if held not in self._after:
            delta = self.delta if self.spec.rows is not None else self._from(self.delta, held)
            parts = [p for p in (self._before.table, delta) if p.num_rows]
            self._after = {held: merge_partials(self.db, self.spec, parts) if parts else before}
        return self._from(self._after[held], low)

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
        _kept[(self.pond_id, self.owner, self.shard)] = _Kept(self.epoch, held, whole)

    def _from(self, table: pa.Table, low: int) -> pa.Table:
        """What is needed from pane `low` on; of rows that takes more than those of later panes."""
        return _from(table, low) if self.spec.rows is None else fold(self.db, self.spec, table, low)

    def _load(self, low: int, wanted: Callable[[int], bool] | None) -> pa.Table:
        if self.spec.rows is not None:  # rows before `low` have a say in numbers
            return fold(self.db, self.spec, together(self._read(None, wanted)), low)
        parts = [_from(without_cut(self.db, self.spec, t), low) for t in self._read(low, wanted)]
        if len(parts) < 2 or not _rounds(self.spec, parts[0].schema):
            return merge_partials(self.db, self.spec, parts)
        # File by file, as epochs did it: floating sums that are added in another order differ in their last bits, and
        # a repeated epoch must give the same bytes.
        table = parts[0]
        for part in parts[1:]:
            table = merge_partials(self.db, self.spec, [table, part])
        return table

    def _read(self, low: int | None, wanted: Callable[[int], bool] | None) -> list[pa.Table]:
        """Stored pane rows, chunk by chunk, of chunks that reach to pane `low` and whose epoch is wanted."""
        since = None if low is None else self.spec.panes.start(low)
        paths = [
            os.path.join(state_folder(self.pond), s.path) for s in self.segments if since is None or s.high >= since
        ]
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


def _rounds(spec: PanesSpec, schema: pa.Schema) -> bool:
    """Whether the order in which parts are merged shows in the result, if only in its last bits."""
    return spec.rows is None and any(
        c.kind in ("moments", "comoments")
        or (c.kind == "add" and c.name in schema.names and pa.types.is_floating(schema.field(c.name).type))
        for c in spec.components
    )


def _from(table: pa.Table, low: int) -> pa.Table:
    if not table.num_rows:
        return table
    mask = pc.greater_equal(table["pane"], low)
    return table if pc.all(mask).as_py() else table.filter(mask)
