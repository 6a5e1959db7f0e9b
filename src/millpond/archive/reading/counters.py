"""What a scan has read, and the report of it that map tasks send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from millpond.tables.executors import Parcel
from millpond.types import from_json, to_json

#: Who sends a map task's counters.
SCAN = "scan"


@dataclass
class Counters:
    """What a scan has read, counted at the files; and what a full scan of the same sections and columns would have.

    sections: read, by copy ('' is the archive). groups: row groups. bytes: of the column chunks in them, as stored.
    read: rows read. rows: rows that the scan gave (within the range, after thinning).
    full_groups, full_bytes: of the archive's own files in the same range; where they are gone, of the copy.
    """

    sections: dict[str, int] = field(default_factory=dict)
    groups: int = 0
    bytes: int = 0
    read: int = 0
    rows: int = 0
    full_groups: int = 0
    full_bytes: int = 0

    def add(self, other: Counters) -> None:
        """Count what another scan has read, too."""
        for copy, count in other.sections.items():
            self.sections[copy] = self.sections.get(copy, 0) + count
        for name in ("groups", "bytes", "read", "rows", "full_groups", "full_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


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
