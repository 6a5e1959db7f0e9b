"""Subscriptions: every answer once, in order, from any cursor, whatever happens to the files below."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

import millpond.archive.upkeep.compaction as compaction
from millpond.support.errors import QueryError
from millpond.types.results import Cursor

Factory = Callable[..., Any]


def made(pond: Any) -> Any:
    pond.sql("CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')")
    pond.sql("CREATE QUERY IF NOT EXISTS q AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k")
    return pond


def feed(pond: Any, start: int, stop: int, step: int = 1) -> None:
    base = dt.datetime(2026, 1, 1)
    pond.ingest(
        "s", [{"ts": base + dt.timedelta(seconds=t), "k": "cab"[t % 3], "v": t} for t in range(start, stop, step)]
    )
    pond.step()


def received(pond: Any, since: Any = None) -> tuple[list[dict[str, Any]], Cursor | None]:
    rows: list[dict[str, Any]] = []
    cursor = None
    for batch in pond.subscribe("q", since, timeout=0):
        rows += batch.rows.to_pylist()
        cursor = batch.cursor
    return rows, cursor


def test_every_answer_once_and_in_order(inline_pond: Factory) -> None:
    pond = made(inline_pond())
    feed(pond, 0, 25)
    feed(pond, 25, 47)
    feed(pond, 3, 5)  # late
    log = pond.sql("SELECT * FROM q ALL REVISIONS").to_arrow().to_pylist()
    rows, _ = received(pond)
    assert rows == log and {r["revision"] for r in rows} == {0, 1}
    batches = list(pond.subscribe("q", timeout=0))
    assert [b.epoch for b in batches] == sorted({b.epoch for b in batches})
    for batch in batches:
        ends = batch.rows["window_end"].to_pylist()
        assert ends == sorted(ends)


def test_from_any_row_on(inline_pond: Factory) -> None:
    """A cursor names a row: a consumer may stop in the middle of a batch."""
    pond = made(inline_pond())
    feed(pond, 0, 35)
    feed(pond, 35, 62)
    whole, _ = received(pond)
    at = 0
    for batch in pond.subscribe("q", timeout=0):
        for ordinal in range(1, batch.rows.num_rows + 1):  # 0 would mean: behind the whole epoch
            rest, _ = received(pond, str(Cursor(batch.epoch, ordinal, batch.cursor.query)))
            assert rest == whole[at + ordinal :]
        at += batch.rows.num_rows
    assert at == len(whole)


def test_a_cursor_outlives_restart_and_compaction(inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    pond = made(inline_pond())
    feed(pond, 0, 25)
    feed(pond, 25, 36)
    first, cursor = received(pond)
    pond.maintain()
    assert received(pond) == (first, cursor)
    pond.close()
    pond = made(inline_pond())
    feed(pond, 36, 51)
    feed(pond, 2, 4)
    pond.maintain()
    second, _ = received(pond, str(cursor))
    assert first + second == received(pond)[0]
    assert received(pond, received(pond)[1]) == ([], None)


def test_a_cursor_of_another_query_is_refused(inline_pond: Factory) -> None:
    pond = made(inline_pond())
    feed(pond, 0, 25)
    _, cursor = received(pond)
    pond.sql("DROP QUERY q")
    made(pond)
    with pytest.raises(QueryError, match="is of query"):
        received(pond, cursor)
    with pytest.raises(QueryError, match="not a cursor"):
        received(pond, "yesterday")
    with pytest.raises(QueryError, match="there is no query"):
        list(pond.subscribe("nothing"))


def test_cursors_are_ordered_and_read_back() -> None:
    assert sorted([Cursor(3, 1, 1), Cursor(2, 9, 1), Cursor(3, 0, 1)]) == [
        Cursor(2, 9, 1),
        Cursor(3, 0, 1),
        Cursor(3, 1, 1),
    ]
    assert Cursor.parse(str(Cursor(3, 1, 7))) == Cursor(3, 1, 7)
