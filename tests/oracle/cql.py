"""CQL from its definitions: the relation at ONE instant over windows that are computed naively, instant by instant.

Written from the digest of Babu 2005 (2.1: B3, C2, C3) and SEMANTICS.md; it shares no code with the engine. Stamps are
whole microseconds, small enough that every instant can be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tests.quick import plain_duckdb

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Stamped:
    """A row of a stream: its stamp, its place in the order of arrival, its values."""

    stamp: int
    arrival: int
    values: Row


@dataclass(frozen=True)
class Windowed:
    """A stream behind FROM: its columns with types, its rows, its window.

    window: ('range', w), ('rows', n), ('unbounded', 0); partition: positions of the columns of PARTITION BY.
    """

    columns: Mapping[str, str]
    rows: Sequence[Stamped]
    window: tuple[str, int]
    partition: tuple[int, ...] = ()

    def at(self, instant: int) -> list[Row]:
        """The rows in the window at an instant."""
        seen = sorted((r for r in self.rows if r.stamp <= instant), key=lambda r: (r.stamp, r.arrival))
        kind, size = self.window
        if kind == "range":
            return [r.values for r in seen if instant - size <= r.stamp]
        if kind == "unbounded":
            return [r.values for r in seen]
        parts: dict[Row, list[Row]] = {}
        for row in seen:
            parts.setdefault(tuple(row.values[p] for p in self.partition), []).append(row.values)
        return [values for part in parts.values() for values in part[-size:]]


@dataclass
class Query:
    """SQL over the aliases of windowed streams and of tables, as they are at one instant."""

    sql: str
    inputs: Mapping[str, Windowed]
    tables: Mapping[str, tuple[Mapping[str, str], Sequence[Row]]] = field(default_factory=dict)
    db: duckdb.DuckDBPyConnection = field(default_factory=plain_duckdb)
    known: dict[str, Counter[Row]] = field(default_factory=dict)

    def at(self, instant: int) -> Counter[Row]:
        """R(τ), a bag."""
        contents = {name: (w.columns, w.at(instant)) for name, w in self.inputs.items()}
        given = [_table(name, columns, rows) for name, (columns, rows) in {**contents, **self.tables}.items()]
        text = f"WITH {', '.join(given)} SELECT * FROM ({self.sql}) AS q"
        if text not in self.known:
            self.known[text] = Counter(self.db.execute(text).fetchall())
        return self.known[text]

    def istream(self, low: int, high: int) -> Counter[tuple[int, Row]]:
        """(τ, row) for every row of R(τ) - R(τ-1), low <= τ < high."""
        return Counter({k: n for k, n in self._differences(low, high) if n > 0})

    def dstream(self, low: int, high: int) -> Counter[tuple[int, Row]]:
        """(τ, row) for every row of R(τ-1) - R(τ), low <= τ < high."""
        return Counter({k: -n for k, n in self._differences(low, high) if n < 0})

    def rstream(self, low: int, high: int, every: int = 1) -> Counter[tuple[int, Row]]:
        """(τ, row) for every row of R(τ), at multiples of `every`, low <= τ < high."""
        return Counter({(t, r): n for t in range(low, high) if t % every == 0 for r, n in self.at(t).items()})

    def _differences(self, low: int, high: int) -> Iterator[tuple[tuple[int, Row], int]]:
        before = self.at(low - 1)
        for instant in range(low, high):
            now = self.at(instant)
            for row in {**before, **now}:
                if now[row] != before[row]:
                    yield (instant, row), now[row] - before[row]
            before = now


def _table(name: str, columns: Mapping[str, str], rows: Sequence[Row]) -> str:
    """The rows as a part of WITH."""
    fields = [[f"CAST({_literal(v)} AS {k})" for v, k in zip(row, columns.values(), strict=True)] for row in rows]
    listed = ", ".join(f"({', '.join(each)})" for each in fields)
    empty = ", ".join(f"CAST(NULL AS {kind})" for kind in columns.values())
    names = ", ".join(f'"{c}"' for c in columns)
    return f'"{name}"({names}) AS (' + (f"VALUES {listed})" if rows else f"SELECT {empty} LIMIT 0)")


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else repr(value)
