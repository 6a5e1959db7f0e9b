"""The designs on disk: the digest's acceptance tests of what a scan reads, with what it read counted at the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millpond
from millpond.archive import archive_files as segments
from millpond.archive.copy_files import file_path
from millpond.types.archive_design import parse_design
from tests.archive.ponds import opened, scan, take, values

N = 40_000


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of 500 rows, so that there are enough blocks to count."""
    monkeypatch.setattr(segments, "GROUP_ROWS", 500)


def test_a1_a_copy_is_thinned_to_the_rate_that_is_wanted(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "replicate(0.25, 0.5, 0.75)") as pond:
        take(pond, 0, N)
        table, counters, planned = scan(pond, 0.4)
        [piece] = planned.pieces
        assert (piece.copy, piece.kept, piece.thin) == ("sample-0.25", 0.6, True)
        assert abs(table.num_rows - 0.6 * N) <= 3 * np.sqrt(N * 0.6 * 0.4)
        assert abs(counters.read - 0.75 * N) <= 3 * np.sqrt(N * 0.75 * 0.25)
        # Blocks: a file of n rows has ceil(n / 500) of them.
        assert (counters.groups, counters.full_groups) == (-(-counters.read // 500), N // 500)
        assert abs(counters.groups / counters.full_groups - 0.75) < 0.02
        assert set(table["_weight"].to_pylist()) == {1 / 0.6}
        assert set(table["a"].to_pylist()) <= set(values(pond, 0.25))


def test_a1_without_need_of_the_rate_the_whole_copy_is_taken(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "replicate(0.25, 0.5, 0.75)") as pond:
        take(pond, 0, N)
        table, counters, _ = scan(pond, 0.4, exact=False)
        assert table.num_rows == counters.read and set(table["_weight"].to_pylist()) == {1 / 0.75}


def test_a2_a_run_of_four_blocks_is_read_by_blocks(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "randomize(4)") as pond:
        for part in range(3):
            take(pond, part * N, N, np.random.default_rng(part))
        for reduction, blocks in ((0.75, 1), (0.5, 2), (0.25, 3), (0.0, 4), (0.74, 2), (0.99, 1)):
            table, counters, planned = scan(pond, reduction)
            assert counters.groups == 3 * blocks, reduction
            assert counters.full_groups == 12
            assert {p.groups for p in planned.pieces} == {blocks if blocks < 4 else None}
            assert abs(table.num_rows - (1 - reduction) * 3 * N) <= 4 * np.sqrt(3 * N * (1 - reduction) * reduction)
            whole = table.select(["ts", "_id"])
            for at, piece in enumerate(planned.pieces):  # each run in the stream's total order
                run = whole.filter(pa.compute.equal(pa.compute.shift_right(whole["_id"], 32), at))
                assert run.equals(run.sort_by([("ts", "ascending"), ("_id", "ascending")]))
                assert piece.segment.blocks == 4


def test_a3_every_row_of_a_run_is_read_as_often(tmp_path: Path) -> None:
    rows, seeds = 8192, 200
    counts = np.zeros(rows)
    with opened(tmp_path / "p", "randomize(2)") as pond:
        take(pond, 0, rows)
        table = scan(pond)[0]
        from millpond.archive import keep

        for seed in range(seeds):
            counts += keep(table["_id"].to_numpy(), seed, 0.75)
    expected = seeds * 0.25
    chi = float(((counts - expected) ** 2 / (seeds * 0.25 * 0.75)).sum())
    assert abs(chi - rows) < 4 * np.sqrt(2 * rows)
    assert set(counts.astype(int).tolist()) <= set(range(20, 85))


def test_a5_a_copy_is_made_from_what_scans_wanted(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "modify") as pond:
        take(pond, 0, N, np.random.default_rng(1))
        half, first, planned = scan(pond, 0.5)
        assert planned.pieces[0].copy == "" and first.groups == first.full_groups  # nothing to spare yet
        _, second, _ = scan(pond, 0.5)
        assert second.groups == second.full_groups
        pond.maintain()
        [copy] = pond._core.streams[1].copies.values()
        [segment] = copy.segments
        stored = pq.read_table(file_path(pond.path, pond._core.catalog.stream("s"), "modify-sample", segment))
        assert segment.kept == 0.5 and abs(segment.rows - N / 2) < 3 * np.sqrt(N / 4)
        assert stored["ts"].to_pylist() == sorted(stored["ts"].to_pylist())
        assert sorted(stored["a"].to_pylist()) == sorted(half["a"].to_pylist())
        quarter, counters, planned = scan(pond, 0.75)
        assert planned.pieces[0].copy == "modify-sample" and counters.sections == {"modify-sample": 1}
        assert abs(counters.groups / counters.full_groups - 0.5) < 0.05
        assert set(quarter["a"].to_pylist()) < set(half["a"].to_pylist())
        assert abs(quarter.num_rows / half.num_rows - 0.5) < 0.02
        _, counters, planned = scan(pond, 0.25)
        assert planned.pieces[0].copy == "" and counters.groups == counters.full_groups
        # The copy is compacted in place: what was wanted last is a quarter.
        pond.maintain()
        [segment] = copy.segments
        assert segment.kept == 0.25 and segment.rows == quarter.num_rows
        assert scan(pond, 0.75)[1].read == quarter.num_rows
        # New rows enter the copy as they come.
        take(pond, N, 1000)
        assert sorted(s.kept for s in copy.segments) == [0.25, 0.25]
        assert {p.copy for p in scan(pond, 0.75)[2].pieces} == {"modify-sample"}


def test_a5_a_copy_that_is_too_coarse_for_most_scans_is_dropped(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "modify") as pond:
        take(pond, 0, N)
        scan(pond, 0.9)
        pond.maintain()
        assert len(pond._core.streams[1].copies["modify-sample"].segments) == 1
        for _ in range(4):
            assert scan(pond, 0.5)[2].pieces[0].copy == ""
        pond.maintain()
        assert pond._core.streams[1].copies == {}
        assert not list((tmp_path / "p" / "copies").glob("*/modify*"))
        scan(pond, 0.5)
        pond.maintain()
        assert scan(pond, 0.5)[2].pieces[0].copy == "modify-sample"
        expected = values(pond, 0.5)
    with opened(tmp_path / "p", "modify") as pond:  # it goes on after a restart
        assert scan(pond, 0.5)[2].pieces[0].copy == "modify-sample"
        assert values(pond, 0.5) == expected
        take(pond, N, 1000)
        assert {p.copy for p in scan(pond, 0.5)[2].pieces} == {"modify-sample"}


def test_a7_levels_come_and_go_on_a_live_stream(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "replicate(0.5)") as pond:
        take(pond, 0, N)
        take(pond, N, N)
        expected = {d: values(pond, d) for d in (0.0, 0.25, 0.5, 0.75, 0.99)}
        pond.sql("ALTER STREAM s SET (archive = 'replicate(0.5, 0.75)')")
        assert {p.copy for p in scan(pond, 0.75)[2].pieces} == {"sample-0.5"}  # not filled yet, finer serves
        assert {d: values(pond, d) for d in expected} == expected
        pond.maintain()
        assert {p.copy for p in scan(pond, 0.75)[2].pieces} == {"sample-0.75"}
        assert {d: values(pond, d) for d in expected} == expected
        pond.sql("ALTER STREAM s SET (archive = 'replicate(0.75)')")
        pond.maintain()
        assert {p.copy for p in scan(pond, 0.5)[2].pieces} == {""}
        assert {d: values(pond, d) for d in expected} == expected
        pond.sql("ALTER STREAM s SET (archive = 'randomize(4)')")
        assert {d: values(pond, d) for d in expected} == expected
        for _ in range(3):
            pond.maintain()
        assert all(s.blocks == 4 for s in pond._core.streams[1].archive.segments)
        assert {d: values(pond, d) for d in expected} == expected
        pond.sql("ALTER STREAM s SET (archive = 'plain')")
        pond.maintain()
        assert all(s.blocks == 0 for s in pond._core.streams[1].archive.segments)
        assert {d: values(pond, d) for d in expected} == expected
        assert pond.sql("SELECT count(*), sum(a) FROM s").rows() == [(2 * N, N * (2 * N - 1))]


@pytest.mark.parametrize(
    "levels",
    ["0.123456789, 0.5", "0.1234567, 0.12345678", "0.999999999", "0.0000001, 0.9", "1e-9, 2e-9", "0.999999999999"],
)
def test_a_level_has_all_the_digits_that_it_was_given(tmp_path: Path, levels: str) -> None:
    """A stream's design is read again from its text, and each level is a copy, however close two of them are."""
    written = [float(each) for each in levels.split(",")]
    with opened(tmp_path / "p") as pond:
        take(pond, 0, 2000)
        expected = {d: values(pond, d) for d in (0.0, *written, 0.5)}
        pond.sql(f"ALTER STREAM s SET (archive = 'replicate({levels})')")
        pond.maintain()
        take(pond, 2000, 3)
    with opened(tmp_path / "p") as pond:
        assert [
            level.reduction for level in parse_design(pond._core.catalog.stream("s").options.archive).levels
        ] == written
        assert len(pond._core.streams[1].copies) == len(written)
        assert {d: [a for a in values(pond, d) if a < 2000] for d in expected} == expected
        for number, drop in enumerate(written):
            (piece, *_) = scan(pond, drop)[2].pieces
            assert (piece.copy, piece.thin) == (f"sample-{drop!r}", False), number


@pytest.mark.parametrize(
    ("design", "shown"),
    [
        ("replicate(0.5 keep 9d, 0.75) keep 2d", "replicate(0.5, 0.75)"),
        ("replicate(0.5 keep 9d)", "replicate(0.5)"),
        (
            "plain keep 3d + summary(SELECT count(*) AS n FROM s [RANGE 1 HOUR TUMBLING]) keep 9d",
            "plain + summary(SELECT count(*) AS n FROM s [RANGE 1 HOUR TUMBLING]) keep 9d",
        ),
        ("modify keep 1 GB", "modify"),
    ],
)
def test_show_archive_says_how_rows_lie(tmp_path: Path, design: str, shown: str) -> None:
    with opened(tmp_path / "p", design) as pond:
        assert pond.sql("SHOW ARCHIVE s").table.to_pylist()[0]["design"] == shown


@pytest.mark.parametrize("keep", ["1.2.3 GB", ". GB", "9" * 400 + " GB", "10000000000 GB", "0 GB", "1.2.3 d"])
def test_sizes_that_are_none_say_so(tmp_path: Path, keep: str) -> None:
    with opened(tmp_path / "p") as pond, pytest.raises(millpond.StatementError, match="line 1, column") as caught:
        pond.sql(f"ALTER STREAM s SET (archive = 'plain keep {keep}')")
    assert "convert" not in str(caught.value)


def test_a_summary_is_of_every_row(tmp_path: Path) -> None:
    summary = "plain + summary(SELECT count(*) AS n FROM s REDUCE sample(0.5) [RANGE 1 HOUR TUMBLING])"
    with opened(tmp_path / "p") as pond, pytest.raises(millpond.StatementError, match="every row"):
        pond.sql(f"ALTER STREAM s SET (archive = '{summary}')")


def test_of_versions_that_are_fine_enough_the_smallest_is_read(tmp_path: Path) -> None:
    """Rows that follow each other take fewer bytes than half of them do, which have gaps."""
    with opened(tmp_path / "p", "replicate(0.5)") as pond:
        take(pond, 0, 5000, payload=False)
        take(pond, 5000, 5000)
        copies = {c.low: c.size for c in pond._core.streams[1].copies["sample-0.5"].segments}
        smaller = [s.size < copies[s.low] for s in sorted(pond._core.streams[1].archive.segments, key=lambda s: s.low)]
        table, counters, planned = scan(pond, 0.5)
        assert smaller == [True, False]
        assert [(p.copy, p.kept, p.thin) for p in planned.pieces] == [("", 0.5, True), ("sample-0.5", 0.5, False)]
        assert counters.bytes < counters.full_bytes and counters.read == 5000 + (table["a"].to_numpy() >= 5000).sum()


@pytest.mark.parametrize("design", ["replicate(0.9)", "modify"])
@pytest.mark.parametrize("before", ["plain", "replicate(0.5)", ""])
def test_sections_of_which_a_copy_has_no_row_are_made_once(tmp_path: Path, design: str, before: str) -> None:
    """One row per epoch: a copy has most of these sections without a row, and upkeep comes to an end all the same."""
    with opened(tmp_path / "p", before or design) as pond:
        for number in range(6):
            take(pond, number, 1)
        pond.sql(f"ALTER STREAM s SET (archive = '{design}')")
        expected = values(pond, 0.9)
        for _ in range(2):
            pond.maintain()
        assert len(expected) < 6
        shown = pond.sql("SHOW ARCHIVE s").table.to_pylist()
        assert {row["state"] for row in shown} == {"ready"}
        assert len({row["files"] for row in shown}) == 1 and len(shown) == 2
        made = {t.version for t in pond._core.streams[1].copies.values()}
        pond.maintain()
        assert {t.version for t in pond._core.streams[1].copies.values()} == made
        assert {p.copy for p in scan(pond, 0.9)[2].pieces} != {""}
        assert values(pond, 0.9) == expected
