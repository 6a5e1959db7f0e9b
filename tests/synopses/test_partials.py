"""Partials of any cut of the rows, merged in any way, and finished, are the aggregate of all rows at once."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import language as lang
from millpond.catalog import Catalog
from millpond.synopses import connection, finish_windows, is_holistic, merge_partials, partial, query_table, spec_of
from millpond.synopses.finish import fold_windows
from millpond.types import Column, StreamDefinition, StreamOptions, WindowedQuery
from tests.synopses.names import Names

STREAM = StreamDefinition(
    "s",
    tuple(
        Column(n, t)
        for n, t in {
            "ts": "TIMESTAMP", "k": "VARCHAR", "g": "INTEGER", "v": "DOUBLE", "n": "BIGINT", "d": "DECIMAL(12,2)",
            "b": "BOOLEAN",
        }.items()
    ),
    StreamOptions(time="ts"),
    1,
)  # fmt: skip
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")), ("k", pa.string()), ("g", pa.int32()), ("v", pa.float64()), ("n", pa.int64()),
        ("d", pa.decimal128(12, 2)), ("b", pa.bool_()), ("_id", pa.int64()),
    ]
)  # fmt: skip
AGGREGATES = (
    "count(*)", "count(v)", "count(DISTINCT g)", "sum(g)", "sum(n)", "sum(d)", "sum(v)", "avg(v)", "avg(d)", "min(k)",
    "max(v)", "min(d)", "bool_and(b)", "bool_or(b)", "stddev_samp(v)", "var_pop(g)", "covar_pop(v, g)", "corr(v, g)",
    "covar_samp(g, v)", "first(k)", "last(v)", "median(v)", "quantile_cont(v, 0.3)", "quantile_disc(g, 0.5)",
    "list(g)", "string_agg(k, '+')", "list(k ORDER BY g DESC, k)", "sum(DISTINCT g)", "mode(g)",
    "arg_min(k, v)", "arg_max(g, n)", "sum(v) FILTER (WHERE b)", "count(*) FILTER (WHERE g > 1)",
    "list(DISTINCT k ORDER BY k)", "bit_and(g)", "bit_or(n)", "bit_xor(g) FILTER (WHERE b)", "product(v)",
    "regr_count(v, g)", "regr_avgx(v, g)", "regr_avgy(v, g)", "regr_sxx(v, g)", "regr_syy(v, g)", "regr_sxy(v, g)",
    "regr_slope(v, g)", "regr_intercept(v, g)", "regr_r2(v, g)", "skewness(v)", "kurtosis(v)", "kurtosis_pop(v)",
)  # fmt: skip


#: Aggregates that are tried together, as one query.
GROUPS = tuple(AGGREGATES[i::5] for i in range(5))


def query_of(aggregates: tuple[str, ...], keys: str = "") -> WindowedQuery:
    items = ", ".join(f"{a} AS a{i}" for i, a in enumerate(aggregates))
    select = f"SELECT {f'{keys}, ' if keys else ''}{items} FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]"
    text = f"CREATE QUERY q AS {select}" + (f" GROUP BY {keys}" if keys else "")
    statement = next(iter(lang.parse(text)))
    assert isinstance(statement, lang.CreateQuery)
    catalog = Catalog(streams={1: STREAM})
    return lang.bind_query(statement.select, Names(catalog))


ROWS = st.tuples(
    st.integers(-6, 12).map(lambda s: s * 500_000),
    st.none() | st.sampled_from("xyz"),
    st.none() | st.integers(-2, 3),
    st.none() | st.sampled_from([0.1, -2.5, 1e6, 3.25, 0.0]),
    st.none() | st.integers(-(2**60), 2**60),
    st.none() | st.sampled_from([1, -250, 999_999]),
    st.none() | st.booleans(),
)


def segment(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 7
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=False)]
    return pa.table([*arrays, pa.array(range(len(rows)), pa.int64())], schema=SCHEMA)


def answers(query: WindowedQuery, parts: list[pa.Table]) -> list[tuple[Any, ...]]:
    """The answers of all windows from partials, as sorted rows."""
    db, spec = connection(), spec_of(query, STREAM)
    merged = merge_partials(db, spec, parts)
    if not merged.num_rows:
        return []
    folded = fold_windows(db, spec, query, merged, -(2**40), 2**40)
    table = finish_windows(db, query, "ts", folded)
    table = table.select([c for c in table.column_names if not c.startswith("_")])
    identity = 2 + bool(query.keys)
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=lambda r: repr(r[:identity]))


def in_order(text: str) -> str:
    """The aggregate as DuckDB computes it when told the stream's total order."""
    if text == "mode(g)":  # ties go to the smallest value
        count = "len(list_filter(list(g), lambda y: y = x))"
        return f"list_min(list_transform(list_distinct(list(g)), lambda x: {{'n': -{count}, 'x': x}})).x"
    if text.startswith(("first(", "last(", "list(g", "string_agg(", "arg_m")):
        return text.replace(")", " ORDER BY ts, _id)", 1)
    return text


