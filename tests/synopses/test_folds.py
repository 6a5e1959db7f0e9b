"""Folding runs of pane rows: every kind of component against plain Python and NumPy."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millpond.synopses import Component, connection, query_table
from millpond.synopses.aggregates.splitting import Kind
from millpond.synopses.folds import fold_columns
from millpond.types import Expression

TOP = 10**38 - 1


def folded(kind: Kind, columns: dict[str, pa.Array], runs: list[tuple[int, int]]) -> dict[str, list[Any]]:
    """Component c of a kind, folded over runs; `columns`: by suffix."""
    size = len(next(iter(columns.values())))
    table = pa.table({"n": pa.array([1] * size, pa.int64()), **{"c" + s: a for s, a in columns.items()}})
    low, high = np.array([r[0] for r in runs], np.int64), np.array([r[1] for r in runs], np.int64)
    component = Component("c", kind, tuple((s, Expression("")) for s in columns))
    found = fold_columns(connection(), [component], table, low, high)
    assert found["n"].to_pylist() == [b - a if b > a else None for a, b in runs]
    return {name[1:]: column.to_pylist() for name, column in found.items() if name != "n"}


@st.composite
def with_runs(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> tuple[list[Any], list[tuple[int, int]]]:
    """Values, NULL among them, and runs [low, high) of them."""
    drawn = draw(st.lists(st.none() | values, max_size=30))
    places = st.integers(0, len(drawn))
    runs = draw(st.lists(st.tuples(places, places).map(lambda r: (min(r), max(r))), min_size=1, max_size=10))
    return drawn, runs


def present(values: list[Any], run: tuple[int, int]) -> list[Any]:
    return [v for v in values[slice(*run)] if v is not None]


@given(with_runs(st.integers(-(2**40), 2**40)))
def test_integer_sums(case: tuple[list[Any], list[tuple[int, int]]]) -> None:
    values, runs = case
    found = folded("add", {"": pa.array(values, pa.int64())}, runs)[""]
    assert found == [sum(p) if (p := present(values, r)) else None for r in runs]


@given(with_runs(st.integers(-(10**36), 10**36) | st.sampled_from([2**96, -(2**96), 2**64 - 1, -(2**32), -1, 0])))
@example(([10**37] * 9, [(0, 9), (3, 5)]))
@example(([-(10**37)] * 9 + [1], [(0, 10)]))
def test_decimal_sums_are_exact(case: tuple[list[Any], list[tuple[int, int]]]) -> None:
    values, runs = case
    column = pa.array([None if v is None else decimal.Decimal(v).scaleb(-3, decimal.Context(60)) for v in values],
                      pa.decimal128(38, 3))  # fmt: skip
    found = folded("add", {"": column}, runs)[""]
    expected = [sum(p) if (p := present(values, r)) else None for r in runs]
    assert [None if f is None else int(f.scaleb(3, decimal.Context(60))) for f in found] == expected


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("last", [0, 1, TOP])
def test_decimal_sums_at_the_edge(sign: int, last: int) -> None:
    """38 digits are the most that a sum can have; one more is an error, never a wrong or a missing number."""
    values = [decimal.Decimal(sign * (TOP - 5)), decimal.Decimal(sign * 5), decimal.Decimal(sign * last)]
    column = {"": pa.array(values, pa.decimal128(38, 0))}
    if last:
        with pytest.raises(OverflowError, match="38 digits"):
            folded("add", column, [(0, 3)])
    else:
        assert folded("add", column, [(0, 3), (1, 1)])[""] == [decimal.Decimal(sign * TOP), None]


@given(with_runs(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)))
@example(([1e16, 1.0, 1.0, -1e16], [(0, 4)]))
@example(([1e100, 1.0, -1e100], [(0, 3)]))
def test_floating_sums_are_compensated(case: tuple[list[Any], list[tuple[int, int]]]) -> None:
    values, runs = case
    found = folded("add", {"": pa.array(values, pa.float64())}, runs)[""]
    for run, total in zip(runs, found, strict=True):
        some = present(values, run)
        if not some:
            assert total is None
            continue
        exact = float(sum(map(Fraction, some)))
        assert total == pytest.approx(exact, rel=1e-15, abs=1e-30 * sum(map(abs, some)))


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([math.inf, 1.0, 2.0], math.inf),
        ([1.0, -math.inf, 5.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([1.0, math.nan], math.nan),
        ([1e308, 1e308], math.inf),
        ([None, None], None),
        ([None, -0.0], 0.0),
    ],
)
def test_floating_sums_of_special_values(values: list[Any], total: float | None) -> None:
    found = folded("add", {"": pa.array(values, pa.float64())}, [(0, len(values))])[""][0]
    assert found is total is None or found == total or (math.isnan(found) and math.isnan(total or 0.0))


_DEFINED = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), max_size=5)


def _moments(groups: list[list[tuple[float, float]]]) -> dict[str, pa.Array]:
    x = [np.array([p[0] for p in g]) for g in groups]
    return {
        "n": pa.array([len(g) for g in groups], pa.int64()),
        "m": pa.array([float(g.mean()) if len(g) else None for g in x], pa.float64()),
        "s": pa.array([float(((g - g.mean()) ** 2).sum()) if len(g) else 0.0 for g in x], pa.float64()),
    }


@given(st.lists(_DEFINED, min_size=1, max_size=12), st.data())
def test_moments_are_those_of_numpy(groups: list[list[tuple[float, float]]], data: st.DataObject) -> None:
    low = data.draw(st.integers(0, len(groups)))
    high = data.draw(st.integers(low, len(groups)))
    found = folded("moments", _moments(groups), [(low, high)])
    x = np.array([p[0] for g in groups[low:high] for p in g])
    assert found["n"] == [len(x)]
    if len(x):
        assert found["m"][0] == pytest.approx(x.mean(), rel=1e-9, abs=1e-9)
        assert found["s"][0] == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-9, abs=1e-9 * (1 + (x**2).sum()))


def test_moments_of_numbers_far_from_zero() -> None:
    """Chan's formula keeps a variance of 1 about a mean of 1e9; sums of squares would not."""
    rng = np.random.default_rng(1)
    groups = [[(1e9 + v, 0.0) for v in rng.normal(size=7)] for _ in range(300)]
    found = folded("moments", _moments(groups), [(0, 300)])
    x = np.array([p[0] for g in groups for p in g])
    assert found["s"][0] / len(x) == pytest.approx(np.var(x), rel=1e-6)


