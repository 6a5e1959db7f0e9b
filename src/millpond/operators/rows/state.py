"""The state of a synopsis of rows in one shard: what windows that end with rows are made of.

What open windows need (the tail) is kept in memory, folded, so that an epoch costs what its rows cost. Rows behind it,
which late rows may bring back, are kept unfolded as long as they are few; else they are read from files when needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.windowed.stored import KEPT_ROWS, PANES, StoredState
from millpond.progress import FOREVER
from millpond.synopses.row_partials import RowsSpec, fold, together
from millpond.tables import Chunk
from millpond.tables.shard_cache import ShardCache


@dataclass
class _KeptRows:
    """Rows as of the end of an epoch.

    tail: what windows that end at `low` or later need. deep: the same for `deep_low`, in parts; None: not kept.
    files: the state files in it; those that the epoch itself wrote are in it too.
    """

    low: int
    tail: pa.Table
    deep_low: int
    deep: list[pa.Table] | None
    files: frozenset[str] = frozenset()


_kept: ShardCache[_KeptRows] = ShardCache()


@dataclass
class RowState(StoredState[RowsSpec]):
    """Rows of one synopsis in one shard, before and after the epoch's delta; `low` is an instant in microseconds."""

    _rows: _KeptRows | None = field(default=None, init=False)
    _folded: dict[int, pa.Table] = field(default_factory=dict, init=False)
    _joined: tuple[pa.Table, pa.Table, pa.Table] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        kept = None if self.since is not None else self._kept_and_since()
        if kept is not None:
            self._rows = kept
            self._folded[kept.low] = kept.tail

    def _kept_and_since(self) -> _KeptRows | None:
        """What this process keeps, with the rows of epochs that others ran since; None when it keeps nothing of use."""
        found = _kept.get(self.version, self.owner, self.shard)
        if found is None or found.epoch >= self.version.epoch:
            return None
        kept, epoch = found.value, found.epoch
        if epoch == self.version.epoch - 1:
            return kept
        since = [s for s in self.segments if s.path not in kept.files and s.last_epoch > epoch]
        if any(s.level or s.first_epoch <= epoch for s in since):
            return None  # put together across what is kept
        came = self.read(since, None, None)
        deep = None if kept.deep is None else [*kept.deep, *came]
        if deep is not None and sum(p.num_rows for p in deep) > KEPT_ROWS:
            deep = None
        return replace(kept, tail=together([kept.tail, *came]), deep=deep)

    def before(self, low: int) -> pa.Table:
        """What windows that end at `low` or later need of the rows as of the epoch before."""
        if low not in self._folded:
            self._folded[low] = fold(self.db, self.spec, self._source(low), low)
        return self._folded[low]

    def after(self, low: int) -> pa.Table:
        """The same with this epoch's delta."""
        before = self.before(low)
        if self._joined is None or self._joined[0] is not before or self._joined[1] is not self.delta:
            self._joined = before, self.delta, together([before, self.delta])
        return self._joined[2]

    def keep(self, low: int, rewritten: bool) -> None:
        """Keep the state for the next epoch: what windows that end at `low` or later need, and a stretch behind it."""
        at = max((k for k in self._folded if k <= low), default=low)
        tail = fold(self.db, self.spec, self.after(at), low).combine_chunks()
        deep, deep_low = None, low
        if self._rows is not None and self._rows.deep is not None:
            parts = [*self._rows.deep, self.delta] if self.delta.num_rows else self._rows.deep
            if sum(p.num_rows for p in parts) <= KEPT_ROWS:
                deep, deep_low = parts, self._rows.deep_low
        kept = _KeptRows(low, tail, deep_low, deep, frozenset(self.files_named()))
        _kept.put(self.version, self.owner, self.shard, kept)

    def _source(self, low: int) -> pa.Table:
        """Rows that hold at least what is needed from `low` on."""
        rows = self._rows
        if rows is not None and rows.low <= low:
            return rows.tail
        if rows is None or rows.deep is None or rows.deep_low > low:
            since = self.since
            wanted = None if since is None else lambda epoch: epoch < since
            read = together(self.read(self.segments, None, wanted))  # all rows have a say in numbers
            found = fold(self.db, self.spec, read, low)
            self._rows = rows = _KeptRows(low, found, low, [found])
            return found
        return together(rows.deep)


def row_chunk(owner: str, epoch: int, table: pa.Table) -> Chunk:
    """The chunk that stores rows. How long they are needed is not a matter of time; compaction tells."""
    return Chunk(owner, PANES, epoch, pc.min(table["pane"]).as_py(), FOREVER, table)
