"""Answers that go out by and by: each once, the right ones, nothing lost, the same when it is run again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import Case, Epoch, assert_rows_equal
from tests.properties.harness import floor, options, pond
from tests.properties.queries import BOUNDED, HOLISTIC, cases
from tests.properties.streams import cuts, streams
from tests.properties.test_early import _disturb, _timed, run_with_crashes

S = 1_000_000


def _grouped(data: st.DataObject, unit: int) -> Case:
    case = data.draw(cases(unit, BOUNDED + HOLISTIC, limits=False, extra=False))
    return case if case.group_by else replace(case, group_by=("k", "g"))


def _flush(data: st.DataObject) -> str:
    policy = data.draw(st.sampled_from(["slow", "lazy"]))
    delay = data.draw(st.sampled_from([5, 20, 1_000]))
    return f"flush='{policy}', flush_delay='{delay}s', flush_windows={data.draw(st.integers(1, 3))}"


@pytest.mark.parametrize("late", ["revise", "drop"])
@given(st.data())
def test_answers_are_those_that_go_out_at_once(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = _grouped(data, stream.unit)
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 20)), late=late), compact_files=2) as p:
        if late == "drop":  # what comes late counts where the answer is not out: only rows in order are comparable
            stream = replace(stream, rows=tuple(sorted(stream.rows, key=lambda r: r.time)))
        p.sql(f"{case.statement()} WITH ({_flush(data)}); {case.statement('plain')}")
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
        p.epoch(Epoch((Item(rows(S, 300, 0)),)))
        p.epoch(Epoch((Item(rows(16 * S, 1, 300)),)))  # the window has closed: nothing is out yet
        out = [len(p.answers(case))]
        for second in range(8):
            p.clock.advance(S)
            if second == 3:  # late, for all groups of the window: those that are not out will have it in them
                p.ingest(rows(2 * S, 300, 301))
            assert p.pond.step()
            assert not p.pond.step()
            out.append(len(p.answers(case)))
        assert out[0] == 0 and out[-1] == 300 and all(10 < b - a < 80 for a, b in pairwise(out))
        assert {row[3] for row in p.answers(case)} == {2}
        revised = p.rows(
            "SELECT revision, count(*) FROM q WHERE window_end = TIMESTAMP '1970-01-01 00:00:10' GROUP BY 1"
        )
        assert dict(revised) == {0: 300 - out[3], 1: out[3]}
