"""Scans that leave out part of a stream's past: `REDUCE …` resolved into steps, planned in the driver, read in tasks.

A reduction becomes steps: stretches of event time with the fraction to drop (`archive.reductions`). Each step is
planned like any scan (`engine.scan`): per section of the archive the closest finer version, its row groups, and what is
left to drop. Rows of epochs from `live_from` on are those that a standing query has seen live: they are never reduced.
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
from millpond.archive.reading.held_rows import HeldRows
from millpond.archive.reading.history import Range, segments_in
from millpond.archive.reading.pacing import Pace
from millpond.archive.reading.reduction_functions import function_of
from millpond.archive.reading.scan import (
    Counters,
    Floors,
    Piece,
    Section,
    batches,
    between_floors,
    pieces_of,
    scanned,
    sections,
)
from millpond.archive.reading.splits import SCAN, Portion
from millpond.language.reduce_clause import interval_text, reduction_text
from millpond.operators.summaries.maintenance import served
from millpond.support.errors import QueryError
from millpond.synopses import PanesSpec, spec_of
from millpond.synopses.whole_rows import plain_spec, unweighed
from millpond.types import BoundQuery, Reduction, StreamDefinition, from_json, to_json

if TYPE_CHECKING:
    from millpond.engine.core import Core

#: Under which key of a table's metadata what was read for it stands, as JSON.
METADATA = b"millpond.reduction"

#: Rows of one task, as they are read.
_ROWS_PER_TASK = 4_000_000


@dataclass(frozen=True)
class Sums:
    """A query that can see its past as sums over intervals.

    strict: a row on which an expression fails makes it fail.
    """

    query: BoundQuery
    stream: StreamDefinition
    strict: bool = False

    def needed(self, interval: int) -> PanesSpec | None:
        """What a summary must have that stands for rows; None where none can."""
        needed = plain_spec(spec_of(self.query, self.stream), self.query)
        return None if needed is None else replace(needed, interval=interval)


def sums_of(query: BoundQuery, stream: StreamDefinition, strict: bool = False) -> Sums | None:
    """The query as its past can be summed up; None where it must see rows."""
    if query.window is None or query.row_window is not None or query.feeds or not query.grouped or query.lookup:
        return None
    return Sums(query, stream, strict)


@dataclass
class Scan:
    """A reduced scan: what was asked, what was decided, and what was read.

    reduction: as written. now: NOW of the scan, microseconds. live_from: rows from this epoch on are not reduced.
    steps: what was decided. rows, size, sections: of all versions that a full scan would read. counters: what was read,
    scans that were only made to decide included (`pilots` of them). stretches: where rows were left out. told: whether
    the archive is told what is wanted, so that a stream of design 'modify' makes copies for it. floors: per stream,
    from which event time on its rows and copies are seen; for queries that see no row past its retention.
    coarse: (low, high, interval): where rows are seen at the start of their interval. sums: the query that they are
    for, where it can see them so. held: rows that a function has looked at. pace: what it drops as the load changes.
    """

    reduction: Reduction
    now: int
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
    held: HeldRows = field(default_factory=HeldRows)
    pace: Pace | None = None

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
        return f"REDUCE {reduction_text(self.reduction)} dropped {some} of {self.rows} rows{seen}{why}"

    def to_json(self) -> dict[str, Any]:
        """What there is to know of it, JSON-ready."""
        return {
            "reduction": reduction_text(self.reduction),
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
                for piece in _quietly(core, stream, seen, step.drop, scan):
                    rows = list(batches(core.path, stream, [piece], seen, None, looked))
                    scan.held.keep(stream, piece, seen, rows)
                    tables += rows
        # What of them the scan gives, and what a full one would have read, is counted when it is made.
        scan.counters.add(replace(looked, rows=0, full_groups=0, full_bytes=0))
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    function = function_of(core, reduction.function)
    steps = run_steps(function, reduction.function, reduction.arguments, runs, previous, sums=scan.sums is not None)
    return _whole(steps)


def pace_of(core: Core, scan: Scan) -> Pace | None:
    """What says while a scan runs how much of the files to come it drops; None where that is settled."""
    if scan.reduction.function != "load":
        return None

    def found(stream: StreamDefinition, wanted: Range) -> Sequence[Section]:
        return sections(core, stream, wanted, scan.floors.get(stream.id))[0]

    return Pace(lambda: core.load.choose(scan.reduction.drops[0]), found)


def settle(scan: Scan) -> None:
    """Write into a scan that has ended what was decided while it ran: steps behind the one that it began with."""
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


def portions(core: Core, stream: StreamDefinition, scan: Scan, wanted: Range) -> list[Portion]:
    """What is read of one stream. Call it while the core is pinned, and keep it so until it is read.

    Counts into `scan` what a full scan would read, and where rows are left out.
    """
    found: list[Portion] = []
    stretches = list(scan.stretches)
    floors = scan.floors.get(stream.id)
    full: dict[str, Section] = {}
    for seen in between_floors(floors, wanted):
        full |= {s.name: s for s in sections(core, stream, seen, floors)[0]}  # the whole one, where a file is cut
    scan.rows, scan.size = (
        scan.rows + sum(s.rows for s in full.values()),
        scan.size + sum(s.size for s in full.values()),
    )
    scan.sections += len(full)
    past = past_of(wanted, scan.live_from)
    for step in within(scan.steps, wanted.low, wanted.high):
        part = replace(past, low=_open(step.low, START), high=_open(step.high, END))
        if past.epoch is not None and past.epoch < 1:
            continue
        for seen in between_floors(floors, part):
            pieces = _pieces(core, stream, seen, step.drop, scan)
            if not pieces:
                continue
            low = max(step.low, min(p.segment.low for p in pieces))
            high = min(step.high, max(p.segment.high for p in pieces) + 1)
            if step.drop > 0:
                stretches.append((low, high))
            if step.interval:
                scan.coarse = (*scan.coarse, (low, high, step.interval))
            found += _read_as(core, stream, Portion(seen, step.drop, pieces, step.interval), scan)
    if scan.live_from is not None and (wanted.epoch is None or wanted.epoch >= scan.live_from):
        live = replace(wanted, first=scan.live_from)
        for seen in between_floors(floors, live):
            pieces = _quietly(core, stream, seen, 0.0, scan)
            if pieces:
                found.append(Portion(seen, 0.0, pieces))
    marked = sorted(s for s in stretches if s[1] > s[0])
    scan.stretches = reduced_stretches(_disjoint(marked))
    return found


def _read_as(core: Core, stream: StreamDefinition, portion: Portion, scan: Scan) -> list[Portion]:
    """A portion as it is read: where sums over an interval will do, with a summary in place of files that it has."""
    needed = None if scan.sums is None or not portion.interval else scan.sums.needed(portion.interval)
    if scan.sums is None or needed is None:
        return [portion]
    query, strict = unweighed(scan.sums.query), scan.sums.strict
    found = served(core, stream, needed, [query], portion.wanted, strict=strict)
    if found is None:
        return [portion]
    rest = {section_of(s.path) for s in found.left}
    left = tuple(p for p in portion.pieces if p.section in rest)
    files = tuple(p.whole for p in portion.pieces if p.section not in rest and p.whole is not None)
    summed = replace(portion, pieces=(), entries=found.entries, files=files, have=found.summary.spec)
    return [summed, replace(portion, pieces=left)] if left else [summed]


def function_name(reduction: Reduction) -> str:
    """Under which name a stream of design 'modify' remembers what scans with a reduction wanted.

    >>> function_name(Reduction("sample", drops=(0.5,)))
    'sample'
    """
    if reduction.function in ("sample", "load"):
        return reduction.function
    return reduction_text(reduction)


def _pieces(core: Core, stream: StreamDefinition, part: Range, drop: float, scan: Scan) -> tuple[Piece, ...]:
    """What is read of one step. The scans of `error` go from coarse to fine, and are no sign of what will be wanted."""
    pieces = _quietly(core, stream, part, drop, scan)
    if scan.told and scan.reduction.function != "error":
        marks = {p.section: kept_fraction(drop) for p in pieces}
        scanned(core, stream, Scanned(function_name(scan.reduction), marks, part.high is None))
    return pieces


def _quietly(core: Core, stream: StreamDefinition, part: Range, drop: float, scan: Scan) -> tuple[Piece, ...]:
    """What is read of a range, without telling the archive.

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


