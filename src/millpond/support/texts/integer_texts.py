"""Columns of whole numbers as JSON texts, some five times as quick as Arrow's casts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from millpond.support.compiled import compiled

#: Integers up to here are the same in every JSON reader.
EXACT: Final = 2**53
#: Bytes that offsets of 32 bits reach.
_REACH: Final = 2**31 - 1


def integer_texts(array: pa.Array) -> pa.Array | None:
    """Integers as JSON numbers, those beyond 2^53 in quotes; NULL is `null`. None for values that 64 bits do not hold.

    >>> integer_texts(pa.array([7, -120, None, 2**60])).to_pylist()
    ['7', '-120', 'null', '"1152921504606846976"']
    """
    if array.type == pa.uint64():
        return None
    known = np.empty(0, bool)
    numbers = array.cast(pa.int64())
    if array.null_count:
        known = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
        numbers = numbers.fill_null(0)
    values = np.asarray(numbers.to_numpy(zero_copy_only=False), np.int64)
    if not len(values):
        return pa.array([], pa.string())
    longest = max(4, len(str(values.min())), len(str(values.max()))) + 2
    if longest * len(values) > _REACH:
        return None
    out, offsets = np.empty(longest * len(values), np.uint8), np.empty(len(values) + 1, np.int32)
    _print(values, known, out, offsets)
    return pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(out)])


@compiled
def _print(values: Any, known: Any, out: Any, offsets: Any) -> None:
    ten = np.uint64(10)
    at = 0
    for row in range(len(values)):
        offsets[row] = at
        if len(known) and not known[row]:
            for letter in (110, 117, 108, 108):
                out[at] = letter
                at += 1
            continue
        value = values[row]
        quoted = value > EXACT or value < -EXACT
        if quoted:
            out[at] = 34
            at += 1
        if value < 0:
            out[at] = 45
            at += 1
            rest = np.uint64(-(value + 1)) + np.uint64(1)  # the least integer has no positive of its own
        else:
            rest = np.uint64(value)
        digits = 1
        bound = ten
        while digits < 19 and rest >= bound:
            digits += 1
            bound *= ten
        for place in range(at + digits - 1, at - 1, -1):
            out[place] = np.uint8(48) + np.uint8(rest % ten)
            rest //= ten
        at += digits
        if quoted:
            out[at] = 34
            at += 1
    offsets[len(values)] = at
