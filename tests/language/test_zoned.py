"""Texts with an offset beside a TIMESTAMP mean their instant, wherever they stand."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

import millpond
from millpond.language.inference.zoned import utc_text

ZONED = "'1970-01-01 01:00:05+01:00'"  # five seconds after 1970


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[millpond.Pond]:
    path: Path = tmp_path_factory.mktemp("zoned") / "pond"
    with millpond.open(path, executor="inline") as pond:
        pond.sql("""CREATE STREAM s (ts TIMESTAMP, tz TIMESTAMPTZ, t TEXT, a INTEGER, l TIMESTAMP[])
            WITH (source = 'ingest', event_time = 'ts')""")
        start = dt.datetime(1970, 1, 1)
        rows = []
        for n in range(10):
            ts = start + dt.timedelta(seconds=n)
            text = "1970-01-01 01:00:05+01:00" if n == 7 else "x"
            rows.append({"ts": ts, "tz": ts.replace(tzinfo=dt.UTC), "t": text, "a": n, "l": [ts]})
        pond.ingest("s", rows)
        pond.drain(final=True)
        yield pond


CONDITIONS = {
    f"ts <= {ZONED}": range(6),
    f"{ZONED} > ts": range(5),
    f"ts = ({ZONED})": [5],
    f"ts <= TIMESTAMP {ZONED}": range(6),
    f"ts <= CAST({ZONED} AS TIMESTAMP)": range(6),
    f"ts <= TIMESTAMPTZ {ZONED}": range(6),
    f"tz <= {ZONED}": range(6),
    f"ts BETWEEN {ZONED} AND '1970-01-01T00:00:06Z'": [5, 6],
    f"ts IN ({ZONED}, '1969-12-31 23:00:01-01')": [1, 5],
    f"ts NOT IN ({ZONED})": [0, 1, 2, 3, 4, 6, 7, 8, 9],
    f"ts IS NOT DISTINCT FROM {ZONED}": [5],
    f"ts + INTERVAL 1 SECOND <= {ZONED}": range(5),
    f"l[1] = {ZONED}": [5],
    f"coalesce(ts, {ZONED}) = {ZONED} AND a + a > 1": [5],
    f"date_diff('second', {ZONED}, ts) = 0": [5],
    f"CASE ts WHEN {ZONED} THEN 1 END = 1": [5],
    f"NOT (ts > {ZONED} OR a > 3)": range(4),
    f"t = {ZONED}": [7],
    f"t || 'y' = {ZONED}": [],
    "ts <= '1970-01-01 00:00:05'": range(6),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_row_queries_ad_hoc_queries_and_windows_agree(pond: millpond.Pond, condition: str) -> None:
    wanted = list(CONDITIONS[condition])
    text = f"SELECT a FROM s WHERE {condition}"
    for _ in range(3):  # by shape, from the third time on
        assert [r["a"] for r in pond.register(text).result()] == wanted
    assert [r["a"] for r in pond.sql(text).to_arrow().to_pylist()] == wanted
    table = pond.sql(f"SELECT count(*) AS n FROM s [RANGE TUMBLING 1 HOUR] WHERE {condition}").to_arrow()
    assert sum(table["n"].to_pylist()) == len(wanted)
    assert pond.sql(f"SELECT count(*) FILTER ({condition}) AS n FROM s").to_arrow()["n"].to_pylist() == [len(wanted)]


def test_a_shape_learnt_without_an_offset_is_not_used_for_one_with_it(pond: millpond.Pond) -> None:
    for second in range(4):
        pond.register(f"SELECT a FROM s WHERE ts <= '1970-01-01 00:00:0{second}'")
    assert len(pond.register(f"SELECT a FROM s WHERE ts <= {ZONED}").result()) == 6
    assert len(pond.register("SELECT a FROM s WHERE ts <= '1970-01-01 00:00:07'").result()) == 8


def test_groups_joins_and_answers(pond: millpond.Pond) -> None:
    grouped = "SELECT a // 5 AS k, max(ts) AS m FROM s GROUP BY k HAVING "
    assert pond.sql(f"{grouped} max(ts) < {ZONED}").to_arrow()["k"].to_pylist() == [0]
    assert pond.sql(f"{grouped} max(ts) + INTERVAL 2 SECONDS < {ZONED}").to_arrow()["k"].to_pylist() == []
    by_time = f"SELECT ts, ts = {ZONED} AS five FROM s GROUP BY ts HAVING ts >= {ZONED} ORDER BY ts LIMIT 1"
    assert pond.sql(by_time).to_arrow()["five"].to_pylist() == [True]
    joined = f"SELECT x.a FROM s x, s y WHERE x.a = y.a AND x.ts <= {ZONED} AND y.ts + INTERVAL 1 SECOND > {ZONED}"
    assert pond.register(joined).result().to_pylist() == [{"a": 5}]
    pond.sql("CREATE QUERY w WITH (since = 'start') AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND]")
    pond.drain(final=True)
    for condition in (f"window_start = {ZONED}", f"w.window_end = TIMESTAMP {ZONED} + INTERVAL 1 SECOND"):
        assert len(pond.sql(f"SELECT * FROM w WHERE {condition}").to_arrow()) == 1
    assert pond.sql(f"SELECT min(window_start) < {ZONED} AS b FROM w").to_arrow()["b"].to_pylist() == [True]


@pytest.mark.parametrize("text", ["", "x", "2024-01-01", "2024-01-01 00:00:00", "2024-13-01 00:00:00+01", "1-1-1+1-1"])
def test_other_texts_stay(text: str) -> None:
    assert utc_text(text) is None
