"""A scan of a stream's past: what is asked of it, what was decided, and what it has read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from millpond.archive.design.reductions import Step, joined, reduced_stretches
from millpond.archive.planning.pacing import Pace
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.sections import Floors
from millpond.archive.reading.counters import SCAN, Counters
from millpond.archive.reading.held_rows import HeldRows
from millpond.archive.summed.serving import Sums
from millpond.manifests.records import Published
from millpond.types import Reduction, from_json, to_json
from millpond.types.reduction_forms import interval_text, reduction_text

#: Under which key of a table's metadata what was read for it stands, as JSON.
METADATA = b"millpond.reduction"


@dataclass
class Scan:
    """A scan of the past: what was asked, what was decided, and what was read.

    reduction: as written; None: everything is read. now: NOW of the scan, microseconds. live_from: rows from this epoch
    on are not reduced. steps: what was decided. rows, size, sections: of all versions that a full scan would read.
    counters: what was read, scans that were only made to decide included (`pilots` of them). stretches: where rows were
    left out. told: whether the archive is told what is wanted, so that a stream of design 'modify' makes copies for it.
    floors: per stream, from which event time on its rows and copies are seen; where nothing is said, as its retention
    says (`scan_plans.plan_scan`). coarse: (low, high, interval): where rows are seen at the start of their interval.
    sums: what may stand in for rows; None: nothing. reaches: the event time below which what stands in for rows lacks
    some; None: it lacks none. held: rows that a function has looked at. pace: what it drops as the load changes.
    as_of: the publish record by whose progress rows are past their retention; None: the last one.
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
    as_of: Published | None = None

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


def past_of(wanted: Range, live_from: int | None) -> Range:
    """The part of a range that may be reduced."""
    if live_from is None:
        return wanted
    last = live_from - 1 if wanted.epoch is None else min(wanted.epoch, live_from - 1)
    return replace(wanted, epoch=last)


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
    scan.stretches = reduced_stretches(disjoint(sorted(found)))
    scan.steps = (*scan.steps, *joined(scan.pace.steps))
    scan.reason = scan.pace.reason


def disjoint(stretches: Sequence[tuple[int, int]]) -> list[Step]:
    """Sorted stretches that may overlap, as steps that do not."""
    found: list[Step] = []
    for low, high in stretches:
        if found and low <= found[-1].high:
            found[-1] = replace(found[-1], high=max(high, found[-1].high))
        else:
            found.append(Step(low, high, 0.5))
    return found


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
