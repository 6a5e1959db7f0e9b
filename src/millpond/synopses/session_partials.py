"""Sessions as a synopsis: rows with how far they reach, put together to the sessions that they make.

A table of it has the columns of pane rows, a pane being the microsecond of a row's event time, or of the first one of
rows that were put together; and `until`: how far these reach. What was put together is never taken apart, since more
rows only make sessions longer. Where that is not so, because sessions have a maximal length or rows can be taken back,
rows stay apart (`apart`), all of one instant together.

A row that comes so late that what it may belong to is not kept any more is `torn`: with it, a run of rows may lack its
beginning. Nothing is answered from such runs: their answers are made from the archive.

On a stream that drops late rows, a late one carries the progress that it was behind (its `cut`) and the epoch in which
it came (`came`): it counts where it is in a session that was not over then, with the rows that had come by then.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import ClassVar, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.support.distinct import distinct, is_among
from millpond.support.sql import quote
from millpond.synopses.aggregates.entries import shrink
from millpond.synopses.aggregates.taken_back import SIGN
from millpond.synopses.kernel import query_table
from millpond.synopses.pane_partials import regroup
from millpond.synopses.partials.specs import SynopsisSpec, casts_of, common_parts, joined_stream
from millpond.synopses.row_partials import codes_of
from millpond.types import Expression, QueryOptions, SessionQuery, StreamDefinition, StreamQuery
from millpond.windows import Panes
from millpond.windows.candidates import Ints
from millpond.windows.row_runs import sorted_by
from millpond.windows.session_runs import Sessions, sessions_of

#: The columns of a late row on a stream that drops these.
CUT, CAME = "cut", "came"

#: The column that says 1 of rows that are torn; a table of others need not have it.
TORN = "torn"

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class SessionsKept:
    """What sessions a synopsis keeps.

    partition: how many of its keys, the first ones, have sessions of their own. gap, spans, longest: as of
    `SessionWindow`. late: what late rows do. behind: how far behind progress sessions are revised from it
    (microseconds); where late rows are dropped, how far its queries answer behind progress. limited: a row that lies
    further behind progress when it comes is too late to count.
    """

    partition: int
    gap: int
    spans: Expression | None = None
    longest: int | None = None
    late: Literal["revise", "drop"] = "revise"
    behind: int = 0
    limited: bool = False


@dataclass(frozen=True, kw_only=True)
class SessionsSpec(SynopsisSpec):
    """What a synopsis of sessions keeps. Two queries whose filter, keys and sessions agree can share one (`serves`)."""

    keeps_cuts: ClassVar[bool] = True

    sessions: SessionsKept

    @property
    def panes(self) -> Panes:
        """The microseconds that its rows lie in."""
        return Panes(1)

    @property
    def form(self) -> Literal["eager"]:
        """Its rows are kept as partials."""
        return "eager"

    @property
    def apart(self) -> bool:
        """Whether rows of different instants stay apart."""
        return self.signed or self.sessions.longest is not None

    @property
    def drops(self) -> bool:
        """Whether what is over stays as it is, and late rows count in what is not."""
        return self.sessions.late == "drop"

    @property
    def spread(self) -> tuple[str, ...]:
        """The columns of the keys by which its sessions are spread over shards; empty: they are in one."""
        return self.key_names[: self.sessions.partition]

    @property
    def reads(self) -> frozenset[str]:
        """The columns of rows that its expressions read."""
        spans = self.sessions.spans
        return super().reads if spans is None else super().reads | frozenset(spans.columns)

    @property
    def key(self) -> str:
        """A stable text that is equal for equal definitions; state is stored under it."""
        kept = self.sessions
        said = [kept.spans.sql if kept.spans is not None else "", *astuple(replace(kept, spans=None))]
        return self.digest((1, 0, False), ["sessions", said], [], [])

    @property
    def _sharable(self) -> tuple[object, ...]:
        """What must be the same for two queries to share a synopsis."""
        shape = (self.stream, self.time, self.where, self.keys, self.feeds, self.sessions)
        return (*shape, self.narrowed, self.lookup)

    def serves(self, needed: SynopsisSpec, query: StreamQuery) -> bool:
        """Whether a query that needs `needed` can be answered from this synopsis."""
        return isinstance(needed, SessionsSpec) and self._sharable == needed._sharable and self.covers(needed)


def sessions_spec(query: SessionQuery, stream: StreamDefinition, options: QueryOptions | None = None) -> SessionsSpec:
    """The synopsis that a query over sessions needs."""
    options, late = options or QueryOptions(), stream.options.late
    if query.feeds:
        late = "revise"  # see `millpond.catalog.unions`
    behind = 0 if late == "drop" else query.revised_for(options)
    limited = late == "revise" and options.limited
    if options.delay:
        late, behind = "drop", options.delay
    window = query.window
    kept = SessionsKept(len(query.session_keys), window.gap, window.spans, window.longest, late, behind, limited)
    rows = joined_stream(stream, query.lookup)
    spec = SessionsSpec(**common_parts(query, rows), sessions=kept)
    used = {quote(name) for name in spec.columns_of(rows)}  # with those of the gap
    casts = tuple(c for c in casts_of(rows) if c[0] in used)
    return replace(spec, casts=casts, narrowed=tuple(c for c in query.narrowed if c[0] in used))


# -- rows into partials ------------------------------------------------------------------------------------------------


def partial_sessions(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, segment: pa.Table, extra: str = "") -> pa.Table:
    """The rows of a segment as a partial: columns pane, until, k*, [extra, came], n, and the components' columns."""
    time, kept = f'epoch_us("{spec.time}")', spec.sessions
    if kept.spans is None:
        until = f"{time} + {kept.gap}"
    else:
        end = f'epoch_us("{spec.time}" + ({kept.spans}))'
        wrong = "error('the gap of a session is NULL or negative')::BIGINT"
        until = f"CASE WHEN {end} >= {time} THEN {end} ELSE {wrong} END"
    columns = [f"({time})::BIGINT AS pane", f"({until})::BIGINT AS until"]
    columns += [f"({e}) AS k{i}" for i, e in enumerate(spec.keys)]
    columns += [extra, f"CASE WHEN {extra.partition(' AS ')[0]} IS NOT NULL THEN _epoch END AS {CAME}"] if extra else []
    columns.append(f"sum({SIGN})::BIGINT AS n" if spec.signed else "count(*)::BIGINT AS n")
    columns += spec.listed
    where = f" WHERE ({spec.where})" if spec.where else ""
    made = query_table(db, f"SELECT {', '.join(columns)} FROM {spec.source}{where} GROUP BY ALL", segment=segment)
    return shrink(db, spec.components, made)


