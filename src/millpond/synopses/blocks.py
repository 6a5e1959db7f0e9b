"""Immutable blocks of hot rows with ordered indexes (PSoup's Data SteM).

A block holds at most 65,536 rows, so that a row number or the rank of a value fits 16 bits. An index gives the rank
(`code`) of every row's value among the distinct values of the block: a factor is then two integer comparisons.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.synopses.kernel import connection, query_table
from millpond.synopses.partials.specs import as_declared

#: (quoted name, declared type) of columns that Arrow has as something else.
Casts = Sequence[tuple[str, str]]

#: Most rows of a block: row numbers are uint16.
BLOCK_ROWS = 65_536

#: DuckDB type of each kind of attribute.
KINDS = {"integer": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}
#: Their Arrow types.
ARROW = {"integer": pa.int64(), "float": pa.float64(), "text": pa.string()}

_EXPRESSIONS_AT_ONCE = 64


class OrderedIndex:
    """Ranks of one attribute's values over the rows of a block.

    values: distinct values, ascending in DuckDB's order (int64, float64, or an object array of str).
    codes: per row the rank of its value; rows whose value is NULL have the rank `len(values)`.
    """

    def __init__(self, values: npt.NDArray[Any], codes: npt.NDArray[np.uint16], nulls: bool) -> None:
        self.values = values
        self.codes = codes
        self.nulls = nulls
        self._order: npt.NDArray[np.uint16] | None = None
        self._starts: npt.NDArray[np.int32] | None = None

    @property
    def size(self) -> int:
        """Number of codes, the one for NULL included when there are NULLs."""
        return len(self.values) + self.nulls

    @property
    def order(self) -> npt.NDArray[np.uint16]:
        """Row numbers sorted by (code, row)."""
        # Two threads may both compute it: the results are equal, and assigning is atomic.
        if self._order is None:
            self._order = np.argsort(self.codes, kind="stable").astype(np.uint16)
        return self._order

    @property
    def starts(self) -> npt.NDArray[np.int32]:
        """Where each code's rows begin in `order`; `len(values) + 2` entries, the last two enclose the NULL rows."""
        if self._starts is None:
            counts = np.bincount(self.codes, minlength=len(self.values) + 1)
            self._starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return self._starts

    @property
    def nbytes(self) -> int:
        """Memory it holds, about."""
        made = sum(a.nbytes for a in (self._order, self._starts) if a is not None)
        return int(self.values.nbytes * (8 if self.values.dtype == object else 1) + self.codes.nbytes + made)

    def bounds(
        self, low: Any, high: Any, low_closed: bool = True, high_closed: bool = True, null: bool = False
    ) -> tuple[int, int]:
        """The codes [first, end) of an interval; first >= end: no row.

        >>> index = OrderedIndex(np.array([1, 5, 9]), np.array([2, 0, 1], np.uint16), False)
        >>> index.bounds(1, 9, low_closed=False)
        (1, 3)
        """
        n = len(self.values)
        if null:
            return n, n + 1
        first, end = 0, n
        if low is not None:
            first = int(np.searchsorted(self.values, _scalar(low, self.values), "left" if low_closed else "right"))
        if high is not None:
            end = int(np.searchsorted(self.values, _scalar(high, self.values), "right" if high_closed else "left"))
        return first, end


def _scalar(value: Any, values: npt.NDArray[Any]) -> Any:
    if values.dtype == object:
        return value
    if values.dtype == np.int64 and not -(2**63) <= value < 2**63:
        return float(value)  # numpy then compares as floats, which is exact enough beyond the range
    return values.dtype.type(value)


