"""Arrow tables under names that SQL reads, without declaring the names and binding the SQL at every call.

To put a table under a name DuckDB makes a view and drops it again, which for a few rows takes as long as the question
about them. So a name stays: what stands under it is a *slot*, into which a call puts its table and which is empty
otherwise. The same SQL over slots of the same columns is bound once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import duckdb
import pyarrow as pa

K = TypeVar("K")
V = TypeVar("V")

#: How many slots, and how many bound statements, a connection keeps; the oldest ones go.
MOST = 512


class _Slot(pa.Table):  # type: ignore[misc]  # pyarrow has no types
    """A place for a table with these columns. DuckDB takes it for the table that is put there.

    It is a kind of `pa.Table` because DuckDB asks only these how many rows they have, by which it plans, and for no
    more columns than it needs. DuckDB calls what is defined here; it is not a table of its own.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.table: pa.Table | None = None

    def __getattribute__(self, name: str) -> object:
        # What tables have beside this would read a table that was never made, and end the process.
        if name in _OF_TABLES:
            raise AttributeError(f"a slot for a table has no {name}")
        return super().__getattribute__(name)

    @property
    def _now(self) -> pa.Table:
        return self._schema.empty_table() if self.table is None else self.table

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def num_rows(self) -> int:
        return len(self)

    def __len__(self) -> int:
        return 0 if self.table is None else self.table.num_rows

    def __repr__(self) -> str:
        return f"a slot for {self._schema}"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def select(self, columns: Sequence[int]) -> pa.Table:
        return self._now.select(columns)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._now.__arrow_c_stream__(requested_schema)


#: What tables have and slots lack.
_OF_TABLES = frozenset(name for name in dir(pa.Table) if not name.startswith("__") and name not in vars(_Slot))


class StandingViews:
    """The slots of a connection, and the statements that have been bound over them.

    Whoever has made the connection keeps them as long as it.
    """

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self.db = db
        self._slots: dict[tuple[str, bytes], _Slot] = {}
        #: By name as DuckDB compares names: how it was written, and what stands there.
        self._standing: dict[str, tuple[str, _Slot]] = {}
        self._bound: dict[tuple[str, tuple[_Slot, ...]], duckdb.DuckDBPyRelation] = {}
        _known[id(db)] = self

    def query(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a SELECT over tables."""
        slots = tuple(self._slot(name, table.schema) for name, table in tables.items())
        bound = self._bound.get((sql, slots))
        try:
            for slot, table in zip(slots, tables.values(), strict=True):
                slot.table = table
            if bound is None:
                bound = self.db.sql(sql)
                if bound.type == "QUERY_RELATION":  # else it is an answer already
                    _put(self._bound, (sql, slots), bound)
            found: pa.Table = bound.to_arrow_table()
            return found
        finally:
            for slot in slots:
                slot.table = None

    def forget(self, names: Iterable[str]) -> None:
        """Something else stands under these names."""
        for name in names:
            self._standing.pop(name.lower(), None)

    def _slot(self, name: str, schema: pa.Schema) -> _Slot:
        key = name, schema.serialize().to_pybytes()
        slot = self._slots.get(key)
        if slot is None:
            slot = _Slot(schema)
            _put(self._slots, key, slot)
        if self._standing.get(name.lower()) != (name, slot):
            self.db.register(name, slot)
            self._standing[name.lower()] = name, slot
        return slot


def _put(kept: dict[K, V], key: K, value: V) -> None:
    while len(kept) >= MOST:
        del kept[next(iter(kept))]
    kept[key] = value


#: By connection: it cannot be another one with this number while its views are there.
_known: weakref.WeakValueDictionary[int, StandingViews] = weakref.WeakValueDictionary()


def views_of(db: duckdb.DuckDBPyConnection) -> StandingViews | None:
    """The standing views of a connection; None: it has none."""
    return _known.get(id(db))


@contextmanager
def visible(db: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> Iterator[None]:
    """Tables under names that SQL reads, for the time of the block."""
    if (views := views_of(db)) is not None:
        views.forget(tables)
    try:
        for name, table in tables.items():
            db.register(name, table)
        yield
    finally:
        with suppress(duckdb.Error):
            for name in tables:
                db.unregister(name)
