"""The aggregate classes of Li 2008 (1.7): F(X) = S({L(Xi)}) over any cut into panes, and the differential ones.

These are the laws that pane partials rest on, checked on DuckDB's own aggregates; the engine's splits have their tests
beside its synopses.
"""

from __future__ import annotations

import duckdb
import pytest

VALUES = "(VALUES (1, 3.0), (1, -2.0), (2, 8.5), (2, NULL), (3, 0.25), (3, 4.0), (3, 4.0)) t(pane, v)"

SPLITS = [
    ("max(v)", "max(v) AS a", "max(a)"),
    ("min(v)", "min(v) AS a", "min(a)"),
    ("count(v)", "count(v) AS a", "sum(a)"),
    ("count(*)", "count(*) AS a", "sum(a)"),
    ("sum(v)", "sum(v) AS a", "sum(a)"),
    ("avg(v)", "sum(v) AS a, count(v) AS b", "sum(a) / sum(b)"),
    (
        "var_pop(v)",
        "sum(v) AS a, count(v) AS b, sum(v * v) AS c",
        "sum(c) / sum(b) - (sum(a) / sum(b)) ** 2",
    ),
    ("bool_and(v > 0)", "bool_and(v > 0) AS a", "bool_and(a)"),
    ("bool_or(v > 8)", "bool_or(v > 8) AS a", "bool_or(a)"),
    # holistic: L keeps the values (or a bag of them); there is no constant bound
    ("median(v)", "list(v) FILTER (WHERE v IS NOT NULL) AS a", "list_aggregate(flatten(list(a)), 'median')"),
    ("count(DISTINCT v)", "list(DISTINCT v) AS a", "len(list_distinct(flatten(list(a))))"),
]


@pytest.mark.parametrize(("whole", "sub", "super_"), SPLITS, ids=[s[0] for s in SPLITS])
def test_sub_and_super_aggregates(whole: str, sub: str, super_: str) -> None:
    direct = duckdb.sql(f"SELECT {whole} FROM {VALUES}").fetchall()[0][0]
    split = duckdb.sql(f"SELECT {super_} FROM (SELECT pane, {sub} FROM {VALUES} GROUP BY pane)").fetchall()[0][0]
    assert float(direct) == pytest.approx(float(split), rel=1e-12)


@pytest.mark.parametrize("function", ["count(v)", "sum(v)"])
def test_differential_aggregates_subtract(function: str) -> None:
    def of(where: str) -> float:
        return float(duckdb.sql(f"SELECT {function} FROM {VALUES} WHERE {where}").fetchall()[0][0])

    assert of("pane IN (2, 3)") == of("pane IN (1, 2)") - of("pane = 1") + of("pane = 3")


def test_extremes_are_not_differential() -> None:
    # max over {3, 1} and over {3, 2} minus {3}: the same maxima before and after, different answers.
    one, other = [3, 1], [3, 2]
    assert max(one) == max(other) and max(one[1:]) != max(other[1:])
