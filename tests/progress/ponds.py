"""Ponds over random streams whose sources say themselves how far they are, beside the oracle's account of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import millpond
from millpond.testing import VirtualClock
from tests.oracle import Case, Epoch, Item, Row, StreamSpec
from tests.oracle.case import span
from tests.quick import quick_folder

S = 1_000_000
TYPES = {"k": "VARCHAR", "n": "BIGINT"}
GROUPED = ("k AS c0", "count(*) AS c1", "sum(n) AS c2")
PLAIN = ("count(*) AS c0", "sum(n) AS c1")


def is_mark(row: Row) -> bool:
    """Whether a row is a control record."""
    return bool(row.values["kind"] == 1)


@dataclass(frozen=True)
class Kind:
    """A stream: what the oracle is told of it, and the options that say the same."""

    spec: StreamSpec

    @property
    def options(self) -> str:
        """The options of CREATE STREAM."""
        spec, parts = self.spec, ["event_time='ts'"]
        if spec.lateness is not None:
            parts.append(f"lateness='{span(spec.lateness)}'" if spec.lateness else "lateness='0s'")
        if spec.lateness_rows is not None:
            parts.append(f"lateness='{spec.lateness_rows} rows'")
        for name in ("idle", "timer", "lull", "step"):
            if (value := getattr(spec, name)) is not None:
                parts.append(f"{name}='{span(value)}'")
        if spec.column is not None:
            parts.append("marks='column:wm'")
        if spec.record is not None:
            parts.append("marks='record:kind = 1'")
        if spec.by is not None:
            parts.append(f"marks_by='{spec.by}'")
        if spec.reject:
            parts.append("guard='reject'")
        if spec.column is None and spec.record is None and spec.lateness is None and spec.lateness_rows is None:
            parts.append("ordered=true")
        return ", ".join([*parts, f"late='{spec.late}'"])


@st.composite
def kinds(draw: st.DrawFn, grouped: bool = False, late: str | None = None) -> Kind:
    """Streams of every generator, alone and combined."""
    marks = draw(st.sampled_from(["column", "record"] if grouped else ["", "column", "record"]))
    other = draw(st.sampled_from(["", "lateness", "rows"]))
    timer = draw(st.sampled_from([None, None, 2 * S]))
    return Kind(
        StreamSpec(
            lateness=draw(st.integers(0, 8)) * S if other == "lateness" else None,
            lateness_rows=draw(st.integers(0, 4)) if other == "rows" else None,
            idle=draw(st.sampled_from([None, 3 * S])),
            late=late or draw(st.sampled_from(["revise", "drop"])),
            timer=timer,
            lull=draw(st.sampled_from([None, S])) if timer else None,
            step=draw(st.sampled_from([None, None, 3 * S])),
            column="wm" if marks == "column" else None,
            record=is_mark if marks == "record" else None,
            by="k" if marks and (grouped or draw(st.booleans())) else None,
            only=bool(marks) and not other,
            reject=bool(marks) and draw(st.booleans()),
        )
    )


@st.composite
def rows(draw: st.DrawFn, most: int = 20, last: int = 40, unit: int = S) -> tuple[Row, ...]:
    """At most so many rows within `last` units of time, some of them control records, some with bounds of their own."""
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(0, last),
                st.sampled_from(["a", "a", "b", None]),
                st.integers(0, 9),
                st.sampled_from([0, 0, 0, 1]),
                st.one_of(st.none(), st.integers(0, last)),
            ),
            min_size=1,
            max_size=most,
        )
    )
    return tuple(
        Row(t * unit, place, {"k": k, "n": n, "kind": kind, "wm": None if wm is None else wm * unit})
        for place, (t, k, n, kind, wm) in enumerate(drawn)
    )


@st.composite
def epochs(draw: st.DrawFn, taken: tuple[Row, ...], partitions: bool = True) -> tuple[Epoch, ...]:
    """The rows, in their order, as items of partitions, at clock readings."""
    result, at, clock = [], 0, 0
    while at < len(taken):
        items = []
        for _ in range(draw(st.integers(1, 2))):
            size = draw(st.integers(1, 5))
            if taken[at : at + size]:
                items.append(Item(taken[at : at + size], draw(st.sampled_from("pq")) if partitions else ""))
            at += size
        result.append(Epoch(tuple(items), clock))
        clock += draw(st.integers(0, 3)) * S
    return tuple(result)


class MarkedPond:
    """A pond with the stream `s` (ts, k, n, kind, wm)."""

    def __init__(self, folder: str, options: str) -> None:
        self.folder, self.clock = folder, VirtualClock(start=0)
        self.pond = self._open()
        self.sql(f"CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, kind INTEGER, wm TIMESTAMP) WITH ({options})")

    def _open(self) -> Any:
        return millpond.open(self.folder, executor="inline", clock=self.clock)

    def restart(self) -> None:
        """Close and open again."""
        self.pond.close()
        self.pond = self._open()

    def sql(self, text: str) -> Any:
        """Run a script; the last result."""
        return self.pond.sql(text)

    def epoch(self, epoch: Epoch) -> None:
        """Take in the items of an epoch and run it, whether there is anything to do or not."""
        if epoch.clock > self.clock():
            self.clock.advance(epoch.clock - self.clock())
        for item in epoch.items:
            self.pond.ingest("s", table_of(item.rows), partition=item.partition)
        self.pond.step()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, timestamps as the oracle has them."""
        from tests.properties.harness import table_rows

        return table_rows(self.sql(sql).table)

    def log(self, case: Case, name: str = "q") -> list[tuple[Any, ...]]:
        """All revisions."""
        items = ", ".join(f"c{i}" for i in range(len(case.select)))
        return self.rows(f"SELECT window_start, window_end, revision, op, {items} FROM {name} ALL REVISIONS")

    def answers(self, case: Case, name: str = "q") -> list[tuple[Any, ...]]:
        """The latest revisions."""
        items = ", ".join(f"c{i}" for i in range(len(case.select)))
        return self.rows(f"SELECT window_start, window_end, {items} FROM {name}")

    @property
    def progress(self) -> Any:
        """What was published of the stream's progress."""
        (state,) = self.pond._core.published.progress.values()
        return state

    def settle(self) -> None:
        """Run what there is to do, back-fill included."""
        while self.pond.step():
            pass


def table_of(taken: tuple[Row, ...]) -> pa.Table:
    """Rows as they are ingested."""
    time = pa.timestamp("us")
    return pa.table(
        {
            "ts": pa.array([r.time for r in taken], time),
            "k": pa.array([r.values["k"] for r in taken], pa.string()),
            "n": pa.array([r.values["n"] for r in taken], pa.int64()),
            "kind": pa.array([r.values["kind"] for r in taken], pa.int32()),
            "wm": pa.array([r.values["wm"] for r in taken], time),
        }
    )


@contextmanager
def marked_pond(options: str) -> Iterator[MarkedPond]:
    """A fresh one for one example."""
    with quick_folder() as folder:
        opened = MarkedPond(str(folder / "pond"), options)
        try:
            yield opened
        finally:
            opened.pond.close()
