"""`WITH (name = value, …)` behind CREATE: what goes with what, and with which columns."""

from __future__ import annotations

import re
from typing import Any, Literal

from millpond.language.inference.column_types import TIMES
from millpond.language.syntax.source_text import nearest
from millpond.language.with_options.generator_options import generator_options
from millpond.language.with_options.option_reader import OptionReader
from millpond.types import ARRIVAL, Column, StreamOptions
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


def stream_options(reader: OptionReader, columns: tuple[Column, ...]) -> StreamOptions:
    """The options of CREATE STREAM; StatementError on unknown, ill-typed or conflicting ones."""
    source: Literal["files", "ingest"] = reader.value("source") or ("files" if "path" in reader else "ingest")
    files: dict[str, Any] = {}
    if source == "files":
        files = file_options(reader, mixed=True) | {"order": reader.value("order")}
    else:
        for name in ("path", "format", "order", "header", "delimiter", "null", "missing"):
            reader.conflict(name, "is for source='files', but the source is 'ingest'")
    time = time_column(reader, columns)
    generator = generator_options(reader, columns, time)
    plain = ("idle", "ahead", "late", "retention", "archive", "archive_at", "seed", "operators")
    return StreamOptions(source=source, time=time, **{n: reader.value(n) for n in plain}, **files, **generator)


def time_column(reader: OptionReader, columns: tuple[Column, ...]) -> str:
    """The event-time column that `event_time` names, or the only one there is."""
    times = [c for c in columns if c.type in TIMES]
    if "event_time" not in reader:
        if len(times) == 1:
            return times[0].name
        found = f"there are {len(times)} timestamp columns" if times else "there is no timestamp column"
        raise reader.fault(
            f"which column is the event time? {found}", reader.place,
            "event_time='<column>', or event_time='arrival' for the time of arrival",
        )  # fmt: skip
    named: str = reader.value("event_time")
    place = reader.place_of("event_time")
    column = next((c for c in columns if c.name.lower() == named.lower()), None)
    if column is None and named.lower() == "arrival":
        clash = next((c for c in columns if c.name.lower() == ARRIVAL), None)
        if clash:
            raise reader.fault(f"column {clash.name} has the name of the arrival time", place)
        return ARRIVAL
    if column is None:
        raise reader.fault(
            f"there is no column '{named}'", place, "a timestamp column, or 'arrival'",
            nearest(named, [*(c.name for c in columns), "arrival"]),
        )  # fmt: skip
    if column.type not in TIMES:
        raise reader.fault(
            f"column {column.name} is {column.type}, which cannot be an event time", place,
            "a column of type TIMESTAMP or TIMESTAMPTZ", times[0].name if times else "",
        )  # fmt: skip
    return column.name
