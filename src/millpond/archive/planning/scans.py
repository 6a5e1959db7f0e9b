"""Scans of a stream's past: `REDUCE …` resolved into steps, planned and divided in the driver, to be read in tasks.

A reduction becomes steps: stretches of event time with the fraction to drop (`archive.design.reductions`); a scan
without one has a single step that drops nothing. Of each step the sections of the archive are read in the closest finer
version, its row groups, and what is left to drop is dropped then (`sections`); or, where sums will do, entries of a
summary are read in place of rows. Rows of epochs from `live_from` on are those that a standing query has seen live:
they are never reduced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millpond.archive import kept_fraction
from millpond.archive.copies import section_of
from millpond.archive.design.lazy import Scanned
from millpond.archive.design.reductions import (
    END,
    START,
    Run,
    Step,
    age_steps,
    joined,
    reduced_stretches,
    run_steps,
    sample_steps,
    within,
)
from millpond.archive.planning.pacing import Pace
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.reduction_functions import function_of
from millpond.archive.planning.scan_tasks import ScanPlan, ScanSplit, ScanTask, divided
from millpond.archive.planning.sections import (
    Floors,
    Piece,
    Section,
    between_floors,
    pieces_of,
    scanned,
    sections,
)
from millpond.archive.reading.counters import SCAN, Counters
from millpond.archive.reading.held_rows import HeldRows
from millpond.archive.reading.reader import ArchiveReader, AtHand
from millpond.language.reduce_clause import interval_text, reduction_text
from millpond.operators.summaries.maintenance import served
from millpond.support.errors import QueryError
from millpond.synopses import spec_of
from millpond.synopses.panes import at_intervals, by_interval, panes_spec
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.whole_rows import plain_spec, unweighed
from millpond.tables import Segment
from millpond.types import Reduction, StreamDefinition, WindowedQuery, WindowQuery, from_json, to_json

if TYPE_CHECKING:
    from millpond.engine.core import Core

#: Under which key of a table's metadata what was read for it stands, as JSON.
METADATA = b"millpond.reduction"


@dataclass(frozen=True)
class Sums:
    """Partials that may stand in for rows.

    spec: what they must have; None: none can. queries: all that they are for. strict: a row on which an expression
    fails makes them fail. hard: the bounds of a range are meant to the row, and do not only say what is of use.
    """

    spec: Spec | None
    queries: tuple[WindowedQuery, ...]
    strict: bool = False
    hard: bool = True

    def needed(self, interval: int) -> Spec | None:
        """What stands in for rows must have; `interval`: rows are seen at its start (microseconds); 0: as they are."""
        return None if self.spec is None else at_intervals(self.spec, interval)


def sums_of(query: WindowedQuery, stream: StreamDefinition, strict: bool = False) -> Sums | None:
    """The partials that may stand in for rows of a query; None where it must see rows.

    Of a reduced query it is the past that may be summed up over intervals, as for a query over whole rows.

    Args:
        strict: see `Sums`.
    """
    if query.reduce is None or not query.reduce.samples:
        return Sums(by_interval(spec_of(query, stream)), (query,), strict)
    if not isinstance(query, WindowQuery) or query.feeds or query.lookup:
        return None
    return Sums(plain_spec(panes_spec(query, stream), query), (unweighed(query),), strict)


@dataclass
class Scan:
    """A scan of the past: what was asked, what was decided, and what was read.

    reduction: as written; None: everything is read. now: NOW of the scan, microseconds. live_from: rows from this epoch
    on are not reduced. steps: what was decided. rows, size, sections: of all versions that a full scan would read.
    counters: what was read, scans that were only made to decide included (`pilots` of them). stretches: where rows were
    left out. told: whether the archive is told what is wanted, so that a stream of design 'modify' makes copies for it.
    floors: per stream, from which event time on its rows and copies are seen; for queries that see no row past its
    retention. coarse: (low, high, interval): where rows are seen at the start of their interval. sums: what may stand
    in for rows; None: nothing. reaches: the event time below which what stands in for rows lacks some; None: it lacks
    none. held: rows that a function has looked at. pace: what it drops as the load changes.
    """

    reduction: Reduction | None = None
    now: int = 0
    live_from: int | None = None
    steps: tuple[Step, ...] = ()
    rows: int = 0
    size: int = 0
    sections: int = 0
    counters: Counters = field(default_factory=Counters)
    stretches: tuple[tuple[int, int], ...] = ()
    pilots: int = 0
    reason: str = ""
    told: bool = True
    floors: Mapping[int, Floors] = field(default_factory=dict)
    coarse: tuple[tuple[int, int, int], ...] = ()
    sums: Sums | None = None
    reaches: int | None = None
    held: HeldRows = field(default_factory=HeldRows)
    pace: Pace | None = None

    @property
    def reduced(self) -> bool:
        """Whether it may leave out rows, so that those which it reads have weights."""
        return self.reduction is not None

    @property
    def text(self) -> str:
        """The reduction as it was written; '' for none."""
        return "" if self.reduction is None else reduction_text(self.reduction)

    @property
    def most(self) -> float:
        """The largest fraction that it drops anywhere."""
        return max((s.drop for s in self.steps), default=0.0)

    def summary(self) -> str:
        """What was decided, in words."""
        drops = sorted({s.drop for s in self.steps})
        some = f"{drops[0]:.4g}" if len(drops) == 1 else f"{drops[0]:.4g} to {drops[-1]:.4g}"
        why = f" ({self.reason})" if self.reason else ""
        spans = sorted({interval_text(s.interval) for s in self.steps if s.interval})
        seen = f", and saw some by intervals of {', '.join(spans)}" if spans else ""
        return f"REDUCE {self.text} dropped {some} of {self.rows} rows{seen}{why}"

    def to_json(self) -> dict[str, Any]:
        """What there is to know of it, JSON-ready."""
        return {
            "reduction": self.text,
            "steps": [to_json(s) for s in self.steps],
            "exact": not self.stretches and not self.coarse,
            "rows": self.rows,
            "read": to_json(self.counters),
            "pilots": self.pilots,
            "reason": self.reason,
        }


def resolve(core: Core, streams: Sequence[StreamDefinition], scan: Scan, wanted: Range) -> tuple[Step, ...]:
    """The steps of a scan, for all but `error`, which is decided by what is read. Call it while the core is pinned.

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
        choice = core.load.choose(reduction.drops[0])
        scan.reason = choice.reason
        return sample_steps(choice.drop)
    if reduction.function in ("error", "interval"):
        raise QueryError(f"REDUCE {reduction_text(reduction)} is not available for this query")
    past = past_of(wanted, scan.live_from)
    runs = runs_of(core, streams, past, scan.now)

    def previous(step: Step) -> pa.Table | None:
        part = replace(past, low=_later(step.low, past.low), high=_earlier(step.high, past.high))
        scan.pilots += 1
        tables: list[pa.Table] = []
        looked = Counters()
        for stream in streams:
            for seen in between_floors(scan.floors.get(stream.id), part):
                reader = ArchiveReader(core.path, stream, weighted=True, in_order=True, counters=looked)
                for piece in _pieces(core, stream, seen, step.drop, scan):
                    rows = list(reader.rows([ScanSplit(seen, step.drop, (piece,))]))
                    scan.held.keep(stream, piece, seen, rows)
                    tables += rows
        # What of them the scan gives, and what a full one would have read, is counted when it is made.
        scan.counters.add(replace(looked, rows=0, full_groups=0, full_bytes=0))
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    function = function_of(core, reduction.function)
    steps = run_steps(function, reduction.function, reduction.arguments, runs, previous, sums=scan.sums is not None)
    return _whole(steps)


