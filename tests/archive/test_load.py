"""The decider behind `REDUCE load()`: up when rows wait, down when they have not for a while, steady in between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.archive.design.load import CALM, HOLD, LEVELS, PATIENCE, Lag, LoadDecider, Scanned

SECOND = 1_000_000


def test_it_rises_to_the_top_under_lasting_lag_and_comes_back() -> None:
    decider = LoadDecider(2.0)
    for t in range(60):
        decider.lag(Lag(t * SECOND, 9.0))
    assert decider.drop == LEVELS[-1]
    for t in range(60, 400):
        decider.lag(Lag(t * SECOND, 0.0))
    assert decider.drop == 0.0
    drops = [c.drop for c in decider.changes]
    assert drops[: drops.index(LEVELS[-1]) + 1] == sorted(set(drops[: drops.index(LEVELS[-1]) + 1]))
    assert all(c.reason for c in decider.changes)


def test_between_the_limits_nothing_moves() -> None:
    decider = LoadDecider(1.0)
    decider.lag(Lag(0, 2.0))
    level = decider.level
    for t in range(1, 200):
        decider.lag(Lag(t * SECOND, 0.8 if t % 2 else CALM + 0.01))
    assert decider.level == level == 1


def test_busy_scans_count_when_rows_begin_to_wait() -> None:
    decider = LoadDecider(1.0)
    for t in range(1, 11):
        decider.scanned(Scanned(t * SECOND, 10**8, 0.95))
    assert decider.busy(10 * SECOND) > 0.9
    assert decider.lag(Lag(10 * SECOND, 0.2)).drop == 0.0
    assert decider.lag(Lag(10 * SECOND + 1, 0.7)).drop == LEVELS[1]
    assert "disk busy" in decider.reason


@given(readings=st.lists(st.tuples(st.integers(1, 5 * SECOND), st.floats(0, 20)), max_size=200))
def test_steps_are_held_and_patience_is_kept(readings: list[tuple[int, float]]) -> None:
    decider, clock, calm = LoadDecider(1.0), 0, None
    for step, lag in readings:
        clock += step
        before, known = decider.level, len(decider.changes)
        calm = (clock if calm is None else calm) if lag <= CALM else None
        decider.lag(Lag(clock, lag))
        assert 0 <= decider.level < len(LEVELS) and abs(decider.level - before) <= 2
        if decider.level < before:
            assert calm is not None and clock - calm >= PATIENCE * SECOND
            calm = clock
        if decider.level > before:
            assert lag > CALM
            last = decider.changes[-2].clock if len(decider.changes) > 1 else -(10**18)
            assert clock - last >= HOLD * SECOND
        assert len(decider.changes) - known == int(decider.level != before)


def test_the_same_events_give_the_same_choices() -> None:
    events = [Lag(t * SECOND, (t * 37 % 11) / 3) for t in range(300)]
    first, second = LoadDecider(1.0), LoadDecider(1.0)
    assert [first.lag(e) for e in events] == [second.lag(e) for e in events]
    assert list(first.changes) == list(second.changes)
