"""The epochs of an open pond: which was proposed last, which was published last, and who waits for the next."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from millpond.manifests.records import Published, last_record, read_published, record_path, recorded, write_published
from millpond.support.errors import PondError

#: Manifests and publish records that are kept behind the last epoch: the latter answer `AS OF EPOCH`.
KEPT = {"manifests": 50, "published": 500}


class Epochs:
    """How far an open pond is, as its folder says; waits for it to go on.

    Args:
        path: the pond's folder.
        lock: the pond's; guards what is published.

    Attributes:
        published: the last publish record.
        last_manifest: the last epoch that has a manifest; 0: none.
        failure: what made the engine fail.
        closing: whether the pond is being closed.
        changed: notified after every change.
    """

    def __init__(self, path: str, lock: threading.RLock) -> None:
        self.path, self.lock = path, lock
        self.changed = threading.Condition(lock)
        number = last_record(path, "published")
        self.published = read_published(path, number) if number else Published()
        self.last_manifest = last_record(path, "manifests")
        self.failure: BaseException | None = None
        self.closing = False

    @property
    def in_flight(self) -> int | None:
        """The epoch that has a manifest and is not published yet, or None."""
        return self.last_manifest if self.last_manifest > self.published.epoch else None

    @property
    def oldest_record(self) -> int:
        """The oldest epoch whose publish record is kept; 0: there is none."""
        return min(recorded(self.path, "published"), default=0)

    def publish(self, record: Published) -> None:
        """Write a publish record durably; from then on readers see its epoch."""
        write_published(self.path, record)
        with self.lock:
            self.published = record

    def prune(self, first: int) -> None:
        """Remove manifests and publish records that nothing can ask for: beyond `KEPT`, and before epoch `first`."""
        for kind, keep in KEPT.items():
            for epoch in recorded(self.path, kind):
                if epoch < min(first, self.published.epoch - keep):
                    os.unlink(record_path(self.path, kind, epoch))

    def fail(self, error: BaseException) -> None:
        """Note why the engine cannot go on: whoever waits, now or later, gets it raised."""
        with self.lock:
            self.failure = error
            self.changed.notify_all()

    def notify(self) -> None:
        """Wake everybody who waits for a change."""
        with self.changed:
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition` holds, checked after every change.

        Args:
            condition: called with the lock held.
            timeout: seconds; None: as long as it takes.
        Returns: whether it holds; False: the time was over.
        Raises: what made the engine fail; PondError when the pond is closed.
        """
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


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Clock:
    """A pond's clock: it never goes back behind the last epoch's reading.

    Args:
        read: microseconds since 1970.
    """

    def __init__(self, read: Callable[[], int], epochs: Epochs) -> None:
        self._read, self._epochs = read, epochs

    def now(self) -> int:
        """A reading (microseconds)."""
        return max(self._read(), self._epochs.published.clock)
