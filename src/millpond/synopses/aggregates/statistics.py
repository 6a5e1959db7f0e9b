"""Statistics whose state is a list of entries per pane: value counts, sketches, and series in steps of time.

Each function gives the `Split` of a family of aggregates: raw entries that DuckDB collects per pane and group, which
`entries` makes few, and the DuckDB expression that computes the value from the entries of all panes of a window. Li
2008, holistic aggregates by panes: counts are collected per pane and added up per window.

- counts (mode, heavy_hitters, entropy): value -> how often. Exact.
- frequent (APPROX mode, heavy_hitters, top_k): at most `size` values with counts; Misra and Gries, merged as in
  Agarwal, Cormode, Huang, Phillips, Wei, Yi, "Mergeable summaries" (2012), section 2.
- quantiles (APPROX median, quantile): values with weights 2^level; Manku, Rajagopalan, Lindsay (1998), collapsed
  level by level as in Agarwal et al., section 3, always the same half, so that a replay gives the same bytes.
- distinct (APPROX count(DISTINCT)): the `size` smallest hashes; Bar-Yossef et al. (2002), k minimum values. What is
  kept depends on the set of values alone, so neither order nor epochs show in the answer.
- steps (series_corr): sum and number of each series' values per aligned step of time. Exact.
"""

from __future__ import annotations

import hashlib
import math
from typing import Literal

from millpond.support.sql import quote
from millpond.synopses.aggregates.splits import VALUE, Component, Kind, Split
from millpond.types import Aggregate, Expression

#: Relative accuracy of approximate aggregates unless the call says another: ranks and counts as shares of the rows,
#: distinct counts as one standard error.
ACCURACY = {"quantiles": 0.01, "frequent": 0.001, "distinct": 0.02}

#: Levels that the size of a quantile sketch is made for: its error is `accuracy` up to size * 2^LEVELS rows.
LEVELS = 16

#: Series of a group that series_corr pairs, all with all and all with one.
PAIRED, PAIRED_WITH_ONE = 256, 10_000

#: Statistics by canonical name, and what they keep.
COUNTED = ("mode", "heavy_hitters", "entropy")
FREQUENT = ("approx_mode", "approx_heavy_hitters", "approx_top_k")
QUANTILES = ("approx_median", "approx_quantile_cont", "approx_quantile_disc")

Family = Literal["counts", "frequent", "quantiles", "distinct", "steps"]


def family_of(function: str) -> Family | None:
    """What a statistic keeps; None: it is none of this file.

    >>> family_of("approx_median"), family_of("sum")
    ('quantiles', None)
    """
    if function in COUNTED:
        return "counts"
    if function in FREQUENT:
        return "frequent"
    if function in QUANTILES:
        return "quantiles"
    if function == "approx_distinct":
        return "distinct"
    return "steps" if function == "series_corr" else None


def size_of(family: str, accuracy: float) -> int:
    """How many entries (of a quantile sketch: per level) keep a family within its accuracy.

    >>> size_of("frequent", 0.001), size_of("distinct", 0.02), size_of("quantiles", 0.01)
    (1000, 2502, 1600)
    """
    if family == "quantiles":
        return math.ceil(LEVELS / accuracy)
    return math.ceil(1 / accuracy**2) + 2 if family == "distinct" else math.ceil(1 / accuracy)


def accuracy_of(aggregate: Aggregate) -> float:
    """The accuracy of an approximate aggregate."""
    family = family_of(aggregate.function)
    assert family in ("quantiles", "frequent", "distinct")
    return float(aggregate.parameters[-1]) if aggregate.parameters else ACCURACY[family]


def statistic(aggregate: Aggregate, time: str) -> Split:
    """The split of a statistic of this file; `time` is the stream's event-time column."""
    family = family_of(aggregate.function)
    if family == "counts":
        return _counts(aggregate)
    if family == "frequent":
        return _frequent(aggregate)
    if family == "quantiles":
        return _quantiles(aggregate)
    return _distinct(aggregate) if family == "distinct" else _steps(aggregate, time)


def entries(kind: Kind, size: int, *columns: tuple[str, str], beside: tuple[str, ...] = ()) -> Component:
    """A component whose entries are kept few by `millpond.synopses.aggregates.entries`.

    beside: what it reads beside what the aggregate does.
    """
    text = f"{kind}|{size}|" + "|".join(f"{s}={e}" for s, e in columns)
    name = "c" + hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return Component(name, kind, tuple((s, Expression(sql, beside)) for s, sql in columns), size=size)


def _where(aggregate: Aggregate, *conditions: str) -> str:
    parts = [*conditions, *([f"({aggregate.filter})"] if aggregate.filter else [])]
    return f" FILTER (WHERE {' AND '.join(parts)})" if parts else ""


