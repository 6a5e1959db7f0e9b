"""Registered aggregates: windows, relations, ad hoc, back-fill, late rows, restarts, failures."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millpond

START = dt.datetime(2024, 1, 1)
STREAM = "CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, w BIGINT) WITH (lateness='1 minute')"


def row(seconds: int, k: str, v: int | None, w: int = 1) -> dict[str, Any]:
    return {"ts": START + dt.timedelta(seconds=seconds), "k": k, "v": v, "w": w}


def weighted(values: list[int], weights: list[int]) -> float:
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def longest(values: pa.ListArray) -> pa.Array:
    return pc.list_value_length(values).cast(pa.int64())


def opened(folder: Path) -> Any:
    return millpond.open(folder, executor="inline")


def register(pond: Any) -> None:
    pond.register_aggregate("weighted", weighted, arguments=["BIGINT", "BIGINT"], returns="DOUBLE")
    pond.register_aggregate("many", longest, arguments=["BIGINT"], returns="BIGINT", vectorised=True)
    pond.register_aggregate("joined", lambda v: "-".join(map(str, v)), arguments=["BIGINT"], returns="VARCHAR")


ITEMS = "weighted(v, w) AS a, many(v) FILTER (WHERE v > 1) AS n, joined(v ORDER BY v DESC) AS j"
QUERY = f"SELECT k, {ITEMS} FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k HAVING many(v) > 0"
ROWS = [row(0, "a", 1), row(10, "b", 5, 2), row(20, "a", 4, 2), row(30, "a", None, 0), row(70, "a", 7)]


def answers(pond: Any, text: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = pond.sql(text).rows()
    return sorted(found)


@pytest.mark.parametrize("restart", [False, True])
def test_everywhere(tmp_path: Path, restart: bool) -> None:
    rows = [r for r in ROWS if r["v"] is not None]
    pond = opened(tmp_path / "pond")
    pond.sql(STREAM)
    register(pond)
    pond.sql(f"CREATE QUERY q AS {QUERY}")
    pond.sql("CREATE QUERY r AS SELECT k, weighted(v, w) AS a FROM s [RANGE UNBOUNDED] GROUP BY k")
    pond.ingest("s", rows[1:])
    pond.drain()
    if restart:
        pond.close()
        pond = opened(tmp_path / "pond")
    pond.ingest("s", rows[:1])
    pond.drain(final=True)
    expected = [("a", 3.0, 1, "4-1"), ("a", 7.0, 1, "7"), ("b", 5.0, 1, "5")]
    assert answers(pond, "SELECT k, a, n, j FROM q") == expected
    assert sorted(r[2:] for r in answers(pond, QUERY)) == expected  # ad hoc
    pond.sql(f"CREATE QUERY past WITH (since='start') AS {QUERY}")
    pond.drain()
    assert answers(pond, "SELECT k, a, n, j FROM past") == expected
    assert answers(pond, "SELECT k, a FROM r") == [("a", 4.0), ("b", 5.0)]
    assert answers(pond, "SELECT k, weighted(v, w) FROM s GROUP BY k") == [("a", 4.0), ("b", 5.0)]
    assert "weighted(BIGINT, BIGINT) -> DOUBLE" in pond.functions()
    pond.close()


def test_of_several_windows(tmp_path: Path) -> None:
    with opened(tmp_path / "pond") as pond:
        pond.sql(STREAM)
        register(pond)
        pond.ingest("s", [row(0, "a", 1), row(70, "a", 2), row(130, "a", 3)])
        pond.drain(final=True)
        items = "many(v) [RANGE 1 MINUTE SLIDE 1 MINUTE] AS one, many(v) [RANGE 2 MINUTES SLIDE 1 MINUTE] AS two"
        sql = f"SELECT {items} FROM s"
        assert [r[2:] for r in answers(pond, sql)] == [(1, 1), (1, 2), (1, 2), (None, 1)]


def test_a_failure_is_the_query_s_own(tmp_path: Path) -> None:
    def fails(values: list[int]) -> int:
        raise ValueError(f"not of {values}")

    with opened(tmp_path / "pond") as pond:
        pond.sql(STREAM)
        pond.register_aggregate("fails", fails, arguments=["BIGINT"], returns="BIGINT")
        pond.sql("CREATE QUERY bad AS SELECT fails(v) AS v FROM s [RANGE TUMBLING 1 MINUTE]")
        pond.sql("CREATE QUERY good AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 1 MINUTE]")
        pond.ingest("s", [row(0, "a", 1), row(100, "a", 2)])
        pond.drain(final=True)
        assert [r[2] for r in answers(pond, "SELECT * FROM good")] == [1, 2]
        (status,) = [str(r) for r in pond.sql("SHOW QUERIES").rows() if "bad" in r]
        assert "quarantined" in status and "not of [1]" in status


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT k FROM s WHERE many(v) > 1", "WHERE"),
        ("SELECT k, many(v, w) FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k", "takes 1 argument"),
    ],
)
def test_refused(tmp_path: Path, text: str, says: str) -> None:
    with opened(tmp_path / "pond") as pond:
        pond.sql(STREAM)
        register(pond)
        with pytest.raises(millpond.StatementError, match=says):
            pond.sql(text)
