"""The FROM items of a join: rows with their validity, and the keys by which they meet others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from millpond.relations.contents import NOWHERE, Content
from millpond.relations.runs import Run
from millpond.relations.spans import FOR_EVER, Ints
from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.synopses.partners.keys import codes_of
from millpond.synopses.partners.orders import KeyOrder, key_order
from millpond.types import JoinPlan, RelationInput
from millpond.types.join_graphs import JoinGraph

#: Types whose values DuckDB gives as they are stored, so that a column need not go through it.
_PLAIN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_date, pa.types.is_string)


@dataclass(frozen=True)
class Side:
    """A FROM item of a join.

    number: which. rows, begin, end, runs, reach: as of `Content`. source: DuckDB SQL that gives it from its rows, which
    are called `alias`. names: of the keys of the join graph that it has: what makes them and from what. keys: values.
    """

    number: int
    plan: JoinPlan
    graph: JoinGraph
    alias: str
    content: Content
    names: Mapping[int, str]
    keys: dict[int, pa.ChunkedArray] = field(default_factory=dict)
    columns: dict[str, pa.Array] = field(default_factory=dict)

    @property
    def rows(self) -> pa.Table:
        return self.content.rows

    @property
    def begin(self) -> Ints:
        return self.content.begin

    @property
    def end(self) -> Ints:
        return self.content.end

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.content.runs

    @property
    def reach(self) -> int:
        return self.content.reach

    @property
    def plain(self) -> bool:
        return self.content.plain

    def evaluated(self, db: duckdb.DuckDBPyConnection, keys: Sequence[int], rows: pa.Table) -> pa.Table:
        """The item's keys, by number, for rows of its input."""
        listed = ", ".join(f"({self.graph.keys[n][self.number]}) AS e{n}" for n in keys)
        return query_table(db, f"SELECT {listed} FROM {self.plan.sources[self.number]}", **{self.alias: rows})

    def keys_of(self, db: duckdb.DuckDBPyConnection, key: int, rows: Ints | None) -> pa.ChunkedArray:
        """The item's values of a key for some rows; None: for all."""
        if key not in self.keys and rows is not None and len(rows) < self.rows.num_rows // 2:
            return self.evaluated(db, [key], self.rows.take(pa.array(rows)))[f"e{key}"]
        if key not in self.keys:
            self.keys[key] = self.evaluated(db, [key], self.rows)[f"e{key}"]
        return self.keys[key] if rows is None else self.keys[key].take(pa.array(rows))

    def order(self, db: duckdb.DuckDBPyConnection, run: Run, numbers: Sequence[int]) -> KeyOrder:
        """The rows of a run sorted by some of the item's keys, those with equal keys by their time."""

        def make(run: Run) -> KeyOrder:
            keys = self.evaluated(db, numbers, run.rows).columns if numbers else []
            found = codes_of(db, keys, len(run))
            places = np.arange(len(run)) if found.valid is None else np.flatnonzero(found.valid)
            return key_order(found.codes[places], places, run.times[places], found.exact, found.kinds)

        return run.order(self.called(numbers), make)

    def called(self, numbers: Sequence[int]) -> str:
        """What the order of some keys is called in runs."""
        return " and ".join(self.names[n] for n in numbers)

    def is_sorted(self, run: Run, numbers: Sequence[int]) -> bool:
        """Whether the rows of a run have been sorted by some keys."""
        return self.called(numbers) in run.orders

    def taken(self, column: str, rows: Ints) -> pa.Array:
        """The values of a column in some rows; NULL where the row is negative."""
        if column not in self.columns:
            chunks = self.rows[column].combine_chunks()
            self.columns[column] = chunks if isinstance(chunks, pa.Array) else pa.concat_arrays(chunks.chunks)
        missing = rows < 0
        return self.columns[column].take(pa.array(rows, mask=missing) if missing.any() else pa.array(rows))


def side_of(
    plan: JoinPlan,
    graph: JoinGraph,
    number: int,
    contents: Mapping[str, tuple[RelationInput, Content]],
    tables: Mapping[str, pa.Table],
) -> Side:
    """A FROM item of a join.

    Arguments:
        contents: of the inputs that are streams, by alias.
    """
    alias = plan.items[number]
    types: dict[str, str] = {}
    if alias in contents:
        item, content = contents[alias]
        types = {c.name.lower(): c.type for c in item.columns}
    else:
        table = tables[alias]
        always, ever = np.full(table.num_rows, NOWHERE), np.full(table.num_rows, FOR_EVER)
        content = Content(table, always, ever, (Run(table, always, np.arange(table.num_rows)),))
    names = {}
    for n, key in enumerate(graph.keys):
        if number not in key:
            continue
        sql = key[number]
        plain = sql.strip('"').lower()
        # Queries that read other columns beside it, or call the stream otherwise, sort the same rows by the same key.
        known = types.get(plain) if sql in (quote(plain), plain, quote(sql.strip('"'))) else None
        names[n] = f"{sql} {known}" if known is not None else f"{sql} of {plan.sources[number]}"
    return Side(number, plan, graph, alias, content, names)


def as_they_are(columns: Sequence[pa.Array], types: Sequence[pa.DataType]) -> list[pa.Array] | None:
    """Stored columns as DuckDB would give them; None where that takes more than another name for the type."""
    found = []
    for column, wanted in zip(columns, types, strict=True):
        if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(column.type) and wanted.unit == column.type.unit:
            found.append(column.cast(wanted))
        elif column.type == wanted and any(test(wanted) for test in _PLAIN):
            found.append(column)
        else:
            return None
    return found
