"""Windows of a calendar: the engine gives what the definitions give, whatever clocks and the stream do."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.types import CalendarSpan, CalendarWindow
from millpond.windows.kinds import kind_of, mismatches
from tests.oracle import Script, StreamSpec, assert_rows_equal, invoke, latest, revisions
from tests.oracle.calendars import Dated
from tests.oracle.case import span
from tests.oracle.compare import normal
from tests.oracle.revisions import final_answers
from tests.properties.calendars import dated_cases, zoned_streams
from tests.properties.harness import floor, options, pond, wanted
from tests.properties.lives import ENDED, LATE, limited, read_on, run_with_back_fill
from tests.properties.queries import EXACT
from tests.properties.streams import TYPES, cuts

#: Every example runs many epochs.
FEWER = settings(max_examples=max(5, settings.default.max_examples // 2))
LONG = span(10**15).lower()


@given(st.data())
def test_final_answers(data: st.DataObject) -> None:
    drawn = data.draw(zoned_streams())
    stream = drawn[0]
    queries = data.draw(st.lists(dated_cases(drawn), min_size=1, max_size=3))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 10))), compact_files=2) as p:
        for i, case in enumerate(queries):
            state = data.draw(st.sampled_from(("", ", state='lazy'", ", state='adaptive'")))
            # Rows that a condition leaves out still announce progress, up to which empty windows are reported.
            if not case.group_by and case.where is None and case.dated is not None and not case.dated.grows:
                case = queries[i] = replace(case, empty=data.draw(st.sampled_from(("skip", "report"))))
            also = f"{state}, empty='{case.empty}'" if case.empty != "skip" else state
            p.sql(f"CREATE QUERY q{i} WITH (revise_for='{LONG}'{also}) AS {case.query()}")
        p.feed(data.draw(cuts(stream.rows)), data.draw(st.sets(st.integers(0, 3))))
        p.finish()
        for i, case in enumerate(queries):
            expected, got = wanted(final_answers(case, stream.table)), p.answers(case, f"q{i}")
            assert_rows_equal(expected, got, floor=floor(stream.rows), what=case.query())
            if case.empty == "skip":
                found = p.rows(case.query())
                assert_rows_equal(expected, found, floor=floor(stream.rows), what=f"ad hoc {case.query()}")


@LATE
@FEWER
@given(st.data())
def test_log(late: str, data: st.DataObject) -> None:
    drawn = data.draw(zoned_streams())
    stream, case = drawn[0], data.draw(dated_cases(drawn, EXACT, extra=False))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    kept = stream.unit * data.draw(st.integers(1, 60))
    ended = (*data.draw(cuts(stream.rows, max_epochs=6)), ENDED)
    log = revisions(case, TYPES, Script(spec, ended), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(f"CREATE QUERY q WITH (revise_for='{span(kept).lower()}') AS {case.query()}")
        for number, epoch in enumerate(ended):
            p.finish() if epoch.ended else p.epoch(epoch)
            shown = wanted(latest([r for r in log if r.epoch <= number]))
            assert_rows_equal(shown, p.answers(case), floor=floor(stream.rows), what=case.query())
            if data.draw(st.booleans()):
                p.restart()
        expected = wanted([(r.start, r.end, r.revision, r.op, *r.items) for r in log if r.op == "+"])
        got = [r for r in p.log(case) if r[3] == "+"]
        assert_rows_equal(expected, got, floor=floor(stream.rows), what=f"log of {case.query()}")


@FEWER
@given(st.data())
def test_back_fill(data: st.DataObject) -> None:
    drawn = data.draw(zoned_streams())
    stream, case = drawn[0], data.draw(dated_cases(drawn))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late="revise")
    epochs = data.draw(cuts(stream.rows, max_epochs=6))
    log = revisions(case, TYPES, Script(spec, (*epochs, ENDED)), 10**18)
    with pond(options(lateness=spec.lateness), compact_files=2) as p:
        if data.draw(st.booleans()):  # there is one with such windows already, which can be shared
            p.sql(case.statement("before"))
        after = run_with_back_fill(data, p, spec, epochs, lambda more: limited(case, 10**15, **more))
        shown = [r for r in latest(log) if after is None or r[1] > after]
        got = [r for r in p.answers(case) if after is None or r[1][1] > after]
        assert_rows_equal(wanted(shown), got, floor=floor(stream.rows), what=case.query())


@FEWER
@given(st.data())
def test_invoke(data: st.DataObject) -> None:
    drawn = data.draw(zoned_streams())
    stream, case = drawn[0], data.draw(dated_cases(drawn, extra=False))
    case = replace(case, limit=None, order_by=())
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement())
        for rows in read_on(p, stream, data.draw(cuts(stream.rows))):
            expected = [tuple(map(normal, r)) for r in invoke(case, rows)]
            got = [tuple(r[len(r) - len(case.select) - 1 : -1]) for r in p.rows("INVOKE q")]
            assert_rows_equal(expected, got, floor=floor(stream.rows), what=f"INVOKE of {case.query()}")


@given(st.data())
def test_duality(data: st.DataObject) -> None:
    """A time lies in the extent of a window exactly when the window is among those of the time."""
    drawn = data.draw(zoned_streams(40))
    found = data.draw(dated_cases(drawn)).dated
    assert isinstance(found, Dated)
    # the strategy draws units of the calendar alone
    length, step = (CalendarSpan(count, unit) for count, unit in (found.length, found.step))  # type: ignore[arg-type]
    window = CalendarWindow(length, step, found.zone, _anchor(found), found.grows)
    times = [row.time for row in drawn[0].rows]
    assert not mismatches(kind_of(window), times, max(times) + 10**13)


def _anchor(found: Dated) -> int:
    return (found._first() - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
