"""Files that a statement names: which there are, how DuckDB reads them, and what columns they have."""

from __future__ import annotations

import glob
import os
from dataclasses import replace
from pathlib import Path

import duckdb

from millpond.support.errors import SourceError
from millpond.support.file_names import file_ending
from millpond.support.sql import text_literal
from millpond.types import Column, FileTable

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
    scan = f"{_READERS[file_ending(path)]}([{listed}]{more})"
    table = FileTable(path, (), path, None, id=-1, scan=scan, paths=tuple(found))
    with reading(table) as db:
        try:
            rows = db.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
        except duckdb.Error as error:
            raise SourceError(f"'{path}' cannot be read: {str(error).splitlines()[0]}") from None
    header, delimiter = _look(table)
    columns = tuple(Column(row[0], row[1]) for row in rows)
    return replace(table, columns=columns, header=header, delimiter=delimiter)


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


def write_file(table: object, path: str, form: str) -> None:
    """Write an Arrow table into a file, which is whole or not there.

    Arguments:
        form: 'parquet', 'csv' or 'json' (an object a line).
    Raises: SourceError.
    """
    if "://" in path:
        raise SourceError(f"'{path}' is not a file here: SELECT and COPY read and write local files")
    target = Path(path).absolute()
    whole = target.with_name(f".{target.name}.{os.getpid()}")
    with duckdb.connect(":memory:") as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("answer", table)
        try:
            db.execute(f"COPY answer TO {text_literal(str(whole))} (FORMAT {form})")
            os.replace(whole, target)
        except (duckdb.Error, OSError) as error:
            raise SourceError(f"'{path}' cannot be written: {str(error).splitlines()[0]}") from None
        finally:
            whole.unlink(missing_ok=True)


__all__ = ["local_files", "reading", "write_file"]
