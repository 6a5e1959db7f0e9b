"""Flush policies against what the thesis says of them (Li 2008, 8.3, Fig 8-6; digest 1.10)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.flushing import EMPTY, Flush, Partials, Slots, begin, rest, run, step, sweep, sweep_next

IOP, LAZY, SLOW = Flush("iop_slow"), Flush("oop_lazy", delay=2), Flush("oop_slow", delay=2, every=2)


def _filled(size: int, flush: Flush, *tuples: tuple[int, int, int]) -> tuple[Slots, list[list[tuple[int, int, int]]]]:
    slots, given = run(Slots.make(size), flush, tuples)
    return slots, [_rows(p) for p in given]


def _rows(left: Partials) -> list[tuple[int, int, int]]:
    return list(zip(left.window.tolist(), left.group.tolist(), left.count.tolist(), strict=True))


def test_in_order_one_slot_of_the_sweep_per_tuple() -> None:
    # Window 0 leaves groups 10, 12 in slots 0 and 2. The first tuple of window 1 makes them old and sweeps slot 0.
    slots, given = _filled(4, IOP, (0, 10, 0), (0, 12, 2), (0, 10, 0), (1, 13, 3), (1, 13, 3), (1, 13, 3))
    assert given == [[], [], [], [(0, 10, 2)], [], [(0, 12, 1)]]
    assert slots.place == 3 and not slots.finished
    slots, left = step(slots, IOP, 1, 13, 3)
    assert _rows(left) == [] and slots.finished  # slot 3 is new: it stays
    assert _rows(rest(slots)) == [(1, 13, 4)]


def test_in_order_a_collision_of_new_groups_flushes_all_that_is_old_first() -> None:
    start = ((0, 10, 0), (0, 11, 1), (0, 12, 2), (0, 13, 3))
    _, given = _filled(4, IOP, *start, (1, 20, 3), (1, 21, 3))
    # Slot 0 by the sweep, then old 13 makes room for 20. With the next tuple slot 1 by the sweep; 21 collides with 20,
    # which is new: 12 has to go first, then 20.
    assert given[4:] == [[(0, 10, 1), (0, 13, 1)], [(0, 11, 1), (0, 12, 1), (1, 20, 1)]]


def test_in_order_a_new_window_flushes_what_remained() -> None:
    _, given = _filled(4, IOP, (0, 12, 2), (0, 13, 3), (1, 20, 1), (2, 30, 0))
    assert given == [[], [], [], [(0, 12, 1), (0, 13, 1)]]  # 20 is old from then on, its slot comes at the next tuple


def test_out_of_order_a_tuple_evicts_whatever_is_there() -> None:
    _, given = _filled(2, LAZY, (1, 10, 0), (1, 11, 0), (0, 10, 0), (1, 10, 1), (0, 12, 1))
    assert given == [[], [(1, 10, 1)], [(1, 11, 1)], [], [(1, 10, 1)]]


def test_out_of_order_nothing_stays_longer_than_the_delay() -> None:
    _, given = _filled(8, LAZY, (0, 1, 1), (1, 2, 2), (2, 3, 3), (3, 4, 4))
    assert given == [[], [], [(0, 1, 1)], [(1, 2, 1)]]


def test_out_of_order_the_slow_flush_gives_an_old_slot_every_so_many_tuples() -> None:
    slots, given = _filled(8, SLOW, (0, 1, 1), (0, 2, 5), (1, 3, 3), (1, 3, 3), (1, 3, 3), (1, 3, 3))
    assert given == [[], [], [], [(0, 1, 1)], [], [(0, 2, 1)]]
    assert not slots.old.any()


@st.composite
def tuples(draw: st.DrawFn, ordered: bool) -> list[tuple[int, int]]:
    drawn = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=60))
    return sorted(drawn, key=lambda t: t[0]) if ordered else drawn


@pytest.mark.parametrize("policy", ["iop_slow", "oop_lazy", "oop_slow"])
@given(st.data())
def test_nothing_is_lost_or_counted_twice(policy: str, data: st.DataObject) -> None:
    flush = Flush(policy, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
    size = data.draw(st.integers(1, 8))
    drawn = data.draw(tuples(policy == "iop_slow"))
    slots, counted, order, bound = Slots.make(size), Counter(), [], EMPTY
    for window, group in drawn:
        slots, left = step(slots, flush, window, group, group % size)
        for w, g, n in _rows(left):
            counted[w, g] += n
            order.append(w)
        assert slots.bound >= bound
        bound = slots.bound
    for w, g, n in _rows(rest(slots)):
        counted[w, g] += n
        order.append(w)
    assert counted == Counter(drawn)
    if policy == "iop_slow":
        assert order == sorted(order)  # what follows may rely on order


def test_a_new_window_starts_the_sweep_anew() -> None:
    slots = Slots.make(3)
    slots, _ = begin(slots, 0, "oop_slow", 2)
    assert (slots.place, slots.finished) == (0, False)
    slots, left = sweep_next(slots)
    assert slots.finished and not len(left.window)
    slots, left = sweep(slots)
    assert slots.finished and not len(left.window)
    assert not np.any(slots.old)
