"""Sessions of rows that come later than state reaches back: every one of them counts, whatever it joins or cuts.

Runs of rows lie across the edge of what is kept, which is made to lie anywhere among them; rows come in any order. In
the end, and in between, standing answers, ad hoc ones and INVOKE are what the oracle makes of the rows that are there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracle import Case, Epoch, Item, Row, Table, assert_rows_equal
from tests.oracle.case import span
from tests.oracle.sessions import SessionCase, session_answers, session_invocation
from tests.properties.harness import Pond, options, pond, table_rows, wanted
from tests.properties.streams import TYPES, Drawn, S, cuts
from tests.quick import many

DAY = 86_400 * S
HOUR = 3_600 * S
EMPTY: dict[str, Any] = dict.fromkeys(TYPES)
COUNTS = ("count(*) AS c0", "list(n) AS c1")
MOMENTS = st.sampled_from(("", "", "", "drain", "restart", "maintain"))


@st.composite
def late_rows(draw: st.DrawFn, unit: int, gap: int) -> Drawn:
    """Runs with pauses of about the gap, of two keys; some rows come a few places later, or much."""
    pauses = draw(st.lists(st.sampled_from((0, 1, gap - 1, gap, gap, gap + 1, 3 * gap)), min_size=4, max_size=14))
    rows = []
    for time in accumulate(pauses, initial=0):
        values = {"b": draw(st.sampled_from((True, True, None))), "g": draw(st.sampled_from((0, 0, 1, 4)))}
        rows.append((time + draw(st.sampled_from((0, 0, 0, gap, 5 * gap, 99))), time, values))
    rows.sort(key=lambda row: row[0])
    return Drawn(tuple(Row(t * unit, n, EMPTY | v | {"n": n}) for n, (_, t, v) in enumerate(rows)), unit, 0)


@st.composite
def sessions(draw: st.DrawFn, unit: int, gap: int) -> SessionCase:
    """A query over sessions of these rows."""
    case = Case(("b AS c2", *COUNTS), group_by=("b",))
    partition = draw(st.sampled_from(((), (), ("b",), ("b", "g"))))
    if partition:
        case = replace(case, select=COUNTS, group_by=draw(st.sampled_from(((), ("b",), ("g",)))))
    spans = f"to_microseconds({gap * unit} * (1 + g))" if draw(st.booleans()) else ""
    longest = draw(st.sampled_from((None, 1, gap + 1, 2 * gap, 5 * gap)))
    return SessionCase(case, 0 if spans else gap * unit, spans, longest and longest * unit, partition)


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[SessionCase], list[str | None], Drawn, list[Epoch], list[str]]:
    """Queries, their `revise_for`, rows, how these are cut into epochs, and what happens after each."""
    unit, gap = draw(st.sampled_from((S, S, S, DAY))), draw(st.integers(2, 4))
    stream = draw(late_rows(unit, gap))
    cases = draw(st.lists(sessions(unit, gap), min_size=2, max_size=3))
    kept = [draw(st.sampled_from((0, unit, gap * unit, 2 * gap * unit, None))) for _ in cases]
    epochs = list(draw(cuts(stream.rows, max_epochs=9)))
    moments = draw(st.lists(MOMENTS, min_size=len(epochs), max_size=len(epochs)))
    return cases, [None if k is None else span(k).lower() for k in kept], stream, epochs, moments


def _names(case: SessionCase) -> list[str]:
    return ["window_start", "window_end", *(item.rsplit(" ", 1)[1] for item in case.case.select)]


def _expect(p: Pond, case: SessionCase, sql: str, expected: list[tuple[Any, ...]]) -> None:
    table = p.sql(sql).table
    assert_rows_equal(wanted(expected), table_rows(table.select(_names(case))), what=f"{sql}: {case.query()}")


def _crossing(*rows: tuple[int, bool | None]) -> tuple[Drawn, list[Epoch]]:
    """Rows (minute, key), one an epoch but for the first two."""
    made = [Row(minute * 60 * S, n, EMPTY | {"b": key, "g": 0, "n": n}) for n, (minute, key) in enumerate(rows)]
    return Drawn(tuple(made), 60 * S, 0), [Epoch((Item(tuple(part)),)) for part in (made[:2], made[2:3], made[3:])]


#: A run that crosses the edge of state, and a late row that closes the pause in it.
CROSSED = _crossing((1326, True), (1406, True), (2832, None), (1386, True))
#: A late row in front of pieces that are not kept moves the cuts of those that are.
MOVED = _crossing((0, True), (50, True), (100, True), (130, True), (191, None), (-30, True))


@many(0.8, 1)
@example(([SessionCase(Case(("b AS c2", *COUNTS), group_by=("b",)), HOUR, "", 2 * HOUR)], [None], *CROSSED, [""] * 3))
@example(
    (
        [SessionCase(Case(("b AS c2", *COUNTS), group_by=("b",)), HOUR, "", 2 * HOUR)],
        ["1 minute"],
        MOVED[0],
        [Epoch((Item(tuple(part)),)) for part in (MOVED[0].rows[:5], MOVED[0].rows[5:])],
        ["", ""],
    )
)
@given(lives())
def test_every_row_counts(
    life: tuple[list[SessionCase], list[str | None], Drawn, list[Epoch], list[str]],
) -> None:
    cases, kept, stream, epochs, moments = life
    with pond(options(), compact_files=2) as p:
        for n, (case, limit) in enumerate(zip(cases, kept, strict=True)):
            p.sql(case.statement(f"q{n}", **({} if limit is None else {"revise_for": limit})))
        fed = 0
        for epoch, moment in zip(epochs, moments, strict=True):
            p.epoch(epoch)
            fed += len(epoch.rows)
            if moment == "restart":
                p.restart()
            elif moment == "maintain":
                p.pond.maintain()
            elif moment == "drain":
                p.pond.drain()
                _all_agree(p, cases, stream.table.only(stream.rows[:fed]))
        p.finish()
        for n, case in enumerate(cases):
            _expect(p, case, f"SELECT * FROM q{n}", session_answers(case, stream.table))


def _all_agree(p: Pond, cases: list[SessionCase], table: Table) -> None:
    """What is over, what is asked once, and what goes on."""
    now = max(row.time for row in table.rows)
    for n, case in enumerate(cases):
        over = session_answers(case, table, now)
        for sql in (f"SELECT * FROM q{n}", case.query()):
            _expect(p, case, sql, over)
        _expect(p, case, f"INVOKE q{n}", session_invocation(case, table, now))


@many(0.8, 1)
@given(st.data())
def test_rows_that_are_taken_back(data: st.DataObject) -> None:
    """Sessions over answers that appear, change and vanish, however long ago they were given."""
    gap = data.draw(st.integers(2, 4))
    stream = data.draw(late_rows(S, gap))
    longest = data.draw(st.sampled_from((None, gap + 1, 2 * gap)))
    case = SessionCase(Case(("b AS c2", "count(*) AS c0", "sum(m) AS c1"), stream="d", group_by=("b",)), gap * S)
    case = replace(case, longest=longest and longest * S)
    limit = span(data.draw(st.sampled_from((0, S, gap * S)))).lower()
    seconds: dict[tuple[int, bool | None], int] = {}
    for row in stream.rows:
        at = (row.time // S * S + S, row.values["b"])
        seconds[at] = seconds.get(at, 0) + 1
    left = [Row(t, n, {"b": b, "m": m}) for n, ((t, b), m) in enumerate(seconds.items()) if m == 1]
    with pond(options(), compact_files=2) as p:
        p.sql("""
            CREATE STREAM d WITH (revisions='retract') AS
            SELECT b, count(*) AS m FROM s [RANGE 1 SECOND TUMBLING] GROUP BY b HAVING count(*) = 1
        """)
        p.sql(case.statement(revise_for=limit))
        for epoch in data.draw(cuts(stream.rows, max_epochs=6)):
            p.epoch(epoch)
            if data.draw(st.booleans()):
                p.settle()
        p.finish()
        expected = session_answers(case, Table(tuple(left), {"b": "BOOLEAN", "m": "BIGINT"})) if left else []
        _expect(p, case, "SELECT * FROM q", expected)
