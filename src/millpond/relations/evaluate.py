"""SQL over relations that change with time: its answer at an instant, and how that changes from instant to instant.

What an instant needs is never kept: a relation is evaluated where some window changes, all such instants of a stretch
in one SQL query (lifted, see `language.continuous`), and consecutive answers are compared as bags (digest B3, C3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa

from millpond.relations.contents import Content
from millpond.relations.in_time import Tables, TablesInTime, Ticks
from millpond.relations.joining import joined_changes
from millpond.relations.pipelines import Observer
from millpond.relations.probes import INSTANT, TOGETHER, Probed
from millpond.relations.spans import FOR_EVER, Ints
from millpond.relations.sums import nothing, sums_at, sums_between, told
from millpond.support.distinct import distinct
from millpond.synopses import query_table
from millpond.types import Elements, Grouped, Joined, Relational, RelationQuery

#: What is known of an input: its rows with their intervals, or how they are looked up.
Known = Content | Probed

#: Rows that are put before DuckDB at a time, over all instants of a chunk.
ROWS_AT_ONCE = 500_000

#: Rows, over all instants, that one epoch may look at: some minutes of work.
ROWS_AT_MOST = 2_000_000_000


def snapshot(
    db: duckdb.DuckDBPyConnection, query: RelationQuery, contents: Sequence[Known], tables: Tables, instant: int
) -> pa.Table:
    """R(τ): the answer at one instant, columns c0, c1, … in the order of SELECT."""
    inputs = {i.alias: c.at(instant) for i, c in zip(query.inputs, contents, strict=True) if isinstance(c, Content)}
    if query.driver:
        known = inputs[query.driver]
        driver = known.append_column(INSTANT, pa.array(np.zeros(known.num_rows, np.int64)))
        for item, each in zip(query.inputs, contents, strict=True):
            if isinstance(each, Probed):
                inputs[item.alias] = each.lift(db, driver, np.array([instant])).drop_columns([INSTANT])
    return query_table(db, f"SELECT {_values(query)} FROM ({query.sql}) AS q({_names(query)})", **inputs, **tables)


def _changes(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    contents: Sequence[Known],
    tables: TablesInTime,
    low: int,
    high: int,
    observer: Observer | None,
) -> tuple[pa.Table, bool]:
    """As `_changes_within`, where tables change too: at an instant from which on they are others, the relation changes
    by what they make of what was in the windows just before it."""
    stretches = tables.between(low, high)
    switches = [since for since, _ in tables.stretches[1:] if low <= since < high]
    if len(stretches) == 1 and not switches:
        return _changes_within(db, query, contents, stretches[0][2], low, high, observer)
    c = _list(query)
    # What leaves at the instant of a switch cancels what the new tables make of it, whichever of them is asked for.
    both = replace(query, operator=None)
    parts = [
        query_table(
            db,
            f"SELECT _at, {c}, _net FROM d",
            d=_changes_within(db, both, contents, found, start, stop, observer)[0],
        )
        for start, stop, found in stretches
    ]
    for since in switches:
        before, after = (snapshot(db, query, contents, tables.at(at), since - 1) for at in (since - 1, since))
        sql = (
            f"SELECT {since}::BIGINT AS _at, {c}, sum(n)::BIGINT AS _net FROM (SELECT {c}, 1 AS n FROM new"
            f" UNION ALL SELECT {c}, -1 FROM old) GROUP BY {c} HAVING sum(n) <> 0"
        )
        parts.append(query_table(db, sql, new=after, old=before))
    sql = f"SELECT _at, {c}, sum(_net)::BIGINT AS _net FROM d GROUP BY _at, {c} HAVING sum(_net) <> 0 ORDER BY ALL"
    return query_table(db, sql, d=pa.concat_tables(parts, promote_options="permissive")), False


def _changes_within(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    contents: Sequence[Known],
    tables: Tables,
    low: int,
    high: int,
    observer: Observer | None,
) -> tuple[pa.Table, bool]:
    """How the relation changes at the instants low <= τ < high: columns `_at` (microseconds), c0, c1, …, `_net`.

    `_net` is how many more of a row there are at τ than an instant before: bag differences, in which a row that leaves
    and an equal one that enters cancel (digest T5).

    Returns: the changes, and whether they are in an order already that depends on the rows alone.
    """
    if isinstance(query.plan, Elements):
        return _elements(db, query, query.plan, _kept(contents)[0], tables, low, high), False
    if isinstance(query.plan, Joined):
        return joined_changes(db, query, _list(query), _kept(contents), tables, low, high, observer)
    points = _instants(_leading(query, contents), low, high)
    parts = []
    for start, stop in _chunks(query, contents, points):
        before = points[start - 1] if start else low - 1
        chunk = np.r_[before, points[start:stop]]
        sql = (
            f"WITH d AS (SELECT i, {_list(query)}, 1 AS n FROM found UNION ALL"
            f" SELECT i + 1, {_list(query)}, -1 FROM found WHERE i < {len(chunk) - 1})"
            f" SELECT i, {_list(query)}, sum(n)::BIGINT AS _net FROM d WHERE i > 0"
            f" GROUP BY i, {_list(query)} HAVING sum(n) <> 0 ORDER BY ALL"
        )
        parts.append(_timed(query_table(db, sql, found=_lifted(db, query, contents, tables, chunk)), chunk))
    return (pa.concat_tables(parts) if parts else _nothing(db, query, tables, contents)), False


def answers(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    contents: Sequence[Known],
    tables: Tables | TablesInTime,
    low: int,
    high: int,
    ticks: Ticks | None = None,
    observer: Observer | None = None,
) -> pa.Table:
    """What the query reports for the instants low <= τ < high: `_at`, `_sign`, c0, c1, …, `_n` (how often).

    `_sign` is 1 for a row that enters (ISTREAM, RSTREAM) and -1 for one that leaves (DSTREAM); a relation has both. In
    an order that depends on the rows alone; a row that enters twice may stand there twice.

    Arguments:
        ticks: the instants that RSTREAM reports. observer: of the pipelines of a join of many inputs.
    """
    operator = query.operator
    tables = tables if isinstance(tables, TablesInTime) else TablesInTime(((-FOR_EVER, tables),))
    if isinstance(query.plan, Grouped):
        kept, there = _kept(contents), any(len(c.begin) and int(c.begin.min()) < low for c in _kept(contents))
        grouping, ticks = query.plan.grouping, ticks if operator == "rstream" else None
        before = sums_at(db, query, kept, tables, low - 1, ticks) if there else nothing(db, grouping)
        return told(
            db, query, before, sums_between(db, query, kept, tables, low, high, observer, ticks), ticks, low, high
        )
    if operator == "rstream":
        assert ticks is not None
        parts = [_reported(db, query, contents, t, a, b, ticks) for a, b, t in tables.between(low, high)]
        return pa.concat_tables(parts, promote_options="permissive")
    net, ordered = _changes(db, query, contents, tables, low, high, observer)
    if ordered:
        return _signed(net, operator)
    wanted = {"istream": "WHERE _net > 0", "dstream": "WHERE _net < 0", None: ""}[operator]
    sql = f"SELECT _at, sign(_net)::BIGINT AS _sign, {_list(query)}, abs(_net)::BIGINT AS _n FROM net {wanted}"
    return query_table(db, f"{sql} ORDER BY ALL", net=net)


def _signed(net: pa.Table, operator: str | None) -> pa.Table:
    """Changes of one row each as what is reported of them, in their order."""
    sign = net["_net"].to_numpy()
    if operator is not None:
        wanted = sign > 0 if operator == "istream" else sign < 0
        if not wanted.all():
            net, sign = net.filter(pa.array(wanted)), sign[wanted]
    columns = [net["_at"], pa.array(sign), *(net[n] for n in net.column_names if n not in ("_at", "_net"))]
    names = ["_at", "_sign", *(n for n in net.column_names if n not in ("_at", "_net"))]
    return pa.table([*columns, pa.array(np.ones(len(sign), np.int64))], names=[*names, "_n"])


def difference(db: duckdb.DuckDBPyConnection, query: Relational, old: pa.Table, new: pa.Table) -> pa.Table:
    """What `answers` has more or less than before: its columns, `_n` positive for what came, negative for what went."""
    columns = f"_at, _sign, {_list(query)}"
    sql = (
        f"SELECT {columns}, sum(_n)::BIGINT AS _n FROM (SELECT {columns}, _n FROM new UNION ALL"
        f" SELECT {columns}, -_n FROM old) GROUP BY {columns} HAVING sum(_n) <> 0 ORDER BY ALL"
    )
    return query_table(db, sql, old=old, new=new)


def pending(contents: Sequence[Known], instant: int) -> int | None:
    """The next instant from `instant` on at which a window changes; None: nothing is left to change.

    Windows that are looked up change nothing by themselves.
    """
    found = [a[a >= instant] for c in _kept(contents) for a in (c.begin, c.end[c.end < FOR_EVER])]
    return min((int(a.min()) for a in found if len(a)), default=None)


# --- plans ------------------------------------------------------------------------------------------------------------


def _elements(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    plan: Elements,
    content: Content,
    tables: Tables,
    low: int,
    high: int,
) -> pa.Table:
    """Select and project: a row's image enters when the row does, and leaves with it (digest D1, algorithm 3)."""
    touched = ((content.begin >= low) & (content.begin < high)) | ((content.end >= low) & (content.end < high))
    begin, end = content.begin[touched], content.end[touched]
    rows = content.rows.filter(pa.array(touched))
    once = Content(rows, np.arange(len(begin)), np.arange(1, len(begin) + 1))
    by_rows = plan.rowwise
    if by_rows is None:
        images = _lifted(db, query, [once], tables, np.arange(len(begin)))
    else:  # each row meets the tables once, however many instants it is there for
        numbered = rows.append_column(INSTANT, pa.array(np.arange(len(begin))))
        images = query_table(
            db,
            f"SELECT i, {_values(query)} FROM ({by_rows}) AS q(i, {_names(query)})",
            **{query.inputs[0].alias: numbered},
            **tables,
        )
    spans = pa.table({"i": np.arange(len(begin)), "b": begin, "e": end})
    c = _list(query)
    sql = (
        f"WITH x AS (SELECT b, e, {c} FROM images JOIN spans USING (i)),"
        f" d AS (SELECT b AS _at, {c}, 1 AS n FROM x UNION ALL SELECT e, {c}, -1 FROM x)"
        f" SELECT _at, {c}, sum(n)::BIGINT AS _net FROM d WHERE _at >= {low} AND _at < {min(high, FOR_EVER)}"
        f" GROUP BY _at, {c} HAVING sum(n) <> 0 ORDER BY ALL"
    )
    return query_table(db, sql, images=images, spans=spans)


