"""Rows on which a row query fails: that its expressions have a value is a factor of its condition."""

from __future__ import annotations

from dataclasses import replace

from millpond.language.conditions.axes import truth_attribute
from millpond.types import Interval, RowQuery
from millpond.types.sql_expressions import all_of


def without_failures(selection: RowQuery) -> RowQuery:
    """A query over one stream that leaves out the rows on which an expression of its answer fails.

    Such a row is a dead letter, as one on which the condition fails: that each expression has a value, or is NULL, is a
    factor of the condition. What two streams make together is not known of a row, and registered functions are called
    for rows that match alone.
    """
    if len(selection.sides) != 1:
        return selection
    computed = dict.fromkeys(e for e in selection.expressions if e.calls and not e.registered)
    made = [each.within("len([", "]) = 1", "BOOLEAN") for each in computed]
    [side] = selection.sides
    tests = tuple(Interval(truth_attribute(each.sql), "integer", 1, 1) for each in made)
    where = all_of([*([] if side.where is None else [side.where]), *made])
    return replace(selection, sides=(replace(side, where=where, boxes=tuple((*b, *tests) for b in side.boxes)),))