@given(st.lists(_DEFINED, min_size=1, max_size=12))
def test_comoments_are_those_of_numpy(groups: list[list[tuple[float, float]]]) -> None:
    def parts(points: list[tuple[float, float]]) -> tuple[float, ...]:
        if not points:
            return 0, 0.0, 0.0, 0.0, 0.0, 0.0
        y, x = np.array([p[0] for p in points]), np.array([p[1] for p in points])
        dy, dx = y - y.mean(), x - x.mean()
        return len(points), y.mean(), x.mean(), (dy * dy).sum(), (dx * dx).sum(), (dy * dx).sum()

    rows = [parts(g) for g in groups]
    columns = {s: pa.array([r[i] for r in rows], pa.float64() if i else pa.int64()) for i, s in enumerate("nyxbac")}
    found = folded("comoments", columns, [(0, len(groups))])
    everything = parts([p for g in groups for p in g])
    scale = 1e-9 * (1 + sum(p[0] ** 2 + p[1] ** 2 for g in groups for p in g))
    for i, suffix in enumerate("nyxbac"):
        assert found[suffix][0] == pytest.approx(everything[i], rel=1e-9, abs=scale)


_STRUCTS = st.fixed_dictionaries({"o": st.integers(0, 3) | st.none(), "v": st.text("ab", max_size=2) | st.none()})
_EXTREMES = {
    "integers": (pa.int32(), st.integers(-5, 5)),
    "floats": (pa.float64(), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.5, -2.5])),
    "texts": (pa.string(), st.text("aAé zß", max_size=3)),
    "decimals": (pa.decimal128(10, 2), st.integers(-500, 500).map(lambda n: decimal.Decimal(n).scaleb(-2))),
    "booleans": (pa.bool_(), st.booleans()),
    "instants": (pa.timestamp("us"), st.integers(-(10**15), 10**15)),
    "blobs": (pa.binary(), st.binary(max_size=2)),
    "lists": (pa.list_(pa.int32()), st.lists(st.integers(0, 2) | st.none(), max_size=2)),
    "structs": (pa.struct([("o", pa.int32()), ("v", pa.string())]), _STRUCTS),
}


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("name", _EXTREMES)
@given(data=st.data())
def test_extremes_are_those_of_duckdb(kind: str, name: str, data: st.DataObject) -> None:
    """The values of a pane come from DuckDB's min and max: folding must order them as it does, NaN and NULL too."""
    arrow, values = _EXTREMES[name]
    drawn, runs = data.draw(with_runs(values))
    column = pa.array(drawn, arrow)
    found = folded(kind, {"": column}, runs)[""]
    db = connection()
    for (low, high), value in zip(runs, found, strict=True):
        run = pa.table({"v": column.slice(low, high - low)})
        expected = query_table(db, f"SELECT {kind}(v) AS v FROM run", run=run)["v"].to_pylist()[0]
        assert repr(value) == repr(expected)


@given(with_runs(st.lists(st.integers(0, 3) | st.none(), max_size=3)))
@pytest.mark.parametrize("kind", ["list", "set"])
def test_lists_are_concatenated_in_order(kind: str, case: tuple[list[Any], list[tuple[int, int]]]) -> None:
    values, runs = case
    for arrow in (pa.list_(pa.int32()), pa.large_list(pa.int32())):
        found = folded(kind, {"": pa.array(values, arrow)}, runs)[""]
        assert [f or [] for f in found] == [[x for v in present(values, r) for x in v] for r in runs]


def test_chunks_and_no_rows() -> None:
    kinds: dict[Kind, pa.DataType] = {"add": pa.decimal128(38, 0), "min": pa.string(), "list": pa.list_(pa.int8())}
    for kind, arrow in kinds.items():
        empty = pa.chunked_array([], arrow)
        table = pa.table({"n": pa.chunked_array([], pa.int64()), "c": empty})
        none = np.empty(0, np.int64)
        found = fold_columns(connection(), [Component("c", kind, (("", Expression("")),))], table, none, none)
        assert len(found["c"]) == 0
    column = pa.chunked_array([pa.array([1, 2], pa.decimal128(38, 0)), pa.array([3, None], pa.decimal128(38, 0))])
    table = pa.table({"n": pa.chunked_array([[1, 1], [1, 1]]), "c": column})
    found = fold_columns(
        connection(),
        [Component("c", "add", (("", Expression("")),))],
        table.slice(1),
        np.array([0, 1]),
        np.array([3, 3]),
    )
    assert found["c"].to_pylist() == [decimal.Decimal(5), decimal.Decimal(3)]
