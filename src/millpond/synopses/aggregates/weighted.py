"""Aggregates over rows that stand for others, split into components like all aggregates (see `splitting`).

Rows have a weight (`types.WEIGHT`): 1 where nothing was left out, else how many rows each stands for. What has weight 1
is aggregated apart, exactly as ever, so that an answer over unreduced rows is the same to the digit; what stands for
others adds an estimate and its variance (`archive.fidelity`). Within one segment weights above 1 are all the same.

Minima, maxima, first and last values, quantiles and lists are those of the rows that were read. Variances,
correlations and regressions are weighted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millpond.synopses.aggregates.estimates import count_interval_sql, quantile_sql
from millpond.synopses.aggregates.splits import Component, Kind, Split
from millpond.types import WEIGHT, Aggregate, composed

_W = f'"{WEIGHT}"'
_ONE, _MORE = f"{_W} = 1", f"{_W} > 1"

#: The weight of the rows that stand for others, of which a segment has one.
_WEIGHT = f"max({_W})"

Make = Callable[..., Component]


def weighted(aggregate: Aggregate, plain: Callable[[Aggregate], Split], make: Make) -> Split:
    """The split of an aggregate over rows with weights, by its `measure`.

    Arguments:
        plain: the split of an aggregate over rows as they are. make: makes a component from its kind and columns.
    """
    function = aggregate.function
    if function in ("count", "count_star") and not aggregate.distinct:
        return _count(aggregate, plain, make)
    if function == "sum" and not aggregate.distinct:
        return _sum(aggregate, plain, make)
    if function == "avg" and not aggregate.distinct:
        return _average(aggregate, plain, make)
    moments = ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "covar_pop", "covar_samp", "corr")
    if function in moments or function.startswith("regr_"):
        return _moments(plain(replace(aggregate, measure="")), make)
    return plain(replace(aggregate, measure=""))


def _where(aggregate: Aggregate, *conditions: str) -> str:
    every = [*conditions, *([f"({aggregate.filter})"] if aggregate.filter else [])]
    return " AND ".join(every)


def _and(aggregate: Aggregate, condition: str) -> Aggregate:
    """The aggregate over rows of weight 1 alone, as it is split without weights."""
    given = [] if aggregate.filter is None else [aggregate.filter]
    return replace(aggregate, measure="", filter=composed(_where(aggregate, condition), "BOOLEAN", given, (WEIGHT,)))


def _fitting(estimate: str, aggregate: Aggregate) -> str:
    """An estimate as a value of the aggregate's type; one that is too large fails, and says so."""
    message = f"the estimate of {aggregate.function} does not fit into {aggregate.type}".replace("'", "''")
    cast = f"try_cast({estimate} AS {aggregate.type})"
    return f"(CASE WHEN {cast} IS NULL AND {estimate} IS NOT NULL THEN error('{message}') ELSE {cast} END)"


def _total(make: Make, value: str, where: str) -> Component:
    return make("add", ("", f"fsum({value}) FILTER (WHERE {where})"))


def _number(make: Make, where: str) -> Component:
    return make("add", ("", f"count(*) FILTER (WHERE {where})"))


def _count(aggregate: Aggregate, plain: Callable[[Aggregate], Split], make: Make) -> Split:
    given = [f"({aggregate.arguments[0]}) IS NOT NULL"] if aggregate.function == "count" else []
    where = _where(aggregate, _MORE, *given)
    exact = plain(_and(aggregate, _ONE))
    rows, total = _number(make, where), _total(make, _W, where)
    if aggregate.measure == "read":
        return Split((*exact.components, rows), f"({exact.final} + coalesce({rows.name}, 0))")
    if aggregate.measure == "share":
        seen = f"({exact.final} + coalesce({rows.name}, 0))"
        every = f"({exact.final} + coalesce({total.name}, 0))"
        return Split((*exact.components, rows, total), f"(CASE WHEN {every} > 0 THEN {seen} / {every} END)")
    if aggregate.measure == "estimate":
        estimate = _fitting(f"round({exact.final} + {total.name})", aggregate)
        return Split(
            (*exact.components, total), f"(CASE WHEN {total.name} IS NULL THEN {exact.final} ELSE {estimate} END)"
        )
    variance = _total(make, f"{_W} * ({_W} - 1)", where)
    end = count_interval_sql(total.name, variance.name, aggregate.measure == "low")
    return Split((*exact.components, total, variance), f"({exact.final} + coalesce({end}, 0))")


