"""How each aggregate is split: components kept per pane (sub) and the expression over them (super).

Li 2008, section on panes: F(X) = S({L(X_i)}). Bounded aggregates keep a fixed number of components; holistic ones
(median, quantile, DISTINCT, lists) keep a list of values per pane, and EXPLAIN says so; `statistics` has those that
keep counts of values and sketches.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from millpond.synopses.aggregates.splits import ENTRIES, Component, Kind, Split
from millpond.synopses.aggregates.statistics import family_of, statistic
from millpond.synopses.aggregates.taken_back import split_of
from millpond.synopses.aggregates.weighted import weighted
from millpond.types import ADD, WEIGHT, Aggregate, Expression, composed

_SMALL = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BOOLEAN"}
_INTEGERS = _SMALL | {"BIGINT", "UBIGINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
_WHOLE = _INTEGERS - {"BOOLEAN"}


def _component(kind: Kind, *columns: tuple[str, str], beside: tuple[str, ...] = (), alone: str = "") -> Component:
    """A component of its columns' SQL. beside: what it reads beside what the aggregate does."""
    text = kind + "|" + "|".join(f"{s}={e}" for s, e in columns)
    name = "c" + hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return Component(name, kind, tuple((s, Expression(sql, beside)) for s, sql in columns), alone=alone)


def is_holistic(aggregate: Aggregate) -> bool:
    """Whether the aggregate keeps values instead of a fixed number of accumulators."""
    return any(c.kind in ("list", "set", *ENTRIES) for c in components_of(aggregate, "ts").components)


def components_of(aggregate: Aggregate, time: str) -> Split:
    """Split an aggregate; `time` is the stream's event-time column, which orders first, last and lists.

    >>> str(components_of(Aggregate("a0", "count_star"), "ts").components[0].columns[0][1])
    'count(*)'
    """
    split, beside = _split(aggregate, time), list[str]()
    if aggregate.measure:  # each of its components looks at what rows weigh
        split, beside = weighted(aggregate, lambda each: _split(each, time), _component), [WEIGHT]
    given = [*aggregate.arguments, *(t.expression for t in aggregate.order)]
    safe = aggregate.filter is None and not aggregate.states_of and all(e.column is not None for e in given)
    components = tuple(
        replace(
            c,
            safe=safe,
            alone=c.alone if safe else "",
            columns=tuple((s, composed(e.sql, e.type, [*aggregate.over, e], beside)) for s, e in c.columns),
        )
        for c in split.components
    )
    return replace(split, components=components)


def _split(aggregate: Aggregate, time: str) -> Split:
    if aggregate.row:
        return split_of(aggregate, time)
    function, arguments = aggregate.function, aggregate.arguments
    types = tuple(a.type.upper() for a in arguments)
    where = f" FILTER (WHERE {aggregate.filter})" if aggregate.filter else ""
    if family_of(function) is not None:
        return statistic(aggregate, time)
    if aggregate.distinct and function not in ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or"):
        return _distinct(aggregate, where)
    if aggregate.states_of:
        return _states(aggregate, where)
    if function == "count_star":
        return _counted(_component("add", ("", f"count(*){where}"), alone="1::BIGINT"))
    if function == "count":
        return _counted(_count(arguments[0], where))
    if function == "sum" and _summable(types[0]):
        total = _sum(arguments[0].sql, types[0], where)
        return Split((total,), total.name)
    if function == "avg" and _summable(types[0]):
        total, count = _sum(arguments[0].sql, types[0], where), _count(arguments[0], where)
        return Split((total, count), f"(CASE WHEN {count.name} > 0 THEN {total.name}::DOUBLE / {count.name} END)")
    if function in ("min", "max"):
        kind: Kind = "min" if function == "min" else "max"
        best = _component(kind, ("", f"{function}({arguments[0]}){where}"), alone=arguments[0].sql)
        return Split((best,), best.name)
    if function in ("bool_and", "bool_or"):
        best = _component("min" if function == "bool_and" else "max", ("", f"{function}({arguments[0]}){where}"))
        return Split((best,), best.name)
    if (function in ("bit_and", "bit_or", "bit_xor") and types[0] in _WHOLE) or function == "product":
        operation: Kind = function  # type: ignore[assignment]  # each is a kind of its own
        total = _component(operation, ("", f"{function}({arguments[0]}){where}"))
        return Split((total,), total.name)
    if function in ("first", "last", "arg_min", "arg_max"):
        return _chosen(aggregate, time)
    if function in ("var_pop", "var_samp", "stddev_pop", "stddev_samp"):
        return _moments(function, f"({arguments[0]})::DOUBLE", where)
    if function in ("covar_pop", "covar_samp", "corr") or function.startswith("regr_"):
        return _comoments(function, f"({arguments[0]})::DOUBLE, ({arguments[1]})::DOUBLE", where)
    return _listed(aggregate, time, where)


