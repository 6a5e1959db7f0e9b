"""What an open pond keeps: the tables of its streams, and those of state, results and summaries."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from millpond.archive import parse_design
from millpond.archive.archive_files import DEAD, archive_folder, dead_folder, row_schema
from millpond.archive.copy_files import (
    copies_folder,
    copies_on_disk,
    copy_folder,
    eager_copies,
    remove_doomed,
    section_of,
)
from millpond.archive.design.lazy import PREFIX, Lazy, Stored
from millpond.archive.remote import mark_elsewhere
from millpond.manifests.places import results_folder, state_folder, summaries_folder
from millpond.sources.derived_stream import DerivedSource
from millpond.sources.files import FileSource
from millpond.sources.intake_log import IntakeLog
from millpond.sources.landing import Landing
from millpond.sources.system import SystemSource
from millpond.tables import SegmentTable
from millpond.tables.chunks import SCHEMA as CHUNKS
from millpond.tables.locations import know, remove_tree
from millpond.tables.storage_types import storage_schema
from millpond.types import StreamDefinition

#: What a stream takes its rows from by itself; None: rows come by `ingest` only.
Source = FileSource | DerivedSource | SystemSource | None


#: Sources that epochs feed themselves.
_INNER = ("derived", "system")

#: Items of a stream that are looked at to tell how much waits.
MOST_LOOKED_AT = 100_000


@dataclass
class StreamRuntime:
    """The moving parts of one stream: its intake log, its source, its archive with copies, its dead letters.

    copies: reduced copies of the archive by name; a section of it has the same name in all of them (`archive.copies`).
    """

    definition: StreamDefinition
    log: IntakeLog
    landing: Landing
    source: Source
    archive: SegmentTable
    dead: SegmentTable
    schema: pa.Schema
    #: Clock readings of batches that are being written and not in the log yet.
    arriving: list[int] = field(default_factory=list)
    copies: dict[str, SegmentTable] = field(default_factory=dict)
    lazy: Lazy = field(default_factory=Lazy)

    @property
    def is_lazy(self) -> bool:
        """Whether its copies are made by the vacuumer, as scans ask for them."""
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
        source_of: makes the source of a stream, given its intake log.

    Attributes:
        streams: by id; those of dropped streams, too, until they are swept.
        pins: how many readers hold files that tables may not name any more.
    """

    def __init__(
        self, path: str, lock: threading.RLock, source_of: Callable[[StreamDefinition, IntakeLog], Source]
    ) -> None:
        self.path, self.lock, self._source_of = path, lock, source_of
        self.state = SegmentTable(state_folder(path), CHUNKS)
        self.results = SegmentTable(results_folder(path), CHUNKS)
        self.summaries = SegmentTable(summaries_folder(path), CHUNKS)
        self.streams: dict[int, StreamRuntime] = {}
        self.pins = 0

    # -- streams -------------------------------------------------------------------------------------------------------

    def make_stream(self, definition: StreamDefinition) -> StreamRuntime:
        """Make the parts of a new stream; what a making that was cut off left under its id is removed."""
        intake = os.path.join(self.path, "intake", definition.folder)
        made = archive_folder(self.path, definition), dead_folder(self.path, definition)
        for folder in (intake, *made, copies_folder(self.path, definition)):
            remove_tree(folder)
        mark_elsewhere(self.path, definition)
        return self.open_stream(definition)

    def open_stream(self, definition: StreamDefinition) -> StreamRuntime:
        """Open (and create where missing) the parts of a stream."""
        intake = os.path.join(self.path, "intake", definition.folder)
        if definition.options.archive_at is not None:
            know(definition.options.archive_at, self.path)
        log = IntakeLog(intake)
        schema = row_schema(definition)
        runtime = StreamRuntime(
            definition,
            log,
            Landing(os.path.join(intake, "landing"), log),
            self._source_of(definition, log),
            SegmentTable(archive_folder(self.path, definition), storage_schema(schema), definition.options.time),
            SegmentTable(dead_folder(self.path, definition), DEAD),
            schema,
        )
        self.streams[definition.id] = runtime
        names = copies_on_disk(self.path, definition)
        for name in names:
            self.copy_table(definition.id, name)
        runtime.tell_stored([n for n in names if n.startswith(PREFIX)])
        return runtime

    def alter_columns(self, definition: StreamDefinition) -> None:
        """The parts of a stream whose columns have changed in the catalog; `lock` must be held."""
        runtime = self.streams[definition.id]
        schema = row_schema(definition)
        for table in (runtime.archive, *runtime.copies.values()):
            table.evolve(storage_schema(schema))
        runtime.definition, runtime.schema = definition, schema
        if isinstance(runtime.source, FileSource):  # derived streams keep their columns
            runtime.source.definition = definition

    def oldest_waiting(self, taken: Mapping[str, int]) -> int | None:
        """When the oldest item came that epochs have not taken (clock, microseconds); None: there is none.

        Args:
            taken: per stream, how many items they have taken.
        """
        with self.lock:
            heads = [r.log.items(n, n + 1) for s, r in self.streams.items() for n in [taken.get(str(s), 0)]]
        return min((items[0].arrival for items in heads if items), default=None)

    def waiting_bytes(self, taken: Mapping[str, int]) -> int:
        """Bytes that have come from outside and that epochs have not taken; arguments as of `oldest_waiting`."""
        with self.lock:
            outside = [(s, r) for s, r in self.streams.items() if r.definition.options.source not in _INNER]
            starts = [(taken.get(str(s), 0), r) for s, r in outside]
            return sum(i.size for n, r in starts for i in r.log.items(n, n + MOST_LOOKED_AT))

    # -- copies --------------------------------------------------------------------------------------------------------

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

    def close(self) -> None:
        """Close the intake logs."""
        for runtime in self.streams.values():
            runtime.log.close()
