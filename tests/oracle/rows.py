"""Rows of a stream in total order, and the DuckDB connection that evaluates over them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

#: Columns that the oracle adds: event time in microseconds, place in the total order.
TIME, ORDER = "__time", "__order"


@dataclass(frozen=True)
class Row:
    """One tuple: its event time in microseconds, its place in intake order, its other columns by name."""

    time: int
    intake: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The rows of a stream. `types`: DuckDB type of each column but the event time `time_column` (a TIMESTAMP)."""

    rows: tuple[Row, ...]
    types: dict[str, str]
    time_column: str = "ts"

    def only(self, rows: Sequence[Row]) -> Table:
        """The same stream with other rows."""
        return Table(tuple(rows), self.types, self.time_column)

    def load(self) -> duckdb.DuckDBPyConnection:
        """A connection with the rows as table `t`, in total order: (event time, intake order)."""
        connection = connect()
        if _last and _last[0]._is(self):
            return connection
        _last.clear()
        time = f'"{self.time_column}"'
        columns = "".join(f', "{n}" {t}' for n, t in self.types.items())
        connection.execute(f"CREATE OR REPLACE TABLE t ({TIME} BIGINT, {ORDER} BIGINT, {time} TIMESTAMP{columns})")
        ordered = sorted(self.rows, key=lambda r: (r.time, r.intake))
        if ordered:
            one = "(?, ?, make_timestamp(?)" + ", ?" * len(self.types) + ")"
            values = [
                [row.time, place, row.time, *(row.values.get(n) for n in self.types)]
                for place, row in enumerate(ordered)
            ]
            connection.execute(
                f"INSERT INTO t VALUES {', '.join([one] * len(ordered))}", [v for r in values for v in r]
            )
        _last.append(self)
        return connection

    def _is(self, other: Table) -> bool:
        """Whether these are the very same rows; equal ones may differ (0.0 and -0.0)."""
        return (
            len(self.rows) == len(other.rows)
            and all(map(operator.is_, self.rows, other.rows))
            and (self.types, self.time_column) == (other.types, other.time_column)
        )


#: What the connection holds: most questions are about the same rows as the one before.
_last: list[Table] = []


@functools.cache
def connect() -> duckdb.DuckDBPyConnection:
    """A plain DuckDB that reads SQL as the definitions want: UTC, division by zero is NULL, one thread."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone='UTC'")
    connection.execute("SET error_on_division_by_zero=false")
    connection.execute("SET ieee_floating_point_ops=false")
    return connection
