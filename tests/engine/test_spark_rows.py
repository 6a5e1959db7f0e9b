"""Row queries on Spark: map tasks match new rows with old queries, jobs read what is behind the horizon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond.answers.row_queries import matched_rows as matching
from millpond.answers.row_queries import selection

Factory = Callable[..., Any]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 40_000
CONDITIONS = ("a BETWEEN 10 AND 14", "a = 7 AND b < 100", "b > 250 OR a IS NULL", "abs(a - b) < 2", "t LIKE 'x1%'")


def _file(folder: Path, number: int) -> pa.Table:
    """Rows that lag by up to ten seconds behind their file's end."""
    rng = np.random.default_rng(number)
    times = 1_700_000_000_000_000 + number * ROWS * 1000 + rng.permutation(ROWS) * 1000 - (number % 2) * 10_000_000
    a = pa.array(rng.integers(0, 256, ROWS).astype(np.int32), mask=rng.random(ROWS) < 0.01)
    text = pa.array([f"x{v}" for v in rng.integers(0, 50, ROWS)])
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "a": a,
            "b": rng.integers(0, 256, ROWS).astype(np.int32),
            "t": text,
        }
    )
    pq.write_table(table, folder / f"f{number}.tmp")
    (folder / f"f{number}.tmp").rename(folder / f"f{number}.parquet")
    return table


def test_new_rows_meet_old_queries_and_new_queries_old_rows(
    spark_pond: Factory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after a restart, with all rows hot and with nearly none, in jobs and in this process."""
    folder = tmp_path / "in"
    folder.mkdir()
    pond = spark_pond()
    pond.sql(
        "CREATE STREAM s (ts TIMESTAMP, a INTEGER, b INTEGER, t TEXT)"
        f" WITH (path='{folder}/*.parquet', lateness='20s', source='files')"
    )
    early = pond.register_many([f"SELECT ts, a, b, t FROM s WHERE {c}" for c in CONDITIONS[:3]])
    tables = [_file(folder, n) for n in range(3)]
    pond.drain()
    late = pond.register_many([f"SELECT ts, a, b, t FROM s WHERE {c}" for c in CONDITIONS[3:]])
    grouped = "SELECT b % 4 AS g, count(*) AS n, sum(a)::BIGINT AS total FROM {} WHERE a < 128 GROUP BY g ORDER BY g"
    counts = pond.register(grouped.format("s"))
    everything = pa.concat_tables(tables)
    db = duckdb.connect()
    db.register("everything", everything)
    assert list((Path(pond.path) / "hot").rglob("*.blocks")), "map tasks have matched"
    ids = [h.id for h in (*early, *late)]

    def check(pond: Any) -> None:
        for number, condition in zip(ids, CONDITIONS, strict=True):
            found = db.sql(f"SELECT ts, a, b, t FROM everything WHERE {condition}").to_arrow_table()
            answer = pond.query(number).result().table
            keys = [(k, "ascending") for k in ("ts", "a", "b", "t")]
            assert answer.num_rows == found.num_rows > 0, condition
            assert answer.sort_by(keys).to_pylist() == found.cast(answer.schema).sort_by(keys).to_pylist(), condition
        expected = db.sql(grouped.format("everything")).to_arrow_table().to_pylist()
        assert pond.query(counts.id).result().to_pylist() == expected

    assert everything.num_rows == 3 * ROWS
    check(pond)
    pond.close()
    pond = spark_pond()
    check(pond)
    pond.close()
    pond = spark_pond(hot_bytes=300_000)
    check(pond)
    monkeypatch.setattr(matching, "QUICK_ROWS", 1000)
    monkeypatch.setattr(selection, "QUICK_ROWS", 1000)
    check(pond)
