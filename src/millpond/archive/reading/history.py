"""All segments x one synopsis: the job that back-fill and ad hoc queries share, with the kernel of live epochs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.segments import archive_folder, read_rows, row_schema
from millpond.catalog.unions import entering, own_names
from millpond.manifests.records import QueryProgress
from millpond.operators.windowed.catching_up import catch_up
from millpond.operators.windowed.group_bounds import GroupBounds
from millpond.operators.windowed.lookups import joined_rows, of_stream, tolerant_join
from millpond.sources.own_marks import counted
from millpond.synopses import PanesSpec, connection, merge_partials, partial
from millpond.synopses.partials.late_exclusions import CUT, merge_cuts, without_cut
from millpond.synopses.partials.shards import cut
from millpond.synopses.tolerance import tolerant_partial
from millpond.tables import Segment
from millpond.tables.chunks import pack
from millpond.tables.executors import Parcel
from millpond.types import BoundQuery, QueryOptions, StreamDefinition
from millpond.windows.panes import WHOLE

if TYPE_CHECKING:
    from millpond.engine.core import Core

#: Rows that one map task of a history job reads at a time.
ROWS_AT_ONCE = 1_000_000

#: Rows of the archive that are good enough for one task; more are spread over several.
ROWS_PER_TASK = 4_000_000


@dataclass(frozen=True)
class Range:
    """Which rows of an archive a history job reads: event times low <= t < high, epochs from `first` to `epoch`."""

    low: int | None = None
    high: int | None = None
    epoch: int | None = None
    first: int | None = None


def segments_in(segments: Sequence[Segment], wanted: Range) -> list[Segment]:
    """The segments that can hold rows of a range, in order of time."""
    return sorted(
        (
            s
            for s in segments
            if (wanted.low is None or s.high >= wanted.low)
            and (wanted.high is None or s.low < wanted.high)
            and (wanted.epoch is None or s.first_epoch <= wanted.epoch)
            and (wanted.first is None or s.last_epoch >= wanted.first)
        ),
        key=lambda s: (s.low, s.path),
    )


def tasks_of(segments: Sequence[Segment], most: int) -> list[list[Segment]]:
    """Segments grouped into tasks: few, so that a core stays free, and none without work."""
    rows = sum(s.rows for s in segments)
    count = max(1, min(most, -(-rows // ROWS_PER_TASK))) if segments else 0
    tasks: list[list[Segment]] = [[] for _ in range(count)]
    size = 0
    for segment in segments:
        tasks[min(count - 1, size * count // max(rows, 1))].append(segment)
        size += segment.rows
    return [t for t in tasks if t]


def fed_tasks(
    core: Core, streams: Sequence[StreamDefinition], wanted: Range | Sequence[Range]
) -> tuple[list[tuple[int, list[Segment]]], int, int | None]:
    """Map tasks over the archives of one stream, or of those of a union.

    Returns: (place of the stream, its segments) of each task, rows in all, and the event time below which retention had
    removed rows of any (None: it had not). Call it while the core is pinned.

    wanted: the rows to read, of all streams or of each.
    """
    tasks: list[tuple[int, list[Segment]]] = []
    rows, gone = 0, []
    for place, stream in enumerate(streams):
        kept, removed = core.streams[stream.id].archive.snapshot
        segments = segments_in(kept, wanted if isinstance(wanted, Range) else wanted[place])
        rows += sum(s.rows for s in segments)
        gone += [] if removed is None else [removed]
        tasks += [(place, t) for t in tasks_of(segments, max(1, (core.executor.cores - 1) // len(streams)))]
    return tasks, rows, max(gone, default=None)


def batches(
    pond: str,
    stream: StreamDefinition,
    segments: Sequence[Segment],
    wanted: Range,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """Rows of a range, file by file, in bounded batches."""
    schema = row_schema(stream)
    names = None if columns is None else [*columns, "_id", "_epoch", "_bound", stream.options.time]
    folder = archive_folder(pond, stream)
    for segment in segments:
        rows = read_rows(
            [os.path.join(folder, segment.path)], schema, names, stream.options.time, wanted.low, wanted.high
        )
        if wanted.epoch is not None and segment.last_epoch > wanted.epoch:
            rows = rows.filter(pc.less_equal(rows["_epoch"], wanted.epoch))
        for at in range(0, rows.num_rows, ROWS_AT_ONCE):
            yield rows.slice(at, ROWS_AT_ONCE)


def map_history(
    pond: str,
    stream: StreamDefinition,
    segments: Sequence[Segment],
    wanted: Range,
    spec: PanesSpec,
    owner: str,
    shards: int,
    task: int,
    strict: bool = False,
    first: StreamDefinition | None = None,
    tables: Callable[[Sequence[str]], Iterator[pa.Table]] | None = None,
    letters: list[pa.Table] | None = None,
) -> Iterator[Parcel]:
    """Map task: partials of one synopsis over archive segments. On a stream that drops late rows they carry `cut`.

    first: of a union, the stream by whose names the synopsis knows its columns.
    tables: reads the rows with these columns, by a reduced scan, say; None: those of `segments`.

    Rows on which an expression fails are left out as they are live; `strict`: they make the query fail.
    letters: gets them, with their `_reason`, and of their columns those that the synopsis needs.
    """
    db = connection()
    by_cut = stream.options.late == "drop" and spec.panes.width < WHOLE and not spec.feeds
    parts = []
    first = stream if first is None else first
    schema = row_schema(first)
    columns = own_names(spec, stream, spec.columns_of(first))
    for read in batches(pond, stream, segments, wanted, columns) if tables is None else tables(columns):
        rows = entering(counted(read, stream.options) if by_cut else read, spec, stream.id, schema)
        own = rows.column_names
        if spec.lookup is not None and strict:
            rows = joined_rows(pond, rows, spec.lookup, spec.time)
        elif spec.lookup is not None:
            rows, failed = tolerant_join(pond, rows, spec.lookup, spec.time)
            if letters is not None and failed is not None:
                letters.append(failed)
        extra = f"_bound AS {CUT}" if by_cut else ""
        if strict:
            table = partial(db, spec, rows, extra)
        else:
            table, failed = tolerant_partial(db, spec, rows, extra)
            if letters is not None and (failed := of_stream(failed, own)) is not None:
                letters.append(failed)
        if not table.num_rows:
            continue
        if not by_cut:
            parts.append(table)
            continue
        if spec.rows is not None and not spec.rows.range:  # a late row has no number, and nothing else counts here
            table = table.filter(pc.is_null(table[CUT])).drop_columns([CUT])
        for shard, part in cut(db, spec, owner, table, shards):
            yield Parcel(shard, owner, task, pack(part))
    if parts:
        for shard, part in cut(db, spec, owner, merge_partials(db, spec, parts), shards):
            yield Parcel(shard, owner, task, pack(part))


@dataclass
class HistoryState:
    """A state that holds nothing but its delta (see `evaluation.State`). whole: rows, of which all have a say."""

    delta: pa.Table = field(default_factory=lambda: pa.table({}))
    whole: bool = False

    def show(self, delta: pa.Table) -> None:
        """Exchange the delta."""
        self.delta = delta

    def before(self, low: int) -> pa.Table:
        """Nothing was there before."""
        return pa.table({})

    def after(self, low: int) -> pa.Table:
        """Pane rows from pane `low` on."""
        if self.whole:
            return self.delta
        return self.delta.filter(pc.greater_equal(self.delta["pane"], low)) if self.delta.num_rows else self.delta


def close_history(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    options: QueryOptions,
    parts: list[pa.Table],
    progress: QueryProgress,
    bound: int,
    groups: GroupBounds | None = None,
    high: int | None = None,
) -> tuple[pa.Table | None, QueryProgress]:
    """Answers of the windows that end after `progress.closed` and until `bound` (groups: their own bounds).

    high: the largest event time of the stream; None: `bound`.

    A late row of a stream with late='drop' (its `cut` is the progress it was behind) counts only in windows that were
    open then, exactly as it did live. Under 'revise' all rows count.
    """
    state = HistoryState(whole=spec.rows is not None)
    result = catch_up(
        db,
        spec,
        query,
        options,
        "drop",
        state,
        parts,
        progress,
        bound,
        bound,
        lambda _low, _high: None,
        groups,
        high,
    )
    return result.answers, result.progress


def merge_history(db: duckdb.DuckDBPyConnection, spec: PanesSpec, parts: list[pa.Table]) -> pa.Table:
    """Pane rows as state: all windows that are still open were open when any of the rows came."""
    return without_cut(db, spec, merge_cuts(db, spec, parts))
