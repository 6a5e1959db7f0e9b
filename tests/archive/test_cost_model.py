"""The cost model of the digest's section 2 as an exact oracle: row groups and bytes that each design writes and reads.

The oracle counts at the files alone: it opens the Delta tables with deltalake, reads the footers, and evaluates the
hash of each row in DuckDB. Nothing of the planner is used in it.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from millpond.archive import archive_files as segments
from millpond.archive import fractions
from millpond.archive.design import layout
from tests.archive.ponds import opened, scan, take

REDUCTIONS = (0.0, 0.25, 0.5, 0.75, 0.99)
GROUP = 500
EPOCHS, ROWS = 4, 20_000


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of 500 rows and blocks of at least 200, so that there are enough to count."""
    monkeypatch.setattr(segments, "GROUP_ROWS", GROUP)
    monkeypatch.setattr(layout, "BLOCK_ROWS", 200)


def filled(path: Path, design: str) -> Any:
    """A pond with `EPOCHS` files of `ROWS` rows."""
    pond = opened(path, design)
    for epoch in range(EPOCHS):
        take(pond, epoch * ROWS, ROWS, np.random.default_rng(epoch))
    return pond


def footers(folder: Path) -> dict[str, pq.FileMetaData]:
    """The footer of every live file of a Delta table, by name."""
    return {os.path.basename(f): pq.read_metadata(folder / os.path.basename(f)) for f in DeltaTable(folder).file_uris()}


def groups(table: dict[str, pq.FileMetaData]) -> int:
    """Row groups of all files."""
    return sum(m.num_row_groups for m in table.values())


def size(table: dict[str, pq.FileMetaData], first: dict[str, int] | None = None) -> int:
    """Bytes of all column chunks; `first`: of so many row groups of each file."""
    return sum(
        m.row_group(g).column(c).total_compressed_size
        for name, m in table.items()
        for g in range(m.num_row_groups if first is None else first[name])
        for c in range(m.num_columns)
    )


