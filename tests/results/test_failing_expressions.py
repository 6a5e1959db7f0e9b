"""A row on which an expression of a row query's answer fails is a dead letter and left out; it holds up nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millpond.operators.row_query.matching import REASONS
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


def test_each_letter_has_the_reason_of_its_own_row(inline_pond: Factory) -> None:
    """Of every kind of query: an error over several rows names the value of one of them."""
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INTEGER) WITH (event_time='ts')")
    pond.sql("CREATE STREAM o (ts TIMESTAMP, k INTEGER) WITH (event_time='ts')")
    failing = "CAST(k AS INTEGER)"
    queries = {
        "chosen": f"CREATE QUERY chosen AS SELECT k FROM s WHERE {failing} > v",
        "listed": f"CREATE QUERY listed AS SELECT {failing} AS n FROM s",
        "joined": "CREATE QUERY joined AS SELECT o.k FROM s, o WHERE s.v = o.k AND CAST(s.k AS INTEGER) > 1",
        "windows": f"CREATE QUERY windows AS SELECT sum({failing}) AS n FROM s [RANGE TUMBLING 1 MINUTE]",
        "runs": f"CREATE QUERY runs AS SELECT count(*) AS n FROM s [SESSION 1 MINUTE] GROUP BY {failing}",
        "last": f"CREATE QUERY last AS SELECT sum({failing}) AS n FROM s [ROWS 3 SLIDE 1]",
        "relation": f"CREATE QUERY relation AS SELECT ISTREAM(k) FROM s [RANGE 1 MINUTE] WHERE {failing} > 0",
        "derived": f"CREATE STREAM derived AS SELECT ts, {failing} AS n FROM s",
    }
    for text in queries.values():
        pond.sql(text)
    take(pond, *((second, k, second) for second, k in enumerate(["a", "3", "b", "b", "c", "4", "dd"])))
    letters = pond.sql("SELECT source, record, reason FROM dead(s)").to_arrow().to_pylist()
    assert {name for each in letters for name in queries if name in each["source"]} == set(queries)
    for letter in letters:
        value = json.loads(letter["record"])["k"]
        assert f"'{value}'" in letter["reason"], letter


def test_reasons_of_many_rows_name_no_value_of_others(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INTEGER) WITH (event_time='ts')")
    pond.sql("CREATE QUERY q AS SELECT v FROM s WHERE CAST(k AS INTEGER) > v")
    take(pond, *((n % 60, f"a{n}", n) for n in range(REASONS + 20)))
    letters = pond.sql("SELECT record, reason FROM dead(s)").to_arrow().to_pylist()
    own = [f"'{json.loads(each['record'])['k']}'" in each["reason"] for each in letters]
    assert len(own) == REASONS + 20 and sum(own) == REASONS
    rest = {e["reason"] for e, mine in zip(letters, own, strict=True) if not mine}
    assert rest == {"an expression of the query fails on this row"}
