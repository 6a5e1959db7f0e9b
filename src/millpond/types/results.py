"""What users hold of answers: results of statements, answers of queries, batches of subscriptions and their cursors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from millpond.support.errors import QueryError
from millpond.support.texts.python_values import python_values
from millpond.support.texts.text_table import text_table
from millpond.types.plan_nodes import PlanNode, plan_in

#: Which answers a subscription carries: all of them; none of windows that are open; only what can no longer change.
Wanted = Literal["all", "closed", "final"]


@dataclass(frozen=True, repr=False)
class StatementResult:
    """What a statement gave: a message, or rows. Printed, it is the message, or a small table of the rows; what SHOW
    gives is printed whole.

    kind: 'message' or 'rows'. table: the rows. statement: its text.
    """

    kind: Literal["message", "rows"]
    message: str = ""
    table: pa.Table | None = None
    statement: str = ""

    def __repr__(self) -> str:
        if self.table is None:
            return self.message
        return text_table(self.table, self.message, whole=self.statement[:5].upper() == "SHOW ")

    @property
    def plan(self) -> PlanNode | None:
        """What EXPLAIN gave, as a tree; None: it is the result of another statement."""
        return None if self.table is None else plan_in(self.table)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python tuples; empty for a message.

        Timestamps and dates that Python has not (after the year 9999, before the year 1, infinite) are texts, as JSON
        has them.
        """
        if self.table is None or not self.table.num_columns:
            return []
        return list(zip(*map(python_values, self.table.columns), strict=True))

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; an empty one for a message."""
        return self.table if self.table is not None else pa.table({})


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of one invocation, and which prefix of the stream it saw.

    table: the SELECT list's columns. epoch: rows of the epochs up to it were seen, and no others. now: NOW in
    microseconds, NEVER while there is no row. watermark: no row below it is announced to come; NEVER: nothing is
    announced. begin, end: the window (of the first stream), closed at both ends, microseconds; None: unbounded.
    final: no row can come into the window any more, unless it is late.
    """

    table: pa.Table
    epoch: int
    now: int
    watermark: int
    begin: int | None
    end: int | None
    final: bool
    exact: bool = True

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts; timestamps and dates that Python has not are texts, as JSON has them."""
        names, columns = self.table.column_names, map(python_values, self.table.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_pylist())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Any Arrow library reads an answer without a copy."""
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in a query's published answers: after `ordinal` rows of epoch `epoch`.

    `query` is the query's id: a cursor of a dropped and recreated query is refused. `wanted` says which answers the
    subscription carries; with 'final', whose order is that of windows, `epoch` is the end of a window (microseconds).
    """

    epoch: int = 0
    ordinal: int = 0
    query: int = 0
    wanted: Wanted = "all"

    def __str__(self) -> str:
        return f"{self.query}:{self.epoch}:{self.ordinal}" + ("" if self.wanted == "all" else f":{self.wanted}")

    @staticmethod
    def parse(text: str) -> Cursor:
        """The cursor from its text.

        >>> Cursor.parse("3:7:2")
        Cursor(epoch=7, ordinal=2, query=3, wanted='all')
        """
        first, _, wanted = text.rpartition(":")
        try:
            if wanted not in ("closed", "final"):
                first, wanted = text, "all"
            query, epoch, ordinal = (int(part) for part in first.split(":"))
            if min(query, ordinal) < 0 or (epoch < 0 and wanted != "final"):
                raise ValueError(text)
        except ValueError:
            raise QueryError(f"'{text[:80]}' is not a cursor; pass one that a batch of answers carried") from None
        return Cursor(epoch, ordinal, query, wanted)  # type: ignore[arg-type]  # one of the words


@dataclass(frozen=True)
class AnswerBatch:
    """Rows that one epoch published for a query.

    rows: the query's columns, then `op` ('+' a row, '-' a row that no longer holds). cursor: where to go on after it.
    backfilled: the rows are older windows that a registration or RESUME caught up on.
    replaced: a marker without rows: CREATE OR REPLACE made a new version, whose answers follow.
    """

    rows: pa.Table
    cursor: Cursor
    epoch: int
    backfilled: bool
    replaced: bool = False
