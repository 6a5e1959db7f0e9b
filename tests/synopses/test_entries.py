"""Sketches at size: their errors stay within the bounds, whatever the order and the cuts; replays are byte-equal."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millpond.synopses import connection, merge_partials, partial, spec_of
from millpond.synopses.aggregates.statistics import kept_by, size_of
from millpond.synopses.finish import finish_windows, fold_pairs
from millpond.synopses.pane_partials import group_codes
from millpond.types import Aggregate, Column, Output, StreamDefinition, StreamOptions, TimeWindow, WindowQuery
from millpond.types.sql_expressions import parsed
from tests.oracle.statistics import rank_error

SECOND = 1_000_000
STREAM = StreamDefinition(
    "s", (Column("ts", "TIMESTAMP"), Column("x", "DOUBLE"), Column("g", "BIGINT")), StreamOptions(time="ts"), 1
)


def query(*aggregates: Aggregate, span: int = 100) -> WindowQuery:
    select = tuple(Output(a.name, parsed(a.name).typed(a.type)) for a in aggregates)
    return WindowQuery(stream="s", window=TimeWindow(span * SECOND, 10 * SECOND), select=select, aggregates=aggregates)


def rows(x: np.ndarray, seconds: int = 100) -> pa.Table:
    times = (np.arange(len(x)) * (seconds * SECOND) // max(len(x), 1)).astype("datetime64[us]")
    return pa.table(
        {"ts": pa.array(times), "x": pa.array(x.astype(float)), "g": pa.array(x.astype(np.int64)),
         "_id": pa.array(np.arange(len(x)))}
    )  # fmt: skip


def answer(q: WindowQuery, table: pa.Table, cuts: int, seed: int = 0) -> tuple[dict[str, object], pa.Table]:
    """The answer for [0, range) when the rows come in so many parts, merged two by two, and the merged state."""
    db, spec = connection(), spec_of(q, STREAM)
    order = np.random.default_rng(seed).permutation(table.num_rows) if seed else np.arange(table.num_rows)
    state = pa.table({})
    for part in np.array_split(order, cuts):
        state = merge_partials(db, spec, [state, partial(db, spec, table.take(pa.array(np.sort(part))))])
    assert q.window is not None
    end = np.array([q.window.range // spec.panes.width])
    folded = fold_pairs(db, spec, q, state, group_codes(db, spec, state), (np.zeros(1, np.int64), end))
    return finish_windows(db, q, "ts", folded).to_pylist()[0], state


@pytest.mark.parametrize("shape", ["normal", "sorted", "reversed", "few"])
@pytest.mark.parametrize("cuts", [1, 7])
def test_quantiles(shape: str, cuts: int) -> None:
    x = np.random.default_rng(3).normal(size=60_000)
    x = {"normal": x, "sorted": np.sort(x), "reversed": -np.sort(x), "few": np.round(x * 3)}[shape]
    fractions = [0.01, 0.25, 0.5, 0.9, 0.999]
    for accuracy in ("0.01", "0.1"):
        q = query(
            *(
                Aggregate(
                    f"a{i}", "approx_quantile_disc", (parsed('"x"').typed("DOUBLE"),),
                    parameters=(str(f), accuracy), type="DOUBLE",
                )
                for i, f in enumerate(fractions)
            )
        )  # fmt: skip
        found, state = answer(q, rows(x), cuts, seed=1)
        for i, f in enumerate(fractions):
            assert rank_error(x.tolist(), f, found[f"a{i}"]) <= float(accuracy)
        name = next(c for c in state.column_names if c + "e" in state.column_names)
        kept = max(len(v) for v in state[name].to_pylist())
        assert kept <= 4 * size_of("quantiles", float(accuracy))
        # What is certified for each pane is within what is promised.
        certified, counts = state[name + "e"].to_numpy(), state["n"].to_numpy()
        assert (certified <= float(accuracy) * counts).all()


@pytest.mark.parametrize("cuts", [1, 5])
def test_frequent(cuts: int) -> None:
    rng = np.random.default_rng(5)
    x = np.minimum(rng.zipf(1.3, 60_000), 10**9)
    q = query(
        Aggregate(
            "a0", "approx_heavy_hitters", (parsed('"g"').typed("BIGINT"),),
            parameters=("0.02", "0.005"), type='STRUCT("value" BIGINT, count BIGINT)[]',
        ),
        Aggregate("a1", "approx_mode", (parsed('"g"').typed("BIGINT"),), type="BIGINT"),
    )  # fmt: skip
    found, state = answer(q, rows(x), cuts, seed=2)
    values, counts = np.unique(x, return_counts=True)
    true = dict(zip(values.tolist(), counts.tolist(), strict=True))
    hitters = {e["value"]: e["count"] for e in found["a0"]}  # type: ignore[attr-defined]
    assert {v for v, n in true.items() if n >= 0.02 * len(x)} <= set(hitters)
    assert all(true[v] <= n <= true[v] + 0.005 * len(x) for v, n in hitters.items())
    assert all(true[v] >= (0.02 - 0.005) * len(x) for v in hitters)
    assert found["a1"] == 1
    assert all(
        len(v) <= 1000 for c in state.column_names if c + "e" in state.column_names for v in state[c].to_pylist()
    )


def test_distinct_depends_on_the_set_alone() -> None:
    x = np.random.default_rng(7).integers(0, 30_000, 100_000)
    q = query(Aggregate("a0", "approx_distinct", (parsed('"g"').typed("BIGINT"),), type="BIGINT"))
    (one, state), (other, same) = answer(q, rows(x), 1), answer(q, rows(x), 9, seed=4)
    true = len(np.unique(x))
    assert one == other and abs(one["a0"] - true) <= 4 * 0.02 * true  # type: ignore[operator]
    assert state.sort_by("pane").equals(same.sort_by("pane").cast(state.schema))


def test_the_same_parts_give_the_same_bytes() -> None:
    x = np.random.default_rng(9).normal(size=30_000)
    q = query(Aggregate("a0", "approx_median", (parsed('"x"').typed("DOUBLE"),), parameters=("0.05",), type="DOUBLE"))
    assert answer(q, rows(x), 6, seed=5)[1].equals(answer(q, rows(x), 6, seed=5)[1])


def test_what_explain_says() -> None:
    """How many entries are kept, and how far an answer may be off."""
    said = {
        "approx_median": "keeps about 1600 values per pane and group, and at most 1600 for each doubling of their rows"
        " beyond; ranks are off by at most 1 % of the rows, and exact up to 1600 rows",
        "approx_distinct": "keeps the 2502 smallest hashes of each pane and group; exact below 2502 values, then a"
        " standard error of 2 %",
        "approx_mode": "keeps at most 1000 values with counts per pane and group; counts are off by at most 0.1 % of"
        " the rows",
        "entropy": "keeps every value of each pane and group with its count; state grows with the number of values",
        "sum": None,
    }
    assert {name: kept_by(Aggregate("a0", name, (parsed('"x"').typed("DOUBLE"),))) for name in said} == said
    series = Aggregate(
        "a0", "series_corr", (parsed('"x"').typed("DOUBLE"), parsed('"g"').typed("BIGINT")), parameters=("2000000",)
    )
    assert kept_by(series) == "keeps a sum and a count per series and step of 2 s, in each pane and group"
