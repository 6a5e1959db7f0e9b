"""Rows as a synopsis, for windows that end with rows: their partial keeps each row, with its own components.

A table of rows has the columns of pane rows, a pane being the microsecond of the row's event time, and `_id`. What `n`
says of a row: 1: it passes the query's WHERE; 0: it does not, and so only counts as a row of the stream; below 0: the
row stands for -n rows that nobody needs any more but for their number (`fold`). A row with a cut was late on a stream
that drops late rows: it has no number, and lies only in windows over time that end at its cut or later.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.support.distinct import distinct, is_among
from millpond.synopses.codes import codes_by_join
from millpond.synopses.kernel import query_table
from millpond.synopses.partials.specs import SynopsisSpec, common_parts, joined_stream, weighed
from millpond.types import DAY, CountWindow, QueryOptions, RowWindowQuery, StreamDefinition, StreamQuery
from millpond.windows import Panes
from millpond.windows.candidates import Ints
from millpond.windows.row_runs import firsts, numbers, sorted_by

#: The column of a late row's cut; see `millpond.synopses.partials.late_exclusions`.
CUT = "cut"

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class RowsKept:
    """What a synopsis of rows keeps, and how it numbers them.

    partition: how many of its keys, the first ones, are columns of PARTITION BY.
    rows, range: the largest extent of a window that it can answer, in rows and in microseconds.
    numbered: as of `RowWindow`. late: of the stream.
    union: rows of several streams; what came first of them is said by their epochs (column `came`), then by `_id`.
    behind: how far behind progress windows are revised from it (microseconds); 0 where late rows are dropped. A query
        that answers behind progress (`QueryOptions.delay`) drops rows that lie behind what it has answered.
    limited: a row that lies further behind progress when it comes is too late: it has no number and is in no window.
    """

    partition: int = 0
    rows: int = 0
    range: int = 0
    numbered: Literal["rank", "arrival"] = "rank"
    late: Literal["revise", "drop"] = "revise"
    behind: int = 0
    union: bool = False
    limited: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells it from others; of a union its feeds say it."""
        known = (self.partition, self.rows, self.range, self.numbered, self.late, self.behind)
        return (*known, "limited") if self.limited else known

    def serves(self, needed: RowsKept) -> bool:
        """Whether a query that needs `needed` can be answered from it."""
        same = (self.partition, self.numbered, self.late, self.behind, self.limited)
        return (
            same == (needed.partition, needed.numbered, needed.late, needed.behind, needed.limited)
            and needed.rows <= self.rows
            and needed.range <= self.range
        )


@dataclass(frozen=True, kw_only=True)
class RowsSpec(SynopsisSpec):
    """What a synopsis of rows keeps. Two queries whose filter and keys agree can share one (`serves`)."""

    rows: RowsKept

    @property
    def keeps_cuts(self) -> bool:
        """See `SynopsisSpec`."""
        return True

    @property
    def panes(self) -> Panes:
        """The microseconds that its rows lie in."""
        return Panes(1)

    @property
    def form(self) -> Literal["eager"]:
        """Its rows are kept with their components."""
        return "eager"

    @property
    def spread(self) -> tuple[str, ...]:
        """The columns of the keys by which its partitions are spread over shards; empty: they are in one."""
        return self.key_names[: self.rows.partition]

    @property
    def key(self) -> str:
        """A stable text that is equal for equal definitions; state is stored under it."""
        return self.digest((1, 0, False), [self.rows.identity], [], [])

    @property
    def _sharable(self) -> tuple[object, ...]:
        """What must be the same for two queries to share a synopsis."""
        shape = (self.stream, self.time, self.where, self.keys, self.feeds)
        return (*shape, self.reduce, self.narrowed, self.lookup)

    def serves(self, needed: SynopsisSpec, query: StreamQuery) -> bool:
        """Whether a query that needs `needed` can be answered from this synopsis."""
        return (
            isinstance(needed, RowsSpec)
            and self._sharable == needed._sharable
            and self.rows.serves(needed.rows)
            and self.covers(needed)
        )


def rows_spec(query: RowWindowQuery, stream: StreamDefinition, options: QueryOptions | None = None) -> RowsSpec:
    """The synopsis that a query over windows that end with rows needs."""
    joined = joined_stream(stream, query.lookup)
    kept = kept_for(query, stream.options.late, options or QueryOptions())
    return RowsSpec(**common_parts(query, joined), rows=kept)


