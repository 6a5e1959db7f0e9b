"""`state='eager' | 'lazy' | 'adaptive'`: the form that is smaller, in files and in memory, and what is said of it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.forms import most_tuples, settled, tuples_of
from millpond.synopses import connection, partial, spec_of
from millpond.types import (
    Aggregate,
    BoundQuery,
    Column,
    Key,
    QueryOptions,
    StreamDefinition,
    StreamOptions,
    Window,
)

START = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
STREAM = StreamDefinition(
    "s", (Column("ts", "TIMESTAMP"), Column("k", "VARCHAR"), Column("v", "BIGINT")), StreamOptions(time="ts"), 1
)
WIDE = (
    Aggregate("a0", "count_star"),
    Aggregate("a1", "sum", ('"v"',), ("BIGINT",), type="HUGEINT"),
    Aggregate("a2", "stddev_pop", ('"v"',), ("BIGINT",), type="DOUBLE"),
    Aggregate("a3", "min", ('"v"',), ("BIGINT",)),
)


def query(*aggregates: Aggregate) -> BoundQuery:
    return BoundQuery("s", Window(30, 10), (), keys=(Key("k0", '"k"', "VARCHAR"),), aggregates=aggregates)


def rows(*drawn: tuple[int, str, int]) -> pa.Table:
    ts, k, v = zip(*drawn, strict=True)
    return pa.table({"ts": pa.array(ts, pa.timestamp("us")), "k": list(k), "v": pa.array(v, pa.int64())})


def test_only_bare_columns_can_be_kept() -> None:
    lazy, adaptive = QueryOptions(state="lazy"), QueryOptions(state="adaptive")
    assert spec_of(query(*WIDE), STREAM, lazy).carried == ('"v"',)
    computed = Aggregate("a0", "sum", ('"v" + 1',), ("BIGINT",), type="HUGEINT")
    assert spec_of(query(computed), STREAM, lazy).form == "eager"
    first = Aggregate("a0", "first", ('"v"',), ("BIGINT",))
    assert spec_of(query(first), STREAM, adaptive).carried == ('"ts"', '"v"', "_id")


def test_forms_do_not_share_synopses() -> None:
    kinds = {f: spec_of(query(*WIDE), STREAM, QueryOptions(state=f)) for f in ("eager", "lazy", "adaptive")}  # type: ignore[arg-type]
    assert len({s.key for s in kinds.values()}) == 3
    assert not kinds["eager"].serves(kinds["lazy"], query(*WIDE))


@given(
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from("abc"), st.integers(-9, 9)), min_size=1, max_size=60),
    st.data(),
)
def test_what_is_settled_is_the_same_and_smaller(drawn: list[tuple[int, str, int]], data: st.DataObject) -> None:
    db, spec = connection(), spec_of(query(*WIDE), STREAM, QueryOptions(state="adaptive"))
    at = data.draw(st.integers(0, len(drawn)))
    parts = [tuples_of(db, spec, rows(*part)) for part in (drawn[:at], drawn[at:]) if part]
    first = settled(db, spec, [], parts[:1])
    forms = settled(db, spec, [first.partials], [first.tuples, *parts[1:]])
    seen: dict[tuple[int, str], int] = {}
    for ts, k, _ in drawn:
        seen[ts // 10, k] = seen.get((ts // 10, k), 0) + 1
    most = most_tuples(db, spec, parts[0])
    assert most > 1
    kept = [(r["pane"], r["k0"]) for r in forms.tuples.to_pylist()]
    made = [(r["pane"], r["k0"]) for r in forms.partials.to_pylist()]
    assert len(set(made)) == len(made) and not set(kept) & set(made)
    assert {k: kept.count(k) for k in kept} == {k: n for k, n in seen.items() if n <= most}
    expected = partial(db, spec, rows(*drawn)).to_pylist()
    from millpond.engine.forms import as_partials
    from millpond.synopses import merge_partials

    got = merge_partials(db, spec, [as_partials(db, spec, t) for t in forms.tables]).to_pylist()
    key = lambda r: (r["pane"], r["k0"])  # noqa: E731
    assert [normal(r) for r in sorted(got, key=key)] == [normal(r) for r in sorted(expected, key=key)]


def normal(row: dict[str, Any]) -> dict[str, Any]:
    return {k: pytest.approx(v, rel=1e-9, abs=1e-9) if isinstance(v, float) else v for k, v in row.items()}
