"""DuckDB SQL that turns a JSON value into a nested type as NDJSON means it.

DuckDB's own casts either pass over values that do not fit or refuse objects with missing or further keys. Here missing
keys are NULL, further keys are ignored, numbers may stand in strings, and a value that does not fit is an error (which
the caller turns into NULL for the whole row, by TRY).
"""

from __future__ import annotations

from typing import Any

import duckdb

from millpond.support.sql import quote, text_literal


def json_cast(value: str, kind: str) -> str:
    """SQL for the JSON expression `value` as the DuckDB type `kind`."""
    return _cast(value, duckdb.sqltype(kind), 0)


def _cast(value: str, kind: Any, depth: int) -> str:
    """`depth` keeps the parameters of nested lambdas apart."""
    name = str(kind.id)
    if str(kind).upper() == "JSON":
        return f"nullif(CAST({value} AS VARCHAR), 'null')"
    if name == "struct":
        fields = ", ".join(
            f"{quote(field)} := {_cast(f'json_extract({value}, {pointer(field)})', inner, depth)}"
            for field, inner in kind.children
        )
        return _when(value, "OBJECT", f"struct_pack({fields})", kind)
    own = f"j{depth}"
    if name in ("list", "array"):
        items = f"list_transform(CAST({value} AS JSON[]), lambda {own}: {_cast(own, kind.children[0][1], depth + 1)})"
        return _when(value, "ARRAY", f"CAST({items} AS {kind})" if name == "array" else items, kind)
    if name == "map":
        (_, key), (_, inner) = kind.children
        entries = f"CAST({value} AS MAP(VARCHAR, JSON))"
        keys = f"list_transform(map_keys({entries}), lambda {own}: CAST({own} AS {key}))"
        values = f"list_transform(map_values({entries}), lambda {own}: {_cast(own, inner, depth + 1)})"
        return _when(value, "OBJECT", f"map({keys}, {values})", kind)
    return f"CAST(json_extract_string({value}, '$') AS {kind})"


def _when(value: str, form: str, result: str, kind: Any) -> str:
    """NULL for a JSON null, an error (a cast that cannot be done) for another form than the one that is due."""
    return (
        f"CASE WHEN coalesce(json_type({value}), 'NULL') = 'NULL' THEN NULL WHEN json_type({value}) = '{form}' "
        f"THEN {result} ELSE CAST(concat('not a JSON {form.lower()}: ', json_type({value})) AS {kind}) END"
    )


def pointer(key: str) -> str:
    """A JSON pointer to a key, as an SQL literal."""
    return text_literal("/" + key.replace("~", "~0").replace("/", "~1"))
