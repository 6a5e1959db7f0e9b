"""What keeps epochs going: with Spark a Structured Streaming query, whose micro-batch is an epoch; inline, a step."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.engine.control.notices import SELDOM, failed
from millpond.engine.core import Core
from millpond.engine.jobs.backfill import attempt_backfill, give_up
from millpond.engine.jobs.derived_history import waiting_histories
from millpond.engine.jobs.maintenance import maintain
from millpond.engine.jobs.mending import attempt_mending
from millpond.engine.jobs.table_readings import refresh_databases
from millpond.support.errors import EngineError, MillpondError
from millpond.support.event_log import Seldom, event_log
from millpond.synopses.tolerance import one_line

if TYPE_CHECKING:
    from millpond.engine.spark.executor import Starting

LOG = event_log(__name__)

#: Seconds between looks at sources and at the clock while nothing happens.
IDLE = 0.1

#: Seconds that a micro-batch waits for something to do.
PATIENCE = 5.0

#: Seconds between looks at whether a table is to be read from its database again.
LOOK = 0.5

#: How often a back-fill is tried that fails for what no query is to blame for.
TRIES = 8

#: While rows keep coming, what they owe is recomputed after so many epochs; and so many times as long as it took the
#: last time passes before it is done again.
MENDED_EPOCHS, MENDING_SHARE = 8, 4.0

#: Seconds between rounds of compaction, retention and sweeping.
UPKEEP = 5.0


def step(core: Core, force: bool = False, settle: bool = True) -> bool:
    """Run one epoch in this thread, with the back-fills that wait; True if something was done."""
    with core.stepping:
        ran = False
        refresh_databases(core.tables, core.catalog, core.now, core.settings.table_timeout)
        epoch = begin_epoch(core, force, settle)
        if epoch is not None:
            run_epoch(core, epoch)
            ran = True
        for owner in (*core.backfills.waiting(), *waiting_histories(core.storage, core.catalogs, core.epochs)):
            attempt_backfill(core.view, core.backfills, owner)
            ran = True
        if not ran:  # while rows come, more may be owed, which is recomputed in one go
            for owner in core.mendings.owed():
                attempt_mending(core.view, core.backfills, core.mendings, owner)
                ran = True
        return ran


class InlineLoop:
    """Runs epochs when asked to; for tests."""

    def __init__(self, core: Core) -> None:
        self.core = core
        epoch = core.epochs.in_flight
        if epoch is not None:
            run_epoch(core, epoch)

    def ready(self, timeout: float | None = None) -> bool:
        """There is nothing to wait for."""
        return True

    def kick(self) -> None:
        """Nothing runs by itself."""

    def stop(self) -> None:
        """Nothing to stop."""


class SparkLoop:
    """Epochs as micro-batches of one Structured Streaming query; a second thread back-fills and keeps house.

    A micro-batch waits for work, writes the manifest, runs the epoch, publishes it, and goes on with the next for some
    seconds: what Spark does between micro-batches would stand between epochs otherwise. Its rows come from a source
    that only counts: what an epoch reads stands in its manifest, which is on disk before anything runs, so Spark's
    checkpoint has no say in what is done and starts anew whenever the pond is opened.
    """

    def __init__(self, core: Core, start: Starting) -> None:
        self.core, self._start = core, start
        self._stop = threading.Event()
        self._jobs = _Jobs(core.path, self._stop.is_set)
        self._work = threading.Event()
        self._seldom = Seldom(SELDOM)
        self._beginning = threading.Lock()
        self._mended: dict[str, float] = {}
        self._ticking: Any = None
        self._keeper = threading.Thread(target=self._background, name="millpond-background", daemon=True)
        self._keeper.start()
        # A database may take its time, and neither epochs nor upkeep wait for it.
        self._reader = threading.Thread(target=self._read_databases, name="millpond-tables", daemon=True)
        self._reader.start()

    def ready(self, timeout: float | None = None) -> bool:
        """Wait until Spark has started; False after so many seconds."""
        return self._start.ready(timeout)

    def _begin(self) -> None:
        """Start the streaming query, when Spark has started and the pond is still open."""
        spark = self._start.session
        with self._beginning:
            if self._stop.is_set():
                return
            checkpoint = os.path.join(self.core.path, "checkpoint")
            shutil.rmtree(checkpoint, ignore_errors=True)
            rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1)
            ticks = rate.load().writeStream.foreachBatch(self._batch)
            self._ticking = ticks.option("checkpointLocation", checkpoint).start()

    def kick(self) -> None:
        """Look for work now."""
        self._work.set()

    def stop(self) -> None:
        """Let the running epoch finish, then stop."""
        self._stop.set()
        self._work.set()
        with self._beginning:
            if self._ticking is None:  # no epoch has run; Spark may go on starting, for whoever comes next
                return
        deadline = time.monotonic() + 60
        while self.core.epochs.in_flight is not None and self._ticking.isActive and self.core.epochs.failure is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        self._ticking.stop()
        self._keeper.join(timeout=120)

    def _batch(self, frame: Any, batch: int) -> None:
        """One micro-batch: epochs as they come, one after the other while there is work, for `PATIENCE` seconds."""
        deadline = time.monotonic() + PATIENCE
        try:
            while (epoch := self._next(deadline)) is not None:
                self._run(epoch)
        except Exception as error:
            self._fail(error)
            raise

    def _next(self, deadline: float) -> int | None:
        """The next epoch, as soon as there is something to do; None: the micro-batch is over."""
        while True:
            over = self._stop.is_set() or time.monotonic() > deadline
            if over and self.core.epochs.in_flight is None:
                return None
            epoch = begin_epoch(self.core)
            if epoch is not None:
                return epoch
            self._work.wait(IDLE)
            self._work.clear()

    def _run(self, epoch: int) -> None:
        for attempt in (1, 2, 3):
            try:
                return run_epoch(self.core, epoch)
            except (EngineError, OSError) as error:
                failed(LOG, "epoch failed", error, self.core.path, epoch=epoch, attempt=attempt)
                if attempt == 3 or self._stop.is_set():
                    raise

    def _fail(self, error: Exception) -> None:
        known = isinstance(error, MillpondError | OSError)
        LOG.error("engine stopped", None if known else error, path=self.core.path, error=one_line(error))
        self.core.epochs.fail(error)

    def _read_databases(self) -> None:
        while not self._stop.wait(LOOK):
            try:
                refresh_databases(self.core.tables, self.core.catalog, self.core.now)
            except OSError as error:  # the next look tries again
                if self._seldom.due("tables", 1):
                    failed(LOG, "reading tables failed", error, self.core.path)

    def _background(self) -> None:
        try:
            self._begin()
        except Exception as error:
            if not self._stop.is_set():
                self._fail(error)
            return
        core, upkeep = self.core, time.monotonic() + UPKEEP
        while not self._stop.wait(0.05):
            if not self._ticking.isActive and self.core.epochs.failure is None:
                self._fail(EngineError(f"Spark ended the stream of epochs: {self._ticking.exception()}"))
                return
            self._jobs.run("looking for back-fills", self._fill)
            self._jobs.run("looking for what is owed", self._mend)
            if time.monotonic() > upkeep:
                self._jobs.run("upkeep", partial(maintain, core.view, core.storage, core.backfills, core.upkeep))
                upkeep = time.monotonic() + UPKEEP

    def _mend(self) -> None:
        """Recompute what is owed, when nothing is to be taken in, or when that took long enough the last time."""
        core = self.core
        for owner, owed in core.mendings.owed().items():
            first = min(each.first for mine in owed.values() for each in mine)
            if not core.is_idle and (
                core.published.epoch - first < MENDED_EPOCHS or time.monotonic() < self._mended.get(owner, 0.0)
            ):
                continue
            begun = time.monotonic()
            if self._jobs.run(
                f"mending of {owner}", partial(attempt_mending, core.view, core.backfills, core.mendings, owner)
            ):
                self._mended[owner] = time.monotonic() + MENDING_SHARE * (time.monotonic() - begun)
                self.kick()

    def _fill(self) -> None:
        """Back-fill what waits for it."""
        core = self.core
        for owner in core.backfills.waiting():
            attempt = partial(attempt_backfill, core.view, core.backfills, owner)
            failed = partial(give_up, core.backfills, owner)
            if self._jobs.run(f"back-fill of {owner}", attempt, failed):
                self.kick()
        for owner in waiting_histories(core.storage, core.catalogs, core.epochs):
            if self._jobs.run(f"back-fill of {owner}", partial(attempt_backfill, core.view, core.backfills, owner)):
                self.kick()


class _Jobs:
    """Background jobs: one that fails is tried again, after ever longer times; it never stops epochs."""

    def __init__(self, path: str, stopped: Callable[[], bool]) -> None:
        self._path, self._stopped = path, stopped
        self._failing: dict[str, tuple[int, float]] = {}

    def run(self, name: str, work: Callable[[], None], give_up: Callable[[str], None] | None = None) -> bool:
        """Run a job, if it is not to wait.

        Args:
            give_up: takes the reason of one that has failed too often.
        Returns: whether it is done.
        """
        times, again = self._failing.get(name, (0, 0.0))
        if time.monotonic() < again:
            return False
        try:
            work()
        except Exception as error:
            if self._stopped():
                return False
            wait = min(12 * UPKEEP, 0.1 * 2**times)
            failed(LOG, "job failed", error, self._path, job=name, attempt=times + 1, again_in=wait)
            if give_up is None or times + 1 < TRIES:
                self._failing[name] = times + 1, time.monotonic() + wait
                return False
            LOG.error("job given up", job=name, attempts=times + 1, error=one_line(error))
            give_up(one_line(error))
        else:
            if times:
                LOG.info("job succeeded", job=name, attempt=times + 1)
        self._failing.pop(name, None)
        return True
