"""A row on which an expression of a row query's answer fails is a dead letter and left out; it holds up nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Factory

SELECTS = {
    "rows": ("SELECT CAST(k AS INTEGER) AS n FROM s WHERE v > 0", [(1,), (3,)]),
    "distinct": ("SELECT DISTINCT CAST(k AS INTEGER) AS n FROM s", [(1,), (3,)]),
    "sorted": ("SELECT v FROM s ORDER BY CAST(k AS INTEGER) DESC LIMIT 2", [(30,), (10,)]),
    "summed": ("SELECT sum(CAST(k AS INTEGER)) AS n FROM s BEGIN '2026-01-01' END NOW", [(4,)]),
    "grouped": ("SELECT CAST(k AS INTEGER) % 2 AS g, count(*) AS n FROM s GROUP BY g", [(1, 2)]),
    "overflowing": ("SELECT v * 100000000 AS n FROM s WHERE v < 25", [(1000000000,), (2000000000,)]),
    "nulls": ("SELECT CAST(nullif(k, 'x') AS INTEGER) AS n FROM s", [(1,), (None,), (3,)]),
}


def take(pond: Any, *rows: tuple[int, str, int]) -> None:
    pond.ingest("s", [{"ts": f"2026-01-01 00:00:{second:02d}", "k": k, "v": v} for second, k, v in rows])
    pond.drain()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("eager", [1, 16_384])
def test_the_row_is_left_out(inline_pond: Factory, before: bool, eager: int) -> None:
    pond = inline_pond(eager_rows=eager)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INTEGER) WITH (event_time='ts')")
    rows = (1, "1", 10), (2, "x", 20), (3, "3", 30)
    if before:
        take(pond, *rows)
    for name, (select, _) in SELECTS.items():
        pond.sql(f"CREATE QUERY {name} AS {select}")
    if not before:
        take(pond, *rows)
        letters = pond.sql("SELECT DISTINCT source FROM dead(s) ORDER BY 1").rows()
        assert letters == [("query grouped",), ("query overflowing",), ("query rows",)]
    for name, (_, expected) in SELECTS.items():
        assert pond.sql(f"INVOKE {name}").rows() == expected, name
        assert pond.sql(f"INVOKE {name}").rows() == expected, f"{name}, from what is kept"
    followed = [row["n"] for batch in pond.subscribe("rows", timeout=0) for row in batch.rows.to_pylist()]
    assert followed == ([] if before else [1, 3])
    take(pond, (4, "5", 1))
    assert pond.sql("INVOKE rows").rows() == [(1,), (3,), (5,)]