def _states(aggregate: Aggregate, where: str) -> Split:
    """A registered aggregate: a list of one state, of all rows of a group, whatever their order."""
    reference = aggregate.states_of
    lists = ", ".join(f"list({each}){where}" for each in aggregate.arguments)
    states = _component("states", ("", f"(CASE WHEN count(*){where} > 0 THEN [{reference}{ADD}({lists})] END)"))
    return Split((replace(states, function=reference),), states.name)


def _moments(function: str, x: str, where: str) -> Split:
    """Variances and deviations, from a count, a mean and a sum of squares (Chan et al. 1983)."""
    m = _component(
        "moments",
        ("n", f"count({x}){where}"),
        ("m", f"avg({x}){where}"),
        ("s", f"coalesce(var_pop({x}){where}, 0) * count({x}){where}"),
    )
    return Split((m,), _spread(function, f"{m.name}n", f"{m.name}s"))


def _comoments(function: str, pair: str, where: str) -> Split:
    """Covariances, correlation and regressions, from the moments of two arguments together."""
    c = _component(
        "comoments",
        ("n", f"regr_count({pair}){where}::BIGINT"),
        ("y", f"regr_avgy({pair}){where}"),
        ("x", f"regr_avgx({pair}){where}"),
        ("b", f"regr_syy({pair}){where}"),
        ("a", f"regr_sxx({pair}){where}"),
        ("c", f"regr_sxy({pair}){where}"),
    )
    n = c.name
    finals = {
        "covar_pop": f"(CASE WHEN {n}n > 0 THEN {n}c / {n}n END)",
        "covar_samp": f"(CASE WHEN {n}n > 1 THEN {n}c / ({n}n - 1) END)",
        # Panes merged in another order leave rounding dust where a variance is really zero.
        # What is no number is larger than any: `least` would take the 1.
        "corr": f"(CASE WHEN {n}n > 1 AND {n}a > 0 AND {n}b > 0 AND isfinite({n}c / (sqrt({n}a) * sqrt({n}b))) THEN "
        f"greatest(-1.0, least(1.0, {n}c / (sqrt({n}a) * sqrt({n}b)))) WHEN {n}n > 0 THEN 'nan'::DOUBLE END)",
        "regr_count": f"coalesce({n}n, 0)::UINTEGER",
        "regr_avgx": f"(CASE WHEN {n}n > 0 THEN {n}x END)",
        "regr_avgy": f"(CASE WHEN {n}n > 0 THEN {n}y END)",
        "regr_sxx": f"(CASE WHEN {n}n > 0 THEN greatest({n}a, 0) END)",
        "regr_syy": f"(CASE WHEN {n}n > 0 THEN greatest({n}b, 0) END)",
        "regr_sxy": f"(CASE WHEN {n}n > 0 THEN {n}c END)",
        "regr_slope": f"(CASE WHEN {n}a > 0 THEN {n}c / {n}a WHEN {n}n > 0 THEN 'nan'::DOUBLE END)",
        "regr_intercept": f"(CASE WHEN {n}a > 0 THEN {n}y - {n}c / {n}a * {n}x END)",
        "regr_r2": f"(CASE WHEN {n}a > 0 AND {n}b > 0 THEN CASE WHEN isfinite({n}c / {n}a * ({n}c / {n}b)) THEN "
        f"least(1.0, {n}c / {n}a * ({n}c / {n}b)) ELSE 'nan'::DOUBLE END WHEN {n}a > 0 THEN 1.0 END)",
    }
    return Split((c,), finals[function])


def _count(x: Expression, where: str) -> Component:
    return _component("add", ("", f"count({x}){where}"), alone=f"({x} IS NOT NULL)::BIGINT")


def _counted(component: Component) -> Split:
    return Split((component,), f"coalesce({component.name}, 0)")


def _summable(kind: str) -> bool:
    """Types whose sums of 2^31 rows fit what a pane keeps; wider ones keep their values, as holistic aggregates do."""
    if kind.startswith("DECIMAL"):
        return int(kind[kind.index("(") + 1 : kind.index(",")]) <= 28
    return kind in _INTEGERS | _FLOATS


