"""Consumers of final answers get each row once, when nothing can change it any more, and go on without a gap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.types.results import Cursor
from tests.oracle import Script, StreamSpec, assert_rows_equal, trace
from tests.oracle.case import span
from tests.properties.harness import Pond, options, pond, table_rows
from tests.properties.queries import EXACT, cases
from tests.properties.streams import cuts, streams


def _read(data: st.DataObject, p: Pond, cursor: Any, **wanted: Any) -> tuple[list[Any], Any]:
    """Read on from a cursor; the consumer may stop in the middle of a batch and come back with the place it reached."""
    rows: list[Any] = []
    for batch in p.pond.subscribe("q", since=cursor, timeout=0, **wanted):
        rows += table_rows(batch.rows)
        cursor = str(batch.cursor)
        if data.draw(st.booleans()):
            break
    return rows, cursor


@pytest.mark.parametrize("late", ["revise", "drop"])
@given(st.data())
def test_each_final_row_once(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(cases(stream.unit, EXACT, extra=False))
    kept = data.draw(st.integers(0, 20)) * stream.unit
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    steps = trace(Script(spec, epochs))
    early = ", early='1s'" if data.draw(st.booleans()) else ""
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(f"{case.statement()} WITH (beyond='drop', revise_for='{span(kept) if kept else '0 s'}'{early})")
        items = ", ".join(["window_start", "window_end", *(f"c{i}" for i in range(len(case.select)))])
        got: list[Any] = []
        cursor: Any = None
        for epoch, step in zip(epochs, steps, strict=True):
            p.epoch(epoch)
            if data.draw(st.booleans()):
                p.pond.maintain()
            rows, cursor = _read(data, p, cursor, final=True)
            got += rows
            # Not before progress - revise_for has passed the window.
            behind = min(step.after, step.high or step.after) - kept if late == "revise" else step.after
            assert all(row[1][1] <= behind for row in rows)
            shown = p.rows(f"SELECT {items} FROM q FINAL")
            assert all(row[1][1] <= behind for row in shown)
        p.finish()
        while True:
            # A cursor knows of which answers it is; without one nothing was final before.
            rows, cursor = _read(data, p, cursor, **({} if cursor else {"final": True}))
            got += rows
            if not rows:
                break
        width = 2 + len(case.select)
        # All windows are final in the end, and what was delivered is what counts in the end: nothing has changed since.
        assert_rows_equal(p.answers(case), [row[:width] for row in got], what=case.query())
        assert_rows_equal(p.rows(f"SELECT {items} FROM q FINAL"), [row[:width] for row in got], what=case.query())
        ends = [row[1][1] for row in got]
        assert ends == sorted(ends) and all(row[-1] == "+" for row in got)


@given(st.data())
def test_closed_answers_are_all_but_the_early_ones(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=12, gaps=False))
    case = data.draw(cases(stream.unit, EXACT, extra=False))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 10)))) as p:
        p.sql(f"{case.statement()} WITH (early='1 us')")
        got: list[Any] = []
        cursor: Any = None
        for epoch in data.draw(cuts(stream.rows)):
            p.clock.advance(1)
            p.epoch(epoch)
            rows, cursor = _read(data, p, cursor, status="closed")
            got += rows
        p.finish()
        while True:
            rows, cursor = _read(data, p, cursor, status="closed")
            got += rows
            if not rows:
                break
        assert got == p.rows("SELECT * FROM q ALL REVISIONS WHERE status = 'closed'")
        # Applied in order they give what is shown in the end.
        left: dict[Any, Any] = {}
        for row in got:
            name = repr((row[1], *_identity(case, row)))
            left[name] = row if row[-1] == "+" else None
        if not case.limit:
            width = 2 + len(case.select)
            remain = [row[:width] for row in left.values() if row is not None]
            if _identifies(case):
                assert_rows_equal(p.answers(case), remain, what=case.query())


def _identifies(case: Any) -> bool:
    """Whether the SELECT list shows all grouping keys."""
    return all(any(item.startswith(f"{key} AS ") for item in case.select) for key in case.group_by)


def _identity(case: Any, row: Any) -> list[Any]:
    places = [i for i, item in enumerate(case.select) if any(item.startswith(f"{k} AS ") for k in case.group_by)]
    return [row[2 + i] for i in places]


def test_cursors_say_what_they_are_of() -> None:
    assert Cursor.parse("3:7:2") == Cursor(7, 2, 3) and str(Cursor(7, 2, 3)) == "3:7:2"
    final = Cursor(-5, 1, 3, "final")
    assert Cursor.parse(str(final)) == final
    assert Cursor.parse("3:7:2:closed") == Cursor(7, 2, 3, "closed")
