"""Two-stream selections: rows and kept pairs equal DuckDB's join for any windows, keys and conditions."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.answers.row_queries import joins
from millpond.answers.row_queries.joins import join_rows
from millpond.answers.row_queries.pair_caches import PairCaches, SideView, fetch
from millpond.answers.row_queries.stretch import Stretch
from millpond.support.errors import QueryError
from millpond.synopses.blocks import Block
from millpond.types import (
    Aggregate,
    Column,
    GroupScan,
    JoinFactor,
    Key,
    OrderTerm,
    Output,
    RowQuery,
    RowScan,
    Side,
    StreamDefinition,
    StreamOptions,
)
from millpond.types.sql_expressions import parsed
from tests.quick import many, plain_duckdb
from tests.results.rows_of_blocks import matching_rows

COLUMNS = (Column("ts", "TIMESTAMP"), Column("a", "BIGINT"), Column("x", "DOUBLE"), Column("t", "VARCHAR"))
R = StreamDefinition("r", COLUMNS, StreamOptions(time="ts"), id=1)
S = StreamDefinition("s", COLUMNS, StreamOptions(time="ts"), id=2)
FACTORS = [
    JoinFactor(parsed('"a"'), "=", parsed('"a"'), "integer"),
    JoinFactor(parsed('"a"'), "<", parsed('"a" + 3'), "integer"),
    JoinFactor(parsed('"a" - 1'), ">=", parsed('"a"'), "integer"),
    JoinFactor(parsed('"x"'), "=", parsed('"x"'), "float"),
    JoinFactor(parsed('"x"'), ">", parsed('"x" + 0.5'), "float"),
    JoinFactor(parsed('"x"'), "<=", parsed('"x"'), "float"),
    JoinFactor(parsed('"t"'), "=", parsed('"t"'), "text"),
    JoinFactor(parsed('"t"'), "<", parsed('"t"'), "text"),
]


def rows(rng: random.Random, count: int, low: int = 0, high: int = 100, first_id: int = 0, epoch: int = 1) -> pa.Table:
    """Random rows in order: duplicates, NULL and NaN keys, -0.0."""

    def some(values: list[Any]) -> list[Any]:
        return [rng.choice(values) for _ in range(count)]

    table = pa.table(
        {
            "ts": pa.array(some(list(range(low, high))), pa.timestamp("us")),
            "a": pa.array(some([None, *range(-5, 12)]), pa.int64()),
            "x": pa.array(some([None, float("nan"), -0.0, 0.0, 0.5, 1.0, -1.5, float("inf"), 2.0]), pa.float64()),
            "t": pa.array(some([None, "", "a", "ab", "b", "é", "z"]), pa.string()),
            "_id": pa.array(range(first_id, first_id + count), pa.int64()),
            "_epoch": pa.array([epoch] * count, pa.int64()),
            "_bound": pa.nulls(count, pa.int64()),
        }
    )
    return table.sort_by([("ts", "ascending"), ("_id", "ascending")])


def selection(join: JoinFactor | None, rest: str | None = None, **query: Any) -> RowQuery:
    """SELECT r._id-like columns of both sides."""
    select = (
        Output("lt", parsed('epoch_us("0.ts")').typed("BIGINT")),
        Output("la", parsed('"0.a"').typed("BIGINT")),
        Output("lx", parsed('"0.x"').typed("DOUBLE")),
        Output("rt", parsed('epoch_us("1.ts")').typed("BIGINT")),
        Output("ra", parsed('"1.a"').typed("BIGINT")),
        Output("rw", parsed("\"1.t\" || '!'").typed("VARCHAR")),
    )
    shown = query.pop("select", select)
    kind = GroupScan if query.pop("grouped", False) else RowScan
    where = parsed(rest) if rest else None
    return RowQuery(kind(stream="r", select=shown, where=where, **query), (Side("r"), Side("s")), join)


def reference(
    left: pa.Table, right: pa.Table, join: JoinFactor | None, stretches: tuple[Stretch, Stretch], rest: str | None
) -> list[tuple[Any, ...]]:
    """The pairs by DuckDB alone, in order."""

    def side(name: str, stretch: Stretch) -> str:
        parts = ["true"]
        if stretch.begin is not None:
            parts.append(f"(epoch_us(ts), _id) >= ({stretch.begin}, {stretch.first_id or -1})")
        if stretch.end is not None:
            parts.append(f"epoch_us(ts) <= {stretch.end}")
        renamed = f"({join.left}) AS k" if join and name == "l" else f"({join.right}) AS k" if join else "1 AS k"
        return f"(SELECT *, {renamed} FROM {name} WHERE {' AND '.join(parts)})"

    condition = "true" if join is None else f"p.k {join.operator} q.k"
    if rest is not None:
        condition += " AND (" + rest.replace('"0.', 'p."').replace('"1.', 'q."') + ")"
    sql = (
        f"SELECT epoch_us(p.ts), p.a, p.x, epoch_us(q.ts), q.a, q.t || '!' FROM {side('l', stretches[0])} p"
        f" JOIN {side('r', stretches[1])} q ON {condition} ORDER BY least(p.ts, q.ts), p._id, q._id"
    )
    with plain_duckdb() as db:
        db.register("l", left)
        db.register("r", right)
        return db.sql(sql).fetchall()


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples whose NaN are equal."""
    return [tuple(repr(v) for v in r.values()) for r in table.to_pylist()]


