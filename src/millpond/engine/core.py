"""What an open pond consists of: parts with one purpose each. Functions take the parts that they need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from millpond.archive.observed_load import Load
from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Register
from millpond.catalog.catalogs import Catalogs
from millpond.engine.control.controllers import Controllers
from millpond.engine.control.reporting import Reporter
from millpond.engine.control.sizes import StateSizes
from millpond.engine.control.telemetry import Telemetry
from millpond.engine.damage import check_files
from millpond.engine.instruments import Instruments
from millpond.engine.intake.live_storage import LiveStorage, StreamRuntime
from millpond.engine.intake.stream_sources import StreamSources
from millpond.engine.jobs.backfill_queue import Backfills
from millpond.engine.jobs.mending_queue import Mendings
from millpond.engine.ownership import Ownership
from millpond.engine.pond_view import PondView
from millpond.manifests.epochs import Clock, Epochs, wall_clock
from millpond.manifests.records import Published
from millpond.operators.registry import Operators, operators_of
from millpond.sources.table_sources.versions import TableVersions
from millpond.support.errors import PondError
from millpond.tables.executors import Executor
from millpond.tables.locations import write_options
from millpond.tables.shard_cache import forget
from millpond.types.options import Settings, options_of, read_settings


@dataclass
class Core:
    """The parts of an open pond, for whoever puts them together.

    view: what is published, as answers are made from it. storage: that of `view`, with what streams take in.
    opened_with: the settings that this opening gave, which go before what the catalog remembers.
    resharing: whether queries are still to be brought in line with the setting `share` (`engine.control.resharing`).
    shared_at: the version of the catalog in which stores that fit have become one.
    upkeep, stepping: held during a round of upkeep, and during a step of a pond without Spark.
    """

    ownership: Ownership
    view: PondView
    storage: LiveStorage
    opened_with: Mapping[str, Any]
    controllers: Controllers
    telemetry: Telemetry
    backfills: Backfills
    mendings: Mendings
    resharing: bool = False
    shared_at: int = -1
    upkeep: threading.Lock = field(default_factory=threading.Lock)
    stepping: threading.RLock = field(default_factory=threading.RLock)

    def change_setting(self, name: str, value: Any) -> None:
        """Go by another value of a setting from the next manifest on; call it under the lock."""
        setattr(self.settings, name, value)
        self.controllers.follow(name, value)
        if name == "share":
            self.resharing = True

    @property
    def is_idle(self) -> bool:
        """Whether everything that the sources have told of is taken in and published."""
        with self.epochs.lock:
            taken, streams = self.epochs.published.intake, self.storage.streams
            return self.epochs.in_flight is None and all(
                taken.get(str(s), 0) >= streams[s].log.length for s in self.catalogs.catalog.streams if s in streams
            )

    def close(self) -> None:
        """Close files, give the lock back, and keep nothing of the pond's state in this process."""
        forget(self.path)
        self.storage.close()
        self.catalogs.close()
        self.ownership.release()

    # -- short ways to what the parts have -----------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The pond's folder."""
        return self.ownership.path

    @property
    def lock(self) -> threading.RLock:
        """Guards the catalog, manifests and the publish record."""
        return self.epochs.lock

    @property
    def catalog(self) -> Catalog:
        """The catalog as of the last event."""
        return self.catalogs.catalog

    @property
    def operators(self) -> Operators:
        """The operators of the catalog as of the last event."""
        return operators_of(self.catalog)

    @property
    def register(self) -> Register:
        """See `Catalogs`."""
        return self.catalogs.register

    @property
    def published(self) -> Published:
        """The last publish record."""
        return self.epochs.published

    def now(self) -> int:
        """See `Clock`."""
        return self.clock.now()

    @property
    def streams(self) -> dict[int, StreamRuntime]:
        """See `LiveStorage`."""
        return self.storage.streams

    @property
    def archives(self) -> Archives:
        """The archives, as scans of them are planned and as they are kept up."""
        return self.view.archives

    @property
    def catalogs(self) -> Catalogs:
        """What the pond is made to do."""
        return self.view.archives.catalogs

    @property
    def epochs(self) -> Epochs:
        """How far the pond is."""
        return self.view.archives.epochs

    @property
    def executor(self) -> Executor:
        """Runs epochs and jobs."""
        return self.view.archives.executor

    @property
    def tables(self) -> TableVersions:
        """Versions of tables from outside."""
        return self.view.tables

    @property
    def clock(self) -> Clock:
        """The pond's clock."""
        return self.view.clock

    @property
    def settings(self) -> Settings:
        """As they are now."""
        return self.view.settings

    @property
    def instruments(self) -> Instruments:
        """What only a running pond can tell, beside its view."""
        return Instruments(self.storage, self.telemetry, self.controllers, self.opened_with)


def open_core(
    path: str,
    executor: Callable[[str], Executor],
    clock: Callable[[], int] | None,
    settings: dict[str, Any],
    storage: Mapping[str, str] | None = None,
) -> Core:
    """Open or make the pond in folder `path`.

    Args:
        executor: makes the executor, given the pond's folder; called after the lock is held.
        clock: microseconds since 1970; None: the system's.
        storage: options of the object store that archives lie in, as deltalake has them; None: those of last time.

    Raises:
        PondError: another process has it open, its folder cannot be made or written, it is of another format, or DuckDB
            hashes differently than it did.
    """
    given = read_settings(settings)
    ownership = Ownership(path, given.get("shards", Settings.shards))
    try:
        if given.get("shards", ownership.shards) != ownership.shards:
            made = f"the pond {ownership.path} was made with {ownership.shards} shards, which never change"
            raise PondError(f"{made}; leave shards={given['shards']} out")
        if storage is not None:
            write_options(ownership.path, storage)
        core = _assembled(ownership, executor(ownership.path), clock or wall_clock, given)
        for definition in core.catalogs.catalog.streams.values():
            core.storage.open_stream(definition)
        check_files(core.path, core.catalogs, core.epochs, core.storage)
        core.catalogs.reconcile()
        return core
    except BaseException:
        ownership.release()
        raise


def _assembled(ownership: Ownership, executor: Executor, clock: Callable[[], int], given: dict[str, Any]) -> Core:
    """The parts of a pond whose streams are still to be opened."""
    path, lock = ownership.path, threading.RLock()
    catalogs, epochs = Catalogs(path, lock), Epochs(path, lock)
    remembered = {n: v for n, v in catalogs.catalog.settings.items() if n in options_of(Settings)}
    settings = Settings(**{**remembered, **given, "shards": ownership.shards})
    now = Clock(clock, epochs)
    store = LiveStorage(path, lock, StreamSources(path, catalogs, epochs, settings.settle))
    load = Load(path, 2 * settings.target, now.now, lambda: store.oldest_waiting(epochs.published.intake))
    archives = Archives(store, catalogs, epochs, executor, load)
    tables = TableVersions(path, lambda: settings.driver_modules, lambda: settings.table_timeout)
    return Core(
        ownership,
        PondView(archives, tables, now, settings),
        store,
        given,
        Controllers.of(path, settings, load),
        Telemetry(Reporter(StateSizes(path))),
        Backfills(catalogs, epochs),
        Mendings(catalogs, epochs),
        resharing="share" in remembered,
    )
