"""A query that was paused, or whose back-fill took its time, ends with the answers of one that answered all along.

What counts is said by the oracle's log of a query that was there from the first row on: under `drop` a late row counts
in the windows that were open when it came, under `revise` in those that were not yet beyond `revise_for`.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Case, Epoch, Revision, Script, StreamSpec, assert_rows_equal, latest, revisions, trace
from tests.properties.harness import Pond, floor, options, pond, wanted
from tests.properties.lives import ENDED, LATE, limited, pause_or_resume, run_with_back_fill, run_with_pauses, upkeep
from tests.properties.queries import EXACT, cases
from tests.properties.streams import TYPES, Drawn, cuts, streams


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
    log = revisions(case, TYPES, Script(spec, (*epochs, ENDED)), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2, share=data.draw(st.booleans())) as p:
        # Perhaps with another user of the synopsis, with another horizon, paused at other times.
        kept_by = {"q": kept, "other": 3 * kept} if data.draw(st.booleans()) else {"q": kept}
        run_with_pauses(data, p, epochs, {name: limited(case, behind, name) for name, behind in kept_by.items()})
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
            p.sql(limited(case, kept, name, empty="report"))
        paused = False
        for epoch in epochs:
            paused = pause_or_resume(data, p, paused)
            p.epoch(epoch)
            upkeep(data, p)
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
    log = revisions(case, TYPES, Script(spec, (*epochs, ENDED)), 10**18)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        bound = run_with_back_fill(data, p, spec, epochs, lambda more: limited(case, 10**15, **more))
        _expect(p, case, log, stream, bound)
