"""Answers from less than all rows: how they are made, and the columns that tell how good they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.design.narrowing import Narrowing, interval_columns, needed_fraction
from millpond.archive.design.reductions import sample_steps, unmoved, untouched
from millpond.archive.planning.scans import Scan, described, description
from millpond.engine.core import Core
from millpond.progress import NEVER
from millpond.synopses.aggregates.estimates import Z
from millpond.types import EXACT, RowWindowQuery, ScanQuery, StreamDefinition, StreamQuery, WindowedQuery

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def sampled(query: StreamQuery) -> bool:
    """Whether the answer of a query is made of rows that stand for others."""
    return query.reduce is not None and query.reduce.samples


def scan_for(query: WindowedQuery | ScanQuery, now: int, live_from: int | None = None) -> Scan:
    """The scan that answers a query: as its REDUCE says, or of everything.

    Arguments:
        now: its NOW, microseconds. live_from: rows of epochs from this one on are not reduced.
    """
    if query.reduce is None or not query.reduce.samples:
        return Scan()
    return Scan(query.reduce, max(now, NEVER), live_from)


def answered(
    core: Core,
    stream: StreamDefinition,
    query: WindowedQuery | ScanQuery,
    scan: Scan,
    answer: Callable[[Scan], pa.Table],
) -> pa.Table:
    """The answer of a query by a scan; of a reduced one with what its metadata tell of it.

    Under `REDUCE error(e)` scans are repeated with more rows until the interval of every count, sum and average in the
    answer is the estimate +- e, or everything has been read. Samples are nested: a scan reads what the one before it
    read, and more.

    Arguments:
        answer: makes the answer by a scan whose steps are given, or (none are) resolved by it.
    """
    if scan.reduction is None:
        return answer(scan)
    if scan.reduction.function != "error":
        return described(answer(scan), scan)
    pairs = interval_columns(query)
    narrowing = Narrowing(scan.reduction.error, sum(s.rows for s in core.streams[stream.id].archive.segments))
    while True:
        scan.counters.full_groups = scan.counters.full_bytes = 0  # a full scan would be one
        tried = replace(scan, steps=sample_steps(narrowing.drop), rows=0, size=0, sections=0, stretches=())
        table = answer(tried)
        fraction = narrowing.fraction
        if narrowing.done(needed_fraction(table, pairs, scan.reduction.error, fraction)):
            tried.pilots = narrowing.scans - 1
            tried.reason = f"{100 * fraction:.4g} % of the rows make every interval at most +- {scan.reduction.error:g}"
            return described(table, tried)


def note_of(answer: pa.Table) -> str:
    """One line about what a reduced answer was made of; '' for one that was made of everything."""
    told = description(answer)
    if told is None:
        return ""
    read = told["read"]
    share = f"{100 * read['rows'] / told['rows']:.3g} % of" if told["rows"] else "none of"
    bytes_ = f"{read['bytes']:,} of {read['full_bytes']:,} bytes" if read["full_bytes"] else "no bytes"
    scans = f" in {told['pilots'] + 1} scans" if told["pilots"] else ""
    why = f" ({told['reason']})" if told["reason"] else ""
    return f"REDUCE {told['reduction']}: {share} {told['rows']:,} rows, {bytes_} read{scans}{why}"


@dataclass(frozen=True)
class LeftOut:
    """What a reduced scan has left out.

    stretches: where rows were left out. most: the largest fraction that was: a count none of whose rows stands for
    others may have lost some all the same, and its interval says so. coarse: (low, high, interval): where rows were
    seen at the start of their interval. A window that begins or ends within one is not exact, and has no interval for
    it.
    """

    stretches: tuple[tuple[int, int], ...]
    most: float = 0.0
    coarse: tuple[tuple[int, int, int], ...] = ()


def told_by(
    answers: pa.Table, query: WindowedQuery | ScanQuery, scan: Scan, closed: bool = False, moved: bool = False
) -> pa.Table:
    """The answers of a scan; of a reduced one `with_exactness`.

    Arguments:
        closed: windows hold their end.
        moved: rows that are seen at the start of their interval may have come into another window.
    """
    if not scan.reduced:
        return answers
    return with_exactness(answers, query, LeftOut(scan.stretches, scan.most, scan.coarse if moved else ()), closed)


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
        own = closed or isinstance(query, RowWindowQuery)
        whole = untouched(start, end + 1 if own else end, stretches)
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
