"""Timestamps and dates as texts, those among them that no calendar of Arrow or Python has."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY: Final = 86_400
_INFINITE: Final = {pa.int64(): 2**63 - 1, pa.int32(): 2**31 - 1}


def instants_texts(array: pa.Array) -> pa.Array:
    """Timestamps as ISO 8601 in UTC, with as many digits as their unit has, or as infinities; NULL stays NULL.

    >>> instants_texts(pa.array([0, 2**63 - 1, 2**63 - 2], pa.timestamp("us"))).to_pylist()
    ['1970-01-01T00:00:00.000000Z', 'infinity', '294247-01-10T04:00:54.775806Z']
    """
    digits = _DIGITS[array.type.unit]
    texts = array.cast(pa.timestamp(array.type.unit)).cast(pa.string())
    texts = pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T", max_replacements=1), "Z", "")

    def far(value: int) -> str:
        seconds, part = divmod(value, 10**digits)
        days, rest = divmod(seconds, _DAY)
        fraction = f".{part:0{digits}}" if digits else ""
        return f"{_date(days)}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{fraction}Z"

    return _mended(texts, array.cast(pa.int64()), far)


def dates_texts(array: pa.Array) -> pa.Array:
    """Dates as ISO 8601, or as infinities; NULL stays NULL.

    >>> dates_texts(pa.array([0, 2**31 - 1, 2**31 - 2], pa.date32())).to_pylist()
    ['1970-01-01', 'infinity', '5881580-07-10']
    """
    days = array.cast(pa.int32()) if pa.types.is_date32(array.type) else pc.divide(array.cast(pa.int64()), 86_400_000)
    return _mended(array.cast(pa.string()), days, _date)


def _mended(texts: pa.Array, numbers: pa.Array, far: Any) -> pa.Array:
    """The texts, with others for numbers that are infinite, or that Arrow finds out of range."""
    most = _INFINITE[numbers.type]
    infinite = pc.or_(pc.equal(numbers, most), pc.equal(numbers, -most))
    odd = pc.or_(infinite, pc.starts_with(texts, "<"))
    if not pc.any(odd).as_py():
        return texts
    found = texts.to_pylist()
    for place in np.flatnonzero(np.asarray(pc.fill_null(odd, False).to_numpy(zero_copy_only=False), bool)).tolist():
        number = numbers[place].as_py()
        found[place] = ("infinity" if number > 0 else "-infinity") if abs(number) == most else far(number)
    return pa.array(found, pa.string())


def _date(days: int) -> str:
    return str(np.datetime64(days, "D"))
