"""Progress generators (Li 2008, 1.2 (a)-(f)): bounds below which no more tuples are announced to come.

A bound b promises that no tuple with event time < b follows (strict form, E2). It is a function of the intake log and
of clock readings that are recorded in manifests; replay gives the same bounds.

Each source partition has what its generator could announce (`ready`), and what it has announced (`bound`): `pacing`
decides when the one becomes the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from millpond.progress.delays import count, delays_of, estimate, remember
from millpond.progress.marks import roll_up
from millpond.types import ARRIVAL, StreamOptions
from millpond.types.instants import FOREVER as FOREVER
from millpond.types.instants import NEVER as NEVER

#: Rows in one cohort: `ahead` measures a row against the median event time of the cohort before its own.
COHORT = 8192


@dataclass(frozen=True)
class ItemSummary:
    """What one intake item says about progress: the part of it that a map task reports.

    high: largest event time; before_tail and tail: for `lateness='n rows'`, the largest event time before the last n
    rows, and the last n event times; median: median event time of the item's last cohort; delays: for
    `lateness='auto'`, rows by delay (see `millpond.progress.delays`).
    mark: the largest bound that the item itself gave. groups: the same by group, the groups as text.
    late: rows behind what was known when their epoch began. broken: those of them that broke marks of their own source.
    marks: control records.
    """

    partition: str
    rows: int
    high: int = NEVER
    before_tail: int = NEVER
    tail: tuple[int, ...] = ()
    median: int | None = None
    delays: tuple[tuple[int, int], ...] = ()
    mark: int = NEVER
    groups: dict[str, int] = field(default_factory=dict)
    late: int = 0
    broken: int = 0
    marks: int = 0


@dataclass(frozen=True)
class Partition:
    """Progress of one partition of a source.

    bound: what is announced. ready: what its generator could announce. marked, groups: what its own marks have said,
    for all rows and by group (only groups ahead of `bound`). delays: see `millpond.progress.delays`.
    """

    bound: int = NEVER
    high: int = NEVER
    tail: tuple[int, ...] = ()
    seen: int = 0
    ready: int = NEVER
    marked: int = NEVER
    groups: dict[str, int] = field(default_factory=dict)
    delays: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    late: int = 0
    broken: int = 0
    marks: int = 0


@dataclass(frozen=True)
class StreamProgress:
    """Progress of a stream: its bound, its high watermark (largest event time admitted), its partitions.

    groups: bounds of groups that are ahead of the stream's, by the text of the value in column `marks_by`.
    ticked: the last tick of the stream's timer. heard: the clock at which anything came last (at first: when progress
    was first asked for). idle: everything has been silent for longer than `idle`; unions go on without the stream.

    >>> state = absorb(StreamProgress(), StreamOptions(time="ts", lateness=5), [ItemSummary("", 3, high=100)], clock=1)
    >>> state.bound, state.high
    (95, 100)
    """

    bound: int = NEVER
    high: int = NEVER
    median: int | None = None
    ended: bool = False
    partitions: dict[str, Partition] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    ticked: int = NEVER
    heard: int | None = None
    idle: bool = False

    def bound_of(self, group: str) -> int:
        """The bound of a group (as text)."""
        return max(self.bound, self.groups.get(group, NEVER))


def summarise(
    times: NDArray[np.int64], options: StreamOptions, partition: str, median: int | None, high: int = NEVER
) -> ItemSummary:
    """The summary of an item's admitted rows, in row order (`times`: microseconds).

    high: the largest event time of the partition before the item, for the delays of its rows.
    """
    if not len(times):
        return ItemSummary(partition, 0, median=median)
    n = options.lateness_rows
    delays = count(delays_of(times, high)) if options.lateness_share is not None else ()
    if n is None:
        return ItemSummary(partition, len(times), int(times.max()), median=median, delays=delays)
    cut = max(0, len(times) - n)
    before = int(times[:cut].max()) if cut else NEVER
    return ItemSummary(partition, len(times), int(times.max()), before, tuple(int(t) for t in times[cut:]), median)


def absorb(
    state: StreamProgress,
    options: StreamOptions,
    items: Sequence[ItemSummary],
    clock: int,
    ended: bool = False,
    arrival: int | None = None,
) -> StreamProgress:
    """The progress after an epoch: `items` in intake order, `clock` the manifest's reading (microseconds).

    On a stream that runs on arrival time the bound is `arrival` (None: the clock), before which nothing comes any more.

    Bounds never go back. Partitions silent for longer than `idle` do not hold the stream up; if all are silent, the
    furthest bound counts. `ended`: the source announced that nothing follows.
    """
    partitions = dict(state.partitions)
    median = state.median
    for item in items:
        median = item.median if item.median is not None else median
        partitions[item.partition] = _heard(partitions.get(item.partition, Partition(seen=clock)), item, options, clock)
    if options.time == ARRIVAL:
        until = clock if arrival is None else arrival
        partitions = {n: replace(p, ready=max(p.ready, until)) for n, p in partitions.items()}
    tick = options.timer is None or clock - state.ticked >= options.timer
    partitions = {n: _paced(p, options, clock, tick) for n, p in partitions.items()}
    heard = clock if items or state.heard is None else state.heard
    idle = options.idle is not None and clock - heard > options.idle
    awake = [p for p in partitions.values() if not silent(p, options, clock)]
    every = [p.bound for p in partitions.values()]
    bound = min(p.bound for p in awake) if awake else max(every, default=NEVER)
    high = max((p.high for p in partitions.values()), default=NEVER)
    ticked = clock if tick else state.ticked
    if ended or state.ended:
        return StreamProgress(FOREVER, high, median, True, partitions, {}, ticked, heard)
    bound = max(state.bound, bound)
    groups = _groups(state, awake, bound, options.marks_groups)
    return StreamProgress(bound, max(state.high, high), median, False, partitions, groups, ticked, heard, idle)


def silent(partition: Partition, options: StreamOptions, clock: int) -> bool:
    """Whether a partition has been silent for so long that it does not hold the stream up."""
    return options.idle is not None and clock - partition.seen > options.idle


def _heard(old: Partition, item: ItemSummary, options: StreamOptions, clock: int) -> Partition:
    """A partition after one of its items."""
    new = replace(
        old,
        seen=clock,
        rows=old.rows + item.rows,
        late=old.late + item.late,
        broken=old.broken + item.broken,
        marks=old.marks + item.marks,
        marked=max(old.marked, item.mark),
    )
    if item.rows:
        new = replace(new, high=max(old.high, item.high))
        if options.lateness_share is not None:
            new = replace(new, delays=remember(old.delays, item.delays))
        new = replace(new, ready=max(old.ready, _generated(old, new, item, options)))
        if options.lateness_rows is not None:
            tail = (*old.tail, *item.tail)[-options.lateness_rows :] if options.lateness_rows else ()
            new = replace(new, tail=tail)
    if item.mark > NEVER:
        new = replace(new, ready=max(new.ready, item.mark))
    if item.groups:
        groups = dict(old.groups)
        for group, bound in sorted(item.groups.items()):
            if bound > groups.get(group, old.bound) and (group in groups or len(groups) < options.marks_groups):
                groups[group] = bound
        new = replace(new, groups=groups)
    return new


def _generated(old: Partition, new: Partition, item: ItemSummary, options: StreamOptions) -> int:
    """What the generator could announce after an item."""
    if options.marks_only:
        return NEVER
    if options.lateness_rows is not None:
        # The last n rows of the concatenation of all items do not count; what falls out of the old tail does.
        n, joined = options.lateness_rows, (*old.tail, *item.tail)
        out = joined[: max(0, len(joined) - n)]
        return max(item.before_tail, max(out, default=NEVER))
    if options.lateness_share is not None:
        delay = estimate(new.delays, options.lateness_share)
        return NEVER if delay is None else new.high - delay
    return new.high - (options.lateness or 0)


def _paced(partition: Partition, options: StreamOptions, clock: int, tick: bool) -> Partition:
    """Announce what is ready: at once, at ticks of the timer (d), in steps (e). Groups behind the bound fold in."""
    bound = partition.bound
    if tick:
        bound = max(bound, partition.ready)
        # A lull: nothing has come for as long as from tick to tick.
        if options.lull is not None and clock - partition.seen >= (options.timer or 0) and partition.high > NEVER:
            bound = max(bound, lull_mark(partition.high, clock, options.lull))
    if options.step is not None and bound > partition.bound:
        bound = max(partition.bound, roll_up(bound, options.step))
    groups = {g: b for g, b in partition.groups.items() if b > bound}
    if bound == partition.bound and len(groups) == len(partition.groups):
        return partition
    return replace(partition, bound=bound, groups=groups)


def lull_mark(data_time: int, system_time: int, lull: int) -> int:
    """What a timer announces in a lull: once the clock is more than `lull` ahead of the data, the clock less `lull`.

    >>> lull_mark(data_time=100, system_time=130, lull=10), lull_mark(125, 130, 10)
    (120, 125)
    """
    return system_time - lull if system_time - data_time > lull else data_time


def _groups(state: StreamProgress, awake: Sequence[Partition], bound: int, limit: int) -> dict[str, int]:
    """Bounds of groups ahead of the stream's: where every partition that is awake has that group so far."""
    groups = {g: b for g, b in state.groups.items() if b > bound}
    for group in sorted({g for p in awake for g in p.groups}):
        own = min(max(p.bound, p.groups.get(group, NEVER)) for p in awake)
        if own > max(bound, groups.get(group, NEVER)) and (group in groups or len(groups) < limit):
            groups[group] = own
    return groups