def _sum(aggregate: Aggregate, plain: Callable[[Aggregate], Split], make: Make) -> Split:
    x = f"({aggregate.arguments[0]})::DOUBLE"
    where = _where(aggregate, _MORE, f"({aggregate.arguments[0]}) IS NOT NULL")
    exact = plain(_and(aggregate, _ONE))
    total = _total(make, f"{x} * {_W}", where)
    if aggregate.measure == "estimate":
        estimate = _fitting(f"(coalesce(({exact.final})::DOUBLE, 0) + {total.name})", aggregate)
        sure = f"({exact.final})::{aggregate.type}"
        return Split((*exact.components, total), f"(CASE WHEN {total.name} IS NULL THEN {sure} ELSE {estimate} END)")
    variance, rows = _total(make, f"{x} * {x} * {_W} * ({_W} - 1)", where), _number(make, where)
    half = f"({quantile_sql(rows.name)} * sqrt({variance.name}))"
    sign = "-" if aggregate.measure == "low" else "+"
    middle = f"(coalesce(({exact.final})::DOUBLE, 0) + {total.name})"
    return Split(
        (*exact.components, total, variance, rows),
        f"(CASE WHEN {total.name} IS NULL THEN ({exact.final})::DOUBLE ELSE {middle} {sign} {half} END)",
    )


def _average(aggregate: Aggregate, plain: Callable[[Aggregate], Split], make: Make) -> Split:
    given = f"({aggregate.arguments[0]}) IS NOT NULL"
    x = f"({aggregate.arguments[0]})::DOUBLE"
    one, more = _where(aggregate, _ONE, given), _where(aggregate, _MORE, given)
    exact = plain(_and(aggregate, _ONE))
    if len(exact.components) == 2:  # a sum and a count
        sure, number = exact.components
    else:
        sure, number = _total(make, x, one), _number(make, one)
    total, size = _total(make, f"{x} * {_W}", more), _total(make, _W, more)
    every = f"(coalesce({number.name}, 0) + coalesce({size.name}, 0))"
    ratio = f"((coalesce(({sure.name})::DOUBLE, 0) + coalesce({total.name}, 0)) / {every})"
    base = (sure, number, total, size)
    if aggregate.measure == "estimate":
        return Split(base, f"(CASE WHEN {every} > 0 THEN {ratio} END)")
    # Squares of deviations from the mean, not of values, whose digits would cancel out.
    spread = f" FILTER (WHERE {more})"
    factor = f"({_WEIGHT}{spread} * ({_WEIGHT}{spread} - 1))"
    moments = make(
        "moments",
        ("n", f"coalesce(count({x}){spread} * {factor}, 0)::DOUBLE"),
        ("m", f"avg({x}){spread}"),
        ("s", f"coalesce(var_pop({x}){spread} * count({x}){spread} * {factor}, 0)::DOUBLE"),
    )
    rows = _number(make, more)
    n, m, s = (f"{moments.name}{suffix}" for suffix in "nms")
    away = f"({m} - {ratio})"
    half = f"({quantile_sql(rows.name)} * sqrt(greatest({s} + {n} * {away} * {away}, 0)) / {every})"
    sign = "-" if aggregate.measure == "low" else "+"
    # How far one row is from others that it stands for, it cannot say: there is no interval.
    ends = f"CASE coalesce({rows.name}, 0) WHEN 0 THEN {ratio} WHEN 1 THEN NULL ELSE {ratio} {sign} {half} END"
    return Split((*base, moments, rows), f"(CASE WHEN {every} > 0 THEN {ends} END)")


def _moments(split: Split, make: Make) -> Split:
    """Moments of which each row counts as often as it stands for others: within a segment, for weight 1 and above."""
    (component,) = split.components
    columns = dict(component.columns)
    names: Kind = component.kind
    sums = ("n", "s") if names == "moments" else ("n", "b", "a", "c")
    # A segment has one weight, so that all its rows count alike.
    scaled = tuple(
        (suffix, f"(({sql}) * {_WEIGHT})::DOUBLE" if suffix in sums else sql.sql) for suffix, sql in columns.items()
    )
    made = make(names, *scaled)
    return Split((made,), split.final.replace(component.name, made.name))
