"""Progress generators (Li 2008, 1.2 (a)-(d)): bounds below which no more tuples are announced to come.

A bound b promises that no tuple with event time < b follows (strict form, E2). It is a function of the intake log and
of clock readings that are recorded in manifests; replay gives the same bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from millpond.types import ARRIVAL, StreamOptions

#: Bounds before the first and after the last possible event time.
NEVER = -(2**62)
FOREVER = 2**62

#: Rows in one cohort: `ahead` measures a row against the median event time of the cohort before its own.
COHORT = 8192


@dataclass(frozen=True)
class ItemSummary:
    """What one intake item says about progress: the part of it that a map task reports.

    high: largest event time; before_tail and tail: for `lateness='n rows'`, the largest event time before the last n
    rows, and the last n event times; median: median event time of the item's last cohort.
    """

    partition: str
    rows: int
    high: int = NEVER
    before_tail: int = NEVER
    tail: tuple[int, ...] = ()
    median: int | None = None


@dataclass(frozen=True)
class Partition:
    """Progress of one partition of a source."""

    bound: int = NEVER
    high: int = NEVER
    tail: tuple[int, ...] = ()
    seen: int = 0


@dataclass(frozen=True)
class StreamProgress:
    """Progress of a stream: its bound, its high watermark (largest event time admitted), its partitions.

    >>> state = absorb(StreamProgress(), StreamOptions(time="ts", lateness=5), [ItemSummary("", 3, high=100)], clock=1)
    >>> state.bound, state.high
    (95, 100)
    """

    bound: int = NEVER
    high: int = NEVER
    median: int | None = None
    ended: bool = False
    partitions: dict[str, Partition] = field(default_factory=dict)


def summarise(times: NDArray[np.int64], options: StreamOptions, partition: str, median: int | None) -> ItemSummary:
    """The summary of an item's admitted rows, in row order (`times`: microseconds)."""
    if not len(times):
        return ItemSummary(partition, 0, median=median)
    n = options.lateness_rows
    if n is None:
        return ItemSummary(partition, len(times), int(times.max()), median=median)
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
        old = partitions.get(item.partition, Partition(seen=clock))
        new = replace(old, seen=clock)
        if item.rows:
            new = replace(new, high=max(old.high, item.high), bound=max(old.bound, _bound(old, item, options)))
            if options.lateness_rows is not None:
                new = replace(
                    new, tail=(*old.tail, *item.tail)[-options.lateness_rows :] if options.lateness_rows else ()
                )
        partitions[item.partition] = new
    if options.time == ARRIVAL:
        until = clock if arrival is None else arrival
        partitions = {name: replace(p, bound=max(p.bound, until)) for name, p in partitions.items()}
    awake = [p.bound for p in partitions.values() if options.idle is None or clock - p.seen <= options.idle]
    every = [p.bound for p in partitions.values()]
    bound = min(awake) if awake else max(every, default=NEVER)
    high = max((p.high for p in partitions.values()), default=NEVER)
    if ended or state.ended:
        return StreamProgress(FOREVER, high, median, True, partitions)
    return StreamProgress(max(state.bound, bound), max(state.high, high), median, False, partitions)


def _bound(old: Partition, item: ItemSummary, options: StreamOptions) -> int:
    if options.lateness_rows is not None:
        # The last n rows of the concatenation of all items do not count; what falls out of the old tail does.
        n, joined = options.lateness_rows, (*old.tail, *item.tail)
        out = joined[: max(0, len(joined) - n)]
        return max(item.before_tail, max(out, default=NEVER))
    return max(old.high, item.high) - (options.lateness or 0)


def clock_bound(state: StreamProgress, options: StreamOptions, clock: int, arrival: int | None = None) -> int:
    """The bound that a tick at `clock` would announce without new data."""
    return absorb(state, options, (), clock, arrival=arrival).bound


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
