"""Unions of streams in FROM: the answers are those over the bag of all rows, and progress is that of the slowest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
from millpond.progress import NEVER, StreamProgress, meld, now
from millpond.support.errors import StatementError
from millpond.testing import VirtualClock
from tests.oracle import Case, Row, Table, assert_rows_equal, evaluate
from tests.oracle.case import span
from tests.properties.harness import table_rows, wanted
from tests.quick import quick_folder

S = 1_000_000
TYPES = {"k": "VARCHAR", "n": "BIGINT"}
STREAMS = {"a": ("ts", "k", "n", "BIGINT"), "b": ("at", "key", "m", "INTEGER"), "c": ("t", "group_", "v", "BIGINT")}
FROMS = ["(a UNION ALL b UNION ALL c)", "(a UNION (b UNION ALL c))", "a UNION b UNION c", "((a UNION b) UNION c) AS u"]


class Streams:
    """A pond with the streams a, b, c, whose columns have names of their own."""

    def __init__(self, folder: str, options: str = "") -> None:
        self.folder, self.clock = folder, VirtualClock(0)
        self.pond = self._open()
        for name, (time, key, value, kind) in STREAMS.items():
            columns = f"{time} TIMESTAMP, {key} VARCHAR, {value} {kind}"
            self.pond.sql(f"CREATE STREAM {name} ({columns}) WITH (event_time='{time}'{options})")

    def _open(self) -> Any:
        return millpond.open(self.folder, executor="inline", clock=self.clock)

    def restart(self) -> None:
        self.pond.close()
        self.pond = self._open()

    def ingest(self, stream: str, rows: list[Row]) -> None:
        time, key, value, kind = STREAMS[stream]
        table = {
            time: pa.array([r.time for r in rows], pa.timestamp("us")),
            key: pa.array([r.values["k"] for r in rows], pa.string()),
            value: pa.array([r.values["n"] for r in rows], pa.int64() if kind == "BIGINT" else pa.int32()),
        }
        self.pond.ingest(stream, pa.table(table))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return table_rows(self.pond.sql(sql).table)

    def settle(self) -> None:
        while self.pond.step():
            pass

    def state(self) -> list[StreamProgress]:
        published = self.pond._core.published.progress
        return [published[str(self.pond._core.catalog.stream(s).id)] for s in STREAMS]


@contextmanager
def streams(options: str = "") -> Iterator[Streams]:
    with quick_folder() as folder:
        opened = Streams(str(folder / "pond"), options)
        try:
            yield opened
        finally:
            opened.pond.close()


values = st.tuples(st.integers(0, 40), st.sampled_from(["x", "y", None]), st.integers(0, 9))
batches = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(values, min_size=1, max_size=4)), min_size=1, max_size=8
)  # fmt: skip


@given(st.data())
def test_a_union_is_the_bag_of_its_streams(data: st.DataObject) -> None:
    """Live, back-filled, paused, restarted and asked for: the same as over one stream with all the rows."""
    size = data.draw(st.sampled_from([2, 5, 10])) * S
    slide = data.draw(st.sampled_from([size, 2 * S, 3 * S]))
    case = Case(("k AS c0", "count(*) AS c1", "sum(n) AS c2"), size, slide, group_by=("k",), where="n < 8 OR n IS NULL")
    window = f"[RANGE {span(size)} SLIDE {span(slide)}]"

    def select() -> str:
        items = ", ".join(case.select)
        return f"SELECT {items} FROM {data.draw(st.sampled_from(FROMS))} {window} WHERE {case.where} GROUP BY k"

    taken = data.draw(batches)
    start, pause = data.draw(st.integers(0, len(taken))), data.draw(st.integers(0, len(taken)))
    resume = data.draw(st.integers(pause, len(taken)))
    bag: list[Row] = []
    with streams(f", lateness='{data.draw(st.integers(0, 9))}s'") as s:
        s.pond.sql(f"CREATE QUERY q AS {select()}; CREATE QUERY paused AS {select()}")
        for number, batch in enumerate([*taken, None]):
            if number == start:
                s.pond.sql(f"CREATE QUERY later AS {select()} WITH (since='start')")
            if number == pause:
                s.pond.sql("ALTER QUERY paused PAUSE")
            if number == resume:
                s.pond.sql("ALTER QUERY paused RESUME")
            if batch is not None:
                stream, values = batch
                new = [Row(t * S, len(bag) + i, {"k": k, "n": n}) for i, (t, k, n) in enumerate(values)]
                bag += new
                s.ingest(stream, new)
                if data.draw(st.booleans()):
                    s.pond.step()
                if data.draw(st.integers(0, 5)) == 0:
                    s.restart()
        s.settle()
        table = Table(tuple(bag), TYPES)
        bound = meld(s.state()).bound
        so_far = wanted([(b, e, *items) for b, e, items, _ in evaluate(case, table, max(bound, -(10**12)))])
        shown = "SELECT window_start, window_end, c0, c1, c2 FROM "
        for query in ("q", "later", "paused"):
            assert_rows_equal(so_far, s.rows(shown + query), what=f"{query}: progress")
        asked = now(s.state())
        if asked > NEVER:
            by_now = wanted([(b, e, *items) for b, e, items, _ in evaluate(case, table, max(bound, asked))])
            assert_rows_equal(by_now, s.rows(select()), what="ad hoc")
            inside = [r for r in bag if asked - size <= r.time <= asked and r.values["n"] < 8]
            groups = {r.values["k"] for r in inside}
            expected = [
                (k, len(g), sum(r.values["n"] for r in g))
                for k in groups
                for g in [[r for r in inside if r.values["k"] == k]]
            ]
            assert_rows_equal(expected, [row[2:5] for row in s.rows("INVOKE q")], what="INVOKE")
        s.pond.drain(final=True)
        final = wanted([(b, e, *items) for b, e, items, _ in evaluate(case, table)])
        for query in ("q", "later", "paused"):
            assert_rows_equal(final, s.rows(shown + query), what=f"{query}: final")


def test_a_silent_stream_does_not_hold_the_union_up() -> None:
    with streams(", idle='10s'") as s:
        s.pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM (a UNION b UNION c) [RANGE TUMBLING 10 SECONDS]")
        for stream in "abc":
            s.ingest(stream, [Row(5 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        s.ingest("a", [Row(25 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        assert s.rows("SELECT n FROM q") == []
        (waits,) = [r["waiting_for"] for r in s.pond.sql("SHOW WATERMARKS").table.to_pylist() if r["kind"] == "query"]
        assert waits == "b, c to reach 1970-01-01 00:00:10"
        s.clock.advance(6 * S)
        s.ingest("a", [Row(26 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        assert s.rows("SELECT n FROM q") == []
        s.clock.advance(5 * S)  # b and c have been silent for 11 s, a for 5 s: a tick is enough
        s.pond.step()
        assert s.rows("SELECT n FROM q") == [(3,)]
        s.ingest("b", [Row(6 * S, 0, {"k": "x", "n": 1})])  # it speaks again, below what was answered
        s.pond.step()
        assert s.rows("SELECT n FROM q") == [(4,)]


def test_late_rows_of_a_stream_that_drops_them_do_not_enter() -> None:
    with streams(", late='drop'") as s:
        s.pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM (a UNION b UNION c) [RANGE TUMBLING 10 SECONDS]")
        s.ingest("a", [Row(8 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        s.ingest("a", [Row(7 * S, 0, {"k": "x", "n": 1})])  # late in its own stream, though the window is open
        s.ingest("b", [Row(1 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        s.pond.sql("CREATE QUERY later AS SELECT count(*) AS n FROM a UNION b UNION c [RANGE TUMBLING 10 SECONDS]")
        for stream in "abc":
            s.ingest(stream, [Row(10 * S, 0, {"k": "x", "n": 1})])
        s.settle()
        assert s.rows("SELECT n FROM q") == s.rows("SELECT n FROM later") == [(2,)]


def test_order_between_streams_is_that_of_the_union() -> None:
    """Rows of equal event time: first those of the stream that stands first, each stream's in order of intake."""
    with streams() as s:
        s.pond.sql("CREATE QUERY q AS SELECT list(n) AS l FROM (a UNION c) [RANGE TUMBLING 10 SECONDS]")
        s.ingest("c", [Row(5 * S, 0, {"k": "x", "n": 1})])
        s.pond.step()
        s.ingest("a", [Row(5 * S, 0, {"k": "x", "n": 2}), Row(5 * S, 0, {"k": "x", "n": 3})])
        s.pond.drain(final=True)
        assert s.pond.sql("SELECT l FROM q").rows() == [([2, 3, 1],)]