def texts(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(repr(v) for v in r) for r in found]


def cut(table: pa.Table, stretch: Stretch) -> pa.Table:
    times, ids = table["ts"].cast(pa.int64()).to_numpy(), table["_id"].to_numpy()
    return table.filter(pa.array(stretch.mask(times, ids)))


def every(block: Any, low: int, high: int) -> Any:
    """Every row matches."""
    return np.arange(low, high)


def some_stretch(rng: random.Random) -> Stretch:
    begin = rng.choice([None, rng.randint(-3, 103)])
    first = rng.choice([None, rng.randint(0, 200)]) if begin is not None else None
    return Stretch(begin, rng.choice([None, rng.randint(-3, 103)]), first)


@given(st.integers(0, 10**9))
@settings(max_examples=30, deadline=None)
def test_rows_join_as_in_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    left, right = rows(rng, rng.choice([0, 1, 60])), rows(rng, rng.choice([0, 1, 60]), first_id=1_000)
    join = rng.choice([*FACTORS, None])
    rest = rng.choice([None, None, '"0.a" + "1.a" > 3', '"0.t" <> "1.t" OR "0.x" IS NULL'])
    stretches = some_stretch(rng), some_stretch(rng)
    found = join_rows(selection(join, rest), (R, S), (cut(left, stretches[0]), cut(right, stretches[1])))
    assert tuples(found) == texts(reference(left, right, join, stretches, rest))


@given(st.integers(0, 10**9))
@many(1.2, 1)
def test_kept_pairs_answer_any_window_while_rows_arrive(seed: int) -> None:
    rng = random.Random(seed)
    join = rng.choice(FACTORS[:7])
    rest = rng.choice([None, None, '"0.a" + "1.a" > 3'])
    wanted, caches = selection(join, rest), PairCaches(1 << 30)
    own = rng.random() < 0.3  # a self join
    tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    blocks: tuple[list[Block], list[Block]] = ([], [])
    horizons: list[int | None] = [None, None]
    views: list[Any] = []
    for epoch in range(1, 6):
        for i in (0, 1):
            if i == 1 and own:
                tables[1][:], blocks[1][:] = tables[0], blocks[0]
                horizons[1] = horizons[0]
                continue
            new = rows(rng, rng.choice([0, 5, 20]), epoch * 15, epoch * 15 + 40, epoch * 1_000 + i * 500, epoch)
            tables[i].append(new)
            blocks[i].extend(Block.build(new, "ts"))
            if len(blocks[i]) > 2 and rng.random() < 0.5:
                merged = Block.build(pa.concat_tables([b.rows for b in blocks[i][-2:]]), "ts")
                blocks[i][-2:] = merged
            if rng.random() < 0.2:
                horizons[i] = rng.randint(0, 60)
        sides = tuple(SideView(tuple(blocks[i]), every, epoch, horizons[i]) for i in (0, 1))
        views.append((sides, tuple(pa.concat_tables(tables[i]) for i in (0, 1))))
        if rng.random() < 0.3:
            assert caches.refresh("q", wanted, (R, S), sides)  # type: ignore[arg-type]  # random values of one kind
        for back in (0, 0, rng.randrange(len(views))):
            older, both = views[-1 - back]
            stretches = some_stretch(rng), some_stretch(rng)
            found = caches.answer("q", wanted, (R, S), older, stretches)
            behind = [
                v.horizon is not None and (s.begin is None or s.begin < v.horizon)
                for s, v in zip(stretches, older, strict=True)
            ]
            assert (found is None) == any(behind)
            if found is not None:
                assert tuples(found) == texts(reference(*both, join, stretches, rest))


