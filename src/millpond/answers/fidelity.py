"""Answers from less than all rows: how they are made, and the columns that tell how good they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from millpond.archive.design.exactness import LeftOut, with_exactness
from millpond.archive.design.narrowing import Narrowing, interval_columns, needed_fraction
from millpond.archive.design.reductions import sample_steps
from millpond.archive.planning.scans import Scan, described, description
from millpond.progress import NEVER
from millpond.tables import SegmentTable
from millpond.types import ScanQuery, WindowedQuery


def scan_for(query: WindowedQuery | ScanQuery, now: int, live_from: int | None = None) -> Scan:
    """The scan that answers a query: as its REDUCE says, or of everything.

    Arguments:
        now: its NOW, microseconds. live_from: rows of epochs from this one on are not reduced.
    """
    if query.reduce is None or not query.estimated:
        return Scan()
    return Scan(query.reduce, max(now, NEVER), live_from)


def answered(
    archive: SegmentTable,
    query: WindowedQuery | ScanQuery,
    scan: Scan,
    answer: Callable[[Scan], pa.Table],
) -> pa.Table:
    """The answer of a query by a scan; of a reduced one with what its metadata tell of it.

    Under `REDUCE error(e)` scans are repeated with more rows until the interval of every count, sum and average in the
    answer is the estimate +- e, or everything has been read. Samples are nested: a scan reads what the one before it
    read, and more.

    Arguments:
        archive: of the stream.
        answer: makes the answer by a scan whose steps are given, or (none are) resolved by it.
    """
    if scan.reduction is None:
        return answer(scan)
    if scan.reduction.function != "error":
        return described(answer(scan), scan)
    pairs = interval_columns(query)
    narrowing = Narrowing(scan.reduction.error, sum(s.rows for s in archive.segments))
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
