"""Readings of databases, each in a thread of its own: one that does not answer keeps nobody waiting.

A thread that waits for a database cannot be stopped. So there is one for a table at most: while it waits, the table is
not asked again, and what comes of it, however late, is taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from millpond.support.errors import SourceError


class Waiting(SourceError):
    """A database has not answered yet. overdue: for longer than it may take."""

    def __init__(self, message: str, overdue: bool) -> None:
        super().__init__(message)
        self.overdue = overdue


@dataclass
class Reading:
    """One reading: since when it waits (seconds of `time.monotonic`), and what came of it."""

    since: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    rows: pa.Table | None = None
    error: BaseException | None = None

    @property
    def lasted(self) -> float:
        """Seconds that it has been waiting for."""
        return time.monotonic() - self.since


class Readings:
    """The readings of a pond that nobody has taken yet, by what they are of."""

    def __init__(self) -> None:
        self._open: dict[str, Reading] = {}
        self._guard = threading.Lock()

    def ask(
        self, key: str, name: str, make: Callable[[], pa.Table], timeout: float, patience: float | None = None
    ) -> pa.Table:
        """What `make` gives, in a thread of its own; one reading of `key` at a time.

        Arguments:
            name: of the table, for messages. timeout: seconds that it may take; patience: seconds that the caller
                waits; None: as long as it may take.
        Raises: Waiting, when it is not done by then; whatever `make` raises.
        """
        with self._guard:
            reading = self._open.get(key)
            if reading is None:
                reading = self._open[key] = Reading()
                threading.Thread(target=_run, args=(reading, make), name=f"table {name}", daemon=True).start()
        left = max(0.0, timeout - reading.lasted)
        if not reading.done.wait(left if patience is None else min(left, patience)):
            raise Waiting(
                f"table '{name}': its database has not answered for {reading.lasted:.0f} s (table_timeout is"
                f" {timeout:g} s)",
                reading.lasted >= timeout,
            )
        with self._guard:
            if self._open.get(key) is reading:
                del self._open[key]
        if reading.error is not None:
            raise reading.error
        assert reading.rows is not None
        return reading.rows

    def waits(self, key: str) -> float | None:
        """How long a table has been waited for, seconds; None: nothing of it is being read."""
        reading = self._open.get(key)
        return None if reading is None or reading.done.is_set() else reading.lasted

    def has(self, key: str) -> bool:
        """Whether a reading runs, or waits to be taken."""
        return key in self._open

    def forget(self, key: str) -> None:
        """Take nothing of a reading."""
        with self._guard:
            self._open.pop(key, None)


def _run(reading: Reading, make: Callable[[], pa.Table]) -> None:
    try:
        reading.rows = make()
    except BaseException as error:
        reading.error = error
    finally:
        reading.done.set()
