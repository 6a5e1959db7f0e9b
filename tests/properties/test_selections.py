"""Stream-prefix consistency: whatever happens in whatever order, an invocation is the definition over one prefix.

A pond with two streams is driven through random registrations, arrivals (disorder, late rows, rows far ahead), epochs,
drops, pauses, compaction, restarts and invocations of every kind, with little or much memory; each answer must be what
plain SQL says over exactly the rows of the epochs up to the one that the answer names.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import millpond
from millpond.answers.row_queries import hot, trees
from millpond.answers.row_queries.selection import start_ready
from millpond.support.errors import MillpondError
from tests.oracle import Epoch, Item, Row, Script, StreamSpec, Table, assert_rows_equal, trace
from tests.oracle.compare import normal
from tests.oracle.selections import Prefix, Selection
from tests.properties.harness import _ARROW, table_rows
from tests.properties.selections import SECONDS, S, edges, instant, selections
from tests.properties.streams import COLUMNS, TYPES, values
from tests.quick import quick_folder

STREAMS = {
    "s": (StreamSpec(lateness=5 * S), "event_time='ts', lateness='5 seconds'"),
    "t": (StreamSpec(lateness=2 * S, ahead=60 * S), "event_time='ts', lateness='2 seconds', ahead='60 seconds'"),
}
FORMS = ("auto", "partial", "complete", "none")


class Selections(RuleBasedStateMachine):
    """The pond and, beside it, what was given to it."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.folder = self.stack.enter_context(quick_folder())
        self.pond: Any = None
        self.settings: dict[str, Any] = {}
        self.nan = self.ahead = False
        self.waiting: dict[str, list[Item]] = {s: [] for s in STREAMS}
        self.done: dict[str, list[Epoch]] = {s: [] for s in STREAMS}
        self.intake = {s: 0 for s in STREAMS}
        self.handles: dict[int, tuple[Any, Selection]] = {}
        self.prefixes: dict[int, dict[str, Prefix]] = {}
        self.names = 0

    @initialize(
        hot_bytes=st.sampled_from([1 << 29, 1 << 29, 60_000, 6_000, 1]),
        eager=st.sampled_from([1, 4, 16_384]),
        explicit=st.sampled_from([24.0, 0.5]),
        block=st.sampled_from([4, 16, 16_384]),
        piece=st.sampled_from([(8, 4), (4_096, 2_048)]),
        files=st.sampled_from([2, 8]),
        nan=st.booleans(),
        ahead=st.booleans(),
    )
    def start(
        self,
        hot_bytes: int,
        eager: int,
        explicit: float,
        block: int,
        piece: tuple[int, int],
        files: int,
        nan: bool,
        ahead: bool,
    ) -> None:
        self.settings = {
            "hot_bytes": hot_bytes, "eager_rows": eager, "explicit_matches": explicit, "compact_files": files
        }  # fmt: skip
        self.nan, self.ahead = nan, ahead
        # Small parts, so that a few dozen rows make many of them.
        self.stack.enter_context(patch.object(hot, "FULL_ROWS", block))
        self.stack.enter_context(patch.object(trees, "PIECE", piece[0]))
        self.stack.enter_context(patch.object(trees, "FINE", piece[1]))
        self.open()
        for name, (_, options) in STREAMS.items():
            self.pond.sql(f"CREATE STREAM {name} ({COLUMNS}) WITH ({options})")
        self.record()

    def open(self) -> None:
        self.pond = millpond.open(str(self.folder / "pond"), executor="inline", **self.settings)
        if self.ahead:  # a thread makes answers ready behind every publish
            start_ready(self.pond._core.view)

    def record(self) -> None:
        """Remember what the newest publish record has of every stream."""
        found = {}
        for name, (spec, _) in STREAMS.items():
            steps = trace(Script(spec, tuple(self.done[name])))
            rows = tuple(r for step in steps for r in step.admitted)
            found[name] = (
                Prefix(Table(rows, TYPES), steps[-1].after, steps[-1].high) if steps else Prefix(Table((), TYPES))
            )
        self.prefixes[self.pond.status()["epochs"]] = found

    # --- what may happen ------------------------------------------------------------------------------------------

    @rule(data=st.data(), stream=st.sampled_from(sorted(STREAMS)), base=st.sampled_from([0, 0, 0, 0, 20, 500]))
    def ingest(self, data: st.DataObject, stream: str, base: int) -> None:
        rows = []
        for _ in range(data.draw(st.integers(1, 12))):
            offset = data.draw(st.integers(0, SECONDS)) if base < 500 else base
            wobble = data.draw(st.sampled_from([0, 0, 0, 1, -1]))
            rows.append(Row((base % 500 + offset) * S + wobble, self.intake[stream], data.draw(values(self.nan))))
            self.intake[stream] += 1
        columns: dict[str, pa.Array] = {"ts": pa.array([r.time for r in rows], pa.timestamp("us"))}
        columns |= {name: pa.array([r.values[name] for r in rows], kind) for name, kind in _ARROW.items()}
        self.pond.ingest(stream, pa.table(columns))
        self.waiting[stream].append(Item(tuple(rows)))

    @rule()
    def step(self) -> None:
        if not self.pond.step():
            assert not any(self.waiting.values()), "rows wait, and no epoch takes them"
            return
        for name, items in self.waiting.items():
            self.done[name].append(Epoch(tuple(items)))
            self.waiting[name] = []
        self.record()

    @rule(data=st.data(), form=st.sampled_from(FORMS), named=st.booleans())
    def register(self, data: st.DataObject, form: str, named: bool) -> None:
        query = data.draw(selections(nan=self.nan))
        if named:
            self.names += 1
            name = f"q{self.names}"
            self.pond.sql(f"CREATE QUERY {name} AS {query.text()} WITH (materialize = '{form}')")
            handle = self.pond.query(name)
        else:
            handle = self.pond.register(query.text(), materialize=form)
        self.handles[handle.id] = (handle, query)

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def register_a_shape_again(self, data: st.DataObject) -> None:
        _, query = self.handles[data.draw(st.sampled_from(sorted(self.handles)))]
        handle = self.pond.register_many([query.text()])[0]
        self.handles[handle.id] = (handle, query)

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.handles)))
        handle, _ = self.handles.pop(number)
        handle.drop()
        try:
            handle.result()
        except MillpondError:
            return
        raise AssertionError("a dropped query answers")

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), pause=st.booleans())
    def pause_or_resume(self, data: st.DataObject, pause: bool) -> None:
        handle, _ = self.handles[data.draw(st.sampled_from(sorted(self.handles)))]
        if pause:
            handle.pause()
        elif handle.info()["status"] == "paused":
            handle.resume()

    @rule()
    def maintain(self) -> None:
        self.pond.maintain()

    @rule(hot_bytes=st.sampled_from([1 << 29, 60_000, 6_000, 1]))
    def restart(self, hot_bytes: int) -> None:
        self.pond.close()
        self.settings["hot_bytes"] = hot_bytes
        self.open()
        self.handles = {number: (self.pond.query(number), query) for number, (_, query) in self.handles.items()}

    # --- what must be true ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), as_of=st.sampled_from(["", "", "watermark", "timestamp", "epoch"]), other=st.booleans())
    def invoke(self, data: st.DataObject, as_of: str, other: bool) -> None:
        handle, query = self.handles[data.draw(st.sampled_from(sorted(self.handles)))]
        begin, end = data.draw(edges()) if other else (None, None)
        moment, value, sql = self.moment(data, as_of)
        asked = query.at(begin, end) if other else query
        if data.draw(st.booleans()):
            answer = handle.result(moment, begin and begin.text, end and end.text)
            assert answer.epoch == (value if as_of == "epoch" else max(self.prefixes))
            table = answer.table
        else:
            edge_text = (f" BEGIN {begin.text}" if begin else "") + (f" END {end.text}" if end else "")
            table = self.pond.sql(f'INVOKE "{handle.name}"{sql}{edge_text}').table
        at = value if as_of == "epoch" else max(self.prefixes)
        seen = {"watermark": "watermark", "timestamp": value}.get(as_of)
        self.compare(asked, table, self.prefixes[at], seen, f"{sql} {begin} {end}")

    def moment(self, data: st.DataObject, kind: str) -> tuple[Any, int | None, str]:
        if kind == "timestamp":
            at = data.draw(st.integers(-2, SECONDS + 10)) * S
            return ("timestamp", at), at, f" AS OF {instant(at)}"
        if kind == "epoch":
            epoch = data.draw(st.sampled_from(sorted(self.prefixes)))
            return ("epoch", epoch), epoch, f" AS OF EPOCH {epoch}"
        return (None, None, "") if not kind else ("watermark", None, " AS OF WATERMARK")

    @rule(data=st.data())
    def ask_once(self, data: st.DataObject) -> None:
        query = data.draw(selections(nan=self.nan))
        self.compare(query, self.pond.sql(query.text()).table, self.prefixes[max(self.prefixes)], None, "ad hoc")

    @invariant()
    def every_query_answers(self) -> None:
        for handle, query in list(self.handles.values())[-2:]:
            self.compare(query, handle.result().table, self.prefixes[max(self.prefixes)], None, "after this")

    def compare(self, query: Selection, table: pa.Table, prefixes: dict[str, Prefix], as_of: Any, what: str) -> None:
        expected = [tuple(map(normal, row)) for row in query.answer(prefixes, as_of)]
        expected = [tuple(tuple(v) if isinstance(v, list) and v[:1] == ["time"] else v for v in r) for r in expected]
        rows = [r for reading in query.readings for r in prefixes[reading.stream].table.rows]
        sizes = [abs(r.values["v"]) for r in rows if r.values["v"] is not None and r.values["v"] == r.values["v"]]
        floor = 1e-12 * (1 + sum(sizes)) * max(1, len(rows))
        assert_rows_equal(expected, table_rows(table), query.in_order, floor, f"{query.text()} [{what}]")

    def teardown(self) -> None:
        if self.pond is not None:
            self.pond.close()
        self.stack.close()


def test_every_invocation_is_the_definition_over_its_prefix() -> None:
    run_state_machine_as_test(Selections, settings=settings(stateful_step_count=25))
