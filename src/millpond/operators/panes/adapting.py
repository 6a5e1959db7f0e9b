"""AdaptWID in the engine: per group, whether its rows are kept as partials at once or as tuples first (decision 0035).

Li 2008, section 6.4: a group goes eager when its active tuples weigh more than the partial aggregates of its open
extents (6.9), and back when they weigh clearly less; what it holds then stays until it expires. Over panes an extent is
a pane (6.4.3). The choice is made where an epoch's rows are merged, for the groups that the epoch has rows of, from
what is committed and from the manifest: a repeated epoch chooses the same.

A group's mode is what the newest record says that lies in open panes; without one it is lazy. So a group whose panes
have all expired begins anew, as in the thesis.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.archive.archive_files import row_schema
from millpond.catalog import Catalog, Standing, Synopsis
from millpond.catalog.unions import progress_of
from millpond.manifests.places import state_folder
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest
from millpond.operators.panes.forms import Forms, aggregated, codes_of, keeps_lists, row_bytes, tuples_of
from millpond.operators.panes.state import PaneState
from millpond.operators.windowed.needs import needed_since
from millpond.operators.windowed.window_progress import WindowProgress, answered
from millpond.progress import NEVER, StreamProgress
from millpond.support.distinct import distinct, is_among
from millpond.synopses import PanesSpec
from millpond.synopses.pane_partials import group_codes
from millpond.synopses.partials.late_exclusions import merge_cuts
from millpond.synopses.partials.specs import joined_stream
from millpond.tables import Chunk, Segment, read_chunks
from millpond.tables.shard_cache import ShardCache, Version
from millpond.types import KindWindow, WindowQuery
from millpond.windows import first_end_after
from millpond.windows.pane_layout import FAR, KindPanes
from millpond.windows.registered import axis_of

#: Chunks of state that say which groups are eager.
MODES = "modes"

#: A group goes back to tuples when it holds fewer than so many of those that it goes eager with (Li 2008, 6.4.2).
GAP = 0.75

#: A group without any key: all rows are of one group.
ALL = "all_"

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Condition:
    """Condition (6.9) as it stands in an epoch.

    aggr, tup: bytes of a partial and of a tuple. wed: how long an extent lasts, microseconds: RANGE, and what the high
        watermark is ahead of progress, since that long a window waits for its punctuation. width: of a pane. Of windows
        of a registered kind: how many are open, and 1.

    Of several sources the one furthest ahead makes the high watermark, and the one furthest behind the progress: the
    offsets between them are in `wed`. The tuples that a lagging source has not delivered are not counted, which is the
    sum of volumes times offsets in (6.7): (6.9) stands here with that sum on its left side.

    >>> condition = Condition(aggr=60, tup=20, wed=300, width=60)
    >>> condition.upper, condition.lower
    (15.0, 11.25)
    """

    aggr: int
    tup: int
    wed: int
    width: int

    @property
    def upper(self) -> float:
        """With more active tuples a group goes eager."""
        return self.aggr * self.wed / (self.tup * self.width)

    @property
    def lower(self) -> float:
        """With fewer active tuples an eager group goes back."""
        return GAP * self.upper

    def eager(self, active: Ints, was: Flags) -> Flags:
        """Which groups are eager, given their active tuples and whether they were."""
        return np.where(was, active >= self.lower, active > self.upper)


def condition_of(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    queries: Sequence[WindowQuery],
    known: StreamProgress,
    tuples: pa.Schema,
) -> Condition | None:
    """The condition for a synopsis; None where nothing is to be chosen.

    Arguments:
        queries: that it serves. known: progress of what feeds it before the epoch. tuples: as they are kept.
    """
    if spec.form != "adaptive" or not queries or keeps_lists(spec):
        return None
    aggr, tup = row_bytes(aggregated(db, spec, tuples.empty_table()).schema), row_bytes(tuples)
    if isinstance(spec.panes, KindPanes):
        return Condition(aggr, tup, _open_windows(spec.panes.kind, known), 1)
    longest = max(w.range for q in queries for w in q.windows)
    slide = min(q.window.slide for q in queries)
    ahead = known.high - known.bound if known.high > NEVER and known.bound > NEVER else 0
    return Condition(aggr, tup, max(slide, longest + max(0, ahead)), spec.panes.width)


def _open_windows(kind: str, known: StreamProgress) -> int:
    """How many windows of a kind are open: from the first that progress has not passed to the newest row's."""
    if known.high <= NEVER:
        return 1
    axis = axis_of(kind)
    held = axis.held(known.high // axis.grid * axis.grid)
    newest = held[-1] if len(held) else axis.ended(known.high)
    return max(1, newest + 1 - axis.ended(known.high if known.bound <= NEVER else min(known.high, known.bound)))


@dataclass(frozen=True)
class Modes:
    """Which groups are eager: columns k*, epoch, until (the end of its newest pane then, microseconds), eager."""

    table: pa.Table

    def latest(self, db: duckdb.DuckDBPyConnection, spec: PanesSpec, since: int) -> pa.Table:
        """Of each group the newest record, of those whose panes reach beyond `since`."""
        table = self.table
        if not table.num_rows:
            return table
        table = table.filter(pc.greater(table["until"], since))
        if table.num_rows < 2:
            return table
        codes, epochs = group_codes(db, spec, table), table["epoch"].to_numpy()
        order = np.lexsort((epochs, codes))
        last = np.flatnonzero(np.r_[codes[order][1:] != codes[order][:-1], True])
        return table.take(pa.array(np.sort(order[last])))


@dataclass(frozen=True)
class Adapted:
    """An epoch's rows in the forms that were chosen, and the record of the choice."""

    forms: Forms
    record: pa.Table | None


def adapt(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    condition: Condition,
    forms: Forms,
    held: pa.Table,
    modes: pa.Table,
    epoch: int,
) -> Adapted:
    """Choose for the groups of an epoch, and bring its rows into their forms.

    Arguments:
        forms: the epoch's rows. held: merged pane rows of open panes before the epoch. modes: see `Modes.latest`.
    """
    if not forms.tables:
        return Adapted(forms, None)
    tables = [forms.partials, forms.tuples, held, modes]
    codes = codes_of(db, spec, tables)
    of_partials, of_tuples, of_held, of_modes = codes
    mine = distinct(np.concatenate([of_partials, of_tuples]))
    size = 1 + max((int(c.max()) for c in codes if len(c)), default=0)
    active = np.bincount(of_tuples, minlength=size).astype(np.int64)
    for table, of in ((forms.partials, of_partials), (held, of_held)):
        if len(of):
            active += np.bincount(of, table["n"].to_numpy(), size).astype(np.int64)
    was = np.zeros(size, bool)
    if len(of_modes):
        was[of_modes] = modes["eager"].to_numpy(zero_copy_only=False)
    present = np.zeros(size, bool)
    present[of_held] = True
    was &= present  # all its panes have expired: it begins anew
    eager = np.zeros(size, bool)
    eager[mine] = condition.eager(active[mine], was[mine])
    changed = Forms(forms.partials, forms.tuples)
    moving = eager[of_tuples] if len(of_tuples) else np.zeros(0, bool)
    if moving.any():
        grown = aggregated(db, spec, forms.tuples.filter(pa.array(moving)))
        changed = Forms(merge_cuts(db, spec, [forms.partials, grown]), forms.tuples.filter(pa.array(~moving)))
    noted = mine[eager[mine] | was[mine]]
    record = _record(spec, forms, (of_partials, of_tuples), noted, eager, epoch) if len(noted) else None
    return Adapted(changed, record)


def _record(spec: PanesSpec, forms: Forms, codes: tuple[Ints, Ints], noted: Ints, eager: Flags, epoch: int) -> pa.Table:
    """The record of groups: k*, epoch, until, eager."""
    names = ["pane", *spec.key_names]
    parts = [t.select(names) for t in (forms.partials, forms.tuples) if t.num_rows]
    rows = pa.concat_tables(parts, promote_options="permissive")
    of = np.concatenate([c for c, t in zip(codes, (forms.partials, forms.tuples), strict=True) if t.num_rows])
    order = np.lexsort((rows["pane"].to_numpy(), of))
    last = order[np.flatnonzero(np.r_[of[order][1:] != of[order][:-1], True])]
    chosen = last[is_among(of[last], noted)]
    found = rows.take(pa.array(chosen))
    until = found["pane"].to_numpy() + 1
    ends = spec.panes.ends(until)
    table = found.select(list(spec.key_names)) if spec.keys else pa.table({ALL: pa.array([True] * len(chosen))})
    for name, column in (
        ("epoch", np.full(len(chosen), epoch, np.int64)),
        ("until", ends.astype(np.int64)),
        ("eager", eager[of[chosen]]),
    ):
        table = table.append_column(name, pa.array(column))
    return table


# --- records in state files ------------------------------------------------------------------------------------------


_kept: ShardCache[Modes] = ShardCache()


def modes_before(version: Version, segments: Sequence[Segment], shard: int, owner: str, since: int) -> Modes:
    """The records of a synopsis in a shard before an epoch, at least those that reach beyond `since`."""
    held = _kept.get(version, owner, shard)
    if held is not None and held.epoch == version.epoch - 1:
        return held.value
    return recorded(version.pond, segments, owner, since)


def recorded(pond: str, segments: Sequence[Segment], owner: str, since: int) -> Modes:
    """The records in state files that may reach beyond `since`."""
    paths = [os.path.join(state_folder(pond), s.path) for s in segments if s.high >= since]
    chunks = read_chunks(paths, {owner}, lambda _o, kind, _e, _l, high: kind == MODES and high >= since)
    parts = [c.table for c in chunks]
    return Modes(pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({}))


def keep_modes(
    db: duckdb.DuckDBPyConnection,
    version: Version,
    shard: int,
    owner: str,
    spec: PanesSpec,
    modes: Modes,
    record: pa.Table | None,
    since: int,
) -> None:
    """Keep the records for the next epoch in this process."""
    parts = [t for t in (modes.table, record) if t is not None and t.num_rows]
    table = pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})
    latest = Modes(table).latest(db, spec, since)
    _kept.put(version, owner, shard, Modes(latest))