def kept_for(query: RowWindowQuery, late: Literal["revise", "drop"], options: QueryOptions) -> RowsKept:
    """What the synopsis of a query over a window of rows keeps."""
    if query.feeds:
        late = "revise"  # see `millpond.catalog.unions`
    behind = 0 if late == "drop" else revised_for(query, options)
    limited = late == "revise" and options.limited
    if options.delay:
        late, behind = "drop", options.delay
    window, union = query.window, bool(query.feeds)
    rows = window.rows if isinstance(window, CountWindow) else 0
    return RowsKept(len(window.partition), rows, window.reach, window.numbered, late, behind, union, limited)


#: The column that says in which epoch a row of a union came.
CAME = "came"


def arrivals(table: pa.Table) -> tuple[Ints, ...]:
    """Rows in order of these came one behind the other: by `_id`, of a union by epoch and `_id`."""
    ids = table["_id"].to_numpy()
    return (table[CAME].to_numpy(), ids) if CAME in table.column_names else (ids,)


def revised_for(query: RowWindowQuery, options: QueryOptions) -> int:
    """How long behind progress late rows still count (SEMANTICS, late rows), microseconds."""
    return options.revise_for if options.revise_for is not None else max(DAY, 10 * query.window.reach)


def partial_rows(db: duckdb.DuckDBPyConnection, spec: RowsSpec, segment: pa.Table, extra: str = "") -> pa.Table:
    """The rows of a segment as a partial: columns pane, k*, `_id`, [extra], n, and the components' columns.

    Rows that do not pass WHERE have neither components nor keys but those of the partition.
    """
    segment = weighed(segment) if spec.weighted else segment
    head = [f'epoch_us("{spec.time}")::BIGINT AS pane']
    keys = [f"({e}) AS k{i}" for i, e in enumerate(spec.keys)]
    came = spec.rows.union and spec.rows.numbered == "arrival"
    own = ["_id", *([f"_epoch AS {CAME}"] if came else []), *([extra] if extra else [])]
    if all(c.alone for c in spec.components):
        columns, tail = [f"({c.alone}) AS {c.name}" for c in spec.components], ""
    else:
        columns = spec.listed
        tail = " GROUP BY ALL"
    where = f" WHERE ({spec.where})" if spec.where else ""
    listed = ", ".join([*head, *keys, *own, "1::BIGINT AS n", *columns])
    passing = query_table(db, f"SELECT {listed} FROM {spec.source}{where}{tail}", segment=segment)
    if not spec.where:
        return passing
    listed = ", ".join([*head, *keys[: spec.rows.partition], *own, "0::BIGINT AS n"])
    rest = query_table(db, f"SELECT {listed} FROM {spec.source} WHERE ({spec.where}) IS NOT TRUE", segment=segment)
    return together([passing, rest])


def together(parts: list[pa.Table]) -> pa.Table:
    """Tables of rows one behind the other; what a table lacks is NULL."""
    parts = [p for p in parts if p.num_rows]
    if len(parts) <= 1:
        return parts[0] if parts else pa.table({})
    return pa.concat_tables(parts, promote_options="permissive")


def on_time(spec: RowsSpec, rows: pa.Table, bound: int, high: int) -> tuple[pa.Table, int]:
    """The rows of an epoch that count, and how many do not because they come too late.

    Arguments:
        bound, high: progress and largest event time of the stream before the epoch.
    """
    kept = spec.rows
    if not rows.num_rows:
        return rows, 0
    if kept.late == "revise":
        if not kept.limited:
            return rows, 0
        late = pc.less(rows["pane"], max(-(2**62), min(bound, high) - kept.behind))
        if not pc.any(late).as_py():
            return rows, 0
        return rows.filter(pc.invert(late)), int(pc.sum(late).as_py())
    bound = bound - kept.behind if abs(bound) < 2**62 else bound
    late = pc.less(rows["pane"], bound)
    if not pc.any(late).as_py():
        return rows, 0
    if not kept.range:
        return rows.filter(pc.invert(late)), 0
    return rows.append_column(CUT, pc.if_else(late, pa.scalar(bound, pa.int64()), pa.scalar(None, pa.int64()))), 0


def partition_codes(db: duckdb.DuckDBPyConnection, spec: RowsSpec, table: pa.Table) -> Ints:
    """A number for the partition of each row."""
    return codes_of(db, table, spec.key_names[: spec.rows.partition])