def meld(states: Sequence[StreamProgress], groups: bool = False) -> StreamProgress:
    """The progress of a union (Li 2008, Fig 8-2): the smallest bound of the streams that are not idle.

    Arguments:
        groups: whether bounds of groups are about the same column in all of them.

    If all are idle, the furthest counts, as with partitions. The high watermark is the largest; see `now`.

    >>> states = [StreamProgress(20, 30), StreamProgress(19, 25), StreamProgress(5, 9, idle=True)]
    >>> meld(states).bound, meld(states).high, now(states)
    (19, 30, 25)
    """
    awake = [s for s in states if not s.idle]
    bound = min(s.bound for s in awake) if awake else max(s.bound for s in states)
    names = sorted({g for s in awake for g in s.groups}) if groups else []
    own = {g: min(s.bound_of(g) for s in awake) for g in names}
    ended = all(s.ended for s in states)
    high = max(s.high for s in states)
    return StreamProgress(bound, high, None, ended, groups={g: b for g, b in own.items() if b > bound})


def now(states: Sequence[StreamProgress]) -> int:
    """NOW over several streams: the smallest high watermark of those that still bring something, else the largest."""
    awake = [s.high for s in states if not s.idle and not s.ended]
    return min(awake) if awake else max(s.high for s in states)


