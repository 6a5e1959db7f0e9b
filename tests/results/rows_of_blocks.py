"""The matching rows of blocks, row by row: what takes slices and stretches apart is held against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.answers.row_queries.stretch import Stretch
from millpond.synopses.blocks import Block


def matching_rows(
    blocks: Sequence[Block], matching: Callable[[Any, int, int], Any], stretch: Stretch
) -> pa.Table | None:
    """The rows of a stretch that match, in the stream's total order; None when there is no block.

    Args:
        matching: (block, low row, high row) -> the numbers of its rows that match.
    """
    if not blocks:
        return None
    found = [b.rows.take(pa.array(matching(b, 0, len(b)))) for b in blocks]
    table = pa.concat_tables(found)
    times, ids = table["ts"].cast(pa.int64()).to_numpy(), table["_id"].to_numpy()
    inside = stretch.mask(times, ids)
    return table.filter(pa.array(inside)).take(pa.array(np.lexsort((ids[inside], times[inside]))))
