"""Derived streams by definition: the log of a query's answers as a stream, over which another query is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.case import Case
from tests.oracle.evaluate import evaluate
from tests.oracle.revisions import Revision
from tests.oracle.rows import Row, Table


def answer_rows(case: Case, names: Sequence[str], table: Table, until: int | None = None) -> list[Row]:
    """The final answers of a query as rows of a stream (event time: the window's end), in its total order.

    Arguments:
        names: of the SELECT list.
    Rows of one event time are in the order of their values, column by column, NULL last.
    """
    found = [
        (end, {"window_start": start, **dict(zip(names, items, strict=True))})
        for start, end, items, _ in evaluate(case, table, until)
    ]
    return _numbered(sorted(found, key=_order))


def in_total_order(rows: Sequence[Row]) -> list[Row]:
    """Rows of several such streams as one: by event time, and then by their values."""
    return _numbered(sorted(((r.time, r.values) for r in rows), key=_order))


def log_rows(log: Sequence[Revision], names: Sequence[str], first_only: bool = False) -> list[Row]:
    """The log of a query as rows of a stream, those of an epoch in the order of their values.

    Arguments:
        first_only: only first answers (revision 0), without `revision` and `op`.
    """
    rows: list[tuple[int, dict[str, Any]]] = []
    for epoch in sorted({r.epoch for r in log}):
        of_epoch = []
        for r in log:
            if r.epoch != epoch or (first_only and (r.revision > 0 or r.op != "+")):
                continue
            values = {"window_start": r.start, **dict(zip(names, r.items, strict=True))}
            values |= {} if first_only else {"revision": r.revision, "op": r.op}
            of_epoch.append((r.end, values))
        rows += sorted(of_epoch, key=_order)
    return _numbered(rows)


def stream_table(rows: Sequence[Row], types: dict[str, str]) -> Table:
    """Rows as the stream that a second query reads. types: of the SELECT list's columns, and `revision`, `op`."""
    return Table(tuple(rows), types, "window_end")


def _order(row: tuple[int, dict[str, Any]]) -> tuple[Any, ...]:
    end, values = row
    return (end, *((v is None, 0 if v is None else v) for v in values.values()))


def _numbered(rows: Sequence[tuple[int, dict[str, Any]]]) -> list[Row]:
    return [Row(end, place, values) for place, (end, values) in enumerate(rows)]