def test_paper_example() -> None:
    """E2 of the digest: R.a < 5 AND R.a > S.b AND S.b > 1."""

    def table(values: list[int], first_id: int) -> pa.Table:
        count = len(values)
        made = rows(random.Random(0), count, first_id=first_id)
        times = pa.array(range(count), pa.timestamp("us"))
        return (
            made.set_column(0, "ts", times)
            .set_column(1, "a", pa.array(values, pa.int64()))
            .set_column(4, "_id", pa.array(range(first_id, first_id + count), pa.int64()))
        )

    wanted = selection(
        JoinFactor(parsed('"a"'), ">", parsed('"a"'), "integer"),
        select=(Output("r", parsed('"0.a"').typed("BIGINT")), Output("s", parsed('"1.a"').typed("BIGINT"))),
    )

    def less(block: Any, low: int, high: int) -> Any:
        return np.flatnonzero(block.rows["a"].to_numpy()[low:high] < 5) + low

    def more(block: Any, low: int, high: int) -> Any:
        return np.flatnonzero(block.rows["a"].to_numpy()[low:high] > 1) + low

    s = Block.build(table([3, 1, 2], 1), "ts")
    caches = PairCaches(1 << 20)
    for values, pairs in (([4, 7, 2], {(4, 3), (4, 2)}), ([4, 7, 2, 3], {(4, 3), (4, 2), (3, 2)})):
        r = Block.build(table(values, 10), "ts")
        found = join_rows(wanted, (R, S), (matching_rows(r, less, Stretch()), matching_rows(s, more, Stretch())))
        assert {tuple(p.values()) for p in found.to_pylist()} == pairs
        sides = SideView(r, less, len(values)), SideView(s, more, len(values))
        caches.forget("q")
        kept = caches.answer("q", wanted, (R, S), sides, (Stretch(), Stretch()))
        assert kept is not None and kept.equals(found)


def test_groups_distinct_order_limit() -> None:
    rng = random.Random(5)
    left, right = rows(rng, 80), rows(rng, 80, first_id=1_000)
    grouped = selection(
        FACTORS[0],
        '"0.x" IS NOT NULL',
        select=(
            Output("t", parsed("k0").typed("VARCHAR")),
            Output("n", parsed("a0").typed("BIGINT")),
            Output("v", parsed("a1").typed("BIGINT")),
            Output("f", parsed("a2").typed("BIGINT")),
        ),
        grouped=True,
        keys=(Key("k0", parsed('"1.t"').typed("VARCHAR")),),
        aggregates=(
            Aggregate("a0", "count_star", type="BIGINT"),
            Aggregate("a1", "sum", (parsed('"0.a" * "1.a"').typed("BIGINT"),), type="HUGEINT"),
            Aggregate("a2", "first", (parsed('"0.a"').typed("BIGINT"),), type="BIGINT"),
        ),
        order_by=(OrderTerm(parsed("a0"), True), OrderTerm(parsed("k0"))),
        limit=4,
    )
    with duckdb.connect() as db:
        db.register("l", left)
        db.register("r", right)
        body = "FROM l JOIN r ON l.a = r.a WHERE l.x IS NOT NULL"
        wanted = db.sql(
            "SELECT r.t, count(*), sum(l.a * r.a)::BIGINT, first(l.a ORDER BY least(l.ts, r.ts), l._id, r._id)"
            f" {body} GROUP BY r.t ORDER BY 2 DESC, 1 NULLS LAST LIMIT 4"
        ).fetchall()
        plain = db.sql(
            f"SELECT DISTINCT l.a, r.t {body} ORDER BY 1 NULLS LAST, 2 NULLS LAST LIMIT 7 OFFSET 2"
        ).fetchall()
    found = join_rows(grouped, (R, S), (left, right))
    assert [tuple(r.values()) for r in found.to_pylist()] == wanted
    caches = PairCaches(1 << 30)
    sides = SideView(Block.build(left, "ts"), every, 1), SideView(Block.build(right, "ts"), every, 1)
    kept = caches.answer("g", grouped, (R, S), sides, (Stretch(), Stretch()))
    assert kept is not None and kept.equals(found)
    few = (Output("a", parsed('"0.a"').typed("BIGINT")), Output("t", parsed('"1.t"').typed("VARCHAR")))
    distinct = selection(
        FACTORS[0],
        '"0.x" IS NOT NULL',
        select=few,
        distinct=True,
        limit=7,
        offset=2,
        order_by=(OrderTerm(parsed('"0.a"')), OrderTerm(parsed('"1.t"'))),
    )
    assert [tuple(r.values()) for r in join_rows(distinct, (R, S), (left, right)).to_pylist()] == plain
    first = selection(FACTORS[0], limit=5, offset=3)
    every_pair = join_rows(selection(FACTORS[0]), (R, S), (left, right))
    assert join_rows(first, (R, S), (left, right)).equals(every_pair.slice(3, 5))
    count = selection(
        FACTORS[0],
        select=(Output("n", parsed("a0").typed("BIGINT")),),
        grouped=True,
        aggregates=(Aggregate("a0", "count_star", type="BIGINT"),),
    )
    assert join_rows(count, (R, S), (left, right)).to_pylist() == [{"n": every_pair.num_rows}]
    assert join_rows(count, (R, S), (None, right)).to_pylist() == [{"n": 0}]
    assert join_rows(first, (R, S), (left, None)).num_rows == 0


