"""Bodies of ingest requests as what `Pond.ingest` takes: JSON, NDJSON, CSV, Arrow IPC."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.csv

from millpond.server.bodies.arrow_input import read_ipc
from millpond.server.failures import Failure, bad_request, over_limit
from millpond.support import wire

#: Media types of ingest bodies.
INGESTED: Final = (
    wire.JSON,
    wire.NDJSON,
    "application/ndjson",
    wire.CSV,
    wire.ARROW,
    "application/vnd.apache.arrow.file",
)


def parse_json(data: bytes) -> Any:
    """JSON as RFC 8259 has it.

    Raises: Failure 400, also for what nests too deeply, NaN, NUL in names, and numbers of thousands of digits.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        text = "it nests too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise bad_request(f"the body is not valid JSON: {text}") from None


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; write it as a string")


def rows_of(media: str, data: bytes, columns: dict[str, str], most_rows: int) -> pa.Table | list[dict[str, Any]]:
    """The rows of a body.

    Arguments:
        columns: the stream's columns, lower-cased name → DuckDB type. most_rows: the limit.
    Raises: Failure 400, 413 or 415.
    """
    if media == wire.JSON:
        found = parse_json(data)
        wrapped = isinstance(found, dict) and set(found) == {"rows"}
        rows = found["rows"] if wrapped else [found] if isinstance(found, dict) else found
        return _objects(rows, columns, most_rows)
    if media in (wire.NDJSON, "application/ndjson"):
        return _objects(_lines(data), columns, most_rows)
    if media == wire.CSV:
        return _csv(data, columns, most_rows)
    if media in INGESTED:
        return read_ipc(data, most_rows)
    raise Failure(415, "media_type", f"rows come as {', '.join(INGESTED)}")


def _lines(data: bytes) -> Any:
    """The objects of lines, or of one array."""
    if data.lstrip().startswith(b"["):
        return parse_json(data)
    lines = [line for line in data.split(b"\n") if line.strip()]
    try:
        return list(parse_json(b"[" + b",".join(lines) + b"]"))
    except Failure:
        for number, line in enumerate(lines, 1):
            try:
                parse_json(line)
            except Failure as fault:
                raise bad_request(f"line {number}: {fault.message}") from None
        raise


def _objects(rows: Any, columns: dict[str, str], most_rows: int) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise bad_request('the body is not rows: give an array of objects, [{"column": value, …}, …]')
    if len(rows) > most_rows:
        raise over_limit(413, "rows_per_request", f"the request has more than {most_rows:,} rows")
    binary = {name for name, kind in columns.items() if kind == "BLOB"}
    for name in {n for row in rows for n in row if n.lower() in binary} if binary else ():
        for row, value in zip(rows, _binary(name, (row.get(name) for row in rows)), strict=True):
            if name in row:
                row[name] = value
    return rows


def _csv(data: bytes, columns: dict[str, str], most_rows: int) -> pa.Table:
    try:
        names = pyarrow.csv.open_csv(
            pa.BufferReader(data), parse_options=_PARSE, read_options=pyarrow.csv.ReadOptions(use_threads=False)
        ).schema.names
        # Everything is text here: types are the stream's, and its own conversions say what does not fit.
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            pyarrow.csv.ReadOptions(use_threads=False),
            _PARSE,
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise bad_request(f"the body is not valid CSV with a header: {str(error)[:200]}") from None
    if table.num_rows > most_rows:
        raise over_limit(413, "rows_per_request", f"the request has more than {most_rows:,} rows")
    for index, name in enumerate(table.schema.names):
        if columns.get(name.lower()) == "BLOB":
            decoded = pa.array(list(_binary(name, table.column(index).to_pylist())), pa.binary())
            table = table.set_column(index, name, decoded)
    return table


_PARSE = pyarrow.csv.ParseOptions(newlines_in_values=True)


def _binary(name: str, values: Iterable[Any]) -> Iterable[bytes | None]:
    for number, value in enumerate(values):
        try:
            if not isinstance(value, (str, type(None))):
                raise ValueError
            yield None if value is None else base64.b64decode(value, validate=True)
        except (ValueError, binascii.Error):
            raise bad_request(f"row {number}, column '{name}': binary values are base64 texts") from None