def absorb_announced(
    state: StreamProgress, items: Sequence[ItemSummary], bound: int, groups: Mapping[str, int] = MappingProxyType({})
) -> StreamProgress:
    """The progress of a derived stream after an epoch: its source says how far it is.

    Arguments:
        items: what was taken. bound: the progress that was announced with it; NEVER: none was. groups: the bounds of
            groups that were.

    >>> absorb_announced(StreamProgress(bound=5, high=4), [ItemSummary("", 2, high=9)], 7).bound
    7
    """
    high = max([state.high, *(i.high for i in items)])
    reached = max(state.bound, bound)
    late = sum(p.late for p in state.partitions.values()) + sum(i.late for i in items)
    known = {g: max(b, groups.get(g, NEVER)) for g, b in {**groups, **state.groups}.items()}
    further = {g: b for g, b in known.items() if b > reached}
    partitions = {"": Partition(reached, high, late=late)}
    return StreamProgress(reached, high, state.median, reached >= FOREVER, partitions, further)


def ahead_mask(
    times: NDArray[np.int64], options: StreamOptions, median: int | None
) -> tuple[NDArray[np.bool_] | None, int | None]:
    """Which rows run too far ahead of the cohort before them, and the median of the last cohort.

    Cohorts are blocks of COHORT rows of one intake item; the first block of an item is measured against the last block
    of the item before, the first of the stream against itself. Medians are taken over all rows of a block, so that a
    real jump of the source loses one cohort to the dead letters and no more.

    Arguments:
        times: event times of the item's rows in row order, microseconds.
        median: median of the cohort before this item; None at the start of the stream.
    Returns: (mask of rows that are ahead or None if none is, median to hand on).
    """
    if options.ahead is None or not len(times):
        return None, median
    mask = np.zeros(len(times), bool)
    for start in range(0, len(times), COHORT):
        block = times[start : start + COHORT]
        own = cohort_median(block)
        mask[start : start + COHORT] = block > (own if median is None else median) + options.ahead
        median = own
    return (mask if mask.any() else None), median


def cohort_median(block: NDArray[np.int64]) -> int:
    """The lower median: a value of the block, so that it is exact."""
    return int(np.partition(block, (len(block) - 1) // 2)[(len(block) - 1) // 2])