def _reported(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    contents: Sequence[Known],
    tables: Tables,
    low: int,
    high: int,
    ticks: Ticks,
) -> pa.Table:
    """RSTREAM: the whole relation at every tick."""
    points = ticks.between(low, high)
    c = _list(query)
    parts = []
    for begin, stop in _chunks(query, contents, points):
        chunk = points[begin:stop]
        lifted = _lifted(db, query, contents, tables, chunk)
        sql = f"SELECT i, 1::BIGINT AS _sign, {c}, count(*)::BIGINT AS _n FROM found GROUP BY i, {c} ORDER BY ALL"
        parts.append(_timed(query_table(db, sql, found=lifted), chunk))
    if parts:
        return pa.concat_tables(parts)
    empty = _nothing(db, query, tables, contents)
    return query_table(db, f"SELECT _at, 1::BIGINT AS _sign, {c}, _net AS _n FROM e", e=empty)


def _kept(contents: Sequence[Known]) -> list[Content]:
    """The inputs whose rows are at hand."""
    return [c for c in contents if isinstance(c, Content)]


def _leading(query: RelationQuery, contents: Sequence[Known]) -> list[Content]:
    """The inputs that say at which instants the answer may change: the driver, or all."""
    if not query.driver:
        return _kept(contents)
    return [
        c for i, c in zip(query.inputs, contents, strict=True) if i.alias == query.driver and isinstance(c, Content)
    ]


