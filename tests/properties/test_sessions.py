"""Sessions against their definition: live, revised, dropped, paused, back-filled, asked for."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.testing.streams import timestamp_text
from tests.oracle import Case, Epoch, Row, Script, StreamSpec, assert_rows_equal, trace
from tests.oracle.case import span
from tests.oracle.sessions import (
    SessionCase,
    latest_sessions,
    session_answers,
    session_invocation,
    session_revisions,
)
from tests.properties.harness import Pond, floor, options, pond, table_rows, wanted
from tests.properties.queries import BOUNDED, EXACT, HOLISTIC, ORDERED, cases
from tests.properties.streams import TYPES, Drawn, S, cuts, permutations, streams
from tests.properties.test_catching_up import _pause_or_resume, _upkeep, held_back
from tests.properties.test_invariances import files

LATE = pytest.mark.parametrize("late", ["drop", "revise"])
DAY = 86_400_000_000
HALF = settings(max_examples=max(3, settings.default.max_examples // 2))


@st.composite
def session_cases(
    draw: st.DrawFn, unit: int, pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED, extra: bool = True
) -> SessionCase:
    """A query over sessions: by its keys or by a partition, with a gap or one of each row, bounded or not."""
    case = replace(draw(cases(unit, pool, extra=extra)), range_us=None, slide_us=0, origin_us=0, align_start=False)
    partition = draw(st.sampled_from([(), (), (), ("k",), ("g",), ("k", "b")]))
    if case.limit is not None:
        # A key's sessions are its own: what is limited are the other groups.
        terms = [t for t in case.order_by if partition and t.split()[0] not in partition]
        case = replace(case, order_by=tuple(terms), limit=case.limit if terms else None)
    gap = draw(st.sampled_from([1, 1, 2, 3, 8])) * unit
    longest = draw(st.sampled_from([None, None, 1, 4, 9]))
    spans = draw(st.sampled_from(["", "", f"to_microseconds({gap} * (1 + abs(coalesce(g, 0))))"]))
    return SessionCase(case, 0 if spans else gap, spans, None if longest is None else longest * unit, partition)


def _shown(p: Pond, case: SessionCase, name: str = "q") -> list[tuple[Any, ...]]:
    items = ", ".join(f"c{i}" for i in range(len(case.case.select)))
    return p.rows(f"SELECT window_start, window_end, {items} FROM {name}")


def _expect(
    p: Pond, case: SessionCase, rows: list[tuple[Any, ...]], stream: Drawn, name: str = "q", what: str = ""
) -> None:
    got = _shown(p, case, name)
    assert_rows_equal(wanted(rows), got, floor=floor(stream.rows), what=f"{what} {case.query()}")


def _limit(stream: Drawn) -> str:
    """A `revise_for` behind which no row comes."""
    times = [r.time for r in stream.rows]
    return span(max(times) - min(times) + DAY)


@given(st.data())
def test_final_answers(data: st.DataObject) -> None:
    stream = data.draw(streams())
    queries = data.draw(st.lists(session_cases(stream.unit), min_size=1, max_size=3))
    lateness = stream.unit * data.draw(st.integers(0, 10))
    with pond(options(lateness=lateness), share=data.draw(st.booleans()), compact_files=2) as p:
        for i, case in enumerate(queries):
            p.sql(case.statement(f"q{i}", revise_for=_limit(stream)))
        for epoch in data.draw(cuts(stream.rows, max_epochs=8)):
            p.epoch(epoch)
            _upkeep(data, p)
        p.finish()
        for i, case in enumerate(queries):
            _expect(p, case, session_answers(case, stream.table), stream, f"q{i}")


@st.composite
def held_up(draw: st.DrawFn, gap: int) -> Drawn:
    """Rows with pauses of about the gap, in the order of their times but for some that come a few places later."""
    pauses = draw(st.lists(st.sampled_from([1, gap - 1, gap, gap, gap + 1, 2 * gap]), min_size=4, max_size=12))
    times = [0, *accumulate(pauses)]
    for at in draw(st.lists(st.integers(0, len(times) - 1), min_size=1, max_size=4)):
        times.insert(at + draw(st.integers(1, 2)), times.pop(at))
    empty: dict[str, Any] = dict.fromkeys(TYPES)
    keys = draw(st.sampled_from([(None,), (None, True)]))
    return Drawn(tuple(Row(t * S, n, empty | {"b": draw(st.sampled_from(keys))}) for n, t in enumerate(times)), S, 0)


@LATE
@given(st.data())
def test_joined_by_late_rows(late: str, data: st.DataObject) -> None:
    """A row that comes later joins what was over with what was not, and may be over in the same epoch."""
    gap, longest = data.draw(st.integers(2, 5)), data.draw(st.sampled_from([None, None, 5, 12]))
    stream = data.draw(held_up(gap))
    case = SessionCase(Case(("b AS c0", "count(*) AS c1"), group_by=("b",)), gap * S)
    case = replace(case, longest=None if longest is None else longest * S)
    epochs = data.draw(cuts(stream.rows, max_epochs=12))
    log = session_revisions(case, TYPES, Script(StreamSpec(late=late), (*epochs, Epoch((), ended=True))), DAY)
    with pond(options(late=late), compact_files=2) as p:
        p.sql(case.statement(revise_for="1 day"))
        for number, epoch in enumerate(epochs):
            p.epoch(epoch)
            _upkeep(data, p)
            _expect(p, case, latest_sessions([r for r in log if r.epoch <= number]), stream, what=f"epoch {number} of")
        p.finish()
        _expect(p, case, latest_sessions(log), stream)


@LATE
@given(st.data())
def test_revisions(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(session_cases(stream.unit, EXACT, extra=False))
    kept = stream.unit * data.draw(st.integers(1, 30))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    ended = (*data.draw(cuts(stream.rows, max_epochs=8)), Epoch((), ended=True))
    log = session_revisions(case, TYPES, Script(spec, ended), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(case.statement(beyond="drop", revise_for=span(kept).lower()))
        for number, epoch in enumerate(ended):
            if epoch.ended:
                p.finish()
            else:
                p.epoch(epoch)
                _upkeep(data, p)
            _expect(p, case, latest_sessions([r for r in log if r.epoch <= number]), stream, what=f"epoch {number} of")
        items = ", ".join(f"c{i}" for i in range(len(case.case.select)))
        got = p.rows(f"SELECT window_start, window_end, revision, op, {items} FROM q ALL REVISIONS")
        expected = [(r.start, r.end, r.revision, r.op, *r.items) for r in log]
        assert_rows_equal(wanted(expected), got, floor=floor(stream.rows), what=f"log of {case.query()}")


@LATE
@given(st.data())
def test_pauses_leave_no_trace(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(session_cases(stream.unit))
    kept = stream.unit * data.draw(st.integers(1, 20))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    log = session_revisions(case, TYPES, Script(spec, (*epochs, Epoch((), ended=True))), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2, share=data.draw(st.booleans())) as p:
        p.sql(case.statement(beyond="drop", revise_for=span(kept).lower()))
        others = data.draw(st.booleans())
        if others:  # another user of the synopsis, paused at other times
            p.sql(case.statement("other", beyond="drop", revise_for=span(kept).lower()))
        paused = other = False
        for epoch in epochs:
            paused = _pause_or_resume(data, p, paused)
            if others:
                other = _pause_or_resume(data, p, other, "other")
            p.epoch(epoch)
            _upkeep(data, p)
        p.finish()
        for name, stopped in (("q", paused), ("other", other)):
            if stopped:
                p.sql(f"ALTER QUERY {name} RESUME")
        p.settle()
        _expect(p, case, latest_sessions(log), stream)
        if others:
            _expect(p, case, latest_sessions(log), stream, "other")


@LATE
@given(st.data())
def test_back_fill_at_any_time(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(session_cases(stream.unit))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    kept = 10**15
    log = session_revisions(case, TYPES, Script(spec, (*epochs, Epoch((), ended=True))), kept)
    born = data.draw(st.integers(0, len(epochs)))
    since = data.draw(st.sampled_from(["start", None]))
    bound = trace(Script(spec, epochs[:born]))[-1].after if born else None
    held, paused = [True], False
    with held_back(held), pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        for number, epoch in enumerate([*epochs, None]):
            if number == born:
                more = {"since": since} if since else {}
                p.sql(case.statement(beyond="drop", revise_for=span(kept), **more))
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
        after = None if since or bound is None else bound
        shown = [r for r in latest_sessions(log) if after is None or r[1] >= after]
        got = [r for r in _shown(p, case) if after is None or r[1][1] >= after]
        assert_rows_equal(wanted(shown), got, floor=floor(stream.rows), what=case.query())


@HALF
@given(st.data())
def test_permuted_arrival(data: st.DataObject) -> None:
    stream = data.draw(streams(gaps=False))
    case = data.draw(session_cases(stream.unit))
    rows = data.draw(permutations(stream.rows))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 50)))) as p:
        p.sql(case.statement(revise_for=_limit(stream)))
        p.feed(data.draw(cuts(rows, max_epochs=8)))
        p.finish()
        _expect(p, case, session_answers(case, stream.table), stream)


@HALF
@given(st.data())
def test_asked_for(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(session_cases(stream.unit))
    plain = replace(case, case=replace(case.case, order_by=(), limit=None))
    epochs = data.draw(cuts(stream.rows))
    lateness = 60 * stream.unit
    with pond(options(lateness=lateness)) as p:
        p.sql(plain.statement())
        fed = 0
        for epoch in epochs:
            p.epoch(epoch)
            fed += len(epoch.rows)
        rows = stream.table.only(stream.rows[:fed])
        names = ["window_start", "window_end", *(f"c{i}" for i in range(len(case.case.select)))]
        allowed, now = floor(stream.rows), max(r.time for r in rows.rows)

        def ask(text: str, expected: list[tuple[Any, ...]]) -> None:
            table = p.sql(text).table
            assert table is not None
            assert_rows_equal(wanted(expected), table_rows(table.select(names)), floor=allowed, what=text)

        ask(case.query(), session_answers(case, rows, now + 1))
        ask("INVOKE q", session_invocation(plain, rows, now))
        then = data.draw(st.sampled_from(stream.rows)).time
        ask(f"INVOKE q AS OF TIMESTAMP '{timestamp_text(then)}'", session_invocation(plain, rows, then))


@HALF
@given(st.data())
def test_replay_is_byte_equal(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(session_cases(stream.unit))
    epochs = data.draw(cuts(stream.rows))
    seen = []
    for _ in range(2):
        with pond(options(lateness=stream.unit), compact_files=2) as p:
            p.sql(case.statement())
            p.feed(epochs)
            p.finish()
            seen.append(files(p.folder))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("late", "longest"), [("drop", None), ("revise", 5)])
def test_state_is_bounded_by_what_is_not_final(late: str, longest: int | None) -> None:
    """Beside a session that never ends 400 come and go: of those state holds few, in files of all levels."""
    case = SessionCase(Case(("k AS c0", "count(*) AS c1"), group_by=("k",)), 1_000_000)
    case = replace(case, longest=None if longest is None else longest * 1_000_000)
    empty: dict[str, Any] = dict.fromkeys(TYPES)
    kept = []
    with pond(options(lateness=1_000_000, late=late), compact_files=2, shards=1) as p:
        p.sql(case.statement(revise_for="1 second"))
        for epoch in range(40):
            times = [("always", epoch), *((f"k{epoch}.{n}", epoch) for n in range(10))]
            p.ingest([Row(second * 1_000_000, 0, empty | {"k": k}) for k, second in times])
            p.pond.step()
            kept.append(p.sql("SHOW SYNOPSES").table["rows"].to_pylist()[0])
        p.restart()
        p.finish()
        assert len(_shown(p, case)) == 400 + (1 if longest is None else 8)
    assert max(kept) < 250


def test_the_statement_is_what_it_says() -> None:
    case = SessionCase(Case(("count(*) AS c0",), group_by=("g",)), 2_000_000, longest=60_000_000, partition=("k",))
    text = "SELECT count(*) AS c0 FROM s [PARTITION BY k SESSION 2 SECONDS MAX 1 MINUTE] GROUP BY g"
    assert case.query() == text