def _sum(x: str, kind: str, where: str) -> Component:
    if kind in _FLOATS:
        return _component("add", ("", f"fsum({x}){where}"), alone=f"{x}::DOUBLE")
    scale = kind[kind.index(",") + 1 : -1].strip() if kind.startswith("DECIMAL") else "0"
    total = "BIGINT" if kind in _SMALL else f"DECIMAL(38,{scale})"
    return _component("add", ("", f"sum({x}){where}::{total}"), alone=f"{x}::{total}")


def _chosen(aggregate: Aggregate, time: str) -> Split:
    """first, last, arg_min, arg_max: the smallest or largest of (order, event time, row id, value)."""
    function, arguments = aggregate.function, aggregate.arguments
    t, i = f'epoch_us("{time}")', "_id"
    conditions = [f"({aggregate.filter})"] if aggregate.filter else []
    if function in ("arg_min", "arg_max"):
        conditions += [f"({a}) IS NOT NULL" for a in arguments]
        if function == "arg_max":
            t, i = f"-{t}", "-_id"  # ties go to the first in total order
        parts = f"'o': {arguments[1]}, 't': {t}, 'i': {i}, 'v': {arguments[0]}"
    else:
        parts = f"'t': {t}, 'i': {i}, 'v': {arguments[0]}"
    kind: Kind = "min" if function in ("first", "arg_min") else "max"
    where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    best = _component(kind, ("", f"{kind}({{{parts}}}){where}"), beside=(time, "_id"))
    return Split((best,), f"({best.name}).v")


def _spread(function: str, n: str, s: str) -> str:
    less = 0 if function.endswith("pop") else 1
    value = f"greatest({s}, 0) / ({n} - {less})" if less else f"greatest({s}, 0) / {n}"
    root = f"sqrt({value})" if function.startswith("stddev") else value
    return f"(CASE WHEN {n} > {less} THEN {root} END)"


def _distinct(aggregate: Aggregate, where: str) -> Split:
    function, x = aggregate.function, aggregate.arguments[0]
    values = _component("set", ("", f"list(DISTINCT {x}){where}"))
    c = values.name
    if function == "count":
        return Split((values,), f"coalesce(len(list_filter(list_distinct({c}), lambda x: x IS NOT NULL)), 0)")
    order = ", ".join(t.by("u") for t in aggregate.order) or "u"
    extra = "".join(f", {p}" for p in aggregate.parameters)
    calls = {
        "list": f"list(DISTINCT u ORDER BY {order})",
        "string_agg": f"string_agg(DISTINCT u{extra} ORDER BY {order})",
    }
    call = calls.get(function, f"{_duckdb_name(function)}(DISTINCT u{extra})")
    return Split((values,), f"(SELECT {call} FROM (SELECT {_unnested(aggregate, c)} AS u))")


def _listed(aggregate: Aggregate, time: str, where: str) -> Split:
    function, x = aggregate.function, aggregate.arguments[0]
    extra = "".join(f", {p}" for p in aggregate.parameters)
    if function in ("list", "string_agg"):
        terms = "".join(f", 'o{n}': {t.expression}" for n, t in enumerate(aggregate.order))
        element = f"{{'v': {x}, 't': epoch_us(\"{time}\"), 'i': _id{terms}}}"
        values = _component("list", ("", f"list({element}){where}"), beside=(time, "_id"))
        order = [t.by(f"u.o{n}") for n, t in enumerate(aggregate.order)]
        call = f"{function}(u.v{extra} ORDER BY {', '.join([*order, 'u.t', 'u.i'])})"
        return Split((values,), f"(SELECT {call} FROM (SELECT unnest({values.name}) AS u))")
    condition = f"({x}) IS NOT NULL" + (f" AND ({aggregate.filter})" if aggregate.filter else "")
    values = _component("list", ("", f"list({x}) FILTER (WHERE {condition})"))
    c = values.name
    if function in ("median", "quantile_cont", "quantile_disc"):
        return Split((values,), f"list_aggregate({c}, '{function}'{extra})")
    call = f"(SELECT {_duckdb_name(function)}(u{extra}) FROM (SELECT {_unnested(aggregate, c)} AS u))"
    # By way of text a wide sum is checked for its 38 digits, which DuckDB itself would exceed.
    return Split((values,), f"({call})::VARCHAR" if function == "sum" else call)


def _unnested(aggregate: Aggregate, values: str) -> str:
    """The kept values, a row each. Wide whole numbers come from Arrow as decimals, which have no bits to combine."""
    cast = f"::{aggregate.arguments[0].type}" if aggregate.function in ("bit_and", "bit_or", "bit_xor") else ""
    return f"unnest({values}){cast}"


def _duckdb_name(function: str) -> str:
    return {"count_star": "count"}.get(function, function)
