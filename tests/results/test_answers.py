"""Answers as tables: the latest revision of each row, vanished rows gone, and none of it changed by compaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

import millpond.archive.upkeep.compaction as compaction

Factory = Callable[..., Any]


def feed(pond: Any, *seconds: int) -> None:
    base = dt.datetime(2026, 1, 1)
    pond.ingest("s", [{"ts": base + dt.timedelta(seconds=t), "k": "ab"[t % 2], "v": t} for t in seconds])
    pond.step()


@pytest.fixture
def pond(inline_pond: Factory) -> Any:
    made = inline_pond(compact_files=3)
    made.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')")
    made.sql(
        "CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k HAVING count(*) < 3"
    )
    return made


def seen(pond: Any, *options: str) -> list[tuple[Any, ...]]:
    rows = pond.sql(f"SELECT * FROM q {' '.join(options)}").rows()
    return [(r[0].second, *r[2:]) for r in rows]


def test_a_row_that_no_longer_holds_is_gone(pond: Any) -> None:
    feed(pond, 0, 1, 3, 12)
    assert seen(pond) == [(0, "a", 1, 0), (0, "b", 2, 0)]
    feed(pond, 5)  # late: b has three rows now
    assert seen(pond) == [(0, "a", 1, 0)]
    feed(pond, 2)
    assert seen(pond) == [(0, "a", 2, 1)]
    assert seen(pond, "ALL REVISIONS") == [
        (0, "a", 1, 0, "+"),
        (0, "b", 2, 0, "+"),
        (0, "b", 2, 1, "-"),
        (0, "a", 2, 1, "+"),
    ]
    assert [(r[2]) for r in pond.sql("SELECT * FROM late(s)").rows()] == [2, 5]


def test_compaction_and_restart_change_nothing(
    pond: Any, inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    feed(pond, 0, 1, 3, 12)
    feed(pond, 5, 13)
    pond.sql(
        "CREATE QUERY p WITH (since='start') AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"
    )
    pond.drain()
    feed(pond, 24, 35)
    both = [pond.sql(f"SELECT * FROM {q} ALL REVISIONS").rows() for q in "qp"]
    files = len(pond._core.storage.results.segments)
    for _ in range(4):
        pond.maintain()
        assert [pond.sql(f"SELECT * FROM {q} ALL REVISIONS").rows() for q in "qp"] == both
    assert len(pond._core.storage.results.segments) < files
    pond.close()
    again = inline_pond(compact_files=3)
    assert [again.sql(f"SELECT * FROM {q} ALL REVISIONS").rows() for q in "qp"] == both
    feed(again, 6)
    assert [r for r in seen(again) if r[0] == 0] == [(0, "a", 2, 1)]


def test_answers_of_a_dropped_query_are_not_found_by_its_namesake(pond: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    feed(pond, 0, 12)
    feed(pond, 25)
    pond.sql("DROP QUERY q")
    pond.maintain()
    pond.sql("CREATE QUERY q AS SELECT k, max(v) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k")
    pond.drain()
    assert seen(pond) == []
    feed(pond, 38)
    assert seen(pond) == [(20, "b", 25, 0)]


def test_retention_and_expiry_keep_answers(inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and state go, answers stay, and the number of files is bounded."""
    monkeypatch.setattr(compaction, "FAN_IN", 3)
    pond = inline_pond(compact_files=3)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts', retention='1 minute')")
    pond.sql("CREATE QUERY q WITH (revise_for='30 seconds') AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]")
    for start in range(0, 600, 20):
        feed(pond, *range(start, start + 20))
        pond.maintain()
    pond.drain(final=True)
    pond.maintain()
    assert [r[2] for r in pond.sql("SELECT * FROM q").rows()] == [10] * 60
    core = pond._core
    runtime = next(iter(core.streams.values()))
    assert pond.sql("SELECT min(v) FROM s").rows()[0][0] >= 400
    for table in (core.storage.state, core.storage.results, runtime.archive):
        assert len(table.segments) <= 12, table.folder
        assert table.orphans() == []
