"""AdaptWID: per group, partial aggregates of its open windows (eager) or its tuples (lazy), by what is smaller.

Li 2008, section 6.4, with the digest's corrections: a group that goes back to buffering keeps its partials until their
windows close, and an eager group makes any window that is missing, also one behind those it has. A pure state machine
over batches; groups and windows are arrays, and a batch costs array operations, whatever its number of groups.

    >>> plan = Plan(TimeWindow(300, 60), (Accumulator("n", "add"),), mode="lazy")
    >>> state, _, _ = step(plan, start(plan), batch([7], [10]))
    >>> len(state.buffer), len(state.partials)
    (1, 0)
    >>> state, closed, _ = step(plan, state, punctuation=60)
    >>> closed.wid.tolist(), closed.group.tolist(), closed.values[0].tolist()
    ([0], [7], [1])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from millpond.types import TimeWindow

Ints = NDArray[np.int64]
Array = NDArray[Any]
Mode = Literal["eager", "lazy", "adaptive"]

#: No punctuation yet.
NEVER = -(2**62)


@dataclass(frozen=True)
class Accumulator:
    """One accumulator of a window: tuples are combined by `ufunc` over a column of the batch (None: a one per tuple).

    Arguments:
        ufunc: 'add', 'minimum' or 'maximum'. kind: the type that it is kept in.
    """

    name: str
    ufunc: Literal["add", "minimum", "maximum"]
    column: int | None = None
    kind: str = "int64"


@dataclass(frozen=True)
class Plan:
    """What is computed, and how the choice is made.

    Arguments:
        window: RANGE, SLIDE and ORIGIN (`TimeWindow`), in units of the windowing attribute.
        columns: types of the columns of a tuple.
        gap: a group goes back to tuples when it holds fewer than `gap` times as many as it went eager with.
        aggr, tup: bytes of a partial aggregate and of a tuple; None: those of the arrays that hold them.
    """

    window: TimeWindow
    accumulators: tuple[Accumulator, ...]
    columns: tuple[str, ...] = ()
    mode: Mode = "adaptive"
    gap: float = 0.75
    aggr: int | None = None
    tup: int | None = None

    @property
    def partial_bytes(self) -> int:
        """Bytes of a partial aggregate: group, window, accumulators; what only the choice needs when it is made."""
        if self.aggr is not None:
            return self.aggr
        held = 16 + sum(np.dtype(a.kind).itemsize for a in self.accumulators)
        return held + (5 if self.mode == "adaptive" else 0)

    @property
    def tuple_bytes(self) -> int:
        """Bytes of a buffered tuple: group, time, columns."""
        return self.tup if self.tup is not None else 16 + sum(np.dtype(c).itemsize for c in self.columns)


@dataclass(frozen=True)
class Tuples:
    """Tuples as arrays of one length: group, windowing attribute, columns."""

    group: Ints
    time: Ints
    columns: tuple[Array, ...] = ()

    def __len__(self) -> int:
        return len(self.group)

    def take(self, chosen: Array) -> Tuples:
        """Those that a mask or indices choose."""
        return Tuples(self.group[chosen], self.time[chosen], tuple(c[chosen] for c in self.columns))


@dataclass(frozen=True)
class Partials:
    """Partial aggregates sorted by (group, window id).

    expiring: tuples whose last window this is (they stop being active when it closes). eager: whether the group is.
    """

    group: Ints
    wid: Ints
    values: tuple[Array, ...]
    expiring: Array
    eager: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.group)

    def take(self, chosen: Array) -> Partials:
        """Those that a mask or indices choose."""
        values = tuple(v[chosen] for v in self.values)
        return Partials(self.group[chosen], self.wid[chosen], values, self.expiring[chosen], self.eager[chosen])


@dataclass(frozen=True)
class Closed:
    """Answers of windows that a punctuation closed, sorted by (window id, group)."""

    wid: Ints
    group: Ints
    values: tuple[Array, ...]


@dataclass(frozen=True)
class Switches:
    """Groups that changed sides in a step."""

    to_eager: Ints
    to_lazy: Ints


@dataclass(frozen=True)
class AdaptiveState:
    """What is held between steps.

    closed: windows with smaller ids are closed. high: largest time seen. low: largest punctuation.
    wed: the duration of a window's extent: the high watermark when it closes less that at its first tuple; RANGE until
        a window has closed. (With the low watermark at the start, the other reading of the thesis, punctuation as
        coarse as SLIDE makes it longer by a SLIDE.) opened: open windows, with the high watermark at their first tuple.
    """

    buffer: Tuples
    partials: Partials
    closed: int = NEVER
    high: int = NEVER
    low: int = NEVER
    wed: int = 0
    opened: tuple[Ints, Ints] = (np.empty(0, np.int64), np.empty(0, np.int64))

    def counts(self) -> dict[str, int]:
        """How many groups are eager, lazy (all their tuples are buffered), or on their way back (both forms held)."""
        eager = np.unique(self.partials.group[self.partials.eager])
        back = np.unique(self.partials.group[~self.partials.eager])
        lazy = np.setdiff1d(self.buffer.group, back)
        return {"eager": len(eager), "lazy": len(lazy), "transition": len(back)}


def batch(group: Sequence[int] | Array, time: Sequence[int] | Array, *columns: Sequence[Any] | Array) -> Tuples:
    """Tuples from sequences."""
    return Tuples(
        np.asarray(group, np.int64), np.asarray(time, np.int64), tuple(np.asarray(column) for column in columns)
    )


def start(plan: Plan) -> AdaptiveState:
    """Nothing seen yet."""
    nothing = np.empty(0, np.int64)
    columns = tuple(np.empty(0, kind) for kind in plan.columns)
    values = tuple(np.empty(0, a.kind) for a in plan.accumulators)
    partials = Partials(nothing, nothing, values, np.empty(0, np.int32), np.empty(0, np.bool_))
    return AdaptiveState(Tuples(nothing, nothing, columns), partials, wed=plan.window.range)


def state_bytes(plan: Plan, state: AdaptiveState) -> int:
    """What the state weighs."""
    return plan.partial_bytes * len(state.partials) + plan.tuple_bytes * len(state.buffer)


def num_tuples(volumes: Sequence[float], wed: float, offsets: Sequence[float]) -> float:
    """Tuples of a group that are buffered at a time, of several sources (6.7).

    Arguments:
        volumes: tuples of the group per unit of time, per source. offsets: how far the high watermark of each source is
            behind that of the earliest (whose own is 0).

    >>> num_tuples([2, 1, 1], 10, [0, 4, 5])
    31.0
    """
    return float(sum(volumes) * wed - sum(v * o for v, o in zip(volumes, offsets, strict=True)))


def goes_eager(win_vol: float, wed: float, slide: float, aggr: float, tup: float, lagging: float = 0.0) -> bool:
    """Condition (6.9): whether partial aggregates of a group weigh less than its tuples.

    Arguments:
        win_vol: tuples of the group within `wed`. lagging: the sum over sources of volume times offset.

    >>> goes_eager(win_vol=11, wed=300, slide=60, aggr=40, tup=20), goes_eager(10, 300, 60, 40, 20)
    (True, False)
    """
    return win_vol > aggr * wed / (tup * slide) + lagging


def limits(plan: Plan, wed: int) -> tuple[float, float]:
    """With more active tuples than the first a group goes eager, with fewer than the second it goes back.

    The state counts the tuples of a group that are there, which is `num_tuples`: tuples of lagging sources that have
    not come yet are not in it. So the offsets are on the left side of (6.9) already.
    """
    if plan.mode != "adaptive":
        return (-1.0, 0.0) if plan.mode == "eager" else (float("inf"), float("inf"))
    upper = plan.partial_bytes * wed / (plan.tuple_bytes * plan.window.slide)
    return upper, plan.gap * upper


def wid_bounds(window: TimeWindow, time: Ints) -> tuple[Ints, Ints]:
    """The first and the last window of each time (the floor form; none where the last is before the first)."""
    since = time - window.origin
    return since // window.slide, (since + window.range) // window.slide - 1


def step(
    plan: Plan, state: AdaptiveState, tuples: Tuples | None = None, punctuation: int | None = None
) -> tuple[AdaptiveState, Closed, Switches]:
    """Take a batch of tuples, then a punctuation: nothing with a smaller time follows.

    Returns: the new state, the answers of the windows that the punctuation closed, the groups that changed sides.
    Tuples of which every window is closed are left out; so is the share of closed windows in others.
    """
    switched = np.empty(0, np.int64)
    if tuples is not None and len(tuples):
        state, switched = _take(plan, state, tuples)
    if punctuation is None:
        return state, _nothing(plan), Switches(switched, np.empty(0, np.int64))
    state, closed, back = _close(plan, state, punctuation)
    return state, closed, Switches(switched, back)


def _take(plan: Plan, state: AdaptiveState, tuples: Tuples) -> tuple[AdaptiveState, Ints]:
    first, last = wid_bounds(plan.window, tuples.time)
    high = max(state.high, int(tuples.time.max()))
    held = (last >= state.closed) & (last >= first)
    tuples, last = tuples.take(held), last[held]
    opened = _opened(state, tuples.time, last)
    eager = np.unique(state.partials.group[state.partials.eager])
    direct = np.isin(tuples.group, eager)
    partials = state.partials
    buffer = _joined(state.buffer, tuples.take(~direct))
    upper, _ = limits(plan, state.wed)
    groups, active = _active(partials, buffer)
    switched = np.setdiff1d(groups[active > upper], eager)
    moving = np.isin(buffer.group, switched)
    fresh = _joined(tuples.take(direct), buffer.take(moving))
    if len(fresh):
        partials = _merged(plan, partials, _expanded(plan, fresh, state.closed, None, True))
        if len(switched):
            partials = replace(partials, eager=partials.eager | np.isin(partials.group, switched))
    return replace(state, buffer=buffer.take(~moving), partials=partials, high=high, opened=opened), switched


def _close(plan: Plan, state: AdaptiveState, punctuation: int) -> tuple[AdaptiveState, Closed, Ints]:
    until = (punctuation - plan.window.origin) // plan.window.slide
    low = max(state.low, punctuation)
    if until <= state.closed:
        return replace(state, low=low), _nothing(plan), np.empty(0, np.int64)
    done = state.partials.wid < until
    from_buffer = _expanded(plan, state.buffer, state.closed, until, False)
    answers = _merged(plan, state.partials.take(done), from_buffer)
    order = np.lexsort((answers.group, answers.wid))
    closed = Closed(answers.wid[order], answers.group[order], tuple(v[order] for v in answers.values))
    _, last = wid_bounds(plan.window, state.buffer.time)
    partials, buffer = state.partials.take(~done), state.buffer.take(last >= until)
    ends, starts = state.opened
    over = ends < until
    wed = max(plan.window.slide, state.high - int(starts[over][-1])) if over.any() else state.wed
    _, lower = limits(plan, wed)
    groups, active = _active(partials, buffer)
    back = np.intersect1d(groups[active < lower], np.unique(partials.group[partials.eager]))
    if len(back):
        partials = replace(partials, eager=partials.eager & ~np.isin(partials.group, back))
    opened = (ends[~over], starts[~over])
    return replace(state, buffer=buffer, partials=partials, closed=until, low=low, wed=wed, opened=opened), closed, back


def _opened(state: AdaptiveState, time: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Open windows with the high watermark at their first tuple, which is one whose last window they are."""
    order = np.lexsort((time, last))
    fresh, at = np.unique(last[order], return_index=True)
    known, starts = state.opened
    new = ~np.isin(fresh, known)
    ends = np.concatenate([known, fresh[new]])
    highs = np.concatenate([starts, np.maximum(time[order][at[new]], state.high)])
    sort = np.argsort(ends, kind="stable")
    return ends[sort], highs[sort]


