"""Groups of which a reduced scan drew one row, or none: what their intervals say, and what they leave open."""

from __future__ import annotations

from typing import Any

import pytest

import millpond
from tests.oracle import sampling
from tests.results.test_reduced import CREATE, batch

DRAWN = [t for t in range(2000) if sampling.u(t, 1) < 0.1]
PASSED_OVER = [t for t in range(2000) if sampling.u(t, 1) >= 0.1]


@pytest.fixture
def pond(tmp_path: Any) -> Any:
    with millpond.open(tmp_path / "p", executor="inline") as opened:
        opened.sql(CREATE)
        yield opened


def test_a_group_that_was_not_drawn_may_have_been_there(pond: millpond.Pond) -> None:
    old = [(t, 1.0, "rare" if t in PASSED_OVER[:3] else "common") for t in range(2000)]
    pond.ingest("s", batch(old))
    pond.ingest("s", batch([(90_000, 1.0, "rare"), (90_001, 1.0, "common")]))
    pond.drain()
    sql = "SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a FROM s REDUCE age('1 hour', 0.9) GROUP BY k ORDER BY k"
    _, rare = pond.sql(sql).to_arrow().to_pylist()
    assert rare["n"] == rare["n_low"] == 1 and 4 <= rare["n_high"] < 40
    assert [rare[f"{name}_{end}"] for name in "sa" for end in ("low", "high")] == [None] * 4
    assert rare["fraction"] == 1 and not rare["exact"] and rare["small"]
    exact = pond.sql(sql.replace("1 hour", "2 days")).to_arrow().to_pylist()[1]
    assert exact["a_low"] == exact["a_high"] == 1 and exact["exact"] and not exact["small"]


def test_one_row_of_a_group_says_nothing_of_its_average(pond: millpond.Pond) -> None:
    one, other = DRAWN[:2]
    lonely = {one, *PASSED_OVER[:20]}
    pond.ingest("s", batch([(t, float(t % 7), "one" if t in lonely else "many") for t in range(2000)]))
    pond.drain()
    part = f"avg(v) FILTER (WHERE ts = TIMESTAMP '1970-01-01' + to_seconds({other}))"
    sql = f"SELECT k, count(*) AS n, avg(v) AS a, {part} AS p FROM s REDUCE sample(0.9) GROUP BY k ORDER BY k"
    many, few = pond.sql(sql).to_arrow().to_pylist()
    assert few["n"] == 10 and few["n_low"] < 10 < few["n_high"]
    assert few["a"] == one % 7 and few["a_low"] is None and few["a_high"] is None and few["small"]
    # Of a part of a large group, too: its other intervals are fine.
    assert many["a_low"] < many["a"] < many["a_high"] and many["p_low"] is None and many["small"]
    whole = pond.sql(sql.replace("sample(0.9)", "sample(0)")).to_arrow().to_pylist()
    assert all(r["a_low"] == r["a"] == r["a_high"] and not r["small"] and r["exact"] for r in whole)


def test_an_average_that_cannot_be_told_makes_error_read_more(pond: millpond.Pond) -> None:
    """A thousand of the rows are read first: one of the group, whose average would look exact."""
    n = 20_000
    first = next(t for t in range(n) if sampling.u(t, 1) < 0.05)
    later = [t for t in range(n) if 0.05 <= sampling.u(t, 1) < 0.4][:30]
    rare = {first, *later}
    pond.ingest("s", batch([(t, float(10 + t % 7), "rare" if t in rare else "common") for t in range(n)]))
    pond.drain()
    found = pond.sql("SELECT k, avg(v) AS a FROM s REDUCE error(0.5) GROUP BY k ORDER BY k").to_arrow().to_pylist()
    assert [row["k"] for row in found] == ["common", "rare"]
    assert all(row["exact"] or (row["a_high"] - row["a_low"]) / 2 <= 0.5 * row["a"] for row in found)
