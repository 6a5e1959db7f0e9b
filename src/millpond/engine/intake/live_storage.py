"""What an open pond keeps, as epochs write it: the tables, and where the rows of each stream come in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millpond.archive.archive_files import archive_folder, dead_folder, row_schema
from millpond.archive.copy_files import copies_folder
from millpond.archive.remote import mark_remote
from millpond.archive.storage import Storage, StreamTables
from millpond.sources.derived_stream import DerivedSource
from millpond.sources.files import FileSource
from millpond.sources.intake_log import IntakeLog
from millpond.sources.landing import Landing
from millpond.sources.system import SystemSource
from millpond.tables.locations import remove_tree
from millpond.tables.storage_types import storage_schema
from millpond.types import StreamDefinition

#: What a stream takes its rows from by itself; None: rows come by `ingest` only.
Source = FileSource | DerivedSource | SystemSource | None


#: Sources that epochs feed themselves.
_INNER = ("derived", "system")

#: Items of a stream that are looked at to tell how much waits.
MOST_LOOKED_AT = 100_000


@dataclass(kw_only=True)
class StreamRuntime(StreamTables):
    """The moving parts of one stream: its tables, its intake log, its source.

    arriving: clock readings of batches that are being written and not in the log yet.
    """

    log: IntakeLog
    landing: Landing
    source: Source
    arriving: list[int] = field(default_factory=list)


class LiveStorage(Storage):
    """The storage of a pond that takes rows in.

    Args:
        path, lock: as of `Storage`.
        source_of: makes the source of a stream, given its intake log.
    """

    streams: dict[int, StreamRuntime]

    def __init__(
        self, path: str, lock: threading.RLock, source_of: Callable[[StreamDefinition, IntakeLog], Source]
    ) -> None:
        super().__init__(path, lock)
        self._source_of = source_of
        self.streams = {}

    def make_stream(self, definition: StreamDefinition) -> StreamRuntime:
        """Make the parts of a new stream; what a making that was cut off left under its id is removed."""
        intake = os.path.join(self.path, "intake", definition.folder)
        made = archive_folder(self.path, definition), dead_folder(self.path, definition)
        for folder in (intake, *made, copies_folder(self.path, definition)):
            remove_tree(folder)
        mark_remote(self.path, definition)
        return self.open_stream(definition)

    def open_stream(self, definition: StreamDefinition) -> StreamRuntime:
        """Open (and create where missing) the parts of a stream."""
        tables = StreamTables.opened(self.path, definition)
        intake = os.path.join(self.path, "intake", definition.folder)
        log = IntakeLog(intake)
        runtime = StreamRuntime(
            definition,
            tables.archive,
            tables.dead,
            tables.schema,
            log=log,
            landing=Landing(os.path.join(intake, "landing"), log),
            source=self._source_of(definition, log),
        )
        self.streams[definition.id] = runtime
        self.open_copies(definition)
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

    def close(self) -> None:
        """Close the intake logs."""
        for runtime in self.streams.values():
            runtime.log.close()
