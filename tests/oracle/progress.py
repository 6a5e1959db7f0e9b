"""Progress by definition: an intake script in, and out of it which rows are late, ahead, and how far time is complete.

A bound b says that no row with event time < b is announced to come. Rows taken in one epoch are never late for each
other; a row is late when its event time is below the bound at the start of its epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

from tests.oracle.rows import Row

NEVER, FOREVER = -(10**30), 10**30


@dataclass(frozen=True)
class StreamSpec:
    """What the stream's options say; microseconds. lateness and lateness_rows both None: ordered.

    arrival: event time is the clock of intake. idle: a partition that is silent longer than this does not count.
    ahead: how far a row may lead the median event time of the cohort (intake item) before its own.
    timer: bounds are announced when the clock is so far behind the last announcement only; lull: what comes then from a
    partition from which nothing came for that long is at least the clock less this, if its data are further behind.
    step: bounds are announced at multiples of it.
    column: a value (microseconds, or None) of each row below which nothing follows. record: which rows are no data but
    say with their event time what column says. by: what column or record says is about rows with the same value there
    (None: column: nothing, record: about all rows). only: nothing but these makes progress.
    reject: rows that lie below what their own source had said (at the start of the epoch) are not admitted.
    """

    lateness: int | None = None
    lateness_rows: int | None = None
    arrival: bool = False
    idle: int | None = None
    ahead: int | None = None
    late: str = "revise"
    timer: int | None = None
    lull: int | None = None
    step: int | None = None
    column: str | None = None
    record: Callable[[Row], bool] | None = None
    by: str | None = None
    only: bool = False
    reject: bool = False


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

    high: the largest event time admitted so far (NOW), None before the first row. broken: rows below what their own
    source had said. groups_before, groups_after: bounds of groups where they differ from the stream's. dropped: ids
    of the late rows that were behind a bound of their group: under late='drop' they count nowhere.
    """

    before: int
    after: int
    admitted: tuple[Row, ...]
    late: tuple[Row, ...]
    ahead: tuple[Row, ...]
    high: int | None
    broken: tuple[Row, ...] = ()
    groups_before: dict[Any, int] = field(default_factory=dict)
    groups_after: dict[Any, int] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()

    def of(self, group: Any) -> tuple[int, int]:
        """The bound of a group before and after the epoch."""
        return max(self.before, self.groups_before.get(group, NEVER)), max(
            self.after, self.groups_after.get(group, NEVER)
        )


def trace(script: Script) -> list[Step]:
    """What every epoch of the script does."""
    spec = script.spec
    steps: list[Step] = []
    bound, high = NEVER, None
    cohort: int | None = None  # median event time of the item before
    history: dict[str, list[int]] = {}  # admitted event times of a partition in intake order
    heard: dict[str, int] = {}  # the clock at which a partition last spoke
    said: dict[str, list[tuple[int, Any]]] = {}  # bounds that a partition gave, with the group (None: all rows)
    announced: dict[str, int] = {}
    reached: dict[str, int] = {}  # the best that a partition could have announced
    groups: dict[Any, int] = {}
    ticked: int | None = None
    for epoch in script.epochs:
        before, groups_before = bound, dict(groups)
        # Of a group's bounds only those ahead of the partition's own are remembered.
        told = {n: [(b, g) for b, g in marks if g is None or b > announced.get(n, NEVER)] for n, marks in said.items()}
        admitted: list[Row] = []
        ahead: list[Row] = []
        broken: list[Row] = []
        for item in epoch.items:
            history.setdefault(item.partition, [])
            said.setdefault(item.partition, [])
            heard[item.partition] = epoch.clock
            if not item.rows:
                continue
            own = median_low([row.time for row in item.rows])
            reference = own if cohort is None else cohort
            cohort = own
            for row in item.rows:
                if spec.ahead is not None and row.time > reference + spec.ahead:
                    ahead.append(row)
                    continue
                group = None if spec.by is None else row.values[spec.by]
                if spec.record is not None and spec.record(row):
                    said[item.partition].append((row.time, group))
                    continue
                carried = None if spec.column is None else row.values[spec.column]
                if carried is not None and (spec.by is None or group is not None):
                    said[item.partition].append((carried, group))
                if any(row.time < b and g in (None, group) for b, g in told.get(item.partition, [])):
                    broken.append(row)
                    if spec.reject:
                        continue
                admitted.append(row)
                history[item.partition].append(row.time)
        high = max([row.time for row in admitted] + ([] if high is None else [high]), default=None)
        tick = spec.timer is None or ticked is None or epoch.clock - ticked >= spec.timer
        ticked = epoch.clock if tick else ticked
        for name, times in history.items():
            from_data = NEVER if spec.only else partition_bound(spec, times, epoch.clock)
            ready = max([from_data, *(b for b, g in said[name] if g is None)])
            reached[name] = max(reached.get(name, NEVER), ready)
            if tick:
                goal = reached[name]
                if spec.lull is not None and times and epoch.clock - heard[name] >= (spec.timer or 0):
                    goal = max(
                        goal, max(times), *([epoch.clock - spec.lull] if epoch.clock - max(times) > spec.lull else [])
                    )
                if spec.step is not None and goal > NEVER:
                    goal = goal // spec.step * spec.step
                announced[name] = max(announced.get(name, NEVER), goal)
            announced.setdefault(name, NEVER)
        awake = [n for n in history if spec.idle is None or epoch.clock - heard[n] <= spec.idle]
        now = min(announced[n] for n in awake) if awake else max(announced.values(), default=NEVER)
        bound = FOREVER if epoch.ended else max(bound, now)
        for group in {g for n in awake for _, g in said[n] if g is not None}:
            each = [max([announced[n], *(b for b, g in said[n] if g == group)]) for n in awake]
            groups[group] = max(groups.get(group, NEVER), min(each))
        groups = {g: b for g, b in groups.items() if b > bound}
        own = {id(row): groups_before.get(row.values.get(spec.by or ""), NEVER) for row in admitted}
        late = tuple(row for row in admitted if row.time < max(before, own[id(row)]))
        dropped = frozenset(id(row) for row in late if own[id(row)] > before)
        taken, behind, led = tuple(admitted), tuple(broken), tuple(ahead)
        after = dict(groups)
        steps.append(Step(before, bound, taken, late, led, high, behind, groups_before, after, dropped))
    return steps


def partition_bound(spec: StreamSpec, times: Sequence[int], clock: int) -> int:
    """How far one partition is complete, from all its admitted event times in intake order."""
    if spec.arrival:
        return clock
    if spec.lateness_rows is not None:
        return max(times[: max(0, len(times) - spec.lateness_rows)], default=NEVER)
    return max(times) - (spec.lateness or 0) if times else NEVER
