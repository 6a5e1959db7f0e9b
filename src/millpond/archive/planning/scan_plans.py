"""Plans of scans: of each step the sections in the closest finer version, divided into tasks.

Of a version its row groups are chosen, and what is left to drop is dropped when it is read. Where sums will do, entries
of a summary are read in place of rows. Rows of epochs from `live_from` on are those that a standing query has seen
live: they are never reduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from millpond.archive import kept_fraction
from millpond.archive.copy_files import section_of
from millpond.archive.design.lazy import Scanned
from millpond.archive.design.reductions import END, START, Step, reduced_stretches, within
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.resolving import resolve
from millpond.archive.planning.scan_tasks import ScanPlan, ScanSplit, ScanTask, divided
from millpond.archive.planning.scans import Scan, disjoint, past_of
from millpond.archive.planning.sections import Floors, Section, between_floors, pieces_of, scanned, sections
from millpond.archive.retention import floors_of, gone_before, retained_from
from millpond.archive.summed.serving import Sums, served
from millpond.progress import NEVER
from millpond.synopses import spec_of
from millpond.synopses.whole_rows import plain_spec, unweighed
from millpond.tables import Segment
from millpond.tables.segments import Snapshot
from millpond.types import Reduction, StreamDefinition, WindowedQuery
from millpond.types.reduction_forms import reduction_text


def sums_of(query: WindowedQuery, stream: StreamDefinition, strict: bool = False) -> Sums | None:
    """The partials that may stand in for rows of a query; None where it must see rows.

    Of a reduced query it is the past that may be summed up over intervals, as for a query over whole rows.

    Args:
        strict: see `Sums`.
    """
    if query.reduce is None or not query.reduce.samples:
        return Sums(spec_of(query, stream).by_interval(), (query,), strict)
    if not query.adds_up or query.feeds or query.lookup:
        return None
    return Sums(plain_spec(spec_of(query, stream), query), (unweighed(query),), strict)


def plan_scan(
    archives: Archives, streams: Sequence[StreamDefinition], wanted: Range | Sequence[Range], scan: Scan
) -> ScanPlan:
    """What a scan reads, in tasks: of the archive of one stream, or of those of a union.

    Call it while the archives are pinned, and keep them so until everything is read. What a full scan would read is
    counted into `scan`, where rows are left out is noted there, and its steps are resolved unless it has some.

    Args:
        wanted: the rows to read, of all streams or of each. Rows past the retention of their stream are not read,
            whether their files are there or not, unless the scan's floors say otherwise.
    """
    ranges = [wanted] * len(streams) if isinstance(wanted, Range) else list(wanted)
    said = scan.floors
    scan.floors = {s.id: said[s.id] if s.id in said else _floors(archives, s, scan) for s in streams}
    scan.steps = scan.steps or resolve(archives, streams, scan, _widest(ranges))
    for stream, own in zip(streams, ranges, strict=True):
        if stream.id not in said and _stands(archives, stream, own, scan):
            scan.floors = {**scan.floors, stream.id: None}
    tasks: list[ScanTask] = []
    rows, gone = 0, []
    for place, (stream, own) in enumerate(zip(streams, ranges, strict=True)):
        snapshot = archives.streams[stream.id].archive.snapshot
        splits = _Planner(archives, stream, scan, snapshot).splits(own)
        summed = tuple(s for s in splits if s.entries)
        floors = scan.floors[stream.id]
        gone += [] if summed and not scan.reduced and floors is None else [_gone(snapshot, floors)]
        rows += sum(p.rows for s in splits for p in s.pieces) + sum(e.rows for s in summed for e in s.entries)
        parts = divided(splits, max(1, (archives.executor.cores - 1) // len(streams)))
        tasks += [ScanTask(place, part) for part in [*parts, *([summed] if summed else [])]]
    known = [r for r in (*gone, scan.reaches) if r is not None]
    return ScanPlan(tuple(tasks), rows, max(known, default=None))


def _floors(archives: Archives, stream: StreamDefinition, scan: Scan) -> Floors:
    """From which event time on rows are seen, and copies by a scan that may read them."""
    floors = floors_of(stream, retained_from(stream, scan.as_of or archives.published))
    return floors if floors is None or scan.reduced else {"": floors[""]}


def _stands(archives: Archives, stream: StreamDefinition, wanted: Range, scan: Scan) -> bool:
    """Whether a summary keeps what is wanted for longer than rows, so that its entries are as good before these go."""
    sums = scan.sums
    if sums is None or (sums.hard and (wanted.low is not None or wanted.high is not None)):
        return False
    intervals = {s.interval for s in scan.steps if s.interval} if scan.reduced else {0}
    needed = [spec for each in intervals if (spec := sums.by(each).spec) is not None]
    summaries = archives.catalog.summaries_of(stream.id)
    return any(all(s.spec.rolls_up(spec, q) for q in sums.queries) for s in summaries for spec in needed)


def _gone(snapshot: Snapshot, floors: Floors) -> int | None:
    """The event time before which rows are not seen any more; None: all are."""
    gone = gone_before(snapshot, NEVER if floors is None else floors[""])
    return gone if gone > NEVER else None


def _widest(ranges: Sequence[Range]) -> Range:
    """The range that holds the ranges of all streams of a union."""
    lows = [r.low for r in ranges]
    return replace(ranges[0], low=None if None in lows else min(low for low in lows if low is not None))


@dataclass(frozen=True)
class _Planner:
    """Plans what a scan reads of one stream.

    snapshot: of its archive; all of the plan is made from the same one. left_out: where rows are left out.
    """

    archives: Archives
    stream: StreamDefinition
    scan: Scan
    snapshot: Snapshot
    left_out: list[tuple[int, int]] = field(default_factory=list)

    @property
    def floors(self) -> Floors:
        """From which event time on versions of the past are seen."""
        return self.scan.floors[self.stream.id]

    def splits(self, wanted: Range) -> list[ScanSplit]:
        """What is read of a range."""
        scan = self.scan
        if scan.reduced:
            self.count_full(wanted)
        past = past_of(wanted, scan.live_from)
        found: list[ScanSplit] = []
        for step in within(scan.steps, wanted.low, wanted.high) if past.epoch is None or past.epoch >= 1 else ():
            part = replace(past, low=_open(step.low, START), high=_open(step.high, END))
            for split in self.reduced(part, step):
                found += self.with_entries(split)
        if scan.live_from is not None and (wanted.epoch is None or wanted.epoch >= scan.live_from):
            found += self.reduced(replace(wanted, first=scan.live_from), Step(START, END, 0.0))
        scan.stretches = reduced_stretches(disjoint(sorted([*scan.stretches, *self.left_out])))
        return [s for s in found if s.pieces or s.entries]

    def reduced(self, part: Range, step: Step) -> list[ScanSplit]:
        """What is read of the part of a range that a step is about; a lazy archive is told what is wanted of it.

        Raises: QueryError when some of it is kept at coarser resolution than wanted only.
        """
        found = []
        for seen in between_floors(self.floors, part):
            pieces = pieces_of(self.stream, [(s, step.drop) for s in self.sections(seen)])
            split = ScanSplit(seen, step.drop, pieces, step.interval)
            self.tell(split)
            self.note(split, step)
            found.append(split)
        return found

    def sections(self, wanted: Range) -> list[Section]:
        """The sections of a range."""
        return sections(self.archives.storage, self.stream, wanted, self.floors, self.snapshot[0])

    def count_full(self, wanted: Range) -> None:
        """Count into the scan what a full one would read."""
        full: dict[str, Section] = {}
        for seen in between_floors(self.floors, wanted):
            full |= {s.name: s for s in self.sections(seen)}  # the whole one, where a file is cut
        self.scan.rows += sum(s.rows for s in full.values())
        self.scan.size += sum(s.size for s in full.values())
        self.scan.sections += len(full)

    def tell(self, split: ScanSplit) -> None:
        """Tell a lazy archive what is wanted. The scans of `error` go from coarse to fine, and are no sign of that."""
        scan = self.scan
        if scan.reduction is not None and scan.told and scan.reduction.function != "error":
            marks = {p.section: kept_fraction(split.drop) for p in split.pieces}
            told = Scanned(function_name(scan.reduction), marks, split.wanted.high is None)
            scanned(self.archives.storage, self.stream, told)

    def note(self, split: ScanSplit, step: Step) -> None:
        """Note in the scan where rows are left out, or seen at the start of their interval."""
        if not split.pieces:
            return
        scan = self.scan
        low = max(step.low, min(p.segment.low for p in split.pieces))
        high = min(step.high, max(p.segment.high for p in split.pieces) + 1)
        if step.drop > 0 and high > low:
            self.left_out.append((low, high))
        if step.interval:
            scan.coarse = (*scan.coarse, (low, high, step.interval))

    def with_entries(self, split: ScanSplit) -> list[ScanSplit]:
        """A split as it is read: where sums will do, with entries of a summary in place of the files that it has."""
        scan = self.scan
        sums = None if scan.reduced and not (split.interval and split.pieces) else scan.sums
        found = None
        if sums is not None:
            found = served(self.archives, self.stream, sums.by(split.interval), split.wanted, self.snapshot)
        if sums is None or found is None:
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


def _open(edge: int, limit: int) -> int | None:
    return None if edge == limit else edge
