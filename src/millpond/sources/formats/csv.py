"""CSV files: parsed by Arrow straight into the stream's types where all of it fits, else as text, value by value."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from millpond.sources.formats.carriers import Carrier, carriers
from millpond.sources.formats.convert import Mask, is_text, valid_utf8
from millpond.sources.formats.guesses import other_delimiter, other_format
from millpond.sources.formats.opening import Unreadable, read_bytes
from millpond.sources.formats.shape import Found, Indices, Read, rejections, shape, shortened, whole
from millpond.sources.intake_log import Item
from millpond.types import StreamDefinition, StreamOptions

_BLOCK: Final = 1 << 20
_TABS: Final = re.compile(r"\.tsv(\.gz|\.zst)?$", re.IGNORECASE)
_ESCAPED: Final = re.compile("[\udc80-\udcff]+")
_MOST: Final = (1 << 31) - 1
#: So many records with a quote that is never closed are cut out one by one; after that the rest is refused whole.
_UNCLOSED_LIMIT: Final = 10


@dataclass(frozen=True)
class Head:
    """The first record of a file: the stream's columns (lower case) → field number, all fields, where data begins.

    names: what the fields are called; None: the file has no header.
    """

    fields: dict[str, int]
    width: int
    offset: int
    names: tuple[str, ...] | None = None

    @property
    def unknown(self) -> int:
        """How many fields the stream does not have."""
        return self.width - len(self.fields)


@dataclass
class _Refused:
    """Records that the parser refused; numbers count the records that it was given, from 0."""

    numbers: list[int]
    reasons: list[str]
    records: list[str]

    def clear(self) -> None:
        for entries in (self.numbers, self.reasons, self.records):
            entries.clear()


def read(
    item: Item, definition: StreamDefinition, columns: Sequence[str] | None, db: duckdb.DuckDBPyConnection
) -> Read:
    """See `millpond.sources.formats.read.read`."""
    data, definition = read_bytes(item), as_named(definition, item.path)
    head = read_head(data, definition)
    if head is None:
        return whole(definition, columns)
    return _read(data, head, item, definition, columns, db)


def as_named(definition: StreamDefinition, path: str) -> StreamDefinition:
    """The stream with the delimiter of a file, which is told by its name where the stream does not say.

    >>> as_named(StreamDefinition("s", ()), "folder/a.TSV.gz").options.delimiter
    '\\t'
    """
    options = definition.options
    if options.delimiter:
        return definition
    tabs = _TABS.search(path) is not None
    return replace(definition, options=replace(options, delimiter="\t" if tabs else ","))


def read_head(data: bytes, definition: StreamDefinition) -> Head | None:
    """Which fields hold which columns; None: the file is empty.

    Raises:
        Unreadable: the header names no column of the stream, or one twice, or is no CSV.
    """
    options = definition.options
    known = [c.name.lower() for c in carriers(definition) if not definition.makes(c.name)]
    if not data or data.isspace():
        return None
    if not options.header:
        return Head({name: i for i, name in enumerate(known)}, len(known), 0)
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", "replace", newline=""), delimiter=options.delimiter)
    try:
        names = next((record for record in lines if record), [])
    except csv.Error as error:
        raise Unreadable(f"the header cannot be read: {error}") from error
    fields: dict[str, int] = {}
    for number, name in enumerate(n.strip() for n in names):
        if name.lower() in fields:
            raise Unreadable(f"column '{name}' stands twice in the header; give one of the two another name")
        if name.lower() in known:
            fields[name.lower()] = number
    if not fields:
        line = data[: data.find(b"\n") if b"\n" in data else len(data)].decode("utf-8", "replace").rstrip("\r")
        guess = other_format(data, "csv") or other_delimiter(line, options.delimiter or ",", known)
        reason = f"the header names no column of '{definition.name}': {', '.join(names)[:200]}"
        raise Unreadable(f"{reason}; {guess}" if guess else f"{reason} (header=false?)")
    return Head(fields, len(names), _line_offset(data, lines.line_num), tuple(n.strip() for n in names))


def _line_offset(data: bytes, lines: int) -> int:
    """Where the line after so many lines begins (line ends: LF, CRLF or CR)."""
    offset = 0
    for _ in range(lines):
        feed, carriage = data.find(b"\n", offset), data.find(b"\r", offset)
        if feed < 0 and carriage < 0:
            return len(data)
        end = min(e for e in (feed, carriage) if e >= 0)
        offset = end + (2 if data[end : end + 2] == b"\r\n" else 1)
    return offset


def _read(
    data: bytes,
    head: Head,
    item: Item,
    definition: StreamDefinition,
    columns: Sequence[str] | None,
    db: duckdb.DuckDBPyConnection,
) -> Read:
    body, removed, cut = _close_quotes(data[head.offset :], definition.options.delimiter)
    if not removed and (not body or body.isspace()):
        return whole(definition, columns)
    refused = _Refused([], [], [])
    every = carriers(definition)
    body, mark = _marked(body)
    suitable = not removed and mark is None
    typed = _fast(body, head, every, definition.options, refused) if suitable else None
    if typed is not None and not refused.numbers:
        found = Found(typed, _length(typed), _no_record, unknown=head.unknown, names=head.names)
        read = shape(found, item, definition, columns, db)
        if not read.rejected.num_rows:
            return read
    refused.clear()
    table = _texts(body, head.width, definition.options, refused)
    fields = {
        name: _null_text(table.column(number), name, every, definition.options.null)
        for name, number in head.fields.items()
    }
    garbled: dict[str, Mask] = {}
    if mark is not None:
        garbled = {name: pc.match_substring(c, mark).fill_null(False).to_numpy() for name, c in fields.items()}
        fields = {name: pc.replace_substring(c, mark, "\ufffd") for name, c in fields.items()}
        refused.records[:] = [r.replace(mark, "\ufffd") for r in refused.records]

    def record(rows: Indices) -> pa.Array:
        taken = table.take(pa.array(rows))
        joined = _joined(taken.columns, definition.options)
        return joined if mark is None else pc.replace_substring(joined, mark, "\ufffd")

    good, rejected = _positions(len(table), refused, removed, cut)
    found = Found(fields, len(table), record, good, rejected, head.unknown, garbled=garbled, names=head.names)
    return shape(found, item, definition, columns, db)


def _joined(columns: Sequence[pa.ChunkedArray], options: StreamOptions) -> pa.ChunkedArray:
    """Rows of texts as lines of the file: quoted where they must be, so that they can be read again."""
    delimiter = options.delimiter or ","
    special = f'["\\r\\n{re.escape(delimiter)}]'
    texts = []
    for column in columns:
        text = shortened(column)
        quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
        must = pc.or_(pc.match_substring_regex(text, special), pc.is_in(text, pa.array(["", options.null])))
        texts.append(pc.if_else(must, quoted, text).fill_null(options.null))
    return pc.binary_join_element_wise(*texts, delimiter)


def texts(
    head: bytes, tail: bytes, path: str, definition: StreamDefinition, carrier: Carrier
) -> pa.ChunkedArray | None:
    """A column, as text, in the last bytes of a file that begins with `head`; None: it is not there."""
    definition = as_named(definition, path)
    first = read_head(head, definition)
    number = None if first is None else first.fields.get(carrier.name.lower())
    if first is None or number is None:
        return None
    body = tail[first.offset :] if tail is head else tail
    found = _texts(_marked(body)[0], first.width, definition.options, _Refused([], [], [])).column(number)
    return _null_text(found, carrier.name.lower(), (carrier,), definition.options.null)


def _no_record(rows: Indices) -> pa.Array:
    return pa.nulls(len(rows), pa.string())


def _length(columns: dict[str, pa.ChunkedArray]) -> int:
    return len(next(iter(columns.values())))


def _fast(
    body: bytes, head: Head, every: Sequence[Carrier], options: StreamOptions, refused: _Refused
) -> dict[str, pa.ChunkedArray] | None:
    """The columns in their own types; None when some value does not fit as it stands."""
    types = {}
    for carrier in every:
        number = head.fields.get(carrier.name.lower())
        if number is not None:
            types[f"f{number}"] = carrier.arrow if _direct(carrier) else pa.string()
    convert = pacsv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        null_values=[options.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        timestamp_parsers=[pacsv.ISO8601],
    )
    try:
        probe = body[: body.rfind(b"\n", 0, 16_384) + 1]
        if probe and len(body) > 4 * _BLOCK and b'"' not in probe:  # cheaper than failing after half of a large file
            _parse(probe, head.width, options, convert, refused, _BLOCK)
            refused.clear()
        table = _parse(body, head.width, options, convert, refused, _BLOCK)
        for column in table.columns:
            if pa.types.is_decimal(column.type):
                column.validate(full=True)  # Arrow looks at the digits before it brings them to the column's scale
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    return {name: table.column(f"f{number}") for name, number in head.fields.items()}


def _direct(carrier: Carrier) -> bool:
    """Whether Arrow's CSV reader gives what DuckDB would, or refuses."""
    kind, types = carrier.arrow, pa.types
    return not carrier.checked and bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_timestamp(kind)
        or types.is_date32(kind)
        or types.is_decimal(kind)
        or is_text(kind)
    )


