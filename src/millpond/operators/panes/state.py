"""The pane state of a synopsis in one shard: committed chunks read back, kept in memory by whoever used them last.

A kept table holds what was there after one epoch of one pond. A task of a later epoch adds the files of the epochs
since; a repeated one, or one that finds files put together across that epoch, reads the files instead. Both give the
same bytes: floating sums are added in the order of the files, and forgotten when files are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.panes.forms import TUPLES, Forms, are_tuples, as_partials, keeps_lists, settled
from millpond.operators.panes.prefixes import fold_prefix
from millpond.operators.windowed.stored import KEPT_ROWS, PANES, StoredState
from millpond.synopses import PanesSpec, merge_partials
from millpond.synopses.partials.late_exclusions import CUT, without_cut
from millpond.tables import Chunk, Segment
from millpond.tables.shard_cache import ShardCache
from millpond.windows.pane_layout import FAR


@dataclass
class _Kept:
    """Merged pane rows from pane `low` on, as of the end of an epoch, in both forms.

    files: the state files in it, with the end of their event time; the files that the epoch itself wrote are in it too.
    """

    low: int
    forms: Forms
    files: dict[str, int]


_kept: ShardCache[_Kept] = ShardCache()


@dataclass
class PaneState(StoredState[PanesSpec]):
    """Pane rows of one synopsis in one shard, before and after the epoch's delta.

    Args:
        forms: the delta in the forms that are stored. settled: see `prefixes.fold_prefix`.
        eager: keys of groups that are kept as partials (see `adapting`).
    """

    forms: Forms | None = None
    settled: int = -FAR
    eager: pa.Table | None = None
    _before: _Kept | None = field(default=None, init=False)
    _with_delta: tuple[_Kept, Forms] | None = field(default=None, init=False)
    _views: dict[tuple[str, int], pa.Table] = field(default_factory=dict, init=False)

    def parts(self) -> list[pa.Table]:
        """See `StoredState`: as partials."""
        since = self.since or 0
        stored = self._read(self.segments, None, lambda epoch: epoch >= since)
        return stored if self.spec.form == "eager" else [as_partials(self.db, self.spec, t) for t in stored]

    def show(self, delta: pa.Table) -> None:
        """See `StoredState`."""
        self.delta, self.forms, self._with_delta = delta, None, None
        self._views.clear()

    def before(self, low: int) -> pa.Table:
        """Merged pane rows from pane `low` on, as of the epoch before."""
        if self._before is None and self.since is None:
            self._before = self._caught_up(low)
        if self._before is None or self._before.low > low:
            since = self.since
            wanted = None if since is None else lambda epoch: epoch < since
            self._before = self._as_of_before(low, self._load(low, wanted))
            self._views.clear()
        return self._view("before", self._before.forms, low)

    def _view(self, name: str, forms: Forms, low: int) -> pa.Table:
        """Pane rows of both forms as partials, from pane `low` on."""
        if not forms.tuples.num_rows:
            return _from(forms.partials, low)
        if (name, low) not in self._views:
            tuples = _from(forms.tuples, low)
            parts = [_from(forms.partials, low), as_partials(self.db, self.spec, tuples)]
            self._views[name, low] = merge_partials(self.db, self.spec, parts)
        return self._views[name, low]

    def _as_of_before(self, low: int, forms: Forms) -> _Kept:
        return _Kept(low, forms, self.files_named())

    def rewrites(self, files: Mapping[str, int], low: int, schema: pa.Schema) -> bool:
        """Whether reading gives other bytes from pane `low` on than when `files` were there.

        Arguments:
            schema: of pane rows of the synopsis. Files that are gone were put together, or expired.
        """
        if not _rounds(self.spec, schema):
            return False
        left = self.files_named()
        return any(path not in left and self.spec.panes.pane(high) >= low for path, high in files.items())

    def _caught_up(self, wanted: int) -> _Kept | None:
        """What this process keeps, with the files of the epochs since; None when it keeps nothing of use from pane
        `wanted` on."""
        found = _kept.get(self.version, self.owner, self.shard)
        if found is None or found.epoch >= self.version.epoch:
            return None
        kept, epoch = found.value, found.epoch
        low, panes = kept.low, self.spec.panes
        if any(_rounds(self.spec, t.schema) for t in kept.forms.tables):
            # Files that are gone were put together or expired: their panes are no longer what reading gives.
            left = self.files_named()
            low = max([low, *(panes.pane(high) + 1 for path, high in kept.files.items() if path not in left)])
        if low > wanted:
            return None
        since: list[Segment] = []
        for segment in self.segments:
            if segment.path in kept.files or segment.high < panes.start(low) or segment.last_epoch <= epoch:
                continue  # a file that is not named and not younger was made of ones that are, or by the epoch itself
            if segment.level or segment.first_epoch <= epoch:
                return None
            since.append(segment)
        if not since:
            return self._as_of_before(low, kept.forms)
        parts = [_from(kept.forms.partials, low), _from(kept.forms.tuples, low), *self._rows_of(since, low, None)]
        return self._as_of_before(low, self._merged(parts))

    def after(self, low: int) -> pa.Table:
        """Merged pane rows from pane `low` on, with this epoch's delta."""
        if self._before is None or self._before.low > low:
            self.before(low)
        return self._view("after", self._after(), low)

    def _after(self) -> Forms:
        """All that is held, with this epoch's delta."""
        assert self._before is not None
        held, before = self._before.low, self._before.forms
        if self._with_delta is None or self._with_delta[0] is not self._before:
            new = self.forms or Forms(self.delta, pa.table({}))
            parts = [t for t in (before.partials, _from(new.partials, held)) if t.num_rows]
            partials = merge_partials(self.db, self.spec, parts) if parts else before.partials
            self._with_delta = self._before, Forms(partials, _together([before.tuples, _from(new.tuples, held)]))
        return self._with_delta[1]

    def keep(self, low: int, rewritten: bool) -> None:
        """Keep the state for the next epoch, at least from pane `low` on.

        Arguments:
            rewritten: this epoch puts state files together, so that reading them would add in another order.
        """
        if self._before is None or self._before.low > low:
            self.before(low)
        whole = self._after()
        rounds = any(_rounds(self.spec, t.schema) for t in (*whole.tables, self.delta))
        if rewritten and rounds:
            return
        assert self._before is not None
        held = self._before.low
        if sum(t.num_rows for t in whole.tables) > KEPT_ROWS and held < low:
            held, whole = low, Forms(_from(whole.partials, low), _from(whole.tuples, low))
        if whole.tuples.num_rows and not rounds and not keeps_lists(self.spec):  # else the order of the files counts
            whole = settled(self.db, self.spec, [whole.partials], [whole.tuples], self.eager)
        if rewritten:
            whole = Forms(fold_prefix(self.db, self.spec, whole.partials, self.settled), whole.tuples)
        _kept.put(self.version, self.owner, self.shard, _Kept(held, whole, self.files_named()))

    def _load(self, low: int, wanted: Callable[[int], bool] | None) -> Forms:
        return self._merged(self._rows_of(self.segments, low, wanted))

    def _merged(self, tables: list[pa.Table]) -> Forms:
        """Tables, in order of their epochs: one partial per (pane, group), and the tuples."""
        tuples = _together([t for t in tables if are_tuples(t)])
        return Forms(self._merged_partials([t for t in tables if not are_tuples(t)]), tuples)

    def _merged_partials(self, parts: list[pa.Table]) -> pa.Table:
        if len(parts) < 2 or not any(_rounds(self.spec, p.schema) for p in parts):
            return merge_partials(self.db, self.spec, parts)
        # File by file, as epochs did it: floating sums that are added in another order differ in their last bits, and
        # a repeated epoch must give the same bytes.
        table = parts[0]
        for part in parts[1:]:
            table = merge_partials(self.db, self.spec, [table, part])
        return table

    def _rows_of(self, segments: Sequence[Segment], low: int, wanted: Callable[[int], bool] | None) -> list[pa.Table]:
        return [_from(self._uncut(t), low) for t in self._read(segments, low, wanted)]

    def _uncut(self, rows: pa.Table) -> pa.Table:
        if not are_tuples(rows):
            return without_cut(self.db, self.spec, rows)
        return rows.drop_columns([CUT]) if CUT in rows.column_names else rows

    def _read(
        self, segments: Sequence[Segment], low: int | None, wanted: Callable[[int], bool] | None
    ) -> list[pa.Table]:
        """Stored pane rows, chunk by chunk, of chunks that reach to pane `low` and whose epoch is wanted."""
        since = None if low is None else self.spec.panes.start(low)
        return self.read(segments, since, wanted, (PANES, TUPLES))


def pane_chunk(owner: str, spec: PanesSpec, epoch: int, table: pa.Table) -> Chunk:
    """The chunk that stores pane rows of either form."""
    bounds = pc.min_max(table["pane"]).as_py()
    kind = TUPLES if are_tuples(table) else PANES
    return Chunk(owner, kind, epoch, spec.panes.start(bounds["min"]), spec.panes.start(bounds["max"] + 1) - 1, table)


def _rounds(spec: PanesSpec, schema: pa.Schema) -> bool:
    """Whether the order in which parts are merged shows in the result, if only in its last bits."""
    return any(
        c.kind in ("moments", "comoments", "frequent", "quantiles", "steps", "product", "states")
        or (c.kind == "add" and c.name in schema.names and pa.types.is_floating(schema.field(c.name).type))
        for c in spec.components
    )


def _together(tables: list[pa.Table]) -> pa.Table:
    some = [t for t in tables if t.num_rows]
    return pa.concat_tables(some, promote_options="permissive") if some else pa.table({})


def _from(table: pa.Table, low: int) -> pa.Table:
    if not table.num_rows:
        return table
    panes = table["pane"]
    return table if pc.min(panes).as_py() >= low else table.filter(pc.greater_equal(panes, low))
