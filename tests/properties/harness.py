"""Runs a pond (without a JVM) over drawn streams and reads its answers in the oracle's form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from millpond.testing import VirtualClock
from tests.oracle import Case, Epoch, Row
from tests.oracle.case import span
from tests.oracle.compare import normal
from tests.oracle.landmarks import BEGINNING
from tests.properties.streams import COLUMNS
from tests.quick import quick_folder

_ARROW = {
    "k": pa.string(), "g": pa.int32(), "v": pa.float64(), "n": pa.int64(), "d": pa.decimal128(12, 2), "b": pa.bool_()
}  # fmt: skip


class Pond:
    """A pond in a temporary folder with the stream `s`, fed from oracle rows.

    Arguments:
        options: the options of the stream, as SQL text.
    """

    def __init__(self, folder: Path, options: str = "event_time='ts'", **settings: Any) -> None:
        self.folder, self.settings = folder, settings
        self.clock = VirtualClock()
        self.pond = self._open()
        self.pond.sql(f"CREATE STREAM s ({COLUMNS}) WITH ({options})")

    def _open(self) -> Any:
        import millpond

        return millpond.open(str(self.folder), executor="inline", clock=self.clock, **self.settings)

    def restart(self) -> None:
        """Close and open again."""
        self.pond.close()
        self.pond = self._open()

    def close(self) -> None:
        """Close it."""
        self.pond.close()

    def sql(self, text: str) -> Any:
        """Run a script; the last result."""
        return self.pond.sql(text)

    def ingest(self, rows: Sequence[Row], partition: str = "") -> None:
        """One intake item."""
        columns: dict[str, pa.Array] = {"ts": pa.array([r.time for r in rows], pa.timestamp("us"))}
        columns |= {name: pa.array([r.values[name] for r in rows], kind) for name, kind in _ARROW.items()}
        self.pond.ingest("s", pa.table(columns), partition=partition)

    def epoch(self, epoch: Epoch) -> None:
        """Take in the items of an epoch and run it."""
        if epoch.clock > self.clock():
            self.clock.advance(epoch.clock - self.clock())
        for item in epoch.items:
            self.ingest(item.rows, item.partition)
        self.pond.step()

    def feed(self, epochs: Sequence[Epoch], restarts: Sequence[int] = ()) -> None:
        """Run epochs, reopening the pond before those whose numbers are given."""
        for number, epoch in enumerate(epochs):
            if number in restarts:
                self.restart()
            self.epoch(epoch)

    def settle(self) -> None:
        """Run what there is to do, back-fill included."""
        for _ in range(100):
            if not self.pond.step():
                return
        raise AssertionError("the pond finds something to do for ever")

    def finish(self) -> None:
        """Drain to the end, so that every window is closed."""
        self.pond.drain(final=True)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, in the form that the oracle's comparison knows."""
        table = self.pond.sql(sql).table
        assert table is not None, sql
        return table_rows(table)

    def answers(self, case: Case, name: str = "q") -> list[tuple[Any, ...]]:
        """The latest revisions: (window_start, window_end, SELECT list)."""
        items = ", ".join(f"c{i}" for i in range(len(case.select)))
        return self.rows(f"SELECT window_start, window_end, {items} FROM {name}")

    def log(self, case: Case, name: str = "q") -> list[tuple[Any, ...]]:
        """All revisions: (window_start, window_end, revision, op, SELECT list)."""
        items = ", ".join(f"c{i}" for i in range(len(case.select)))
        return self.rows(f"SELECT window_start, window_end, revision, op, {items} FROM {name} ALL REVISIONS")


@contextmanager
def pond(options: str = "event_time='ts'", **settings: Any) -> Iterator[Pond]:
    """A fresh pond for one example."""
    with quick_folder() as folder:
        opened = Pond(folder / "pond", options, **settings)
        try:
            yield opened
        finally:
            opened.close()


def table_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """An Arrow table as rows; timestamps as microseconds, whatever their zone."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
            columns.append([None if x is None else ("time", x) for x in column.to_pylist()])
        elif pa.types.is_duration(column.type):
            columns.append(column.cast(pa.duration("us")).to_pylist())
        else:
            columns.append(column.to_pylist())
    return list(zip(*columns, strict=True)) if columns else []


def wanted(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The oracle's (start, end, …) rows in the same form; the start of the stream is NULL."""
    return [(None if r[0] == BEGINNING else ("time", r[0]), ("time", r[1]), *map(normal, r[2:])) for r in rows]


def options(lateness: int | None = None, **more: str) -> str:
    """Options of the stream as SQL text."""
    parts = ["event_time='ts'"]
    parts += [f"lateness='{span(lateness).lower()}'"] if lateness else []
    parts += [f"{name}='{value}'" for name, value in more.items()]
    return ", ".join(parts)


def floor(rows: Sequence[Row]) -> float:
    """The absolute error that a sum or spread over these rows may have where what was added up cancels out."""
    magnitudes = [abs(r.values["v"]) for r in rows if r.values["v"] is not None and r.values["v"] == r.values["v"]]
    return 1e-12 * sum([1.0, *magnitudes])
