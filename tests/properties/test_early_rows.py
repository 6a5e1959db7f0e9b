"""Early and final answers of windows that end with rows: the log is the oracle's, and nothing is final too soon."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import Epoch, Script, StreamSpec, assert_rows_equal, trace
from tests.oracle.case import span
from tests.oracle.early import early_row_log
from tests.properties.harness import floor, options, pond, wanted
from tests.properties.queries import EXACT
from tests.properties.streams import TYPES, cuts, streams
from tests.properties.test_early import _disturb, _timed, run_with_crashes
from tests.properties.test_final_answers import _read
from tests.properties.test_windows_of_rows import KINDS
from tests.properties.windows_of_rows import row_cases

#: The answers of a query.
SHOWN = KINDS["rows"].shown

S = 1_000_000
LATE = pytest.mark.parametrize("late", ["revise", "drop"])


@LATE
@given(st.data())
def test_log(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=14, gaps=False))
    case = data.draw(row_cases(stream.unit, EXACT, extra=False))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 20)), late=late)
    timed = _timed(data, data.draw(cuts(stream.rows)))
    log = early_row_log(case, TYPES, Script(spec, (*timed, Epoch((), ended=True))), 10 * S)
    with pond(options(lateness=spec.lateness, late=late), compact_files=data.draw(st.sampled_from([2, 8]))) as p:
        p.sql(case.statement(early="10s"))
        p.feed(timed, restarts=list(data.draw(st.sets(st.integers(0, len(timed)), max_size=2))))
        p.finish()
        items = ", ".join(f"c{i}" for i in range(len(case.case.select)))
        names = f"window_start, window_end, window_number, revision, op, status, {items}"
        got = p.rows(f"SELECT {names} FROM q ALL REVISIONS")
        expected = wanted([(r.start, r.end, r.number, r.revision, r.op, r.status, *r.items) for r in log])
        assert_rows_equal(expected, got, floor=floor(stream.rows), what=case.query())


@given(st.data())
def test_final_answers_are_those_without_early(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20))
    case = data.draw(row_cases(stream.unit))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 30))), compact_files=2) as p:
        p.sql(f"{case.statement(early='10s')}; {case.statement('plain')}")
        for epoch in _timed(data, data.draw(cuts(stream.rows))):
            p.epoch(epoch)
            _disturb(data, p)
        p.finish()
        got, expected = SHOWN(p, case), SHOWN(p, case, "plain")
        assert_rows_equal(expected, got, floor=floor(stream.rows), what=case.query())
        assert p.rows("SELECT DISTINCT status FROM q") in ([("closed",)], [])


@LATE
@given(st.data())
def test_each_final_row_once(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(row_cases(stream.unit, EXACT, extra=False))
    kept = data.draw(st.integers(0, 20)) * stream.unit
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    more = {"early": "1s"} if data.draw(st.booleans()) else {}
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(case.statement(beyond="drop", revise_for=span(kept).lower() if kept else "0 s", **more))
        names = f"window_start, window_end, window_number, {', '.join(f'c{i}' for i in range(len(case.case.select)))}"
        width = 3 + len(case.case.select)
        got: list[Any] = []
        cursor: Any = None
        for epoch, step in zip(epochs, trace(Script(spec, epochs)), strict=True):
            p.epoch(epoch)
            if data.draw(st.booleans()):
                p.pond.maintain()
            rows, cursor = _read(data, p, cursor, final=True)
            got += rows
            behind = min(step.after, step.high or step.after) - kept if late == "revise" else step.after
            assert all(row[1][1] < behind for row in rows)
            assert all(row[1][1] < behind for row in p.rows(f"SELECT {names} FROM q FINAL"))
        p.finish()
        while True:
            # A cursor knows of which answers it is; without one nothing was final before.
            rows, cursor = _read(data, p, cursor, **({} if cursor else {"final": True}))
            got += rows
            if not rows:
                break
        expected = SHOWN(p, case)
        assert_rows_equal(expected, [row[:width] for row in got], what=case.query())
        assert_rows_equal(expected, p.rows(f"SELECT {names} FROM q FINAL"), what=case.query())
        ends = [row[1][1] for row in got]
        assert ends == sorted(ends) and all(row[-1] == "+" for row in got)


@settings(max_examples=max(3, settings.default.max_examples // 5))  # a life per epoch costs
@given(st.data())
def test_replay_is_byte_equal(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=12))
    case = data.draw(row_cases(stream.unit))
    timed = _timed(data, data.draw(cuts(stream.rows, max_epochs=3)))
    seen = []
    for crash in (False, True):
        with pond(options(lateness=10 * stream.unit), compact_files=2) as p:
            p.sql(case.statement(early="10s"))
            seen.append(run_with_crashes(p, timed, crash))
    assert seen[0] == seen[1]
