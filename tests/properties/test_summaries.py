"""Summaries stand for rows: whatever was merged, removed, added late or stopped, answers are those of all rows.

The oracle sees every row; the engine has lost most of them to a retention that is next to nothing, and answers from
what its summary kept.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.archive.summed import summary_upkeep as summaries
from millpond.archive.upkeep import compaction
from tests.oracle import Case, assert_rows_equal
from tests.oracle.case import span
from tests.oracle.revisions import final_answers
from tests.properties.harness import Pond, floor, options, pond, table_rows, wanted
from tests.properties.queries import BOUNDED, HOLISTIC, KEYS, ORDERED, cases
from tests.properties.streams import cuts, streams


@pytest.fixture(autouse=True, scope="module")
def eager_upkeep() -> Any:
    """Files and entries are merged by twos."""
    patch = pytest.MonkeyPatch()
    patch.setattr(compaction, "FAN_IN", 2)
    patch.setattr(summaries, "FAN_IN", 2)
    yield
    patch.undo()


def pane_of(case: Case) -> tuple[int, int]:
    """Width of the coarsest panes of a query, and where they begin."""
    assert case.range_us is not None
    width = gcd(case.range_us, case.slide)
    return width, case.effective_origin % width


def having_calls(case: Case) -> tuple[str, ...]:
    """What the HAVING of a query may ask for: a summary that serves it has these, too."""
    asked = ("list(DISTINCT k) AS h0", "count(*) AS h1", "sum(g) AS h2", "max(g) AS h3", "count(DISTINCT k) AS h4")
    return asked if case.having else ()


@st.composite
def summaries_of(draw: st.DrawFn, case: Case) -> str:
    """The text of a summary that serves a query: finer panes, more keys, more aggregates."""
    width, phase = pane_of(case)
    finer = draw(st.sampled_from([d for d in (1, 2, 3, 5) if width % d == 0]))
    width //= finer
    keys = tuple(dict.fromkeys([*draw(st.lists(st.sampled_from(KEYS), max_size=1)), *case.group_by]))
    calls = [item for item in case.select if item.rsplit(" AS ", 1)[0] not in case.group_by]
    more = [f"{draw(st.sampled_from(BOUNDED))} AS more"] if draw(st.booleans()) else []
    parts = Case((*calls, *having_calls(case), *more), width, width, phase % width, where=case.where, group_by=keys)
    return parts.query()


def declared(summary: str, lazy: bool) -> str:
    """The option `archive`."""
    quoted = summary.replace("'", "''")
    return f"archive='plain + {'lazy ' if lazy else ''}summary({quoted})'"


def everything(p: Pond, case: Case) -> list[tuple[Any, ...]]:
    """The ad hoc answer without `covered_from`, which must say that nothing is missing."""
    table = p.sql(case.query()).table
    assert table is not None
    assert table["covered_from"].null_count == table.num_rows, "a window is said to lack rows"
    names = ["window_start", "window_end", *(f"c{i}" for i in range(len(case.select)))]
    return table_rows(table.select(names))


@given(st.data())
def test_rows_that_are_gone_still_count(data: st.DataObject) -> None:
    stream = data.draw(streams())
    case = data.draw(cases(stream.unit, BOUNDED + HOLISTIC + ORDERED, limits=False, extra=False))
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    lazy = data.draw(st.booleans())
    upkeep = data.draw(st.lists(st.booleans(), min_size=len(epochs), max_size=len(epochs)))
    restarts = data.draw(st.lists(st.booleans(), min_size=len(epochs), max_size=len(epochs)))
    text = data.draw(summaries_of(case))
    given_ = options(lateness=stream.unit * data.draw(st.integers(0, 5)), retention=span(stream.unit).lower())
    with pond(f"{given_}, {declared(text, lazy)}", share=data.draw(st.booleans())) as p:
        for epoch, maintain, restart in zip(epochs, upkeep, restarts, strict=True):
            p.epoch(epoch)
            if maintain:
                p.pond.maintain()
            if restart:
                p.restart()
        p.finish()
        expected = wanted(final_answers(case, stream.table))
        what = f"{case.query()} from summary({text})"
        assert_rows_equal(expected, everything(p, case), floor=floor(stream.rows), what=what)
        p.pond.maintain()
        assert_rows_equal(expected, everything(p, case), floor=floor(stream.rows), what=f"{what} after upkeep")
        p.sql(case.statement(since="start"))
        p.settle()
        assert_rows_equal(expected, p.answers(case), floor=floor(stream.rows), what=f"back-fill of {what}")


@given(st.data())
def test_late_rows_that_do_not_count(data: st.DataObject) -> None:
    """On a stream that drops late rows, those in closed windows do not count: live, from rows, or from a summary."""
    stream = data.draw(streams(gaps=False))
    case = data.draw(cases(stream.unit, BOUNDED, limits=False, extra=False))
    epochs = data.draw(cuts(stream.rows, max_epochs=6))
    text = data.draw(summaries_of(case))
    given_ = options(lateness=stream.unit, late="drop")
    answers = []
    for archive in ("archive='plain'", declared(text, False), declared(text, True)):
        with pond(f"{given_}, {archive}") as p:
            for epoch in epochs:
                p.epoch(epoch)
                p.pond.maintain()
            p.sql(case.statement(since="start"))
            p.finish()
            answers.append(p.answers(case))
    for other in answers[1:]:
        assert_rows_equal(answers[0], other, floor=floor(stream.rows), what=f"{case.query()} from summary({text})")


@given(st.data())
def test_a_query_that_agrees_shares_the_summary(data: st.DataObject) -> None:
    """A standing query that comes late joins the summary's synopsis, and answers as one of its own would."""
    stream = data.draw(streams(gaps=False))
    case = data.draw(cases(stream.unit, BOUNDED, limits=False, extra=False))
    width, phase = pane_of(case)
    own = replace(case, range_us=width, slide_us=width, origin_us=phase, align_start=False, having=None)
    epochs = data.draw(cuts(stream.rows, max_epochs=6))
    late = data.draw(st.integers(0, len(epochs)))
    answers = []
    for archive in ("archive='plain'", declared(own.query(), False)):
        with pond(f"{options(lateness=stream.unit * 3)}, {archive}") as p:
            for number, epoch in enumerate(epochs):
                if number == late:
                    p.sql(case.statement())
                p.epoch(epoch)
            if late == len(epochs):
                p.sql(case.statement())
            p.settle()
            p.finish()
            answers.append(p.answers(case))
            if archive != "archive='plain'" and not case.having:
                assert p.sql("SHOW SYNOPSES").table.num_rows == 1
    assert_rows_equal(answers[0], answers[1], floor=floor(stream.rows), what=case.query())
