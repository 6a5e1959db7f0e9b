"""Joins whose rows are spread over shards report what they report in one shard, and only such that may be are."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millpond
from millpond.operators.relational import skew
from millpond.relations import runs
from millpond.types import Joined
from millpond.types.relation_queries import Copied, are_together
from tests.relations.setting import bound, stream

L, R, Q = (
    stream("l", k="INTEGER", v="DOUBLE"),
    stream("r", k="BIGINT", w="DOUBLE"),
    stream("q", k="VARCHAR", j="INTEGER"),
)
K = 'CAST("k" AS BIGINT)'
EPOCH = dt.datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("sql", "spread"),
    [
        ("SELECT ISTREAM(x.k, y.w) FROM l [NOW] x, r [NOW] y WHERE x.k = y.k", (K, K)),
        (
            "SELECT x.v, y.w FROM l [NOW] x, r [NOW] y WHERE x.k = y.k",
            "together",
        ),  # equal rows may come from different keys
        ("SELECT * FROM l [NOW] x, r [PARTITION BY k ROWS 2] y WHERE x.k = y.k", (K, K)),
        ("SELECT * FROM l [NOW] x, r [ROWS 2] y WHERE x.k = y.k", "together"),  # the last two of all rows
        ("SELECT y.k FROM l [NOW] x LEFT JOIN r [NOW] y ON x.k = y.k", ()),  # nothing of x is shown
        ("SELECT x.v + 1 AS v FROM l [NOW] x, r [NOW] y WHERE x.k = y.w", ()),
        ("SELECT x.k FROM l [NOW] x LEFT JOIN r [NOW] y ON x.k = y.k", (K, K)),
        ("SELECT x.k, y.k AS yk FROM l [NOW] x FULL JOIN r [NOW] y ON x.k = y.k", (K, K)),
        ("SELECT * FROM l [NOW] x, r [NOW] y, q [NOW] z WHERE x.k = y.k AND x.k = z.j", (K, K, 'CAST("j" AS BIGINT)')),
        ("SELECT x.k FROM l [NOW] x, r [NOW] y, q [NOW] z WHERE x.k = y.k AND y.w = z.j", "together"),
        ("SELECT x.k FROM l [NOW] x, q [NOW] z WHERE CAST(x.k AS VARCHAR) = z.k", "together"),  # a number and a text
        ("SELECT x.k FROM l [NOW] x, r [NOW] y WHERE x.k + 1 = y.k", "together"),
    ],
)
def test_what_may_be_spread(sql: str, spread: tuple[str, ...] | str) -> None:
    relation = bound(sql, L, R, Q)
    assert isinstance(relation.plan, Joined) and relation.joined is not None
    if spread == "together":  # in one shard, until the rows of one input are salted
        assert all(map(are_together, relation.joined.spread)) and Copied() in relation.joined.salting
    else:
        assert tuple(map(str, relation.joined.spread)) == spread


def story(folder: Path, shards: int, sql: str, options: str) -> list[tuple[Any, ...]]:
    """The log of a query over two streams with late rows, a restart, and rows that come out of order."""
    random, clock = np.random.default_rng(7), [0]
    given = {"executor": "inline", "shards": shards, "compact_files": 3, "clock": lambda: clock[0]}
    pond = millpond.open(folder / f"pond{shards}", **given)
    for name, column in (("l", "v"), ("r", "w")):
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, name TEXT, {column} INTEGER) WITH (event_time='ts')")
    pond.sql(f"CREATE QUERY q AS {sql} WITH ({options})")
    for step in range(8):
        clock[0] += 2_000_000
        for name, column in (("l", "v"), ("r", "w")):
            seconds = step * 10 + random.integers(-12 if step in (3, 5) else 0, 10, 12)
            rows = [
                {
                    "ts": EPOCH + dt.timedelta(seconds=int(s)),
                    "k": None if s % 11 == 0 else int(s) * 7 % 5,
                    "name": f"n{s % 3}",
                    column: int(n),
                }
                for n, s in enumerate(seconds)
            ]
            pond.ingest(name, rows)
            if step % 3 == 0:
                pond.step()
        pond.step()
        if step == 4:
            pond.close()
            pond = millpond.open(folder / f"pond{shards}", **given)
    if shards == 3:
        stored = pond.sql("SHOW SYNOPSES").table.to_pylist()
        assert all("spread by" in s["keys"] for s in stored)
    pond.drain(final=True)
    found = pond.sql("SELECT * FROM q ALL REVISIONS").rows()
    pond.close()
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        (
            "SELECT ISTREAM(l.k, l.v, r.w) FROM l [RANGE 15 SECONDS], r [RANGE 8 SECONDS] WHERE l.k = r.k",
            "revise_for='1h'",
        ),
        ("SELECT l.k, l.v, r.w FROM l [RANGE 15 SECONDS] LEFT JOIN r [RANGE 8 SECONDS] ON l.k = r.k", "early='1s'"),
        (
            "SELECT x.name, x.v, y.v AS u FROM l [RANGE 9 SECONDS] x, l [PARTITION BY name ROWS 2] y"
            " WHERE x.name = y.name AND x.k = y.k",
            "revise_for='12s'",
        ),
    ],
)
def test_any_number_of_shards_reports_the_same(
    tmp_path: Path, sql: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SMALL_RUN", 4)
    assert story(tmp_path, 3, sql, options) == story(tmp_path, 1, sql, options)


def test_a_key_with_half_of_the_rows_is_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skew, "ROWS", 50)
    found = {}
    for shards in (1, 3):
        random = np.random.default_rng(3)
        given = {"executor": "inline", "shards": shards, "compact_files": 3}
        pond = millpond.open(tmp_path / f"pond{shards}", **given)
        for name, column in (("l", "v"), ("r", "w")):
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, {column} INTEGER) WITH (event_time='ts')")
        pond.sql(
            "CREATE QUERY q AS SELECT l.k, l.v, r.w FROM l [RANGE 40 SECONDS], r [RANGE 9 SECONDS] WHERE l.k = r.k"
        )
        for step in range(9):
            for name, column in (("l", "v"), ("r", "w")):
                seconds = step * 10 + random.integers(-15 if step == 6 else 0, 10, 30)
                keys = (
                    np.where(random.random(30) < 0.5, 4, random.integers(0, 20, 30)) if step > 2 else np.arange(30) % 9
                )
                rows = [
                    {"ts": EPOCH + dt.timedelta(seconds=int(s)), "k": int(k), column: n % 7}
                    for n, (s, k) in enumerate(zip(seconds, keys, strict=True))
                ]
                pond.ingest(name, rows)
            pond.step()
            if step == 7:
                pond.close()
                pond = millpond.open(tmp_path / f"pond{shards}", **given)
        pond.drain(final=True)
        found[shards] = sorted(pond.sql("SELECT * FROM q ALL REVISIONS").rows(), key=repr)
        plan = "\n".join(row[0] for row in pond.sql("EXPLAIN ANALYZE q").rows())
        stores = " ".join(s["keys"] for s in pond.sql("SHOW SYNOPSES").table.to_pylist())
        pond.close()
        assert ("split: 4" in stores) == (shards > 1)
        assert ('= 4 is frequent; its rows are salted over the shards by "v"' in plan) == (shards > 1)
        assert ("= 4 is frequent; every shard has its rows" in plan) == (shards > 1)
    assert found[3] == found[1]


def test_chains_are_dealt_where_the_largest_input_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is shown: rows are in one shard, until those of l are many; then those of r and q are everywhere."""
    monkeypatch.setattr(skew, "ROWS", 50)
    found = {}
    for shards in (1, 3):
        random = np.random.default_rng(5)
        given = {"executor": "inline", "shards": shards, "compact_files": 3}
        pond = millpond.open(tmp_path / f"pond{shards}", **given)
        for name in "lrq":
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, j INTEGER) WITH (event_time='ts')")
        pond.sql(
            "CREATE QUERY q1 AS SELECT l.j AS lj, l.ts AS lts, q.j AS qj FROM r [RANGE 20 SECONDS],"
            " l [RANGE 40 SECONDS], q [RANGE 9 SECONDS] WHERE l.k = r.k AND r.j = q.k;"
            "CREATE QUERY q2 AS SELECT ISTREAM(l.j, r.j AS rj) FROM l [RANGE 9 SECONDS] LEFT JOIN r [ROWS 5]"
            " ON l.k = r.k"
        )
        for step in range(8):
            for name, count in (("l", 60 if step > 2 else 9), ("r", 9), ("q", 9)):
                seconds = step * 10 + random.integers(-15 if step == 6 else 0, 10, count)
                keys, others = random.integers(0, 6, count), random.integers(0, 6, count)
                triples = zip(seconds, keys, others, strict=True)
                rows = [
                    {"ts": EPOCH + dt.timedelta(seconds=int(s), microseconds=n), "k": int(k), "j": int(j)}
                    for n, (s, k, j) in enumerate(triples)
                ]
                pond.ingest(name, rows)
            pond.step()
            if step == 2:
                plan = "\n".join(row[0] for row in pond.sql("EXPLAIN q1").rows())
                assert "rows: in one shard; no column is equal for all streams" in plan and "exchange" not in plan
                assert 'where it pays, rows of l are salted over the shards by "j"' in plan
            if step == 6:
                pond.close()
                pond = millpond.open(tmp_path / f"pond{shards}", **given)
        pond.drain(final=True)
        found[shards] = [sorted(pond.sql(f"SELECT * FROM {q} ALL REVISIONS").rows(), key=repr) for q in ("q1", "q2")]
        plan = "\n".join(row[0] for row in pond.sql("EXPLAIN q1").rows())
        pond.close()
        assert ('exchange: of l, its rows are salted over the shards by "j"' in plan) == (shards > 1)
        assert ("exchange: of q, every shard has its rows" in plan) == (shards > 1)
    assert found[3] == found[1] and all(found[3])


