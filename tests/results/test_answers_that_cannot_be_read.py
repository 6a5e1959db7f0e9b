"""SHOW QUERIES says what of its answers a query does not give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millpond.support.errors import QueryError
from tests.conftest import Factory
from tests.results.test_answers import feed


def shown(pond: Any) -> tuple[str, str, str]:
    [row] = pond.sql("SHOW QUERIES").table.to_pylist()
    return row["status"], row["reason"], row["coverage"]


def test_answers_that_are_damaged(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')")
    pond.sql("CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k")
    feed(pond, 1, 12)
    whole = pond.sql("SELECT n FROM q").rows()
    files = [f for f in Path(pond.path, "results").glob("*.parquet") if f.stat().st_size]
    kept = {file: file.read_bytes() for file in files}
    for file in files:
        file.unlink()
    with pytest.raises(QueryError, match=r"the answers of 'q' cannot be read: .*CREATE OR REPLACE QUERY q"):
        pond.sql("SELECT n FROM q")
    status, reason, _ = shown(pond)
    assert status == "unreadable" and "parquet" in reason
    for file, data in kept.items():
        file.write_bytes(data)
    assert pond.sql("SELECT n FROM q").rows() == whole
    assert shown(pond) == ("live", "", "complete")


def test_a_quarantined_query_is_not_complete(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')")
    pond.sql("CREATE QUERY q AS SELECT sum(CAST(k AS INTEGER) * v) AS n FROM s [RANGE UNBOUNDED]")
    feed(pond, 1, 12)
    pond.drain()
    status, reason, coverage = shown(pond)
    assert status == "quarantined" and "Conversion" in reason
    assert coverage == "nothing is answered"