def numbers(folder: Path, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """u of every row, by file, as DuckDB works it out."""
    found = {}
    for file in DeltaTable(folder).file_uris():
        name = os.path.basename(file)
        rows = pq.read_table(folder / name, columns=["_id"], partitioning=None)  # noqa: F841 - DuckDB reads it
        found[name] = duckdb.sql(f"SELECT {row_hash_sql('_id', seed)} AS u FROM rows").fetchnumpy()["u"]
    return found


def row_hash_sql(column: str, seed: int) -> str:
    """u as DuckDB SQL over a BIGINT column with row ids: the finaliser of SplitMix64 once more, from the paper."""
    whole, gamma, mixing = (1 << 64) - 1, 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
    mask = f"{whole}::UHUGEINT"
    offset = (((seed + 1) * gamma) & whole) + (1 << 64)  # stays above zero for negative ids
    inner = f"((({column})::HUGEINT + {offset}::HUGEINT)::UHUGEINT & {mask})"
    for name, shift, factor in (("x", 30, mixing[0]), ("y", 27, mixing[1])):
        mixed = f"(xor({name}, {name} >> {shift}) * {factor}::UHUGEINT) & {mask}"
        inner = f"list_transform([{inner}], lambda {name}: {mixed})[1]"
    return f"(list_transform([{inner}], lambda z: xor(z, z >> 31) >> 11)[1]::DOUBLE / {1 << 53})"


def test_numbers_of_rows_are_what_duckdb_works_out() -> None:
    ids = np.array([0, 1, -5, 2**62, -(2**63)])
    rows = pa.table({"i": ids})  # noqa: F841 - DuckDB reads it
    for seed in (0, 7, 2**40):
        found = duckdb.sql(f"SELECT {row_hash_sql('i', seed)} AS u FROM rows").fetchnumpy()["u"]
        assert found.tolist() == fractions(ids, seed).tolist()


def archive(pond: Any) -> Path:
    """The folder of the archive's table."""
    return Path(pond.path) / "streams" / "s-1"


def copy(pond: Any, name: str) -> Path:
    """The folder of a copy's table."""
    return Path(pond.path) / "copies" / "s-1" / name


def check_rows(found: pa.Table, u: dict[str, np.ndarray[Any, Any]], kept: float) -> None:
    """A scan gives just the rows with u < kept."""
    assert found.num_rows == sum(int((each < kept).sum()) for each in u.values())
    assert set(found["_weight"].to_pylist()) == {1 / kept}


def test_the_strawman_reads_everything(tmp_path: Path) -> None:
    with filled(tmp_path / "p", "plain") as pond:
        table, u = footers(archive(pond)), numbers(archive(pond), 1)
        assert groups(table) == EPOCHS * ROWS // GROUP  # writes B
        for reduction in REDUCTIONS:
            rows, counters, planned = scan(pond, reduction)
            assert (counters.groups, counters.bytes) == (groups(table), size(table))
            assert planned.size == sum(os.path.getsize(archive(pond) / n) for n in table)
            check_rows(rows, u, round(1 - reduction, 12))


def test_on_write_replicate_reads_the_copy_that_is_closest_and_finer(tmp_path: Path) -> None:
    with filled(tmp_path / "p", "replicate(0.2, 0.4, 0.6, 0.8)") as pond:
        table, u = footers(archive(pond)), numbers(archive(pond), 1)
        copies = {level: footers(copy(pond, f"sample-{level}")) for level in (0.2, 0.4, 0.6, 0.8)}
        for level, files in copies.items():  # writes: the sum over copies of B_j, each of the rows that it keeps
            kept = [int((each < round(1 - level, 12)).sum()) for each in u.values()]
            assert sorted(m.num_rows for m in files.values()) == sorted(kept)
            assert groups(files) == sum(math.ceil(n / GROUP) for n in kept)
        written = groups(table) + sum(map(groups, copies.values()))
        assert abs(written / groups(table) - 3) < 0.05  # the digest's 3B
        closest = {0.0: table, 0.25: copies[0.2], 0.5: copies[0.4], 0.75: copies[0.6], 0.99: copies[0.8]}
        for reduction in REDUCTIONS:
            rows, counters, _ = scan(pond, reduction)
            read = closest[reduction]
            assert (counters.groups, counters.bytes) == (groups(read), size(read))
            assert (counters.full_groups, counters.full_bytes) == (groups(table), size(table))
            check_rows(rows, u, round(1 - reduction, 12))
        assert abs(scan(pond, 0.5)[1].groups / groups(table) - 0.6) < 0.02  # worked example: .6 B


def test_on_read_modify_pays_once_and_then_reads_what_is_alive(tmp_path: Path) -> None:
    for reduction in REDUCTIONS:
        with filled(tmp_path / f"p{reduction}", "modify") as pond:
            table, u = footers(archive(pond)), numbers(archive(pond), 1)
            assert groups(table) == EPOCHS * ROWS // GROUP  # no copy: writes B
            for _ in ("1st: no mark is written back", "2nd"):
                rows, counters, _ = scan(pond, reduction)
                assert (counters.groups, counters.bytes) == (groups(table), size(table))
                check_rows(rows, u, round(1 - reduction, 12))
            assert footers(archive(pond)).keys() == table.keys()
            pond.maintain()
            rows, counters, _ = scan(pond, reduction)
            check_rows(rows, u, round(1 - reduction, 12))
            if reduction == 0:
                assert counters.groups == groups(table)
                continue
            alive = footers(copy(pond, "modify-sample"))
            assert (counters.groups, counters.bytes) == (groups(alive), size(alive))
            kept = [int((each < round(1 - reduction, 12)).sum()) for each in u.values()]
            assert groups(alive) == sum(math.ceil(n / GROUP) for n in kept)


def test_randomize_then_sort_reads_blocks_of_each_run(tmp_path: Path) -> None:
    run = 50
    with filled(tmp_path / "p", f"randomize({run})") as pond:
        table, u = footers(archive(pond)), numbers(archive(pond), 1)
        assert groups(table) == EPOCHS * run  # writes B, a run of blocks at a time
        for name, metadata in table.items():
            block = [metadata.row_group(g).num_rows for g in range(run)]
            assert block == np.bincount((u[name] * run).astype(int), minlength=run).tolist()
        for reduction in REDUCTIONS:
            kept = round(1 - reduction, 12)
            first = dict.fromkeys(table, math.ceil(kept * run - 1e-9))
            rows, counters, _ = scan(pond, reduction)
            assert counters.groups == sum(first.values())  # the sum over runs of R f'(j)
            assert counters.bytes == size(table, first)
            assert (counters.full_groups, counters.full_bytes) == (groups(table), size(table))
            check_rows(rows, u, kept)
        assert scan(pond, 0.5)[1].groups == groups(table) // 2  # worked example: .5 B


def test_all_designs_give_the_same_rows(tmp_path: Path) -> None:
    found: dict[str, dict[float, list[int]]] = {}
    for design in ("plain", "replicate(0.2, 0.4, 0.6, 0.8)", "modify", "randomize(50)"):
        with filled(tmp_path / design[:4], design) as pond:
            found[design] = {r: sorted(scan(pond, r)[0]["a"].to_pylist()) for r in REDUCTIONS}
            pond.maintain()
            assert found[design] == {r: sorted(scan(pond, r)[0]["a"].to_pylist()) for r in REDUCTIONS}
    assert all(each == found["plain"] for each in found.values())
