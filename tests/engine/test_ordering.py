"""The order of answers in a file depends on nothing but the answers."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.operators.windowed.ordering import in_order
from millpond.synopses import connection

_ENDS = st.integers(-(2**50), 2**50) | st.sampled_from([60_000_000 * n for n in range(5)])
_KEYS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.int32(): st.integers(-5, 5),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.string(): st.text(max_size=2),
    pa.date32(): st.dates(dt.date(1960, 1, 1), dt.date(1980, 1, 1)),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
}


@st.composite
def answers(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(_KEYS)), max_size=2))
    missing = draw(st.booleans())
    values = [st.none() | _KEYS[k] if missing else _KEYS[k] for k in kinds]
    rows = draw(st.lists(st.tuples(_ENDS, *values, st.sampled_from("+-")), max_size=40, unique=True))
    columns = {"window_end": pa.array([r[0] for r in rows], pa.timestamp("us"))}
    columns |= {f"_k{i}": pa.array([r[i + 1] for r in rows], kind) for i, kind in enumerate(kinds)}
    return pa.table(columns | {"op": pa.array([r[-1] for r in rows], pa.string()), "at": np.arange(len(rows))})


@given(answers(), st.randoms(use_true_random=False))
def test_answers_are_sorted_by_what_identifies_them(table: pa.Table, random: object) -> None:
    keys = [n for n in table.column_names if n != "at"]
    expected = table.take(pc.sort_indices(table, [(n, "ascending") for n in keys]))
    assert in_order(connection(), table).equals(expected)
    places = list(range(table.num_rows))
    random.shuffle(places)  # type: ignore[attr-defined]
    shuffled = table.take(pa.array(places, pa.int64()))
    assert in_order(connection(), shuffled).equals(expected)
    halves = pa.concat_tables([shuffled.slice(0, 7), shuffled.slice(7)])
    assert in_order(connection(), halves).equals(expected)


@pytest.mark.parametrize("kind", [pa.int32(), pa.string()])
def test_many_answers(kind: pa.DataType) -> None:
    rng = np.random.default_rng(3)
    pairs = rng.permutation(200_000)[:100_000]
    end, key = pairs // 1000 * 60_000_000, pa.array(pairs % 1000).cast(kind)
    table = pa.table({"window_end": pa.array(end, pa.timestamp("us")), "_k0": key, "op": pa.repeat("+", len(end))})
    expected = table.take(pc.sort_indices(table, [("window_end", "ascending"), ("_k0", "ascending")]))
    assert in_order(connection(), table).equals(expected)
