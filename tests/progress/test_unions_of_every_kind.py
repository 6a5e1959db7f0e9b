"""Unions under windows that end with rows, relations of CQL and row queries: as over one stream with all rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.progress import NEVER, now
from tests.oracle import Case, Row, Table, assert_rows_equal
from tests.oracle.cql import Query, Stamped, Windowed
from tests.oracle.row_windows import RowCase, row_answers
from tests.oracle.selections import Bound, Prefix, Reading, Selection
from tests.progress.test_unions import STREAMS, TYPES, S, Streams, batches, streams
from tests.properties.harness import wanted

FROM = "(a UNION ALL b UNION ALL c)"
EPOCH = dt.datetime(1970, 1, 1)
PLACES = {name: n for n, name in enumerate(STREAMS)}


class Story(Streams):
    """Streams that batches come into, step by step, and what came: (epoch, stream, place in it, time, values)."""

    came: list[tuple[int, str, int, int, dict[str, Any]]]
    epoch: int

    def take(self, stream: str, values: list[tuple[int, Any, int]], unit: int) -> None:
        if not hasattr(self, "came"):
            self.came, self.epoch = [], 0
        new = [Row(t * unit, 0, {"k": k, "n": n}) for t, k, n in values]
        self.came += [(self.epoch, stream, len(self.came) + i, r.time, r.values) for i, r in enumerate(new)]
        self.ingest(stream, new)

    def step(self) -> None:
        while self.pond.step():
            pass
        self.epoch += 1

    def bag(self, arrival: bool = False) -> list[Row]:
        """The rows of the union, numbered in its order: of its streams, or (arrival) of epochs and then streams."""
        key = (lambda c: (c[0], PLACES[c[1]], c[2])) if arrival else (lambda c: (PLACES[c[1]], c[2]))
        return [Row(c[3], n, c[4]) for n, c in enumerate(sorted(self.came, key=key))]


def tell(data: st.DataObject, s: Streams, create: str, unit: int) -> Story:
    """A story: queries q from the start, `paused` in between, `later` back-filled; restarts anywhere."""
    s.__class__ = Story
    assert isinstance(s, Story)
    taken = data.draw(batches)
    start, pause = data.draw(st.integers(0, len(taken))), data.draw(st.integers(0, len(taken)))
    resume = data.draw(st.integers(pause, len(taken)))
    s.pond.sql(f"CREATE QUERY q {create}; CREATE QUERY paused {create}")
    for number in range(len(taken) + 1):
        if number == start:
            s.pond.sql(f"CREATE QUERY later {create} WITH (since='start')")
        if number == pause:
            s.pond.sql("ALTER QUERY paused PAUSE")
        if number == resume:
            s.pond.sql("ALTER QUERY paused RESUME")
        if number < len(taken):
            s.take(*taken[number], unit)
            if data.draw(st.booleans()):
                s.step()
            if data.draw(st.integers(0, 5)) == 0:
                s.restart()
    return s


@given(st.data())
def test_windows_that_end_with_rows(data: st.DataObject) -> None:
    """[ROWS n SLIDE m], [PARTITION BY k ROWS n SLIDE m], [RANGE r SLIDE m ROWS], by rank and by arrival."""
    partition = ("k",) if data.draw(st.booleans()) else ()
    keys = () if data.draw(st.booleans()) else ("k",)
    arrival = data.draw(st.booleans())
    # A list is in order of event time, and of the streams in the union, also where rows are numbered as they come.
    items = ("count(*) AS c0", "sum(n) AS c1", "max(n) AS c2" if arrival else "list(n) AS c2")
    plain = Case(items, stream="t", where=data.draw(st.sampled_from([None, "n > 2"])), group_by=keys)
    size = {"rows": data.draw(st.integers(1, 5))} if data.draw(st.booleans()) else {"range": 7 * S}
    case = RowCase(plain, slide=data.draw(st.integers(1, 3)), partition=partition, arrival=arrival,
                   **size)  # fmt: skip
    select = case.query().replace("FROM t [", f"FROM {FROM} [", 1)
    with streams(f", lateness='{data.draw(st.integers(0, 9))}s'") as s:
        story = tell(data, s, f"AS {select}", S)
        story.pond.drain(final=True)
        final = wanted(row_answers(case, Table(tuple(story.bag(case.arrival)), TYPES)))
        shown = "SELECT window_start, window_end, window_number, c0, c1, c2 FROM "
        for query in ("q", "later", "paused"):
            assert_rows_equal(final, story.rows(shown + query), what=f"{query}: {select}")
        assert_rows_equal(final, [r[:3] + r[3:] for r in story.rows(select)], what=f"ad hoc: {select}")


WINDOWS = {
    "[NOW]": (("range", 0), ()),
    "[RANGE 5 MICROSECONDS]": (("range", 5), ()),
    "[ROWS 3]": (("rows", 3), ()),
    "[PARTITION BY k ROWS 2]": (("rows", 2), (0,)),
    "": (("unbounded", 0), ()),
}
SHAPES = (
    "SELECT {op}(k, n) FROM {x} AS x WHERE n > 3",
    "SELECT {op}(k, count(*) AS c) FROM {x} AS x GROUP BY k",
    "SELECT {op}(x.n, y.n AS m) FROM {x} AS x JOIN {y} AS y ON x.k = y.k",
)


@given(st.data())
def test_relations(data: st.DataObject) -> None:
    """ISTREAM and DSTREAM over a union, and over a union joined with one of its streams."""
    shape, window = data.draw(st.sampled_from(SHAPES)), data.draw(st.sampled_from(sorted(WINDOWS)))
    operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM"]))
    text = shape.format(op=operator, x=f"{FROM} {window}", y="a [RANGE 4 MICROSECONDS]")
    with streams(f", lateness='{data.draw(st.integers(0, 9))} us'") as s:
        story = tell(data, s, f"AS {text}", 1)
        story.pond.drain(final=True)
        kinds = {"k": "VARCHAR", "n": "BIGINT"}
        rows = [Stamped(r.time, r.intake, (r.values["k"], r.values["n"])) for r in story.bag()]
        own = [Stamped(t, n, (v["k"], v["n"])) for _, stream, n, t, v in story.came if stream == "a"]
        form, parts = WINDOWS[window]
        inputs = {"w0": Windowed(kinds, rows, form, parts), "w1": Windowed(kinds, own, ("range", 4))}
        naive = shape.format(op="", x="w0", y="w1").replace("SELECT (", "SELECT ").replace(") FROM", " FROM")
        expected = getattr(Query(naive, inputs), operator.lower())(-1, 60)
        for query in ("q", "later", "paused"):
            found: Counter[Any] = Counter()
            for at, *row, _ in story.pond.sql(f"SELECT * FROM {query}").rows():
                found[int((at - EPOCH) / dt.timedelta(microseconds=1)), tuple(row)] += 1
            assert found == expected, f"{query}: {text}"
        asked = Counter(
            tuple(row) for _, *row, _ in story.pond.sql(f"INVOKE q AS OF TIMESTAMP '{EPOCH + 5 * US}'").rows()
        )
        assert asked == Query(naive, inputs).at(5)


US = dt.timedelta(microseconds=1)


@given(st.data())
def test_row_queries(data: st.DataObject) -> None:
    """BEGIN … END over a union: plain rows, groups, the last n rows; invoked, ad hoc, and delivered."""
    begin = data.draw(
        st.sampled_from([None, Bound("now", -9 * S), Bound("rows", 3), Bound("rows", 50), Bound("constant", 5 * S)])
    )
    grouped = data.draw(st.booleans())
    items = ("k AS c0", "count(*) AS c1", "sum(n) AS c2") if grouped else ("k AS c0", "n AS c1")
    where = data.draw(st.sampled_from([None, "u.n > 3", "u.k = 'x'", "u.n > 1 AND u.k <> 'x'", "u.n % 2 = 0"]))
    asked = Selection(items, (Reading("u", "u", begin),), where, group_by=("k",) if grouped else ())
    text = asked.text().replace("FROM u AS u", f"FROM {FROM} AS u", 1)
    with streams() as s:
        s.__class__ = Story
        assert isinstance(s, Story)
        s.pond.sql(f"CREATE QUERY q AS {text}")
        seen: list[tuple[Any, ...]] = []
        cursor = "0:0:0"
        for stream, values in data.draw(batches):
            s.take(stream, values, S)
            if data.draw(st.booleans()):
                s.step()
            if data.draw(st.integers(0, 5)) == 0:
                s.restart()
            if not grouped and data.draw(st.booleans()):
                cursor = delivered(s, cursor, seen)
        s.step()
        known = now([state for state in s.state() if state.high > NEVER])
        expected = asked.answer({"u": Prefix(Table(tuple(s.bag()), TYPES), high=known)})
        assert_rows_equal(expected, s.rows("INVOKE q"), what=text, ordered=not grouped)
        assert_rows_equal(expected, s.rows(text), what=f"ad hoc {text}")
        if not grouped:
            delivered(s, cursor, seen)
            constant = begin is not None and begin.kind == "constant"
            span = (Reading("u", "u", begin if constant else None, Bound("constant", 100 * S)),)
            all_rows = Selection(items, span, where).answer({"u": Prefix(Table(tuple(s.bag()), TYPES), high=known)})
            assert_rows_equal(all_rows, seen, what=f"delivered {text}")


def delivered(s: Streams, cursor: str, seen: list[tuple[Any, ...]]) -> str:
    for batch in s.pond.query("q").subscribe(since=cursor, timeout=0):
        seen += [tuple(row.values())[:-1] for row in batch.rows.to_pylist()]
        cursor = str(batch.cursor)
    return cursor


@pytest.mark.parametrize(
    "select",
    [
        "SELECT sum(n) AS total FROM (a UNION b UNION c) [ROWS 10 SLIDE 2]",
        "SELECT ISTREAM(sum(n) AS total) FROM (a UNION b UNION c) [RANGE 5 SECONDS]",
    ],
)
def test_idle_streams_hold_nothing_up(select: str) -> None:
    with streams(", idle='10s'") as s:
        s.pond.sql(f"CREATE QUERY q AS {select}")
        for stream in "abc":
            s.ingest(stream, [Row(5 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        s.ingest("a", [Row(25 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        assert s.rows("SELECT total FROM q") == []  # 5 s has not passed in b and c
        s.clock.advance(6 * S)
        s.ingest("a", [Row(26 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        assert s.rows("SELECT total FROM q") == []
        s.clock.advance(5 * S)
        s.pond.step()
        answered = s.rows("SELECT total FROM q")
        assert answered
        bound = _bound(s)
        s.ingest("b", [Row(6 * S, 0, {"k": "x", "n": 1})])  # it speaks again: what was announced stays announced
        s.pond.step()
        assert _bound(s) == bound
        s.restart()
        s.ingest("c", [Row(7 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        assert _bound(s) == bound
        assert len(s.rows("SELECT total FROM q")) >= len(answered)


def _bound(s: Streams) -> str:
    (row,) = [r for r in s.pond.sql("SHOW WATERMARKS").table.to_pylist() if r["kind"] == "query"]
    return str(row["watermark"])


def test_late_rows_of_a_stream_that_drops_them_do_not_enter_any_kind() -> None:
    with streams(", late='drop'") as s:
        s.pond.sql("CREATE QUERY last AS SELECT sum(n) AS t FROM (a UNION b) [ROWS 9 SLIDE 1]")
        s.pond.sql("CREATE QUERY whole AS SELECT count(*) AS t FROM (a UNION b) [RANGE UNBOUNDED]")
        s.pond.sql("CREATE QUERY some AS SELECT n FROM (a UNION b) BEGIN NOW - 2 ROWS END NOW")
        s.ingest("a", [Row(8 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        s.ingest("a", [Row(7 * S, 0, {"k": "x", "n": 5})])  # late in its own stream
        s.ingest("b", [Row(1 * S, 0, {"k": "x", "n": 2}), Row(9 * S, 0, {"k": "x", "n": 4})])
        s.pond.step()
        s.pond.drain(final=True)
        assert s.rows("SELECT t FROM last ORDER BY t") == [(2,), (3,), (7,)]
        assert s.rows("SELECT t FROM whole") == [(3,)]
        assert s.rows("INVOKE some") == [(1,), (4,)]
