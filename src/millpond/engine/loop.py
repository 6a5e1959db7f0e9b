"""What keeps epochs going: with Spark a Structured Streaming query, whose micro-batch is an epoch; inline, a step."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

from millpond.engine.backfill import run_backfill, waiting_owners
from millpond.engine.core import Core
from millpond.engine.epoch import in_flight, propose, run_epoch
from millpond.engine.maintenance import maintain
from millpond.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds between looks at sources and at the clock while nothing happens.
IDLE = 0.1

#: Seconds between rounds of compaction, retention and sweeping.
UPKEEP = 5.0


def step(core: Core, force: bool = False, settle: bool = True) -> bool:
    """Run one epoch in this thread, with the back-fills that wait; True if something was done."""
    ran = False
    epoch = propose(core, force, settle)
    if epoch is not None:
        run_epoch(core, epoch)
        ran = True
    for owner in waiting_owners(core):
        run_backfill(core, owner)
        ran = True
    return ran


class InlineLoop:
    """Runs epochs when asked to; for tests."""

    def __init__(self, core: Core) -> None:
        self.core = core
        epoch = in_flight(core)
        if epoch is not None:
            run_epoch(core, epoch)

    def kick(self) -> None:
        """Nothing runs by itself."""

    def stop(self) -> None:
        """Nothing to stop."""


class SparkLoop:
    """Epochs as micro-batches of one Structured Streaming query; a thread proposes them, another one back-fills."""

    def __init__(self, core: Core, spark: SparkSession) -> None:
        from millpond.engine.feed import Feed

        self.core, self.spark = core, spark
        self._stop = threading.Event()
        self._work = threading.Event()
        self._failures = 0
        spark.dataSource.register(Feed)
        self._checkpoint = os.path.join(core.path, "checkpoint")
        self._settle_checkpoint()
        self.query = self._start()
        self._threads = [
            threading.Thread(target=self._propose, name="millpond-admission", daemon=True),
            threading.Thread(target=self._background, name="millpond-background", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def kick(self) -> None:
        """Look for work now."""
        self._work.set()

    def stop(self) -> None:
        """Let the running epoch finish, then stop."""
        self._stop.set()
        self._work.set()
        deadline = time.monotonic() + 60
        while in_flight(self.core) is not None and self.query.isActive and self.core.failure is None:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        self.query.stop()
        for thread in self._threads:
            thread.join(timeout=120)

    def _settle_checkpoint(self) -> None:
        """A checkpoint that does not end at the published epoch belongs to another life of the pond: start a new one.

        Spark does not fsync its checkpoint and the manifests are: they decide.
        """
        offsets = os.path.join(self._checkpoint, "offsets")
        if not os.path.isdir(self._checkpoint):
            return
        try:
            last = max(int(n) for n in os.listdir(offsets) if n.isdigit())
            with open(os.path.join(offsets, str(last)), encoding="utf-8") as file:
                text = file.read()
            import json

            epoch = int(json.loads(text.strip().splitlines()[-1])["epoch"])
            good = self.core.published.epoch <= epoch <= self.core.last_manifest
        except (OSError, ValueError, KeyError):
            good = False
        if not good:
            shutil.rmtree(self._checkpoint)

    def _start(self) -> Any:
        frame = self.spark.readStream.format("millpond").option("pond", self.core.path).load()
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", self._checkpoint)
        return writer.start()

    def _batch(self, frame: Any, batch: int) -> None:
        """One micro-batch: the next epoch that has a manifest. The frame only carries its number; see `feed`."""
        epoch = in_flight(self.core)
        if epoch is None:
            return
        for attempt in (1, 2, 3):
            try:
                run_epoch(self.core, epoch)
                break
            except EngineError as error:
                if attempt == 3 or self._stop.is_set():
                    with self.core.lock:
                        self.core.failure = error
                        self.core.notify()
                    raise
        if not self._stop.is_set():
            propose(self.core)

    def _propose(self) -> None:
        while not self._stop.is_set():
            try:
                if in_flight(self.core) is None:
                    propose(self.core)
            except Exception as error:
                with self.core.lock:
                    self.core.failure = error
                    self.core.notify()
                return
            self._work.wait(IDLE)
            self._work.clear()

    def _background(self) -> None:
        upkeep = time.monotonic() + UPKEEP
        while not self._stop.is_set():
            try:
                if not self.query.isActive and not self._stop.is_set() and self.core.failure is None:
                    raise EngineError(f"Spark ended the stream of epochs: {self.query.exception()}")
                for owner in waiting_owners(self.core):
                    run_backfill(self.core, owner)
                    self.kick()
                if time.monotonic() > upkeep:
                    maintain(self.core)
                    upkeep = time.monotonic() + UPKEEP
                self._failures = 0
            except Exception as error:
                # A failed background job is tried again; it must not stop epochs.
                self._failures += 1
                if self._failures > 5 and not self._stop.is_set():
                    with self.core.lock:
                        self.core.failure = error
                        self.core.notify()
                    return
            self._stop.wait(0.05)
