"""How the rows of a file lie when a scan of a fraction is to read that fraction of it: OSCAR's RandomizeThenSort.

A file is a run of R blocks (Parquet row groups). A row goes to the block that its number u falls into: block b has the
rows with b / R <= u < (b + 1) / R, in order of event time. So a scan of the fraction f reads the first ceil(f * R)
blocks of each run, and has a sample of it; merging them by time restores the order. OSCAR draws a block for each row; u
is as good as drawn, and says the same in every repetition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millpond.archive.sampling import PLACES, Floats, Ids

#: Rows that a block has at least; a smaller file has fewer blocks than its design says. Below it a block costs more to
#: find and to open than it saves.
BLOCK_ROWS = 4096

#: How near to the edge of a block (in blocks) a row is looked at again: rounding moves edges by less.
_EDGE = 1e-8


def blocks_for(rows: int, run: int) -> int:
    """How many blocks a file of so many rows has under `randomize(run)`; 0: too few rows to spread.

    >>> blocks_for(1_000_000, 64), blocks_for(10_000, 64), blocks_for(5_000, 64)
    (64, 2, 0)
    """
    blocks = min(run, rows // BLOCK_ROWS)
    return blocks if blocks > 1 else 0


def run_order(times: Ids, numbers: Floats, blocks: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[int]]:
    """The rows of a run block by block, each in order of time.

    Arguments:
        times: event times. Rows of equal time keep their order: hand them over in order of `_id`.
        numbers: u of each row, see `millpond.archive.sampling`. blocks: how many.
    Returns: places of the rows in their new order, and how many rows each block has.

    >>> order, sizes = run_order(np.array([5, 1, 3, 2]), np.array([0.9, 0.1, 0.2, 0.8]), 2)
    >>> order.tolist(), sizes
    ([1, 2, 3, 0], [2, 2])
    """
    order = None if bool((times[1:] >= times[:-1]).all()) else np.argsort(times, kind="stable")
    block = block_of(numbers if order is None else numbers[order], blocks)
    sizes = np.bincount(block, minlength=blocks)
    by_block = np.argsort(block, kind="stable")  # a radix sort, of so small numbers
    return by_block if order is None else order[by_block], [int(s) for s in sizes]


def block_of(numbers: Floats, blocks: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The block of each row.

    >>> block_of(np.array([0.0, 0.24, 0.25, 0.999]), 4).tolist()
    [0, 0, 1, 3]
    """
    scaled = numbers * blocks
    block = scaled.astype(np.uint16)
    scaled -= block
    if len(scaled) and (scaled.min() < _EDGE or scaled.max() > 1 - _EDGE):
        # So near to an edge, only the edge as scans compute it says on which side a row is.
        bounds = np.round(np.arange(1, blocks) / blocks, PLACES)
        block = np.searchsorted(bounds, numbers, side="right").astype(np.uint16)
    return block
