"""Joins without a common key on several shards: two inputs by their key, and copies of the others."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.operators.relational.skew import hashed
from millpond.types.relation_queries import EVERYWHERE
from tests.relations.setting import bound, stream
from tests.relations.xjoin import Equality, Span, xjoin

EPOCH = dt.datetime(2026, 1, 1)
STREAMS = [stream(name, a="INTEGER", b="BIGINT") for name in "vwxyz"]
A, B = 'CAST("a" AS BIGINT)', 'CAST("b" AS BIGINT)'
CHAIN = "v.b = w.a AND w.b = x.a"


@pytest.mark.parametrize(
    ("sql", "rates", "shards", "spread"),
    [
        (f"SELECT v.b, x.b AS c FROM v, w, x WHERE {CHAIN}", [1, 1, 1], 2, (B, A, EVERYWHERE)),
        (f"SELECT x.a FROM v, w, x WHERE {CHAIN}", [1, 1, 1], 2, (EVERYWHERE, B, A)),
        (f"SELECT v.b, x.a FROM v, w, x WHERE {CHAIN}", [1, 1, 3], 2, (EVERYWHERE, B, A)),
        (f"SELECT v.b FROM v, w, x WHERE {CHAIN}", [1, 1, 4], 2, ()),  # x is most of it: its rows are salted
        (f"SELECT v.a FROM v, w, x WHERE {CHAIN}", [1, 1, 1], 2, ()),  # equal rows could come from different keys
        (f"SELECT v.b FROM v, w, x WHERE {CHAIN}", [1, 1, 1], 1, ()),
        (f"SELECT v.b FROM v, w, x, y, z WHERE {CHAIN} AND x.b = y.a AND y.b = z.a", [1] * 5, 2, ()),
        (
            f"SELECT v.b FROM v, w, x, y, z WHERE {CHAIN} AND x.b = y.a AND y.b = z.a",
            [1] * 5, 4, (B, A, EVERYWHERE, EVERYWHERE, EVERYWHERE),
        ),
        ("SELECT w.b, v.a FROM v, w, x WHERE v.b = w.a AND w.b = x.a AND x.b = v.a", [1, 3, 2], 2, (EVERYWHERE, B, A)),
        ("SELECT v.b FROM v, w [ROWS 5], x WHERE v.b = w.a AND w.b = x.a", [1, 1, 1], 2, ()),  # the last five of all
        ("SELECT v.b FROM v, w, x [ROWS 5] WHERE v.b = w.a AND w.b = x.a", [1, 1, 1], 2, (B, A, EVERYWHERE)),
        ("SELECT v.a FROM v LEFT JOIN w ON v.a = w.a + 1", [1, 1], 2, ()),  # every shard would have rows of v alone
    ],
)  # fmt: skip
def test_which_key_is_taken(sql: str, rates: list[float], shards: int, spread: tuple[str, ...]) -> None:
    relation = bound(sql, *STREAMS)
    assert relation.joined is not None
    assert tuple(map(str, hashed(relation.joined, rates, shards))) == tuple(map(str, spread))


#: By name: which columns are equal, and what beside all columns is asked for.
GRAPHS: dict[str, list[Equality]] = {
    "chain3": [((0, 1), (1, 0)), ((1, 1), (2, 0))],
    "cycle3": [((0, 1), (1, 0)), ((1, 1), (2, 0)), ((2, 1), (0, 0))],
    "chain4": [((0, 1), (1, 0)), ((1, 1), (2, 0)), ((2, 1), (3, 0))],
}


def story(folder: Path, shards: int, name: str, seed: int) -> tuple[Counter[Any], Counter[Any], str]:
    """What a query reports of streams with late rows and a restart; what an XJoin of all rows says; and its plan."""
    drawn, clock, equalities = random.Random(f"{name}{seed}"), [0], GRAPHS[name]
    used = [s.name for s in STREAMS[: 1 + max(j for _, (j, _) in equalities[:3] if j)]]
    given: Any = {"executor": "inline", "shards": shards, "compact_files": 3, "clock": lambda: clock[0]}
    pond = millpond.open(folder / f"pond{shards}", **given)
    for each in used:
        pond.sql(f"CREATE STREAM {each} (ts TIMESTAMP, a INTEGER, b BIGINT) WITH (event_time='ts')")
    ranges = [drawn.choice([4, 9, 15]) for _ in used]
    tests = " AND ".join(f"{used[i]}.{'ab'[c]} = {used[j]}.{'ab'[d]}" for (i, c), (j, d) in equalities)
    shown = ", ".join(f"{s}.{c} AS {s}{c}" for s in used for c in "ab")
    items = ", ".join(f"{s} [RANGE {r} SECONDS]" for s, r in zip(used, ranges, strict=True))
    spans: list[list[Span]] = [[] for _ in used]

    def register() -> None:
        pond.sql(f"CREATE QUERY q AS SELECT {shown} FROM {items} WHERE {tests} WITH (revise_for='1h', since='start')")

    late = drawn.randint(0, 1)  # registered with rows from before, or not
    if not late:
        register()
    for step in range(5):
        clock[0] += 2_000_000
        for n, each in enumerate(used):
            found = []
            for _ in range(8):
                second = step * 8 + drawn.randint(-10 if step == 3 else 0, 7)
                values = (drawn.choice([0, 1, 2, None]), drawn.randint(0, 2))
                stamp = second * 1_000_000
                spans[n].append((stamp, stamp + ranges[n] * 1_000_000 + 1, values))
                found.append({"ts": EPOCH + dt.timedelta(seconds=second), "a": values[0], "b": values[1]})
            pond.ingest(each, found)
            if drawn.random() < 0.3:
                pond.step()
        pond.step()
        if step == 1 and late:
            register()
        if step == 2:
            pond.drain()
            pond.close()
            pond = millpond.open(folder / f"pond{shards}", **given)
    pond.drain(final=True)
    plan = "\n".join(row[0] for row in pond.sql("EXPLAIN q").rows())
    net: Counter[Any] = Counter()
    base = int(EPOCH.replace(tzinfo=dt.UTC).timestamp()) * 1_000_000
    table = pond.sql("SELECT * FROM q ALL REVISIONS").table
    columns = [f"{s}{c}" for s in used for c in "ab"]
    for row in table.to_pylist():
        at = round(row["at"].replace(tzinfo=dt.UTC).timestamp() * 1_000_000) - base
        net[at, tuple(row[c] for c in columns)] += 1 if row["op"] == row["change"] else -1
    pond.close()
    expected = xjoin(spans, equalities, list(range(len(used))))
    return Counter({k: n for k, n in net.items() if n}), expected, plan


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", [1, 2])
def test_any_number_of_shards_reports_what_recomputing_gives(name: str, seed: int, tmp_path: Path) -> None:
    plans = []
    for shards in (1, 3):
        found, expected, plan = story(tmp_path, shards, name, seed)
        assert found == expected != Counter()
        plans.append(plan)
    assert "exchange" not in plans[0] and "rows: in one shard" in plans[0]
    assert "exchange: rows are spread over the shards, " in plans[1] and "every shard has all rows" in plans[1]
