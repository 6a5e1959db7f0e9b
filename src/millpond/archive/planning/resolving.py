"""`REDUCE …` as steps: stretches of event time with the fraction to drop, or the interval to sum over.

A scan without a reduction has a single step that drops nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from millpond.archive.design.reductions import END, START, Run, Step, age_steps, joined, run_steps, sample_steps
from millpond.archive.open_archives import Archives
from millpond.archive.planning.pacing import Pace
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.reduction_functions import function_of
from millpond.archive.planning.scan_tasks import ScanSplit
from millpond.archive.planning.scans import Scan, past_of
from millpond.archive.planning.sections import Section, between_floors, pieces_of, sections
from millpond.archive.reading.counters import Counters
from millpond.archive.reading.reader import ArchiveReader, AtHand
from millpond.archive.storage import Storage
from millpond.support.errors import QueryError
from millpond.types import StreamDefinition
from millpond.types.reduction_forms import reduction_text


def resolve(archives: Archives, streams: Sequence[StreamDefinition], scan: Scan, wanted: Range) -> tuple[Step, ...]:
    """The steps of a scan, for all but `error`, which is decided by what is read.

    Call it while the archives are pinned.

    Raises: QueryError when a registered function is gone; Refusal when it fails, or gives what this query cannot use.
    """
    reduction = scan.reduction
    if reduction is None:
        return sample_steps(0.0)
    if reduction.function == "sample":
        return sample_steps(reduction.drops[0])
    if reduction.function == "age":
        return age_steps(reduction, scan.now)
    if reduction.function == "load":
        choice = archives.load.choose(reduction.drops[0])
        scan.reason = choice.reason
        return sample_steps(choice.drop)
    if reduction.function in ("error", "interval"):
        raise QueryError(f"REDUCE {reduction_text(reduction)} is not available for this query")
    past = past_of(wanted, scan.live_from)
    runs = runs_of(archives.storage, streams, past, scan.now)

    def previous(step: Step) -> pa.Table | None:
        part = replace(past, low=_later(step.low, past.low), high=_earlier(step.high, past.high))
        scan.pilots += 1
        tables: list[pa.Table] = []
        looked = Counters()
        for stream in streams:
            floors = scan.floors.get(stream.id)
            for seen in between_floors(floors, part):
                reader = ArchiveReader(archives.path, stream, weighted=True, in_order=True, counters=looked)
                found = sections(archives.storage, stream, seen, floors)
                for piece in pieces_of(stream, [(s, step.drop) for s in found]):
                    rows = list(reader.rows([ScanSplit(seen, step.drop, (piece,))]))
                    scan.held.keep(stream, piece, seen, rows)
                    tables += rows
        # What of them the scan gives, and what a full one would have read, is counted when it is made.
        scan.counters.add(replace(looked, rows=0, full_groups=0, full_bytes=0))
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    function = function_of(archives.path, archives.catalog, reduction.function)
    steps = run_steps(function, reduction.function, reduction.arguments, runs, previous, sums=scan.sums is not None)
    return _whole(steps)


def at_hand(archives: Archives, scan: Scan) -> AtHand:
    """What a scan has at hand in this process: rows that a function has looked at, and the load as it changes."""
    reduction = scan.reduction
    if reduction is None or reduction.function != "load":
        return AtHand(scan.held)

    def found(stream: StreamDefinition, wanted: Range) -> Sequence[Section]:
        return sections(archives.storage, stream, wanted, scan.floors.get(stream.id))

    scan.pace = Pace(lambda: archives.load.choose(reduction.drops[0]), found)
    return AtHand(scan.held, scan.pace)


def _whole(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps that cover all of time, since a row may lie before what statistics said."""
    if not steps:
        return sample_steps(0.0)
    return joined([replace(steps[0], low=START), *steps[1:-1], replace(steps[-1], high=END)]
                  if len(steps) > 1 else [replace(steps[0], low=START, high=END)])  # fmt: skip


def runs_of(storage: Storage, streams: Sequence[StreamDefinition], wanted: Range, now: int) -> list[Run]:
    """The runs of a range, old ones first: from where a file of the archive begins to where the next one does."""
    starts: dict[int, tuple[int, int]] = {}
    high = START
    for stream in streams:
        for segment in segments_in(storage.streams[stream.id].archive.segments, wanted):
            rows, size = starts.get(segment.low, (0, 0))
            starts[segment.low] = rows + segment.rows, size + segment.size
            high = max(high, segment.high + 1)
    lows = sorted(starts)
    if not lows:
        return []
    return [
        Run(low, end, starts[low][0], now, starts[low][1]) for low, end in zip(lows, [*lows[1:], high], strict=True)
    ]


def _later(low: int, other: int | None) -> int:
    return low if other is None else max(low, other)


def _earlier(high: int, other: int | None) -> int:
    return high if other is None else min(high, other)
