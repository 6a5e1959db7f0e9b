"""Columnar files of a pond: one changed bit anywhere is told, or changes nothing; nothing raises what readers raise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond.archive.archive_files import write_rows
from millpond.support.errors import LostFile, PondError
from millpond.tables import Chunk, read_chunks, write_chunks
from millpond.tables.stored_files import read_arrow, read_parquet, write_arrow

ROWS = pa.table({"ts": pa.array([1, 2, 4], pa.timestamp("us")), "k": ["a", None, "b"], "v": [1.5, None, 3.0]})


def of_rows(folder: Path) -> tuple[Path, Callable[[str], Any]]:
    segment = write_rows(str(folder), "rows.parquet", ROWS, "ts", (1, 1))
    assert segment.size == (folder / segment.path).stat().st_size
    return folder / segment.path, read_parquet


def of_chunks(folder: Path) -> tuple[Path, Callable[[str], Any]]:
    segment = write_chunks(str(folder), "chunks.parquet", [Chunk("a", "p", 1, 0, 9, ROWS)], 0)
    assert segment.size == (folder / segment.path).stat().st_size
    return folder / segment.path, lambda path: list(read_chunks([path]))


def of_arrow(folder: Path) -> tuple[Path, Callable[[str], Any]]:
    path = folder / "rows.arrow"
    with pa.OSFile(str(path), "wb") as file:
        write_arrow(file, ROWS)
    return path, read_arrow


KINDS = {"rows": of_rows, "chunks": of_chunks, "arrow": of_arrow}


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_bit_is_told_or_changes_nothing(tmp_path: Path, kind: str) -> None:
    path, read = KINDS[kind](tmp_path)
    data, expected = path.read_bytes(), read(str(path))
    for at in range(len(data)):
        other = tmp_path / f"{at}"
        other.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        try:
            found = read(str(other))
        except PondError as error:
            assert str(other) in str(error) and "is damaged" in str(error)
        else:
            assert found == expected, at
        other.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_other_content_and_no_file(tmp_path: Path, kind: str) -> None:
    path, read = KINDS[kind](tmp_path)
    data = path.read_bytes()
    for other in (b"", b"x", data[: len(data) // 2], data[:-1], data + b"garbage!", b"garbage!" * 8):
        path.write_bytes(other)
        with pytest.raises(PondError, match="is damaged"):
            read(str(path))
    path.unlink()
    with pytest.raises(LostFile, match="is missing, and the pond needs it") as caught:
        read(str(path))
    assert isinstance(caught.value, FileNotFoundError)


def test_every_reader_of_parquet_reads_them(tmp_path: Path) -> None:
    path, _ = of_rows(tmp_path)
    assert pq.read_table(path)["v"].to_pylist() == ROWS["v"].to_pylist()
    assert duckdb.sql(f"SELECT v FROM '{path}'").fetchall() == [(v,) for v in ROWS["v"].to_pylist()]