# --- instants ---------------------------------------------------------------------------------------------------------


def _instants(contents: Sequence[Content], low: int, high: int) -> Ints:
    """The instants low <= τ < high at which a window changes, ascending."""
    ends = [a for c in contents for a in (c.begin, c.end)]
    every = distinct(np.concatenate(ends)) if ends else np.empty(0, np.int64)
    return every[(every >= low) & (every < min(high, FOR_EVER))]


def _chunks(query: RelationQuery, contents: Sequence[Known], points: Ints) -> list[tuple[int, int]]:
    """Stretches of `points` whose rows, added up over their instants, are few enough; an hour where that prunes."""
    if not len(points):
        return []
    size = np.ones(len(points), np.int64)
    pruned = any(isinstance(c, Probed) and c.probe.may is not None for c in contents)
    for c in _kept(contents):
        entered = np.searchsorted(np.sort(c.begin), points, "right")
        size += entered - np.searchsorted(np.sort(c.end), points, "right")
    total = np.cumsum(size)
    if total[-1] > ROWS_AT_MOST:
        raise ValueError(
            f"the relation would be evaluated over {total[-1]} rows, those in its windows at {len(points)} instants;"
            f" at most {ROWS_AT_MOST} are allowed: a shorter window, a filter below it, or a window with SLIDE helps"
        )
    found = []
    start = 0
    while start < len(points):
        done = int(total[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + ROWS_AT_ONCE, "right")))
        if pruned:
            stop = min(stop, int(np.searchsorted(points, (points[start] // TOGETHER + 1) * TOGETHER)))
        found.append((start, stop))
        start = stop
    return found


def _lifted(
    db: duckdb.DuckDBPyConnection, query: RelationQuery, contents: Sequence[Known], tables: Tables, points: Ints
) -> pa.Table:
    """The answer at each of `points` (ascending): columns i (which point) and c0, c1, …"""
    if query.lifted is None:
        return _one_by_one(db, query, contents, tables, points)
    inputs = {}
    for item, content in zip(query.inputs, contents, strict=True):
        if isinstance(content, Probed):
            continue
        first = np.searchsorted(points, content.begin, "left")
        count = np.maximum(np.searchsorted(points, content.end, "left") - first, 0)
        row = np.repeat(np.arange(len(first)), count)
        within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        instant = np.repeat(first, count) + within
        inputs[item.alias] = content.rows.take(pa.array(row)).append_column(INSTANT, pa.array(instant))
    for item, content in zip(query.inputs, contents, strict=True):
        if isinstance(content, Probed):
            inputs[item.alias] = content.lift(db, inputs[query.driver], points)
    inputs[query.instants] = pa.table({INSTANT: np.arange(len(points))})
    return query_table(
        db, f"SELECT i, {_values(query)} FROM ({query.lifted}) AS q(i, {_names(query)})", **inputs, **tables
    )


def _one_by_one(
    db: duckdb.DuckDBPyConnection, query: RelationQuery, contents: Sequence[Known], tables: Tables, points: Ints
) -> pa.Table:
    """As `_lifted`, for what DuckDB cannot correlate: one query per instant."""
    parts = []
    for number, point in enumerate(points.tolist()):
        found = snapshot(db, query, contents, tables, point)
        parts.append(found.add_column(0, "i", pa.array(np.full(found.num_rows, number))))
    if not parts:
        found = snapshot(db, query, contents, tables, -FOR_EVER).slice(0, 0)
        return found.add_column(0, "i", pa.array([], pa.int64()))
    return pa.concat_tables(parts, promote_options="permissive")


def _timed(found: pa.Table, points: Ints) -> pa.Table:
    """The table with the instants themselves in the place of their numbers."""
    at = points[found["i"].to_numpy()] if found.num_rows else np.empty(0, np.int64)
    return found.set_column(0, "_at", pa.array(at, pa.int64()))


def _nothing(
    db: duckdb.DuckDBPyConnection, query: RelationQuery, tables: Tables, contents: Sequence[Known]
) -> pa.Table:
    none = [
        replace(c, read=lambda _: iter(()))
        if isinstance(c, Probed)
        else Content(c.rows.slice(0, 0), c.begin[:0], c.end[:0])
        for c in contents
    ]
    empty = _lifted(db, query, none, tables, np.empty(0, np.int64))
    sql = f"SELECT i AS _at, {_list(query)}, 0::BIGINT AS _net FROM e"
    return query_table(db, sql, e=empty)


def _list(query: Relational) -> str:
    return ", ".join(f"c{n}" for n in range(len(query.select)))


_names = _list


def _values(query: Relational) -> str:
    """The answer's columns as Arrow carries them: ENUMs as texts."""
    return ", ".join(
        f"CAST(c{n} AS VARCHAR) AS c{n}" if o.type.startswith("ENUM(") else f"c{n}" for n, o in enumerate(query.select)
    )
