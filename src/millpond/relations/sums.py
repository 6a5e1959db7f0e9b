"""Aggregates over joins, from the joined rows that enter and leave: counts, and sums that can be taken back exactly.

What is known of a group is how many joined rows it has and, of each argument, how many are not NULL and what they add
up to. All of that is whole numbers: a floating number is cut into a mantissa and a multiple of eight as its exponent,
and mantissas with one exponent are added up as whole numbers (a small superaccumulator; Kulisch 1981, Neal 2015). So
sums depend on the rows that are there, not on those that came and went, nor on their order or on cuts into epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import duckdb
import numpy as np
import pyarrow as pa

from millpond.relations.contents import NOWHERE, Content
from millpond.relations.in_time import TICKS, Tables, TablesInTime, Ticks
from millpond.relations.joining import joined_rows
from millpond.relations.pipelines import Observer
from millpond.relations.spans import FOR_EVER, Ints
from millpond.support.distinct import distinct
from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.types import (
    CountedArgument,
    DecimalArgument,
    FloatingArgument,
    Grouped,
    Grouping,
    RelationQuery,
    WholeArgument,
)

#: In the place of an exponent: values that are no numbers, and infinite ones.
NAN, INFINITE, MINUS_INFINITE = 9001, 9002, 9003

#: Bits by which exponents of floating numbers are rounded.
STEP = 8


def sums_between(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    contents: Sequence[Content],
    tables: TablesInTime,
    low: int,
    high: int,
    observer: Observer | None = None,
    ticks: Ticks | None = None,
) -> pa.Table:
    """What joined rows add to their groups when they enter, and take away when they leave, at low <= τ < high.

    Returns: `_at` (microseconds), k0, …, n, and columns v0, s0, l0_q, …: a row for each instant and group that changes.

    Arguments:
        ticks: the instants that are looked at alone; None: all.
    """
    grouping = grouping_of(query)
    seen = contents if ticks is None else [at_ticks(c, ticks) for c in contents]
    high = min(high, FOR_EVER)
    parts = [_rows(db, query, seen, found, start, stop, observer) for start, stop, found in tables.between(low, high)]
    for since in [s for s, _ in tables.stretches[1:] if low <= s < high]:
        for at, sign in ((since, 1), (since - 1, -1)):  # what was there just before, with other tables
            held = _holding(seen, since - 1)
            rows = _rows(db, query, held, tables.at(at), since - 1, since, None)
            signs = pa.array(rows["_n"].to_numpy() * sign)
            rows = rows.set_column(rows.column_names.index("_n"), "_n", signs)
            moment = since if ticks is None else ticks.at_or_after(since)
            moments = pa.array(np.full(rows.num_rows, moment))
            parts.append(rows.set_column(rows.column_names.index("_at"), "_at", moments))
    return _added_up(db, grouping, pa.concat_tables(parts, promote_options="permissive"))


def sums_at(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    contents: Sequence[Content],
    tables: TablesInTime,
    instant: int,
    ticks: Ticks | None = None,
) -> pa.Table:
    """What is known of each group at an instant, from the rows: columns of `sums_between` without `_at`."""
    grouping = grouping_of(query)
    seen = contents if ticks is None else [at_ticks(c, ticks) for c in contents]
    rows = _rows(db, query, _holding(seen, instant), tables.at(instant), instant, instant + 1, None)
    return total(db, grouping, [(_added_up(db, grouping, rows), 1)])


def total(db: duckdb.DuckDBPyConnection, grouping: Grouping, parts: Sequence[tuple[pa.Table, int]]) -> pa.Table:
    """Sums of groups put together, each with a sign; groups of which nothing is left are left out. In one order."""
    measures = _measures([t for t, _ in parts])
    keys = _keys(grouping)
    names = [f"p{n}" for n in range(len(parts))]
    tables = {name: _with(t, measures) for name, (t, _) in zip(names, parts, strict=True)}
    lists = [
        f"SELECT {', '.join([*keys, *(quote(m) if sign > 0 else f'-{quote(m)} AS {quote(m)}' for m in measures)])}"
        f" FROM {name}"
        for name, (_, sign) in zip(names, parts, strict=True)
    ]
    sums = [f"sum({quote(m)}){_stored(m)} AS {quote(m)}" for m in measures]
    left = " OR ".join(f"{quote(m)} <> 0" for m in measures)
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    sql = (
        f"SELECT * FROM (SELECT {', '.join([*keys, *sums])} FROM ({' UNION ALL '.join(lists)}){by})"
        f" WHERE {left} ORDER BY ALL"
    )
    return query_table(db, sql, **tables)


def nothing(db: duckdb.DuckDBPyConnection, grouping: Grouping) -> pa.Table:
    """No group."""
    fields = [f"CAST(NULL AS {kind}) AS k{n}" for n, kind in enumerate(grouping.keys)]
    return query_table(db, f"SELECT {', '.join([*fields, 'CAST(NULL AS BIGINT) AS n'])} LIMIT 0")


def told(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    before: pa.Table,
    changes: pa.Table,
    ticks: Ticks | None = None,
    low: int = 0,
    high: int = 0,
) -> pa.Table:
    """What a query reports: as of `evaluate.answers`.

    Arguments:
        before: what was known of the groups before the first change. changes: of `sums_between`.
        ticks, low, high: of RSTREAM: its instants, of the stretch low <= τ < high.
    """
    grouping = grouping_of(query)
    measures = _measures([before, changes])
    keys, changing = _keys(grouping), query.operator != "rstream"
    states = _states(db, grouping, _with(before, measures), _with(changes, measures), measures, changing)
    listed = ", ".join([*keys, *map(quote, measures)])
    if query.operator == "rstream":
        assert ticks is not None
        return _reported(db, query, states, measures, ticks, low, high)
    c = ", ".join(f"c{n}" for n in range(len(query.select)))
    old = [f"{quote(m)} - {quote('-' + m)} AS {quote(m)}" for m in measures]
    both = (
        f"SELECT _at, 1 AS _sign, {listed} FROM s WHERE _at IS NOT NULL"
        f" UNION ALL SELECT _at, -1, {', '.join([*keys, *old])} FROM s WHERE _at IS NOT NULL"
    )
    wanted = {"istream": " AND sum(_sign) > 0", "dstream": " AND sum(_sign) < 0"}.get(query.operator or "", "")
    sql = (
        f"SELECT _at, sign(sum(_sign))::BIGINT AS _sign, {c}, abs(sum(_sign))::BIGINT AS _n FROM"
        f" ({_images(query, measures, both, '_at, _sign')})"
        f" GROUP BY _at, {c} HAVING sum(_sign) <> 0{wanted} ORDER BY ALL"
    )
    return query_table(db, sql, s=states)


def _states(
    db: duckdb.DuckDBPyConnection,
    grouping: Grouping,
    before: pa.Table,
    changes: pa.Table,
    measures: Sequence[str],
    changing: bool,
) -> pa.Table:
    """What is known of groups from some instants on: `_at` (NULL: before all changes), keys and measures, of each
    measure what was added ("-n", …), and `_next`: the instant of the group's next change.

    Arguments:
        changing: groups that do not change are left out.
    """
    keys, names = _keys(grouping), [quote(m) for m in measures]
    known = f"SELECT NULL::BIGINT AS _at, {', '.join(f'b.{c}' for c in [*keys, *names])} FROM b"
    if keys and changing:
        same = " AND ".join(f"b.{k} IS NOT DISTINCT FROM d.{k}" for k in keys)
        known += f" JOIN (SELECT DISTINCT {', '.join(keys)} FROM c) d ON {same}"
    rows = f"{known} UNION ALL SELECT {', '.join(['_at', *keys, *names])} FROM c"
    if grouping.whole:
        added = ", ".join(f"sum({m}) AS {m}" for m in names)
        rows = f"SELECT _at, {added} FROM ({rows} UNION ALL SELECT NULL, {', '.join('0' for _ in names)}) GROUP BY _at"
    parted = f"PARTITION BY {', '.join(keys)} " if keys else ""
    over = f"({parted}ORDER BY _at NULLS FIRST)"
    after = [f"sum({quote(m)}) OVER {over}{_stored(m)} AS {quote(m)}" for m in measures]
    own = [f"{quote(m)}{_stored(m)} AS {quote('-' + m)}" for m in measures]
    listed = ", ".join(["_at", *keys, *after, *own, f"lead(_at) OVER {over} AS _next"])
    return query_table(db, f"SELECT {listed} FROM ({rows})", b=before, c=changes)


def at_ticks(content: Content, ticks: Ticks) -> Content:
    """The content as it is at some instants alone: rows that are there at none of them are left out."""
    begin, end = ticks.at_or_after_all(content.begin), ticks.at_or_after_all(content.end)
    unseen = begin >= end
    begin[unseen], end[unseen] = NOWHERE, NOWHERE
    reach = content.reach + ticks.every if content.reach >= 0 else -1
    return Content(content.rows, begin, end, content.runs, reach)


# --- parts ------------------------------------------------------------------------------------------------------------


def _rows(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    contents: Sequence[Content],
    tables: Tables,
    low: int,
    high: int,
    observer: Observer | None,
) -> pa.Table:
    """Keys and arguments of joined rows that enter (`_n` 1) or leave (-1): c0, c1, …, `_at`, `_n`."""
    grouping = grouping_of(query)
    count = max(1, len(grouping.keys) + len(grouping.arguments))
    names = ", ".join(f"c{n}" for n in range(count))
    return joined_rows(db, query, names, contents, tables, low, high, observer)


def _holding(contents: Sequence[Content], instant: int) -> list[Content]:
    """The contents as if the rows that are in the windows at an instant came then, and stayed."""
    found = []
    for each in contents:
        there = (each.begin <= instant) & (instant < each.end)
        begin, end = np.where(there, instant, NOWHERE), np.where(there, FOR_EVER, NOWHERE)
        found.append(Content(each.rows, begin, end, each.runs, -1))
    return found


def _added_up(db: duckdb.DuckDBPyConnection, grouping: Grouping, rows: pa.Table) -> pa.Table:
    """Joined rows added up by instant and group."""
    keys = [f"c{n} AS k{n}" for n in range(len(grouping.keys))]
    sums = ["sum(_n)::BIGINT AS n"]
    for number, argument in enumerate(grouping.arguments):
        column = f"c{len(grouping.keys) + number}"
        sums.append(f"sum(CASE WHEN {column} IS NOT NULL THEN _n ELSE 0 END)::BIGINT AS v{number}")
        match argument:
            case CountedArgument():
                pass
            case WholeArgument():
                sums.append(f"{_signed(f'CAST({column} AS HUGEINT)')}{_stored(f's{number}')} AS s{number}")
            case DecimalArgument():
                sums.append(f"{_signed(column)} AS s{number}")
            case FloatingArgument():
                rows, names = _with_mantissas(rows, column, number)
                sums += [f"sum({quote(m)} * _n){_stored(m)} AS {quote(m)}" for m in names]
            case _:
                assert_never(argument)
    by = ", ".join(["_at", *(f"c{n}" for n in range(len(grouping.keys)))])
    return query_table(db, f"SELECT {', '.join(['_at', *keys, *sums])} FROM r GROUP BY {by}", r=rows)


def _signed(value: str) -> str:
    """SQL: what rows that enter add of a value, less what those that leave take away."""
    return f"coalesce(sum(CASE WHEN _n > 0 THEN {value} ELSE -{value} END), 0)"


def _with_mantissas(rows: pa.Table, column: str, number: int) -> tuple[pa.Table, list[str]]:
    """Rows with a column for each exponent that a floating column has, and their names."""
    known = rows[column].cast(pa.float64()).combine_chunks()
    values = known.fill_null(0.0).to_numpy(zero_copy_only=False)
    exponents, mantissas = mantissas_of(values)
    names = []
    for each in distinct(exponents[mantissas != 0]).tolist():
        names.append(f"l{number}_{each}")
        rows = rows.append_column(names[-1], pa.array(np.where(exponents == each, mantissas, 0)))
    return rows, names


def mantissas_of(values: np.ndarray) -> tuple[Ints, Ints]:
    """Floating numbers as `mantissa * 2 ** (8 * exponent)`, exactly; see NAN, INFINITE and MINUS_INFINITE.

    >>> mantissas_of(np.array([0.5, -3.0]))[0].tolist()
    [-7, -7]
    """
    finite = np.isfinite(values)
    part, power = np.frexp(np.where(finite, values, 0.0))
    power = power.astype(np.int64) - 53
    exponents = power // STEP
    mantissas = (part * 2.0**53).astype(np.int64) << (power - exponents * STEP)
    for code, flags in ((NAN, np.isnan(values)), (INFINITE, values == np.inf), (MINUS_INFINITE, values == -np.inf)):
        exponents[flags], mantissas[flags] = code, 1
    return exponents, mantissas


def _reported(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    states: pa.Table,
    measures: Sequence[str],
    ticks: Ticks,
    low: int,
    high: int,
) -> pa.Table:
    """RSTREAM: what is known of all groups at every tick."""
    points = ticks.between(low, high)
    # From which tick on a group is so, and up to which.
    begin = np.searchsorted(points, states["_at"].fill_null(low).to_numpy(), "left")
    end = np.searchsorted(points, states["_next"].fill_null(FOR_EVER).to_numpy(), "left")
    count = np.maximum(end - begin, 0)
    if count.sum() > TICKS:
        raise ValueError(f"RSTREAM would report {count.sum()} rows in one epoch; at most {TICKS} are allowed")
    row = np.repeat(np.arange(len(count)), count)
    place = np.repeat(begin, count) + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    seen = states.take(pa.array(row))
    moments = pa.array(points[place] if len(points) else np.empty(0, np.int64), pa.int64())
    seen = seen.set_column(seen.column_names.index("_at"), "_at", moments)
    keys = _keys(grouping_of(query))
    c = ", ".join(f"c{n}" for n in range(len(query.select)))
    source = f"SELECT {', '.join(['_at', *keys, *map(quote, measures)])} FROM s"
    sql = (
        f"SELECT _at, 1::BIGINT AS _sign, {c}, count(*)::BIGINT AS _n FROM ({_images(query, measures, source, '_at')})"
        f" GROUP BY _at, {c} ORDER BY ALL"
    )
    return query_table(db, sql, s=seen)


def _images(query: RelationQuery, measures: Sequence[str], source: str, beside: str) -> str:
    """SQL: the select list over states of groups, of those that are there."""
    grouping = grouping_of(query)
    values = [f"{sql} AS s{n}, CAST({sql} AS DOUBLE) / nullif(v{n}, 0) AS m{n}" for n, sql in _sums(grouping, measures)]
    given = ", ".join([beside, *_keys(grouping), *(m for m in measures if m[0] in "nv"), *values])
    tests = [t for t in (None if grouping.whole else "n > 0", grouping.having and f"({grouping.having})") if t]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    outputs = ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(grouping.select))
    return f"SELECT {beside}, {outputs} FROM (SELECT {given} FROM ({source})){where}"


def _sums(grouping: Grouping, measures: Sequence[str]) -> list[tuple[int, str]]:
    """How the sum of each argument is read: its number, and DuckDB SQL over the columns that are kept."""
    found: list[tuple[int, str]] = []
    for number, argument in enumerate(grouping.arguments):
        match argument:
            case CountedArgument():
                pass
            case WholeArgument():
                found.append((number, f"CAST(s{number} AS HUGEINT)"))
            case DecimalArgument(digits):
                found.append((number, f"CAST(s{number} AS DECIMAL(38, {digits}))"))
            case FloatingArgument():
                exponents = sorted(int(m.split("_")[1]) for m in measures if m.startswith(f"l{number}_"))
                found.append((number, _floating(number, exponents)))
            case _:
                assert_never(argument)
    return found


def _floating(number: int, exponents: Sequence[int]) -> str:
    """A sum of floating numbers from those of mantissas by exponent."""

    def column(exponent: int) -> str:
        return quote(f"l{number}_{exponent}")

    terms = []
    for each in sorted((e for e in exponents if e < NAN), reverse=True):
        first, second = each * STEP // 2, each * STEP - each * STEP // 2  # 2 ** -1080 is no number of its own
        powers = f"pow(2::DOUBLE, {first}) * pow(2::DOUBLE, {second})" if each else "1.0::DOUBLE"
        terms.append(f"CAST({column(each)} AS DOUBLE) * {powers}")
    plain = " + ".join(terms) or "CAST(0 AS DOUBLE)"
    odd = {e: f"{column(e)} <> 0" for e in (NAN, INFINITE, MINUS_INFINITE) if e in exponents}
    if not odd:
        return plain
    cases = [f"WHEN {odd[NAN]} THEN 'nan'::DOUBLE"] if NAN in odd else []
    if INFINITE in odd and MINUS_INFINITE in odd:
        cases.append(f"WHEN {odd[INFINITE]} AND {odd[MINUS_INFINITE]} THEN 'nan'::DOUBLE")
    cases += [f"WHEN {odd[e]} THEN '{t}'::DOUBLE" for e, t in ((INFINITE, "inf"), (MINUS_INFINITE, "-inf")) if e in odd]
    return f"CASE {' '.join(cases)} ELSE {plain} END"


def _measures(tables: Sequence[pa.Table]) -> list[str]:
    """The columns that add up, in one order."""
    names = {name for t in tables for name in t.column_names if name[0] in "nvsl"}
    return sorted(names)


def _keys(grouping: Grouping) -> list[str]:
    return [f"k{n}" for n in range(len(grouping.keys))]


def _with(table: pa.Table, measures: Sequence[str]) -> pa.Table:
    """The table with zeros for what it lacks."""
    for name in measures:
        if name not in table.column_names:
            table = table.append_column(name, pa.array(np.zeros(table.num_rows, np.int64)))
    return table


def _stored(measure: str) -> str:
    """How sums are cast to what they are kept as: counts as they are, whole numbers as wide as can be."""
    return "::BIGINT" if measure[0] in "nv" else "::DECIMAL(38, 0)" if measure[0] == "l" else ""


def grouping_of(query: RelationQuery) -> Grouping:
    """The aggregates of a query that is kept by those over a join."""
    assert isinstance(query.plan, Grouped)
    return query.plan.grouping
