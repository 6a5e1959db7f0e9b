"""The Delta table of segments: a transaction commits once, reopening gives the same segments, any reader opens it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from millpond.support.errors import PondError
from millpond.tables import Segment, SegmentTable
from millpond.tables.delta_log import CHECKPOINT_EVERY

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])


def segment(folder: Path, number: int, rows: int = 3, epoch: int | None = None) -> Segment:
    """A real file with event times 10 * number … and the segment that names it."""
    name = f"e{number:012d}-00000.parquet"
    low = 10 * number
    times = pa.array(range(low, low + rows), pa.int64()).cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table([times, pa.array([number] * rows)], schema=SCHEMA), folder / name)
    first = number if epoch is None else epoch
    return Segment(
        name, rows, os.path.getsize(folder / name), low, low + rows - 1, first, first, number % 3, number % 2
    )


def opened(folder: Path) -> SegmentTable:
    return SegmentTable(str(folder), SCHEMA, "ts")


def test_a_transaction_is_committed_once(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.commit([segment(tmp_path, 1)], (), "epoch", 5)
    version = table.version
    table.commit([segment(tmp_path, 2)], (), "epoch", 5)
    table.commit([segment(tmp_path, 2)], (), "epoch", 4)
    assert (table.version, [s.rows for s in table.segments]) == (version, [3])
    assert table.committed("epoch") == 5 and table.committed("another") == -1
    again = opened(tmp_path)
    again.commit([segment(tmp_path, 2)], (), "epoch", 5)
    assert again.segments == table.segments
    again.commit([segment(tmp_path, 2)], (), "epoch", 6)
    assert len(again.segments) == 2


def test_an_empty_transaction_is_recorded_and_other_empty_commits_are_not(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.commit([])
    table.commit([], ["not there"])
    assert table.version == 0
    table.commit([], (), "epoch", 1)
    assert opened(tmp_path).committed("epoch") == 1


def test_what_is_added_and_removed_at_once_never_shows(tmp_path: Path) -> None:
    table = opened(tmp_path)
    one, two = segment(tmp_path, 1), segment(tmp_path, 2)
    table.commit([one, two], [one.path], "epoch", 1)
    assert table.segments == (two,) == opened(tmp_path).segments
    assert table.garbage() == [one.path]


def test_a_repeated_transaction_still_tells_what_may_be_deleted(tmp_path: Path) -> None:
    opened(tmp_path).commit([segment(tmp_path, 1)], (), "epoch", 1)
    opened(tmp_path).commit([segment(tmp_path, 2)], [segment(tmp_path, 1).path], "epoch", 2)
    after_a_crash = opened(tmp_path)
    after_a_crash.commit([segment(tmp_path, 2)], [segment(tmp_path, 1).path], "epoch", 2)
    assert after_a_crash.garbage() == [segment(tmp_path, 1).path]
    assert after_a_crash.garbage() == []


def test_a_snapshot_does_not_change(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.commit([segment(tmp_path, 1)])
    before = table.segments
    table.commit([segment(tmp_path, 2)], [before[0].path])
    assert [s.path for s in before] == [segment(tmp_path, 1).path]
    assert table.garbage() == [before[0].path]


@pytest.mark.parametrize("commits", [CHECKPOINT_EVERY - 1, CHECKPOINT_EVERY + 3, 2 * CHECKPOINT_EVERY + 7])
def test_reopening_gives_the_same_segments(tmp_path: Path, commits: int) -> None:
    """Behind checkpoints and a cleaned log, too: every field of every segment, and the transaction."""
    table = opened(tmp_path)
    first = segment(tmp_path, 0)
    log = tmp_path / "_delta_log"
    for number in range(commits):
        made = Segment(f"s{number}", 1, first.size, -number, 2**61 + number, number, number + 1, number % 4, -1)
        gone = [f"s{number - 5}"] if number % 2 else []
        if number % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 2:
            for entry in log.iterdir():  # as if the log were hours old
                os.utime(entry, (time.time() - 7300,) * 2)
        table.commit([made], gone, "epoch", number + 1)
    again = opened(tmp_path)
    assert sorted(again.segments, key=lambda s: s.path) == sorted(table.segments, key=lambda s: s.path)
    assert again.committed("epoch") == commits and again.version == table.version
    if commits > CHECKPOINT_EVERY:
        assert any(".checkpoint" in p.name for p in log.iterdir())
        assert len(list(log.glob("*.json"))) < commits
    again.commit([segment(tmp_path, 7)], (), "epoch", commits + 1)
    assert len(opened(tmp_path).segments) == len(table.segments) + 1


def test_any_delta_reader_opens_a_table(tmp_path: Path) -> None:
    table = opened(tmp_path)
    for number in range(1, 6):
        table.commit([segment(tmp_path, number)], (), "epoch", number)
    table.commit([segment(tmp_path, 9)], [s.path for s in table.segments[:2]], moved=True)
    read = DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("ts")
    assert read["v"].to_pylist() == [3] * 3 + [4] * 3 + [5] * 3 + [9] * 3
    since = pa.scalar(45, pa.int64()).cast(pa.timestamp("us", "UTC"))
    dataset = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    assert set(dataset.to_table(filter=pc.field("ts") >= since)["v"].to_pylist()) == {5, 9}
    pruned = [f for f in dataset.get_fragments(filter=pc.field("ts") >= since)]
    assert len(pruned) == 2, "statistics let a reader skip files"


def test_times_beyond_the_calendar_have_no_statistics(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.commit([Segment("far", 1, 10, -(2**62), 2**62, 1, 1)])
    assert opened(tmp_path).segments == table.segments


def test_orphans_are_files_that_no_segment_names(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.commit([segment(tmp_path, 1)])
    segment(tmp_path, 2)
    (tmp_path / "e3.parquet.77.tmp").write_bytes(b"torn")
    assert table.orphans() == [segment(tmp_path, 2).path, "e3.parquet.77.tmp"]


def test_a_table_whose_making_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """Killed between the folder of the log and its first entry."""
    (tmp_path / "_delta_log").mkdir()
    table = opened(tmp_path)
    table.commit([segment(tmp_path, 1)], (), "epoch", 1)
    assert opened(tmp_path).segments == table.segments


def test_a_commit_that_was_cut_off_is_not_there(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.commit([segment(tmp_path, 1)], (), "epoch", 1)
    log = tmp_path / "_delta_log"
    entry = (log / f"{table.version:020d}.json").read_bytes()
    (log / f"_commit_{'0' * 8}.json.tmp").write_bytes(entry[: len(entry) // 2])
    (log / f"{table.version + 1:020d}.json#1").write_bytes(entry[: len(entry) // 2])
    again = opened(tmp_path)
    assert again.segments == table.segments
    again.commit([segment(tmp_path, 2)], (), "epoch", 2)
    assert len(opened(tmp_path).segments) == 2


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 30), max_size=4), st.sets(st.integers(0, 30), max_size=4), st.integers(0, 8)),
        max_size=12,
    )
)
def test_commits_are_a_set_of_segments(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """Any sequence of commits with repeated transactions and reopenings equals the same on a Python set."""
    folder = tmp_path_factory.mktemp("table")
    table, live, last = opened(folder), {}, -1
    used: set[int] = set()
    for number, (add, remove, transaction) in enumerate(steps):
        add = add - used  # a name is used once
        segments = [Segment(f"p{n}", n, n, n, n, n, n) for n in sorted(add)]
        table.commit(segments, [f"p{n}" for n in remove], "epoch", transaction)
        if transaction > last:
            last = transaction
            used |= add
            live = {p: s for p, s in {**live, **{s.path: s for s in segments}}.items() if int(p[1:]) not in remove}
        if number % 3 == 2:
            table = opened(folder)
        assert {s.path: s for s in table.segments} == live and table.committed("epoch") == last
    read = DeltaTable(str(folder))  # delta-rs reads the log in its own way
    assert {os.path.basename(uri) for uri in read.file_uris()} == set(live) and read.version() == table.version
    assert read.transaction_version("epoch") == (None if last < 0 else last)


def test_what_another_process_has_committed_is_not_replaced(tmp_path: Path) -> None:
    table, other = opened(tmp_path), opened(tmp_path)
    other.commit([segment(tmp_path, 1)], (), "epoch", 1)
    with pytest.raises(PondError, match="was changed by another process"):
        table.commit([segment(tmp_path, 2)], (), "epoch", 1)
    with pytest.raises(PondError, match="was changed by another process"):
        table.evolve(SCHEMA.append(pa.field("more", pa.int64())))
    assert opened(tmp_path).segments == other.segments


def test_a_log_with_a_gap_is_damage(tmp_path: Path) -> None:
    table = opened(tmp_path)
    for number in range(1, 4):
        table.commit([segment(tmp_path, number)], (), "epoch", number)
    (tmp_path / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(PondError, match=r"_delta_log is damaged: .* has no version 2"):
        opened(tmp_path)


def test_a_commit_that_is_not_durable_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened(tmp_path)

    def full(folder: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("millpond.tables.delta_log.sync_folder", full)
        with pytest.raises(OSError, match="No space left"):
            table.commit([segment(tmp_path, 1)], (), "epoch", 1)
    assert (table.version, table.segments, table.committed("epoch")) == (0, (), -1)
    table.commit([segment(tmp_path, 1)], (), "epoch", 1)
    assert opened(tmp_path).segments == table.segments == (segment(tmp_path, 1),)
