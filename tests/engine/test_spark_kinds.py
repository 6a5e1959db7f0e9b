"""A few windows of each kind through Spark: the answers are those of the executor in this process."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from tests.windows.months import Months

Factory = Callable[..., Any]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EPOCH = dt.datetime(2026, 1, 10)
BOTH = "(a UNION ALL b)"

#: By name: what follows CREATE QUERY name.
QUERIES = {
    "landmark": "AS SELECT k, sum(n) AS s FROM a [RANGE ALL SINCE '06:00' DAILY SLIDE 10 SECONDS] GROUP BY k",
    "several": "AS SELECT count(*) [RANGE 20 s SLIDE 10 s] AS c, max(n) [RANGE 30 s SLIDE 10 s] AS m,"
    " sum(n) [RANGE ALL SINCE '06:00' DAILY SLIDE 10 s] AS t FROM a",
    "rows": "AS SELECT k, sum(n) AS s FROM a [PARTITION BY k ROWS 5 SLIDE 2]",
    "by_tuple": "AS SELECT count(*) AS c FROM a [RANGE 9 SECONDS SLIDE 1 ROW]",
    "united": f"AS SELECT k, count(*) AS c, sum(n) AS s FROM {BOTH} [RANGE 20 s SLIDE 10 s] GROUP BY k",
    "united_rows": f"AS SELECT k, sum(n) AS s FROM {BOTH} [PARTITION BY k ROWS 4 SLIDE 3]",
    "united_relation": f"AS SELECT ISTREAM(k, n) FROM {BOTH} [RANGE 9 SECONDS] WHERE n > 5",
    "joined": f"AS SELECT ISTREAM(u.n, b.m) FROM {BOTH} [ROWS 3] AS u, b [RANGE 5 SECONDS] WHERE u.k = b.kk",
    "relation": "AS SELECT k, count(*) AS c FROM a [ROWS 7] GROUP BY k",
    "months": f"AS SELECT k, count(*) AS c FROM {BOTH} [KIND months] GROUP BY k",
    "adaptive": "WITH (state='adaptive') AS SELECT k, sum(n) AS s FROM a [RANGE 20 s SLIDE 10 s] GROUP BY k",
    "tuples": "WITH (state='lazy', empty='report') AS SELECT k, sum(n) AS s FROM a [KIND months] GROUP BY k",
    "early": "WITH (early='1s', flush='slow', flush_delay='1s') AS"
    " SELECT k, count(*) AS c FROM a [RANGE 20 s SLIDE 10 s] GROUP BY k",
    "called": "AS SELECT k, sum(twice(n)) AS s FROM a [TUMBLING 10 s] WHERE odd(n) AND big(n) GROUP BY k",
    "derived": "AS SELECT count(*) AS c, sum(s) AS s FROM busy [RANGE 30 s SLIDE 30 s] WHERE op = '+'",
}

#: Answered by INVOKE.
INVOKED = {
    "picked": f"AS SELECT k, n FROM {BOTH} WHERE n > 6 BEGIN NOW - INTERVAL 30 SECONDS END NOW",
    "counted": f"AS SELECT k, count(*) AS c FROM {BOTH} GROUP BY k",
}


def _rows(stream: str, start: int, count: int) -> list[dict[str, Any]]:
    time, key, value = ("ts", "k", "n") if stream == "a" else ("at", "kk", "m")
    return [
        {time: EPOCH + dt.timedelta(seconds=start + i * 7 % 13), key: "xyz"[i % 3], value: i * 5 % 11}
        for i in range(count)
    ]


def _answers(pond: Any) -> dict[str, list[Any]]:
    pond.register_window_kind("months", Months())
    for name, function, returns in (
        ("odd", lambda n: n % 2 == 1, "BOOLEAN"),
        ("big", lambda n: n > 3, "BOOLEAN"),
        ("twice", lambda n: 2 * n, "BIGINT"),
    ):
        pond.register_function(name, function, arguments=["BIGINT"], returns=returns)
    pond.sql("CREATE STREAM a (ts TIMESTAMP, k TEXT, n BIGINT) WITH (event_time='ts', lateness='5 s')")
    pond.sql("CREATE STREAM b (at TIMESTAMP, kk TEXT, m INTEGER) WITH (event_time='at', lateness='5 s')")
    pond.sql("CREATE STREAM busy AS SELECT k, sum(n) AS s FROM a [RANGE TUMBLING 10 SECONDS] GROUP BY k")
    for name, text in (QUERIES | INVOKED).items():
        pond.sql(f"CREATE QUERY {name} {text}")
    for start in (0, 20, 10):
        pond.ingest("a", _rows("a", start, 20))
        pond.ingest("b", _rows("b", start, 9))
        pond.drain()
    filled = ["united", "united_rows", "united_relation", "months"]
    for name in filled:
        pond.sql(f"CREATE QUERY filled_{name} {QUERIES[name]} WITH (since='start')")
    pond.drain(final=True)
    found = {}
    for name in [*QUERIES, *(f"filled_{n}" for n in filled)]:
        columns = [c for c in pond.query(name).info()["columns"] if c["name"] not in ("revision", "status")]
        shown = pond.sql(f"SELECT * FROM {name}").table
        names = [c["name"] for c in columns if c["name"] in shown.column_names]
        found[name] = sorted(str(tuple(row.values())) for row in shown.select(names).to_pylist())
    for name in INVOKED:
        found[name] = sorted(str(row) for row in pond.sql(f"INVOKE {name}").rows())
    for name in ("united", "united_rows", "landmark"):
        select = QUERIES[name].split("AS ", 1)[1]
        found[f"asked {name}"] = sorted(str(row) for row in pond.sql(select).rows())
    return found


def test_every_kind_of_window(spark_pond: Factory, inline_pond: Factory) -> None:
    expected, found = _answers(inline_pond("inline")), _answers(spark_pond("spark"))
    for name, answers in expected.items():
        assert answers, name
        assert found[name] == answers, name
        if name.startswith("filled_"):
            assert found[name] == found[name.removeprefix("filled_")], name
