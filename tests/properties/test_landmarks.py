"""Windows that grow from landmarks: the engine gives what the definitions give, whatever happens to the stream."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import Case, Script, Since, StreamSpec, assert_rows_equal, invoke, latest, revisions
from tests.oracle.compare import normal
from tests.oracle.revisions import final_answers
from tests.properties.harness import Pond, floor, options, pond, wanted
from tests.properties.landmarks import hourly_streams, landmark_cases
from tests.properties.lives import ENDED, LATE, limited, read_on, run_with_back_fill, run_with_pauses
from tests.properties.queries import EXACT
from tests.properties.streams import TYPES, Drawn, cuts, streams

#: Every example runs many epochs.
FEWER = settings(max_examples=max(5, settings.default.max_examples // 2))
some_streams = st.one_of(streams(max_rows=16, gaps=False), hourly_streams())


def _agree(p: Pond, case: Case, rows: Sequence[Sequence[object]], stream: Drawn, name: str = "q") -> None:
    assert_rows_equal(wanted(rows), p.answers(case, name), floor=floor(stream.rows), what=case.query())


@given(st.data())
def test_final_answers(data: st.DataObject) -> None:
    stream = data.draw(some_streams)
    queries = data.draw(st.lists(landmark_cases(stream), min_size=1, max_size=3))
    kept = stream.unit * 100
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 10))), compact_files=2) as p:
        for i, case in enumerate(queries):
            p.sql(limited(case, kept, f"q{i}"))
        p.feed(data.draw(cuts(stream.rows)))
        p.finish()
        for i, case in enumerate(queries):
            _agree(p, case, final_answers(case, stream.table), stream, f"q{i}")


@LATE
@FEWER
@given(st.data())
def test_log(late: str, data: st.DataObject) -> None:
    stream = data.draw(some_streams)
    case = data.draw(landmark_cases(stream, EXACT, extra=False))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    kept = stream.unit * data.draw(st.integers(1, 60))
    ended = (*data.draw(cuts(stream.rows, max_epochs=8)), ENDED)
    log = revisions(case, TYPES, Script(spec, ended), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(limited(case, kept))
        for number, epoch in enumerate(ended):
            p.finish() if epoch.ended else p.epoch(epoch)
            _agree(p, case, latest([r for r in log if r.epoch <= number]), stream)
            if data.draw(st.booleans()):
                p.restart()
        expected = wanted([(r.start, r.end, r.revision, r.op, *r.items) for r in log if r.op == "+"])
        got = [r for r in p.log(case) if r[3] == "+"]
        assert_rows_equal(expected, got, floor=floor(stream.rows), what=f"log of {case.query()}")


@LATE
@FEWER
@given(st.data())
def test_pauses_leave_no_trace(late: str, data: st.DataObject) -> None:
    stream = data.draw(some_streams)
    case = data.draw(landmark_cases(stream))
    kept = stream.unit * data.draw(st.integers(1, 20))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    log = revisions(case, TYPES, Script(spec, (*epochs, ENDED)), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        # Perhaps with another user of the synopsis, with another horizon.
        kept_by = {"q": kept, "other": 3 * kept} if data.draw(st.booleans()) else {"q": kept}
        run_with_pauses(data, p, epochs, {name: limited(case, behind, name) for name, behind in kept_by.items()})
        _agree(p, case, latest(log), stream)


@LATE
@FEWER
@given(st.data())
def test_back_fills_that_take_their_time(late: str, data: st.DataObject) -> None:
    stream = data.draw(some_streams)
    case = data.draw(landmark_cases(stream))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    log = revisions(case, TYPES, Script(spec, (*epochs, ENDED)), 10**18)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        if data.draw(st.booleans()):  # there is one with such windows already, which can be shared
            p.sql(case.statement("before"))
        after = run_with_back_fill(data, p, spec, epochs, lambda more: limited(case, 10**15, **more))
        shown = [r for r in latest(log) if after is None or r[1] > after]
        got = [r for r in p.answers(case) if after is None or r[1][1] > after]
        assert_rows_equal(wanted(shown), got, floor=floor(stream.rows), what=case.query())


@FEWER
@given(st.data())
def test_on_demand(data: st.DataObject) -> None:
    """INVOKE at any moment, and the same SELECT ad hoc at the end."""
    stream = data.draw(some_streams)
    case = data.draw(landmark_cases(stream, limits=False, extra=False))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement())
        for rows in read_on(p, stream, data.draw(cuts(stream.rows))):
            expected = [tuple(map(normal, r)) for r in invoke(case, rows)]
            items = [f"c{i}" for i in range(len(case.select))]
            got = [tuple(r[len(r) - len(items) - 1 : -1]) for r in p.rows("INVOKE q")]
            assert_rows_equal(expected, got, floor=floor(stream.rows), what=f"INVOKE of {case.query()}")
        p.finish()
        found = p.rows(case.query())
        expected = wanted(final_answers(case, stream.table))
        assert_rows_equal(expected, found, floor=floor(stream.rows), what=case.query())


def test_state_of_a_group_does_not_grow() -> None:
    """Hours of a group in one stretch: what is final is one row, in memory and in the files."""
    from millpond.operators.panes import state as states
    from tests.oracle import Row

    case = Case(("count(*) AS c0", "sum(g) AS c1"), 0, 60_000_000, since=Since(), group_by=())
    values = {"k": "a", "g": 1, "v": None, "n": None, "d": None, "b": None}
    with pond(options(lateness=1), compact_files=4) as p:
        p.sql(limited(case, 120_000_000))
        for minute in range(60):
            p.ingest([Row(minute * 60_000_000 + s, 0, values) for s in (1, 2)])
            p.pond.step()
        last = p.answers(case)[-1]
        assert last[2:] == (118, 118)
        held = [sum(t.num_rows for t in k.value.forms.tables) for k in states._kept.everything() if k.epoch == 60]
        assert held and max(held) < 20, held
        p.restart()
        states._kept.clear()
        p.ingest([Row(3601 * 1_000_000, 0, values)])
        p.pond.step()
        assert p.answers(case)[-1][2:] == (120, 120)
        assert max(sum(t.num_rows for t in k.value.forms.tables) for k in states._kept.everything()) < 20