def test_too_many_pairs_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(6)
    left, right = rows(rng, 300), rows(rng, 300, first_id=1_000)
    with pytest.raises(QueryError, match=r"too many rows: 90000 joined rows.*narrow"):
        join_rows(selection(None), (R, S), (left, right), most=1_000)
    with pytest.raises(QueryError, match="more than 1000 joined rows"):
        join_rows(selection(None, '"0.a" <> "1.a"'), (R, S), (left, right), most=1_000)
    monkeypatch.setattr(joins, "CANDIDATES", 80_000)
    with pytest.raises(QueryError, match="the join factor alone gives 90000 joined rows, at most 80000"):
        join_rows(selection(None, '"0.a" > "1.a"'), (R, S), (left, right))


def test_failing_conditions_match_nothing_and_failing_outputs_are_errors() -> None:
    rng = random.Random(7)
    left, right = rows(rng, 30), rows(rng, 30, first_id=1_000)
    bad = selection(FACTORS[0], 'CAST("0.t" AS INTEGER) = 1')
    assert join_rows(bad, (R, S), (left, right)).num_rows == 0
    shown = selection(FACTORS[0], select=(Output("n", parsed('CAST("0.t" AS INTEGER)').typed("INTEGER")),))
    with pytest.raises(QueryError, match="cannot be answered"):
        join_rows(shown, (R, S), (left, right))
    key = selection(JoinFactor(parsed('CAST("t" AS BIGINT)'), "=", parsed('"a"'), "integer"))
    assert join_rows(key, (R, S), (left, right)).num_rows == 0


def test_kept_pairs_are_bounded() -> None:
    rng = random.Random(8)
    left, right = rows(rng, 200), rows(rng, 200, first_id=1_000)
    sides = SideView(Block.build(left, "ts"), every, 1), SideView(Block.build(right, "ts"), every, 1)
    whole = Stretch(), Stretch()
    small = PairCaches(50_000)
    assert small.answer("q", selection(FACTORS[1]), (R, S), sides, whole) is None
    assert small.nbytes == 0 and small.pairs("q") is None
    caches = PairCaches(1 << 30)
    assert caches.answer("q", selection(FACTORS[0]), (R, S), sides, whole) is not None
    one = caches.nbytes
    bounded = PairCaches(int(one * 2.5))
    for key in range(5):
        assert bounded.answer(key, selection(FACTORS[0]), (R, S), sides, whole) is not None
    assert bounded.nbytes <= bounded.budget and set(bounded.sizes()) == {3, 4}


def test_fetch_finds_rows_in_overlapping_blocks() -> None:
    rng = random.Random(9)
    parts = [rows(rng, 50, i * 5, i * 5 + 20, i * 100) for i in range(6)]
    blocks = [b for p in parts for b in Block.build(p, "ts")]
    table = pa.concat_tables(parts)
    chosen = [rng.randrange(table.num_rows) for _ in range(80)]
    some = table.take(pa.array(chosen))
    found, places = fetch(blocks, some["ts"].cast(pa.int64()).to_numpy(), some["_id"].to_numpy(), ["_id", "t"])
    assert found is not None
    assert found.take(pa.array(places))["_id"].to_pylist() == some["_id"].to_pylist()
    with pytest.raises(KeyError):
        fetch(blocks, np.array([3]), np.array([99_999]), ["_id"])
