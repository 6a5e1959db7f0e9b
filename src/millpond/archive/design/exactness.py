"""The column `exact`: what answers of windows are worth from whose past rows were left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.design.narrowing import interval_columns
from millpond.archive.design.reductions import unmoved, untouched
from millpond.progress import NEVER
from millpond.synopses.aggregates.estimates import Z
from millpond.types import EXACT, ScanQuery, WindowedQuery

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class LeftOut:
    """What a reduced scan has left out.

    stretches: where rows were left out. most: the largest fraction that was: a count none of whose rows stands for
    others may have lost some all the same, and its interval says so. coarse: (low, high, interval): where rows were
    seen at the start of their interval. A window that begins or ends within one is not exact, and has no interval for
    it. read: what it has read, in words.
    """

    stretches: tuple[tuple[int, int], ...]
    most: float = 0.0
    coarse: tuple[tuple[int, int, int], ...] = ()
    read: str = ""


def with_exactness(
    answers: pa.Table, query: WindowedQuery | ScanQuery, left: LeftOut, closed: bool = False
) -> pa.Table:
    """Answers with a further column `exact`: whether nothing was left out of what a row is made of.

    A window is exact when it meets no stretch of event time of which rows were left out: a group of which none was read
    might have had some. A group of an exact window is never called small; one with an estimate that has no interval,
    since the rows that were read cannot say, always is.

    Arguments:
        closed: windows hold their end.
    """
    stretches = left.stretches
    if "window_start" in answers.column_names:
        kind = pa.timestamp("us")
        start = answers["window_start"].cast(kind).cast(pa.int64()).fill_null(NEVER).to_numpy()
        end = answers["window_end"].cast(kind).cast(pa.int64()).to_numpy()
        held = closed or query.holds_end
        whole = untouched(start, end + 1 if held else end, stretches)
        exact = whole & unmoved(start, end, left.coarse)
    else:
        whole = exact = np.full(answers.num_rows, not stretches)
    flags = pa.array(whole, pa.bool_())
    answers, unsaid = _unseen(answers, query, whole, left.most)
    name = small_name(query)
    if name is not None and name in answers.column_names:
        small = pc.or_(pc.and_(answers[name], pc.invert(flags)), pa.array(unsaid))
        answers = answers.set_column(answers.column_names.index(name), name, small)
    return answers.append_column(EXACT, pa.array(exact, pa.bool_()))


def _unseen(answers: pa.Table, query: WindowedQuery | ScanQuery, exact: Flags, most: float) -> tuple[pa.Table, Flags]:
    """Intervals of groups that are not exact, and of which no row stands for others.

    A count's reaches up to the score interval of none. What rows that nobody saw would add to a sum or do to an average
    is not known: those have no interval.

    Returns: the answers, and in which rows an estimate has no interval.
    """
    unsaid, kept = np.zeros(len(exact), np.bool_), 1 - most
    if exact.all() or kept <= 0 or kept >= 1:
        return answers, unsaid
    measures = {a.name: a for a in query.aggregates}
    there = [o for o in query.select if o.name in answers.column_names]
    shown = {o.name: a for o in there if (a := measures.get(o.expression.column or "")) is not None}
    share = next((name for name, a in shown.items() if a.measure == "share"), None)
    whole = ~exact & (False if share is None else answers[share].fill_null(0.0).to_numpy() == 1)
    for estimate, low, high in interval_columns(query):
        if not {estimate, low, high} <= set(answers.column_names):
            continue
        if shown[high].function in ("count", "count_star"):
            above = answers[high].to_numpy()
            unseen = ~exact & (answers[low].to_numpy() == above)
            changed = {high: pa.array(np.where(unseen, above + Z * Z * (1 / kept - 1), above))}
        else:
            none = pa.scalar(None, pa.float64())
            changed = {name: pc.if_else(pa.array(whole), none, answers[name]) for name in (low, high)}
            said = pc.or_(pc.is_valid(changed[low]), pc.is_null(answers[estimate]))
            unsaid |= ~exact & ~said.to_numpy()
        for name, column in changed.items():
            answers = answers.set_column(answers.column_names.index(name), name, column)
    return answers, unsaid


def on_intervals(answers: pa.Table, interval: int) -> pa.Table:
    """Answers of REDUCE BY INTERVAL with a further column `exact`: whether a window begins and ends with intervals.

    Then every row is in the window that it belongs to; else a window has the rows of intervals that begin in it.
    """
    whole = pa.array(np.ones(answers.num_rows, np.bool_))
    for name in ("window_start", "window_end"):
        at = answers[name].cast(pa.timestamp("us")).cast(pa.int64()).fill_null(0).to_numpy()
        whole = pc.and_(whole, pa.array(at % interval == 0))
    return answers.append_column(EXACT, whole)


def small_name(query: WindowedQuery | ScanQuery) -> str | None:
    """The column that says of which groups few rows were read."""
    read = {a.name for a in query.aggregates if a.measure == "read"}
    return next((o.name for o in query.select if read.intersection(o.expression.columns)), None)


__all__ = ["LeftOut", "on_intervals", "small_name", "with_exactness"]