def _answered(known: QueryProgress) -> int:
    return answered(known.read(WindowProgress))


def first_open(
    synopsis: Synopsis, catalog: Catalog, queries: Mapping[str, QueryProgress], failures: Failures
) -> int | None:
    """The first pane of the first open window of a synopsis; None while no query answers."""

    def of_query(standing: Standing) -> int:
        query, known = standing.definition.query, queries[str(standing.id)].read(WindowProgress)
        assert isinstance(query, WindowQuery)
        window, until = query.window, answered(known)
        if isinstance(window, KindWindow):  # windows are panes
            return max(-FAR, synopsis.spec.panes.pane(until))
        start = first_end_after(window, until) - window.range if until > NEVER else NEVER
        return max(-FAR, synopsis.spec.panes.pane(start))

    users = [q for q in catalog.users(synopsis.owner) if q.status == "live" and str(q.id) in queries]
    users = [q for q in users if isinstance(q.definition.query, WindowQuery)]
    return min(failures.each(users, of_query, -FAR), default=None)


def current(
    db: duckdb.DuckDBPyConnection, catalog: Catalog, synopsis: Synopsis, known: StreamProgress
) -> Condition | None:
    """The condition as it stands, for what a synopsis serves."""
    spec = synopsis.spec
    if not isinstance(spec, PanesSpec) or spec.form != "adaptive":
        return None
    rows = row_schema(joined_stream(catalog.streams[spec.stream], spec.lookup))
    tuples = tuples_of(db, spec, rows.empty_table()).schema
    queries = [q.definition.query for q in catalog.served(synopsis.owner)]
    return condition_of(db, spec, [q for q in queries if isinstance(q, WindowQuery)], known, tuples)


