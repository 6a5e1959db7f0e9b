"""`REDUCE load()`: how much scans of the past leave out so that live processing stays on schedule. A state machine.

Events go in: how long the oldest row that waits has waited (`Lag`), and what scans did (`Scanned`). What comes out is a
level of a ladder of fractions to drop, and the reason. Clock readings are part of the events: nothing is read here.

The level rises by a step when rows wait longer than the target (by two when they wait four times as long), at most
once in `HOLD` targets, so that a step can show what it does. It also rises when scans keep the disk busy for more than
`BUSY` of the time while rows wait longer than `CALM` of the target. It falls by a step when rows have waited less than
`CALM` of the target for `PATIENCE` targets. Between the two it stays (hysteresis), so that it does not swing.

    >>> decider = LoadDecider(target=1.0)
    >>> decider.lag(Lag(0, 0.1)).drop, decider.lag(Lag(1_000_000, 1.5)).drop
    (0.0, 0.2)
    >>> decider.lag(Lag(1_100_000, 9.0)).drop                # too early to see what the step does
    0.2
    >>> decider.lag(Lag(3_000_000, 9.0)).drop
    0.6
    >>> [decider.lag(Lag(t * 1_000_000, 0.1)).drop for t in (4, 8, 9, 14, 15)]
    [0.6, 0.6, 0.4, 0.2, 0.2]
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

#: Fractions to drop, from nothing to almost everything.
LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99)

#: See the module. HOLD and PATIENCE in targets, CALM of the target, BUSY of the time, WINDOW in microseconds.
HOLD, PATIENCE, CALM, BUSY, WINDOW = 1.0, 5.0, 0.5, 0.8, 10_000_000


@dataclass(frozen=True)
class Lag:
    """The oldest row that waits to be processed has waited so long. clock: microseconds."""

    clock: int
    seconds: float


@dataclass(frozen=True)
class Scanned:
    """A scan of the past has ended: what it read and how long it took. clock: microseconds, at its end."""

    clock: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Change:
    """A new level: since when (clock, microseconds), the fraction to drop, what it was before, and why."""

    clock: int
    drop: float
    before: float
    reason: str


@dataclass(frozen=True)
class Choice:
    """What a scan is to drop, and why."""

    drop: float
    reason: str


@dataclass
class LoadDecider:
    """See the module.

    Arguments:
        target: seconds that a row may wait. kept: changes that are remembered.
    """

    target: float
    level: int = 0
    reason: str = "rows are on schedule"
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=256))
    _changed: int = -(2**62)
    _calm_since: int | None = None
    _scans: deque[Scanned] = field(default_factory=lambda: deque(maxlen=256))
    _lag: float = 0.0

    @property
    def drop(self) -> float:
        """The fraction that a scan may drop now."""
        return LEVELS[self.level]

    def lag(self, event: Lag) -> Choice:
        """Take a reading of the lag; what holds after it."""
        self._lag = event.seconds
        if event.seconds > self.target:
            self._calm_since = None
            steps = 2 if event.seconds > 4 * self.target else 1
            self._move(event.clock, steps, f"rows wait {event.seconds:.3g} s, the target is {self.target:g} s")
        elif event.seconds > CALM * self.target:
            self._calm_since = None
            busy = self.busy(event.clock)
            if busy > BUSY:
                reason = f"scans keep the disk busy for {busy:.0%} of the time and rows wait {event.seconds:.3g} s"
                self._move(event.clock, 1, reason)
        else:
            self._calm_since = event.clock if self._calm_since is None else self._calm_since
            calm = (event.clock - self._calm_since) / 1e6
            if calm >= PATIENCE * self.target and self.level:
                self._calm_since = event.clock
                self._move(event.clock, -1, f"rows have waited less than {CALM * self.target:g} s for {calm:.3g} s")
        return Choice(self.drop, self.reason)

    def scanned(self, event: Scanned) -> None:
        """Take what a scan did."""
        self._scans.append(event)

    def busy(self, clock: int) -> float:
        """Which part of the last ten seconds scans took."""
        start = clock - WINDOW
        spent = sum(
            max(0.0, (min(s.clock, clock) - max(s.clock - round(s.seconds * 1e6), start)) / 1e6)
            for s in self._scans
            if s.clock > start
        )
        return spent / (WINDOW / 1e6)

    def _move(self, clock: int, steps: int, reason: str) -> None:
        if steps > 0 and clock - self._changed < HOLD * self.target * 1e6:
            return
        level = max(0, min(len(LEVELS) - 1, self.level + steps))
        if level == self.level:
            return
        self.changes.append(Change(clock, LEVELS[level], self.drop, reason))
        self.level, self.reason, self._changed = level, reason, clock