def _active(partials: Partials, buffer: Tuples) -> tuple[Ints, Ints]:
    """Groups and the tuples of each that some open window still needs."""
    groups, place = np.unique(np.concatenate([partials.group, buffer.group]), return_inverse=True)
    weights = np.concatenate([partials.expiring.astype(np.int64), np.ones(len(buffer), np.int64)])
    return groups, np.bincount(place, weights, len(groups)).astype(np.int64)


def _joined(one: Tuples, other: Tuples) -> Tuples:
    columns = tuple(np.concatenate([a, b]).astype(a.dtype) for a, b in zip(one.columns, other.columns, strict=True))
    return Tuples(np.concatenate([one.group, other.group]), np.concatenate([one.time, other.time]), columns)


def _expanded(plan: Plan, tuples: Tuples, low: int, until: int | None, eager: bool) -> Partials:
    """The partial aggregates of tuples in their windows from `low` on, below `until`."""
    first, last = wid_bounds(plan.window, tuples.time)
    stop = last if until is None else np.minimum(last, until - 1)
    first = np.maximum(first, low)
    count = np.maximum(0, stop - first + 1)
    row = np.repeat(np.arange(len(count)), count)
    wid = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    values = tuple(
        np.ones(len(row), a.kind) if a.column is None else tuples.columns[a.column][row].astype(a.kind)
        for a in plan.accumulators
    )
    expiring = (wid == last[row]).astype(np.int32)
    return _reduced(plan, Partials(tuples.group[row], wid, values, expiring, np.full(len(row), eager)))


