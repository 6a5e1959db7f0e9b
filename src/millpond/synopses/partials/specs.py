"""What a synopsis keeps, as far as all kinds of them have it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.support.sql import cast_item, quote
from millpond.synopses.aggregates.splits import Component
from millpond.synopses.aggregates.splitting import components_of
from millpond.types import (
    WEIGHT,
    Aggregation,
    Expression,
    Feed,
    Lookup,
    Reduction,
    StreamDefinition,
    Variant,
    columns_read,
    to_json,
)


@dataclass(frozen=True, kw_only=True)
class SynopsisSpec(Variant):
    """What a synopsis keeps of the rows of a stream.

    casts: (quoted column, declared type) of columns whose type Arrow does not carry.
    feeds: the streams of a union, of which `stream` is the first; empty: there is only `stream`.
    signed: rows with `op = '-'` take others back, and count -1 in `n`; groups with none left have no answer.
    reduce: how much of the past was left out when it was filled: its rows have weights.
    narrowed: (quoted column, type) of columns that were widened since; rows are taken with this type, or fail.
    lookup: tables that its rows are joined with first; what is evaluated is over the joined rows.
    sets: the numbers of grouping sets (`Aggregation.sets`): each row is there once for each.
    """

    stream: int
    time: str
    where: Expression | None
    keys: tuple[Expression, ...]
    components: tuple[Component, ...]
    casts: tuple[tuple[str, str], ...] = ()
    feeds: tuple[Feed, ...] = ()
    signed: bool = False
    reduce: Reduction | None = None
    narrowed: tuple[tuple[str, str], ...] = ()
    lookup: Lookup | None = None
    sets: tuple[int, ...] = ()

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A spec from before it said its kind by its type."""
        if value.get("rows") is not None:
            return {**value, "type": "RowsSpec"}
        first = value.get("landmark")
        landmarks = [] if first is None else [first, *value.get("beside", ())]
        return {**value, "type": "PanesSpec", "landmarks": landmarks}

    @property
    def keeps_cuts(self) -> bool:
        """Whether stored rows keep their cuts, which say for good which windows hold them."""
        return False

    @property
    def streams(self) -> tuple[int, ...]:
        """The ids of the streams whose rows it takes."""
        return tuple(f.stream for f in self.feeds) or (self.stream,)

    @property
    def source(self) -> str:
        """The FROM item over a segment: columns that Arrow carries as another type get their declared one back."""
        rows = as_declared("segment", (dict(self.casts) | dict(self.narrowed)).items())
        if not self.sets:
            return rows
        return f"(SELECT *, unnest([{', '.join(map(str, self.sets))}]::BIGINT[]) AS __set FROM {rows})"

    @property
    def weighted(self) -> bool:
        """Whether its components are over rows that stand for others."""
        return self.reduce is not None and self.reduce.samples

    @property
    def reads(self) -> frozenset[str]:
        """The columns of rows that its expressions read."""
        return columns_read(self.where, *self.keys, *(each for c in self.components for _, each in c.columns))

    def columns_of(self, stream: StreamDefinition) -> list[str]:
        """The stream's columns that the synopsis reads."""
        own = {self.time, *(["op"] if self.signed else []), *(self.lookup.needs if self.lookup is not None else ())}
        return [c.name for c in stream.all_columns if c.name in self.reads | own]

    @property
    def listed(self) -> list[str]:
        """The columns of its components as a SELECT list over rows has them."""
        return [each for c in self.components for each in c.listed]

    @property
    def key_names(self) -> tuple[str, ...]:
        """k0, k1, …: the columns of the grouping keys in its tables."""
        return tuple(f"k{i}" for i in range(len(self.keys)))

    def agrees(self, needed: SynopsisSpec) -> bool:
        """Whether both fail on the same rows; see `Component.safe`."""
        return {c.name for c in needed.components if not c.safe} == {c.name for c in self.components if not c.safe}

    def covers(self, needed: SynopsisSpec) -> bool:
        """Whether every component that is needed is there, and both fail on the same rows."""
        return {c.name for c in needed.components} <= {c.name for c in self.components} and self.agrees(needed)

    def digest(self, head: tuple[object, ...], own: Sequence[object], form: Sequence[str], kind: Sequence[str]) -> str:
        """A stable text for what it is: its parts, and what its kind has of its own."""
        where = None if self.where is None else self.where.sql
        parts = (self.stream, self.time, where, [each.sql for each in self.keys], *head)
        union = [[astuple(f) for f in self.feeds]] if self.feeds else []
        reduced = [] if self.reduce is None else [to_json(self.reduce)]
        lookup = {} if self.lookup is None else to_json(replace(self.lookup, seen=()))
        joined = [{name: value for name, value in lookup.items() if name != "calls"}] if lookup else []
        names = [c.name for c in self.components]
        text = json.dumps([parts, names, *own, *union, *form, *reduced, *kind, *joined])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def common_parts(query: Aggregation, stream: StreamDefinition) -> dict[str, Any]:
    """The fields of a spec that it has of the query and of the stream, whatever its kind.

    Arguments:
        stream: the query's, as its rows are when they have been joined with tables.
    """
    components: dict[str, Component] = {}
    for aggregate in query.aggregates:
        components.update({c.name: c for c in components_of(aggregate, stream.options.time).components})
    parts: dict[str, Any] = {
        "stream": stream.id,
        "time": stream.options.time,
        "where": query.where,
        "keys": tuple(k.expression for k in query.keys),
        "components": tuple(components.values()),
        "feeds": query.feeds,
        "reduce": query.reduce,
        "signed": query.signed,
        "lookup": query.lookup,
        "sets": query.sets,
    }
    used = {quote(name) for name in SynopsisSpec(**parts).columns_of(stream)}
    casts = tuple(c for c in casts_of(stream) if c[0] in used)
    return parts | {"casts": casts, "narrowed": tuple(c for c in query.narrowed if c[0] in used)}


