"""Files that a statement names: which there are, how DuckDB reads them, and what columns they have."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from millpond.sources.files import format_of
from millpond.sources.formats.columns_there import fitting, lacks
from millpond.sources.formats.opening import Unreadable
from millpond.sources.intake_log import Format
from millpond.support.errors import SourceError
from millpond.support.file_forms import FileForm
from millpond.support.file_names import file_ending
from millpond.support.sql import text_literal
from millpond.types import Column, FileTable, StreamDefinition, StreamOptions

#: Of so many files the values are looked at.
_LOOKED_AT = 8
_WIDEST = re.compile(r"\bHUGEINT\b")
#: How files are read, by the ends of their names.
_READERS = {
    "parquet": "read_parquet", "csv": "read_csv", "tsv": "read_csv", "json": "read_json", "ndjson": "read_json",
    "jsonl": "read_json",
}  # fmt: skip


def local_files(path: str) -> FileTable:
    """What the files of a path (a glob, too) are as a table.

    Raises: SourceError where there are none, or they cannot be read.
    """
    if "://" in path:
        raise SourceError(f"'{path}' is not a file here: SELECT and COPY read and write local files")
    found = sorted(str(Path(each).resolve()) for each in glob.glob(path, recursive=True) if os.path.isfile(each))
    if not found:
        raise SourceError(f"there is no file '{path}'")
    listed = ", ".join(text_literal(each) for each in found)
    more = ", union_by_name = true" if len(found) > 1 else ""
    ending = file_ending(path)
    more += ", delim = '\t'" if ending == "tsv" else ""
    scan = f"{_READERS[ending]}([{listed}]{more})"
    table = FileTable(path, (), path, None, id=-1, scan=scan, paths=tuple(found))
    with reading(table) as db:
        try:
            rows = db.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
        except duckdb.Error as error:
            raise SourceError(f"'{path}' cannot be read: {_told(error)}") from None
    header, delimiter = _look(table)
    columns = tuple(Column(row[0], row[1]) for row in rows)
    return replace(table, columns=columns, header=header, delimiter=delimiter)


def as_read(table: FileTable) -> FileTable:
    """Files with the types in which a stream reads them: text where DuckDB reads what Millpond does not.

    Raises: SourceError where nothing in them tells the types of columns, or a stream cannot read them.
    """
    _check_rows(table)
    kinds = [(path, kind) for path in table.paths[:_LOOKED_AT] if (kind := format_of(path)) is not None]
    columns = tuple(Column(c.name, "VARCHAR" if c.type == '"NULL"' else c.type) for c in table.columns)
    options = StreamOptions("files", table.path, header=table.header, delimiter=table.delimiter, missing="null")
    stream = StreamDefinition(table.name, columns, options)
    for path, kind in kinds:
        try:
            lacks(path, kind, stream)
        except Unreadable as error:
            raise SourceError(f"'{table.path}' cannot be read as a stream: {error}") from None
    narrow = tuple(Column(c.name, _WIDEST.sub("BIGINT", c.type)) for c in columns)
    if narrow != columns:  # DuckDB has no smaller type for what is of both signs
        stream = _where_fitting(kinds, replace(stream, columns=narrow), columns)
    texts = tuple(Column(c.name, "VARCHAR") for c in columns)
    return replace(table, columns=_where_fitting(kinds, stream, texts).columns)


def _check_rows(table: FileTable) -> None:
    """Refuse files in which nothing tells the types of columns. Raises: SourceError."""
    if table.scan.startswith("read_parquet"):
        return
    question = f"SELECT 1 FROM {table.scan} LIMIT 1"
    if table.scan.startswith("read_json"):  # of anything but objects DuckDB makes a column by itself
        listed = ", ".join(text_literal(path) for path in table.paths)
        question = f"SELECT 1 FROM read_json_objects([{listed}]) WHERE json_type(json) = 'OBJECT' LIMIT 1"
    with reading(table) as db:
        try:
            found = db.execute(question).fetchone()
        except duckdb.Error as error:
            raise SourceError(f"'{table.path}' cannot be read: {_told(error)}") from None
    if found is None:
        is_empty = not any(map(os.path.getsize, table.paths))
        why = "is empty" if is_empty else "holds no rows that tell its columns and their types"
        raise SourceError(f"'{table.path}' {why}; CREATE STREAM … (column type, …) WITH (path=…) declares columns")


def _where_fitting(
    kinds: Sequence[tuple[str, Format]], stream: StreamDefinition, otherwise: Sequence[Column]
) -> StreamDefinition:
    """A stream with other columns where a value at the beginning of a file does not fit those that it has."""
    for path, kind in kinds:
        pairs = zip(stream.columns, otherwise, fitting(path, kind, stream), strict=True)
        stream = replace(stream, columns=tuple(c if fits else other for c, other, fits in pairs))
    return stream


def _told(error: duckdb.Error) -> str:
    """What DuckDB says of a file in a line, without its SQL and what other settings could do about it."""
    said = str(error).partition("\n\nLINE ")[0].partition("Possible")[0]
    lines = [line.strip() for line in re.sub(r"^[A-Za-z ]*Error: ", "", said).splitlines()]
    return " ".join(line for line in lines if line)[:300]


def _look(table: FileTable) -> tuple[bool, str]:
    """Whether the first of some CSV files has a header, and what stands between its values."""
    if not table.scan.startswith("read_csv"):
        return True, ","
    with reading(table) as db:
        row = db.execute(f"SELECT HasHeader, Delimiter FROM sniff_csv({text_literal(table.paths[0])})").fetchone()
    return (True, ",") if row is None else (bool(row[0]), str(row[1]))


def reading(*tables: FileTable) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection that can open the files of these tables, and nothing else."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    allowed = ", ".join(text_literal(path) for table in tables for path in table.paths)
    db = duckdb.connect(":memory:")
    for setting in (
        "SET threads = 1", "SET TimeZone = 'UTC'", "SET python_enable_replacements = false",
        f"SET memory_limit = '{memory // 3} B'", f"SET allowed_paths = [{allowed}]",
        "SET enable_external_access = false", "SET lock_configuration = true",
    ):  # fmt: skip
        db.execute(setting)
    return db


def write_file(table: object, form: FileForm) -> None:
    """Write an Arrow table into a file; it is whole or not there.

    Raises: SourceError.
    """
    path = form.path
    if "://" in path:
        raise SourceError(f"'{path}' is not a file here: SELECT and COPY read and write local files")
    target = Path(path).absolute()
    whole = target.with_name(f".{target.name}.{os.getpid()}")
    with duckdb.connect(":memory:") as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("answer", table)
        try:
            db.execute(f"COPY answer TO {text_literal(str(whole))} ({form.sql})")
            os.replace(whole, target)
        except (duckdb.Error, OSError) as error:
            raise SourceError(f"'{path}' cannot be written: {str(error).splitlines()[0]}") from None
        finally:
            whole.unlink(missing_ok=True)


__all__ = ["as_read", "local_files", "reading", "write_file"]
