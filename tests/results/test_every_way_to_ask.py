"""Retention hides the same rows from every way to ask, subscriptions read in spans, lists come in pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from millpond.answers import subscription
from millpond.answers.describe.query_listing import list_queries
from millpond.answers.standing_answers import read_log

Factory = Callable[..., Any]
BASE = dt.datetime(2026, 1, 1)


def feed(pond: Any, stream: str, *seconds: int) -> None:
    pond.ingest(stream, [{"ts": BASE + dt.timedelta(seconds=t), "v": t} for t in seconds])
    pond.step()


@pytest.mark.parametrize("upkeep", [False, True])
def test_ad_hoc_queries_see_what_row_queries_see(inline_pond: Factory, upkeep: bool) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM r (ts TIMESTAMP, v BIGINT) WITH (event_time='ts', retention='5 seconds')")
    texts = [
        "SELECT v FROM r",
        "SELECT DISTINCT v FROM r WHERE v <> 22",
        "SELECT v FROM r ORDER BY v DESC LIMIT 5",
        "SELECT count(*) AS n, sum(v) AS t FROM r",
        "SELECT v % 2 AS k, count(*) AS n FROM r GROUP BY k",
        "SELECT v FROM r BEGIN '2000-01-01' END NOW",
    ]
    handles = [pond.register(text) for text in texts]
    for seconds in ((1, 2, 6), (20,), (22,)):
        feed(pond, "r", *seconds)
        if upkeep:
            pond.maintain()
        for text, handle in zip(texts, handles, strict=True):
            rows = pond.sql(text).to_arrow().to_pylist()
            assert sorted(map(str, rows)) == sorted(map(str, handle.result().to_pylist())), text
    assert pond.sql(texts[0]).to_arrow()["v"].to_pylist() == [20, 22]


@pytest.mark.parametrize("most", [1, 3, 7])
def test_outstanding_answers_are_read_in_spans(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')")
    pond.sql("CREATE QUERY q AS SELECT v % 3 AS k, sum(v) AS t FROM s [RANGE TUMBLING 2 SECONDS] GROUP BY k")
    for n in range(6):
        feed(pond, "s", *range(5 * n, 5 * n + 5))
    feed(pond, "s", 3)  # late
    wanted = pond.sql("SELECT * FROM q ALL REVISIONS").to_arrow().to_pylist()
    sizes: list[int] = []

    def counted(*arguments: Any) -> Any:
        log = read_log(*arguments)
        epochs = set(log["_epoch"].to_pylist())
        assert log.num_rows <= most or len(epochs) == 1
        sizes.append(log.num_rows)
        return log

    monkeypatch.setattr(subscription, "AT_ONCE", most)
    monkeypatch.setattr(subscription, "read_log", counted)
    batches = list(pond.subscribe("q", timeout=0))
    assert [row for b in batches for row in b.rows.to_pylist()] == wanted and len(sizes) > 2
    for at, batch in enumerate(batches):  # from every cursor, and from the middle of every batch
        rest = [row for b in batches[at + 1 :] for row in b.rows.to_pylist()]
        assert [r for b in pond.subscribe("q", batch.cursor, timeout=0) for r in b.rows.to_pylist()] == rest
        inside = subscription.Cursor(batch.epoch, 1, batch.cursor.query)
        more = [r for b in pond.subscribe("q", inside, timeout=0) for r in b.rows.to_pylist()]
        assert more == batch.rows.to_pylist()[1:] + rest


def test_pages_of_queries_are_the_list(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')")
    assert list_queries(pond._core.view)[0].num_rows == 0
    for n in range(12):
        kind = "[RANGE TUMBLING 2 SECONDS]" if n % 4 == 0 else ""
        pond.sql(f"CREATE QUERY {'ab'[n % 2]}{n} AS SELECT count(*) AS n FROM s {kind}")
    pond.register("SELECT v FROM s")
    pond.sql("DROP QUERY b3; DROP QUERY a4")
    listed = pond.sql("SHOW QUERIES").to_arrow().sort_by("id")
    for prefix in ("", "a", "b1", "#", "x"):
        wanted = [r for r in listed.to_pylist() if r["query"].startswith(prefix)]
        for most in (1, 2, 3, 100):
            found: list[Any] = []
            after: int | None = -1
            while after is not None:
                page, after = list_queries(pond._core.view, after, most, prefix)
                assert page.schema == listed.schema and page.num_rows <= most
                found += page.to_pylist()
            assert found == wanted