def _value(aggregate: Aggregate) -> str:
    """The argument as it is kept: an ENUM as text, since Arrow does not carry its order inside of entries."""
    x = aggregate.arguments[0]
    return f"({x})::VARCHAR" if aggregate.arguments[0].type.upper().startswith("ENUM") else x.sql


def _back(aggregate: Aggregate, value: str) -> str:
    kind = aggregate.arguments[0].type
    return f"({value})::{kind}" if kind.upper().startswith("ENUM") else value


def _entries(component: Component, *scalars: str) -> str:
    """Rows (_at, u) of the entries of all panes, and columns of the window beside."""
    columns = "".join(f", {component.name}{s} AS {s}" for s in scalars)
    return f"(SELECT _at{columns}, unnest({component.name}) AS u FROM folded)"


def _summed(aggregate: Aggregate, component: Component, *scalars: str) -> str:
    """Rows (_at, v, n): how often a value is in a window."""
    columns = "".join(f", {s}" for s in scalars)
    return (
        f"(SELECT _at{columns}, {_back(aggregate, 'u.key')} AS v, sum(u.value)::BIGINT AS n"
        f" FROM {_entries(component, *scalars)} GROUP BY ALL)"
    )


#: Of rows (_at, n): the sum of n in a window.
_TOTAL = "(sum(n) OVER (PARTITION BY _at))"


def _counts(aggregate: Aggregate) -> Split:
    x = _value(aggregate)
    values = entries("counts", 0, ("", f"map_entries(histogram({x}){_where(aggregate)})"))
    summed = _summed(aggregate, values)
    if aggregate.function == "mode":
        return Split((values,), VALUE, _mode(summed))
    if aggregate.function == "entropy":
        return Split((values,), f"coalesce({VALUE}, 0)", _entropy(summed))
    condition = f"n >= {aggregate.parameters[0]} * t"
    return Split((values,), _or_empty(f"len({values.name}) > 0"), _ranked("n", condition, _with_total(summed)))


def _with_total(summed: str) -> str:
    return f"(SELECT _at, v, n, {_TOTAL} AS t FROM {summed})"


def _entropy(summed: str) -> str:
    share = f"(SELECT _at, n / {_TOTAL} AS p FROM {summed})"
    return f"SELECT _at, greatest(-sum(p * log2(p)), 0) AS x FROM {share} GROUP BY _at"


def _mode(summed: str) -> str:
    """Ties go to the smallest value, whatever the order of arrival."""
    return f"SELECT _at, min({{'n': -n, 'u': v}}).u AS x FROM {summed} GROUP BY _at"


def _ranked(count: str, condition: str, rows: str) -> str:
    listed = f"list({{'value': v, 'count': {count}}} ORDER BY {count} DESC, v) FILTER (WHERE {condition})"
    return f"SELECT _at, {listed} AS x FROM {rows} GROUP BY _at"


def _or_empty(some: str) -> str:
    return f"(CASE WHEN {some} THEN coalesce({VALUE}, []) END)"


def _frequent(aggregate: Aggregate) -> Split:
    x = _value(aggregate)
    values = entries(
        "frequent",
        size_of("frequent", accuracy_of(aggregate)),
        ("", f"map_entries(histogram({x}){_where(aggregate)})"),
        ("e", "0::BIGINT"),
        ("t", f"count({x}){_where(aggregate)}"),
    )
    summed = _summed(aggregate, values, "e", "t")
    if aggregate.function == "approx_mode":
        return Split((values,), VALUE, _mode(summed))
    if aggregate.function == "approx_top_k":
        return Split((values,), VALUE, _top(aggregate, summed))
    condition = f"n + e >= {aggregate.parameters[0]} * t"
    return Split((values,), _or_empty(f"{values.name}t > 0"), _ranked("(n + e)", condition, summed))


def _top(aggregate: Aggregate, summed: str) -> str:
    return f"SELECT _at, list(v ORDER BY n DESC, v)[:{aggregate.parameters[0]}] AS x FROM {summed} GROUP BY _at"


def _quantiles(aggregate: Aggregate) -> Split:
    x = aggregate.arguments[0]
    values = entries(
        "quantiles",
        size_of("quantiles", accuracy_of(aggregate)),
        ("", f"list({{'v': {x}, 'l': 0::UTINYINT}}){_where(aggregate, f'({x}) IS NOT NULL')}"),
        ("e", "0::BIGINT"),
    )
    weighted = f"(SELECT _at, u.v AS v, (1::BIGINT << u.l::BIGINT) AS w FROM {_entries(values)})"
    return Split((values,), VALUE, _at_fractions(aggregate, weighted))


