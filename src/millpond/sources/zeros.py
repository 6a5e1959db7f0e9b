"""Zeros as rows are taken in: 0.0 and -0.0 are one value and one group, so that there is one way to write it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def without_signs(rows: pa.Table) -> pa.Table:
    """Rows with 0.0 for each -0.0 of their columns, within lists, structs and maps, too.

    >>> without_signs(pa.table({"a": [-0.0, 1.5, None], "b": [[-0.0], [], None]})).to_pylist()
    [{'a': 0.0, 'b': [0.0]}, {'a': 1.5, 'b': []}, {'a': None, 'b': None}]
    """
    for place, field in enumerate(rows.schema):
        if _has_floats(field.type):
            chunks = [_unsigned(chunk) for chunk in rows.column(place).chunks]
            rows = rows.set_column(place, field, pa.chunked_array(chunks, field.type))
    return rows


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(n).type) for n in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def _unsigned(values: pa.Array) -> pa.Array:
    """An array with 0.0 for -0.0; what holds its parts together is the same memory."""
    kind = values.type
    if not _has_floats(kind):
        return values
    if not pa.types.is_nested(kind):
        return pc.add(values, pa.scalar(0, kind))
    if pa.types.is_struct(kind):
        parts = [_unsigned(values.field(n)) for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    own = 1 if pa.types.is_fixed_size_list(kind) else 2  # validity, and where each list begins
    if pa.types.is_map(kind):
        parts = [_unsigned(values.keys), _unsigned(values.items)]
        child = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
    else:
        child = _unsigned(values.values)
    return pa.Array.from_buffers(kind, len(values), values.buffers()[:own], offset=values.offset, children=[child])