def joined_stream(stream: StreamDefinition, lookup: Lookup | None) -> StreamDefinition:
    """A stream as its rows are when they have been joined with tables."""
    return stream if lookup is None else replace(stream, columns=(*stream.all_columns, *lookup.columns))


#: Types that reach DuckDB from Arrow as declared; all others (UUID, ENUM, HUGEINT, nested, …) are cast back.
_EXACT = {"BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP", "INTERVAL"}
_EXACT |= {"TIMESTAMP WITH TIME ZONE", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"}
_EXACT |= {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}


def casts_of(stream: StreamDefinition) -> tuple[tuple[str, str], ...]:
    """(quoted name, declared type) of the columns that need a cast."""
    return tuple(
        (quote(c.name), c.type)
        for c in stream.all_columns
        if c.type.upper() not in _EXACT and not c.type.upper().startswith("DECIMAL(")
    )


def as_declared(table: str, casts: Iterable[tuple[str, str]], names: Iterable[str] | None = None) -> str:
    """The FROM item over an Arrow table in which its columns have their declared types.

    Arguments:
        table: what the Arrow table is called. casts: as of `casts_of`.
        names: the columns that are read of the table, others are not cast; None: all that `casts` names.

    >>> as_declared("rows", [('"u"', "UUID"), ('"h"', "HUGEINT")], ["n", "u"])
    '(SELECT * REPLACE (CAST("u" AS UUID) AS "u") FROM rows)'
    >>> as_declared("rows", [('"u"', "UUID")], ["n"])
    'rows'
    """
    there = None if names is None else {quote(name) for name in names}
    chosen = [(name, kind) for name, kind in casts if there is None or name in there]
    found = ", ".join(cast_item(name, kind) for name, kind in chosen)
    return f"(SELECT * REPLACE ({found}) FROM {table})" if found else table


def weighed(segment: pa.Table) -> pa.Table:
    """Rows with their weight: 1 for those that a scan did not give one, such as live rows."""
    if WEIGHT in segment.column_names:
        return segment
    return segment.append_column(WEIGHT, pa.array(np.ones(segment.num_rows)))
