"""Combine the component columns of runs of rows: the super-aggregate of panes, on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.synopses.aggregates.splits import Component
from millpond.synopses.enums import query_ordered
from millpond.windows.candidates import Ints, fold
from millpond.windows.run_sums import run_float_sums, run_minima, run_sums

Array = NDArray[Any]


def fold_columns(
    db: duckdb.DuckDBPyConnection, components: Sequence[Component], table: pa.Table, low: Ints, high: Ints
) -> dict[str, pa.Array]:
    """Each component's columns, and `n`, folded over the runs [low, high) of the rows of `table`, in row order."""
    return {"n": _add(table["n"], low, high), **fold_components(db, components, table, low, high)}


def fold_components(
    db: duckdb.DuckDBPyConnection, components: Sequence[Component], table: pa.Table, low: Ints, high: Ints
) -> dict[str, pa.Array]:
    """As `fold_columns`, without `n`.

    Sums and counts of integers and decimals are differences of running sums: every run is the one before less what
    left it, plus what came (Li 2008, 6.2.2).
    """
    folded: dict[str, pa.Array] = {}
    for component in components:
        name, kind = component.name, component.kind
        match kind:
            case "add":
                folded[name] = _add(table[name], low, high)
            case "min" | "max":
                folded[name] = _extreme(db, table[name], kind, low, high)
            case "list" | "set" | "counts" | "frequent" | "quantiles" | "distinct" | "steps" | "states":
                folded[name] = _concatenate(table[name], low, high)
                folded.update((each, _add(table[each], low, high)) for each in component.names[1:])
            case "bit_and" | "bit_or" | "bit_xor" | "product":
                folded[name] = _operation(table[name], kind, low, high)
            case "moments":
                folded.update(_moments(table, name, low, high))
            case "comoments":
                folded.update(_comoments(table, name, low, high))
            case _:
                assert_never(kind)
    return folded


def _valid(column: pa.ChunkedArray) -> Array:
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), bool)


def _two_sum(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
    """Knuth's error-free addition: the rounding error of the high part is kept in the low part."""
    a, c, u = left
    b, d, v = right
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        shadow = total - a
        error = (a - (total - shadow)) + (b - shadow)
        return total, c + d + np.where(np.isfinite(error), error, 0.0), u | v


def is_exact(component: Component, table: pa.Table) -> bool:
    """Whether differences of a component are exact: it is a count or a sum of integers or decimals."""
    return (
        component.kind == "add"
        and component.name in table.column_names
        and not pa.types.is_floating(table.schema.field(component.name).type)
    )


def _add(column: pa.ChunkedArray, low: Ints, high: Ints) -> pa.Array:
    kind = column.type
    valid = _valid(column)
    whole = not column.null_count
    some = high > low if whole else run_sums(valid.astype(np.int64), low, high) > 0
    if pa.types.is_floating(kind):
        values = (column if whole else column.fill_null(0.0)).to_numpy().astype(np.float64)
        if (exact := run_float_sums(values, low, high)) is not None:
            return pa.array(exact, mask=~some)
        total, rest, some = fold((values, np.zeros_like(values), valid), low, high, _two_sum, (0.0, 0.0, False))
        with np.errstate(invalid="ignore", over="ignore"):
            return pa.array(total + rest, mask=~some)
    if pa.types.is_decimal(kind):
        return _from_limbs([run_sums(limb, low, high) for limb in _limbs(column)], some, kind)
    counts = (column if whole else column.fill_null(0)).to_numpy().astype(np.int64)
    return pa.array(run_sums(counts, low, high), mask=~some)


#: Operations of kinds of one column, with the number that changes nothing.
_OPERATIONS: dict[str, tuple[Any, Any]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
    "product": (np.multiply, 1.0),
}


def _operation(column: pa.ChunkedArray, kind: str, low: Ints, high: Ints) -> pa.Array:
    operation, neutral = _OPERATIONS[kind]
    valid = _valid(column)
    if pa.types.is_floating(column.type):
        values = column.fill_null(1.0).to_numpy().astype(np.float64)
    else:
        values = column.fill_null(0).to_numpy()
        values = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64)
        values = np.where(valid, values, neutral)

    def both(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return operation(left[0], right[0]), left[1] | right[1]

    found, some = fold((values, valid), low, high, both, (neutral, False))
    if pa.types.is_uint64(column.type):
        found = found.view(np.uint64)
    return pa.array(found, mask=~some).cast(column.type)


def _limbs(column: pa.ChunkedArray) -> list[Array]:
    """A decimal128 column as four 32-bit limbs in int64, the highest signed: sums of 2^31 rows cannot overflow."""
    array = _single(column.fill_null(0))
    words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2], words[1::2].view(np.int64)
    mask = np.uint64(0xFFFFFFFF)
    return [
        (low & mask).astype(np.int64),
        (low >> np.uint64(32)).astype(np.int64),
        high & np.int64(0xFFFFFFFF),
        high >> np.int64(32),
    ]


