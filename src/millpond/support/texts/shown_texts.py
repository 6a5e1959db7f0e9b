"""Values as people read them in a table: numbers with all their digits, times without needless zeros."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millpond.support.texts.far_instants import instants_texts
from millpond.support.texts.json_texts import json_texts


def shown_texts(array: pa.Array) -> list[str | None]:
    """Each value; None for NULL.

    >>> shown_texts(pa.array([25741.02, 123456789.25, 2.0, None]))
    ['25741.02', '123456789.25', '2', None]
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts: list[str | None] = array.to_pylist()
        return texts
    if pa.types.is_floating(kind):
        # Narrow ones have their own shortest digits, not those of the double that they widen to.
        exact = array if pa.types.is_float64(kind) else array.cast(pa.float32()).cast(pa.string())
        return [None if v is None else repr(float(v)).removesuffix(".0") for v in exact.to_pylist()]
    if pa.types.is_timestamp(kind):
        shown = pc.replace_substring(pc.replace_substring_regex(instants_texts(array), r"(\.0+)?Z$", ""), "T", " ")
        texts = shown.to_pylist()
        return texts
    found = json_texts(array).to_pylist()
    return [text.strip('"') if valid else None for text, valid in zip(found, array.is_valid().to_pylist(), strict=True)]


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
