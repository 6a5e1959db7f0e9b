"""NDJSON files (one JSON object a line): parsed by Arrow where all of it fits, else by DuckDB, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from millpond.sources.formats.carriers import Carrier, carriers
from millpond.sources.formats.convert import is_text, valid_utf8
from millpond.sources.formats.json_values import pointer
from millpond.sources.formats.opening import read_bytes
from millpond.sources.formats.shape import Found, Indices, Read, is_arrival, rejections, shape, shortened, whole
from millpond.sources.intake_log import Item
from millpond.types import StreamDefinition

_BLOCK: Final = 4 << 20
#: Numbers that fit no decimal, as DuckDB shows them.
_LARGE: Final = r"^-?[0-9]{38}|[eE][+]?(3[7-9]|[4-9][0-9]|[0-9]{3})"
_BLANKS: Final = "' ' || chr(9) || chr(10) || chr(13)"


def read(
    item: Item, definition: StreamDefinition, columns: Sequence[str] | None, db: duckdb.DuckDBPyConnection
) -> Read:
    """See `millpond.sources.formats.read.read`."""
    data = read_bytes(item)
    if not data or data.isspace():
        return whole(definition, columns)
    known = {c.name.lower(): c for c in carriers(definition) if not is_arrival(definition, c.name)}
    lines = split_lines(data)
    found = _fast(data, lines, known) if valid_utf8(data) else None
    if found is None:
        found = _slow(lines, known, db)
    return shape(found, item, definition, columns, db)


def times(tail: bytes, carrier: Carrier, db: duckdb.DuckDBPyConnection, rows: int) -> pa.ChunkedArray | None:
    """The event times, as text, in the last lines of a text; None: there are none."""
    lines = split_lines(tail)
    name = carrier.name.lower()
    found = _fast(tail, lines, {name: carrier}) if valid_utf8(tail) else None
    if found is None:
        found = _slow(lines.slice(max(0, len(lines) - 2 * rows)), {name: carrier}, db)
    return found.columns.get(name)


def split_lines(data: bytes) -> pa.Array:
    """The lines of a text, each with its line end, without copying."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    edges = np.concatenate([[0], ends, [len(data)] if not data.endswith(b"\n") else []]).astype(np.int64)
    return pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])


