"""What keeps epochs going: with Spark a Structured Streaming query, whose micro-batch is an epoch; inline, a step."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.engine.core import Core
from millpond.engine.jobs.backfill import attempt_backfill, waiting_owners
from millpond.engine.jobs.derived_history import run_history, waiting_histories
from millpond.engine.jobs.maintenance import maintain
from millpond.engine.jobs.tables import refresh_databases
from millpond.support.errors import EngineError

if TYPE_CHECKING:
    from millpond.engine.spark.executor import Starting

#: Seconds between looks at sources and at the clock while nothing happens.
IDLE = 0.1

#: Seconds that a micro-batch waits for something to do.
PATIENCE = 5.0

#: Seconds between looks at whether a table is to be read from its database again.
LOOK = 0.5

#: Seconds between rounds of compaction, retention and sweeping.
UPKEEP = 5.0


def step(core: Core, force: bool = False, settle: bool = True) -> bool:
    """Run one epoch in this thread, with the back-fills that wait; True if something was done."""
    with core.stepping:
        ran = False
        refresh_databases(core, core.settings.table_timeout)
        epoch = begin_epoch(core, force, settle)
        if epoch is not None:
            run_epoch(core, epoch)
            ran = True
        for owner in waiting_owners(core):
            attempt_backfill(core, owner)
            ran = True
        for stream in waiting_histories(core.archives):
            run_history(core.archives, stream)
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
        self._work = threading.Event()
        self._beginning = threading.Lock()
        self.query: Any = None
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
            self.query = ticks.option("checkpointLocation", checkpoint).start()

    def kick(self) -> None:
        """Look for work now."""
        self._work.set()

    def stop(self) -> None:
        """Let the running epoch finish, then stop."""
        self._stop.set()
        self._work.set()
        with self._beginning:
            if self.query is None:  # no epoch has run; Spark may go on starting, for whoever comes next
                return
        deadline = time.monotonic() + 60
        while self.core.epochs.in_flight is not None and self.query.isActive and self.core.failure is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        self.query.stop()
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
            except EngineError:
                if attempt == 3 or self._stop.is_set():
                    raise

    def _fail(self, error: BaseException) -> None:
        self.core.epochs.fail(error)

    def _read_databases(self) -> None:
        while not self._stop.wait(LOOK):
            with contextlib.suppress(OSError):  # a full disk, say: the next look tries again
                refresh_databases(self.core)

    def _background(self) -> None:
        try:
            self._begin()
        except Exception as error:
            if not self._stop.is_set():
                self._fail(error)
            return
        upkeep = time.monotonic() + UPKEEP
        failures = 0
        while not self._stop.is_set():
            try:
                if not self.query.isActive and not self._stop.is_set() and self.core.failure is None:
                    self._fail(EngineError(f"Spark ended the stream of epochs: {self.query.exception()}"))
                    return
                for owner in waiting_owners(self.core):
                    attempt_backfill(self.core, owner)
                    self.kick()
                for stream in waiting_histories(self.core.archives):
                    run_history(self.core.archives, stream)
                    self.kick()
                if time.monotonic() > upkeep:
                    maintain(self.core)
                    upkeep = time.monotonic() + UPKEEP
                failures = 0
            except Exception as error:
                # A failed background job is tried again; it must not stop epochs.
                failures += 1
                if failures > 5 and not self._stop.is_set():
                    self._fail(error)
                    return
            self._stop.wait(0.05)
