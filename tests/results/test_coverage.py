"""Windows that retention has cut are marked, wherever windows are computed from the archive; whole ones are not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.operators.windowed.coverage import with_coverage
from millpond.types import DAY, TimeWindow

Factory = Callable[..., Any]
BASE = dt.datetime(2026, 1, 1)
COUNT = "SELECT count(*) AS n FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS]"


def feed(pond: Any, *seconds: int) -> None:
    pond.ingest("s", [{"ts": BASE + dt.timedelta(seconds=t), "v": t} for t in seconds])
    pond.step()


def opened(inline_pond: Factory, retention: str | None = "1 minute") -> Any:
    pond = inline_pond()
    extra = f", retention='{retention}'" if retention else ""
    pond.sql(f"CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts'{extra})")
    return pond


def second(moment: dt.datetime | None) -> float | None:
    return None if moment is None else (moment - BASE).total_seconds()


def covered(pond: Any, sql: str) -> dict[float, float | None]:
    """Window start -> covered_from, both in seconds."""
    return {second(r["window_start"]): second(r["covered_from"]) for r in pond.sql(sql).table.to_pylist()}


@pytest.fixture
def cut(inline_pond: Factory) -> Any:
    """Rows at 0, 5, … 95, a file each; those up to 30 are gone: 95 - 60 is 35, from which on retention keeps all."""
    pond = opened(inline_pond)
    pond.sql(f"CREATE QUERY live AS {COUNT}")
    for t in range(0, 100, 5):
        feed(pond, t)
    pond.maintain()
    assert pond.sql("SELECT min(v) FROM s").rows() == [(35,)]
    return pond


def expected(starts: range, last: float = 35.0) -> dict[float, float | None]:
    return {float(s): min(last, s + 20.0) if s < last else None for s in starts}


def test_windows_answered_live_are_whole(cut: Any) -> None:
    assert set(covered(cut, "SELECT * FROM live").values()) == {None}
    feed(cut, 100)
    assert set(covered(cut, "SELECT * FROM live").values()) == {None}


def test_back_fill_and_ad_hoc(cut: Any) -> None:
    cut.sql(f"CREATE QUERY q WITH (since='start') AS {COUNT}")
    cut.drain()
    # The first window with a row that is left is [20, 40).
    wanted = expected(range(20, 80, 10))
    assert wanted[20.0] == wanted[30.0] == 35.0 and wanted[40.0] is None
    assert covered(cut, "SELECT * FROM q") == wanted
    assert covered(cut, "SELECT * FROM q ALL REVISIONS") == wanted
    assert covered(cut, COUNT) == wanted
    (batch,) = cut.subscribe("q", timeout=0)
    assert batch.rows.column_names == ["window_start", "window_end", "n", "revision", "covered_from", "op"]
    assert [second(v) for v in batch.rows["covered_from"].to_pylist()] == list(wanted.values())
    assert cut.sql("SELECT count(*), max(n) FROM q WHERE covered_from IS NOT NULL").rows() == [(2, 3)]


def test_open_windows_at_registration(inline_pond: Factory) -> None:
    """A query that answers windows still open has what the archive has, also when they close live, days later."""
    pond = opened(inline_pond)
    for t in range(0, 100, 5):
        feed(pond, t)
    pond.maintain()
    wide = "SELECT count(*) AS n FROM s [RANGE 100 SECONDS SLIDE 10 SECONDS]"
    pond.sql(f"CREATE QUERY q AS {wide}")
    pond.drain()
    pond.close()
    pond = opened(inline_pond)
    for t in range(100, 200, 5):
        feed(pond, t)
    pond.maintain()  # what is removed later is in the state
    marked = covered(pond, "SELECT * FROM q")
    assert marked == {float(s): 35.0 if s <= 30 else None for s in range(0, 100, 10)}
    feed(pond, 50)  # late: revises
    rows = pond.sql("SELECT * FROM q WHERE revision = 1").table.to_pylist()
    assert {second(r["window_start"]): second(r["covered_from"]) for r in rows} == {
        float(s): 35.0 if s <= 30 else None for s in range(0, 60, 10)
    }


def test_a_query_that_takes_over_a_synopsis_takes_over_what_it_lacks(inline_pond: Factory) -> None:
    pond = opened(inline_pond)
    for t in range(0, 100, 5):
        feed(pond, t)
    pond.maintain()
    wide = "SELECT count(*) AS n FROM s [RANGE 100 SECONDS SLIDE 10 SECONDS]"
    pond.sql(f"CREATE QUERY q AS {wide}")
    pond.drain()
    pond.sql(f"CREATE QUERY p AS {wide}")
    feed(pond, 101, 112)
    pond.drain()
    assert covered(pond, "SELECT * FROM p") == covered(pond, "SELECT * FROM q") == {0.0: 35.0, 10.0: 35.0}


def test_invoke(cut: Any) -> None:
    assert covered(cut, "INVOKE live") == {75.0: None}
    assert covered(cut, "INVOKE live AS OF WATERMARK") == {75.0: None}
    assert covered(cut, "INVOKE live AS OF TIMESTAMP '2026-01-01 00:00:45'") == {25.0: 35.0}
    assert covered(cut, "INVOKE live AS OF TIMESTAMP '2026-01-01 00:00:51'") == {31.0: 35.0}


def test_pause_keeps_windows_whole(cut: Any) -> None:
    """RESUME computes from state, which retention does not cut."""
    cut.sql("ALTER QUERY live PAUSE")
    for t in range(100, 300, 5):
        feed(cut, t)
        cut.maintain()
    cut.sql("ALTER QUERY live RESUME")
    cut.step()
    rows = cut.sql("SELECT * FROM live").table.to_pylist()
    assert {r["covered_from"] for r in rows} == {None}
    assert {r["n"] for r in rows[1:]} == {4}


def test_the_cut_is_what_retention_says_and_survives(inline_pond: Factory) -> None:
    """Whatever files have been removed; and it does not go back."""
    pond = opened(inline_pond)
    for group in ((0, 1, 2), (10, 70), (71, 151, 200)):
        feed(pond, *group)
    seen = {float(s): 140.0 if s < 140 else None for s in (140, 150)}
    assert covered(pond, COUNT) == seen
    pond.maintain()
    # The limit is 140: the files up to 2 and up to 70 go, that with 71 stays.
    assert pond.status()["streams"]["s"]["removed_before"] == "2026-01-01 00:01:10.000001"
    pond.close()
    pond = opened(inline_pond)
    assert covered(pond, COUNT) == seen
    feed(pond, 5)  # a late file that is older than all that was removed last
    assert covered(pond, COUNT) == seen
    pond.maintain()
    assert pond.status()["streams"]["s"]["removed_before"] == "2026-01-01 00:01:10.000001"


def test_streams_without_retention_have_no_such_column(inline_pond: Factory) -> None:
    pond = opened(inline_pond, None)
    pond.sql(f"CREATE QUERY q AS {COUNT}")
    feed(pond, 0, 30)
    for sql in ("SELECT * FROM q", "SELECT * FROM q ALL REVISIONS", COUNT, "INVOKE q"):
        assert "covered_from" not in pond.sql(sql).table.column_names


def test_empty_answers_have_the_column(inline_pond: Factory) -> None:
    pond = opened(inline_pond)
    pond.sql(f"CREATE QUERY q AS {COUNT}")
    for sql in ("SELECT * FROM q", "SELECT * FROM q ALL REVISIONS", COUNT, "INVOKE q"):
        assert "covered_from" in pond.sql(sql).table.column_names, sql


@given(st.lists(st.integers(-100, 100), max_size=8), st.integers(1, 50), st.one_of(st.none(), st.integers(-120, 120)))
def test_definition(starts: list[int], width: int, removed: int | None) -> None:
    """Rows from `removed` on are all there: covered_from is the first instant behind all that a window may lack."""
    kind = pa.timestamp("us")
    table = pa.table(
        {
            "window_start": pa.array(starts, pa.int64()).cast(kind),
            "window_end": pa.array([s + width for s in starts], pa.int64()).cast(kind),
        }
    )
    found = with_coverage(table, removed, TimeWindow(DAY, DAY))["covered_from"].cast(pa.int64()).to_pylist()
    for start, value in zip(starts, found, strict=True):
        lacking = [t for t in range(start, start + width) if removed is not None and t < removed]
        assert value == (lacking[-1] + 1 if lacking else None)