def _fast(data: bytes, lines: pa.Array, known: dict[str, Carrier]) -> Found | None:
    """All by Arrow; None when a line, a key or a value is not as it should be."""
    kinds = [_wide(c.arrow) if _direct(c.arrow) and not c.checked else pa.string() for c in known.values()]
    schema = pa.schema([(c.name, kind) for c, kind in zip(known.values(), kinds, strict=True)])
    try:
        table = pajson.read_json(
            pa.BufferReader(data),
            read_options=pajson.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    others = table.schema.names[len(schema) :]
    # several objects on a line, blank lines, keys in other letters, nested keys that are not declared
    if len(table) != len(lines) or any(n.lower() in known for n in others):
        return None
    if any(table.schema.field(i).type != schema.field(i).type for i in range(len(schema))):
        return None
    try:
        columns = {n: _narrow(table.column(i), c.arrow) for i, (n, c) in enumerate(known.items())}
    except pa.ArrowInvalid:  # a decimal is too large
        return None
    return Found(columns, len(table), lambda rows: _records(lines, rows), unknown=len(others))


def _wide(kind: pa.DataType) -> pa.DataType:
    """A type that Arrow reads without harm: of a decimal that is too large it would take the lower 128 bits."""
    return pa.decimal256(76, kind.scale) if pa.types.is_decimal(kind) else kind


def _narrow(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column that was read as `_wide` says. Raises: ArrowInvalid for a decimal that does not fit."""
    if not pa.types.is_decimal(column.type):
        return column
    found = column.cast(kind)
    found.validate(full=True)
    return found


def _direct(kind: pa.DataType) -> bool:
    """Whether Arrow's JSON reader gives what DuckDB would, or refuses."""
    types = pa.types
    if types.is_list(kind):
        return _direct(kind.value_type)
    if types.is_struct(kind):
        return all(_direct(kind.field(i).type) for i in range(kind.num_fields))
    if types.is_decimal(kind):
        return True
    return bool(types.is_integer(kind) or types.is_float64(kind) or types.is_boolean(kind) or is_text(kind))


def _records(lines: pa.Array, rows: Indices) -> pa.Array:
    return pc.utf8_trim(shortened(lines.take(pa.array(rows))), "\r\n")


def _slow(lines: pa.Array, known: dict[str, Carrier], db: duckdb.DuckDBPyConnection) -> Found:
    """Line by line in DuckDB: what is no object is refused, every value becomes text or JSON."""
    view = "millpond_lines"
    text, line = lines, "raw"
    try:
        text = lines.cast(pa.large_string())
    except pa.ArrowInvalid:
        line = "TRY(decode(raw))"
    db.register(view, pa.table({"i": np.arange(len(lines)), "raw": text}))
    try:
        checked = db.sql(
            "SELECT i, line, CASE WHEN json_valid(line) AND json_type(line) = 'OBJECT' THEN 'ok' "
            f"WHEN line IS NULL THEN 'not UTF-8' WHEN trim(line, {_BLANKS}) = '' THEN '' "
            "WHEN json_valid(line) THEN 'not a JSON object' ELSE 'not JSON' END AS state "
            f"FROM (SELECT i, {line} AS line FROM {view}) ORDER BY i"
        ).to_arrow_table()
    finally:
        db.unregister(view)
    state = checked.column("state").to_numpy()
    good = np.flatnonzero(state == "ok")
    bad = np.flatnonzero((state != "ok") & (state != ""))
    columns, unknown = _extract(checked.column("line").take(pa.array(good)), known, db)
    columns |= _decimals(lines.take(pa.array(good)), {n: c for n, c in known.items() if n in columns}, columns)
    rejected = None
    if len(bad):
        reasons = [f"line {i + 1}: {state[i]}" for i in bad]
        rejected = rejections(reasons, bad, _records(lines, bad))
    plain = len(good) == len(lines)
    return Found(
        columns,
        len(good),
        lambda rows: _records(lines, good[rows]),
        None if plain else good,
        rejected,
        unknown,
        json=True,
    )


def _decimals(
    lines: pa.Array, known: dict[str, Carrier], texts: dict[str, pa.ChunkedArray]
) -> dict[str, pa.ChunkedArray]:
    """The texts of decimals with all their digits: DuckDB makes doubles of JSON's numbers before it shows them.

    Args:
        lines: one object each. texts: what DuckDB gave, which stays where Arrow finds nothing.
    """
    wanted = {name: carrier for name, carrier in known.items() if pa.types.is_decimal(carrier.arrow)}
    if not wanted or not len(lines):
        return {}
    schema = pa.schema([(c.name, pa.decimal256(76, 38)) for c in wanted.values()])
    try:
        table = pajson.read_json(
            pa.BufferReader(lines.buffers()[2]),
            read_options=pajson.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse_options=pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return {}
    if len(table) != len(lines):
        return {}
    found = {}
    for name, carrier in wanted.items():
        large = pc.fill_null(pc.match_substring_regex(texts[name], _LARGE), False)
        found[name] = pc.if_else(
            large, texts[name], pc.coalesce(table.column(carrier.name).cast(pa.string()), texts[name])
        )
    return found


def _extract(
    lines: pa.ChunkedArray, known: dict[str, Carrier], db: duckdb.DuckDBPyConnection
) -> tuple[dict[str, pa.ChunkedArray], int]:
    """The value of every column as text, by keys in any letters; and how many other keys there are."""
    view = "millpond_objects"
    db.register(view, pa.table({"line": lines}))
    try:
        keys = db.sql(f"SELECT DISTINCT unnest(json_keys(line)) AS k FROM {view}").to_arrow_table()
        spelled: dict[str, list[str]] = {}
        for key in sorted(k for k in keys.column(0).to_pylist() if k is not None):
            spelled.setdefault(key.lower(), []).append(key)
        # one call for all keys of a kind: every call parses the line again
        values: dict[str, tuple[str, list[str]]] = {}
        pointers: dict[str, list[str]] = {"json_extract_string": [], "json_extract": []}
        for name, carrier in known.items():
            names = spelled.get(name, [])
            own = [n for n in names if n == carrier.name] + [n for n in names if n != carrier.name]
            if own:
                whole_value = carrier.nested or carrier.declared.upper() == "JSON"
                function = "json_extract" if whole_value else "json_extract_string"
                places = range(len(pointers[function]) + 1, len(pointers[function]) + len(own) + 1)
                pointers[function] += [pointer(n) for n in own]
                values[name] = function, [f"{function}_[{place}]" for place in places]
        if not values:
            return {}, len(spelled)
        calls = [f"{f}(line, [{', '.join(p)}]) AS {f}_" for f, p in pointers.items() if p]
        outputs = [f"coalesce({', '.join(_texts(f, v))})" for f, v in values.values()]
        table = db.sql(f"SELECT {', '.join(outputs)} FROM (SELECT {', '.join(calls)} FROM {view})").to_arrow_table()
    finally:
        db.unregister(view)
    unknown = sum(name not in known for name in spelled)
    return {name: table.column(i) for i, name in enumerate(values)}, unknown


def _texts(function: str, values: list[str]) -> list[str]:
    if function == "json_extract_string":
        return values
    return [f"nullif(CAST({value} AS VARCHAR), 'null')" for value in values]


__all__ = ["read", "split_lines", "times"]
