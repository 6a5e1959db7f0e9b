"""How cases of each kind of operator are drawn, and what is compared at their end: one entry a kind.

A new kind gets the whole suite by an entry in `ENTRIES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from hypothesis import strategies as st

from millpond.operators.contract import Operator
from millpond.operators.copies.operator import Copies
from millpond.operators.derived.operator import DerivedAnswers, DerivedRows
from millpond.operators.pairs.operator import PairsOperator
from millpond.operators.panes.operator import PanesOperator
from millpond.operators.relation.operator import RelationOperator
from millpond.operators.row_query.operator import RowQueries
from millpond.operators.rows.operator import RowsOperator
from millpond.operators.sessions.operator import SessionsOperator
from millpond.operators.stores.operator import StoreOperator
from millpond.operators.summaries.operator import SummaryOperator
from tests.operators.cases import Answer, Asked, Case, Heard, Rows
from tests.operators.driver import Driver
from tests.operators.shown import Answers, copied, last_answers, matched, netted, passed_on, summarised
from tests.oracle import Case as Window
from tests.oracle import Row, Table, invoke
from tests.oracle import pairs as oracle_pairs
from tests.oracle.case import span
from tests.oracle.cql import Query, Stamped, Windowed
from tests.oracle.invocation import back_from
from tests.oracle.landmarks import BEGINNING
from tests.oracle.revisions import final_answers
from tests.oracle.row_windows import RowCase, row_answers, row_invocation
from tests.oracle.sessions import SessionCase, session_answers, session_invocation
from tests.properties.calendars import CHANGES, dated_cases, zoned_streams
from tests.properties.harness import wanted
from tests.properties.landmarks import landmark_cases
from tests.properties.queries import cases as window_cases
from tests.properties.streams import COLUMNS, TYPES, Drawn, streams
from tests.properties.test_several_windows import several
from tests.properties.windows_of_rows import row_cases, session_cases
from tests.relations import test_pairs as pairs_drawn
from tests.relations.setting import WINDOWS
from tests.relations.shapes import GROUPED, JOINED, ONE, TWO, millpond, naive


@dataclass(frozen=True)
class Entry:
    """A kind of operator in the suite.

    Attributes:
        kind: its class, as the registry has it.
        cases: draws cases of it.
        shown: what is compared of a pond in the end.
        share: how many cases it affords, as a multiple of what the profile says.
        past: what came before it is made from the archive; what others lack is made by upkeep, or by whoever asks.
    """

    kind: type[Operator]
    cases: st.SearchStrategy[Case] = field(repr=False)
    shown: Callable[[Driver], Answers] = field(default=last_answers, repr=False)
    share: float = field(default=0.8, repr=False)
    past: bool = field(default=True, repr=False)


LATE = st.sampled_from(("revise", "drop"))
SOME = streams(14, gaps=False, min_rows=5)


def in_units(text: str, unit: int) -> str:
    """A text with spans of time in the place of so many UNIT (microseconds)."""
    return re.sub(r"(\d+) UNIT", lambda found: span(int(found[1]) * unit), text)


@st.composite
def over_windows(
    draw: st.DrawFn,
    asked: Callable[[st.DrawFn, Drawn], Asked],
    options: str = "",
    least: int = 1,
    most: int = 2,
    drawn: st.SearchStrategy[Drawn] = SOME,
) -> Case:
    """A case over the stream `s` of `tests.properties`.

    Args:
        asked: draws what is computed over the stream. options: of the stream; UNIT in them: of its times' distances.
        least, most: how many of them. drawn: draws the stream's rows.
    """
    stream = draw(drawn)
    options = in_units(options, stream.unit)
    queries = tuple(asked(draw, stream) for _ in range(draw(st.integers(least, most))))
    lateness, late, rows = draw(st.sampled_from((0, 3, 8))) * stream.unit, draw(LATE), stream.rows
    # Windows whose rows are numbered as they come are another question in another order.
    ordered = any("BY ARRIVAL" in query.text for query in queries)
    if ordered and late == "drop":
        rows = tuple(sorted(rows, key=lambda row: row.time))
    named = tuple(replace(row, intake=place) for place, row in enumerate(rows))
    return Case({"s": COLUMNS}, queries, {"s": named}, stream.unit, lateness, late, options, ordered)


def _table(rows: Mapping[str, Rows]) -> Table:
    return Table(tuple(rows["s"]), TYPES)


def _window_answers(case: Window, rows: Mapping[str, Rows]) -> Answer:
    return wanted(final_answers(case, _table(rows)))


def _windows_once(case: Window, rows: Mapping[str, Rows], heard: Heard) -> Answer:
    return wanted(final_answers(case, _table(rows), None if heard.ended else heard.now))


def _window_invoked(case: Window, rows: Mapping[str, Rows], heard: Heard, at: int | None) -> Answer:
    now = heard.now if at is None else at
    start = back_from(case, now)
    found = invoke(case, _table(rows), now)
    return wanted([(BEGINNING if start is None else start, now, *items) for items in found])


def over_time(case: Window, *options: str) -> Asked:
    """Windows that end at instants."""
    answers = partial(_window_answers, case)
    asked = Asked(case.query(), answers, options)
    return replace(asked, invoked=partial(_window_invoked, case), once=partial(_windows_once, case))


def _panes(draw: st.DrawFn, stream: Drawn) -> Asked:
    """Windows that end at instants: of fixed length, or growing, or several of them."""
    unit = stream.unit
    case = draw(st.one_of(window_cases(unit), window_cases(unit), landmark_cases(stream), several(stream)))
    state = draw(st.sampled_from(((), (), ("state='lazy'",), ("state='adaptive'",))))
    return over_time(case, *state)


def _dated(draw: st.DrawFn, stream: Drawn) -> Asked:
    """Windows of a calendar."""
    case = draw(dated_cases((stream, draw(st.sampled_from(sorted(CHANGES))))))
    return over_time(case)


def _row_window_answers(case: RowCase, rows: Mapping[str, Rows]) -> Answer:
    return wanted(row_answers(case, _table(rows)))


def _row_windows_once(case: RowCase, rows: Mapping[str, Rows], heard: Heard) -> Answer:
    return _row_window_answers(case, rows)


def _row_window_invoked(case: RowCase, rows: Mapping[str, Rows], heard: Heard, at: int | None) -> Answer:
    return wanted(row_invocation(case, _table(rows), heard.now if at is None else at))


def over_rows(case: RowCase, *options: str) -> Asked:
    """Windows that end with rows."""
    asked = Asked(case.query(), partial(_row_window_answers, case), options, once=partial(_row_windows_once, case))
    return replace(asked, invoked=partial(_row_window_invoked, case))


def _rows(draw: st.DrawFn, stream: Drawn) -> Asked:
    """Windows that end with rows."""
    return over_rows(draw(row_cases(stream.unit)))


def _session_answers(case: SessionCase, rows: Mapping[str, Rows]) -> Answer:
    return wanted(session_answers(case, _table(rows)))


def _sessions_once(case: SessionCase, rows: Mapping[str, Rows], heard: Heard) -> Answer:
    return wanted(session_answers(case, _table(rows), None if heard.ended else heard.now))


def _session_invoked(case: SessionCase, rows: Mapping[str, Rows], heard: Heard, at: int | None) -> Answer:
    return wanted(session_invocation(case, _table(rows), heard.now if at is None else at))


def over_sessions(case: SessionCase, *options: str) -> Asked:
    """Sessions."""
    asked = Asked(case.query(), partial(_session_answers, case), options, once=partial(_sessions_once, case))
    return replace(asked, invoked=partial(_session_invoked, case))


def _sessions(draw: st.DrawFn, stream: Drawn) -> Asked:
    """Sessions."""
    return over_sessions(draw(session_cases(stream.unit)))


@st.composite
def united(draw: st.DrawFn, *texts: str) -> Case:
    """A case over a union of two streams."""
    some = draw(st.tuples(streams(8, gaps=False, min_rows=4), streams(8, gaps=False, min_rows=4)))
    rows = {name: tuple(sorted(each.rows, key=lambda row: row.time)) for name, each in zip("sz", some, strict=True)}
    queries = (Asked(in_units(draw(st.sampled_from(texts)), some[0].unit)),)
    return Case({"s": COLUMNS, "z": COLUMNS}, queries, rows, some[0].unit, some[0].unit, draw(LATE))


# -- relations and pairs: times are single microseconds, since the oracle looks at every instant


AB = {"a": "INTEGER", "b": "INTEGER"}
TIMED = "ts TIMESTAMP, a INTEGER, b INTEGER"
#: Behind the last instant at which anything happens.
END = 24

KEYS = st.one_of(st.none(), st.integers(0, 2))
_STAMPED = st.lists(st.tuples(st.integers(0, 14), KEYS, st.integers(0, 2)), min_size=3, max_size=10)


@st.composite
def over_instants(draw: st.DrawFn, asked: st.SearchStrategy[Asked], most: int = 2, least: int = 1) -> Case:
    """A case over the streams `s` and `u`, with that many queries."""
    queries = tuple(draw(st.lists(asked, min_size=least, max_size=most)))
    rows = {}
    for name in "su":
        drawn = sorted(draw(_STAMPED), key=lambda each: each[0])
        rows[name] = tuple(Row(t, n, {"a": a, "b": b}) for n, (t, a, b) in enumerate(drawn))
    return Case({"s": TIMED, "u": TIMED}, queries, rows, 1, draw(st.sampled_from((0, 2, 5))), draw(LATE))


def _over(shape: str, windows: tuple[str, ...], rows: Mapping[str, Rows]) -> Query:
    inputs = {}
    for place, (name, window) in enumerate(zip("sus", windows, strict=True)):
        form, partition = WINDOWS[window]
        stamped = [Stamped(row.time, row.intake, tuple(row.values.values())) for row in rows[name]]
        inputs[f"w{place}"] = Windowed(AB, stamped, form, (0,) if partition else ())
    return Query(naive(shape), inputs)


def _changes(shape: str, operator: str, windows: tuple[str, ...], rows: Mapping[str, Rows], end: int = END) -> Answer:
    found = getattr(_over(shape, windows, rows), operator.lower())(-1, end)
    return [(("time", at), *values) for at, values in found.elements()]


def _relation_invoked(
    shape: str, windows: tuple[str, ...], rows: Mapping[str, Rows], heard: Heard, at: int | None
) -> Answer:
    now = heard.now if at is None else at
    return [(("time", now), *values) for values in _over(shape, windows, rows).at(now).elements()]


def _relation_once(
    shape: str, operator: str, windows: tuple[str, ...], rows: Mapping[str, Rows], heard: Heard
) -> Answer:
    if not operator:
        return list(_over(shape, windows, rows).at(heard.now).elements())
    return _changes(shape, operator, windows, rows, END if heard.ended else heard.now + 1)


@st.composite
def _relation(draw: st.DrawFn, shapes: tuple[str, ...] = (*ONE, *TWO, *JOINED, *GROUPED)) -> Asked:
    """A relational query without tables."""
    shape = draw(st.sampled_from([each for each in shapes if "t.a" not in each]))
    operator = draw(st.sampled_from(("ISTREAM", "ISTREAM", "DSTREAM", "")))
    return relation_of(shape, operator, draw(st.tuples(*[st.sampled_from(sorted(filter(None, WINDOWS)))] * 3)))


def relation_of(shape: str, operator: str, windows: tuple[str, ...], *options: str) -> Asked:
    """A relation (operator: ''), or what ISTREAM or DSTREAM tells of it."""
    known = partial(_changes, shape, operator, windows) if operator else None
    text = millpond(shape, operator, *windows)
    reads = tuple(name for name in "su" if re.search(rf"\b{name} \[", text))
    asked = Asked(text, known, options, reads=reads, once=partial(_relation_once, shape, operator, windows))
    return replace(asked, invoked=partial(_relation_invoked, shape, windows))


def _met(
    kind: str,
    windows: tuple[str, str],
    rows: Mapping[str, Rows],
    bounds: tuple[int, int] = (oracle_pairs.FOREVER, oracle_pairs.FOREVER),
) -> Answer:
    inputs = tuple(
        [oracle_pairs.Item(row.time, (row.values["a"], row.values["b"])) for row in rows[name]] for name in "su"
    )
    forms = (pairs_drawn.WINDOWS[windows[0]], pairs_drawn.WINDOWS[windows[1]])
    found = oracle_pairs.pairs(kind, inputs, forms, lambda x, y: x[0] is not None and x[0] == y[0], bounds)
    return [(("time", at), *values) for at, values in found.elements()]


def _pairs_once(kind: str, windows: tuple[str, str], rows: Mapping[str, Rows], heard: Heard) -> Answer:
    return _met(kind, windows, rows, (heard.bounds["s"], heard.bounds["u"]))


def _pairs_invoked(
    kind: str, windows: tuple[str, str], rows: Mapping[str, Rows], heard: Heard, at: int | None
) -> Answer:
    now = heard.now if at is None else at
    forms = [pairs_drawn.WINDOWS[window] for window in windows]
    since = now - max(length - (kind == "open") for kind, length in forms)
    known = {name: [row for row in each if row.time <= now] for name, each in rows.items()}
    return [found for found in _met(kind, windows, known) if found[0][1] >= since]


@st.composite
def _pairs(draw: st.DrawFn) -> Asked:
    """A stream of pairs."""
    kind = draw(st.sampled_from([each for each in pairs_drawn.KINDS if not each.startswith("asof")]))
    return pairs_of(kind, draw(pairs_drawn.sliding))


def pairs_of(kind: str, windows: tuple[str, str], *options: str) -> Asked:
    """A stream of pairs."""
    shown = "x.a, x.b" + ("" if kind in ("semi", "anti") else ", y.a AS c, y.b AS d")
    text = f"PAIRS({shown}) FROM s {windows[0]} x {pairs_drawn.KINDS[kind]} u {windows[1]} y ON x.a = y.a"
    asked = Asked(f"SELECT {text}", partial(_met, kind, windows), options, reads=("s", "u"))
    return replace(asked, invoked=partial(_pairs_invoked, kind, windows), once=partial(_pairs_once, kind, windows))


#: Queries that read the same rows of `s`.
_ALIKE = ("SELECT {r}(a, b) FROM {0} x", "SELECT DISTINCT {r}(a) FROM {0} x", TWO[0], TWO[2])

# -- what no query asks for


def _selected(what: str, where: str, rows: Mapping[str, Rows]) -> Answer:
    found = _table(rows).load().execute(f"SELECT {what} FROM t AS s WHERE {where}").fetchall()
    return [tuple(row) for row in found]


CONDITIONS = ("g > 0", "v IS NOT NULL", "k IN ('a', 'b')", "b OR g = 1", "n % 2 = 0", "n BETWEEN -2 AND 3 OR d > 1")


def _derived(draw: st.DrawFn, stream: Drawn) -> Asked:
    """A stream of the rows of `s` that pass a condition."""
    what, where = (
        draw(st.sampled_from(("ts, k, g * 2 AS y", "ts, v, d, b", "n, ts"))),
        draw(st.sampled_from(CONDITIONS)),
    )
    return Asked(f"SELECT {what} FROM s WHERE {where}", partial(_selected, what, where), what="STREAM", revises=False)


def _retracting(draw: st.DrawFn, stream: Drawn) -> Asked:
    """A stream of the answers of windows, with those that were revised taken back."""
    keys = draw(st.sampled_from(("", "k, ")))
    text = f"SELECT {keys}count(*) AS m, sum(n) AS t FROM s [RANGE 9 UNIT SLIDE 3 UNIT]"
    grouped = in_units(text + (" GROUP BY k" if keys else ""), stream.unit)
    return Asked(grouped, options=("revisions='retract'",), what="STREAM")


def _row_query(draw: st.DrawFn, stream: Drawn) -> Asked:
    """A query over the rows of `s`."""
    where = draw(st.sampled_from(CONDITIONS))
    return Asked(f"SELECT k, n FROM s WHERE {where}", partial(_selected, "ts, k, g, v, n, d, b", where), revises=False)


SUMMARY = "SELECT k, count(*), sum(g), min(v) FROM s [RANGE 5 MINUTES TUMBLING] GROUP BY k"

ENTRIES = (
    Entry(Copies, over_windows(_derived, ", archive='replicate(0.5, 0.9)', seed=7", 0, 0), copied, 1.5, False),
    Entry(
        PanesOperator,
        st.one_of(
            over_windows(_panes),
            over_windows(_panes),
            over_windows(_panes),
            over_windows(_dated, drawn=zoned_streams(14).map(lambda found: found[0])),
            united(
                "SELECT k, count(*) AS n, list(n) AS l FROM (s UNION ALL z) [RANGE 9 UNIT SLIDE 3 UNIT] GROUP BY k",
                "SELECT sum(g) AS g, last(k) AS k FROM (s UNION ALL z) [RANGE TUMBLING 5 UNIT]",
            ),
        ),
    ),
    Entry(
        RowsOperator,
        st.one_of(
            over_windows(_rows),
            over_windows(_rows),
            over_windows(_rows),
            united("SELECT count(*) AS n, list(n) AS l FROM (s UNION ALL z) [ROWS 5 SLIDE 2]"),
        ),
    ),
    Entry(
        SessionsOperator,
        st.one_of(
            over_windows(_sessions),
            over_windows(_sessions),
            over_windows(_sessions),
            united("SELECT k, count(*) AS n, list(n) AS l FROM (s UNION ALL z) [SESSION 3 UNIT] GROUP BY k"),
        ),
    ),
    Entry(
        SummaryOperator, over_windows(_panes, f", archive='plain + summary({SUMMARY})'", 0, 1), summarised, past=False
    ),
    Entry(StoreOperator, over_instants(_relation(_ALIKE), 2, 2), share=0.4),
    Entry(RelationOperator, over_instants(_relation()), share=0.5),
    Entry(PairsOperator, over_instants(_pairs()), share=0.4),
    Entry(DerivedAnswers, over_windows(_retracting), netted, 0.5),
    Entry(DerivedRows, over_windows(_derived), passed_on, 1.5),
    Entry(RowQueries, over_windows(_row_query), matched, 1.5, False),
)
