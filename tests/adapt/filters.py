"""Filters as sets of values, run one row after another: executor and orderer at their slowest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from millpond.adapt import UNKNOWN, Orderer, Profile

#: Example 4.2.1: a filter drops what is not in its table; a completion of the lost figure that fits every statement.
TABLES = ({1, 2, 4, 6}, {1, 2, 3, 7}, {1, 5, 6, 7}, {1, 2, 7, 8})
INPUT = (1, 2, 1, 4, 7, 2, 5, 4)


def probes(tables: Sequence[set[int]], rows: Sequence[int], order: Sequence[int]) -> int:
    """How many filters are evaluated when each row stops at the first that drops it."""
    total = 0
    for row in rows:
        for f in order:
            total += 1
            if row not in tables[f]:
                break
    return total


def bits_of(tables: Sequence[set[int]], row: int) -> list[int]:
    """Which filters drop a row."""
    return [int(row not in t) for t in tables]


def step(orderer: Orderer, tables: Sequence[set[int]], row: int) -> bool:
    """Run one row with profiling of every dropped row; whether the order changed."""
    bits = bits_of(tables, row)
    order = orderer.order
    dropped = next((i for i, f in enumerate(order) if bits[f]), None)
    if dropped is None:
        return False
    known = {*order[: dropped + 1], *orderer.wanted(dropped)}
    shown = [b if f in known else UNKNOWN for f, b in enumerate(bits)]
    return orderer.observe(Profile(np.array([shown], np.int8))) is not None


def some_bits(n: int) -> st.SearchStrategy[list[int]]:
    """`n` results of filters, of which one at least drops the row (1)."""
    return st.integers(1, 2**n - 1).map(lambda code: [code >> place & 1 for place in range(n)])