def test_rows_on_disk_answer_alike_and_what_is_too_much_fails_the_query(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline", share=False) as pond:
        for name in "lr":
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, v INTEGER) WITH (event_time='ts', late='drop')")
        join = "SELECT ISTREAM(l.k, l.v, r.v AS w) FROM l [RANGE 40 SECONDS], r [RANGE 9 SECONDS] WHERE l.k = r.k"
        pond.sql(f"CREATE QUERY q AS {join}; CREATE QUERY d WITH (memory_rows=5) AS {join}")
        pond.sql(f"CREATE QUERY few WITH (held_rows=20) AS {join}")
        for step in range(6):
            for n, name in enumerate("lr"):
                rows = [
                    {"ts": EPOCH + dt.timedelta(seconds=step * 10 + s), "k": s * (n + 2) % 5, "v": s} for s in range(10)
                ]
                pond.ingest(name, rows)
            pond.step()
        assert pond.sql("SELECT * FROM d").rows() == pond.sql("SELECT * FROM q").rows() != []
        (reason,) = (r["reason"] for r in pond.sql("SHOW QUERIES").table.to_pylist() if r["query"] == "few")
        assert "rows in one shard" in reason and "may hold 20" in reason
    assert not any((tmp_path / "pond" / "spill").iterdir())
