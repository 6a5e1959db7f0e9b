"""Reading a stream's past with a reduction: which files and row groups, planned in the driver; their rows, in tasks.

    with core.pinned():                                  # no file is deleted while it is open
        found, _ = sections(core, stream, Range(low, high, epoch))
        pieces = pieces_of(stream, [(section, 0.4) for section in found])
    counters = Counters()
    for rows in batches(core.path, stream, pieces, Range(low, high, epoch), ["mph"], counters):
        ...                                              # the columns asked for, and `_weight`

A *section* is a file of the archive; its reduced copies have the section's name (see `millpond.archive.copies`). So
whatever versions are chosen for the sections of a range, every row is read once at most, and a section whose copies are
not made yet is simply read finer than it would have to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.archive import Choice, Copy, choose, fractions, kept_fraction, seed_of, weight
from millpond.archive.copies import file_path, section_of
from millpond.archive.design.lazy import Scanned
from millpond.archive.design.sampling import PLACES
from millpond.archive.reading.history import ROWS_AT_ONCE, Range, segments_in
from millpond.archive.segments import row_schema
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.tables import Segment
from millpond.tables.storage_types import from_storage, storage_schema
from millpond.tables.stores import is_remote, open_input
from millpond.types import WEIGHT, StreamDefinition, micros_of

if TYPE_CHECKING:
    from millpond.engine.core import Core


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

    @property
    def weight(self) -> float:
        """What each of its rows counts for."""
        return weight(self.kept)

    @property
    def size(self) -> int:
        """Bytes that it reads when all columns are asked for, about."""
        if self.groups is None or not self.segment.blocks:
            return self.segment.size
        return self.segment.size * self.groups // self.segment.blocks


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
    core: Core, stream: StreamDefinition, wanted: Range, floors: Floors = None
) -> tuple[list[Section], int | None]:
    """The sections that can hold rows of a range, in order of time, with all their versions.

    Call it while the core is pinned.

    Arguments:
        floors: versions are passed over that are not seen yet where the range begins; a copy of which nothing is said
            is seen as the rows are. Cut the range with `between_floors`.
    Returns: the sections, and the event time below which retention has removed rows for good (None: it has not).
    """
    runtime = core.streams[stream.id]
    # The archive before the copies: what it does not name any more is marked in a copy by then (`engine.copies`).
    kept, removed = runtime.archive.snapshot
    present = {section_of(s.path) for s in kept}
    begin = NEVER if wanted.low is None else wanted.low

    def seen(copy: str) -> bool:
        return floors is None or begin >= floors.get(copy, floors[""])

    versions: dict[str, list[Version]] = {section_of(s.path): [Version("", s)] for s in kept} if seen("") else {}
    for name, table in sorted(runtime.copies.items()):
        if not seen(name):
            continue
        for segment in table.segments:
            section = section_of(segment.path)
            if section in present or segment.sole:
                versions.setdefault(section, []).append(Version(name, segment))
    found = {}
    for section, each in versions.items():
        if each[0].copy:
            each.sort(key=lambda v: (-v.segment.kept, v.copy))
        found[section] = Section(section, each[0].segment.low, each[0].segment.high, tuple(each))
    heads = [replace(s.versions[0].segment, path=s.name) for s in found.values()]
    return [found[s.path] for s in segments_in(heads, wanted)], removed


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


def scanned(core: Core, stream: StreamDefinition, event: Scanned) -> None:
    """Tell a stream of design 'modify' what a scan wants of its sections; whoever plans section by section calls it."""
    runtime = core.streams[stream.id]
    if runtime.is_lazy and any(kept < 1 for kept in event.wanted.values()):
        with core.lock:
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


def batches(
    pond: str,
    stream: StreamDefinition,
    pieces: Sequence[Piece],
    wanted: Range,
    columns: Sequence[str] | None = None,
    counters: Counters | None = None,
    in_order: bool = True,
) -> Iterator[pa.Table]:
    """Rows of planned pieces, piece by piece, in bounded batches: the task's side of a scan.

    Arguments:
        columns: of the stream; None: all. The hidden columns and the event time are always there.
        counters: what is read is added to it. in_order: whether the rows of a randomized run come in order of (event
            time, `_id`), at the price of a merge; those of other files lie as they are stored.
    Returns: tables with the columns of `row_schema` that were asked for and `_weight`, what each row counts for.
    """
    schema = row_schema(stream)
    if columns is not None:
        names = {*columns, "_id", "_epoch", "_bound", stream.options.time}
        schema = pa.schema([f for f in schema if f.name in names])
    for piece in pieces:
        rows = _read(pond, stream, piece, wanted, schema, counters, in_order)
        for at in range(0, rows.num_rows, ROWS_AT_ONCE):
            yield rows.slice(at, ROWS_AT_ONCE)


def _read(
    pond: str,
    stream: StreamDefinition,
    piece: Piece,
    wanted: Range,
    schema: pa.Schema,
    counters: Counters | None,
    in_order: bool,
) -> pa.Table:
    time, stored = stream.options.time, storage_schema(schema)
    path = file_path(pond, stream, piece.copy, piece.segment)
    with open_input(path) as opened, pq.ParquetFile(opened, pre_buffer=is_remote(path)) as file:
        groups = groups_in(file.metadata, time, wanted, piece.groups)
        written = set(file.schema_arrow.names)
        there = [n for n in stored.names if n in written]
        read = file.read_row_groups(groups, columns=there, use_threads=False)
        if counters is not None:
            full = _of_whole(pond, stream, piece, wanted, there) if piece.copy else None
            _count(counters, piece, file.metadata, groups, wanted, time, there, full, read.num_rows)
    rows = _within(from_storage(read, schema), time, wanted)
    if wanted.epoch is not None and piece.segment.last_epoch > wanted.epoch:
        rows = rows.filter(pc.less_equal(rows["_epoch"], wanted.epoch))
    if piece.thin:
        rows = rows.filter(pa.array(fractions(rows["_id"].to_numpy(), seed_of(stream)) < piece.kept))
    if piece.segment.blocks and in_order:
        rows = rows.sort_by([(time, "ascending"), ("_id", "ascending")])
    if counters is not None:
        counters.rows += rows.num_rows
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, piece.weight)))


def groups_in(metadata: pq.FileMetaData, time: str, wanted: Range, first: int | None = None) -> list[int]:
    """The row groups of a file (of its first `first`) that can hold rows of a range, by their statistics."""
    count = metadata.num_row_groups if first is None else min(first, metadata.num_row_groups)
    if wanted.low is None and wanted.high is None:
        return list(range(count))
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    at = names.index(time)
    found = []
    for group in range(count):
        statistics = metadata.row_group(group).column(at).statistics
        if statistics is not None and statistics.has_min_max:
            low, high = micros_of(statistics.min), micros_of(statistics.max)
            if (wanted.low is not None and high < wanted.low) or (wanted.high is not None and low >= wanted.high):
                continue
        found.append(group)
    return found


def stored_bytes(metadata: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str]) -> int:
    """Bytes of the chunks of some columns in some row groups, as they lie in the file."""
    names = set(columns)
    wanted = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.split(".")[0] in names]
    return sum(metadata.row_group(g).column(i).total_compressed_size for g in groups for i in wanted)


def _count(
    counters: Counters,
    piece: Piece,
    metadata: pq.FileMetaData,
    groups: Sequence[int],
    wanted: Range,
    time: str,
    columns: Sequence[str],
    full: tuple[int, int] | None,
    read: int,
) -> None:
    counters.sections[piece.copy] = counters.sections.get(piece.copy, 0) + 1
    counters.groups += len(groups)
    counters.bytes += stored_bytes(metadata, groups, columns)
    counters.read += read
    if full is None:
        everything = groups_in(metadata, time, wanted)
        full = len(everything), stored_bytes(metadata, everything, columns)
    counters.full_groups += full[0]
    counters.full_bytes += full[1]


def _of_whole(
    pond: str, stream: StreamDefinition, piece: Piece, wanted: Range, columns: Sequence[str]
) -> tuple[int, int] | None:
    """Row groups and bytes that a full scan reads of the section; None when its own file is gone."""
    if piece.whole is None:
        return None
    return _full(pond, stream, piece.whole, "", wanted, columns)


def full_scan(
    pond: str,
    stream: StreamDefinition,
    segment: Segment,
    copy: str,
    wanted: Range,
    columns: Sequence[str] | None = None,
) -> Counters:
    """What a full scan would read of a file, and nothing that was read: for rows that came from elsewhere.

    columns: as in `batches`.
    """
    names = [f.name for f in row_schema(stream) if columns is None or f.name in columns or f.name.startswith("_")]
    groups, size = _full(pond, stream, segment, copy, wanted, [*names, stream.options.time])
    return Counters(full_groups=groups, full_bytes=size)


def _full(
    pond: str, stream: StreamDefinition, segment: Segment, copy: str, wanted: Range, columns: Sequence[str]
) -> tuple[int, int]:
    """Row groups and bytes of some columns of a file that can hold rows of a range."""
    with open_input(file_path(pond, stream, copy, segment)) as file:
        metadata = pq.read_metadata(file)
    groups = groups_in(metadata, stream.options.time, wanted)
    return len(groups), stored_bytes(metadata, groups, columns)


def _within(rows: pa.Table, time: str, wanted: Range) -> pa.Table:
    if wanted.low is None and wanted.high is None:
        return rows
    micros = rows[time].cast(pa.timestamp("us", rows[time].type.tz)).cast(pa.int64())
    mask = None
    if wanted.low is not None:
        mask = pc.greater_equal(micros, wanted.low)
    if wanted.high is not None:
        below = pc.less(micros, wanted.high)
        mask = below if mask is None else pc.and_(mask, below)
    return rows.filter(mask)