@dataclass(frozen=True)
class Ranked:
    """Rows of a table in order of (partition, time, id), each of which counts as one row of its partition.

    at: places of those that are rows; None: all. The others, at the places `stands`, stand for rows that came before.
    partition: of each of them, by a number from 0. order: the permutation that sorts them; None: as they are.
    stood: by partition, how many rows came before. stand: the place of the last one that stands for them.
    latest: the largest time of one that stands for others.
    """

    at: Ints | None
    partition: Ints
    order: Ints | None
    stands: Ints
    stood: Ints
    stand: Ints
    latest: int

    @property
    def places(self) -> Ints | None:
        """Places in the table of the rows in order; None: as they are."""
        if self.order is None or self.at is None:
            return self.at if self.order is None else self.order
        return self.at[self.order]

    @property
    def held(self) -> Ints:
        """How many rows there are of each partition."""
        return np.bincount(self.partition, minlength=len(self.stood)).astype(np.int64)


_RANKED: dict[int, tuple[weakref.ref[pa.Table], tuple[str, ...], Ranked | None]] = {}


def ranked(db: duckdb.DuckDBPyConnection, spec: RowsSpec, table: pa.Table) -> Ranked | None:
    """The rows of a table by rank; None where some are late without a number.

    It is remembered as long as the table is there: the queries of a synopsis and what folds its rows ask for the same.
    """
    names = spec.key_names[: spec.rows.partition]
    known = _RANKED.get(id(table))
    if known is not None and known[0]() is table and known[1] == names:
        return known[2]
    found = _ranked(db, spec, table)
    key = id(table)
    _RANKED[key] = weakref.ref(table, lambda _: _RANKED.pop(key, None)), names, found
    return found


def _ranked(db: duckdb.DuckDBPyConnection, spec: RowsSpec, table: pa.Table) -> Ranked | None:
    if CUT in table.column_names and table[CUT].null_count < table.num_rows:
        return None
    time, ids, n = (table[name].to_numpy() for name in ("pane", "_id", "n"))
    partition = partition_codes(db, spec, table)
    stood = np.zeros(int(partition.max(initial=-1)) + 1, np.int64)
    stand, at, latest = np.full(len(stood), -1, np.int64), None, -(2**62)
    stands = np.flatnonzero(n < 0)
    if len(stands):
        order = sorted_by(partition[stands], time[stands], ids[stands])
        stands = stands if order is None else stands[order]
        stand[partition[stands]] = stands  # the last one of each
        np.add.at(stood, partition[stands], -n[stands])
        latest, at = int(time[stands].max()), np.flatnonzero(n >= 0)
        partition, time, ids = partition[at], time[at], ids[at]
    return Ranked(at, partition, sorted_by(partition, time, ids), stands, stood, stand, latest)


def codes_of(db: duckdb.DuckDBPyConnection, table: pa.Table, names: tuple[str, ...]) -> Ints:
    """A number from 0 for the values of some columns in each row; equal exactly for equal ones, NULL equal to NULL."""
    codes = np.zeros(table.num_rows, np.int64)
    count = 1
    for name in names:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_boolean(column.type)
                or pa.types.is_temporal(column.type)):  # fmt: skip
            return codes_by_join(db, table, names)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        size = max(1, len(encoded.dictionary))
        if count * size > 2**62:  # not more numbers than rows, which are few enough to multiply again
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            count = int(codes.max(initial=0)) + 1
        codes = codes * size + encoded.indices.to_numpy(zero_copy_only=False)
        count *= size
    return codes.astype(np.int64)


def cuts_of(table: pa.Table) -> tuple[Ints, Flags]:
    """The cut of each row (0 without one), and which rows have none: those have a number."""
    if CUT not in table.column_names:
        return np.zeros(table.num_rows, np.int64), np.ones(table.num_rows, bool)
    column = table[CUT]
    return column.fill_null(0).to_numpy().astype(np.int64), np.asarray(pc.is_null(column).to_numpy(), bool)


def weights(n: Ints, numbered: Flags) -> Ints:
    """For how many numbers each row stands."""
    return np.where(n < 0, -n, np.where(numbered, 1, 0)).astype(np.int64)


