"""Early answers: the log is the oracle's, and what remains at the end is what a query without `early` answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.testing.clock import START
from tests.oracle import Epoch, Script, StreamSpec, assert_rows_equal
from tests.oracle.early import early_log
from tests.properties.harness import Pond, floor, options, pond, wanted
from tests.properties.queries import BOUNDED, EXACT, HOLISTIC, cases
from tests.properties.streams import TYPES, Drawn, cuts, streams

S = 1_000_000


def _timed(data: st.DataObject, epochs: tuple[Epoch, ...]) -> tuple[Epoch, ...]:
    """The epochs with clock readings, and epochs between them in which nothing but time passes."""
    clock, timed = START, []
    for epoch in epochs:
        clock += data.draw(st.sampled_from([0, 1, 4, 10, 25])) * S
        timed.append(replace(epoch, clock=clock))
        if data.draw(st.booleans()):
            clock += data.draw(st.sampled_from([1, 9, 10, 30])) * S
            timed.append(Epoch((), clock=clock))
    return tuple(timed)


def _statement(text: str) -> str:
    return f"{text} WITH (early='10s')"


@pytest.mark.parametrize("late", ["revise", "drop"])
@given(st.data())
def test_log(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=14, gaps=False))
    case = data.draw(cases(stream.unit, EXACT, extra=False))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 20)), late=late)
    timed = _timed(data, data.draw(cuts(stream.rows)))
    log = early_log(case, TYPES, Script(spec, (*timed, Epoch((), ended=True))), 10 * S)
    with pond(options(lateness=spec.lateness, late=late), compact_files=data.draw(st.sampled_from([2, 8]))) as p:
        p.sql(_statement(case.statement()))
        restarts = data.draw(st.sets(st.integers(0, len(timed)), max_size=2))
        p.feed(timed, restarts=list(restarts))
        p.finish()
        items = ", ".join(f"c{i}" for i in range(len(case.select)))
        got = p.rows(f"SELECT window_start, window_end, revision, op, status, {items} FROM q ALL REVISIONS")
        expected = wanted([(r.start, r.end, r.revision, r.op, r.status, *r.items) for r in log])
        assert_rows_equal(expected, got, floor=floor(stream.rows), what=case.query())


def _disturb(data: st.DataObject, p: Pond) -> None:
    what = data.draw(st.sampled_from(["", "", "restart", "maintain", "pause"]))
    if what == "restart":
        p.restart()
    elif what == "maintain":
        p.pond.maintain()
    elif what == "pause":
        p.sql("ALTER QUERY q PAUSE")
        p.pond.step()
        p.sql("ALTER QUERY q RESUME")


@given(st.data())
def test_final_answers_are_those_without_early(data: st.DataObject) -> None:
    stream: Drawn = data.draw(streams(max_rows=20))
    case = data.draw(cases(stream.unit, BOUNDED + HOLISTIC))
    spec = options(lateness=stream.unit * data.draw(st.integers(0, 30)))
    with pond(spec, compact_files=2) as p:
        p.sql(_statement(case.statement()) + f"; {case.statement('plain')}")
        for epoch in _timed(data, data.draw(cuts(stream.rows))):
            p.epoch(epoch)
            _disturb(data, p)
        p.finish()
        expected = p.answers(case, "plain")
        assert_rows_equal(expected, p.answers(case), floor=floor(stream.rows), what=case.query())
        assert p.rows("SELECT DISTINCT status FROM q") in ([("closed",)], [])