class Block:
    """At most 65,536 rows, sorted by (event time, _id), with lazily made ordered indexes. Immutable.

    rows: one Arrow table of the engine's row schema. times, ids: int64 arrays of the event times (microseconds) and of
    `_id`. time: name of the event-time column. casts: as of `casts_of`.
    """

    def __init__(
        self,
        rows: pa.Table,
        time: str,
        indexes: dict[tuple[str, str], OrderedIndex] | None = None,
        casts: Casts = (),
    ) -> None:
        """Take rows that are sorted already, with indexes made of them before; `build` sorts and cuts."""
        if rows.num_rows > BLOCK_ROWS:
            raise ValueError(f"a block holds at most {BLOCK_ROWS} rows, not {rows.num_rows}")
        self.rows = rows
        self.time, self.casts = time, casts
        self.times = event_times(rows, time)
        self.ids = np.asarray(rows["_id"].to_numpy(), np.int64)
        self._lock = threading.Lock()
        self._indexes: dict[tuple[str, str], OrderedIndex] = indexes or {}

    @property
    def made(self) -> dict[tuple[str, str], OrderedIndex]:
        """The indexes that were made so far, by attribute and kind."""
        return self._indexes

    @staticmethod
    def build(rows: pa.Table, time: str, casts: Casts = ()) -> list[Block]:
        """Sort rows by (event time, _id) and cut them into blocks.

        Args:
            rows: any number of rows with an `_id` column.
            time: name of the event-time column.
            casts: what columns are declared as, of those that Arrow has as something else (`casts_of`).

        Returns:
            Blocks in ascending order; none for no rows.
        """
        if not rows.num_rows:
            return []
        times = event_times(rows, time)
        ids = np.asarray(rows["_id"].to_numpy(), np.int64)
        later = times[1:] > times[:-1]
        if not bool(np.all(later | ((times[1:] == times[:-1]) & (ids[1:] >= ids[:-1])))):
            rows = rows.take(pa.array(np.lexsort((ids, times))))
        parts = [_compact(rows.slice(at, BLOCK_ROWS)) for at in range(0, rows.num_rows, BLOCK_ROWS)]
        return [Block(part, time, None, casts) for part in parts]

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def low(self) -> int:
        """Smallest event time (microseconds); 0 of an empty block."""
        return int(self.times[0]) if len(self.times) else 0

    @property
    def high(self) -> int:
        """Largest event time (microseconds); 0 of an empty block."""
        return int(self.times[-1]) if len(self.times) else 0

    @property
    def nbytes(self) -> int:
        """Memory of rows and of the indexes made so far, about."""
        indexes = sum(i.nbytes for i in self._indexes.values())
        return int(self.rows.nbytes) + self.times.nbytes + self.ids.nbytes + indexes

    def span(self, begin: int | None = None, end: int | None = None) -> tuple[int, int]:
        """Row numbers [first, end) of the event times begin <= t <= end; None: unbounded."""
        first = 0 if begin is None else int(np.searchsorted(self.times, begin, "left"))
        last = len(self) if end is None else int(np.searchsorted(self.times, end, "right"))
        return first, max(first, last)

    def index(self, attribute: str, kind: str) -> OrderedIndex:
        """The ordered index of an attribute, made when first asked for.

        Args:
            attribute: DuckDB SQL over the rows' columns. Where it fails for a row its value counts as NULL.
            kind: 'integer', 'float' or 'text'.

        Raises:
            duckdb.Error: the expression does not fit the columns.
        """
        found = self._indexes.get((attribute, kind))
        return found if found is not None else self.indexes([(attribute, kind)])[0]

    def indexes(self, attributes: Iterable[tuple[str, str]]) -> list[OrderedIndex]:
        """The ordered indexes of many attributes, as (expression, kind): expressions are evaluated together."""
        wanted = list(attributes)
        found = [self._indexes.get(key) for key in wanted]
        if all(index is not None for index in found):
            return [index for index in found if index is not None]
        with self._lock:
            missing = [key for key in dict.fromkeys(wanted) if key not in self._indexes]
            if missing:
                # A new dictionary each time: readers without the lock see the old or the new one.
                self._indexes = {**self._indexes, **_build_indexes(self.rows, missing, self.casts)}
            return [self._indexes[key] for key in wanted]


def event_times(rows: pa.Table, time: str) -> npt.NDArray[np.int64]:
    """Event times as microseconds."""
    instants = rows[time].cast(pa.timestamp("us", rows[time].type.tz))
    return np.asarray(instants.cast(pa.int64()).to_numpy(), np.int64)


def _compact(rows: pa.Table) -> pa.Table:
    # A slice would keep the whole table alive.
    return pa.Table.from_batches(
        [
            pa.RecordBatch.from_arrays(
                [pa.concat_arrays(c.chunks) if c.num_chunks != 1 else c.chunk(0) for c in rows.columns],
                schema=rows.schema,
            )
        ]
    )


# --- making indexes ---------------------------------------------------------------------------------------------------


def _build_indexes(
    rows: pa.Table, attributes: Sequence[tuple[str, str]], casts: Casts
) -> dict[tuple[str, str], OrderedIndex]:
    made: dict[tuple[str, str], OrderedIndex] = {}
    slow: list[tuple[str, str]] = []
    for attribute, kind in attributes:
        keys = _plain_column(rows, attribute, kind)
        if keys is None:
            slow.append((attribute, kind))
        else:
            made[attribute, kind] = _index_of(keys, kind)
    for at in range(0, len(slow), _EXPRESSIONS_AT_ONCE):
        part = slow[at : at + _EXPRESSIONS_AT_ONCE]
        for (attribute, kind), keys in zip(part, _evaluate(rows, part, casts), strict=True):
            made[attribute, kind] = _index_of(keys, kind)
    return made


