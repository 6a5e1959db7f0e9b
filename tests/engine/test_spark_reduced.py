"""Reduced scans on Spark give what they give in one process: back-fill, ad hoc, INVOKE, archives with copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millpond.answers import archive_jobs
from millpond.archive.planning.scans import description

Factory = Callable[..., Any]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000_000
LIST = "k, count(*) AS n, sum(v) AS s, avg(v) AS a"
HOURLY = "[RANGE TUMBLING 1 HOUR]"
SINCE = "WITH (since = 'start') AS SELECT"


def _run(pond: Any) -> dict[str, Any]:
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k INTEGER, v BIGINT) WITH (event_time = 'ts', archive = 'replicate(0.5)')")
    draw = np.random.default_rng(11)

    def rows(first: int, count: int) -> pa.Table:
        times = pa.array(np.arange(first, first + count) * SECOND, pa.timestamp("us"))
        return pa.table(
            {"ts": times, "k": pa.array(draw.integers(0, 5, count), pa.int32()), "v": draw.integers(0, 2**40, count)}
        )

    for part in range(3):
        pond.ingest("s", rows(part * 10_000, 10_000))
        pond.drain()
    pond.register_reduction("third", lambda run: 1 / 3 if run.low else 0.0)
    pond.sql(f"CREATE QUERY q {SINCE} {LIST} FROM s REDUCE sample(0.8) {HOURLY} GROUP BY k")
    pond.sql(f"CREATE QUERY e {SINCE} count(*) AS n FROM s REDUCE error(0.05) {HOURLY}")
    pond.drain()
    pond.ingest("s", rows(30_000, 5_000))
    pond.drain(final=True)
    answers = {
        "windows": pond.sql("SELECT * FROM q ORDER BY window_end, k").to_arrow(),
        "error": pond.sql("SELECT * FROM e ORDER BY window_end").to_arrow(),
        "invoke": pond.sql("INVOKE q").to_arrow(),
        "adhoc": pond.sql(f"SELECT {LIST} FROM s REDUCE age('2 hours', 0.9) GROUP BY k ORDER BY k").to_arrow(),
        "rows": pond.sql("SELECT ts, v FROM s REDUCE sample(0.99)").to_arrow(),
        "mine": pond.sql("SELECT count(*) AS n FROM s REDUCE third()").to_arrow(),
    }
    told = {name: description(table) for name, table in answers.items()}
    assert told["adhoc"] is not None and set(told["adhoc"]["read"]["sections"]) == {"", "sample-0.5"}
    return {name: table.to_pylist() for name, table in answers.items()}


def test_reduced_scans_on_spark(spark_pond: Factory, inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_jobs, "QUICK_ROWS", 100)  # ad hoc scans are jobs, too
    expected, found = _run(inline_pond("inline")), _run(spark_pond("spark"))
    for name, rows in expected.items():
        assert rows and len(found[name]) == len(rows), name
        for row, other in zip(rows, found[name], strict=True):
            for column, value in row.items():
                wanted = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
                assert other[column] == wanted, (name, column)