#: 10^38 and -10^38 as (high, low) words: the first numbers that a DECIMAL(38) cannot hold.
_LARGEST = (10**38 >> 64, np.uint64(10**38 & (2**64 - 1)))
_SMALLEST = (-(10**38) >> 64, np.uint64(-(10**38) & (2**64 - 1)))


def _from_limbs(limbs: list[Array], some: Array, kind: pa.DataType) -> pa.Array:
    carry = np.zeros_like(limbs[0])
    cut = []
    for limb in limbs[:3]:
        limb = limb + carry
        cut.append(limb & 0xFFFFFFFF)
        carry = limb >> 32
    top = limbs[3] + carry
    low, high = cut[0].astype(np.uint64) | (cut[1].astype(np.uint64) << np.uint64(32)), cut[2] | (top << 32)
    # Of numbers with the sign of `top`, those beyond 38 digits; the highest limb says first whether 128 bits do.
    over = (top >= 2**31) | (high > _LARGEST[0]) | ((high == _LARGEST[0]) & (low >= _LARGEST[1]))
    under = (top < -(2**31)) | (high < _SMALLEST[0]) | ((high == _SMALLEST[0]) & (low <= _SMALLEST[1]))
    if bool(np.any(some & (over | under))):
        raise OverflowError("a sum of integers or decimals has more than 38 digits; sum DOUBLE values instead")
    words = np.empty(2 * len(top), np.uint64)
    words[0::2], words[1::2] = low, high.view(np.uint64)
    validity = pa.py_buffer(np.packbits(some, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(top), [validity, pa.py_buffer(words.tobytes())])


def _extreme(db: duckdb.DuckDBPyConnection, column: pa.ChunkedArray, kind: str, low: Ints, high: Ints) -> pa.Array:
    """Minimum or maximum of any comparable type: rows are ranked once, ranks are folded, the winners are taken."""
    size = column.length() if hasattr(column, "length") else len(column)
    direction = "ASC" if kind == "min" else "DESC"
    ranked = query_ordered(
        db,
        f"SELECT _at FROM rows WHERE v IS NOT NULL ORDER BY v {direction}, _at",
        rows=pa.table({"v": column, "_at": pa.array(np.arange(size))}),
    )["_at"].to_numpy()
    ranks = np.full(size, size, np.int64)
    ranks[ranked] = np.arange(len(ranked))
    best = run_minima(ranks, low, high, size)
    none = best >= size
    winners = ranked[np.where(none, 0, best)] if len(ranked) else np.zeros(len(best), np.int64)
    return _single(column.take(pa.array(winners, mask=none)))


def _single(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _concatenate(column: pa.ChunkedArray, low: Ints, high: Ints) -> pa.Array:
    length = high - low
    nth = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    taken = _single(column.take(pa.array(np.repeat(low, length) + nth)))
    sizes = pc.list_value_length(taken).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.r_[0, np.cumsum(sizes)]
    offsets = ends[np.r_[0, np.cumsum(length)]]
    values = taken.flatten()
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)


def _chan(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
    """Chan, Golub, LeVeque: combine (count, mean, sum of squared deviations)."""
    n, m, s = left
    k, o, t = right
    total = n + k
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.where(total > 0, k / np.where(total > 0, total, 1), 0.0)
        delta = np.where((n > 0) & (k > 0), o - m, 0.0)
        mean = np.where(n == 0, o, np.where(k == 0, m, m + delta * share))
        return total, mean, s + t + delta * delta * share * n


def _numbers(table: pa.Table, name: str) -> Array:
    return np.asarray(table[name].fill_null(0).to_numpy())


def _moments(table: pa.Table, name: str, low: Ints, high: Ints) -> dict[str, pa.Array]:
    parts = (_numbers(table, name + "n"), _numbers(table, name + "m"), _numbers(table, name + "s"))
    n, m, s = fold(parts, low, high, _chan, (0, 0.0, 0.0))
    return {name + "n": pa.array(n), name + "m": pa.array(m), name + "s": pa.array(s)}


def _co_chan(left: tuple[Array, ...], right: tuple[Array, ...]) -> tuple[Array, ...]:
    n, y, x, b, a, c = left
    k, v, u, e, d, f = right
    total = n + k
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.where(total > 0, k / np.where(total > 0, total, 1), 0.0)
        both = (n > 0) & (k > 0)
        dy, dx = np.where(both, v - y, 0.0), np.where(both, u - x, 0.0)
        weight = share * n
        return (
            total,
            np.where(n == 0, v, np.where(k == 0, y, y + dy * share)),
            np.where(n == 0, u, np.where(k == 0, x, x + dx * share)),
            b + e + dy * dy * weight,
            a + d + dx * dx * weight,
            c + f + dy * dx * weight,
        )


def _comoments(table: pa.Table, name: str, low: Ints, high: Ints) -> dict[str, pa.Array]:
    suffixes = ("n", "y", "x", "b", "a", "c")
    parts = tuple(_numbers(table, name + s) for s in suffixes)
    folded = fold(parts, low, high, _co_chan, (0, 0.0, 0.0, 0.0, 0.0, 0.0))
    return {name + s: pa.array(v) for s, v in zip(suffixes, folded, strict=True)}
