"""What a pond keeps, as it is read: the tables of its streams, and those of state, results and summaries."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from millpond.archive import parse_design
from millpond.archive.archive_files import DEAD, archive_folder, dead_folder, row_schema
from millpond.archive.copy_files import copies_on_disk, copy_folder, eager_copies, remove_doomed, section_of
from millpond.archive.design.lazy import PREFIX, Lazy, Stored
from millpond.manifests.places import results_folder, state_folder, summaries_folder
from millpond.tables import SegmentTable
from millpond.tables.chunks import SCHEMA as CHUNKS
from millpond.tables.locations import know
from millpond.tables.storage_types import storage_schema
from millpond.types import StreamDefinition


@dataclass
class StreamTables:
    """The tables of one stream: its archive with copies, and its dead letters.

    copies: reduced copies of the archive by name; a section of it has the same name in all of them (`archive.copies`).
    """

    definition: StreamDefinition
    archive: SegmentTable
    dead: SegmentTable
    schema: pa.Schema
    copies: dict[str, SegmentTable] = field(default_factory=dict)
    lazy: Lazy = field(default_factory=Lazy)

    @classmethod
    def opened(cls, path: str, definition: StreamDefinition) -> StreamTables:
        """Open (and create where missing) the tables of a stream; `path`: the pond's folder."""
        if definition.options.archive_at is not None:
            know(definition.options.archive_at, path)
        schema = row_schema(definition)
        archive = SegmentTable(archive_folder(path, definition), storage_schema(schema), definition.options.time)
        return cls(definition, archive, SegmentTable(dead_folder(path, definition), DEAD), schema)

    @property
    def is_lazy(self) -> bool:
        """Whether its copies are made by copy maintenance, as scans ask for them."""
        return parse_design(self.definition.options.archive).lazy

    def tell_stored(self, names: Iterable[str] | None = None) -> None:
        """Tell the decider of lazy copies what its copies have; `names`: of these, which it may not know of yet."""
        if not self.is_lazy:
            return
        for name in self.lazy.copies if names is None else names:
            segments = self.copies[name].segments if name in self.copies else ()
            ordered = sorted(segments, key=lambda s: (s.low, s.path))
            self.lazy.handle(Stored(name, {section_of(s.path): s.kept for s in ordered}))


class Storage:
    """The tables of an open pond, and who holds files of them.

    Args:
        path: the pond's folder.
        lock: the pond's; guards `streams`, their copies and `pins`.

    Attributes:
        streams: by id; those of dropped streams, too, until they are swept.
        pins: how many readers hold files that tables may not name any more.
    """

    streams: Mapping[int, StreamTables]

    def __init__(self, path: str, lock: threading.RLock) -> None:
        self.path, self.lock = path, lock
        self.state = SegmentTable(state_folder(path), CHUNKS)
        self.results = SegmentTable(results_folder(path), CHUNKS)
        self.summaries = SegmentTable(summaries_folder(path), CHUNKS)
        self.streams = {}
        self.pins = 0

    def open_stream(self, definition: StreamDefinition) -> StreamTables:
        """Open the tables of a stream."""
        found = StreamTables.opened(self.path, definition)
        self.streams = {**self.streams, definition.id: found}
        self.open_copies(definition)
        return found

    # -- copies --------------------------------------------------------------------------------------------------------

    def open_copies(self, definition: StreamDefinition) -> None:
        """Open the reduced copies that there are of a stream's archive."""
        names = copies_on_disk(self.path, definition)
        for name in names:
            self.copy_table(definition.id, name)
        self.streams[definition.id].tell_stored([n for n in names if n.startswith(PREFIX)])

    def copy_table(self, stream: int, name: str) -> SegmentTable:
        """The table of a reduced copy of a stream's archive, made when it is not there."""
        runtime = self.streams[stream]
        with self.lock:
            if name not in runtime.copies:
                remove_doomed(self.path, runtime.definition, name)
                folder = copy_folder(self.path, runtime.definition, name)
                table = SegmentTable(folder, storage_schema(runtime.schema), runtime.definition.options.time)
                runtime.copies = {**runtime.copies, name: table}
            return runtime.copies[name]

    def copies_entered(self, stream: int) -> dict[str, float]:
        """The reduced copies that a stream's new rows enter, with the fraction that each keeps."""
        runtime = self.streams[stream]
        return runtime.lazy.arrivals if runtime.is_lazy else eager_copies(runtime.definition)

    # -- all of them ---------------------------------------------------------------------------------------------------

    def tables(self) -> list[SegmentTable]:
        """All tables."""
        own = [t for r in list(self.streams.values()) for t in (r.archive, r.dead, *r.copies.values())]
        return [self.state, self.results, self.summaries, *own]

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """While it is open, no file is deleted that a table names now: look at `segments` inside of it."""
        with self.lock:
            self.pins += 1
        try:
            yield
        finally:
            with self.lock:
                self.pins -= 1
