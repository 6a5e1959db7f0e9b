"""Rows on which a row query fails: that its expressions have a value is a factor of its condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from millpond.language.conditions.axes import truth_attribute
from millpond.types import Expression, Interval, RowQuery, Side
from millpond.types.sql_expressions import all_of, renamed


def without_failures(selection: RowQuery) -> RowQuery:
    """A query that leaves out the rows on which an expression of its answer fails.

    Such a row is a dead letter, as one on which the condition fails: that each expression has a value, or is NULL, is a
    factor of the condition. One about rows of several streams is a factor of what is joined: no dead letter is about
    two rows. Registered functions are called for rows that match alone.
    """
    query = selection.query
    made = replace(selection, query=replace(query, where=None)).expressions
    computed = [e for e in dict.fromkeys(made) if e.calls and not e.registered]
    names = _names_by_side(selection)
    sides = []
    for side, named in zip(selection.sides, names, strict=True):
        own = [renamed(e, named) for e in computed if named.keys() >= set(e.columns)]
        sides.append(_with_factors(side, [_has_value(e) for e in own]))
    shared = [_has_value(e) for e in computed if not any(named.keys() >= set(e.columns) for named in names)]
    where = all_of([*([] if query.where is None else [query.where]), *shared])
    return replace(selection, query=replace(query, where=where), sides=tuple(sides))


def _names_by_side(selection: RowQuery) -> list[Mapping[str, str]]:
    """Per side, the columns of the answer's expressions that are its own, with what they are called there."""
    read = {c for e in selection.expressions for c in e.columns}
    feeds = selection.query.feeds
    if feeds:
        own = [dict(zip(feeds[0].columns, feed.columns, strict=True)) for feed in feeds]
        return [{name: names.get(name, name) for name in read} for names in own]
    if len(selection.sides) == 1:
        return [{name: name for name in read}]
    prefixes = [f"{number}." for number in range(len(selection.sides))]
    return [{name: name.removeprefix(p) for name in read if name.startswith(p)} for p in prefixes]


def _has_value(expression: Expression) -> Expression:
    """That an expression does not fail: what has no value makes no list."""
    return expression.within("len([", "]) = 1", "BOOLEAN")


def _with_factors(side: Side, factors: Sequence[Expression]) -> Side:
    tests = tuple(Interval(truth_attribute(each.sql), "integer", 1, 1) for each in factors)
    where = all_of([*([] if side.where is None else [side.where]), *factors])
    return replace(side, where=where, boxes=tuple((*b, *tests) for b in side.boxes))
