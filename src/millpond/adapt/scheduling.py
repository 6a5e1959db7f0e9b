"""Which stage goes first when more waits than an epoch can take: FIFO, Greedy, Chain, round robin. Pure decisions.

A stage takes rows from its queue and puts fewer (or more) into the queues of the stages behind it. What waits is
memory, and the policies differ in how much of it there is at a time (Babu 2005, section 2.6; Chain: Babcock, Babu,
Datar, Motwani, "Chain: operator scheduling for memory minimization in data stream systems", SIGMOD 2003):

- fifo: a batch goes through all stages before the next one starts: the stage that is furthest on goes first.
- greedy: the stage whose queue shrinks most per second.
- chain: blocks of stages that shrink most per second together; between blocks greedy, inside of one fifo. A stage that
  shrinks little is not left behind where the one that it feeds shrinks much.
- round robin: one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from millpond.types.options.pond_settings import Policy as Policy


@dataclass(frozen=True)
class Stage:
    """A stage as it has been seen to work.

    time: seconds for a row. outputs: stages that it feeds, each with the rows that it gets for one of this stage's.
    depth: how many stages a row has gone through before it.
    """

    time: float
    outputs: Mapping[int, float] = field(default_factory=dict)
    depth: int = 0

    @property
    def slope(self) -> float:
        """Rows that are gone from all queues per second of its work."""
        return _slope(1.0 - sum(self.outputs.values()), self.time)


def _slope(gone: float, seconds: float) -> float:
    return gone / seconds if seconds > 0 else float("inf") if gone > 0 else 0.0


def chains(stages: Mapping[int, Stage], first: Iterable[int]) -> dict[int, float]:
    """The slope of the block that each stage belongs to (section 1.8, G4).

    Arguments:
        first: the stages that a row can enter at, in order.

    A block begins at a stage and takes in the stages behind it, level by level, as far as that makes its slope the
    steepest; the next blocks begin where it ends. In a tree a level is all stages so many steps behind the first.

    >>> line = {1: Stage(1.0, {2: 0.9}), 2: Stage(1 / 0.9, {3: 1.0}), 3: Stage(1 / 0.9)}
    >>> {stage: round(slope, 3) for stage, slope in chains(line, [1]).items()}
    {1: 0.333, 2: 0.333, 3: 0.333}
    """
    found: dict[int, float] = {}
    heads, seen = list(first), set[int]()
    while heads:
        head = heads.pop(0)
        if head in seen or head not in stages:
            continue
        seen.add(head)
        levels = _levels(stages, head)
        seconds, best, deepest = 0.0, float("-inf"), 0
        for number, level in enumerate(levels):
            seconds += sum(rows * stages[s].time for s, rows in level.items())
            left = sum(rows * share for s, rows in level.items() for share in stages[s].outputs.values())
            slope = _slope(1.0 - left, seconds)
            if slope > best:
                best, deepest = slope, number
        for level in levels[: deepest + 1]:
            for stage in level:
                found[stage] = max(best, found.get(stage, float("-inf")))
        heads += [s for s in (levels[deepest + 1] if deepest + 1 < len(levels) else ())]
    return found


def _levels(stages: Mapping[int, Stage], head: int) -> list[dict[int, float]]:
    """What one row at `head` becomes, step by step: rows per stage. A stage counts at its first level only."""
    levels, seen = [{head: 1.0}], {head}
    while True:
        following: dict[int, float] = {}
        for stage, rows in levels[-1].items():
            for target, share in stages[stage].outputs.items():
                if target in stages and target not in seen:
                    following[target] = following.get(target, 0.0) + rows * share
        if not following:
            return levels
        seen |= set(following)
        levels.append(following)


def order(policy: Policy, stages: Mapping[int, Stage], waiting: Sequence[int], last: int | None = None) -> list[int]:
    """The stages in the order in which they should be served.

    Arguments:
        waiting: stages that have something to do, those whose oldest rows came first before others.
        last: the stage that was served last, for round robin.

    >>> two = {1: Stage(1.0, {2: 0.2}), 2: Stage(5.0, depth=1)}
    >>> order("fifo", two, [1, 2]), order("greedy", two, [1, 2]), order("round robin", two, [1, 2], last=1)
    ([2, 1], [1, 2], [2, 1])
    """
    known = {s: stages.get(s, Stage(1.0)) for s in waiting}
    if policy == "round robin":
        ordered = sorted(known)
        return [
            *(s for s in ordered if last is None or s > last),
            *(s for s in ordered if last is not None and s <= last),
        ]
    if policy == "greedy":
        return sorted(known, key=lambda s: (-known[s].slope, -known[s].depth))
    if policy == "chain":
        fed = {t for stage in stages.values() for t in stage.outputs}
        slopes = chains(stages, [s for s in stages if s not in fed])
        return sorted(known, key=lambda s: (-slopes.get(s, known[s].slope), -known[s].depth))
    return sorted(known, key=lambda s: -known[s].depth)


@dataclass
class _Seen:
    """What a stage did, older epochs counting less."""

    rows: float = 0.0
    seconds: float = 0.0
    given: dict[int, float] = field(default_factory=dict)


@dataclass
class StageProfile:
    """Learns from epochs what stages cost and give; a state machine.

    Arguments:
        memory: what an epoch counts for after the next one.

    >>> profile = StageProfile()
    >>> profile.learn(1, rows=100, seconds=0.2, given={2: 20})
    >>> profile.stage(1, depth=0)
    Stage(time=0.002, outputs={2: 0.2}, depth=0)
    """

    memory: float = 0.8
    last: int | None = None
    _seen: dict[int, _Seen] = field(default_factory=dict)

    def learn(self, stage: int, rows: int, seconds: float, given: Mapping[int, int]) -> None:
        """An epoch took so many rows of a stage, in so many seconds, and gave so many to the stages behind it."""
        if rows <= 0:
            return
        seen = self._seen.setdefault(stage, _Seen())
        seen.rows = self.memory * seen.rows + rows
        seen.seconds = self.memory * seen.seconds + seconds
        targets = seen.given.keys() | given.keys()
        seen.given = {t: self.memory * seen.given.get(t, 0.0) + given.get(t, 0) for t in sorted(targets)}
        self.last = stage

    def stage(self, stage: int, depth: int, default: Stage = Stage(1e-6)) -> Stage:
        """A stage as it was seen; one that has not worked yet is taken to hand on nothing."""
        seen = self._seen.get(stage)
        if seen is None:
            return Stage(default.time, default.outputs, depth)
        return Stage(seen.seconds / seen.rows, {t: n / seen.rows for t, n in seen.given.items()}, depth)

    def forget(self, stages: Iterable[int]) -> None:
        """Drop what is known of stages other than these."""
        kept = set(stages)
        self._seen = {s: seen for s, seen in self._seen.items() if s in kept}


__all__ = ["Policy", "Stage", "StageProfile", "chains", "order"]