def directly(aggregates: tuple[str, ...], keys: str, rows: pa.Table) -> list[tuple[Any, ...]]:
    """The same from the definition: rows joined with the windows they belong to, aggregated by DuckDB at once."""
    group = f"{keys}, " if keys else ""
    items = ", ".join(in_order(a) for a in aggregates)
    sql = (
        f"SELECT make_timestamp((w + 1) * 2000000 - 4000000) AS s, make_timestamp((w + 1) * 2000000) AS e, {group}"
        f"{items} FROM (SELECT *, unnest(range(floor(epoch_us(ts) / 2e6)::BIGINT, "
        f"floor((epoch_us(ts) + 4000000) / 2e6)::BIGINT)) AS w FROM rows ORDER BY ts, _id) GROUP BY {group}w"
    )
    table = query_table(connection(), sql, rows=rows)
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=lambda r: repr(r[: 2 + bool(keys)]))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or left == pytest.approx(right, rel=1e-9, abs=1e-9)
    return bool(left == right)


@pytest.mark.parametrize("aggregates", GROUPS, ids=range(len(GROUPS)))
@given(
    rows=st.lists(ROWS, max_size=25),
    cuts=st.lists(st.integers(0, 25), max_size=4),
    keys=st.sampled_from(["", "k"]),
    data=st.data(),
)
def test_any_cut_gives_the_same(
    aggregates: tuple[str, ...], rows: list[Any], cuts: list[int], keys: str, data: st.DataObject
) -> None:
    query = query_of(aggregates, keys)
    db, spec = connection(), spec_of(query, STREAM)
    whole = segment(rows)
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    parts = [partial(db, spec, whole.slice(a, b - a)) for a, b in pairwise(edges)]
    parts = [parts[i] for i in data.draw(st.permutations(range(len(parts))))]
    expected = directly(aggregates, keys, whole)
    for found in (answers(query, parts), answers(query, [merge_partials(db, spec, parts[:2]), *parts[2:]])):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert all(same(a, b) for a, b in zip(one, other, strict=True)), (one, other)


@given(st.lists(st.lists(ROWS, max_size=8), max_size=5))
def test_a_merge_has_each_group_and_pane_once(parts: list[list[Any]]) -> None:
    query = query_of(("stddev_samp(v)",), "k, g")
    db, spec = connection(), spec_of(query, STREAM)
    merged = merge_partials(db, spec, [partial(db, spec, segment(p)) for p in parts])
    if merged.num_rows:
        pairs = list(zip(*(merged[c].to_pylist() for c in ("pane", "k0", "k1")), strict=True))
        assert len(pairs) == len(set(pairs))
        assert sum(merged["n"].to_pylist()) == sum(map(len, parts))
    else:
        assert not any(parts)


def test_holistic_aggregates_are_known() -> None:
    kinds = {text: is_holistic(query_of((text,)).aggregates[0]) for text in AGGREGATES}
    assert {t for t, holistic in kinds.items() if holistic} == {
        "count(DISTINCT g)", "median(v)", "quantile_cont(v, 0.3)", "quantile_disc(g, 0.5)", "list(g)", "mode(g)",
        "string_agg(k, '+')", "list(k ORDER BY g DESC, k)", "sum(DISTINCT g)", "list(DISTINCT k ORDER BY k)",
        "skewness(v)", "kurtosis(v)", "kurtosis_pop(v)",
    }  # fmt: skip
