"""What the next epoch takes in: a pure decision over what is pending, and the size that keeps epochs on time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from millpond.manifests.records import Split
from millpond.sources.base import split
from millpond.sources.intake_log import Item

#: Bytes below which a second task costs more than it gives.
SMALL = 1 << 20


#: Epochs that the pace is learnt from.
LOOKED_AT = 8

#: While rows wait that many epochs will not catch up with, an epoch may last that many targets: what it costs whatever
#: it takes is then paid less often, and no row waits longer for it.
PATIENCE = 5
#: In how many epochs what waits is to be caught up with, before they grow longer.
CATCH_UP = 4


@dataclass
class Pace:
    """How many bytes an epoch may take so that it lasts about `target` seconds; learnt from the epochs before.

    An epoch costs `fixed` seconds whatever it takes, and the rest by its size. Where the fixed part is large (a busy
    machine), epochs are longer than the target rather than mostly overhead: as much again is work. Where much waits
    they may last up to `PATIENCE` targets.

    >>> pace = Pace(target=2.0, cold=False)
    >>> pace.learn(taken=48 << 20, seconds=4.25)
    >>> pace.limit >> 20
    34
    """

    target: float = 2.0
    limit: int = 48 << 20
    rows: int = 8_000_000
    smallest: int = 1 << 20
    largest: int = 512 << 20
    fixed: float = 0.25
    history: list[tuple[int, float]] = field(default_factory=list)
    cold: bool = True

    def learn(self, taken: int, seconds: float, waiting: int = 0) -> None:
        """Adapt to an epoch that took `taken` bytes and lasted `seconds`; small ones tell nothing of the rate.

        Arguments:
            waiting: bytes that have come and that the epoch did not take.
        """
        if taken < self.limit // 4 or seconds <= 0:
            return
        cold, self.cold = self.cold, False
        if cold and seconds < PATIENCE * self.target:
            return  # processes start and code is compiled in the first epoch: it tells little of those to come
        self.history = [*self.history[1 - LOOKED_AT :], (taken, seconds)]
        self.fixed = fixed_cost(self.history, self.fixed)
        rate = taken / max(seconds - self.fixed, 0.05)
        behind = waiting * seconds / taken
        target = max(self.target, min(behind / CATCH_UP, PATIENCE * self.target))
        wanted = rate * max(target - self.fixed, min(self.fixed, target), 0.1)
        # Half way at a time, so that one slow epoch on a busy machine does not halve the next ones.
        self.limit = int(min(self.largest, max(self.smallest, (self.limit + min(wanted, 4 * self.limit)) / 2)))

    def without(self, size: int, rows: int) -> Pace:
        """What is left for others when so many bytes and rows are taken."""
        return replace(self, limit=max(0, self.limit - size), rows=max(0, self.rows - rows))


def fixed_cost(epochs: Sequence[tuple[int, float]], known: float) -> float:
    """Seconds that epochs cost whatever they take: the intercept of the line through (bytes, seconds).

    Arguments:
        known: what is taken to be so while epochs are too much of one size to tell.

    >>> fixed_cost([(8, 2.5), (16, 3.5), (24, 4.5)], known=0.25)
    1.5
    """
    most = 0.75 * min(seconds for _, seconds in epochs)
    n, mean = len(epochs), sum(size for size, _ in epochs) / len(epochs)
    spread = sum((size - mean) ** 2 for size, _ in epochs) / n
    if n < 3 or spread < (0.1 * mean) ** 2:
        return min(known, most)
    middle = sum(seconds for _, seconds in epochs) / n
    slope = sum((size - mean) * (seconds - middle) for size, seconds in epochs) / n / spread
    return max(0.0, min(middle - max(slope, 0.0) * mean, most))


def admit(pending: Mapping[int, Sequence[Item]], pace: Pace, cores: int = 1) -> dict[int, list[Item]]:
    """The items that the next epoch takes: in order, each stream at least one, until the limits are reached.

    Arguments:
        cores: tasks that run at once. Of a single stream with large items each task gets one, if they are more than
            the limit, too: a task without any would only wait. Of a stream that has more pending, some fewer are taken
            where these tasks then have equal shares: none waits for another that reads one more file.
    """
    taken: dict[int, list[Item]] = {stream: [] for stream, items in pending.items() if items}
    size = rows = 0
    alone = cores if len(taken) == 1 else None
    queues = {stream: list(reversed(items)) for stream, items in pending.items() if items}
    while queues:
        for stream in list(queues):
            item = queues[stream][-1]
            estimate = item.rows if item.rows is not None else item.size // 40
            limit = pace.limit if alone is None or len(taken[stream]) >= alone else pace.largest
            over = size + item.size > limit or rows + estimate > pace.rows
            if over and taken[stream]:
                del queues[stream]
                continue
            taken[stream].append(queues[stream].pop())
            size, rows = size + item.size, rows + estimate
            if not queues[stream]:
                del queues[stream]
    if len(taken) == 1 and cores > 1:
        ((stream, items),) = taken.items()
        if len(items) < len(pending[stream]):
            return {stream: _balanced(items, cores)}
    return taken


def admit_in_order(
    pending: Mapping[int, Sequence[Item]], order: Sequence[int], pace: Pace, cores: int = 1
) -> dict[int, list[Item]]:
    """As `admit`, one stream after the other: what the first ones leave of the limits is for the others.

    Arguments:
        order: the streams, those that go first before others; the first of them takes an item at least.
    """
    taken: dict[int, list[Item]] = {}
    left = pace
    for stream in order:
        items = pending.get(stream, ())
        first = items[0] if items else None
        if first is None or (taken and (first.size > left.limit or (first.rows or first.size // 40) > left.rows)):
            continue
        taken |= admit({stream: items}, replace(left, largest=left.limit), cores)
        size = sum(i.size for i in taken[stream])
        rows = sum(i.rows if i.rows is not None else i.size // 40 for i in taken[stream])
        left = left.without(size, rows)
    return taken


def _balanced(items: list[Item], cores: int) -> list[Item]:
    """The longest of the prefixes (with at most `cores - 1` items fewer) that tasks share most equally."""
    shares = [items[:n] for n in range(len(items), max(cores, len(items) - cores + 1) - 1, -1)] or [items]
    return max(shares, key=lambda some: sum(i.size for i in some) / max(1, _largest(split(some, cores))))


def _largest(runs: Sequence[Sequence[Item]]) -> int:
    return max(sum(i.size for i in run) for run in runs)


def splits_of(taken: dict[int, list[Item]], cores: int) -> tuple[Split, ...]:
    """Map tasks for the taken items: runs of consecutive items, as many as there are cores."""
    total = sum(i.size for items in taken.values() for i in items)
    splits: list[Split] = []
    for stream, items in sorted(taken.items()):
        size = sum(i.size for i in items)
        share = 1 if size < SMALL else max(1, round(cores * size / max(total, 1)))
        done: list[Item] = []
        for run in split(items, min(share, len(items))):
            splits.append(Split(stream, tuple(i.to_json() for i in run), tuple(i.to_json() for i in done)))
            done += run
    return tuple(splits)
