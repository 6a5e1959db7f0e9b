"""NDJSON (an object a line) and JSON arrays, whose items are lines: by Arrow where all of it fits, else by DuckDB."""

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
from millpond.sources.formats.guesses import other_format
from millpond.sources.formats.json_arrays import is_array, items_of
from millpond.sources.formats.json_values import pointer
from millpond.sources.formats.opening import Unreadable, read_bytes
from millpond.sources.formats.shape import Found, Indices, Read, rejections, shape, shortened, whole
from millpond.sources.intake_log import Item
from millpond.types import StreamDefinition

_BLOCK: Final = 4 << 20
#: Numbers that Arrow could make wrong decimals of, even with 256 bits.
_LARGE: Final = r"[0-9]{39}|[\s:,\[]-?[0-9][0-9.]*[eE][+]?[0-9]"
#: An object's strings, numbers, and what is between them.
_TOKENS: Final = r'(?s)"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*|[^"0-9-]+|-'
#: A line in which the numbers that are no doubles are strings: DuckDB makes doubles of them before it shows them.
_EXACT: Final = (
    f"CASE WHEN NOT regexp_matches(line, '[-+.0-9eE]{{17}}') THEN line ELSE array_to_string(list_transform("
    f"regexp_extract_all(line, '{_TOKENS}'), lambda x: CASE WHEN regexp_full_match(x, '-?[0-9].*[.eE].*')"
    " AND length(x) > 16 THEN '\"' || x || '\"' ELSE x END), '') END"
)
_BLANKS: Final = "' ' || chr(9) || chr(10) || chr(13)"


def read(
    item: Item, definition: StreamDefinition, columns: Sequence[str] | None, db: duckdb.DuckDBPyConnection
) -> Read:
    """See `millpond.sources.formats.read.read`."""
    data = read_bytes(item)
    if not data or data.isspace():
        return whole(definition, columns)
    known = {c.name.lower(): c for c in carriers(definition) if not definition.makes(c.name)}
    data, lines, word = _in_lines(data, item.path)
    found = _fast(data, lines, known) if len(lines) and valid_utf8(data) else None
    if found is None:
        found = _slow(lines, known, db, word)
    if not found.length and len(lines) and (guess := other_format(data, "ndjson")):
        raise Unreadable(f"no line is a JSON object; {guess}")
    return shape(found, item, definition, columns, db)


def texts(tail: bytes, carrier: Carrier, db: duckdb.DuckDBPyConnection, rows: int) -> pa.ChunkedArray | None:
    """A column, as text or as parsed, in the last lines of a text; None: it is not there."""
    tail, lines, _ = _in_lines(tail)
    name = carrier.name.lower()
    found = _fast(tail, lines, {name: carrier}) if len(lines) and valid_utf8(tail) else None
    if found is None:
        found = _slow(lines.slice(max(0, len(lines) - 2 * rows)), {name: carrier}, db)
    return found.columns.get(name)


def keys(data: bytes, db: duckdb.DuckDBPyConnection) -> list[str] | None:
    """All keys of the objects in a text; None: there are no objects."""
    return None if not data or data.isspace() else list(_slow(_in_lines(data)[1], {}, db).names or ()) or None


def _in_lines(data: bytes, path: str | None = None) -> tuple[bytes, pa.Array, str]:
    """A text with an object a line, its lines, and what they are called: 'line', or 'item' of an array.

    Arguments:
        path: of the file that the text is all of; None: it may be the beginning of one.
    Raises: Unreadable for an array without an end.
    """
    if not is_array(data):
        return data, split_lines(data), "line"
    found = items_of(data, part=path is None)
    if found.more:  # lines, of which the first is an array
        return data, split_lines(data), "line"
    if path is not None and not found.ended:
        raise Unreadable("it begins like a JSON array, and the end of it is missing")
    return found.text, found.lines, "item"


