"""Windows that end with rows against their definitions: live, revised, dropped, paused, back-filled, asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.testing.streams import timestamp_text
from tests.oracle import Case, Epoch, Script, StreamSpec, assert_rows_equal, trace
from tests.oracle.case import span
from tests.oracle.row_windows import (
    RowCase,
    latest_rows,
    row_answers,
    row_invocation,
    row_revisions,
)
from tests.properties.harness import Pond, floor, options, pond, table_rows, wanted
from tests.properties.queries import BOUNDED, EXACT, HOLISTIC, ORDERED, cases
from tests.properties.streams import TYPES, Drawn, cuts, permutations, streams
from tests.properties.test_catching_up import _pause_or_resume, _upkeep, held_back
from tests.properties.test_invariances import files

LATE = pytest.mark.parametrize("late", ["drop", "revise"])
DAY = 86_400_000_000


@st.composite
def row_cases(
    draw: st.DrawFn,
    unit: int,
    pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED,
    extra: bool = True,
    form: str | None = None,
) -> RowCase:
    """A query over a window that ends with rows; of the given form, if one is given."""
    case = replace(draw(cases(unit, pool, extra=extra)), range_us=None, slide_us=0, origin_us=0, align_start=False)
    form = form or draw(st.sampled_from(["rows", "partitioned rows", "by tuple"]))
    some: list[tuple[str, ...]] = [("k",), ("g",), ("k", "b")]
    choices = {"rows": [()], "partitioned rows": some, "by tuple": [(), (), *some]}
    partition = draw(st.sampled_from(choices[form]))
    if case.limit is not None:
        # A partition's windows are its own: what is limited are the other groups.
        terms = [t for t in case.order_by if t.split()[0] not in partition]
        case = replace(case, order_by=tuple(terms), limit=case.limit if terms else None)
    made = RowCase(case, slide=draw(st.integers(1, 4)), partition=partition, arrival=draw(st.booleans()))
    if form != "by tuple":
        return replace(made, rows=draw(st.integers(1, 6)))
    return replace(made, range=draw(st.integers(1, 12)) * unit)


def _shown(p: Pond, case: RowCase, name: str = "q") -> list[tuple[Any, ...]]:
    items = ", ".join(f"c{i}" for i in range(len(case.case.select)))
    return p.rows(f"SELECT window_start, window_end, window_number, {items} FROM {name}")


def _expect(
    p: Pond, case: RowCase, rows: list[tuple[Any, ...]], stream: Drawn, name: str = "q", what: str = ""
) -> None:
    got = _shown(p, case, name)
    assert_rows_equal(wanted(rows), got, floor=floor(stream.rows), what=f"{what} {case.query()}")


def _fits(stream: Drawn, *queries: RowCase) -> bool:
    times = [r.time for r in stream.rows]
    return max(times) - min(times) < min(max(DAY, 10 * (c.range or 0)) for c in queries)


@given(st.data())
def test_final_answers(data: st.DataObject) -> None:
    stream = data.draw(streams())
    queries = data.draw(st.lists(row_cases(stream.unit), min_size=1, max_size=3))
    kept = all(stream.disorder < max(DAY, 10 * (c.range or 0)) for c in queries)
    if not kept:
        return
    lateness = stream.unit * data.draw(st.integers(0, 10))
    with pond(options(lateness=lateness), share=data.draw(st.booleans()), compact_files=2) as p:
        for i, case in enumerate(queries):
            p.sql(case.statement(f"q{i}"))
        for epoch in data.draw(cuts(stream.rows, max_epochs=8)):
            p.epoch(epoch)
            _upkeep(data, p)
        p.finish()
        for i, case in enumerate(queries):
            _expect(p, case, row_answers(case, stream.table), stream, f"q{i}")


@LATE
@given(st.data())
def test_revisions(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(row_cases(stream.unit, EXACT, extra=False))
    kept = stream.unit * data.draw(st.integers(1, 30))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    ended = (*data.draw(cuts(stream.rows, max_epochs=8)), Epoch((), ended=True))
    log = row_revisions(case, TYPES, Script(spec, ended), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(case.statement(beyond="drop", revise_for=span(kept).lower()))
        for number, epoch in enumerate(ended):
            if epoch.ended:
                p.finish()
            else:
                p.epoch(epoch)
                _upkeep(data, p)
            _expect(p, case, latest_rows([r for r in log if r.epoch <= number]), stream, what=f"epoch {number} of")
        items = ", ".join(f"c{i}" for i in range(len(case.case.select)))
        got = p.rows(f"SELECT window_start, window_end, window_number, revision, op, {items} FROM q ALL REVISIONS")
        expected = [(r.start, r.end, r.number, r.revision, r.op, *r.items) for r in log]
        assert_rows_equal(wanted(expected), got, floor=floor(stream.rows), what=f"log of {case.query()}")


@LATE
@given(st.data())
def test_pauses_leave_no_trace(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(row_cases(stream.unit))
    kept = stream.unit * data.draw(st.integers(1, 20))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    log = row_revisions(case, TYPES, Script(spec, (*epochs, Epoch((), ended=True))), kept)
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
        _expect(p, case, latest_rows(log), stream)
        if others:
            _expect(p, case, latest_rows(log), stream, "other")


@LATE
@given(st.data())
def test_back_fill_at_any_time(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(row_cases(stream.unit))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    kept = 10**15
    log = row_revisions(case, TYPES, Script(spec, (*epochs, Epoch((), ended=True))), kept)
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
        shown = [r for r in latest_rows(log) if after is None or r[1] >= after]
        got = [r for r in _shown(p, case) if after is None or r[1][1] >= after]
        assert_rows_equal(wanted(shown), got, floor=floor(stream.rows), what=case.query())


@given(st.data())
def test_permuted_arrival(data: st.DataObject) -> None:
    stream = data.draw(streams(gaps=False))
    case = replace(data.draw(row_cases(stream.unit)), arrival=False)
    if not _fits(stream, case):
        return
    rows = data.draw(permutations(stream.rows))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 50)))) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(rows, max_epochs=8)))
        p.finish()
        _expect(p, case, row_answers(case, stream.table), stream)


@given(st.data())
def test_asked_for(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(row_cases(stream.unit))
    plain = replace(case, case=replace(case.case, order_by=(), limit=None))
    epochs = data.draw(cuts(stream.rows))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(plain.statement())
        fed = 0
        for epoch in epochs:
            p.epoch(epoch)
            fed += len(epoch.rows)
        rows = stream.table.only(stream.rows[:fed])
        names = ["window_start", "window_end", "window_number", *(f"c{i}" for i in range(len(case.case.select)))]
        table = p.sql(case.query()).table
        assert table is not None
        allowed = floor(stream.rows)
        assert_rows_equal(wanted(row_answers(case, rows)), table_rows(table.select(names)), floor=allowed,
                          what=case.query())  # fmt: skip
        names.remove("window_number")
        now = max(r.time for r in rows.rows)
        table = p.sql("INVOKE q").table
        assert table is not None
        assert_rows_equal(wanted(row_invocation(plain, rows, now)), table_rows(table.select(names)), floor=allowed,
                          what=f"INVOKE {plain.query()}")  # fmt: skip
        then = data.draw(st.sampled_from(stream.rows)).time
        table = p.sql(f"INVOKE q AS OF TIMESTAMP '{timestamp_text(then)}'").table
        assert table is not None
        assert_rows_equal(wanted(row_invocation(plain, rows, then)), table_rows(table.select(names)), floor=allowed,
                          what=f"INVOKE AS OF {plain.query()}")  # fmt: skip


@given(st.data())
def test_replay_is_byte_equal(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(row_cases(stream.unit))
    epochs = data.draw(cuts(stream.rows))
    seen = []
    for _ in range(2):
        with pond(options(lateness=stream.unit), compact_files=2) as p:
            p.sql(case.statement())
            p.feed(epochs)
            p.finish()
            seen.append(files(p.folder))
    assert seen[0] == seen[1]


def test_the_statement_is_what_it_says() -> None:
    case = RowCase(Case(("count(*) AS c0",), group_by=("g",)), rows=3, slide=2, partition=("k",))
    assert case.query() == ("SELECT count(*) AS c0 FROM s [PARTITION BY k ROWS 3 SLIDE 2 ROWS BY RANK] GROUP BY g")
