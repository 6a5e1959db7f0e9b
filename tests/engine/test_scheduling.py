"""Stages under backlog: Chain keeps less waiting than FIFO, whichever policy answers are equal, and nothing is lost."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import millpond
from millpond.engine.intake.admission import Pace, admit_in_order
from millpond.sources.intake_log import Item
from tests.quick import quick_folder

START = dt.datetime(2026, 1, 1)
BATCHES, ROWS = 24, 20


def run(policy: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[Any], list[Any]]:
    """Rows that wait after each epoch of a burst, and the answers of the last stage."""
    with quick_folder() as folder, millpond.open(folder / "p", executor="inline", rows_per_epoch=60) as pond:
        core = pond._core
        learn = core.controllers.stages.learn
        monkeypatch.setattr(
            core.controllers.stages, "learn", lambda s, rows, _, given: learn(s, rows, rows * 1e-6, given)
        )
        pond.sql(f"ALTER SYSTEM SET scheduling = '{policy}'")
        pond.sql("""
            CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts');
            CREATE STREAM few AS SELECT ts, v FROM s WHERE v % 5 = 0;
            CREATE STREAM same AS SELECT ts, v FROM few WHERE v >= 0;
            CREATE QUERY q AS SELECT count(*) AS n, sum(v) AS v FROM same [RANGE TUMBLING 10 SECONDS]
        """)
        waiting = []
        for batch in range(BATCHES):
            times = [START + dt.timedelta(seconds=batch * ROWS + n) for n in range(ROWS)]
            pond.ingest("s", {"ts": times, "v": list(range(ROWS))})
            if batch == 2:  # what stages give is known, then a burst comes
                pond.drain()
        while pond.step():
            now = pond.status()["streams"]
            waiting.append(sum(s["pending_rows"] for s in now.values()))
        answers = pond.sql("SELECT window_end, n, v FROM q").rows()
        return waiting, answers, pond.sql("SELECT count(*) AS n, sum(v) AS v FROM same").rows()


def test_chain_keeps_less_waiting_and_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {policy: run(policy, monkeypatch) for policy in ("fifo", "greedy", "chain", "round_robin")}
    fifo, chain = found["fifo"][0], found["chain"][0]
    assert sum(chain) < sum(fifo)
    assert all(waiting[-1] == 0 for waiting, _, _ in found.values())
    assert found["fifo"][2] == [(BATCHES * 4, BATCHES * 30)]
    for _, answers, rows in found.values():
        assert (answers, rows) == found["fifo"][1:]


def item(rows: int, size: int = 100) -> Item:
    return Item(0, "landing", "p", "arrow", size, 0, "", rows, "", 0)


def test_what_the_first_leave_is_for_the_others() -> None:
    pending = {1: [item(50), item(50)], 2: [item(30), item(30)], 3: [item(10)]}
    taken = admit_in_order(pending, [2, 1, 3], Pace(limit=10_000, rows=100))
    assert {s: len(items) for s, items in taken.items()} == {2: 2, 3: 1}  # 1 does not fit any more, 3 does
    assert list(admit_in_order(pending, [1], Pace(limit=10_000, rows=10))) == [1]  # an item at least
    assert admit_in_order({}, [1], Pace()) == {}