def reduced_tasks(
    core: Core, streams: Sequence[StreamDefinition], scan: Scan, wanted: Range
) -> tuple[list[tuple[int, list[Portion]]], int, int | None]:
    """Map tasks of a reduced scan: as `history.fed_tasks`, with portions for segments, and the rows that are read."""
    tasks: list[tuple[int, list[Portion]]] = []
    rows, gone = 0, []
    for place, stream in enumerate(streams):
        removed = core.streams[stream.id].archive.snapshot[1]
        gone += [] if removed is None else [removed]
        found = portions(core, stream, scan, wanted)
        sizes = [round(p.segment.rows * min(1.0, p.kept / p.segment.kept)) for each in found for p in each.pieces]
        summed = [p for p in found if p.entries]
        rows += sum(sizes) + sum(s.rows for p in summed for s in p.entries)
        most = max(1, (core.executor.cores - 1) // len(streams))
        count = max(1, min(most, -(-sum(sizes) // _ROWS_PER_TASK)))
        tasks += [(place, t) for t in _spread(found, sizes, count)]
        tasks += [(place, summed)] if summed else []
    return tasks, rows, max(gone, default=None)


def _spread(found: Sequence[Portion], sizes: Sequence[int], count: int) -> list[list[Portion]]:
    total, done, at = max(1, sum(sizes)), 0, 0
    tasks: list[list[Portion]] = [[] for _ in range(count)]
    for portion in found:
        for piece in portion.pieces:
            task = tasks[min(count - 1, done * count // total)]
            if task and task[-1].wanted == portion.wanted and task[-1].drop == portion.drop:
                task[-1] = replace(task[-1], pieces=(*task[-1].pieces, piece))
            else:
                task.append(replace(portion, pieces=(piece,)))
            done += sizes[at]
            at += 1
    return [t for t in tasks if t]


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