def _plain_column(rows: pa.Table, attribute: str, kind: str) -> pa.Array | None:
    """The keys of an attribute that is just a quoted column whose Arrow type needs no conversion by DuckDB."""
    if len(attribute) < 3 or attribute[0] != '"' or attribute[-1] != '"' or '"' in attribute[1:-1].replace('""', ""):
        return None
    name = attribute[1:-1].replace('""', '"')
    if rows.schema.names.count(name) != 1:
        return None
    column = rows[name]
    kinds = pa.types
    if kind == "integer" and kinds.is_integer(column.type) and column.type != pa.uint64():
        return one_array(column.cast(pa.int64()))
    if kind == "float" and column.type in (pa.float64(), pa.float32()):
        return one_array(column.cast(pa.float64()))
    if kind == "text" and (kinds.is_string(column.type) or kinds.is_large_string(column.type)):
        return one_array(column)
    return None


def _evaluate(rows: pa.Table, attributes: Sequence[tuple[str, str]], casts: Casts) -> list[pa.Array]:
    source = as_declared("__rows", casts, rows.column_names)

    def select(form: str) -> pa.Table:
        columns = ", ".join(form.format(a, KINDS[k]) + f" AS c{i}" for i, (a, k) in enumerate(attributes))
        return query_table(connection(), f"SELECT {columns} FROM {source}", __rows=rows)

    try:
        table = select("TRY(CAST(({}) AS {}))")
    except duckdb.BinderException:  # TRY refuses some expressions, which cannot fail for single rows then
        table = select("CAST(({}) AS {})")
    return [one_array(table[f"c{i}"]) for i in range(len(attributes))]


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    chunk = column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):
        return chunk.chunk(0) if chunk.num_chunks == 1 else pa.concat_arrays(chunk.chunks)
    return chunk


def _index_of(keys: pa.Array, kind: str) -> OrderedIndex:
    if kind == "text":
        return _text_index(keys)
    dtype = np.int64 if kind == "integer" else np.float64
    nulls = int(keys.null_count)
    present = np.asarray(keys.drop_null().to_numpy(zero_copy_only=False) if nulls else keys.to_numpy(), dtype)
    values, ranks = _ranks(present)
    if not nulls:
        return OrderedIndex(values, ranks, False)
    codes = np.full(len(keys), len(values), np.uint16)
    codes[np.asarray(keys.is_valid().to_numpy(zero_copy_only=False), bool)] = ranks
    return OrderedIndex(values, codes, True)


def _ranks(keys: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint16]]:
    """Distinct values ascending (NaN is one value, behind all) and each key's place among them."""
    if not len(keys):
        return keys[:0], np.empty(0, np.uint16)
    if keys.dtype == np.int64:
        low, high = int(keys.min()), int(keys.max())
        if high - low < 4 * BLOCK_ROWS:  # a table of the range is quicker than sorting
            moved = keys - low
            seen = np.zeros(high - low + 1, bool)
            seen[moved] = True
            rank = np.cumsum(seen, dtype=np.int32) - 1
            return np.flatnonzero(seen).astype(np.int64) + low, rank[moved].astype(np.uint16)
    values, ranks = np.unique(keys, return_inverse=True)
    return values, ranks.astype(np.uint16)


def _text_index(keys: pa.Array) -> OrderedIndex:
    encoded = keys.dictionary_encode()
    words = encoded.dictionary
    # Bytes of UTF-8 order as code points do, which is how Python compares str.
    order = np.asarray(pc.sort_indices(words.cast(pa.large_binary())).to_numpy(), np.int64)
    rank = np.empty(len(words) + 1, np.uint16)
    rank[order] = np.arange(len(words), dtype=np.uint16)
    values = np.empty(len(words), object)
    values[:] = words.take(pa.array(order)).to_pylist()
    nulls = bool(encoded.indices.null_count)
    if nulls:
        rank[len(words)] = len(words)
        places = np.asarray(encoded.indices.fill_null(len(words)).to_numpy(), np.int64)
    else:
        places = np.asarray(encoded.indices.to_numpy(), np.int64)
    return OrderedIndex(values, rank[places], nulls)
