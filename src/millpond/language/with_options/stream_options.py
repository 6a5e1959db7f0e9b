"""`WITH (name = value, …)` behind CREATE: what goes with what, and with which columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from millpond.language.with_options.event_times import Written, event_time, generated
from millpond.language.with_options.generator_options import generator_options
from millpond.language.with_options.option_reader import OptionReader
from millpond.types import COMPUTED, Column, StreamOptions
from millpond.types.options.stream_terms import FORMATS


def file_options(reader: OptionReader, mixed: bool = False) -> dict[str, Any]:
    """path, format, header, delimiter, null, missing of a stream or table that reads files.

    `mixed`: a folder or a glob without an extension may hold files of several formats, each told by its name; the
    format is then None.
    """
    path: str = reader.value("path")
    if not path:
        raise reader.fault("files need a path", reader.place_of("path"), "path='folder/*.parquet'")
    found = {"path": path, **{name: reader.value(name) for name in ("header", "null", "missing")}}
    delimiter: str | None = reader.value("delimiter")
    written = reader.value("format") or _extension(path)
    if not written and mixed and "." not in path.rsplit("/", 1)[-1]:
        return {**found, "format": None, "delimiter": delimiter or ""}
    if not written:
        raise reader.fault(
            f"the format of '{path}' cannot be told from its name", reader.place_of("path"),
            "format='parquet', 'csv', 'tsv' or 'ndjson'",
        )  # fmt: skip
    format_ = FORMATS[written]
    if format_ != "csv":
        for name in ("header", "delimiter", "null"):
            reader.conflict(name, f"is for csv, but the format is {format_}")
    return {**found, "format": format_, "delimiter": delimiter or ("\t" if written == "tsv" else ",")}


def _extension(path: str) -> str:
    name = path.rsplit("/", 1)[-1].lower()
    plain = re.sub(r"\.(gz|zst)$", "", name)
    extension = plain.rsplit(".", 1)[-1] if "." in plain else ""
    return "" if extension not in FORMATS or (extension == "parquet" and plain != name) else extension


def stream_options(
    reader: OptionReader, written: Sequence[Written], script: str
) -> tuple[StreamOptions, tuple[Column, ...]]:
    """The options of CREATE STREAM, and its columns with that which is made for the event time.

    Raises: StatementError on unknown, ill-typed or conflicting options, and on wrong generated columns.
    """
    source: Literal["files", "ingest"] = reader.value("source") or ("files" if "path" in reader else "ingest")
    files: dict[str, Any] = {}
    if source == "files":
        files = file_options(reader, mixed=True) | {"order": reader.value("order")}
    else:
        for name in ("path", "format", "order", "header", "delimiter", "null", "missing"):
            reader.conflict(name, "is for source='files', but the source is 'ingest'")
    columns, made = tuple(w.column for w in written), generated(written, script)
    time = event_time(reader, columns, made)
    if time.generated is not None:
        columns, made = (*columns, Column(COMPUTED, "TIMESTAMP")), (*made, time.generated)
    generator = generator_options(reader, columns, time.column)
    plain = ("idle", "ahead", "late", "retention", "archive", "archive_at", "seed", "operators")
    values = {name: reader.value(name) for name in plain}
    return StreamOptions(source=source, time=time.column, generated=made, **values, **files, **generator), columns
