"""The versions of a stream's past, file by file, and the choice among them.

A *section* is a file of the archive; its reduced copies have the section's name (see `millpond.archive.copy_files`). So
whatever versions are chosen for the sections of a range, every row is read once at most, and a section whose copies are
not made yet is simply read finer than it would have to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from millpond.archive import Choice, Copy, choose, kept_fraction, weight
from millpond.archive.copy_files import section_of
from millpond.archive.design.lazy import Scanned
from millpond.archive.design.sampling import PLACES
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.storage import Storage
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.tables import Segment
from millpond.types import StreamDefinition


@dataclass(frozen=True)
class Version:
    """A stored version of a section. copy: '' is the archive itself."""

    copy: str
    segment: Segment

    @property
    def stored(self) -> Copy:
        """The version as matching sees it."""
        return Copy(self.copy, self.segment.kept, self.segment.blocks, self.segment.size)


@dataclass(frozen=True)
class Section:
    """A part of a stream's past: a file of the archive, or what copies have kept of one that is gone.

    low, high: its smallest and largest event time (microseconds). versions: the archive's own first, where it is there.
    """

    name: str
    low: int
    high: int
    versions: tuple[Version, ...]

    @property
    def whole(self) -> Segment | None:
        """The file with all its rows; None when retention has removed it."""
        first = self.versions[0]
        return first.segment if first.copy == "" else None

    @property
    def rows(self) -> int:
        """How many rows it has, or had (estimated from what is left)."""
        segment = self.versions[0].segment
        return round(segment.rows / segment.kept)

    @property
    def size(self) -> int:
        """Bytes of the file with all its rows; estimated from what is left where that is gone."""
        segment = self.versions[0].segment
        return round(segment.size / segment.kept)


@dataclass(frozen=True)
class Piece:
    """What a scan reads of one section.

    copy, segment: the version. groups: row groups, from the first on; None: all. kept: the fraction of the section's
    rows that the scan gives. thin: whether it drops rows of what it reads. whole: the archive's own file, if there.
    """

    section: str
    copy: str
    segment: Segment
    groups: int | None
    kept: float
    thin: bool
    whole: Segment | None = None

    @staticmethod
    def whole_file(segment: Segment) -> Piece:
        """All rows of a file of the archive."""
        return Piece(section_of(segment.path), "", segment, None, 1.0, False, segment)

    @property
    def weight(self) -> float:
        """What each of its rows counts for."""
        return weight(self.kept)

    @property
    def rows(self) -> int:
        """How many rows it reads, about."""
        return round(self.segment.rows * min(1.0, self.kept / self.segment.kept))

    @property
    def size(self) -> int:
        """Bytes that it reads when all columns are asked for, about."""
        if self.groups is None or not self.segment.blocks:
            return self.segment.size
        return self.segment.size * self.groups // self.segment.blocks


#: From which event time on the rows ('') and copies are seen (`retention.floors_of`); None: as long as they are there.
Floors: TypeAlias = Mapping[str, int] | None


def between_floors(floors: Floors, wanted: Range) -> list[Range]:
    """A range cut where a version of the past comes into sight, so that in each part the same ones are seen.

    >>> between_floors({"": 50, "sample-0.9": 10}, Range(20, 90))
    [Range(low=20, high=50, epoch=None, first=None), Range(low=50, high=90, epoch=None, first=None)]
    """
    if floors is None:
        return [wanted]
    low = NEVER if wanted.low is None else wanted.low
    first = max(low, min(floors.values()))
    edges = sorted({first, *(f for f in floors.values() if f > first)})
    edges = edges if wanted.high is None else [e for e in edges if e < wanted.high]
    if not edges:
        return []
    highs = [*edges[1:], wanted.high]
    return [
        replace(wanted, low=low if low > NEVER else wanted.low, high=high)
        for low, high in zip(edges, highs, strict=True)
    ]


def sections(
    storage: Storage,
    stream: StreamDefinition,
    wanted: Range,
    floors: Floors = None,
    files: Sequence[Segment] | None = None,
) -> list[Section]:
    """The sections that can hold rows of a range, in order of time, with all their versions.

    Call it while the storage is pinned.

    Args:
        floors: versions are passed over that are not seen yet where the range begins; a copy of which nothing is said
            is seen as the rows are. Cut the range with `between_floors`.
        files: of the archive, where they have been looked at before; None: those that there are now.
    """
    runtime = storage.streams[stream.id]
    # The archive before the copies: what it does not name any more is marked in a copy by then (`upkeep.expiry`).
    kept = runtime.archive.segments if files is None else files
    present = {section_of(s.path) for s in kept} if runtime.copies else set()
    begin = NEVER if wanted.low is None else wanted.low

    def seen(copy: str) -> bool:
        return floors is None or begin >= floors.get(copy, floors[""])

    versions: dict[str, list[Version]] = {}
    for segment in segments_in(kept, wanted) if seen("") else ():
        versions[section_of(segment.path)] = [Version("", segment)]
    for name, table in sorted(runtime.copies.items()):
        if not seen(name):
            continue
        for segment in table.segments:
            section = section_of(segment.path)
            if (section in present or segment.sole) and wanted.meets(segment):
                versions.setdefault(section, []).append(Version(name, segment))
    found = []
    for section, each in versions.items():
        if each[0].copy:
            each.sort(key=lambda v: (-v.segment.kept, v.copy))
        found.append(Section(section, each[0].segment.low, each[0].segment.high, tuple(each)))
    return sorted(found, key=lambda s: (s.low, s.name))


def match(section: Section, reduction: float, exact: bool = True) -> Piece | None:
    """What to read of a section when the fraction `reduction` may be dropped; None when no version is fine enough.

    Arguments:
        exact: give just the fraction wanted; else whatever the chosen version has.
    """
    choice: Choice | None = choose([v.stored for v in section.versions], kept_fraction(reduction), exact)
    if choice is None:
        return None
    version = next(v for v in section.versions if v.copy == choice.copy.name)
    return Piece(section.name, version.copy, version.segment, choice.groups, choice.kept, choice.thin, section.whole)


def pieces_of(
    stream: StreamDefinition, wants: Sequence[tuple[Section, float]], exact: bool = True
) -> tuple[Piece, ...]:
    """What to read of sections, of each with the fraction of its rows that may be dropped.

    Where nothing may be dropped the archive alone is read, and what copies have kept beyond it is passed over, as
    without copies.

    Arguments:
        exact: see `match`.
    Raises: QueryError when a section is kept at coarser resolution than wanted only.
    """
    found = [(s, match(s, drop, exact)) for s, drop in wants if drop > 0 or s.whole is not None]
    if coarse := [s for s, piece in found if piece is None]:
        raise too_coarse(stream, coarse)
    return tuple(piece for _, piece in found if piece is not None)


def scanned(storage: Storage, stream: StreamDefinition, event: Scanned) -> None:
    """Tell a stream of design 'modify' what a scan wants of its sections; whoever plans section by section calls it."""
    runtime = storage.streams[stream.id]
    if runtime.is_lazy and any(kept < 1 for kept in event.wanted.values()):
        with storage.lock:
            runtime.lazy.handle(event)


def too_coarse(stream: StreamDefinition, coarse: Sequence[Section]) -> QueryError:
    """The error for sections of which every version drops more than a scan allows."""
    there = round(min(1 - s.versions[0].segment.kept for s in coarse), PLACES)
    needed = round(max(1 - s.versions[0].segment.kept for s in coarse), PLACES)
    until = max(s.high for s in coarse)
    instant = str(np.datetime64(until, "us")).replace("T", " ")
    shown = f"{there * 100:.4g}" + ("" if there == needed else f" to {needed * 100:.4g}")
    return QueryError(
        f"of stream '{stream.name}' up to {instant} only copies are left, with {shown} % of the rows dropped;"
        f" allow that by REDUCE sample({needed!r}),"
        " or leave REDUCE out to read only the rows that are left, which are newer"
    )
