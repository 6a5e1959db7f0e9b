"""Invocations beside epochs, compaction, registrations, drops and eviction: no half epoch, no row lost or twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import millpond
import millpond.answers.row_queries.hot as hot
import millpond.archive.upkeep.compaction as compaction
from millpond.answers.row_queries.selection import start_ready
from millpond.support.errors import QueryError
from tests.quick import quick_folder
from tests.results.test_selection import at, numbers

PER_EPOCH, EPOCHS = 40, 15


def test_everything_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    monkeypatch.setattr(hot, "FULL_ROWS", 64)
    with quick_folder() as folder, millpond.open(folder, "inline", hot_bytes=60_000, eager_rows=30) as pond:
        everything_at_once(pond)


def everything_at_once(pond: Any) -> None:
    pond.sql("CREATE STREAM r (ts TIMESTAMP, n INTEGER) WITH (event_time='ts', lateness='1 hour')")
    start_ready(pond._core.view)
    even = pond.register("SELECT n FROM r WHERE n % 2 = 0")
    total = pond.register("SELECT count(*) AS c, sum(n) AS t FROM r", materialize="complete")
    faults: list[BaseException] = []
    taken = 0

    def going() -> bool:
        return taken < EPOCHS * PER_EPOCH and not faults

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                while going():
                    work()
            except BaseException as error:
                faults.append(error)

        return threading.Thread(target=run)

    def ingest() -> None:
        nonlocal taken
        # Rows of an epoch lie anywhere in time.
        rows = [{"ts": at((n * 7919) % 1000), "n": n} for n in range(taken, taken + PER_EPOCH)]
        pond.ingest("r", rows)
        taken += PER_EPOCH
        pond.step()

    def invoke() -> None:
        answer = even.result()
        found = numbers(answer)
        rows = answer.epoch * PER_EPOCH
        assert sorted(found) == list(range(0, rows, 2)), f"epoch {answer.epoch}"

    def invoke_groups() -> None:
        answer = total.result()
        rows = answer.epoch * PER_EPOCH
        assert answer.to_pylist() == [{"c": rows, "t": rows * (rows - 1) // 2 if rows else None}]

    def register_and_drop() -> None:
        handle = pond.register("SELECT n FROM r WHERE n < 10 BEGIN NOW - 100000 ROWS END NOW")
        before = pond._core.published.epoch
        answer = handle.result()
        assert answer.epoch >= before
        assert sorted(numbers(answer)) == list(range(min(10, answer.epoch * PER_EPOCH)))
        handle.drop()
        with pytest.raises(QueryError):
            handle.result()

    got: list[int] = []

    def subscribe() -> None:
        for batch in even.subscribe(timeout=120):
            got.extend(batch.rows["n"].to_pylist())
            if len(got) == EPOCHS * PER_EPOCH // 2 or faults:
                return

    works = [ingest, invoke, invoke_groups, register_and_drop, pond.maintain, subscribe]
    threads = [guarded(work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    if faults:
        raise faults[0]
    invoke()
    assert got == sorted(got, key=lambda n: (n // PER_EPOCH, (n * 7919) % 1000, n))
    assert sorted(got) == list(range(0, taken, 2))
