"""Windows that end with rows, and sessions, against their definitions: live, revised, dropped, paused, asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.testing.streams import timestamp_text
from tests.oracle import Case, Script, StreamSpec, Table, assert_rows_equal
from tests.oracle.case import span
from tests.oracle.row_windows import RowCase, latest_rows, row_answers, row_invocation, row_revisions
from tests.oracle.sessions import SessionCase, latest_sessions, session_answers, session_invocation, session_revisions
from tests.properties.harness import Pond, floor, options, pond, table_rows, wanted
from tests.properties.lives import ENDED, LATE, read_on, run_with_back_fill, run_with_pauses, upkeep
from tests.properties.queries import EXACT
from tests.properties.streams import TYPES, Drawn, cuts, permutations, streams
from tests.properties.test_invariances import files
from tests.properties.windows_of_rows import row_cases, session_cases
from tests.quick import many

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Kind:
    """A kind of windows, its queries and its oracle.

    bounds: the columns that tell a window. asked: what is answered at once, with the largest event time so far.
    """

    cases: Callable[..., st.SearchStrategy[Any]]
    bounds: tuple[str, ...]
    answers: Callable[[Any, Table], Rows]
    asked: Callable[[Any, Table, int], Rows]
    invocation: Callable[[Any, Table, int], Rows]
    revisions: Callable[..., list[Any]]
    latest: Callable[[list[Any]], Rows]
    logged: Callable[[Any], tuple[Any, ...]]

    def columns(self, case: Any) -> list[str]:
        """The columns of its answers."""
        return [*self.bounds, *(f"c{i}" for i in range(len(case.case.select)))]

    def shown(self, p: Pond, case: Any, name: str = "q") -> Rows:
        """The answers of a query."""
        return p.rows(f"SELECT {', '.join(self.columns(case))} FROM {name}")


KINDS = {
    "rows": Kind(
        row_cases,
        ("window_start", "window_end", "window_number"),
        row_answers,
        lambda case, rows, now: row_answers(case, rows),
        row_invocation,
        row_revisions,
        latest_rows,
        lambda r: (r.start, r.end, r.number),
    ),
    "sessions": Kind(
        session_cases,
        ("window_start", "window_end"),
        session_answers,
        session_answers,
        session_invocation,
        session_revisions,
        latest_sessions,
        lambda r: (r.start, r.end),
    ),
}
EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def _agree(got: Rows, expected: Rows, stream: Drawn, what: str) -> None:
    assert_rows_equal(wanted(expected), got, floor=floor(stream.rows), what=what)


@EACH
@many(0.6, 1)
@given(st.data())
def test_final_answers(kind: Kind, data: st.DataObject) -> None:
    stream = data.draw(streams())
    queries = data.draw(st.lists(kind.cases(stream.unit), min_size=1, max_size=3))
    lateness = stream.unit * data.draw(st.integers(0, 10))
    with pond(options(lateness=lateness), share=data.draw(st.booleans()), compact_files=2) as p:
        for i, case in enumerate(queries):
            p.sql(case.statement(f"q{i}"))
        for epoch in data.draw(cuts(stream.rows, max_epochs=8)):
            p.epoch(epoch)
            upkeep(data, p)
        p.finish()
        for i, case in enumerate(queries):
            _agree(kind.shown(p, case, f"q{i}"), kind.answers(case, stream.table), stream, case.query())


@EACH
@LATE
@many(0.6, 1)
@given(st.data())
def test_revisions(late: str, kind: Kind, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(kind.cases(stream.unit, EXACT, extra=False))
    kept = stream.unit * data.draw(st.integers(1, 30))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    ended = (*data.draw(cuts(stream.rows, max_epochs=8)), ENDED)
    log = kind.revisions(case, TYPES, Script(spec, ended), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(case.statement(beyond="drop", revise_for=span(kept).lower()))
        for number, epoch in enumerate(ended):
            if epoch.ended:
                p.finish()
            else:
                p.epoch(epoch)
                upkeep(data, p)
            expected = kind.latest([r for r in log if r.epoch <= number])
            _agree(kind.shown(p, case), expected, stream, f"epoch {number} of {case.query()}")
        got = p.rows(f"SELECT {', '.join([*kind.columns(case), 'revision', 'op'])} FROM q ALL REVISIONS")
        entries = [(*kind.logged(r), *r.items, r.revision, r.op) for r in log]
        _agree(got, entries, stream, f"log of {case.query()}")


@EACH
@LATE
@many(0.6, 1)
@given(st.data())
def test_pauses_leave_no_trace(late: str, kind: Kind, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(kind.cases(stream.unit))
    kept = stream.unit * data.draw(st.integers(1, 20))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    log = kind.revisions(case, TYPES, Script(spec, (*epochs, ENDED)), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2, share=data.draw(st.booleans())) as p:
        names = ("q", "other") if data.draw(st.booleans()) else ("q",)
        texts = {name: case.statement(name, beyond="drop", revise_for=span(kept).lower()) for name in names}
        run_with_pauses(data, p, epochs, texts)
        for name in names:
            _agree(kind.shown(p, case, name), kind.latest(log), stream, case.query())


@EACH
@LATE
@many(0.6, 1)
@given(st.data())
def test_back_fill_at_any_time(late: str, kind: Kind, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=20, gaps=False))
    case = data.draw(kind.cases(stream.unit))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    log = kind.revisions(case, TYPES, Script(spec, (*epochs, ENDED)), 10**15)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        after = run_with_back_fill(
            data, p, spec, epochs, lambda more: case.statement(beyond="drop", revise_for=span(10**15), **more)
        )
        shown = [r for r in kind.latest(log) if after is None or r[1] >= after]
        got = [r for r in kind.shown(p, case) if after is None or r[1][1] >= after]
        _agree(got, shown, stream, case.query())


@EACH
@many(0.6, 1)
@given(st.data())
def test_permuted_arrival(kind: Kind, data: st.DataObject) -> None:
    stream = data.draw(streams(gaps=False))
    case = data.draw(kind.cases(stream.unit))
    case = replace(case, arrival=False) if isinstance(case, RowCase) else case
    rows = data.draw(permutations(stream.rows))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 50)))) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(rows, max_epochs=8)))
        p.finish()
        _agree(kind.shown(p, case), kind.answers(case, stream.table), stream, case.query())


@EACH
@many(0.6, 1)
@given(st.data())
def test_asked_for(kind: Kind, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(kind.cases(stream.unit))
    plain = replace(case, case=replace(case.case, order_by=(), limit=None))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(plain.statement())
        *_, rows = read_on(p, stream, data.draw(cuts(stream.rows)))
        now, then = max(r.time for r in rows.rows), data.draw(st.sampled_from(stream.rows)).time

        def ask(text: str, names: list[str], expected: Rows) -> None:
            table = p.sql(text).table
            assert table is not None
            _agree(table_rows(table.select(names)), expected, stream, text)

        ask(case.query(), kind.columns(case), kind.asked(case, rows, now))
        names = [name for name in kind.columns(case) if name != "window_number"]
        ask("INVOKE q", names, kind.invocation(plain, rows, now))
        ask(f"INVOKE q AS OF TIMESTAMP '{timestamp_text(then)}'", names, kind.invocation(plain, rows, then))


@EACH
@many(0.6, 1)
@given(st.data())
def test_replay_is_byte_equal(kind: Kind, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(kind.cases(stream.unit))
    epochs = data.draw(cuts(stream.rows))
    seen = []
    for _ in range(2):
        with pond(options(lateness=stream.unit), compact_files=2) as p:
            p.sql(case.statement())
            p.feed(epochs)
            p.finish()
            seen.append(files(p.folder))
    assert seen[0] == seen[1]


def test_the_statements_are_what_they_say() -> None:
    counts = Case(("count(*) AS c0",), group_by=("g",))
    case: Any = RowCase(counts, rows=3, slide=2, partition=("k",))
    assert case.query() == "SELECT count(*) AS c0 FROM s [PARTITION BY k ROWS 3 SLIDE 2 ROWS BY RANK] GROUP BY g"
    case = SessionCase(counts, 2_000_000, longest=60_000_000, partition=("k",))
    text = "SELECT count(*) AS c0 FROM s [PARTITION BY k SESSION 2 SECONDS MAX 1 MINUTE] GROUP BY g"
    assert case.query() == text
