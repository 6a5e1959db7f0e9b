"""How much time matching may take: never much more than its share, and as much as that allows."""

from __future__ import annotations

import pytest

from millpond.adapt.matching_pace import UNLIMITED, MatchingPace


def epochs(pace: MatchingPace, fixed: float, per_work: float, wanted: float, others: float, count: int = 60) -> float:
    """Seconds of matching in the last of some epochs of a million rows.

    Arguments:
        fixed: seconds of matching whatever is found. per_work: seconds per nanosecond a row. wanted: nanoseconds per
            row that finding everything would take. others: seconds of the rest of an epoch.
    """
    took = 0.0
    for _ in range(count):
        work = min(pace.told, wanted)
        took = fixed + per_work * work
        pace.learn(1_000_000, took, others, used=work * 1_000_000)
    return took


@pytest.mark.parametrize("start", [1.0, 500.0, 1e5])
@pytest.mark.parametrize("per_work", [0.0005, 0.001, 0.01])
def test_it_finds_what_the_share_allows(start: float, per_work: float) -> None:
    pace = MatchingPace(share=0.1, work=start)
    took = epochs(pace, fixed=0.02, per_work=per_work, wanted=1e4, others=1.0)
    assert 0.09 < took < 0.11


def test_everything_is_found_where_there_is_time() -> None:
    pace = MatchingPace(share=0.1, work=1.0)
    took = epochs(pace, fixed=0.01, per_work=0.001, wanted=50.0, others=1.0)
    assert took == pytest.approx(0.01 + 0.05)


def test_at_least_a_little_where_there_is_none() -> None:
    pace = MatchingPace(share=0.1)
    epochs(pace, fixed=1.0, per_work=0.001, wanted=1e4, others=1.0)
    assert pace.told == pace.least > 0


def test_one_slow_epoch_does_not_stop_matching() -> None:
    pace = MatchingPace(share=0.1, work=100.0)
    pace.learn(1_000_000, matching=50.0, others=0.5, used=1e8)
    assert pace.told >= 60


def test_what_cannot_be_afforded_is_not_tried_again_and_again() -> None:
    """Looking at 250,000 intervals alone would take more than the share: no epoch pays for finding that out."""
    pace = MatchingPace(share=0.1)
    tried = 0
    for _ in range(100):
        tries = pace.told * 65_536 >= 2 * 75 * 250_000
        tried += tries
        pace.learn(131_072, 0.1 if tries else 0.0, 0.25, used=8e7 if tries else 0.0)
    assert tried <= 1
    for _ in range(5):  # epochs that take longer leave it more
        pace.learn(131_072, 0.0, 2.0, used=0.0)
    assert pace.told * 65_536 >= 2 * 75 * 250_000


def test_without_a_share_nothing_is_left_out() -> None:
    pace = MatchingPace(share=float("inf"))
    pace.learn(1_000_000, matching=50.0, others=0.5, used=1e8)
    assert pace.told == UNLIMITED