def fold(db: duckdb.DuckDBPyConnection, spec: RowsSpec, table: pa.Table, since: int) -> pa.Table:
    """The table without what no window needs that ends at `since` (microseconds) or later.

    Of each partition the rows that such a window can hold stay, and one row with n = -(number of rows left out).
    Later rows have event times from `since` on, so that numbers go on as if nothing had been left out.
    """
    kept = spec.rows
    if not table.num_rows:
        return table
    time, n = table["pane"].to_numpy(), table["n"].to_numpy()
    old = time < since
    if int(np.count_nonzero(old)) <= 1:
        return table
    by_rank = kept.numbered == "rank"
    if by_rank and not kept.range:
        rows = ranked(db, spec, table)
        if rows is not None and rows.latest < since:
            return _fold_ranked(spec, table, rows, old)
    ids = table["_id"].to_numpy()
    _, numbered = cuts_of(table)
    partition = partition_codes(db, spec, table)
    at = np.flatnonzero(old) if by_rank else np.arange(len(time))
    places = (time, ids) if by_rank else arrivals(table)
    order = sorted_by(partition[at], *(place[at] for place in places))
    at = at if order is None else at[order]
    if not by_rank:
        at = at[_before_first(partition[at], ~old[at])]
        if not len(at):
            return table
    stays = time[at] > since - kept.range if kept.range else np.zeros(len(at), bool)
    stays &= n[at] >= 0
    if kept.rows:
        counts = numbered[at] & (n[at] >= 0)
        stays |= counts & (_from_last(partition[at], counts) <= kept.rows)
    gone = at[~stays]
    if not len(gone) or (len(gone) == np.count_nonzero(n[gone] < 0) and len(distinct(partition[gone])) == len(gone)):
        return table
    weight = weights(n, numbered)[gone]
    owner = partition[gone]
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    last = gone[np.r_[starts[1:], len(gone)] - 1]
    total = np.add.reduceat(weight, starts)
    return _without(spec, table, gone, last[total > 0], total[total > 0])


def _fold_ranked(spec: RowsSpec, table: pa.Table, rows: Ranked, old: Flags) -> pa.Table:
    """As `fold`, of rows by rank: of each partition the last ones of the old rows stay, which lie before all others."""
    held = rows.held
    past = np.bincount(rows.partition[old if rows.at is None else old[rows.at]], minlength=len(held))
    leave = np.maximum(0, past - spec.rows.rows)
    count = int(leave.sum())
    if not count and len(rows.stands) == np.count_nonzero(rows.stood):
        return table
    first = np.cumsum(held) - held
    place = np.repeat(first - (np.cumsum(leave) - leave), leave) + np.arange(count)
    gone = place if rows.order is None else rows.order[place]
    gone = gone if rows.at is None else rows.at[gone]
    left = np.flatnonzero(leave)
    last = rows.stand.copy()
    last[left] = gone[np.cumsum(leave)[left] - 1]
    total = rows.stood + leave
    some = np.flatnonzero(total)
    return _without(spec, table, np.r_[gone, rows.stands], last[some], total[some])


def _without(spec: RowsSpec, table: pa.Table, gone: Ints, last: Ints, total: Ints) -> pa.Table:
    """The table without some rows, and with rows that stand for them: at the places `last`, for `total` rows each."""
    kept = spec.rows
    names = ["pane", *spec.key_names[: kept.partition], "_id", *([CAME] if CAME in table.column_names else [])]
    base = table.select(names).take(pa.array(last)).append_column("n", pa.array(-total))
    mask = np.ones(table.num_rows, bool)
    mask[gone] = False
    return together([base, table.filter(pa.array(mask))])


def _before_first(partition: Ints, marked: Flags) -> Flags:
    """The rows of each of sorted partitions before its first marked one."""
    seen = np.cumsum(marked)
    first = firsts(partition)
    return np.asarray(seen == (seen[first] - marked[first]), bool) if len(seen) else np.zeros(0, bool)


def _from_last(partition: Ints, counts: Flags) -> Ints:
    """The place of each row that counts from the end of its (sorted) partition, the last being 1."""
    return numbers(partition[::-1], counts[::-1].astype(np.int64))[::-1]


def touched(
    db: duckdb.DuckDBPyConnection, partition: tuple[str, ...], late: pa.Table, table: pa.Table
) -> NDArray[np.bool_]:
    """Which rows of a table are in a partition that some late rows are in. partition: the columns that tell."""
    if not partition or not table.num_rows:
        return np.ones(table.num_rows, bool)
    both = pa.concat_tables([late.select(partition), table.select(partition)], promote_options="permissive")
    codes = codes_of(db, both, partition)
    return is_among(codes[late.num_rows :], codes[: late.num_rows])
