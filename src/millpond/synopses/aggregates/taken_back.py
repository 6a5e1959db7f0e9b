"""Aggregates over streams that take rows back: a row with `op = '-'` undoes an equal one with '+'.

Counts and sums of integers and decimals are what came less what went. All others keep the rows themselves, each with
its sign, and leave out pairs when they are computed: then every aggregate of DuckDB can be had, and whatever came in
between, the value is that over the rows that are left. (Flink and Arasu's negative tuples do the same for the first
kind, and keep ordered multisets for extremes.) Rows of one event time are in the order of their values, column by
column, so that it does not matter when a row came, or how often it went and came again.
"""

from __future__ import annotations

import hashlib

from millpond.support.sql import quote
from millpond.synopses.aggregates.splits import VALUE, Component, Kind, Split
from millpond.synopses.aggregates.statistics import family_of, kept_arguments, over_rows
from millpond.types import ADD, Aggregate, Expression

#: 1 for a row that came, -1 for one that goes.
SIGN = """(CASE "op" WHEN '-' THEN -1 ELSE 1 END)"""

_SMALL = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
_FLOATS = ("FLOAT", "DOUBLE")


def split_of(aggregate: Aggregate, time: str) -> Split:
    """The components of an aggregate over such a stream, and its value from them; `aggregate.row` is not empty."""
    function, arguments = aggregate.function, aggregate.arguments
    condition = f"({aggregate.filter})" if aggregate.filter else "true"
    if function == "count_star":
        return _difference(_count(condition))
    if function == "count" and not aggregate.distinct:
        return _difference(_count(f"{condition} AND ({arguments[0]}) IS NOT NULL"))
    if function in ("sum", "avg") and not aggregate.distinct and _exact(aggregate.arguments[0].type):
        total = _total(arguments[0].sql, aggregate.arguments[0].type.upper(), condition)
        count = _count(f"{condition} AND ({arguments[0]}) IS NOT NULL")
        value = total.name if function == "sum" else f"{total.name}::DOUBLE / {count.name}"
        return Split((total, count), f"(CASE WHEN {count.name} > 0 THEN {value} END)")
    return _kept(aggregate, time, condition)


def _exact(kind: str) -> bool:
    kind = kind.upper()
    if kind.startswith("DECIMAL"):
        return int(kind[kind.index("(") + 1 : kind.index(",")]) <= 28
    return kind in (*_SMALL, "BIGINT", "UBIGINT", "BOOLEAN")


def _difference(component: Component) -> Split:
    return Split((component,), f"coalesce({component.name}, 0)")


def _count(condition: str) -> Component:
    return _component("add", f"coalesce(sum({SIGN}) FILTER (WHERE {condition}), 0)::BIGINT")


def _total(x: str, kind: str, condition: str) -> Component:
    came, went = (f"coalesce(sum({x}) FILTER (WHERE {condition} AND {SIGN} = {s}), 0)" for s in (1, -1))
    scale = kind[kind.index(",") + 1 : -1].strip() if kind.startswith("DECIMAL") else "0"
    return _component("add", f"({came} - {went})::DECIMAL(38,{scale})")


def _kept(aggregate: Aggregate, time: str, condition: str) -> Split:
    """Every row as an entry of a list; in `e` what tells it from others, in `s` its sign."""
    statistic = family_of(aggregate.function) is not None
    arguments = kept_arguments(aggregate) if statistic else tuple(each.sql for each in aggregate.arguments)
    fields = [f"'a{n}': {x}" for n, x in enumerate(arguments)]
    fields += [f"'o{n}': {t.expression}" for n, t in enumerate(aggregate.order)]
    row = ", ".join(f"'c{n}': {column}" for n, column in enumerate(aggregate.row))
    fields += [f"'t': epoch_us({quote(time)})", f"'r': {{{row}}}"]
    entry = f"{{'e': {{{', '.join(fields)}}}, 's': {SIGN}}}"
    entries = _component("list", f"list({entry}) FILTER (WHERE {condition})")
    left = (
        f"SELECT _at, e, unnest(range(n)) FROM (SELECT _at, u.e AS e, sum(u.s)::BIGINT AS n"
        f" FROM (SELECT _at, unnest({entries.name}) AS u FROM folded) GROUP BY _at, u.e HAVING sum(u.s) > 0)"
    )
    if statistic:
        final, values = over_rows(aggregate, f"SELECT _at, e FROM ({left})")
        return Split((entries,), final, values)
    values = f"SELECT _at, {_call(aggregate)} AS x FROM ({left}) GROUP BY _at"
    final = f"coalesce({VALUE}, 0)" if aggregate.function.startswith("count") else VALUE
    return Split((entries,), final, values)


def _call(aggregate: Aggregate) -> str:
    """The aggregate over entries `e`."""
    function = aggregate.function
    arguments = [f"e.a{n}" for n in range(len(aggregate.arguments))]
    place = "e.t, e.r"
    if aggregate.states_of:
        return f"[{aggregate.states_of}{ADD}({', '.join(f'list({each})' for each in arguments)})]"
    if function in ("first", "last"):
        return f"{function}({arguments[0]} ORDER BY {place})"
    if function in ("arg_min", "arg_max"):
        some = " AND ".join(f"{a} IS NOT NULL" for a in arguments)
        order = f"{arguments[1]} {'ASC' if function == 'arg_min' else 'DESC'}, {place}"
        return f"first({arguments[0]} ORDER BY {order}) FILTER (WHERE {some})"
    if function == "any_value":
        return f"first({arguments[0]} ORDER BY {place}) FILTER (WHERE {arguments[0]} IS NOT NULL)"
    extra = "".join(f", {p}" for p in aggregate.parameters)
    if function in ("list", "string_agg"):
        terms = [t.by(f"e.o{n}") for n, t in enumerate(aggregate.order)]
        if aggregate.distinct:
            terms = [t.by(arguments[0]) for t in aggregate.order] or [arguments[0]]
            return f"{function}(DISTINCT {arguments[0]}{extra} ORDER BY {', '.join(terms)})"
        return f"{function}({arguments[0]}{extra} ORDER BY {', '.join([*terms, place])})"
    kind = aggregate.arguments[0].type.upper() if aggregate.arguments else ""
    distinct = "DISTINCT " if aggregate.distinct else ""
    if function in ("sum", "avg") and kind in _FLOATS and not aggregate.distinct:
        total = f"fsum({arguments[0]})"
        return total if function == "sum" else f"{total} / nullif(count({arguments[0]}), 0)"
    if function.startswith(("var", "stddev", "covar", "corr")):
        arguments = [f"{a}::DOUBLE" for a in arguments]
    call = f"{function}({distinct}{', '.join(arguments)}{extra})"
    # By way of text a wide sum is checked for its 38 digits, which DuckDB itself would exceed.
    return f"({call})::VARCHAR" if function == "sum" else call


def _component(kind: Kind, sql: str) -> Component:
    name = "c" + hashlib.blake2b(f"{kind}|={sql}".encode(), digest_size=6).hexdigest()
    return Component(name, kind, (("", Expression(sql)),))
