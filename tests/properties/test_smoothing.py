"""Answers that go out by and by: each once, the right ones, nothing lost, the same when it is run again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import Case, Epoch, assert_rows_equal
from tests.oracle.compare import normal
from tests.properties.harness import floor, options, pond
from tests.properties.landmarks import landmark_cases
from tests.properties.queries import BOUNDED, HOLISTIC, cases
from tests.properties.streams import Drawn, cuts, streams
from tests.properties.test_early import _disturb, _timed, run_with_crashes

S = 1_000_000


def _grouped(data: st.DataObject, unit: int) -> Case:
    case = data.draw(cases(unit, BOUNDED + HOLISTIC, limits=False, extra=False))
    return case if case.group_by else replace(case, group_by=("k", "g"))


def _growing(data: st.DataObject, stream: Drawn) -> Case:
    """A query over windows that grow, or that have answers although no row is in them."""
    if data.draw(st.booleans()):
        return replace(_grouped(data, stream.unit), empty="report")
    case = data.draw(landmark_cases(stream, BOUNDED, limits=False, extra=False))
    return case if case.group_by else replace(case, group_by=("k", "g"))


def _flush(data: st.DataObject) -> str:
    policy = data.draw(st.sampled_from(["slow", "lazy"]))
    delay = data.draw(st.sampled_from([5, 20, 1_000]))
    return f"flush='{policy}', flush_delay='{delay}s', flush_windows={data.draw(st.integers(1, 3))}"


@pytest.mark.parametrize("late", ["revise", "drop"])
@given(st.data())
def test_answers_are_those_that_go_out_at_once(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = _growing(data, stream) if data.draw(st.booleans()) else _grouped(data, stream.unit)
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 20)), late=late), compact_files=2) as p:
        if late == "drop":  # what comes late counts where the answer is not out: only rows in order are comparable
            stream = replace(stream, rows=tuple(sorted(stream.rows, key=lambda r: r.time)))
        empty = f", empty='{case.empty}'" if case.empty != "skip" else ""
        p.sql(f"{case.statement('plain')}; CREATE QUERY q WITH ({_flush(data)}{empty}) AS {case.query()}")
        for epoch in _timed(data, data.draw(cuts(stream.rows, max_epochs=7))):
            p.epoch(epoch)
            _disturb(data, p)
        p.finish()
        assert_rows_equal(p.answers(case, "plain"), p.answers(case), floor=floor(stream.rows), what=case.query())
        # First answers are first answers: nothing is given twice without a revision.
        first = p.rows("SELECT window_end, count(*) FROM q ALL REVISIONS WHERE revision = 0 AND op = '+' GROUP BY 1")
        plain = p.rows(
            "SELECT window_end, count(*) FROM plain ALL REVISIONS WHERE revision = 0 AND op = '+' GROUP BY 1"
        )
        assert_rows_equal(plain, first, what=case.query())


@settings(max_examples=max(4, settings.default.max_examples // 2))
@given(st.data())
def test_what_is_shown_early_is_confirmed_when_it_goes_out(data: st.DataObject) -> None:
    """As `early` alone, but for when closed answers come; late rows may find an answer that is not out yet."""
    stream, in_order = data.draw(streams(max_rows=12, gaps=False)), data.draw(st.booleans())
    if in_order:
        stream = replace(stream, rows=tuple(sorted(stream.rows, key=lambda r: r.time)))
    case = _growing(data, stream) if data.draw(st.booleans()) else _grouped(data, stream.unit)
    empty = f", empty='{case.empty}'" if case.empty != "skip" else ""
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 9))), compact_files=2) as p:
        for name, more in (("plain", ""), ("q", f", {_flush(data)}")):
            p.sql(f"CREATE QUERY {name} WITH (early='2s'{more}{empty}) AS {case.query()}")
        for epoch in _timed(data, data.draw(cuts(stream.rows, max_epochs=7))):
            p.epoch(epoch)
            _disturb(data, p)
        p.finish()
        assert_rows_equal(p.answers(case, "plain"), p.answers(case), floor=floor(stream.rows), what=case.query())
        shown = ", ".join(f"c{i}" for i in range(len(case.select)))
        logs = [
            [tuple(map(normal, r)) for r in p.rows(f"SELECT window_end, status, revision, op, {shown} FROM {name}")]
            for name in ("plain ALL REVISIONS", "q ALL REVISIONS")
        ]
        if in_order:
            assert_rows_equal(*logs, floor=floor(stream.rows), what=f"log of {case.query()}")
        early = [[r for r in log if r[1] == normal("early") and r[3] == normal("+")] for log in logs]
        assert_rows_equal(*early, floor=floor(stream.rows), what=f"early answers of {case.query()}")


@settings(max_examples=max(3, settings.default.max_examples // 5))
@given(st.data())
def test_replay_is_byte_equal(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=12))
    case, flush = _grouped(data, stream.unit), _flush(data)
    timed = _timed(data, data.draw(cuts(stream.rows, max_epochs=3)))
    seen = []
    for crash in (False, True):
        with pond(options(lateness=3 * stream.unit), compact_files=2) as p:
            p.sql(f"{case.statement()} WITH ({flush})")
            seen.append(run_with_crashes(p, timed, crash))
    assert seen[0] == seen[1]


def test_a_window_goes_out_as_the_clock_goes_on() -> None:
    from tests.oracle import Item, Row

    def rows(time: int, count: int, start: int) -> tuple[Row, ...]:
        return tuple(
            Row(time, start + i, {"k": str(i), "g": i, "v": 1.0, "n": i, "d": None, "b": None}) for i in range(count)
        )

    case = Case(("n AS c0", "count(*) AS c1"), 10 * S, 10 * S, group_by=("n",))
    with pond(options(lateness=5 * S)) as p:
        p.sql(f"{case.statement()} WITH (flush='slow', flush_delay='8s', flush_windows=9)")
        p.sql(f"{case.statement('hasty')} WITH (flush='slow', flush_delay='8s', flush_windows=9, early='100s')")
        p.epoch(Epoch((Item(rows(S, 300, 0)),)))
        p.epoch(Epoch((Item(rows(16 * S, 1, 300)),)))  # the window has closed: nothing is out yet
        out = [len(p.answers(case))]
        first = "window_end = TIMESTAMP '1970-01-01 00:00:10'"
        stages = f"SELECT count(*) FILTER (WHERE status = 'closed'), count(*) FROM hasty WHERE {first}"
        assert p.rows(stages) == [(0, 300)]
        for second in range(8):
            p.clock.advance(S)
            if second == 3:  # late, for all groups of the window: those that are not out will have it in them
                p.ingest(rows(2 * S, 300, 301))
            assert p.pond.step()
            assert not p.pond.step()
            out.append(len(p.answers(case)))
            assert p.rows(stages) == [(out[-1], 300)]  # what has not gone out is there as it was shown early
        assert out[0] == 0 and out[-1] == 300 and all(10 < b - a < 80 for a, b in pairwise(out))
        assert {row[3] for row in p.answers(case)} == {2}
        revised = p.rows(
            "SELECT revision, count(*) FROM q WHERE window_end = TIMESTAMP '1970-01-01 00:00:10' GROUP BY 1"
        )
        assert dict(revised) == {0: 300 - out[3], 1: out[3]}
