"""The core of an open pond: its folder, catalog, intake, tables, and what has been published. One writer at a time."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millpond.adapt.matching_pace import MatchingPace
from millpond.adapt.scheduling import StageProfile
from millpond.archive import parse_design
from millpond.archive.copies import copies_folder, copies_on_disk, copy_folder, eager_copies, remove_doomed, section_of
from millpond.archive.design.lazy import PREFIX, Lazy, Stored
from millpond.archive.remote import mark_elsewhere
from millpond.archive.segments import DEAD, archive_folder, dead_folder, row_schema
from millpond.catalog import Catalog, CatalogLog, Register
from millpond.engine.control.load import Load
from millpond.engine.control.reporting import Reporter, Work
from millpond.engine.control.sizes import StateSizes
from millpond.engine.intake.admission import Pace
from millpond.engine.settings import SETTINGS, Settings, drivers_of, read_settings
from millpond.engine.tasks.merging import results_folder
from millpond.manifests.records import Published, last_record, read_published
from millpond.operators.derived.granularity import is_needed
from millpond.operators.derived.rows import derived_folder, reached
from millpond.operators.filters.filter_orders import FilterOrders
from millpond.operators.panes.state import state_folder
from millpond.operators.relation.skew import Skew
from millpond.operators.summaries.entries import summaries_folder
from millpond.sources.derived import DerivedSource
from millpond.sources.files import FileSource
from millpond.sources.intake import IntakeLog
from millpond.sources.landing import Landing
from millpond.sources.system import SystemSource
from millpond.sources.tables.versions import TABLES, TableVersions
from millpond.support.errors import PondError
from millpond.synopses import connection, query_table
from millpond.tables import SegmentTable, read_json, write_json
from millpond.tables.chunks import SCHEMA as CHUNKS
from millpond.tables.executors import Executor
from millpond.tables.storage import storage_schema
from millpond.tables.stores import know, remove_tree, write_options
from millpond.types import StreamDefinition, leads_away

FORMAT = 1
_FOLDERS = (
    "catalog",
    "intake",
    "manifests",
    "published",
    "backfills",
    "streams",
    "copies",
    "dead",
    "state",
    "results",
    "summaries",
    TABLES,
)


@dataclass
class StreamRuntime:
    """The moving parts of one stream: its intake log, its source, its archive with copies, its dead letters.

    copies: reduced copies of the archive by name; a section of it has the same name in all of them (`engine.copies`).
    """

    definition: StreamDefinition
    log: IntakeLog
    landing: Landing
    source: FileSource | DerivedSource | SystemSource | None
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
        return parse_design(self.definition.options.archive).kind == "modify"

    def tell_stored(self, names: Iterable[str] | None = None) -> None:
        """Tell the decider of lazy copies what its copies have; `names`: of these, which it may not know of yet."""
        if not self.is_lazy:
            return
        for name in self.lazy.copies if names is None else names:
            segments = self.copies[name].segments if name in self.copies else ()
            ordered = sorted(segments, key=lambda s: (s.low, s.path))
            self.lazy.handle(Stored(name, {section_of(s.path): s.kept for s in ordered}))


@dataclass
class Core:
    """Everything that the engine's parts share. `lock` guards the catalog, manifests and the publish record."""

    path: str
    pond_id: str
    settings: Settings
    clock: Callable[[], int]
    executor: Executor
    catalog_log: CatalogLog
    state: SegmentTable
    results: SegmentTable
    summaries: SegmentTable
    published: Published
    register: Register
    streams: dict[int, StreamRuntime] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    pace: Pace = field(default_factory=Pace)
    matching_pace: MatchingPace = field(default_factory=MatchingPace)
    stages: StageProfile = field(default_factory=StageProfile)
    skew: Skew = field(default_factory=Skew)
    last_manifest: int = 0
    failure: BaseException | None = None
    recent: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=64))
    #: What the last epochs did, operator by operator.
    work: deque[Work] = field(default_factory=lambda: deque(maxlen=8))
    pins: int = 0
    #: Counts alterations of columns twice, when one begins and when it is over: odd while one is under way.
    alterations: int = 0
    upkeep: threading.Lock = field(default_factory=threading.Lock)
    stepping: threading.RLock = field(default_factory=threading.RLock)
    owner_file: int = -1
    fence: str = ""
    closing: bool = False
    #: Whether queries are still to be brought in line with the setting `share` (`engine.resharing`).
    resharing: bool = False
    #: The settings that this opening gave, which go before what the catalog remembers.
    opened_with: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = threading.Condition(self.lock)
        self.reporter = Reporter(StateSizes(self.path))
        self.filters = FilterOrders(self.path)
        self.tables = TableVersions(
            self.path, lambda: drivers_of(self.settings.drivers), lambda: self.settings.table_timeout
        )
        self.load = Load(self.path, 2 * self.settings.target, self.now, self.oldest_waiting)

    @property
    def catalog(self) -> Catalog:
        """The catalog as of the last event."""
        return self.catalog_log.catalog

    def now(self) -> int:
        """A clock reading (microseconds) that never goes back behind the last epoch's."""
        return max(self.clock(), self.published.clock)

    def oldest_waiting(self) -> int | None:
        """When the oldest row came that no epoch has published (clock, microseconds); None: there is none."""
        with self.lock:
            taken = self.published.intake
            heads = [r.log.items(n, n + 1) for s, r in self.streams.items() for n in [taken.get(str(s), 0)]]
        return min((items[0].arrival for items in heads if items), default=None)

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
            know(definition.options.archive_at, self.path, renew=True)
        log = IntakeLog(intake)
        schema = row_schema(definition)
        source: FileSource | DerivedSource | SystemSource | None = None
        if definition.derived is not None:
            folder = derived_folder(self.path, definition)
            source = DerivedSource(
                definition,
                log,
                folder,
                lambda: reached(self.catalog, self.published, definition),
                lambda announced, bound: is_needed(
                    self.catalog, self.published.progress, self.published.queries, definition.id, announced, bound
                ),
            )
        elif definition.options.source == "system":
            source = SystemSource(log, derived_folder(self.path, definition), lambda: self.published.epoch)
        elif definition.options.source == "files":
            source = FileSource(definition, log, settle=self.settings.settle)
        runtime = StreamRuntime(
            definition,
            log,
            Landing(os.path.join(intake, "landing"), log),
            source,
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

    def alter_columns(self, definition: StreamDefinition) -> None:
        """The parts of a stream whose columns have changed in the catalog; `lock` must be held."""
        runtime = self.streams[definition.id]
        schema = row_schema(definition)
        for table in (runtime.archive, *runtime.copies.values()):
            table.evolve(storage_schema(schema))
        runtime.definition, runtime.schema = definition, schema
        if isinstance(runtime.source, FileSource):  # derived streams keep their columns
            runtime.source.definition = definition

    @contextmanager
    def altering(self) -> Iterator[None]:
        """Around an alteration of columns; `lock` must be held. Who binds meanwhile binds anew afterwards."""
        self.alterations += 1
        try:
            yield
        finally:
            self.alterations += 1

    def change_setting(self, name: str, value: Any) -> None:
        """Go by another value of a setting from the next manifest on; call it under the lock."""
        setattr(self.settings, name, value)
        if name == "target":
            self.pace.target = value
            self.load.target = self.load.decider.target = 2 * value
        elif name == "rows_per_epoch":
            self.pace.rows = value
        elif name == "share":
            self.resharing = True
        elif name == "matching_share":
            self.matching_pace.share = value

    def check_fence(self) -> None:
        """Refuse to write when somebody else has opened the pond since (a lock can be lost on shared storage)."""
        if read_json(os.path.join(self.path, "fence.json")) != self.fence:
            raise PondError(f"the pond {self.path} was opened by another process; this one may not write any more")

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

    def notify(self) -> None:
        """Wake everybody who waits for a change."""
        with self.changed:
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every change; raises what made the engine fail."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.changed:
            while not condition():
                if self.failure is not None:
                    raise self.failure
                if self.closing:
                    raise PondError("the pond was closed")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self.changed.wait(min(0.5, left) if left is not None else 0.5)
            return True

    def close(self) -> None:
        """Close files and give the lock back."""
        for runtime in self.streams.values():
            runtime.log.close()
        self.catalog_log.close()
        self.register.close()
        if self.owner_file >= 0:
            os.close(self.owner_file)
            self.owner_file = -1


def copies_of(core: Core, stream: int) -> dict[str, float]:
    """The reduced copies that a stream's new rows enter, with the fraction that each keeps."""
    runtime = core.streams[stream]
    return runtime.lazy.arrivals if runtime.is_lazy else eager_copies(runtime.definition)


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def open_core(
    path: str,
    executor: Callable[[str], Executor],
    clock: Callable[[], int] | None,
    settings: dict[str, Any],
    storage: Mapping[str, str] | None = None,
) -> Core:
    """Open or make the pond in folder `path`.

    Arguments:
        executor: makes the executor, given the pond's folder; called after the lock is held.
        storage: options of the object store that archives lie in, as deltalake has them; None: those of last time.
    Raises:
        PondError: another process has it open, its folder cannot be made or written, it is of another format, or DuckDB
            hashes differently than it did.
    """
    settings = read_settings(settings)
    path = os.path.abspath(path)
    if leads_away(path):
        raise PondError(
            f"{path} cannot be a pond's folder: Delta tables take a \\, and a % with two hex digits, for something "
            "else; give it another name"
        )
    try:
        os.makedirs(path, exist_ok=True)
        owner = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except (OSError, ValueError) as error:  # a file in its place, no permission, a NUL in its name
        reason = getattr(error, "strerror", None) or error
        raise PondError(
            f"{path!r} cannot be a pond's folder: {reason}; give one that can be made and written"
        ) from None
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(owner)
        raise PondError(
            f"the pond {path} is open already, here or in another process; close it there or open another"
        ) from None
    try:
        meta = _meta(path, settings)
        for name in _FOLDERS:
            os.makedirs(os.path.join(path, name), exist_ok=True)
        if storage is not None:
            write_options(path, storage)
        fence = uuid.uuid4().hex
        write_json(os.path.join(path, "fence.json"), fence)
        number = last_record(path, "published")
        catalog = CatalogLog(os.path.join(path, "catalog"))
        kept = {n: v for n, v in catalog.catalog.settings.items() if n in SETTINGS}
        chosen = Settings(**{**kept, **settings, "shards": meta["shards"]})
        core = Core(
            path,
            meta["id"],
            chosen,
            clock or wall_clock,
            executor(path),
            catalog,
            SegmentTable(state_folder(path), CHUNKS),
            SegmentTable(results_folder(path), CHUNKS),
            SegmentTable(summaries_folder(path), CHUNKS),
            read_published(path, number) if number else Published(),
            Register(path, catalog.catalog.next_id, lambda name: catalog.catalog.lookup(name) is not None),
            pace=Pace(target=chosen.target, rows=chosen.rows_per_epoch),
            matching_pace=MatchingPace(share=chosen.matching_share),
            last_manifest=last_record(path, "manifests"),
            owner_file=owner,
            fence=fence,
            opened_with=dict(settings),
            resharing="share" in kept,
        )
        for definition in core.catalog.streams.values():
            core.open_stream(definition)
        _reconcile(core)
        return core
    except BaseException:
        os.close(owner)
        raise


def _reconcile(core: Core) -> None:
    """Finish statements that a crash cut off between the catalog and the register."""
    named = [(q.definition.name, q.id) for q in core.catalog.queries.values()]
    for query in core.register.reconcile(core.catalog.streams, named):
        core.catalog_log.record({"do": "drop_query", "id": query})
    # A stream goes with its query, and with what it was made of, when none reads it.
    unread = [s.derived for s in core.catalog.streams.values() if s.is_inner and not core.catalog.on_stream(s.id)]
    for derived in unread:
        core.catalog_log.record({"do": "drop_query", "id": None if derived is None else derived.query})


def _meta(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The pond's own description: made once, checked at every opening."""
    file = os.path.join(path, "pond.json")
    probe = query_table(connection(), "SELECT hash(1::BIGINT)::VARCHAR || hash('a', 2.5::DOUBLE)::VARCHAR AS h")["h"][
        0
    ].as_py()
    if not os.path.exists(file):
        # A process that was killed while it made the pond leaves its half-written description.
        others = [n for n in os.listdir(path) if n not in ("lock", "pools.xml") and not n.startswith("pond.json.")]
        if others:
            raise PondError(f"{path} is not a pond and not empty (it holds {others[0]}); name another folder")
        meta = {
            "format": FORMAT,
            "id": uuid.uuid4().hex,
            "shards": settings.get("shards", Settings.shards),
            "hash": probe,
        }
        write_json(file, meta)
        return meta
    found: dict[str, Any] = read_json(file)
    if found["format"] != FORMAT:
        raise PondError(
            f"the pond {path} has format {found['format']}, this Millpond reads format {FORMAT}; upgrade Millpond"
        )
    if found["hash"] != probe:
        raise PondError(
            f"the pond {path} was made with a DuckDB that places groups differently; use that version or a new pond"
        )
    return found
