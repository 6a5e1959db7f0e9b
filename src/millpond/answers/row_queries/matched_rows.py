"""Which rows of a view match one side of a selection: row sets of hot blocks, kept per (block, query); archive rows.

Row sets come from what the map tasks matched where they made a query's set explicit, else from the blocks' indexes.
Both say the same, and so does the condition itself, which DuckDB evaluates where nothing shall be kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.answers.archive_jobs import ANSWER_ROWS, QUICK_ROWS
from millpond.answers.row_queries.hot import HotBlock, View, archive_segments
from millpond.answers.row_queries.stretch import Matching, Stretch, parts_in
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.scan_tasks import ScanSplit, divided, whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.storage import Storage
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, query_ordered
from millpond.synopses.blocks import event_times
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.synopses.predicate_index.matches import rows_of
from millpond.synopses.tolerance import FAULTS, one_line
from millpond.tables.chunks import Payload, pack, unpack
from millpond.tables.executors import InlineExecutor, Parcel
from millpond.types import Expression, Side, StreamDefinition

Rows = npt.NDArray[Any]

#: What an entry costs beside its rows.
_OVERHEAD = 250

_NONE = np.empty(0, np.uint16)


class RowSets:
    """Row sets by (block, query, side): least recently used ones go when `budget` bytes are reached. Thread-safe."""

    def __init__(self, budget: int) -> None:
        self.budget, self.nbytes = budget, 0
        self._sets: OrderedDict[tuple[int, int, int], tuple[Rows, int]] = OrderedDict()
        self._totals: dict[int, list[int]] = {}  # per query: rows that match, rows of the blocks
        self._lock = threading.Lock()

    def get(self, block: int, query: int, side: int) -> Rows | None:
        """The rows of a whole block, or None when they are not kept."""
        key = (block, query, side)
        with self._lock:
            found = self._sets.get(key)
            if found is not None:
                self._sets.move_to_end(key)
            return None if found is None else found[0]

    def put(self, block: int, query: int, side: int, rows: Rows, of: int) -> None:
        """Keep the rows of a whole block, which has `of` rows."""
        size = rows.nbytes + _OVERHEAD
        if size > self.budget // 4:
            return
        with self._lock:
            if (block, query, side) in self._sets:
                return
            self._sets[block, query, side] = rows, of
            self.nbytes += size
            total = self._totals.setdefault(query, [0, 0])
            total[0] += len(rows)
            total[1] += of
            while self.nbytes > self.budget:
                self._remove(next(iter(self._sets)))

    def forget(self, blocks: Iterable[int] = (), queries: Iterable[int] = ()) -> None:
        """Drop what is kept for blocks that are gone, or for queries."""
        gone, dropped = set(blocks), set(queries)
        with self._lock:
            for key in [k for k in self._sets if k[0] in gone or k[1] in dropped]:
                self._remove(key)

    def _remove(self, key: tuple[int, int, int]) -> None:
        rows, of = self._sets.pop(key)
        self.nbytes -= rows.nbytes + _OVERHEAD
        total = self._totals[key[1]]
        total[0] -= len(rows)
        total[1] -= of
        if not total[1]:
            del self._totals[key[1]]

    def shares(self) -> dict[int, float]:
        """By query, the share of rows that match, as far as its rows are kept."""
        with self._lock:
            return {query: matched / total for query, (matched, total) in self._totals.items()}


@dataclass(frozen=True)
class Wanted:
    """Whose rows are wanted of a view.

    query: id of the registered query; 0: nothing is kept. number: which side of the selection `side` is.
    epoch: rows of later epochs don't count. after: nor do those of epochs up to it. keep: row sets may be kept; else
    the condition is evaluated on the rows. matched: what map tasks matched for this query on this stream is this
    side's.
    """

    query: int
    side: Side
    number: int
    epoch: int
    after: int = 0
    keep: bool = True
    matched: bool = True


def matcher(sets: RowSets, view: View, wanted: Wanted) -> Matching:
    """The matching rows of the view's blocks as a function (block, low row, high row) -> row numbers, ascending."""
    boxes = wanted.side.boxes
    everything = len(boxes) == 1 and not boxes[0]

    def match(block: HotBlock, low: int, high: int) -> Rows:
        if everything or wanted.side.where is None:
            rows: Rows = np.arange(low, high, dtype=np.int32)
        elif not boxes:
            return _NONE
        elif wanted.keep and wanted.query:
            rows = _between(_whole(sets, block, wanted), low, high, len(block))
        else:
            rows = _scan(view.stream, block, wanted.side, low, high)
        if block.last_epoch > wanted.epoch or block.first_epoch <= wanted.after:
            epochs = block.epochs[rows]
            rows = rows[(epochs <= wanted.epoch) & (epochs > wanted.after)]
        return rows

    return match