def choose(
    db: duckdb.DuckDBPyConnection,
    manifest: Manifest,
    catalog: Catalog,
    synopsis: Synopsis,
    panes: PaneState,
    failures: Failures,
) -> list[Chunk]:
    """Choose the forms of an epoch's rows, which `panes` has; the record of it as what is to be stored."""
    spec, owner = synopsis.spec, synopsis.owner
    low = first_open(synopsis, catalog, manifest.queries, failures)
    condition = current(db, catalog, synopsis, progress_of(catalog, spec, manifest.progress))
    if condition is None or low is None or panes.forms is None or not isinstance(spec, PanesSpec):
        return []
    since = spec.panes.start(low)
    known = modes_before(panes.version, panes.segments, panes.shard, owner, since)
    latest = known.latest(db, spec, since)
    chosen = adapt(db, spec, condition, panes.forms, panes.before(low), latest, manifest.epoch)
    needed = needed_since(manifest, catalog, synopsis, _answered, failures)  # before it their files may be gone
    keep_modes(db, panes.version, panes.shard, owner, spec, known, chosen.record, needed)
    panes.forms = chosen.forms
    every = [t for t in (latest, chosen.record) if t is not None and t.num_rows]
    if every:
        after = Modes(pa.concat_tables(every, promote_options="permissive")).latest(db, spec, since)
        panes.eager = after.filter(after["eager"])
    return [] if chosen.record is None else [mode_chunk(owner, manifest.epoch, chosen.record)]


def mode_chunk(owner: str, epoch: int, record: pa.Table) -> Chunk:
    """The chunk that stores a record; it is needed as long as the panes that it is about are open."""
    ends = pc.min_max(record["until"]).as_py()
    return Chunk(owner, MODES, epoch, ends["min"] - 1, ends["max"] - 1, record)


def put_together(
    db: duckdb.DuckDBPyConnection,
    manifest: Manifest,
    catalog: Catalog,
    synopsis: Synopsis,
    group: Sequence[Chunk],
    failures: Failures,
) -> list[Chunk]:
    """Records of several files as one, without those of which no pane is open any more."""
    low = first_open(synopsis, catalog, manifest.queries, failures)
    table = pa.concat_tables([c.table for c in group], promote_options="permissive")
    assert isinstance(synopsis.spec, PanesSpec)
    since = NEVER if low is None else synopsis.spec.panes.start(low)
    latest = Modes(table).latest(db, synopsis.spec, since)
    return [mode_chunk(synopsis.owner, max(c.epoch for c in group), latest)] if latest.num_rows else []


def eager_groups(
    db: duckdb.DuckDBPyConnection,
    pond: str,
    manifest: Manifest,
    catalog: Catalog,
    synopsis: Synopsis,
    shard: int,
    failures: Failures,
) -> pa.Table | None:
    """Keys of the groups of a shard that were eager before an epoch, from the files; None where nothing is chosen."""
    low = first_open(synopsis, catalog, manifest.queries, failures)
    if not isinstance(synopsis.spec, PanesSpec) or synopsis.spec.form != "adaptive" or low is None:
        return None
    since = synopsis.spec.panes.start(low)
    segments = [s for s in manifest.state if s.shard == shard]
    latest = recorded(pond, segments, synopsis.owner, since).latest(db, synopsis.spec, since)
    return latest.filter(latest["eager"]) if latest.num_rows else None
