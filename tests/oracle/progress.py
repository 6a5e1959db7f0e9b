"""Progress by definition: an intake script in, and out of it which rows are late, ahead, and how far time is complete.

A bound b says that no row with event time < b is announced to come. Rows taken in one epoch are never late for each
other; a row is late when its event time is below the bound at the start of its epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from tests.oracle.rows import Row

NEVER, FOREVER = -(10**30), 10**30


@dataclass(frozen=True)
class StreamSpec:
    """What the stream's options say; microseconds. lateness and lateness_rows both None: ordered.

    arrival: event time is the clock of intake. idle: a partition that is silent longer than this does not count.
    ahead: how far a row may lead the median event time of the cohort (intake item) before its own.
    """

    lateness: int | None = None
    lateness_rows: int | None = None
    arrival: bool = False
    idle: int | None = None
    ahead: int | None = None
    late: str = "revise"


@dataclass(frozen=True)
class Item:
    """One intake item: its rows, in order, of one source partition."""

    rows: tuple[Row, ...]
    partition: str = ""


@dataclass(frozen=True)
class Epoch:
    """What one epoch takes in, at which clock; `ended`: the source announced its end."""

    items: tuple[Item, ...]
    clock: int = 0
    ended: bool = False

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows in intake order."""
        return tuple(row for item in self.items for row in item.rows)


@dataclass(frozen=True)
class Script:
    """A stream and everything it takes in."""

    spec: StreamSpec
    epochs: tuple[Epoch, ...]


@dataclass(frozen=True)
class Step:
    """What an epoch did: the bound before and after, admitted rows, those of them that were late, rows run ahead.

    high: the largest event time admitted so far (NOW), None before the first row.
    """

    before: int
    after: int
    admitted: tuple[Row, ...]
    late: tuple[Row, ...]
    ahead: tuple[Row, ...]
    high: int | None


def trace(script: Script) -> list[Step]:
    """What every epoch of the script does."""
    spec = script.spec
    steps: list[Step] = []
    bound, high = NEVER, None
    cohort: int | None = None  # median event time of the item before
    history: dict[str, list[int]] = {}  # admitted event times of a partition in intake order
    heard: dict[str, int] = {}  # the clock at which a partition last spoke
    for epoch in script.epochs:
        before = bound
        admitted: list[Row] = []
        ahead: list[Row] = []
        for item in epoch.items:
            if item.rows:
                own = median_low([row.time for row in item.rows])
                reference = own if cohort is None else cohort
                for row in item.rows:
                    far = spec.ahead is not None and row.time > reference + spec.ahead
                    (ahead if far else admitted).append(row)
                    if not far:
                        history.setdefault(item.partition, []).append(row.time)
                cohort = own
            history.setdefault(item.partition, [])
            heard[item.partition] = epoch.clock
        high = max([row.time for row in admitted] + ([] if high is None else [high]), default=None)
        bounds = {name: partition_bound(spec, times, epoch.clock) for name, times in history.items()}
        awake = [b for n, b in bounds.items() if spec.idle is None or epoch.clock - heard[n] <= spec.idle]
        now = min(awake) if awake else max(bounds.values(), default=NEVER)
        bound = FOREVER if epoch.ended else max(bound, now)
        late = tuple(row for row in admitted if row.time < before)
        steps.append(Step(before, bound, tuple(admitted), late, tuple(ahead), high))
    return steps


def partition_bound(spec: StreamSpec, times: Sequence[int], clock: int) -> int:
    """How far one partition is complete, from all its admitted event times in intake order."""
    if spec.arrival:
        return clock
    if spec.lateness_rows is not None:
        return max(times[: max(0, len(times) - spec.lateness_rows)], default=NEVER)
    return max(times) - (spec.lateness or 0) if times else NEVER
