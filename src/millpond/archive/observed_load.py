"""The load of an open pond, as `REDUCE load()` sees it: readings for the decider, and the log of what it chose."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from millpond.archive.design.load import Change, Choice, Lag, LoadDecider, Scanned
from millpond.types import to_json

#: The file of changes, a JSON line each.
FILE = "load.jsonl"


@dataclass
class Load:
    """Asks for readings, tells the decider, and writes its changes down.

    Arguments:
        path: the pond's folder. target: seconds that a row may wait.
        clock: microseconds. waiting: the arrival (clock, microseconds) of the oldest row that no epoch has published;
            None: there is none.
    """

    path: str
    target: float
    clock: Callable[[], int]
    waiting: Callable[[], int | None]
    decider: LoadDecider = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.decider = LoadDecider(self.target)

    def observe(self) -> Choice:
        """Read the lag: after every epoch, and whenever a scan asks."""
        now, oldest = self.clock(), self.waiting()
        with self._lock:
            before = len(self.decider.changes), self.decider.level
            choice = self.decider.lag(Lag(now, 0.0 if oldest is None else max(0.0, (now - oldest) / 1e6)))
            if self.decider.level != before[1]:
                self._write(self.decider.changes[-1])
        return choice

    def choose(self, most: float) -> Choice:
        """What a scan drops now; at most `most`."""
        choice = self.observe()
        return choice if choice.drop <= most else Choice(most, f"{choice.reason}; at most {most:g} may be dropped")

    def scanned(self, size: int, seconds: float) -> None:
        """A scan has read so many bytes in so many seconds."""
        with self._lock:
            self.decider.scanned(Scanned(self.clock(), size, seconds))

    def changes(self) -> list[Change]:
        """The last changes, old ones first."""
        with self._lock:
            return list(self.decider.changes)

    def _write(self, change: Change) -> None:
        with open(os.path.join(self.path, FILE), "a", encoding="utf-8") as file:
            file.write(json.dumps(to_json(change)) + "\n")
