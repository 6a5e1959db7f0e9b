"""Statistics of windows: exact ones are the definition's, live, back-filled and ad hoc; approximate ones are as near as
they promise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Case, Row, statistics, window_ends
from tests.properties.harness import Pond, options, pond
from tests.properties.queries import windows
from tests.properties.streams import Drawn, cuts, streams

SELECT = (
    "heavy_hitters(k, 0.25) AS c0", "heavy_hitters(g, 0) AS c1", "entropy(k) AS c2", "mode(v) AS c3", "mode(k) AS c4",
    "series_corr(v, k, INTERVAL '{step} microseconds') AS c5", "series_corr(v, k, '{step}us', 'a') AS c6",
    "count(*) AS c7",
)  # fmt: skip


def expected(rows: Sequence[Row], step: int) -> tuple[Any, ...]:
    k, g, v = ([r.values[name] for r in rows] for name in "kgv")
    series = [(r.time, r.values["k"], r.values["v"]) for r in rows]
    return (
        statistics.heavy_hitters(k, Fraction("0.25")),
        statistics.heavy_hitters(g, Fraction(0)),
        statistics.entropy(k),
        statistics.mode(v),
        statistics.mode(k),
        statistics.series_corr(series, step),
        statistics.series_corr(series, step, "a"),
        len(rows),
    )


def plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """An answer's values in the oracle's form."""
    return tuple(
        [tuple(e.values()) if isinstance(e, dict) else e for e in value] if isinstance(value, list) else value
        for value in row
    )


def close(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(close(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-7, abs=1e-7)
    return bool(one == other)


def check(p: Pond, name: str, case: Case, stream: Drawn, step: int) -> None:
    found = {row[1][1]: plain(row[2:]) for row in p.answers(case, name)}
    assert case.range_us is not None
    ends = window_ends(case, [r.time for r in stream.rows])
    assert sorted(found) == ends
    for end in ends:
        rows = [r for r in stream.rows if end - case.range_us <= r.time < end]
        assert close(found[end], expected(rows, step)), (name, end, found[end], expected(rows, step))


@given(st.data())
def test_exact_live_and_back_filled(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    step = stream.unit * data.draw(st.integers(1, 4))
    case = Case(tuple(s.format(step=step) for s in SELECT), **data.draw(windows(stream.unit)))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement("q"))
        p.feed(data.draw(cuts(stream.rows)))
        p.sql(case.statement("later", since="start"))
        p.finish()
        p.settle()
        check(p, "q", case, stream, step)
        check(p, "later", case, stream, step)
        found = p.rows(f"SELECT {', '.join(case.select)} FROM s")
        assert close(plain(found[0]), expected(stream.rows, step))


APPROXIMATE = (
    "APPROX median(v, accuracy := 0.2) AS c0", "APPROX quantile_disc(v, 0.9, accuracy := 0.2) AS c1",
    "APPROX heavy_hitters(g, 0.3, accuracy := 0.2) AS c2", "APPROX mode(g, accuracy := 0.2) AS c3",
    "APPROX count(DISTINCT v) AS c4", "approx_top_k(g, 2, accuracy := 0.2) AS c5",
)  # fmt: skip


@given(st.data())
def test_approximate_within_the_bound(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=30, gaps=False))
    case = Case(APPROXIMATE, **data.draw(windows(stream.unit)))
    assert case.range_us is not None
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement("q"))
        p.feed(data.draw(cuts(stream.rows)))
        p.finish()
        for row in p.answers(case):
            end = row[1][1]
            rows = [r for r in stream.rows if end - case.range_us <= r.time < end]
            v = [r.values["v"] for r in rows if r.values["v"] is not None]
            g = [r.values["g"] for r in rows if r.values["g"] is not None]
            median, high, hitters, mode, distinct, top = row[2:]
            assert distinct == len(set(v))  # few values are counted exactly
            assert (median is None) == (not v) and (high is None) == (not v)
            if v:
                # Few rows are all kept, whatever the accuracy.
                assert statistics.rank_error(v, 0.9, high) <= 0.2
                assert statistics.rank_error(v, 0.5, median) <= 0.2 + 1 / len(v)
            if g:
                error = 0.2 * len(g)
                assert g.count(statistics.mode(g)) - g.count(mode) <= error
                found = {e["value"]: e["count"] for e in hitters}
                assert {x for x, _ in statistics.heavy_hitters(g, Fraction("0.3")) or []} <= set(found)
                assert all(g.count(x) <= n <= g.count(x) + error for x, n in found.items())
                assert len(top) == min(2, len(set(g))) or len(set(g)) > 5
