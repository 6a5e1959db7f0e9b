"""Scheduling of stages: the table of the thesis to the digit, blocks of Chain, and what they keep waiting."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.adapt.scheduling import Policy, Stage, StageProfile, chains, order

#: Babu 2005, section 2.6: operators with what a unit of time makes of their input; sizes at t = 0..6 and their mean.
TWO = {1: Stage(1.0, {2: 0.2}), 2: Stage(5.0, depth=1)}
THREE = {1: Stage(1.0, {2: 0.9}), 2: Stage(1 / 0.9, {3: 1.0}, depth=1), 3: Stage(1 / 0.9, depth=2)}
FIFO_2, GREEDY_2 = [1.0, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0], [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]
FIFO_3, GREEDY_3 = [1.0, 1.9, 2.9, 3.0, 3.9, 4.9, 5.0], [1.0, 1.9, 2.8, 3.7, 4.6, 5.5, 6.4]


def simulate(policy: Policy, stages: dict[int, Stage], arrivals: list[float], until: int) -> list[float]:
    """What waits at each instant right after the arrival; a stage works for a unit of time when it has so much work."""
    queues, sizes, last = dict.fromkeys(stages, 0.0), [], None
    for now in range(until):
        queues[1] += arrivals[now] if now < len(arrivals) else 0.0
        sizes.append(sum(queues.values()))
        ready = [s for s, rows in queues.items() if rows * stages[s].time >= 1 - 1e-9]
        if ready:
            stage = last = order(policy, stages, ready, last)[0]
            taken = 1 / stages[stage].time
            queues[stage] -= taken
            for target, share in stages[stage].outputs.items():
                queues[target] += taken * share
    return sizes


@pytest.mark.parametrize(
    ("policy", "stages", "sizes", "mean"),
    [
        ("fifo", TWO, FIFO_2, 2.4),
        ("greedy", TWO, GREEDY_2, 1.6),
        ("chain", TWO, GREEDY_2, 1.6),
        ("fifo", THREE, FIFO_3, 3.2),
        ("greedy", THREE, GREEDY_3, 3.7),
        ("chain", THREE, FIFO_3, 3.2),
    ],
)
def test_the_table_of_the_thesis(policy: Policy, stages: dict[int, Stage], sizes: list[float], mean: float) -> None:
    found = simulate(policy, stages, [1.0] * 7, 7)
    assert found == pytest.approx(sizes)
    assert sum(found) / 7 == pytest.approx(mean, abs=0.05)


def test_what_is_left_declines_and_is_gone() -> None:
    fifo, greedy = (simulate(p, TWO, [1.0] * 7, 15) for p in ("fifo", "greedy"))
    assert fifo[7:] == pytest.approx([3.2, 3.0, 2.2, 2.0, 1.2, 1.0, 0.2, 0.0])
    assert greedy[7:] == pytest.approx([1.4, 1.2, 1.0, 0.8, 0.6, 0.4, 0.2, 0.0])


def test_blocks() -> None:
    assert chains(TWO, [1]) == pytest.approx({1: 0.8, 2: 0.2})
    assert chains(THREE, [1]) == pytest.approx({1: 1 / 3, 2: 1 / 3, 3: 1 / 3})
    # A tree: one stage that makes two rows of one, and what it feeds drops all; only together they shrink.
    tree = {1: Stage(1.0, {2: 1.0, 3: 1.0}), 2: Stage(0.5, depth=1), 3: Stage(0.5, depth=1)}
    assert tree[1].slope < 0
    assert chains(tree, [1]) == pytest.approx({1: 0.5, 2: 0.5, 3: 0.5})
    assert order("chain", tree, [1, 2, 3])[-1] == 1  # inside of a block, what is further on goes first


lines = st.lists(st.tuples(st.floats(0.2, 1.0), st.floats(0.0, 1.0)), min_size=2, max_size=4)
GRAIN, STEPS = 0.25, 24


@settings(max_examples=40)
@given(lines, st.lists(st.integers(0, 2), min_size=4, max_size=8))
def test_chain_keeps_no_more_waiting_than_fifo(parts: list[tuple[float, float]], arrivals: list[int]) -> None:
    """On the mean, but for what one batch is (Babcock 2003, theorem 1), whatever stages cost and hand on."""
    stages = {}
    for number, (seconds, share) in enumerate(parts, 1):
        stages[number] = Stage(seconds, {} if number == len(parts) else {number + 1: share}, number - 1)
    assert waiting_rows("chain", stages, arrivals) <= waiting_rows("fifo", stages, arrivals) + GRAIN + 1e-6


def waiting_rows(policy: Policy, stages: dict[int, Stage], arrivals: list[int]) -> float:
    """Rows that wait on the mean when stages take small batches, one after the other."""
    queues, total = dict.fromkeys(stages, 0.0), 0.0
    for now in range(STEPS):
        queues[1] += arrivals[now] if now < len(arrivals) else 0
        total += sum(queues.values())
        left = 1.0
        while left > 1e-9 and (ready := [s for s, q in queues.items() if q > 1e-9]):
            stage = order(policy, stages, ready)[0]
            taken = min(queues[stage], left / stages[stage].time, GRAIN)
            queues[stage] -= taken
            left -= taken * stages[stage].time
            for target, share in stages[stage].outputs.items():
                queues[target] += taken * share
    return total / STEPS


def test_a_profile_forgets_slowly_and_round_robin_goes_round() -> None:
    profile = StageProfile(memory=0.5)
    profile.learn(1, 100, 1.0, {2: 100})
    profile.learn(1, 100, 2.0, {2: 0})
    profile.learn(2, 0, 5.0, {})  # nothing was taken: nothing is learnt
    stage = profile.stage(1, depth=0)
    assert stage.time == pytest.approx(2.5 / 150)
    assert stage.outputs == pytest.approx({2: 50 / 150})
    assert profile.stage(2, depth=1).outputs == {}
    assert order("round robin", {}, [5, 1, 3], last=3) == [5, 1, 3]
    profile.forget([])
    assert profile.stage(1, 0).outputs == {}