def _at_fractions(aggregate: Aggregate, weighted: str) -> str:
    """The quantiles of values with weights, from rows (_at, v, w)."""
    ranked = (
        "(SELECT _at, v, (sum(w) OVER (PARTITION BY _at ORDER BY v ROWS UNBOUNDED PRECEDING))::BIGINT AS r,"
        f" (sum(w) OVER (PARTITION BY _at))::BIGINT AS n FROM {weighted})"
    )
    median = aggregate.function == "approx_median"
    written = "0.5" if median else aggregate.parameters[0]
    fractions = written.strip("[]").split(",")
    found = [_quantile(aggregate, f.strip()) for f in fractions]
    value = f"[{', '.join(found)}]" if written.startswith("[") else found[0]
    return f"SELECT _at, {value} AS x FROM {ranked} GROUP BY _at"


def _quantile(aggregate: Aggregate, fraction: str) -> str:
    """The value at a fraction of the rows (v, r, n): value, rows up to it, all rows. As DuckDB's, from whole ranks."""
    q = f"(1 - {fraction[1:]})" if fraction.startswith("-") else fraction
    if aggregate.function == "approx_quantile_disc":
        return f"min(v) FILTER (WHERE r > greatest(ceil({q}::DOUBLE * n) - 1, 0))"
    place = f"({q}::DOUBLE * (n - 1))"
    low, high = (f"min(v) FILTER (WHERE r > {rounding}{place})" for rounding in ("floor", "ceil"))
    kind = aggregate.arguments[0].type.upper()
    part = f"max({place} - floor{place})"
    if kind in ("TIMESTAMP", "DATE"):
        low, high = (f"epoch_us(({each})::TIMESTAMP)" for each in (low, high))
        return f"make_timestamp({low} + round(({high} - {low}) * {part})::BIGINT)"
    if kind in _NUMBERS or kind.startswith("DECIMAL"):
        return f"CASE WHEN {low} = {high} THEN ({low})::DOUBLE ELSE {low} + ({high} - {low})::DOUBLE * {part} END"
    return low


_NUMBERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"}
_NUMBERS |= {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}


def _distinct(aggregate: Aggregate) -> Split:
    x = aggregate.arguments[0].sql
    if aggregate.arguments[0].type.upper() in ("FLOAT", "DOUBLE"):
        x = f"({x} + 0.0)"  # 0.0 and -0.0 are the same value
    size = size_of("distinct", accuracy_of(aggregate))
    # Not `hash`, which may be another one in the next version of DuckDB, while hashes are kept for years.
    hashed = f"list(DISTINCT md5_number_lower(({x})::VARCHAR)){_where(aggregate, f'({x}) IS NOT NULL')}"
    values = entries("distinct", size, ("", hashed))
    smallest = f"list_sort(list_distinct({values.name}))[:{size}]"
    guess = f"round({size - 1} / (({smallest})[{size}]::DOUBLE / 18446744073709551616.0))::BIGINT"
    count = f"len({smallest})"
    return Split((values,), f"coalesce(CASE WHEN {count} < {size} THEN {count} ELSE {guess} END, 0)")


def _steps(aggregate: Aggregate, time: str) -> Split:
    x, key = aggregate.arguments
    step = int(aggregate.parameters[0])
    entry = f"{{'k': {key}, 'b': {_start_of(step, f'epoch_us({quote(time)})')}, 's': ({x})::DOUBLE, 'n': 1::BIGINT}}"
    filtered = _where(aggregate, f"({x}) IS NOT NULL", f"({key}) IS NOT NULL")
    values = entries("steps", 0, ("", f"list({entry}){filtered}"), beside=(time,))
    c = values.name
    means = f"SELECT _at, u.k AS k, u.b AS b, fsum(u.s) / sum(u.n) AS m FROM {_entries(values)} GROUP BY _at, u.k, u.b"
    series = f"len(list_distinct([u.k for u in {c}]))"
    final = f"(CASE WHEN {_too_many(aggregate, series)} ELSE {_or_empty(f'len({c}) > 0')} END)"
    return Split((values,), final, _paired(aggregate, means))


def _start_of(step: int, t: str) -> str:
    """The start of the step of time that an instant lies in, microseconds."""
    return f"{t} - (({t} % {step}) + {step}) % {step}"


def _most(aggregate: Aggregate) -> int:
    return PAIRED_WITH_ONE if aggregate.parameters[1:] else PAIRED


def _too_many(aggregate: Aggregate, series: str) -> str:
    """WHEN … THEN of a number of series that are not paired."""
    way = "split them by GROUP BY" if aggregate.parameters[1:] else "correlate all with one of them"
    message = (
        f"' series in a group are more than the {_most(aggregate)} that series_corr pairs: choose some with"
        f" FILTER (WHERE …), or {way}'"
    )
    return f"{series} > {_most(aggregate)} THEN error({series} || {message})"