WINDOW = "[RANGE TUMBLING 1 MINUTE]"


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        (f"SELECT count(*) FROM (a UNION q) {WINDOW}", "'q' is not a stream"),
        (f"SELECT count(*) FROM (a UNION missing) {WINDOW}", "there is no stream, table or query 'missing'"),
        (f"SELECT count(*) FROM (a UNION DISTINCT b) {WINDOW}", "keeps every row"),
        (f"SELECT count(*) FROM (b UNION a) {WINDOW}", "column n of a is BIGINT, and column m of b is INTEGER"),
        (f"SELECT count(*) FROM (a UNION a) {WINDOW}", "stands in the union twice"),
        (f"SELECT count(*) FROM (a UNION narrow) {WINDOW}", "narrow has 1 columns and a has 3"),
        (f"SELECT count(*) FROM (a UNION turned) {WINDOW}", "is VARCHAR, and column ts of a is TIMESTAMP"),
        ("SELECT * FROM (q UNION ALL q)", "a union in FROM is of streams"),
        (f"SELECT count(*) FROM a {WINDOW} UNION b", ""),
    ],
)
def test_what_is_no_union(sql: str, part: str) -> None:
    with streams() as s:
        s.pond.sql(
            "CREATE STREAM narrow (ts TIMESTAMP); CREATE STREAM turned (k VARCHAR, ts TIMESTAMP, n BIGINT);"
            f"CREATE QUERY q AS SELECT count(*) AS n FROM a {WINDOW}"
        )
        with pytest.raises(StatementError) as caught:
            s.pond.sql(sql)
        assert part in caught.value.message


def test_a_stream_of_a_union_cannot_be_dropped_beneath_it() -> None:
    with streams() as s:
        s.pond.sql(f"CREATE QUERY q AS SELECT count(*) AS n FROM (a UNION b) {WINDOW}")
        with pytest.raises(StatementError, match="read by q"):
            s.pond.sql("DROP STREAM b")
        s.pond.sql("DROP STREAM b CASCADE")
        assert s.pond.sql("SHOW QUERIES").table.num_rows == 0