def _texts(body: bytes, width: int, options: StreamOptions, refused: _Refused) -> pa.Table:
    """All fields as text, which must be UTF-8 (see `_marked`). Raises Unreadable."""
    if not body or body.isspace():
        return pa.schema([(f"f{i}", pa.string()) for i in range(width)]).empty_table()
    convert = pacsv.ConvertOptions(
        column_types={f"f{i}": pa.string() for i in range(width)},
        null_values=[options.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        return _parse(body, width, options, convert, refused, min(_MOST, max(_BLOCK, len(body) + 1)))
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise Unreadable(f"not a readable CSV file: {error}") from error


def _parse(
    body: bytes, width: int, options: StreamOptions, convert: pacsv.ConvertOptions, refused: _Refused, block: int
) -> pa.Table:
    def refuse(row: pacsv.InvalidRow) -> str:
        refused.numbers.append(row.number - 1)
        refused.reasons.append(f"{row.actual_columns} fields where {row.expected_columns} are expected")
        refused.records.append(row.text)
        return "skip"

    return pacsv.read_csv(
        pa.BufferReader(body),
        read_options=pacsv.ReadOptions(
            use_threads=False, column_names=[f"f{i}" for i in range(width)], block_size=block
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=options.delimiter, newlines_in_values=b'"' in body, invalid_row_handler=refuse
        ),
        convert_options=convert,
    )


def _marked(body: bytes) -> tuple[bytes, str | None]:
    """The body with a mark in place of bytes that are not UTF-8 (the parser refuses them); None: there are none.

    The mark is a code point that is no character and does not occur in the body.
    """
    if valid_utf8(body):
        return body, None
    text = body.decode("utf-8", "surrogateescape")
    mark = next((m for m in map(chr, range(0xFDD0, 0xFDF0)) if m not in text), "\ufffd")
    return _ESCAPED.sub(mark, text).encode(), mark


def _null_text(column: pa.ChunkedArray, name: str, every: Sequence[Carrier], null: str) -> pa.ChunkedArray:
    """Quoted NULL text and empty fields are NULL, too, where the column is not text."""
    carrier = next(c for c in every if c.name.lower() == name)
    if is_text(carrier.arrow) and not carrier.checked:
        return column
    empty = pc.is_in(column, value_set=pa.array(sorted({"", null})))
    return pc.if_else(empty, pa.scalar(None, column.type), column) if pc.any(empty).as_py() else column


def _positions(
    good: int, refused: _Refused, removed: list[int], cut: list[bytes]
) -> tuple[Indices | None, pa.Table | None]:
    """Where the good rows stood among all records, and the refused records with their places."""
    if not refused.numbers and not removed:
        return None, None
    total = good + len(refused.numbers) + len(removed)
    given = np.delete(np.arange(total), removed)  # what the parser saw
    numbers = np.array(refused.numbers, np.int64)
    rejected = rejections(
        refused.reasons + ["a quote that is never closed"] * len(removed),
        np.concatenate([given[numbers], np.array(removed, np.int64)]),
        pa.array([r.encode() for r in refused.records] + cut, pa.binary()),
    )
    return np.delete(given, numbers), rejected.sort_by("position")


def _close_quotes(body: bytes, delimiter: str) -> tuple[bytes, list[int], list[bytes]]:
    """Cut out records whose quote is never closed: it would swallow the rest of the file.

    Returns the body without them, their record numbers, and their (first) lines.
    """
    removed: list[int] = []
    cut: list[bytes] = []
    while body.count(b'"') % 2:
        start, number = _last_record(body, delimiter)
        if not _open_quote(body[start:], delimiter.encode()):
            break
        end = body.find(b"\n", start) + 1 or len(body)
        if len(removed) == _UNCLOSED_LIMIT:
            end = len(body)
        cut.append(body[start:end].rstrip(b"\r\n"))
        removed.append(number + len(removed))
        body = body[:start] + body[end:]
    return body, removed, cut


def _last_record(body: bytes, delimiter: str) -> tuple[int, int]:
    """Where the last record begins, and its number (blank lines do not count)."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(body), "latin-1", newline=""), delimiter=delimiter)
    before = lines = number = 0
    csv.field_size_limit(_MOST)
    for record in reader:
        if record:
            before, number = lines, number + 1
        lines = reader.line_num
    return _line_offset(body, before), max(0, number - 1)


def _open_quote(record: bytes, delimiter: bytes) -> bool:
    """Whether a quoted field of this record is still open at its end."""
    opened = False
    for part in record.split(delimiter):
        if not opened:
            if not part.startswith(b'"'):
                continue
            part = part[1:]
        opened = part.count(b'"') % 2 == 0  # doubled quotes stand for one; a single one closes
    return opened


__all__ = ["Head", "read", "read_head", "texts"]
