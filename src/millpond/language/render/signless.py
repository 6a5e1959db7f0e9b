"""Values in which zero has no sign, within lists, structs and maps, too: 0.0 and -0.0 are one value and one group."""

from __future__ import annotations

from typing import Any

import duckdb

from millpond.support.sql import quote, text_literal
from millpond.types import Expression


def without_sign(key: Expression) -> Expression:
    """A key with 0.0 in place of -0.0, which is the same group: how it is shown is no matter of the order of rows.

    A column has no -0.0 (`sources.zeros`).

    >>> str(without_sign(Expression('round("a")', ("a",), type="DOUBLE")))
    '(round("a") + CAST(0 AS DOUBLE))'
    >>> str(without_sign(Expression('[round("a")]', ("a",), type="DOUBLE[]")))
    'list_transform([[round("a")]], lambda __z0: list_transform(__z0, lambda __z1: (__z1 + CAST(0 AS DOUBLE))))[1]'
    """
    if key.column is not None or not any(kind in key.type for kind in ("DOUBLE", "FLOAT")):
        return key
    if key.type in ("DOUBLE", "FLOAT"):
        return key.within("(", f" + CAST(0 AS {key.type}))", key.type)
    made = _unsigned("__z0", duckdb.sqltype(key.type), 1)
    return key if made == "__z0" else key.within("list_transform([", f"], lambda __z0: {made})[1]", key.type)


def _unsigned(value: str, kind: Any, depth: int) -> str:
    """SQL of a value of a type whose zeros have no sign; depth: of lambdas around it."""
    match kind.id:
        case "double" | "float":
            return f"({value} + CAST(0 AS {kind}))"
        case "list":
            return _each(value, kind.children[0][1], depth)
        case "array":
            [(_, child), _] = kind.children
            return f"CAST({_each(f'CAST({value} AS {child}[])', child, depth)} AS {kind})"
        case "map":
            (_, key), (_, item) = kind.children
            parts = [_each(f"map_{part}({value})", k, depth) for part, k in (("keys", key), ("values", item))]
            return f"CASE WHEN {value} IS NOT NULL THEN map({', '.join(parts)}) END"
        case "struct":
            fields = ((n, _unsigned(f"struct_extract({value}, {text_literal(n)})", k, depth)) for n, k in kind.children)
            packed = ", ".join(f"{quote(name)} := {field}" for name, field in fields)
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
        case _:
            return value


def _each(values: str, kind: Any, depth: int) -> str:
    """SQL of a list whose values are without sign."""
    made = _unsigned(f"__z{depth}", kind, depth + 1)
    return values if made == f"__z{depth}" else f"list_transform({values}, lambda __z{depth}: {made})"
