"""What the tasks of an epoch tell the driver: what they read, wrote and gave, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millpond.manifests.query_progress import QueryProgress
from millpond.progress import ItemSummary, StreamProgress
from millpond.tables import Segment


@dataclass(frozen=True)
class MapFiles:
    """What a map task wrote of its rows: the archive's file, those of reduced copies by name, and dead letters."""

    archive: Segment | None = None
    copies: dict[str, Segment] = field(default_factory=dict)
    dead: Segment | None = None


@dataclass(frozen=True)
class Operated:
    """What an operator did in a task: rows that came in and that it made of them, and seconds."""

    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0

    def __add__(self, other: Operated) -> Operated:
        return Operated(self.rows_in + other.rows_in, self.rows_out + other.rows_out, self.seconds + other.seconds)


@dataclass(frozen=True)
class Matched:
    """What matching with row queries came to: how many there were, and nanoseconds per row, by estimate."""

    queries: int
    work: float


@dataclass(frozen=True)
class Heavy:
    """A key that many rows have: about how many, and what it is called."""

    rows: int
    name: str


@dataclass(frozen=True)
class Frequent:
    """Rows of a store, and the keys that many of them have, by hash."""

    rows: int
    keys: dict[str, Heavy] = field(default_factory=dict)


@dataclass(frozen=True)
class MapReport:
    """What a map task tells.

    rows, late, dead, unknown, bytes: as of `StreamCounts`. summaries: of the items that it read, in order; merge tasks
    take in what they say of progress, and the driver does not get them.
    entries: of summaries, by path. failures: by owner, why an operator fails. operators: by name.
    passed: per derived stream, rows for it. frequent: by store. filters: what adaptive filters observed, by
    subject. seconds: by stage. lasted: seconds in all.
    """

    stream: int
    task: int
    rows: int = 0
    late: int = 0
    dead: int = 0
    unknown: int = 0
    bytes: int = 0
    summaries: tuple[ItemSummary, ...] = ()
    files: MapFiles = field(default_factory=MapFiles)
    entries: dict[str, Segment] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    operators: dict[str, Operated] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    frequent: dict[str, Frequent] = field(default_factory=dict)
    filters: dict[str, dict[str, Any]] = field(default_factory=dict)
    matched: Matched | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    lasted: float = 0.0


@dataclass(frozen=True)
class Scanned:
    """What an operator read of archives: row groups and bytes."""

    groups: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class MergeReport:
    """What a merge task tells.

    maps, progress: what the map tasks told, and the progress of the streams after the epoch; of shard 0 only, since all
    shards have the same. queries: progress of the queries that have something in the shard. failures: what fails in
    the epoch, by owner, and why. state, results: files to be committed. scans: by operator. filters: as of `MapReport`.
    spent: seconds, by query. given: rows of answers, by owner. passed: per derived stream, rows for it.
    seconds: by stage. lasted: seconds in all.
    """

    shard: int
    maps: tuple[MapReport, ...] = ()
    progress: dict[str, StreamProgress] = field(default_factory=dict)
    queries: dict[str, QueryProgress] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    state: tuple[Segment, ...] = ()
    results: tuple[Segment, ...] = ()
    scans: dict[str, Scanned] = field(default_factory=dict)
    filters: dict[str, dict[str, Any]] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    lasted: float = 0.0


@dataclass(frozen=True)
class EpochReport:
    """What all tasks of an epoch tell: map tasks by number, merge tasks by shard."""

    maps: tuple[MapReport, ...]
    merges: tuple[MergeReport, ...]

    @property
    def tasks(self) -> tuple[MapReport | MergeReport, ...]:
        """All of them."""
        return (*self.maps, *self.merges)

    @property
    def rows(self) -> int:
        """Rows that were taken in."""
        return sum(r.rows for r in self.maps)

    @property
    def stream_rows(self) -> dict[str, int]:
        """Rows that were taken in, by stream."""
        found: dict[str, int] = {}
        for report in self.maps:
            found[str(report.stream)] = found.get(str(report.stream), 0) + report.rows
        return found

    @property
    def bytes(self) -> int:
        """Bytes that were taken in."""
        return sum(r.bytes for r in self.maps)

    @property
    def progress(self) -> dict[str, StreamProgress]:
        """Progress of the streams after the epoch."""
        return self.merges[0].progress

    def shards_of(self, query: str) -> list[QueryProgress]:
        """What each shard that has something of a query, named by its id, made of its progress."""
        return [r.queries[query] for r in self.merges if query in r.queries]

    @property
    def failures(self) -> Mapping[str, str]:
        """What fails, by owner, and why."""
        return {owner: reason for r in self.merges for owner, reason in r.failures.items()}

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of all tasks together, by stage."""
        found: dict[str, float] = {}
        reports: tuple[MapReport | MergeReport, ...] = (*self.merges, *self.maps)
        for report in reports:
            for stage, seconds in report.seconds.items():
                found[stage] = found.get(stage, 0.0) + seconds
        return found

    @property
    def scanned(self) -> Scanned | None:
        """What was read of archives; None: nothing was to be looked up."""
        found = [s for r in self.merges for s in r.scans.values()]
        return Scanned(sum(s.groups for s in found), sum(s.bytes for s in found)) if found else None


def longest(reports: tuple[MapReport, ...] | tuple[MergeReport, ...]) -> float:
    """Seconds of the task that took longest."""
    return max((r.lasted for r in reports), default=0.0)
