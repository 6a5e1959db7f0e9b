"""Scans that leave out part of a stream's past: `REDUCE …` resolved into steps, planned in the driver, read in tasks.

A reduction becomes steps: stretches of event time with the fraction to drop (`archive.reductions`). Each step is
planned like any scan (`engine.scan`): per section of the archive the closest finer version, its row groups, and what is
left to drop. Rows of epochs from `live_from` on are those that a standing query has seen live: they are never reduced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive import kept_fraction
from millpond.archive.lazy import Scanned
from millpond.archive.reductions import (
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
from millpond.engine.core import Core
from millpond.engine.history import Range, segments_in
from millpond.engine.mapping import Parcel
from millpond.engine.reduction_functions import function_of
from millpond.engine.scan import (
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
from millpond.errors import QueryError
from millpond.language.reduce_clause import reduction_text
from millpond.types import Reduction, StreamDefinition, from_json, to_json

#: Who sends a map task's counters.
SCAN = "scan"

#: Under which key of a table's metadata what was read for it stands, as JSON.
METADATA = b"millpond.reduction"

#: Rows of one task, as they are read.
_ROWS_PER_TASK = 4_000_000


@dataclass(frozen=True)
class Portion:
    """What a scan reads of one step of one stream."""

    wanted: Range
    drop: float
    pieces: tuple[Piece, ...]


@dataclass
class Scan:
    """A reduced scan: what was asked, what was decided, and what was read.

    reduction: as written. now: NOW of the scan, microseconds. live_from: rows from this epoch on are not reduced.
    steps: what was decided. rows, size, sections: of all versions that a full scan would read. counters: what was read,
    scans that were only made to decide included (`pilots` of them). stretches: where rows were left out. told: whether
    the archive is told what is wanted, so that a stream of design 'modify' makes copies for it. floors: per stream,
    from which event time on its rows and copies are seen; for queries that see no row past its retention.
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

    @property
    def most(self) -> float:
        """The largest fraction that it drops anywhere."""
        return max((s.drop for s in self.steps), default=0.0)

    def summary(self) -> str:
        """What was decided, in words."""
        drops = sorted({s.drop for s in self.steps})
        some = f"{drops[0]:.4g}" if len(drops) == 1 else f"{drops[0]:.4g} to {drops[-1]:.4g}"
        why = f" ({self.reason})" if self.reason else ""
        return f"REDUCE {reduction_text(self.reduction)} dropped {some} of {self.rows} rows{why}"

    def to_json(self) -> dict[str, Any]:
        """What there is to know of it, JSON-ready."""
        return {
            "reduction": reduction_text(self.reduction),
            "steps": [to_json(s) for s in self.steps],
            "exact": not self.stretches,
            "rows": self.rows,
            "read": to_json(self.counters),
            "pilots": self.pilots,
            "reason": self.reason,
        }


def resolve(core: Core, streams: Sequence[StreamDefinition], scan: Scan, wanted: Range) -> tuple[Step, ...]:
    """The steps of a scan, for all but `error`, which is decided by what is read. Call it while the core is pinned.

    Raises: QueryError when a registered function is gone, fails, or gives no fraction.
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

    def previous(run: Run, drop: float) -> pa.Table | None:
        part = replace(past, low=_later(run.low, past.low), high=_earlier(run.high, past.high))
        scan.pilots += 1
        tables: list[pa.Table] = []
        looked = Counters()
        for stream in streams:
            for seen in between_floors(scan.floors.get(stream.id), part):
                pieces = _quietly(core, stream, seen, drop, scan)
                tables += list(batches(core.path, stream, pieces, seen, None, looked))
        scan.counters.add(replace(looked, full_groups=0, full_bytes=0))
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    steps = run_steps(function_of(core, reduction.function), reduction.function, reduction.arguments, runs, previous)
    return _whole(steps)


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
            if pieces:
                found.append(Portion(seen, step.drop, pieces))
            if step.drop > 0 and pieces:
                low = max(step.low, min(p.segment.low for p in pieces))
                high = min(step.high, max(p.segment.high for p in pieces) + 1)
                stretches.append((low, high))
    if scan.live_from is not None and (wanted.epoch is None or wanted.epoch >= scan.live_from):
        live = replace(wanted, first=scan.live_from)
        for seen in between_floors(floors, live):
            pieces = _quietly(core, stream, seen, 0.0, scan)
            if pieces:
                found.append(Portion(seen, 0.0, pieces))
    marked = sorted(s for s in stretches if s[1] > s[0])
    scan.stretches = reduced_stretches(_disjoint(marked))
    return found


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
        rows += sum(sizes)
        most = max(1, (core.executor.cores - 1) // len(streams))
        count = max(1, min(most, -(-sum(sizes) // _ROWS_PER_TASK)))
        tasks += [(place, t) for t in _spread(found, sizes, count)]
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


def portion_rows(
    pond: str,
    stream: StreamDefinition,
    found: Sequence[Portion],
    columns: Sequence[str] | None,
    counters: Counters,
) -> Iterator[pa.Table]:
    """Rows of portions with their weight, in bounded batches and in no order; those of a batch have the same weight."""
    for portion in found:
        first = portion.wanted.first
        for rows in batches(pond, stream, portion.pieces, portion.wanted, columns, counters, in_order=False):
            if first is not None:
                rows = rows.filter(pc.greater_equal(rows["_epoch"], first))
            if rows.num_rows:
                yield rows


def counted_parcel(task: int, counters: Counters) -> Parcel:
    """What a map task has read, for shard 0."""
    return Parcel(0, SCAN, task, json.dumps(to_json(counters)).encode())


def take_counters(parcels: Sequence[Parcel]) -> tuple[list[Parcel], dict[str, Any]]:
    """The other parcels, and the sum of the counters as a report."""
    total = Counters()
    others = []
    for parcel in parcels:
        if parcel.owner == SCAN:
            total.add(from_json(Counters, json.loads(bytes(parcel.payload))))
        else:
            others.append(parcel)
    return others, to_json(total)


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
