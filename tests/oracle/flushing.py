"""Flush policies of two-level aggregation (Li 2008, 8.3 and Fig 8-6): a fixed table of partial aggregates that smooths.

The low level of a two-level aggregation counts tuples in a table with one slot per hash value; what leaves it goes to
the high level, which adds partial aggregates of the same (window, group) up. A window's end would make the whole table
leave at once. The policies spread that over the tuples that follow:

- `iop_slow`: input is in order and output must be: with each tuple, the slot at the sweep's place is flushed if it is
  old. A new group of the new window in the slot of another one of the new window first flushes everything old.
- `oop_lazy`: no sweep. A tuple evicts what another (window, group) left in its slot, old or new. What is `delay`
  windows behind is flushed all at once.
- `oop_slow`: as lazy, and with every `every`-th tuple one old slot is flushed.

A table is a value: a step takes one and gives another with what left it. These are the policies as they are described,
for experiments with them; they look at one tuple at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Policy = Literal["iop_slow", "oop_lazy", "oop_slow"]

#: Window of an empty slot.
EMPTY = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Partials:
    """Partial aggregates that left a table, in their order: count per (window, group)."""

    window: Ints
    group: Ints
    count: Ints

    @staticmethod
    def join(parts: Sequence[Partials]) -> Partials:
        """Several, one behind the other."""
        if not parts:
            none = np.empty(0, np.int64)
            return Partials(none, none, none)
        return Partials(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("window", "group", "count")))


@dataclass(frozen=True)
class Slots:
    """A table of partial counts.

    window, group, count: by slot; `window` is EMPTY where there is nothing. A slot is old when its window is below
    `newest`. place: where the sweep goes on; `finished`: it has nothing to do until the next window begins.
    since: tuples since the last old slot that `oop_slow` flushed. bound: nothing of windows below it is left in the
    table, which the low level may announce as soon as its input has announced as much.
    """

    window: Ints
    group: Ints
    count: Ints
    newest: int = EMPTY
    place: int = 0
    finished: bool = True
    since: int = 0
    bound: int = EMPTY

    @staticmethod
    def make(size: int) -> Slots:
        """An empty table of `size` slots."""
        zeros = np.zeros(size, np.int64)
        return Slots(np.full(size, EMPTY, np.int64), zeros, zeros.copy())

    @property
    def old(self) -> NDArray[np.bool_]:
        """Which slots hold a group of a window before the newest."""
        old: NDArray[np.bool_] = (self.window != EMPTY) & (self.window < self.newest)
        return old


def take(slots: Slots, chosen: NDArray[np.bool_] | Ints) -> tuple[Slots, Partials]:
    """The table without the chosen slots (a mask, or numbers in order), and what was in them."""
    at = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
    at = at[slots.window[at] != EMPTY]
    left = Partials(slots.window[at], slots.group[at], slots.count[at])
    window = slots.window.copy()
    window[at] = EMPTY
    return replace(slots, window=window), left


def begin(slots: Slots, window: int, policy: Policy, delay: int) -> tuple[Slots, Partials]:
    """A tuple of a window behind all others has come: what was new is old now, and what is overdue leaves."""
    if policy == "iop_slow":
        # In order, all of the window before the last must be out before anything of the last one is.
        after, left = take(slots, slots.old)
        return replace(after, newest=window, place=0, finished=False), left
    after, left = take(slots, (slots.window != EMPTY) & (slots.window <= window - delay))
    return replace(after, newest=window, place=0, finished=False), left


def sweep(slots: Slots) -> tuple[Slots, Partials]:
    """One step of SlowFlush in order: the slot at the sweep's place leaves if it is old."""
    if slots.finished:
        return slots, Partials.join([])
    after, left = take(slots, np.array([slots.place])) if slots.old[slots.place] else (slots, Partials.join([]))
    place = slots.place + 1
    return replace(after, place=place, finished=place >= len(slots.window)), left


def sweep_next(slots: Slots) -> tuple[Slots, Partials]:
    """One step of the slow flush out of order: the next old slot behind the sweep's place leaves, if there is one."""
    behind = np.flatnonzero(slots.old[slots.place :])
    if not len(behind):
        return replace(slots, place=len(slots.window), finished=True), Partials.join([])
    at = slots.place + int(behind[0])
    after, left = take(slots, np.array([at]))
    return replace(after, place=at + 1, finished=at + 1 >= len(slots.window)), left


@dataclass(frozen=True)
class Flush:
    """A policy with its parameters.

    delay: (m) windows that an aggregate may stay behind its own, out of order. every: (i) tuples per old slot that
    `oop_slow` flushes. The experiment X8 has m = 2 and i = 160.
    """

    policy: Policy = "oop_slow"
    delay: int = 2
    every: int = 160


def step(slots: Slots, flush: Flush, window: int, group: int, slot: int) -> tuple[Slots, Partials]:
    """One tuple of a group in a window, whose hash is `slot`. In order, `window` never falls.

    Returns: the table after it, and what left it, in order.
    """
    parts: list[Partials] = []

    def note(result: tuple[Slots, Partials]) -> Slots:
        parts.append(result[1])
        return result[0]

    if window > slots.newest:
        slots = note(begin(slots, window, flush.policy, flush.delay))
    if flush.policy == "iop_slow":
        slots = note(sweep(slots))
    elif flush.policy == "oop_slow":
        slots = replace(slots, since=slots.since + 1)
        if slots.since >= flush.every:
            slots = replace(note(sweep_next(slots)), since=0)
    resident = int(slots.window[slot])
    same = resident == window and int(slots.group[slot]) == group
    if resident != EMPTY and not same:
        if flush.policy == "iop_slow" and resident == slots.newest:
            slots = note(take(slots, slots.old))  # the resident may only follow what is old
        slots = note(take(slots, np.array([slot])))
    windows, groups, counts = slots.window.copy(), slots.group.copy(), slots.count.copy()
    counts[slot] = counts[slot] + 1 if same else 1
    windows[slot], groups[slot] = window, group
    held = windows[windows != EMPTY]
    after = replace(slots, window=windows, group=groups, count=counts)
    return replace(after, bound=max(after.bound, min(int(held.min()), after.newest))), Partials.join(parts)


def run(slots: Slots, flush: Flush, tuples: Iterable[tuple[int, int, int]]) -> tuple[Slots, list[Partials]]:
    """Many tuples (window, group, slot); what left the table with each of them."""
    given = []
    for window, group, slot in tuples:
        slots, left = step(slots, flush, window, group, slot)
        given.append(left)
    return slots, given


def rest(slots: Slots) -> Partials:
    """What is left at the end of the stream: everything, in order of windows."""
    at = np.flatnonzero(slots.window != EMPTY)
    return take(slots, at[np.argsort(slots.window[at], kind="stable")])[1]
