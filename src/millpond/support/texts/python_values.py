"""Columns as lists of Python's values, where Python has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millpond.support.texts.far_instants import dates_texts, instants_texts


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column; timestamps and dates that Python has not are texts, as JSON has them.

    Python's calendar ends with the year 9999, has no year before 1 and no infinities.

    Args:
        column: of any type; such values may stand within lists, structs and maps.

    Returns:
        As `to_pylist`.

    Example:
        >>> python_values(pa.array([0, 2**31 - 1, None], pa.date32()))
        [datetime.date(1970, 1, 1), 'infinity', None]
    """
    try:
        values: list[Any] = column.to_pylist()
        return values
    except (OverflowError, ValueError):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return [value for chunk in chunks for value in _values(chunk)]


def _values(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _instants(array, instants_texts(array))
    if pa.types.is_date(kind):
        return _instants(array, dates_texts(array))
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        rows = zip(*map(python_values, array.flatten()), strict=True)
        valid = array.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)]
    if pa.types.is_map(kind):
        pairs = [None if not each.is_valid else python_values(each.values) for each in array]
        return [None if each is None else [(pair["key"], pair["value"]) for pair in each] for each in pairs]
    if pa.types.is_nested(kind):
        return [None if not each.is_valid else python_values(each.values) for each in array]
    values: list[Any] = array.to_pylist()
    return values


def _instants(array: pa.Array, texts: pa.Array) -> list[Any]:
    found = []
    for each, text in zip(array, texts.to_pylist(), strict=True):
        try:
            found.append(each.as_py())
        except (OverflowError, ValueError):
            found.append(text)
    return found