def _paired(aggregate: Aggregate, means: str) -> str:
    """The correlations of series from their means by step, rows (_at, k, b, m)."""
    named, most = aggregate.parameters[1:], _most(aggregate)
    few = f"SELECT _at FROM means GROUP BY _at HAVING count(DISTINCT k) <= {most}"
    side = f"p.k = {named[0]} AND q.k <> p.k" if named else "p.k < q.k"
    # Averages of equal values differ in their last bits when they are made of different numbers of values.
    flat = " OR ".join(f"NOT var_pop({s}.m) > 1e-24 * avg({s}.m * {s}.m)" for s in ("p", "q"))
    pairs = (
        f"SELECT p._at AS _at, p.k AS a, q.k AS b, count(*) AS n, CASE WHEN {flat} THEN NULL"
        " WHEN isnan(corr(p.m, q.m)) THEN 'nan'::DOUBLE ELSE greatest(-1.0, least(1.0, corr(p.m, q.m))) END AS r"
        f" FROM means p JOIN means q ON p._at = q._at AND p.b = q.b AND {side} WHERE p._at IN ({few}) GROUP BY ALL"
    )
    listed = "list({'a': a, 'b': b, 'corr': r, 'steps': n} ORDER BY a, b)"
    return f"WITH means AS ({means}) SELECT _at, {listed} AS x FROM ({pairs}) GROUP BY _at"


def over_rows(aggregate: Aggregate, rows: str) -> tuple[str, str]:
    """A statistic from the rows themselves: `Split.final` and `Split.values`. Those with APPROX are exact then.

    Arguments:
        rows: SELECT of (_at, e), e with the arguments a0, a1 (as `kept_arguments` has them) and the event time t.
    """
    function = aggregate.function.removeprefix("approx_")
    some = f"(SELECT _at, {_back(aggregate, 'e.a0')} AS v, e FROM ({rows}) WHERE e.a0 IS NOT NULL)"
    if function == "distinct":
        return f"coalesce({VALUE}, 0)", f"SELECT _at, count(DISTINCT v) AS x FROM {some} GROUP BY _at"
    if family_of(aggregate.function) == "quantiles":
        return VALUE, _at_fractions(aggregate, f"(SELECT _at, v, 1::BIGINT AS w FROM {some})")
    if function == "series_corr":
        step = int(aggregate.parameters[0])
        means = (
            f"SELECT _at, e.a1 AS k, {_start_of(step, 'e.t')} AS b, fsum(v::DOUBLE) / count(*) AS m FROM {some}"
            " WHERE e.a1 IS NOT NULL GROUP BY _at, k, b"
        )
        counted = f"SELECT _at, count(DISTINCT k) AS c FROM ({means}) GROUP BY _at"
        checked = f"CASE WHEN {_too_many(aggregate, 'c')} ELSE coalesce(x, []) END"
        return VALUE, (
            f"SELECT _at, {checked} AS x FROM ({counted}) LEFT JOIN ({_paired(aggregate, means)}) USING (_at)"
        )
    summed = f"(SELECT _at, v, count(*) AS n FROM {some} GROUP BY _at, v)"
    if function == "mode":
        return VALUE, _mode(summed)
    if function == "entropy":
        return f"coalesce({VALUE}, 0)", _entropy(summed)
    if function == "top_k":
        return VALUE, _top(aggregate, summed)
    ranked = _ranked("n", f"n >= {aggregate.parameters[0]} * t", _with_total(summed))
    return VALUE, f"SELECT _at, coalesce(x, []) AS x FROM ({ranked})"


def kept_arguments(aggregate: Aggregate) -> tuple[str, ...]:
    """The arguments of a statistic as entries hold them, for `over_rows`."""
    return (_value(aggregate), *(each.sql for each in aggregate.arguments[1:]))


def kept_by(aggregate: Aggregate) -> str | None:
    """What a statistic keeps, and how far its answers may be off, for EXPLAIN; None for other aggregates.

    Over streams that take rows back it keeps these, as others do.
    """
    family = family_of(aggregate.function)
    if family is None or aggregate.row:
        return None
    if family == "counts":
        return "keeps every value of each pane and group with its count; state grows with the number of values"
    if family == "steps":
        step = int(aggregate.parameters[0]) / 1_000_000
        return f"keeps a sum and a count per series and step of {step:g} s, in each pane and group"
    accuracy = accuracy_of(aggregate)
    size = size_of(family, accuracy)
    if family == "distinct":
        return (
            f"keeps the {size} smallest hashes of each pane and group; exact below {size} values, then a standard error"
            f" of {100 * accuracy:g} %"
        )
    if family == "frequent":
        return (
            f"keeps at most {size} values with counts per pane and group; counts are off by at most"
            f" {100 * accuracy:g} % of the rows"
        )
    return (
        f"keeps about {size} values per pane and group, and at most {size} for each doubling of their rows beyond;"
        f" ranks are off by at most {100 * accuracy:g} % of the rows, and exact up to {size} rows"
    )
