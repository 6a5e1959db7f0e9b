"""The FROM items of a join: rows with their validity, and the keys by which they meet others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.relations.contents import FOR_EVER, NOWHERE, Content, Ints
from millpond.relations.runs import KeyOrder, Run, Words, key_order, spread_codes
from millpond.support.sql import quote
from millpond.synopses import query_table
from millpond.types import JoinPlan, RelationInput
from millpond.types.join_graphs import JoinGraph

#: Types whose values DuckDB gives as they are stored, so that a column need not go through it.
_PLAIN = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_date, pa.types.is_string)


@dataclass(frozen=True)
class Codes:
    """Keys as numbers: equal keys have equal codes. valid: which rows have a key (None: all). exact: and only they."""

    codes: Words
    valid: npt.NDArray[np.bool_] | None
    exact: bool
    kinds: tuple[str, ...]


def codes_of(db: duckdb.DuckDBPyConnection, columns: Sequence[pa.ChunkedArray]) -> Codes | None:
    """The codes of keys that are made of some columns; None where equality is more than equal values of one type."""
    kinds = [_kind(c.type) for c in columns]
    if any(kind is None for kind in kinds):
        return None
    valid = None
    parts: list[Words] = []
    for column, kind in zip(columns, kinds, strict=True):
        if column.null_count:
            own = pc.is_valid(column).to_numpy()
            valid = own if valid is None else valid & own
        if kind == "text":
            hashed = query_table(db, "SELECT hash(k) AS h FROM t", t=pa.table({"k": column}))["h"].to_numpy()
            parts.append(spread_codes(hashed.view(np.int64)))
            continue
        narrow = column.cast(pa.int32()) if pa.types.is_date(column.type) else column
        numbers = narrow.cast(pa.int64())
        parts.append(spread_codes((pc.fill_null(numbers, 0) if numbers.null_count else numbers).to_numpy()))
    codes = parts[0]
    for part in parts[1:]:
        codes = spread_codes(((codes ^ (codes >> np.uint64(29))) + part).view(np.int64))
    return Codes(codes, valid, len(parts) == 1 and kinds[0] != "text", tuple(str(k) for k in kinds))


def _kind(type_: pa.DataType) -> str | None:
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        return "number"
    if pa.types.is_string(type_):
        return "text"
    return str(type_) if pa.types.is_date32(type_) or pa.types.is_timestamp(type_) else None


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

    def order(self, db: duckdb.DuckDBPyConnection, run: Run, numbers: Sequence[int]) -> KeyOrder | None:
        """The rows of a run sorted by some of the item's keys; None where they cannot be."""

        def make(run: Run) -> KeyOrder | None:
            keys = self.evaluated(db, numbers, run.rows)
            found = codes_of(db, keys.columns)
            if found is None:
                return None
            places = np.arange(len(found.codes)) if found.valid is None else np.flatnonzero(found.valid)
            return key_order(found.codes[places], places, run.times, found.exact, found.kinds)

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
