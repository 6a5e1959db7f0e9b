"""Rows from columns of texts: what stands before each value, and the values, copied into one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.support.compiled import compiled


def woven(columns: Sequence[pa.Array], before: Sequence[bytes], behind: bytes, between: bytes) -> bytes:
    """Per row, for each column what stands `before` it and its text, then `behind`; `between` rows.

    Arguments:
        columns: string arrays of one length without NULL, at least one.

    >>> woven([pa.array(["1", "2"]), pa.array(["x", "y"])], [b"<", b"="], b">", b" ")
    b'<1=x> <2=y>'
    """
    rows = len(columns[0])
    offsets = np.empty((len(columns), rows + 1), np.int64)
    data = []
    base = 0
    for number, column in enumerate(columns):
        at = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + rows + 1].astype(np.int64)
        text = column.buffers()[2]
        some = np.frombuffer(text, np.uint8)[at[0] : at[-1]] if text is not None else np.empty(0, np.uint8)
        offsets[number] = at + (base - at[0])
        base += len(some)
        data.append(some)
    words = [*before, behind, between]
    ends = np.cumsum([0, *(len(word) for word in words)])
    size = base + rows * int(ends[-1]) - len(between)
    out = np.empty(max(0, size), np.uint8)
    _weave(np.frombuffer(b"".join(words), np.uint8), ends, np.concatenate(data), offsets, out)
    return out.tobytes()


@compiled
def _weave(words: Any, ends: Any, data: Any, offsets: Any, out: Any) -> None:
    columns, rows = offsets.shape[0], offsets.shape[1] - 1
    at = 0
    for row in range(rows):
        if row:
            for k in range(ends[columns + 1], ends[columns + 2]):
                out[at] = words[k]
                at += 1
        for column in range(columns):
            for k in range(ends[column], ends[column + 1]):
                out[at] = words[k]
                at += 1
            for k in range(offsets[column, row], offsets[column, row + 1]):
                out[at] = data[k]
                at += 1
        for k in range(ends[columns], ends[columns + 1]):
            out[at] = words[k]
            at += 1