def _whole(sets: RowSets, block: HotBlock, wanted: Wanted) -> Rows:
    """The query's rows of a whole block."""
    if block.matches is not None and wanted.matched:
        explicit = block.matches.rows(wanted.query)
        if explicit is not None:
            return explicit
    found = sets.get(block.key, wanted.query, wanted.number)
    if found is None:
        found = rows_of(block.block, wanted.side.boxes)
        sets.put(block.key, wanted.query, wanted.number, found, len(block))
    return found


def _between(rows: Rows, low: int, high: int, size: int) -> Rows:
    if low == 0 and high == size:
        return rows
    # Bounds of the array's own type: another would have the array converted.
    first = int(np.searchsorted(rows, np.uint16(low))) if low else 0
    last = int(np.searchsorted(rows, np.uint16(high))) if high < size else len(rows)
    return rows[first:last]


def _scan(stream: StreamDefinition, block: HotBlock, side: Side, low: int, high: int) -> Rows:
    """The condition evaluated over a range of rows: nothing is made that outlives it."""
    assert side.where is not None
    whole = low == 0 and high == len(block)
    part = block.rows if whole else block.rows.slice(low, high - low)
    return (holds(stream, part, side.where) + low).astype(np.uint16)


def holds(stream: StreamDefinition, rows: pa.Table, where: Expression) -> npt.NDArray[np.int64]:
    """Numbers of the rows on which a condition is true; where it fails it counts as not true."""
    names = [n for n in rows.column_names if n in where.columns]
    place = _unused(names)
    numbered = rows.select(names).append_column(place, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    source = as_declared("numbered", casts_of(stream), names)
    sql = f"SELECT {quote(place)} AS r FROM {source} WHERE "
    try:
        found = query_ordered(connection(), f"{sql}({where})", numbered=numbered)
    except duckdb.Error:  # on some row the condition fails: those that do not fail still count
        found = query_ordered(connection(), f"{sql}TRY({where})", numbered=numbered)
    return np.asarray(found["r"].to_numpy(), np.int64)


def hot_parts(view: View, matching: Matching, stretch: Stretch, after: int = 0) -> list[tuple[HotBlock, Rows]]:
    """(block, matching rows) of the view's blocks that have any in a stretch, which does not go behind the horizon.

    Blocks without rows of epochs after `after` are passed over.
    """
    begin, end = stretch.begin, stretch.end
    # Blocks are in the order of their least time.
    begun = view.blocks if end is None else takewhile(lambda b: b.low <= end, view.blocks)
    met = (b for b in begun if (begin is None or b.high >= begin) and b.last_epoch > after)
    return parts_in(met, matching, stretch)


def in_order(found: Sequence[tuple[HotBlock, Rows]], columns: Sequence[str]) -> pa.Table:
    """The columns of the found rows in the stream's total order."""
    taken = [_taken(block, rows, columns) for block, rows in found]
    table = pa.Table.from_batches(taken)
    if all(_apart(*a, *b) for a, b in pairwise(found)):
        return table
    times = np.concatenate([block.times[rows] for block, rows in found])
    ids = np.concatenate([block.ids[rows] for block, rows in found])
    return table.take(pa.array(np.lexsort((ids, times))))


def _apart(before: HotBlock, rows: Rows, after: HotBlock, others: Rows) -> bool:
    last, first = int(before.times[rows[-1]]), int(after.times[others[0]])
    return last < first or (last == first and int(before.ids[rows[-1]]) < int(after.ids[others[0]]))


def _taken(block: HotBlock, rows: Rows, columns: Sequence[str]) -> pa.RecordBatch:
    table = block.rows
    arrays = []
    first = int(rows[0])
    run = int(rows[-1]) - first + 1 == len(rows)
    places = None if run else pa.array(rows)
    for name in columns:
        column = table[name]
        chunk = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        arrays.append(chunk.slice(first, len(rows)) if places is None else chunk.take(places))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([table.schema.field(n) for n in columns]))


def hot_stretch(view: View, stretch: Stretch) -> Stretch:
    """The part of a stretch that the view's blocks hold."""
    floor = max(view.horizon, view.retained)
    if floor <= NEVER or (stretch.begin is not None and stretch.begin >= floor):
        return stretch
    return Stretch(floor, stretch.end, until_id=stretch.until_id)


