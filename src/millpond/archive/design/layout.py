"""How the rows of a file lie when a scan of a fraction is to read that fraction of it: OSCAR's RandomizeThenSort.

A file is a run of R blocks (Parquet row groups). A row goes to the block that its number u falls into: block b has the
rows with b / R <= u < (b + 1) / R, in order of event time. So a scan of the fraction f reads the first ceil(f * R)
blocks of each run, and has a sample of it; merging them by time restores the order. OSCAR draws a block for each row; u
is as good as drawn, and says the same in every repetition.

Rows are moved by where they go, not by where they come from: values are read one after the other and written to R
places at a time. Gathered block by block, every column would be fetched from memory R times.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from millpond.archive.design.sampling import PLACES, Ids, offset_of
from millpond.support.compiled import compiled

Places: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

#: Rows that a block has at least; a smaller file has fewer blocks than its design says. Below it a block costs more to
#: find and to open than it saves.
BLOCK_ROWS = 4096


def blocks_for(rows: int, run: int) -> int:
    """How many blocks a file of so many rows has under `randomize(run)`; 0: too few rows to spread.

    >>> blocks_for(1_000_000, 64), blocks_for(10_000, 64), blocks_for(5_000, 64)
    (64, 2, 0)
    """
    blocks = min(run, rows // BLOCK_ROWS)
    return blocks if blocks > 1 else 0


def places_of(times: Ids, ids: Ids, seed: int, blocks: int) -> tuple[Places, list[int]]:
    """Where the rows of a run go: block by block, each in order of time.

    Arguments:
        times, ids: event time and `_id` of each row. Rows of equal time keep their order: hand them over in order of
            `_id`. seed: see `millpond.archive.design.sampling`. blocks: how many.
    Returns: the new place of each row, and how many rows each block has.

    >>> places, sizes = places_of(np.array([5, 1, 3, 2]), np.array([10, 11, 12, 13]), 7, 2)
    >>> places.tolist(), sizes
    ([3, 1, 2, 0], [1, 3])
    """
    in_order = bool((times[1:] >= times[:-1]).all())
    order = np.empty(0, np.int64) if in_order else np.argsort(times, kind="stable")
    # Which rows a block has is what scans say that compare u with such a fraction.
    bounds = np.round(np.arange(blocks + 1) / blocks, PLACES)
    places, sizes = np.empty(len(ids), np.int32), np.zeros(blocks, np.int64)
    _place(np.ascontiguousarray(ids, np.int64), order, offset_of(seed), bounds, places, sizes)
    return places, [int(s) for s in sizes]


@compiled
def _place(ids: Any, order: Any, offset: Any, bounds: Any, places: Any, sizes: Any) -> None:
    """A counting sort by block; u as `millpond.archive.design.sampling.fractions` has it."""
    count, blocks = len(ids), len(sizes)
    block = np.empty(count, np.uint16)
    for i in range(count):
        x = np.uint64(ids[i]) + offset
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
        u = np.float64(x >> np.uint64(11)) * 2.0**-53
        b = min(int(u * blocks), blocks - 1)
        while b > 0 and u < bounds[b]:
            b -= 1
        while b < blocks - 1 and u >= bounds[b + 1]:
            b += 1
        block[i] = b
        sizes[b] += 1
    following = np.zeros(blocks, np.int64)
    for b in range(1, blocks):
        following[b] = following[b - 1] + sizes[b - 1]
    for k in range(count):
        i = order[k] if len(order) else k
        b = block[i]
        places[i] = following[b]
        following[b] += 1


def moved(rows: pa.Table, places: Places) -> pa.Table:
    """Rows at their new places.

    >>> moved(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}), np.array([2, 0, 1], np.int32)).to_pydict()
    {'a': [2, 3, 1], 'b': [None, 'z', 'x']}
    """
    gathered: pa.Array | None = None
    columns: list[pa.Array | pa.ChunkedArray] = []
    for column in rows.columns:
        made = _scattered(column, places)
        if made is None:
            if gathered is None:
                order = np.empty(len(places), np.int32)
                order[places] = np.arange(len(places), dtype=np.int32)
                gathered = pa.array(order)
            made = column.take(gathered)
        columns.append(made)
    return pa.table(columns, schema=rows.schema)


def _scattered(column: pa.ChunkedArray, places: Places) -> pa.Array | None:
    """A column of four or eight bytes a value without NULL, at its new places; None: it is another kind of column."""
    kind = column.type
    fixed = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
    if not fixed or kind.bit_width not in (32, 64) or column.null_count:
        return None
    width = kind.bit_width // 8
    unsigned = np.dtype(f"u{width}")
    made = np.empty(len(places), unsigned)
    at = 0
    for chunk in column.chunks:
        if len(chunk):
            values = np.frombuffer(chunk.buffers()[1], unsigned, len(chunk), chunk.offset * width)
            _scatter(values, places[at : at + len(chunk)], made)
            at += len(chunk)
    return pa.Array.from_buffers(kind, len(made), [None, pa.py_buffer(made)])


@compiled
def _scatter(values: Any, places: Any, made: Any) -> None:
    for i in range(len(values)):
        made[places[i]] = values[i]
