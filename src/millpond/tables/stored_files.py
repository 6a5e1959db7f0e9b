"""The columnar files of a pond, as everybody reads them: what is wrong with one is told with its path.

Their content is checked where it is read (`support.checksums`); the pages of Parquet files have checksums that every
reader knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.support.checksums import (
    FOOTER_SEAL,
    PARQUET_END,
    NotAsWritten,
    check_arrow,
    check_footer,
    sealed_arrow,
    sealed_footer,
)
from millpond.support.damaged_files import lost, reading
from millpond.tables.durable_files import temporary_name
from millpond.tables.locations import is_remote, open_input


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file of the pond, as long as it is read; its checksums are looked at.

    Raises: PondError for whatever happens while it is open and comes of its content; LostFile.
    """
    with reading(path):
        try:
            source = open_input(path)
        except FileNotFoundError as error:
            raise lost(path) from error
        with source:
            if not is_remote(path):  # an object store has checksums of its own, and looks at them
                _check_footer(source)
            with pq.ParquetFile(source, pre_buffer=is_remote(path), page_checksum_verification=True) as file:
                yield file


def _check_footer(file: pa.NativeFile) -> None:
    size = file.size()
    if size < PARQUET_END.size:
        raise NotAsWritten("it does not end as a Parquet file does")
    length = PARQUET_END.unpack(file.read_at(PARQUET_END.size, size - PARQUET_END.size))[0] + PARQUET_END.size
    if length + FOOTER_SEAL.size <= size:
        check_footer(file.read_at(length + FOOTER_SEAL.size, size - length - FOOTER_SEAL.size))


def seal_parquet(file: pa.NativeFile, path: str) -> None:
    """Put a checksum in front of the footer of a Parquet file that was written just now.

    Args:
        file: it is at its end. path: what the file will be called once it is in place.
    """
    if is_remote(path):
        return
    file.flush()
    size = file.tell()
    with open(temporary_name(path), "rb") as written:
        written.seek(size - PARQUET_END.size)
        length = PARQUET_END.unpack(written.read())[0] + PARQUET_END.size
        written.seek(size - length)
        footer = sealed_footer(written.read())
    os.pwrite(file.fileno(), footer[:length], size - length)
    file.write(footer[length:])


def read_parquet(path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a Parquet file of the pond. Raises: as `open_parquet`."""
    with open_parquet(path) as file:
        return file.read(columns=columns, use_threads=False)


def write_arrow(file: pa.NativeFile, rows: pa.Table) -> None:
    """Put rows into a file that `read_arrow` reads, and every other reader of Arrow files."""
    for part in arrow_parts(rows):
        file.write(part)


def arrow_parts(rows: pa.Table) -> tuple[pa.Buffer | bytes, ...]:
    """The parts of an Arrow file with some rows, to be written one behind the other."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sealed_arrow(sink.getvalue())


def read_arrow(path: str) -> pa.Table:
    """The rows of an Arrow file of the pond, which is mapped. Raises: PondError when it is damaged; LostFile."""
    with reading(path):
        try:
            source = pa.memory_map(path)
        except FileNotFoundError as error:
            raise lost(path) from error
        with source:
            check_arrow(source.read_buffer())
            source.seek(0)
            return pa.ipc.open_file(source).read_all()
