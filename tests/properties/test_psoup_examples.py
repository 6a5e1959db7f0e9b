"""The worked examples of standing row queries: joins, kinds of windows, aggregates of any window, prefix consistency.

E1 (rows that are there and rows that come) is a case: `tests/cases/selections/e1_rows.slt`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest

import millpond
from millpond.answers.row_queries import hot, trees
from tests.oracle import assert_rows_equal
from tests.quick import quick_folder

S = 1_000_000


@contextmanager
def pond(*statements: str, **settings: Any) -> Iterator[Any]:
    """A pond on which the statements were run."""
    with quick_folder() as folder, millpond.open(str(folder / "pond"), executor="inline", **settings) as opened:
        for statement in statements:
            opened.sql(statement)
        yield opened


def ingest(opened: Any, stream: str, times: list[int], **columns: list[Any]) -> None:
    """Rows at these seconds, in an epoch of their own."""
    table = {"ts": pa.array([t * S for t in times], pa.timestamp("us")), **columns}
    opened.ingest(stream, pa.table(table))
    opened.step()


def values(answer: Any) -> list[Any]:
    """The rows of an answer: tuples, or the values of its one column."""
    rows = [tuple(row.values()) for row in answer.to_pylist()]
    return [row[0] for row in rows] if answer.table.num_columns == 1 else rows


@pytest.mark.parametrize("materialize", ["auto", "partial", "complete", "none"])
@pytest.mark.parametrize("eager_rows", [1, 16_384])
def test_e2_join(materialize: str, eager_rows: int) -> None:
    r = "CREATE STREAM r (ts TIMESTAMP, id TEXT, a BIGINT) WITH (event_time='ts')"
    s = "CREATE STREAM s (ts TIMESTAMP, id TEXT, b BIGINT) WITH (event_time='ts')"
    with pond(r, s, eager_rows=eager_rows) as opened:
        text = "SELECT r.id, s.id AS other FROM r, s WHERE r.a < 5 AND r.a > s.b AND s.b > 1"
        early = opened.register(text, materialize=materialize)
        assert values(early.result()) == []
        ingest(opened, "r", [5, 5, 5], id=["r1", "r2", "r3"], a=[4, 7, 2])
        assert values(early.result()) == []
        ingest(opened, "s", [5, 5, 5], id=["s1", "s2", "s3"], b=[3, 1, 2])
        late = opened.register(text, materialize=materialize)
        for handle in (early, late):
            assert values(handle.result()) == [("r1", "s1"), ("r1", "s3")]
        ingest(opened, "r", [5], id=["r4"], a=[3])
        for handle in (early, late):
            assert values(handle.result()) == [("r1", "s1"), ("r1", "s3"), ("r4", "s3")]


@pytest.mark.parametrize("materialize", ["auto", "partial", "complete", "none"])
def test_e3_kinds_of_windows(materialize: str) -> None:
    with pond("CREATE STREAM r (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')") as opened:
        windows = {
            "snapshot": "BEGIN '1970-01-01 00:00:02' END '1970-01-01 00:00:04'",
            "landmark": "BEGIN '1970-01-01 00:00:05' END NOW",
            "sliding": "BEGIN NOW - INTERVAL 3 SECONDS END NOW",
        }
        asked = {
            name: opened.register(f"SELECT v FROM r {window}", name, materialize=materialize)
            for name, window in windows.items()
        }
        seen = []
        for t in range(12):
            ingest(opened, "r", [t], v=[t])
            seen.append({name: values(handle.result()) for name, handle in asked.items()})
        assert [len(seen[9][name]) for name in windows] == [3, 5, 4]
        assert [len(seen[10][name]) for name in windows] == [3, 6, 4]
        for now, answers in enumerate(seen):
            assert answers["snapshot"] == [v for v in (2, 3, 4) if v <= now]
            assert answers["landmark"] == list(range(5, now + 1))
            assert answers["sliding"] == list(range(max(0, now - 3), now + 1))
        # As it was: at an instant with all that is known, or as an epoch knew it.
        for now, answers in enumerate(seen):
            for name, handle in asked.items():
                assert values(handle.result(as_of=("timestamp", now * S))) == answers[name]


@pytest.mark.parametrize(
    ("full", "piece", "fine", "hot_bytes"),
    [(64, 16, 8, 1 << 29), (1_000, 128, 1, 1 << 29), (1_000, 128, 64, 300_000), (16_384, 4_096, 2_048, 1 << 29)],
)
def test_e4_aggregates_of_any_window(full: int, piece: int, fine: int, hot_bytes: int) -> None:
    chance = random.Random(full)
    times = [chance.randrange(5_000) for _ in range(4_000)]
    table = pa.table({
        "ts": pa.array([t * S for t in times], pa.timestamp("us")),
        "k": pa.array([chance.choice(["a", "b", None]) for _ in times]),
        "v": pa.array([chance.choice([None, chance.randrange(-(10**6), 10**6)]) for _ in times], pa.int64()),
        "x": pa.array([chance.gauss(0, 100) for _ in times], pa.float64()),
    })  # fmt: skip
    items = "max(v) AS high, min(x) AS low, count(*) AS n, sum(v) AS total, avg(x) AS mean, stddev_pop(v) AS spread"
    where = "x > -50 AND k <> 'b'"
    with (
        patch.object(hot, "FULL_ROWS", full),
        patch.object(trees, "PIECE", piece),
        patch.object(trees, "FINE", fine),
        pond("CREATE STREAM r (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE) WITH (event_time='ts', lateness='2 hours')",
             hot_bytes=hot_bytes) as opened,
        duckdb.connect() as plain,
    ):  # fmt: skip
        handles = [
            opened.register(f"SELECT {items} FROM r WHERE {where}", materialize=form)
            for form in ("partial", "complete", "none")
        ]
        for start in range(0, len(times), 1_000):
            opened.ingest("r", table.slice(start, 1_000))
            opened.step()
            rows = table.slice(0, start + 1_000)
            plain.register("rows", rows)
            for _ in range(6):
                begin, end = sorted(chance.randrange(-10, 5_010) * S for _ in range(2))
                sql = f"SELECT {items} FROM rows WHERE {where} AND epoch_us(ts) BETWEEN {begin} AND {end}"
                expected = plain.execute(sql).fetchall()
                for handle in handles:
                    assert_rows_equal(expected, values(handle.result(begin=begin, end=end)), floor=1e-6)


@pytest.mark.parametrize("eager_rows", [1, 16_384])
def test_e5_every_order_of_a_small_trace(eager_rows: int) -> None:
    """Two registrations, three arrivals and a drop, in every order that makes sense, asked after each.

    All orders happen side by side in one stream, each to rows and queries of its own; NOW is that of all of them.
    """
    arrivals = {"early": (10, 1), "later": (20, 2), "late": (5, 3)}
    texts = {
        "p": "SELECT v FROM r WHERE v <> 2 AND o = {}",
        "q": "SELECT v FROM r WHERE o = {} BEGIN NOW - 10 SECONDS END NOW",
    }
    orders = [
        order
        for order in itertools.permutations([*arrivals, *texts, "drop p"])
        if order.index("p") < order.index("drop p") and order.index("early") < order.index("late")
    ]
    assert len(orders) == 180
    declared = "CREATE STREAM r (ts TIMESTAMP, o BIGINT, v BIGINT) WITH (event_time='ts', lateness='1 minute')"
    with pond(declared, eager_rows=eager_rows) as opened:
        came: list[list[tuple[int, int]]] = [[] for _ in orders]
        alive: list[dict[str, Any]] = [{} for _ in orders]
        for at in range(6):
            coming = [(number, *arrivals[order[at]]) for number, order in enumerate(orders) if order[at] in arrivals]
            for number, order in enumerate(orders):
                if order[at] in texts:
                    text = texts[order[at]].format(number)
                    alive[number][order[at]] = opened.register(text, materialize="complete")
                elif order[at] == "drop p":
                    alive[number].pop("p").drop()
            if coming:
                numbers, times, each = (list(column) for column in zip(*coming, strict=True))
                ingest(opened, "r", times, o=numbers, v=each)
            for number, time, v in coming:
                came[number].append((time, v))
            now = max((t for rows in came for t, _ in rows), default=0)
            for number, order in enumerate(orders):
                brute = {
                    "p": [v for _, v in sorted(came[number]) if v != 2],
                    "q": [v for t, v in sorted(came[number]) if t >= now - 10],
                }
                for name, handle in alive[number].items():
                    answer = handle.result()
                    assert values(answer) == brute[name], (order, order[at], name)
                    assert answer.epoch == at + 1
