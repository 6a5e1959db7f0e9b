"""A query that was paused, or whose back-fill took its time, ends with the answers of one that answered all along.

What counts is said by the oracle's log of a query that was there from the first row on: under `drop` a late row counts
in the windows that were open when it came, under `revise` in those that were not yet beyond `revise_for`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.jobs.backfill_queue import Backfills
from tests.oracle import Case, Epoch, Revision, Script, StreamSpec, assert_rows_equal, latest, revisions, trace
from tests.oracle.case import span
from tests.properties.harness import Pond, floor, options, pond, wanted
from tests.properties.queries import EXACT, cases
from tests.properties.streams import TYPES, Drawn, cuts, streams

LATE = pytest.mark.parametrize("late", ["drop", "revise"])


@contextmanager
def held_back(held: list[bool]) -> Iterator[None]:
    """While the last of `held` is true, back-fills wait."""
    with pytest.MonkeyPatch.context() as patch:
        before = Backfills.waiting
        patch.setattr(Backfills, "waiting", lambda self: [] if held[-1] else before(self))
        yield


def _pause_or_resume(data: st.DataObject, p: Pond, paused: bool, name: str = "q") -> bool:
    if data.draw(st.booleans()):
        p.sql(f"ALTER QUERY {name} {'RESUME' if paused else 'PAUSE'}")
        return not paused
    return paused


def _upkeep(data: st.DataObject, p: Pond) -> None:
    what = data.draw(st.sampled_from(["", "", "", "restart", "maintain"]))
    if what == "restart":
        p.restart()
    elif what == "maintain":
        p.pond.maintain()


def _expect(p: Pond, case: Case, log: list[Revision], stream: Drawn, after: int | None = None, name: str = "q") -> None:
    shown = [r for r in latest(log) if after is None or r[1] > after]
    got = [r for r in p.answers(case, name) if after is None or r[1][1] > after]
    assert_rows_equal(wanted(shown), got, floor=floor(stream.rows), what=case.query())


@LATE
@given(st.data())
def test_pauses_leave_no_trace(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(cases(stream.unit))
    kept = stream.unit * data.draw(st.integers(1, 20))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    log = revisions(case, TYPES, Script(spec, (*epochs, Epoch((), ended=True))), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2, share=data.draw(st.booleans())) as p:
        p.sql(f"CREATE QUERY q WITH (beyond='drop', revise_for='{span(kept).lower()}') AS {case.query()}")
        if data.draw(st.booleans()):  # another user of the synopsis, with another horizon, paused at other times
            p.sql(f"CREATE QUERY other WITH (beyond='drop', revise_for='{span(3 * kept).lower()}') AS {case.query()}")
            others = True
        else:
            others = False
        paused = other = False
        for epoch in epochs:
            paused = _pause_or_resume(data, p, paused)
            if others:
                other = _pause_or_resume(data, p, other, "other")
            p.epoch(epoch)
            _upkeep(data, p)
        if paused and data.draw(st.booleans()):
            p.sql("ALTER QUERY q RESUME")
            paused = False
        p.finish()
        if paused:
            p.sql("ALTER QUERY q RESUME")
        p.settle()
        _expect(p, case, log, stream)
        lost = p.pond.status()["queries"]["q"]["too_late"]
        if case.where is None:
            assert lost == (0 if late == "drop" else _too_late(case, spec, epochs, kept))


def _too_late(case: Case, spec: StreamSpec, epochs: tuple[Epoch, ...], kept: int) -> int:
    """Rows that lie in windows, all of which have ended longer than `kept` before the bound."""
    from tests.oracle import window_ends

    count = 0
    for step in trace(Script(spec, epochs)):
        for row in step.admitted:
            ends = window_ends(case, [row.time])
            pane_end = max(ends) if ends else None
            count += pane_end is not None and pane_end <= step.before - kept
    return count


@LATE
@given(st.data())
def test_pauses_of_queries_that_report_empty_windows(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    drawn = data.draw(cases(stream.unit, EXACT, limits=False, extra=False))
    case = replace(drawn, empty="report")
    if not case.group_by:
        case = replace(case, select=("count(*) AS c0", "sum(g) AS c1"), having=None)
    kept = stream.unit * data.draw(st.integers(1, 60))
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    lateness = stream.unit * data.draw(st.integers(0, 5))
    with pond(options(lateness=lateness, late=late), compact_files=2) as p:
        for name in "qp":
            text = case.query()
            p.sql(
                f"CREATE QUERY {name} WITH (empty='report', beyond='drop', revise_for='{span(kept).lower()}') AS {text}"
            )
        paused = False
        for epoch in epochs:
            paused = _pause_or_resume(data, p, paused)
            p.epoch(epoch)
            _upkeep(data, p)
        if paused:
            p.sql("ALTER QUERY q RESUME")
        p.settle()
        assert_rows_equal(p.answers(case, "p"), p.answers(case, "q"), what=case.query())


@LATE
@given(st.data())
def test_back_fills_that_take_their_time(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(cases(stream.unit))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    ended = (*epochs, Epoch((), ended=True))
    log = revisions(case, TYPES, Script(spec, ended), 10**18)
    born = data.draw(st.integers(0, len(epochs)))
    since = data.draw(st.sampled_from(["start", None]))
    bound = trace(Script(spec, epochs[:born]))[-1].after if born else None
    held, paused = [True], False
    with held_back(held), pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        for number, epoch in enumerate([*epochs, None]):
            if number == born:
                statement = case.statement(since=since)
                head, _, tail = statement.partition(" AS ")
                tail = tail.removesuffix(f" WITH (since='{since}')")
                also = f", since='{since}'" if since else ""
                p.sql(f"{head} WITH (beyond='drop', revise_for='{span(10**15)}'{also}) AS {tail}")
            elif number > born:
                held[-1] = held[-1] and data.draw(st.booleans())
                paused = _pause_or_resume(data, p, paused)
            if epoch is not None:
                p.epoch(epoch)
                _upkeep(data, p)
        held[-1] = False
        if paused:
            p.sql("ALTER QUERY q RESUME")
        p.finish()
        p.settle()
        _expect(p, case, log, stream, None if since else bound)