def split_lines(data: bytes) -> pa.Array:
    """The lines of a text, each with its line end, without copying."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    edges = np.concatenate([[0], ends, [len(data)] if not data.endswith(b"\n") else []]).astype(np.int64)
    return pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])


def _fast(data: bytes, lines: pa.Array, known: dict[str, Carrier]) -> Found | None:
    """All by Arrow; None when a line, a key or a value is not as it should be."""
    if any("JSON" in c.declared.upper() for c in known.values()):
        return None  # a text there is a JSON text, which Arrow would take for JSON
    kinds = [_read_as(c) for c in known.values()]
    if any(map(pa.types.is_decimal, kinds)) and pc.any(pc.match_substring_regex(lines, _LARGE)).as_py():
        return None
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
    empty = [c for n, c in known.items() if columns[n].null_count == len(table)]
    names = [*(c.name for c in known.values() if c not in empty), *others]
    if empty:
        found = _keys_of(data, empty)
        if found is None:
            return None
        names += found
    return Found(columns, len(table), lambda rows: _records(lines, rows), unknown=len(others), names=sorted(names))


def _keys_of(data: bytes, empty: Sequence[Carrier]) -> list[str] | None:
    """Which columns without a value are keys of the text all the same; None: they may be, and only parsing tells."""
    text = data.lower()
    if b"\\u" in text or any(f'"{c.name.lower()}"'.encode() in text for c in empty):
        return None
    return []


def _read_as(carrier: Carrier) -> pa.DataType:
    """A type that Arrow reads without harm: of a decimal that is too large it would take the lower 128 bits."""
    if carrier.checked:
        return pa.string()
    if pa.types.is_decimal(carrier.arrow):
        return pa.decimal256(76, carrier.arrow.scale)
    return carrier.arrow if _direct(carrier.arrow) else pa.string()


def _narrow(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column that was read as `_read_as` says. Raises: ArrowInvalid for a decimal that does not fit."""
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
    return bool(types.is_integer(kind) or types.is_float64(kind) or types.is_boolean(kind) or is_text(kind))


def _records(lines: pa.Array, rows: Indices) -> pa.Array:
    return pc.utf8_trim(shortened(lines.take(pa.array(rows))), " \t\r\n")


def _slow(lines: pa.Array, known: dict[str, Carrier], db: duckdb.DuckDBPyConnection, word: str = "line") -> Found:
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
    columns, names = _extract(checked.column("line").take(pa.array(good)), known, db)
    rejected = None
    if len(bad):
        reasons = [f"{word} {i + 1}: {state[i]}" for i in bad]
        rejected = rejections(reasons, bad, _records(lines, bad))
    plain = len(good) == len(lines)
    return Found(
        columns,
        len(good),
        lambda rows: _records(lines, good[rows]),
        None if plain else good,
        rejected,
        sum(name.lower() not in known for name in {n.lower() for n in names}),
        json=True,
        names=names or None,
    )


def _extract(
    lines: pa.ChunkedArray, known: dict[str, Carrier], db: duckdb.DuckDBPyConnection
) -> tuple[dict[str, pa.ChunkedArray], list[str]]:
    """The value of every column as text, by keys in any letters; and all keys that there are."""
    view = "millpond_objects"
    db.register(view, pa.table({"line": lines}))
    try:
        keys = db.sql(f"SELECT DISTINCT unnest(json_keys(line)) AS k FROM {view}").to_arrow_table()
        spelled: dict[str, list[str]] = {}
        for key in sorted(k for k in keys.column(0).to_pylist() if k is not None):
            spelled.setdefault(key.lower(), []).append(key)
        # one call for all keys of a kind: every call parses the line again
        values: dict[str, tuple[str, list[str]]] = {}
        pointers: dict[tuple[str, str], list[str]] = {}
        for name, carrier in known.items():
            names = spelled.get(name, [])
            own = [n for n in names if n == carrier.name] + [n for n in names if n != carrier.name]
            if own:
                whole_value = carrier.nested or carrier.declared.upper() == "JSON"
                function = "json_extract" if whole_value else "json_extract_string"
                text = "exact" if _has_decimal(carrier.arrow) else "line"
                listed = pointers.setdefault((function, text), [])
                places = range(len(listed) + 1, len(listed) + len(own) + 1)
                listed += [pointer(n) for n in own]
                values[name] = function, [f"{function}_{text}[{place}]" for place in places]
        if not values:
            return {}, [n for names in spelled.values() for n in names]
        calls = [f"{f}({text}, [{', '.join(p)}]) AS {f}_{text}" for (f, text), p in pointers.items()]
        outputs = [f"coalesce({', '.join(_texts(f, v))})" for f, v in values.values()]
        objects = f"(SELECT line, {_EXACT} AS exact FROM {view})"
        table = db.sql(f"SELECT {', '.join(outputs)} FROM (SELECT {', '.join(calls)} FROM {objects})").to_arrow_table()
    finally:
        db.unregister(view)
    every = [n for names in spelled.values() for n in names]
    return {name: table.column(i) for i, name in enumerate(values)}, every


def _has_decimal(kind: pa.DataType) -> bool:
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(_has_decimal, inner))


def _texts(function: str, values: list[str]) -> list[str]:
    if function == "json_extract_string":
        return values
    return [f"nullif(CAST({value} AS VARCHAR), 'null')" for value in values]


__all__ = ["keys", "read", "split_lines", "texts"]
