"""CQL text over small streams, evaluated purely: bound by the language, answered by `millpond.relations`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millpond.language import parse
from millpond.language.plan.continuous import bind_relational
from millpond.relations import Ticks, answers, content_of, snapshot
from millpond.synopses import connection
from millpond.types import Column, FunctionDefinition, RelationalQuery, StreamDefinition, StreamOptions, TableDefinition
from tests.oracle.cql import Row, Stamped

#: A window behind FROM, for the oracle and as text.
WINDOWS: Mapping[str, tuple[tuple[str, int], tuple[str, ...]]] = {
    "[NOW]": (("range", 0), ()),
    "[RANGE 2 MICROSECONDS]": (("range", 2), ()),
    "[RANGE 5 MICROSECONDS]": (("range", 5), ()),
    "[ROWS 1]": (("rows", 1), ()),
    "[ROWS 2]": (("rows", 2), ()),
    "[ROWS 3]": (("rows", 3), ()),
    "[PARTITION BY a ROWS 1]": (("rows", 1), ("a",)),
    "[PARTITION BY a ROWS 2]": (("rows", 2), ("a",)),
    "[ROWS UNBOUNDED]": (("unbounded", 0), ()),
    "[RANGE UNBOUNDED]": (("unbounded", 0), ()),
    "": (("unbounded", 0), ()),
}


def stream(name: str, **columns: str) -> StreamDefinition:
    """A stream with event time `ts` and the given columns."""
    listed = (Column("ts", "TIMESTAMP"), *(Column(n, t) for n, t in columns.items()))
    return StreamDefinition(name, listed, StreamOptions(time="ts"))


class Names:
    """A schema of streams and tables."""

    def __init__(self, *definitions: StreamDefinition | TableDefinition) -> None:
        self._known = {d.name.lower(): d for d in definitions}

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | None:
        return self._known.get(name.lower())

    def names(self) -> list[str]:
        return list(self._known)

    def by_time(self, stream: StreamDefinition, column: str) -> None:
        return None

    def reductions(self) -> list[str]:
        return ["mine"]

    def functions(self) -> dict[str, FunctionDefinition]:
        return {}

    def missing(self, name: str) -> str:
        return ""

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        return {}


def bound(sql: str, *definitions: StreamDefinition | TableDefinition) -> RelationalQuery:
    """The query of a text."""
    statement = parse(sql)[0]
    return bind_relational(statement.select, Names(*definitions))


def stored(definition: StreamDefinition, rows: Sequence[Stamped], cuts: Mapping[int, int] | None = None) -> pa.Table:
    """Rows as a store keeps them: every column but event time comes from `values`. cuts: by place of arrival."""
    cuts = cuts or {}
    table: dict[str, Any] = {
        "_t": pa.array([r.stamp for r in rows], pa.int64()),
        "_id": pa.array([r.arrival for r in rows], pa.int64()),
        "_epoch": pa.array([1 for _ in rows], pa.int64()),
        "_cut": pa.array([cuts.get(r.arrival) for r in rows], pa.int64()),
        "ts": pa.array([r.stamp for r in rows], pa.timestamp("us")),
    }
    kinds = {"INTEGER": pa.int32(), "VARCHAR": pa.string(), "DOUBLE": pa.float64()}
    for n, column in enumerate(definition.columns[1:]):
        table[column.name] = pa.array([r.values[n] for r in rows], kinds[column.type])
    return pa.table(table)


class Evaluated:
    """A bound query over the rows of its streams."""

    def __init__(
        self, query: RelationalQuery, rows: Mapping[str, pa.Table], tables: Mapping[str, pa.Table] | None = None
    ):
        self.db, self.query, self.relation = connection(), query, query
        self.contents = [content_of(self.db, i, rows[i.stream], 0) for i in self.relation.inputs]
        self.first = min((int(c.begin.min()) for c in self.contents if len(c.begin)), default=0)
        self.tables = {t.alias: (tables or {})[t.name] for t in self.relation.tables}

    def at(self, instant: int) -> Counter[Row]:
        """R(τ)."""
        found = snapshot(self.db, self.query, self.contents, self.tables, instant)
        return Counter(zip(*(c.to_pylist() for c in found.columns), strict=True))

    def stream(self, low: int, high: int, every: int = 1) -> Counter[tuple[int, Row]]:
        """What ISTREAM, DSTREAM or RSTREAM reports."""
        found = answers(self.db, self.query, self.contents, self.tables, low, high, Ticks(every, self.first, high))
        counts: Counter[tuple[int, Row]] = Counter()
        for at, _, *values, n in zip(*(c.to_pylist() for c in found.columns), strict=True):
            counts[at, tuple(values)] += n
        return counts

    def changes(self, low: int, high: int) -> dict[tuple[int, Row], int]:
        """Elements of the relation with their signs."""
        found = answers(self.db, self.query, self.contents, self.tables, low, high)
        counts: Counter[tuple[int, Row]] = Counter()
        for at, sign, *values, n in zip(*(c.to_pylist() for c in found.columns), strict=True):
            counts[at, tuple(values)] += sign * n
        return dict(counts)