def stack(tables: list[pa.Table]) -> pa.Table:
    """Tables one behind the other; what one lacks is NULL."""
    some = [t for t in tables if t.num_rows]
    if len(some) <= 1:
        return some[0] if some else pa.table({})
    return pa.concat_tables(some, promote_options="permissive")


def merge_sessions(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, parts: list[pa.Table]) -> pa.Table:
    """Partials as one, rows put together as far as that is known to last; late ones with a cut stay as they are."""
    table = stack(parts)
    if not table.num_rows:
        return table
    on_time, late = by_cut(table)
    return stack([together(db, spec, on_time), late])


def by_cut(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows without a cut, without its columns; and those that have one."""
    if CUT not in table.column_names:
        return table, table.slice(0, 0)
    marked = pc.is_valid(table[CUT])
    return table.filter(pc.invert(marked)).drop_columns([CUT, CAME]), table.filter(marked)


def on_time(spec: SessionsSpec, rows: pa.Table, epoch: int, bound: int, high: int) -> tuple[pa.Table, int]:
    """The rows of an epoch that count, late ones with their cut where they are dropped; and how many came too late.

    Args:
        rows: none of them put together across the bound that matters (`floor_of`).
        bound, high: progress and largest event time of the stream before the epoch.
    """
    floor = floor_of(spec, bound, high)
    if not rows.num_rows or floor is None:
        return rows, 0
    late = pc.less(rows["pane"], floor)
    count = int(pc.sum(late).as_py() or 0)
    if not count:
        return rows, 0
    if not spec.drops and not spec.sessions.limited:
        return rows.append_column(TORN, late.cast(pa.int8())), 0
    if not spec.drops:
        return rows.filter(pc.invert(late)), int(pc.sum(rows.filter(late)["n"]).as_py())
    none = pa.scalar(None, pa.int64())
    rows = rows.append_column(CUT, pc.if_else(late, pa.scalar(floor, pa.int64()), none))
    return rows.append_column(CAME, pc.if_else(late, pa.scalar(epoch, pa.int64()), none)), 0


def floor_of(spec: SessionsSpec, bound: int, high: int) -> int | None:
    """The event time below which rows of an epoch are late (`drops`), or too late; None: none are."""
    if abs(bound) >= 2**62 and (spec.drops or high <= -(2**62)):
        return bound if bound >= 2**62 else None
    return bound - spec.sessions.behind if spec.drops else min(bound, high) - spec.sessions.behind


# -- rows into sessions ------------------------------------------------------------------------------------------------


def found_in(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> Sessions:
    """The sessions that the rows of a table make, all of them on time."""
    partition = codes_of(db, table, spec.spread)
    longest = spec.sessions.longest
    return sessions_of(partition, table["pane"].to_numpy(), table["until"].to_numpy(), longest)


def together(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> pa.Table:
    """Rows put together: those of a session, or where they stay apart, those of an instant."""
    if not table.num_rows:
        return table
    if not spec.apart:
        return sessions_in(db, spec, table)
    instants = codes_of(db, table, ("pane", "until"))
    _, first, number = np.unique(instants, return_index=True, return_inverse=True)  # dense
    found = _folded(db, spec, table, number.astype(np.int64))
    place = pa.array(first[found["pane"].to_numpy()])
    return _placed(found, table["pane"].take(place), table["until"].take(place))


def sessions_in(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> pa.Table:
    """One row for each session and group: `pane` its start, `until` its end."""
    table = _there(db, spec, table)
    if not table.num_rows:
        return table
    made = found_in(db, spec, table)
    found = _folded(db, spec, table, made.of_row)
    number = found["pane"].to_numpy()
    return _placed(found, pa.array(made.start[number]), pa.array(made.end[number]))


def _there(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> pa.Table:
    """The rows that have not been taken back."""
    if not spec.signed or not table.num_rows:
        return table
    table = together(db, spec, table)
    return table.filter(pc.greater(table["n"], 0))


def _placed(table: pa.Table, pane: pa.Array | pa.ChunkedArray, until: pa.Array | pa.ChunkedArray) -> pa.Table:
    names = table.column_names
    table = table.set_column(names.index("pane"), "pane", pane)
    return table.set_column(names.index("until"), "until", until)


def _folded(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table, number: Ints) -> pa.Table:
    """One row for each number and group; the numbers stand in the place of panes, and `until` says nothing.

    Rows that are torn are put together by themselves.
    """
    if TORN in table.column_names:
        torn = torn_in(table)
        some = _folded(db, spec, table.drop_columns([TORN]), 2 * number + torn)
        found = some["pane"].to_numpy()
        return some.set_column(some.column_names.index("pane"), "pane", pa.array(found // 2)).append_column(
            TORN, pa.array((found % 2).astype(np.int8))
        )
    counts, times = np.bincount(number), [table[name].to_numpy() for name in ("pane", "until")]
    table = table.set_column(table.column_names.index("pane"), "pane", pa.array(number))
    if counts.max(initial=0) <= 1:
        return table
    alone = counts[number] == 1
    single = table.filter(pa.array(alone))
    # In an order of their own, so that floating sums come out the same however the rows lay.
    at = np.flatnonzero(~alone)
    order = sorted_by(number[at], *(each[at] for each in times))
    several = table.take(pa.array(at if order is None else at[order]))
    folded = regroup(db, spec, several.drop_columns(["until"]))
    folded = folded.append_column("until", folded["pane"]).select(table.column_names)
    return pa.concat_tables([single, folded], promote_options="permissive")


def torn_in(table: pa.Table) -> Ints:
    """1 for rows that are torn, 0 for others."""
    if TORN not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    found: Ints = table[TORN].fill_null(0).to_numpy().astype(np.int64)
    return found


def torn_runs(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> Flags:
    """Which rows are in a run with a torn one; where sessions have a maximal length a run may be many of them."""
    torn = torn_in(table)
    if not torn.any():
        return np.zeros(table.num_rows, bool)
    times = [table[name].to_numpy() for name in ("pane", "until")]
    runs = sessions_of(codes_of(db, table, spec.spread), *times)
    some: Flags = (np.bincount(runs.of_row, weights=torn) > 0)[runs.of_row]
    return some


def torn_ends(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table, since: int, before: int) -> Ints:
    """Where sessions of torn runs end, of those that end at since <= t < before (microseconds)."""
    table = _there(db, spec, table)
    torn = torn_runs(db, spec, table)
    if not torn.any():
        return np.empty(0, np.int64)
    ends = distinct(ends_of(db, spec, table.filter(pa.array(torn))))
    return ends[(ends >= since) & (ends < before)]


def whole_runs(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> pa.Table:
    """The rows of runs without a torn one."""
    if TORN not in table.column_names:
        return table
    table = _there(db, spec, table)
    return table.filter(pa.array(~torn_runs(db, spec, table))).drop_columns([TORN])


# -- sessions as they were when late rows came -------------------------------------------------------------------------


@dataclass(frozen=True)
class Sealed:
    """Rows of sessions. over: sessions that were over when late rows came, one row for each and group. rows: the
    others'. lost: how many rows came too late for any session."""

    over: pa.Table
    rows: pa.Table
    lost: int = 0


def parted(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table, low: int) -> tuple[pa.Table, pa.Table]:
    """The rows of sessions that end before `low`, and of all others; none has a cut.

    A row that was taken back before it came is of no session yet.
    """
    if spec.signed and table.num_rows:
        table = together(db, spec, table)
        table = table.filter(pc.not_equal(table["n"], 0))
    if not table.num_rows:
        return table, table
    if TORN in table.column_names:  # whatever part of a run is left tells that the run is torn
        marks = pa.array(torn_runs(db, spec, table).astype(np.int8))
        table = table.set_column(table.column_names.index(TORN), TORN, marks)
    there = np.ones(table.num_rows, bool) if not spec.signed else table["n"].to_numpy() > 0
    ended = np.zeros(table.num_rows, bool)
    ended[there] = ends_of(db, spec, table.filter(pa.array(there))) < low
    return table.filter(pa.array(ended)), table.filter(pa.array(~ended))


def ends_of(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> Ints:
    """The end of the session that each row is in."""
    made = found_in(db, spec, table)
    return made.end[made.of_row]


def step(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, known: Sealed, came: pa.Table, low: int) -> Sealed:
    """What there is when rows came, late ones with cuts; those with a cut behind `low` stay as they are.

    Each group of late rows, in the order of cuts and epochs, meets the sessions that were not over at its cut. A
    session of nothing but late rows that was over by then does not count.
    """
    rows, late = by_cut(came)
    over, here, lost = known.over, together(db, spec, stack([known.rows, rows])), known.lost
    if late.num_rows:
        cuts, epochs = late[CUT].to_numpy(), late[CAME].to_numpy()
        order = np.lexsort((epochs, cuts))
        starts = np.flatnonzero(np.r_[True, (np.diff(cuts[order]) != 0) | (np.diff(epochs[order]) != 0)])
        for a, b in zip(starts, [*starts[1:], len(order)], strict=True):
            cut, group = int(cuts[order[a]]), late.take(pa.array(order[a:b])).drop_columns([CUT, CAME])
            if cut > low:
                here = stack([here, late.take(pa.array(order[a:]))])
                break
            ended, still = parted(db, spec, here, cut)
            over, here = stack([over, sessions_in(db, spec, ended)]), together(db, spec, stack([still, group]))
            counts = ends_of(db, spec, here) >= cut
            if not counts.all():
                lost += int(pc.sum(here.filter(pa.array(~counts))["n"]).as_py())
                here = here.filter(pa.array(counts))
    return Sealed(over, here, lost)


def between(
    db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table, since: int, before: int
) -> pa.Table | None:
    """The sessions that end at since <= t < before (microseconds), one row for each and group; None: there are none.

    Args:
        table: rows with their cuts, at least all of these sessions. Nothing is said of runs with torn rows.
    """
    table = whole_runs(db, spec, table)
    found = step(db, spec, Sealed(table.slice(0, 0), table.slice(0, 0)), table, before)
    rows, _ = by_cut(found.rows)
    made = stack([found.over, sessions_in(db, spec, rows)])
    if not made.num_rows:
        return None
    until = made["until"]
    made = made.filter(pc.and_(pc.greater_equal(until, since), pc.less(until, before)))
    return made if made.num_rows else None


def still_open(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table, low: int) -> pa.Table:
    """The rows of sessions that end at `low` or later; late rows with a cut behind `low` stay as they are."""
    if not table.num_rows:
        return table
    found = step(db, spec, Sealed(table.slice(0, 0), table.slice(0, 0)), table, low)
    rows, waiting = by_cut(found.rows)
    return stack([parted(db, spec, rows, low)[1], waiting])


def touched(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, late: pa.Table, table: pa.Table) -> Flags:
    """Which rows of a table are in a partition that some late rows are in."""
    if not spec.spread or not table.num_rows:
        return np.ones(table.num_rows, bool)
    names = list(spec.spread)
    both = pa.concat_tables([late.select(names), table.select(names)], promote_options="permissive")
    codes = codes_of(db, both, spec.spread)
    return is_among(codes[late.num_rows :], codes[: late.num_rows])
