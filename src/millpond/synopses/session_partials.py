"""Sessions as a synopsis: rows with how far they reach, put together to the sessions that they make.

A table of it has the columns of pane rows, a pane being the microsecond of a row's event time, or of the first one of
rows that were put together; and `until`: how far these reach. What was put together is never taken apart, since more
rows only make sessions longer. Where that is not so, because sessions have a maximal length or rows can be taken back,
rows stay apart (`apart`), all of one instant together.

A row that comes so late that what it may belong to is not kept any more is `torn`: with it, a run of rows may lack its
beginning. Nothing is answered from such runs: their answers are made from the archive. Where sessions are cut, one row
more moves every cut behind it, so a row says where its run began (`since`) when what came before it is let go.

On a stream that drops late rows, a late one carries the progress that it was behind (its `cut`) and the epoch in which
it came (`came`): it counts where it is in a session that was not over then, with the rows that had come by then.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.progress import FOREVER
from millpond.support.sql import quote
from millpond.synopses.aggregates.entries import shrink
from millpond.synopses.aggregates.taken_back import SIGN
from millpond.synopses.kernel import query_table
from millpond.synopses.pane_partials import regroup
from millpond.synopses.partials.specs import SynopsisSpec, casts_of, common_parts, joined_stream
from millpond.synopses.row_partials import codes_of
from millpond.types import DAY, Expression, QueryOptions, SessionQuery, StreamDefinition, StreamQuery
from millpond.windows import Panes
from millpond.windows.candidates import Ints
from millpond.windows.row_runs import sorted_by
from millpond.windows.session_runs import Sessions, sessions_of

#: The columns of a late row on a stream that drops these.
CUT, CAME = "cut", "came"

#: The column that says 1 of rows that are torn; a table of others need not have it.
TORN = "torn"

#: The column that says where the run of a row began of which rows are not kept any more; a table need not have it.
SINCE = "since"

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

    sessions: SessionsKept

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
    def mends(self) -> bool:
        """Whether rows that come too late for what is kept count all the same."""
        return not self.drops and not self.sessions.limited

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
        sets = [f"sets {self.sets}"] if self.sets else []
        return self.digest((1, 0, False), ["sessions", said, *sets], [], [])

    @property
    def _sharable(self) -> tuple[object, ...]:
        """What must be the same for two queries to share a synopsis."""
        shape = (self.stream, self.time, self.where, self.keys, self.feeds, self.sets, self.sessions)
        return (*shape, self.narrowed, self.lookup)

    def serves(self, needed: SynopsisSpec, query: StreamQuery) -> bool:
        """Whether a query that needs `needed` can be answered from this synopsis."""
        return isinstance(needed, SessionsSpec) and self._sharable == needed._sharable and self.covers(needed)


def sessions_spec(query: SessionQuery, stream: StreamDefinition, options: QueryOptions | None = None) -> SessionsSpec:
    """The synopsis that a query over sessions needs."""
    options, late = options or QueryOptions(), stream.options.late
    if query.feeds:
        late = "revise"  # see `millpond.catalog.unions`
    behind = 0 if late == "drop" else session_revised_for(query, options)
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


def session_revised_for(query: SessionQuery, options: QueryOptions) -> int:
    """How long behind progress late rows still count (SEMANTICS, late rows), microseconds."""
    return options.revise_for if options.revise_for is not None else max(DAY, 10 * query.window.reach)


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
    if spec.mends:
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
    found = _folded(db, spec, _plain(table), number.astype(np.int64))
    which = found["pane"].to_numpy()
    place = pa.array(first[which])
    found = _placed(found, table["pane"].take(place), table["until"].take(place))
    if SINCE not in table.column_names:
        return found
    since = np.full(len(first), FOREVER)
    np.minimum.at(since, number, since_in(table))
    return found.append_column(SINCE, pa.array(since[which]))


def sessions_in(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> pa.Table:
    """One row for each session and group: `pane` its start, `until` its end."""
    table = _plain(_there(db, spec, table))
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


def _plain(table: pa.Table) -> pa.Table:
    """A table without what it says of runs."""
    return table.drop_columns([SINCE]) if SINCE in table.column_names else table


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


def since_in(table: pa.Table) -> Ints:
    """Where the run of each row began at the latest."""
    place = table["pane"]
    found: Ints = (pc.coalesce(table[SINCE], place) if SINCE in table.column_names else place).to_numpy()
    return found


def runs_in(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> Sessions:
    """The runs of rows that reach one another, wherever sessions are cut; rows that were taken back are among them."""
    return sessions_of(codes_of(db, table, spec.spread), since_in(table), table["until"].to_numpy())


def torn_runs(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> Flags:
    """Which rows are in a run with a torn one."""
    torn = torn_in(table)
    if not torn.any():
        return np.zeros(table.num_rows, bool)
    of_row = runs_in(db, spec, table).of_row
    some: Flags = (np.bincount(of_row, weights=torn) > 0)[of_row]
    return some


def torn_ends(
    db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table, since: int, before: int
) -> tuple[Ints, Ints]:
    """Where sessions of torn runs may end, within since <= t < before (microseconds): stretches low <= t < high.

    A run is one session unless it may be cut anew: then one may end anywhere within it.
    """
    torn = torn_in(table)
    if not torn.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    runs = runs_in(db, spec, table)
    some = np.bincount(runs.of_row, weights=torn) > 0
    low = (runs.start if spec.apart else runs.end)[some]
    return np.maximum(low, since), np.minimum(runs.end[some] + 1, before)


def whole_runs(db: duckdb.DuckDBPyConnection, spec: SessionsSpec, table: pa.Table) -> pa.Table:
    """The rows of runs without a torn one."""
    if TORN not in table.column_names:
        return table
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
    if TORN in table.column_names:  # whatever part of a run is left tells that the run is torn
        table = _with(table, TORN, torn_runs(db, spec, table))
    if spec.signed and table.num_rows:
        table = together(db, spec, table)
        table = table.filter(pc.not_equal(table["n"], 0))
    if not table.num_rows:
        return table, table
    there = np.ones(table.num_rows, bool) if not spec.signed else table["n"].to_numpy() > 0
    ended = np.zeros(table.num_rows, bool)
    made = found_in(db, spec, table.filter(pa.array(there)))
    ended[there] = made.end[made.of_row] < low
    if spec.apart and spec.mends:
        return _parted_runs(db, spec, table, low, (there, ended, made))
    return table.filter(pa.array(ended)), table.filter(pa.array(~ended))


def _parted_runs(
    db: duckdb.DuckDBPyConnection,
    spec: SessionsSpec,
    table: pa.Table,
    low: int,
    found: tuple[Flags, Flags, Sessions],
) -> tuple[pa.Table, pa.Table]:
    """As `parted`, of runs of which a row that comes too late may move all cuts.

    A session that reaches beyond `low` is kept with the others: it says that what follows belongs to its run. In a torn
    run it is not known where sessions are: each row is kept that may be in one which ends at `low` or later.

    Args:
        found: which rows are in sessions, which of them in such that end before `low`, and these sessions.
    """
    there, ended, made = found
    until, pane = table["until"].to_numpy(), table["pane"].to_numpy()
    beyond = np.bincount(made.of_row, weights=until[there] >= low) > 0
    ended[there] &= ~beyond[made.of_row]
    runs, torn, longest = runs_in(db, spec, table), torn_in(table) > 0, spec.sessions.longest
    last = runs.end[runs.of_row]
    ended[torn] = (last if longest is None else np.minimum(last, pane + longest))[torn] < low
    over, others = table.filter(pa.array(ended)), table.filter(pa.array(~ended))
    if SINCE in table.column_names or ended.any():
        others = _with(others, SINCE, runs.start[runs.of_row][~ended])
    return over, others


def _with(table: pa.Table, name: str, values: Ints | Flags) -> pa.Table:
    """A table with other values in a column, which it may not have had."""
    column = pa.array(values.astype(np.int8) if name == TORN else values)
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


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