def cold_stretch(view: View, stretch: Stretch) -> Stretch | None:
    """The part of a stretch that lies behind the horizon; None when there is none."""
    begin = stretch.begin
    if view.horizon <= NEVER or (begin is not None and begin >= view.horizon):
        return None
    end = view.horizon - 1 if stretch.end is None else min(stretch.end, view.horizon - 1)
    first, until = stretch.first_id, stretch.until_id if end == stretch.end else None
    if view.retained > NEVER and (begin is None or begin < view.retained):
        begin, first = view.retained, None
    return None if begin is not None and begin > end else Stretch(begin, end, first, until)


def cold_rows(storage: Storage, view: View, stretch: Stretch, epoch: int) -> int:
    """How many rows may lie in the part of a stretch behind the horizon; 0 where it is so many rows that count."""
    cold = cold_stretch(view, stretch)
    if cold is None or cold.by_rows:
        return 0
    wanted = Range(cold.begin, None if cold.end is None else cold.end + 1, epoch)
    return sum(s.rows for s in segments_in(archive_segments(storage, view), wanted))


def archive_range(view: View, stretch: Stretch, epoch: int) -> Range:
    """A stretch as what a job over the archive reads, without what retention takes away."""
    begin = stretch.begin
    if view.retained > NEVER:
        begin = view.retained if begin is None else max(begin, view.retained)
    return Range(begin, None if stretch.end is None else stretch.end + 1, epoch)


def archive_rows(
    archives: Archives,
    view: View,
    wanted: Wanted,
    stretch: Stretch,
    columns: Sequence[str],
    most: int = ANSWER_ROWS,
) -> pa.Table | None:
    """Matching rows of the archive behind the horizon, in total order: `columns`, event time, `_id`, `_epoch`.

    Much data is read by a background job.

    Raises:
        QueryError: more than `most` rows, or the rows cannot be read.
    """
    cold = cold_stretch(view, stretch)
    if cold is None or not wanted.side.boxes:
        return None
    stream = view.stream
    names = list(dict.fromkeys([*columns, stream.options.time, "_id", "_epoch"]))
    job = _ColdRows(archives.path, stream, tuple(names), wanted.side.where, wanted.after, cold)
    span = Range(cold.begin, None if cold.end is None else cold.end + 1, wanted.epoch)
    with archives.pinned():
        found = segments_in(archive_segments(archives.storage, view), span)
        split = whole_files([s for s in found if s.last_epoch > wanted.after], span)
        if not split.pieces:
            return None
        tasks = divided([split], max(1, archives.executor.cores - 1))
        quick = sum(s.rows for s in split.segments) <= QUICK_ROWS
        executor = InlineExecutor() if quick else archives.executor
        task = partial(job.map, tasks)
        try:
            outcomes = executor.run(task, len(tasks), _forward, 1, background=True)
        except FAULTS as error:
            raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    tables = [unpack(payload) for _, payload in outcomes if payload]
    if not tables:
        return None
    table = pa.concat_tables(tables)
    check_rows(table.num_rows, most)
    times, ids = event_times(table, stream.options.time), table["_id"].to_numpy()
    order = np.lexsort((ids, times))
    return table if bool(np.all(order[1:] > order[:-1])) else table.take(pa.array(order))


def check_rows(count: int, most: int) -> None:
    """Raise QueryError when an answer has more rows than it may."""
    if count > most:
        raise QueryError(
            f"the answer has {count} rows, at most {most} are allowed; narrow the window or add a condition"
        )


@dataclass(frozen=True)
class _ColdRows:
    """The map tasks of `archive_rows`. after: rows of epochs up to it are left out."""

    pond: str
    stream: StreamDefinition
    columns: tuple[str, ...]
    where: Expression | None
    after: int
    cold: Stretch

    def map(self, tasks: Sequence[Sequence[ScanSplit]], task: int) -> Iterator[Parcel]:
        stream, where, cold = self.stream, self.where, self.cold
        read = list(self.columns)
        if where:
            read += [c.name for c in stream.all_columns if c.name in where.columns and c.name not in read]
        for rows in ArchiveReader(self.pond, stream, read).rows(tasks[task]):
            if where:
                rows = rows.take(pa.array(holds(stream, rows, where)))
            keep = np.ones(rows.num_rows, bool)
            if self.after:
                keep &= rows["_epoch"].to_numpy() > self.after
            if cold.by_rows:
                keep &= cold.mask(event_times(rows, stream.options.time), rows["_id"].to_numpy())
            rows = rows.select(list(self.columns))
            rows = rows if bool(keep.all()) else rows.filter(pa.array(keep))
            if rows.num_rows:
                yield Parcel(0, "", task, pack(rows))


def _forward(shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    tables = [unpack(p.payload) for p in parcels]
    return {}, pack(pa.concat_tables(tables)) if tables else b""


def _unused(names: Sequence[str]) -> str:
    name = "_row"
    while name.lower() in {n.lower() for n in names}:
        name += "_"
    return name