def _merged(plan: Plan, one: Partials, other: Partials) -> Partials:
    if not len(one) or not len(other):
        return one if len(one) else other
    return _reduced(
        plan,
        Partials(
            np.concatenate([one.group, other.group]),
            np.concatenate([one.wid, other.wid]),
            tuple(np.concatenate([a, b]) for a, b in zip(one.values, other.values, strict=True)),
            np.concatenate([one.expiring, other.expiring]),
            np.concatenate([one.eager, other.eager]),
        ),
    )


def _reduced(plan: Plan, rows: Partials) -> Partials:
    """One row per (group, window), sorted."""
    if not len(rows):
        return rows
    order = np.lexsort((rows.wid, rows.group))
    rows = rows.take(order)
    first = np.r_[True, (rows.group[1:] != rows.group[:-1]) | (rows.wid[1:] != rows.wid[:-1])]
    if first.all():
        return rows
    at = np.flatnonzero(first)
    values = tuple(getattr(np, a.ufunc).reduceat(v, at) for a, v in zip(plan.accumulators, rows.values, strict=True))
    expiring = np.add.reduceat(rows.expiring, at, dtype=np.int32)
    return Partials(rows.group[at], rows.wid[at], values, expiring, np.logical_or.reduceat(rows.eager, at))


def _nothing(plan: Plan) -> Closed:
    nothing = np.empty(0, np.int64)
    return Closed(nothing, nothing, tuple(np.empty(0, a.kind) for a in plan.accumulators))