def at_hand(core: Core, scan: Scan) -> AtHand:
    """What a scan has at hand in this process: rows that a function has looked at, and the load as it changes."""
    reduction = scan.reduction
    if reduction is None or reduction.function != "load":
        return AtHand(scan.held)

    def found(stream: StreamDefinition, wanted: Range) -> Sequence[Section]:
        return sections(core, stream, wanted, scan.floors.get(stream.id))[0]

    scan.pace = Pace(lambda: core.load.choose(reduction.drops[0]), found)
    return AtHand(scan.held, scan.pace)


def settle(scan: Scan, reports: Sequence[dict[str, Any]]) -> None:
    """Write into a scan that has ended what was read, and what was decided while it ran: further steps.

    Args:
        reports: of the merge tasks.
    """
    scan.held.forget()
    count(scan, reports)
    if scan.pace is None or not scan.pace.steps:
        return
    found = [*scan.stretches, *((s.low, s.high) for s in scan.pace.steps)]
    scan.stretches = reduced_stretches(_disjoint(sorted(found)))
    scan.steps = (*scan.steps, *joined(scan.pace.steps))
    scan.reason = scan.pace.reason


def _whole(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps that cover all of time, since a row may lie before what statistics said."""
    if not steps:
        return sample_steps(0.0)
    return joined([replace(steps[0], low=START), *steps[1:-1], replace(steps[-1], high=END)]
                  if len(steps) > 1 else [replace(steps[0], low=START, high=END)])  # fmt: skip


def runs_of(core: Core, streams: Sequence[StreamDefinition], wanted: Range, now: int) -> list[Run]:
    """The runs of a range, old ones first: from where a file of the archive begins to where the next one does."""
    starts: dict[int, tuple[int, int]] = {}
    high = START
    for stream in streams:
        for segment in segments_in(core.streams[stream.id].archive.segments, wanted):
            rows, size = starts.get(segment.low, (0, 0))
            starts[segment.low] = rows + segment.rows, size + segment.size
            high = max(high, segment.high + 1)
    lows = sorted(starts)
    if not lows:
        return []
    return [
        Run(low, end, starts[low][0], now, starts[low][1]) for low, end in zip(lows, [*lows[1:], high], strict=True)
    ]


def past_of(wanted: Range, live_from: int | None) -> Range:
    """The part of a range that may be reduced."""
    if live_from is None:
        return wanted
    last = live_from - 1 if wanted.epoch is None else min(wanted.epoch, live_from - 1)
    return replace(wanted, epoch=last)


def plan_scan(core: Core, streams: Sequence[StreamDefinition], wanted: Range | Sequence[Range], scan: Scan) -> ScanPlan:
    """What a scan reads, in tasks: of the archive of one stream, or of those of a union.

    Call it while the core is pinned, and keep it so until everything is read. What a full scan would read is counted
    into `scan`, where rows are left out is noted there, and its steps are resolved unless it has some.

    Args:
        wanted: the rows to read, of all streams or of each.
    """
    ranges = [wanted] * len(streams) if isinstance(wanted, Range) else list(wanted)
    scan.steps = scan.steps or resolve(core, streams, scan, _widest(ranges))
    tasks: list[ScanTask] = []
    rows, gone = 0, []
    for place, (stream, own) in enumerate(zip(streams, ranges, strict=True)):
        removed = core.streams[stream.id].archive.snapshot[1]
        splits = _splits(core, stream, own, scan)
        summed = tuple(s for s in splits if s.entries)
        gone += [removed] if not summed or scan.reduced else []
        rows += sum(p.rows for s in splits for p in s.pieces) + sum(e.rows for s in summed for e in s.entries)
        parts = divided(splits, max(1, (core.executor.cores - 1) // len(streams)))
        tasks += [ScanTask(place, part) for part in [*parts, *([summed] if summed else [])]]
    known = [r for r in (*gone, scan.reaches) if r is not None]
    return ScanPlan(tuple(tasks), rows, max(known, default=None))


def _widest(ranges: Sequence[Range]) -> Range:
    """The range that holds the ranges of all streams of a union."""
    lows = [r.low for r in ranges]
    return replace(ranges[0], low=None if None in lows else min(low for low in lows if low is not None))


def _splits(core: Core, stream: StreamDefinition, wanted: Range, scan: Scan) -> list[ScanSplit]:
    """What is read of one stream."""
    floors = scan.floors.get(stream.id)
    _count_full(core, stream, wanted, scan)
    found: list[ScanSplit] = []
    stretches = list(scan.stretches)
    past = past_of(wanted, scan.live_from)
    for step in within(scan.steps, wanted.low, wanted.high) if past.epoch is None or past.epoch >= 1 else ():
        part = replace(past, low=_open(step.low, START), high=_open(step.high, END))
        for seen in between_floors(floors, part):
            split = ScanSplit(seen, step.drop, _pieces(core, stream, seen, step.drop, scan), step.interval)
            _tell(core, stream, split, scan)
            if split.pieces:
                low = max(step.low, min(p.segment.low for p in split.pieces))
                high = min(step.high, max(p.segment.high for p in split.pieces) + 1)
                stretches += [(low, high)] if step.drop > 0 and high > low else []
                scan.coarse = (*scan.coarse, (low, high, step.interval)) if step.interval else scan.coarse
            if split.pieces or not scan.reduced:
                found += _with_entries(core, stream, split, scan)
    if scan.live_from is not None and (wanted.epoch is None or wanted.epoch >= scan.live_from):
        live = replace(wanted, first=scan.live_from)
        for seen in between_floors(floors, live):
            found.append(ScanSplit(seen, 0.0, _pieces(core, stream, seen, 0.0, scan)))
    scan.stretches = reduced_stretches(_disjoint(sorted(stretches)))
    return [s for s in found if s.pieces or s.entries]


def _count_full(core: Core, stream: StreamDefinition, wanted: Range, scan: Scan) -> None:
    """Count into a reduced scan what a full one would read of a stream."""
    if not scan.reduced:
        return
    floors = scan.floors.get(stream.id)
    full: dict[str, Section] = {}
    for seen in between_floors(floors, wanted):
        full |= {s.name: s for s in sections(core, stream, seen, floors)[0]}  # the whole one, where a file is cut
    scan.rows += sum(s.rows for s in full.values())
    scan.size += sum(s.size for s in full.values())
    scan.sections += len(full)


def _with_entries(core: Core, stream: StreamDefinition, split: ScanSplit, scan: Scan) -> list[ScanSplit]:
    """A split as it is read: where sums will do, with entries of a summary in place of the files that it has."""
    sums = None if scan.reduced and not split.interval else scan.sums
    needed = None if sums is None else sums.needed(split.interval)
    if sums is None or needed is None:
        return [split]
    found = served(core, stream, needed, sums.queries, split.wanted, hard=sums.hard, strict=sums.strict)
    if found is None:
        return [split]
    rest = {section_of(s.path) for s in found.left}
    left = tuple(p for p in split.pieces if p.section in rest)
    files: tuple[Segment, ...] = ()
    if scan.reduced:
        files = tuple(p.whole for p in split.pieces if p.section not in rest and p.whole is not None)
    else:
        scan.reaches = found.removed
    since = None if sums.hard else split.wanted.low
    summed = replace(split, pieces=(), entries=found.entries, files=files, have=found.summary.spec, since=since)
    return [summed, replace(split, pieces=left)]


def function_name(reduction: Reduction) -> str:
    """Under which name a stream of design 'modify' remembers what scans with a reduction wanted.

    >>> function_name(Reduction("sample", drops=(0.5,)))
    'sample'
    """
    if reduction.function in ("sample", "load"):
        return reduction.function
    return reduction_text(reduction)


def _tell(core: Core, stream: StreamDefinition, split: ScanSplit, scan: Scan) -> None:
    """Tell a lazy archive what is wanted. The scans of `error` go from coarse to fine, and are no sign of that."""
    if scan.reduction is not None and scan.told and scan.reduction.function != "error":
        marks = {p.section: kept_fraction(split.drop) for p in split.pieces}
        scanned(core, stream, Scanned(function_name(scan.reduction), marks, split.wanted.high is None))


def _pieces(core: Core, stream: StreamDefinition, part: Range, drop: float, scan: Scan) -> tuple[Piece, ...]:
    """What is read of a range.

    Raises: QueryError when part of the range is kept at coarser resolution than wanted only.
    """
    found, _ = sections(core, stream, part, scan.floors.get(stream.id))
    return pieces_of(stream, [(s, drop) for s in found])


def _disjoint(stretches: Sequence[tuple[int, int]]) -> list[Step]:
    """Sorted stretches that may overlap, as steps that do not."""
    found: list[Step] = []
    for low, high in stretches:
        if found and low <= found[-1].high:
            found[-1] = replace(found[-1], high=max(high, found[-1].high))
        else:
            found.append(Step(low, high, 0.5))
    return found


def _open(edge: int, limit: int) -> int | None:
    return None if edge == limit else edge


def _later(low: int, other: int | None) -> int:
    return low if other is None else max(low, other)


def _earlier(high: int, other: int | None) -> int:
    return high if other is None else min(high, other)


def count(scan: Scan, reports: Sequence[dict[str, Any]]) -> None:
    """Add what the reports of merge tasks say was read."""
    for report in reports:
        if SCAN in report:
            scan.counters.add(from_json(Counters, report[SCAN]))


def described(table: pa.Table, scan: Scan) -> pa.Table:
    """A table that tells by its metadata how it was read."""
    kept = table.schema.metadata or {}
    return table.replace_schema_metadata({**kept, METADATA: json.dumps(scan.to_json()).encode()})


def description(table: pa.Table) -> dict[str, Any] | None:
    """What the metadata of an answer say of its reduction; None: it has none.

    >>> description(pa.table({"n": [1]})) is None
    True
    """
    found = (table.schema.metadata or {}).get(METADATA)
    return None if found is None else json.loads(found)
