"""Early answers: the log is the oracle's, and what remains at the end is what a query without `early` answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond.engine.control.epoch as epoch_module
from millpond.testing.clock import START
from tests.oracle import Epoch, Script, StreamSpec, assert_rows_equal
from tests.oracle.early import early_log
from tests.properties.harness import Pond, floor, options, pond, wanted
from tests.properties.queries import BOUNDED, EXACT, HOLISTIC, cases
from tests.properties.streams import TYPES, Drawn, cuts, streams
from tests.properties.test_invariances import files

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


class Crash(Exception):
    """What a killed process looks like from inside."""


def run_with_crashes(p: Pond, epochs: tuple[Epoch, ...], crash: bool) -> dict[str, bytes]:
    """Feed and finish; with `crash`, every epoch dies between its tasks and its commits, and is run again from disk.

    Returns: the data files of the pond.
    """

    def dies(*args: object) -> None:
        raise Crash

    def attempt(act: Callable[[], object]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if crash:
                patch.setattr(epoch_module, "commit", dies)
            with contextlib.suppress(Crash):
                act()
        if crash:
            p.restart()

    for epoch in epochs:
        attempt(lambda epoch=epoch: p.epoch(epoch))
    attempt(p.finish)
    if crash:
        p.finish()
    p.pond.maintain()  # files that commits have replaced go when upkeep or an opening comes by: now in both lives
    return files(p.folder)


@settings(max_examples=max(3, settings.default.max_examples // 5))  # a life per epoch costs
@given(st.data())
def test_replay_is_byte_equal(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=12))
    case = data.draw(cases(stream.unit))
    timed = _timed(data, data.draw(cuts(stream.rows, max_epochs=3)))
    seen = []
    for crash in (False, True):
        with pond(options(lateness=10 * stream.unit), compact_files=2) as p:
            p.sql(_statement(case.statement()))
            seen.append(run_with_crashes(p, timed, crash))
    assert seen[0] == seen[1]
