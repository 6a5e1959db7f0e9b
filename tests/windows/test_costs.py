"""The cost rule of panes (Li 2008, 6.1-6.4), differences of panes (T11), and windows that are made without panes."""

from __future__ import annotations

from math import gcd
from types import SimpleNamespace

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.operators.panes import operator as panes_operator
from millpond.windows.costs import Measured, Weights, decide
from tests.oracle import assert_rows_equal
from tests.oracle.revisions import final_answers
from tests.properties.harness import floor, options, pond, table_rows, wanted
from tests.properties.queries import cases
from tests.properties.streams import cuts, streams


def test_the_three_costs() -> None:
    # RANGE 9, SLIDE 6 (T10): panes of 3, three per window, two per slide.
    size, slide, tuples, groups = 9, 6, 900, 10
    panes, step = size // gcd(size, slide), slide // gcd(size, slide)
    assert (panes, step) == (3, 2)
    w = Weights(row=1, group=2, pane=3, direct=5)
    made = decide(Measured(tuples, panes, step, groups), True, w)
    assert made.panes == 1 * 900 / 3 + 2 * 10 + 3 * 3 * 10
    assert made.differential == 1 * 900 / 3 + 2 * 10 + 2 * 3 * 10 * 2
    assert made.direct == 5 * 900
    assert made.plan == "panes"  # four panes change, three make a window


@pytest.mark.parametrize(
    ("tuples", "panes", "step", "groups", "plan", "without"),
    [
        (100_000, 60, 1, 10, "differential", "panes"),  # a long window that moves by one pane
        (100_000, 4, 2, 10, "panes", "panes"),  # half of it changes: to take off and to add costs as much
        (60, 60, 1, 1, "differential", "direct"),  # a row per pane
        (6_000, 60, 1, 100, "differential", "direct"),  # a group per row: differences still win, whole windows do not
        (500, 1, 1, 400, "direct", "direct"),  # one pane per window
    ],
)
def test_when_panes_do_not_pay(
    tuples: float, panes: float, step: float, groups: float, plan: str, without: str
) -> None:
    measured = Measured(tuples, panes, step, groups)
    assert decide(measured, True).plan == plan
    assert decide(measured, False).plan == without
    assert "rows" in decide(measured, True).text


@pytest.mark.parametrize(
    ("function", "kind", "differential", "bounded"),
    [
        ("count_star", None, True, True),
        ("sum", "INTEGER", True, True),
        ("sum", "DECIMAL(12,2)", True, True),
        ("avg", "BIGINT", True, True),
        ("sum", "DOUBLE", False, True),  # differential too, but not exact: what was added is not taken off again
        ("max", "INTEGER", False, True),
        ("stddev_pop", "DOUBLE", False, True),
        ("median", "DOUBLE", False, False),
        ("mode", "INTEGER", False, False),
    ],
)
def test_classes_of_aggregates(function: str, kind: str | None, differential: bool, bounded: bool) -> None:
    from millpond.synopses import connection, is_holistic, partial, spec_of
    from millpond.synopses.folds import is_exact
    from millpond.types import Aggregate, Column, Expression, StreamDefinition, StreamOptions, TimeWindow, WindowQuery

    arguments = (Expression.column_of("v", kind),) if kind else ()
    aggregate = Aggregate("a0", function, arguments, type="DOUBLE")
    stream = StreamDefinition("s", (Column("ts", "TIMESTAMP"), Column("v", kind or "DOUBLE")), StreamOptions(time="ts"))
    spec = spec_of(WindowQuery(stream="s", window=TimeWindow(3, 1), select=(), aggregates=(aggregate,)), stream)
    rows = duckdb.sql(f"SELECT make_timestamp(1) AS ts, 1::{kind or 'DOUBLE'} AS v, 1::BIGINT AS _id").to_arrow_table()
    made = partial(connection(), spec, rows)
    assert all(is_exact(c, made) for c in spec.components) == differential
    assert is_holistic(aggregate) != bounded


@settings(max_examples=max(5, settings.default.max_examples // 2))
@given(st.data())
def test_without_panes_the_answers_are_the_same(data: st.DataObject) -> None:
    """The engine made to answer straight from rows gives what the definitions give."""
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(cases(stream.unit))
    before = panes_operator.decision_for
    with pond(options(lateness=stream.unit)) as p:
        p.feed(data.draw(cuts(stream.rows)))
        p.finish()
        panes_operator.decision_for = lambda *_: SimpleNamespace(plan="direct")
        try:
            table = p.sql(case.query()).table
        finally:
            panes_operator.decision_for = before
        names = ["window_start", "window_end", *(f"c{i}" for i in range(len(case.select)))]
        expected = wanted(final_answers(case, stream.table))
        assert_rows_equal(expected, table_rows(table.select(names)), floor=floor(stream.rows), what=case.query())


def test_explain_tells_the_choice_and_its_numbers(inline_pond) -> None:  # type: ignore[no-untyped-def]
    p = inline_pond()
    p.sql("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (event_time='ts')")
    query = "SELECT k, sum(v) AS t, max(v) AS m FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k"
    p.sql(f"CREATE QUERY q AS {query}")
    rows = "SELECT make_timestamp(i * 1000) AS ts, i % 10 AS k, i AS v FROM range(10000) t(i)"
    p.ingest("s", duckdb.sql(rows).to_arrow_table())
    p.step()
    plan = [r[0] for r in p.sql("EXPLAIN q").rows()]
    assert any(
        "60,000 rows and 60 panes per window, 10 groups per pane): differences of panes" in line for line in plan
    )
    few = "SELECT v, max(k) AS t FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY v"  # a group per row
    plan = [r[0] for r in p.sql(f"EXPLAIN {few}").rows()]
    assert any(line.endswith(": without panes") for line in plan)
    assert len(p.sql(f"{few} LIMIT 3").rows()) > 0
