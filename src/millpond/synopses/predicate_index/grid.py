"""A grid over the attributes of a block: its rows by the cell that their values fall into.

Conditions over several attributes are seldom selective on any one of them. A grid of some 16 rows a cell narrows all
of them at once: a box looks at the cells that it touches. Buckets hold about equally many rows (Nievergelt,
Hinterberger, Sevcik: The Grid File, TODS 1984, with scales taken from the block's own ranks). It is made anew for each
block and lives as long as matching does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.synopses.blocks import OrderedIndex
from millpond.synopses.predicate_index import probe

#: Attributes that a grid has at most.
DIMENSIONS = 4

#: Rows of a cell, about, where all buckets are used.
CELL_ROWS = 16

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Which attributes a grid has, and how many buckets each.

    dimension: per attribute of the block its dimension, -1: none. sizes: buckets of the four dimensions, 1 where there
    is none. bucket: per attribute and rank the bucket, laid out like the ranks' starts.
    """

    dimension: Ints
    sizes: Ints
    bucket: npt.NDArray[np.int32]

    @property
    def cells(self) -> int:
        """How many cells there are; 1 means no grid."""
        return int(self.sizes.prod())

    @property
    def buckets(self) -> probe.Buckets:
        """What the loops read of it."""
        return probe.Buckets(self.dimension, self.sizes, self.bucket)


@dataclass(frozen=True, eq=False)
class Grid:
    """Rows by cell: those of cell c are row[first[c]:first[c + 1]].

    packed: beside each row its ranks in the four dimensions, in 15 bits each, so that one subtraction compares all of
    them. halved: of each dimension, 1 where ranks need 16 bits and are halved; then a comparison is a rough one.
    """

    first: npt.NDArray[np.int32]
    row: npt.NDArray[np.uint16]
    packed: npt.NDArray[np.uint64]
    halved: Ints


def no_layout(attributes: int, ranks: int) -> Layout:
    """That of no grid."""
    return Layout(np.full(max(1, attributes), -1, np.int64), np.ones(4, np.int64), np.zeros(ranks, np.int32))


def layout(
    shares: Sequence[npt.NDArray[np.float64]], indexes: Sequence[OrderedIndex], starts_at: Ints, ranks: int, rows: int
) -> Layout:
    """The attributes and their buckets that narrow some intervals most.

    A bit is given at a time, to the attribute where one more leaves the least: an interval that selects the share w of
    the rows touches about w + 1/b of b buckets.

    Arguments:
        shares: per attribute the shares of the rows that intervals on it select.
        starts_at, ranks: where each attribute's ranks begin in one row, and how many there are.
        rows: of the block.

    >>> one = OrderedIndex(np.arange(4), np.array([0, 1, 2, 3] * 256, np.uint16), False)
    >>> layout([np.array([0.25]), np.array([])], [one, one], np.array([0, 6]), 12, 1024).sizes.tolist()
    [1, 1, 1, 4]
    """
    bits = [0] * len(indexes)
    widths = [w[w < 1.0] for w in shares]
    for _ in range(max(0, int(np.log2(max(1, rows // CELL_ROWS))))):
        used = sum(b > 0 for b in bits)
        best, most = -1, 0.0
        for place, (index, width) in enumerate(zip(indexes, widths, strict=True)):
            b = bits[place]
            if not len(width) or 2 << b > len(index.values) or (not b and used == DIMENSIONS):
                continue
            now, then = np.minimum(width + 0.5**b, 1.0), np.minimum(width + 0.5 ** (b + 1), 1.0)
            gain = float(np.log2(now / then).sum())
            if gain > most:
                best, most = place, gain
        if best < 0:
            break
        bits[best] += 1
    dimension, sizes = np.full(max(1, len(indexes)), -1, np.int64), np.ones(4, np.int64)
    bucket = np.zeros(ranks, np.int32)
    # The attribute of the fewest intervals is innermost: where a box does not narrow it, its cells are one run.
    chosen = sorted((p for p, b in enumerate(bits) if b), key=lambda p: (-len(widths[p]), p))
    for d, place in enumerate(chosen, DIMENSIONS - len(chosen)):
        dimension[place], sizes[d] = d, 1 << bits[place]
        starts = indexes[place].starts.astype(np.int64)
        at = int(starts_at[place])
        bucket[at : at + len(starts)] = np.minimum((starts << bits[place]) // max(1, rows), sizes[d] - 1)
    return Layout(dimension, sizes, bucket)


def build(plan: Layout, codes: npt.NDArray[np.uint16], starts_at: Ints) -> Grid:
    """The rows of a block by cell.

    Arguments:
        codes: per attribute the ranks of the rows.
    """
    n = codes.shape[1]
    cell: Any = np.zeros(n, np.int32)
    packed, halved = np.zeros(n, np.uint64), np.zeros(DIMENSIONS, np.int64)
    for place in np.argsort(plan.dimension, kind="stable"):
        d = int(plan.dimension[place])
        if d >= 0:
            cell = cell * np.int32(plan.sizes[d]) + plan.bucket[int(starts_at[place]) :][codes[place]]
            halved[d] = int(codes[place].max() >= 1 << 15)
            packed |= (codes[place] >> np.uint16(halved[d])).astype(np.uint64) << np.uint64(16 * d)
    first, row = np.zeros(plan.cells + 1, np.int32), np.empty(n, np.uint16)
    probe.sort_cells(cell, first, row)
    return Grid(first, row, packed[row], halved)


def no_grid() -> Grid:
    """Arrays of the right types for no grid."""
    return Grid(np.zeros(2, np.int32), np.zeros(1, np.uint16), np.zeros(1, np.uint64), np.zeros(DIMENSIONS, np.int64))
