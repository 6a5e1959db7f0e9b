"""REDUCE in relations of CQL: rows count for as many as they stand for, in joins for the product of their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.archive.planning.scans import description
from tests.oracle import sampling

SECOND = 1_000_000


@pytest.fixture
def pond(tmp_path: Any) -> Any:
    with millpond.open(tmp_path / "p", executor="inline") as opened:
        opened.sql("CREATE STREAM s (ts TIMESTAMP, k INTEGER, v DOUBLE) WITH (event_time = 'ts')")
        opened.sql("CREATE STREAM t (ts TIMESTAMP, k INTEGER) WITH (event_time = 'ts')")
        yield opened


def rows(n: int, at: int = 0) -> pa.Table:
    draw = np.random.default_rng(at + 1)
    ts = pa.array((np.arange(n) + at) * SECOND, pa.timestamp("us"))
    return pa.table({"ts": ts, "k": pa.array(draw.integers(0, 20, n), pa.int32()), "v": draw.normal(50, 5, n)})


def kept(table: pa.Table, drop: float, seed: int, ordinal: int = 0) -> list[sampling.Kept]:
    listed = [
        ((ordinal << 32) | i, t, v, str(k))
        for i, (t, v, k) in enumerate(
            zip(table["ts"].cast(pa.int64()).to_pylist(), table["v"].to_pylist(), table["k"].to_pylist(), strict=True)
        )
    ]
    return sampling.scanned(listed, seed, [(-(2**62), drop)])


def test_aggregates_are_scaled(pond: millpond.Pond) -> None:
    table = rows(5000)
    pond.ingest("s", table)
    pond.drain()
    sql = "SELECT count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a, max(v) AS hi FROM s REDUCE sample(0.5)"
    answer = pond.sql(f"{sql} [RANGE 3999 SECONDS]").to_arrow()
    mine = [r for r in kept(table, 0.5, 1) if r.time >= 1000 * SECOND]
    wanted = sampling.estimate(mine)
    (row,) = answer.to_pylist()
    assert row["n"] == row["c"] == round(wanted.count)
    assert row["s"] == pytest.approx(wanted.sum) and row["a"] == pytest.approx(wanted.average)
    assert row["hi"] == max(r.value for r in mine if r.value is not None)
    told = description(answer)
    assert told is not None and told["rows"] == 5000 and told["read"]["rows"] == len(mine)
    filtered = pond.sql(f"{sql.replace('avg(v)', 'avg(v) FILTER (WHERE v > 50)')} [RANGE 3999 SECONDS]").to_arrow()
    assert filtered["a"][0].as_py() == pytest.approx(np.mean([r.value for r in mine if (r.value or 0) > 50]))


def test_pairs_stand_for_the_product_of_their_weights(pond: millpond.Pond) -> None:
    left, right = rows(1500), rows(1500, 7)
    pond.ingest("s", left)
    pond.ingest("t", right.select(["ts", "k"]))
    pond.drain()
    sql = (
        "SELECT count(*) AS n FROM s REDUCE sample(0.5) [RANGE UNBOUNDED] AS a"
        " JOIN t REDUCE sample(0.2) [RANGE UNBOUNDED] AS b ON a.k = b.k"
    )
    (row,) = pond.sql(sql).to_arrow().to_pylist()
    ours = np.bincount([int(r.key or 0) for r in kept(left, 0.5, 1)], minlength=20)
    now = 1499 * SECOND  # NOW of both: the smaller of their largest event times
    theirs = np.bincount([int(r.key or 0) for r in kept(right, 0.2, 2) if r.time <= now], minlength=20)
    assert abs(row["n"] - float((ours * theirs).sum()) * 2 * 1.25) <= 0.5 + 1e-6
    whole = pond.sql(sql.replace("REDUCE sample(0.5)", "").replace("REDUCE sample(0.2)", "")).rows()[0][0]
    assert abs(row["n"] - whole) < 0.2 * whole


def test_standing_relations_read_their_past_reduced_and_go_on_whole(pond: millpond.Pond) -> None:
    table = rows(2000)
    pond.ingest("s", table)
    pond.drain()
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n, avg(v) AS a FROM s REDUCE sample(0.75) [RANGE 999 SECONDS]")
    pond.drain()
    pond.ingest("s", rows(500, 2000))
    pond.drain()
    (row,) = pond.sql("INVOKE q").to_arrow().to_pylist()
    past = [r for r in kept(table, 0.75, 1) if r.time >= 1500 * SECOND]
    assert row["n"] == 4 * len(past) + 500
    (log,) = [r for r in pond.sql("SELECT * FROM q").to_arrow().to_pylist()]
    assert log["n"] in range(row["n"] - 20, row["n"] + 20)
    pond.ingest("s", rows(1500, 2500))
    pond.drain()
    assert pond.sql("INVOKE q").to_arrow()["n"].to_pylist() == [1000]


def test_rows_tell_their_weight(pond: millpond.Pond) -> None:
    pond.ingest("s", rows(400))
    pond.drain()
    answer = pond.sql("SELECT * FROM s REDUCE sample(0.5) [RANGE UNBOUNDED]").to_arrow()
    assert set(answer["_weight"].to_pylist()) == {2.0} and 150 < answer.num_rows < 250
    named = pond.sql("SELECT v FROM s REDUCE sample(0.5) [RANGE UNBOUNDED]").to_arrow()
    assert named.column_names == ["v"] and named.num_rows == answer.num_rows


def test_groups_and_having_use_estimates(pond: millpond.Pond) -> None:
    pond.ingest("s", rows(4000))
    pond.drain()
    sql = "SELECT k, count(*) AS n FROM s REDUCE sample(0.5) [RANGE UNBOUNDED] GROUP BY k HAVING count(*) > 150"
    answer = pond.sql(f"{sql} ORDER BY k").to_arrow().to_pylist()
    assert len(answer) > 10 and all(150 < r["n"] < 280 and r["n"] % 2 == 0 for r in answer)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT count(*) FROM (SELECT v FROM s REDUCE sample(0.5) [RANGE UNBOUNDED]) AS q",
            "where it stands",
        ),
        (
            "SELECT count(*) FROM t [RANGE UNBOUNDED] LEFT JOIN s REDUCE sample(0.5) [RANGE UNBOUNDED] ON s.k = t.k",
            "inner joins",
        ),
        ("SELECT v, count(*) OVER (PARTITION BY k) FROM s REDUCE sample(0.5) [RANGE UNBOUNDED]", "OVER"),
        ("SELECT count(*) FROM s REDUCE error(0.5) [RANGE UNBOUNDED]", "not for relations"),
        ("SELECT count(*) FROM s REDUCE BY INTERVAL '1 h' [RANGE UNBOUNDED]", "not for relations"),
    ],
)
def test_what_would_be_no_estimate_is_refused(pond: millpond.Pond, sql: str, message: str) -> None:
    with pytest.raises(millpond.StatementError, match=message):
        pond.sql(sql)
