"""The state of a synopsis of sessions in one shard: the rows of sessions that are not final.

Sessions that are not over (the tail) are kept in memory, put together, so that an epoch costs what they and its rows
cost. Those that are over, which late rows may bring back, are kept beside them as long as they are few; else they are
read from files when needed.

Files hold what epochs brought (`PANES`). When files that were put together before are put together again, all that is
not final is written once more as a whole (`WHOLE`), in the place of what epochs up to then had brought, in whatever
file: so state is bounded by what is not final, and nobody has to know which part of a session another file holds.

Rows that were put together are floating sums, too, and these depend in their last bits on what was added to what. So
state is put together in one way, epoch by epoch, whether a process has kept it or reads it from files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.places import state_folder
from millpond.operators.windowed.stored import KEPT_ROWS, PANES, StoredState
from millpond.progress import FOREVER, NEVER
from millpond.synopses.row_partials import touched
from millpond.synopses.session_partials import (
    Sealed,
    SessionsSpec,
    parted,
    stack,
    step,
    torn_in,
)
from millpond.tables import Chunk, Segment, read_chunks
from millpond.tables.shard_cache import ShardCache

#: Chunks of state that are all rows that were not final after their epoch.
WHOLE = "whole"


@dataclass
class _Kept:
    """Sessions as of the end of an epoch.

    tail: rows of those that end at `low` or later. over: rows of the others that end at `deep_low` or later; None: they
    are not kept. trimmed: how many rows `over` had when final ones were left out last. files: the state files in it;
    those that the epoch itself wrote are in it too.
    """

    low: int
    tail: pa.Table
    deep_low: int
    over: pa.Table | None
    trimmed: int = 0
    files: frozenset[str] = frozenset()


_kept: ShardCache[_Kept] = ShardCache()


@dataclass
class SessionState(StoredState[SessionsSpec]):
    """Rows of one synopsis in one shard, before and after the epoch's delta; `low` is an instant in microseconds.

    floor: sessions that end before it are final.
    """

    floor: int = NEVER
    _known: _Kept | None = field(default=None, init=False)
    _before: dict[int, pa.Table] = field(default_factory=dict, init=False)
    _after: tuple[int, pa.Table, pa.Table] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.since is None and (found := _kept.get(self.version, self.owner, self.shard)) is not None:
            self._known = self._with_others(found.epoch, found.value)
        if self._known is not None:
            self._before[self._known.low] = self._known.tail

    def _with_others(self, epoch: int, kept: _Kept) -> _Kept | None:
        """What this process keeps, with the rows of epochs that others ran since; None when it is of no use."""
        if epoch >= self.version.epoch or kept.files - self.files_named().keys():
            return None  # files that are gone were put together, and sums with them
        if epoch == self.version.epoch - 1:
            return kept
        came = [s for s in self.segments if s.path not in kept.files and s.last_epoch > epoch]
        if any(s.level or s.first_epoch <= epoch for s in came):
            return None  # put together across what is kept
        found: _Kept | None = kept
        for rows in tables_of(self.chunks(came)):
            found = None if found is None else self._grown(found, rows)
        return found

    def chunks(
        self,
        segments: Sequence[Segment],
        wanted: Callable[[int], bool] | None = None,
        kinds: tuple[str, ...] = (PANES, WHOLE),
    ) -> list[Chunk]:
        """What is stored in some files, of epochs that are wanted."""
        paths = [os.path.join(state_folder(self.version.pond), s.path) for s in segments]
        return list(
            read_chunks(
                paths,
                {self.owner},
                lambda _owner, kind, epoch, _low, _high: kind in kinds and (wanted is None or wanted(epoch)),
            )
        )

    def before(self, low: int) -> pa.Table:
        """Rows of the sessions that end at `low` or later, as of the epoch before."""
        if low not in self._before:
            self._before[low] = parted(self.db, self.spec, self._source(low), low)[1]
        return self._before[low]

    def after(self, low: int) -> pa.Table:
        """The same with this epoch's delta."""
        before = self.before(low)
        if self._after is None or self._after[0] != low or self._after[1] is not self.delta:
            self._after = low, self.delta, stack([before, self.delta])
        return self._after[2]

    def keep(self, low: int, rewritten: bool) -> None:
        """Keep what there is for the next epoch. low: from when on sessions are not over."""
        if rewritten:
            return  # what is put together in files is read by all alike
        self._source(low)
        assert self._known is not None
        grown = self._grown(self._known, self.delta)
        if grown is not None:
            _kept.put(self.version, self.owner, self.shard, self._moved(grown, low))

    def _grown(self, kept: _Kept, rows: pa.Table) -> _Kept | None:
        """What is kept with the rows of an epoch; None when these concern what is not kept."""
        if not rows.num_rows:
            return kept
        tail, over, first = kept.tail, kept.over, pc.min(rows["pane"]).as_py()
        if not self.spec.drops and first < kept.low:
            # What a torn row may meet behind what is kept makes no difference.
            whole = rows["pane"].to_numpy()[torn_in(rows) == 0]
            if over is None or whole.min(initial=FOREVER) < kept.deep_low:
                return None
            late = touched(self.db, self.spec.spread, rows.filter(pc.less(rows["pane"], kept.low)), over)
            tail, over = stack([over.filter(pa.array(late)), tail]), over.filter(pa.array(~late))
        came = step(self.db, self.spec, Sealed(rows.slice(0, 0), tail), rows, FOREVER)
        return replace(kept, tail=came.rows, over=over)

    def _moved(self, kept: _Kept, low: int) -> _Kept:
        """What is kept when sessions that end before `low` are over."""
        ended, tail = parted(self.db, self.spec, kept.tail, low)
        over, deep_low, trimmed = None, kept.deep_low, kept.trimmed
        if kept.over is not None and not self.spec.drops:
            over = stack([kept.over, ended])
            if over.num_rows > 2 * trimmed + 1000 and self.floor > NEVER:
                over = parted(self.db, self.spec, over, self.floor)[1]
                deep_low, trimmed = max(deep_low, self.floor), over.num_rows
            over = over if over.num_rows <= KEPT_ROWS else None
        files = frozenset(self.files_named())
        return _Kept(low, tail.combine_chunks(), deep_low, over, trimmed, files)

    def _source(self, low: int) -> pa.Table:
        """Rows of at least the sessions that end at `low` or later."""
        known = self._known
        if known is not None and known.low <= low:
            return known.tail
        if known is None or known.over is None or known.deep_low > low:
            self._known = known = _Kept(low, self._read(low), low, pa.table({}))
            return known.tail
        return stack([known.over, known.tail])

    def _read(self, low: int) -> pa.Table:
        """Rows of the sessions that end at `low` or later, from files."""
        since, found = self.since, Sealed(pa.table({}), pa.table({}))
        wanted = None if since is None else lambda epoch: epoch < since
        for rows in tables_of(self.chunks(self.segments, wanted)):
            found = step(self.db, self.spec, found, rows, low)
        return parted(self.db, self.spec, found.rows, low)[1]


def session_chunk(owner: str, epoch: int, table: pa.Table, kind: str = PANES) -> Chunk:
    """The chunk that stores rows. How long they are needed is not a matter of their own time; compaction tells."""
    return Chunk(owner, kind, epoch, pc.min(table["pane"]).as_py(), FOREVER, table)


def living(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks that count, in order: the last one that is a whole, and what later epochs brought."""
    covered = max((c.epoch for c in chunks if c.kind == WHOLE), default=None)
    if covered is None:
        return list(chunks)
    whole = next(c for c in chunks if c.kind == WHOLE and c.epoch == covered)
    return [whole, *(c for c in chunks if c.kind == PANES and c.epoch > covered)]


def tables_of(chunks: Sequence[Chunk]) -> list[pa.Table]:
    """The rows of the chunks that count."""
    return [c.table for c in living(chunks)]
