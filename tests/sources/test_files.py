"""Finding files: completeness, order, growth, changes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.helpers import stream

from millpond.sources.files import FileSource, check_path, format_of
from millpond.sources.intake_log import IntakeLog, Item
from millpond.support.errors import SourceError


class Clock:
    """Time as these tests say that it passes, for files and for who looks at them."""

    def __init__(self) -> None:
        self.now = time.time_ns()

    def __call__(self) -> int:
        return self.now

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += int(seconds * 1e9)

    def stamp(self, path: Path, age: float = 0) -> None:
        """Have a file modified so many seconds ago."""
        then = self.now - int(age * 1e9)
        os.utime(path, ns=(then, then))


CLOCK = Clock()
OLD = CLOCK.now // 10**9 - 3600


def write(path: Path, text: str = "ts\n2020-01-01\n", age: float = 3600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    CLOCK.stamp(path, age)
    return path


def source(folder: Path, path: Path | str, log: IntakeLog | None = None, **options: Any) -> FileSource:
    fields = {k: options.pop(k) for k in ("settle", "stable", "recheck") if k in options}
    log = log or IntakeLog(folder / ".log")
    return FileSource(
        stream("ts TIMESTAMP", path=str(path), **options), log, clock=CLOCK, ticks=lambda: CLOCK.now, **fields
    )


def names(items: list[Item]) -> list[str]:
    return [Path(i.path).name for i in items]


def test_a_folder_in_order_of_names_once(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c10.csv", "c9.csv"):
        write(tmp_path / name)
    files = source(tmp_path, tmp_path)
    items = files.poll(5)
    assert names(items) == ["a.csv", "b.csv", "c10.csv", "c9.csv"]
    assert [i.ordinal for i in items] == [0, 1, 2, 3] and items[0].arrival == 5 and items[0].rows is None
    assert files.poll(6) == []
    assert source(tmp_path, tmp_path).poll(7) == []  # after a restart
    write(tmp_path / "aa.csv")
    assert names(files.poll(8)) == ["aa.csv"]
    assert files.log.length == 5


def test_order_of_modification(tmp_path: Path) -> None:
    for name, age in (("a.csv", 10), ("b.csv", 30), ("d.csv", 20), ("c.csv", 20)):
        write(tmp_path / name, age=age)
    moment = (int(OLD), int(OLD))
    os.utime(tmp_path / "c.csv", moment)
    os.utime(tmp_path / "d.csv", moment)
    assert names(source(tmp_path, tmp_path, order="mtime").poll(1)) == ["c.csv", "d.csv", "b.csv", "a.csv"]


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    for name in (".a.csv", "_b.csv", "c.csv.tmp", "d.part", "e.csv.partial", "f.CRDOWNLOAD", "readme.md", "g.csv"):
        write(tmp_path / name)
    write(tmp_path / "folder.csv" / "x.csv")
    files = source(tmp_path, tmp_path)
    assert names(files.poll(1)) == ["g.csv"] and files.unrecognised == 1


def test_the_declared_format_wins(tmp_path: Path) -> None:
    write(tmp_path / "a.log")
    write(tmp_path / "b.csv")
    items = source(tmp_path, tmp_path, format="ndjson").poll(1)
    assert [(Path(i.path).name, i.format) for i in items] == [("a.log", "ndjson"), ("b.csv", "ndjson")]
    assert format_of("/x/a.jsonl.zst") == "ndjson" and format_of("x") is None and format_of(".gz") is None


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", ["a.csv"]),
        ("**/*.csv", ["a.csv", "x/b.csv", "x/y/c.csv", "z/d.csv"]),
        ("**", ["a.csv", "x/b.csv", "x/y/c.csv", "x/y/n.ndjson", "z/d.csv"]),
        ("*/*.csv", ["x/b.csv", "z/d.csv"]),
        ("x/**/c*", ["x/y/c.csv"]),
        ("[xz]/?.csv", ["x/b.csv", "z/d.csv"]),
        ("x", ["x/b.csv"]),
        ("a.csv", ["a.csv"]),
        (".h/*", [".h/e.csv"]),
    ],
)
def test_globs(tmp_path: Path, pattern: str, found: list[str]) -> None:
    for name in ("a.csv", "x/b.csv", "x/y/c.csv", "x/y/n.ndjson", "z/d.csv", ".h/e.csv", "x/_t/f.csv"):
        write(tmp_path / name)
    (tmp_path / "x" / "up").symlink_to(tmp_path)  # leads back up
    log = IntakeLog(tmp_path / ".log")
    items = source(tmp_path, tmp_path / pattern, log).poll(1)
    paths = [os.path.relpath(i.path, tmp_path) for i in items]
    assert [p for p in paths if not p.startswith("x/up/")] == found
    if pattern != "*/*.csv":
        assert paths == found


def test_a_name_with_magic_letters_is_a_name(tmp_path: Path) -> None:
    write(tmp_path / "a[1].csv")
    assert names(source(tmp_path, tmp_path / "a[1].csv").poll(1)) == ["a[1].csv"]


def test_a_path_may_not_exist_yet(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path / "later" / "*.csv")
    assert files.poll(1) == []
    write(tmp_path / "later" / "a.csv")
    assert names(files.poll(2)) == ["a.csv"]
    single = source(tmp_path, tmp_path / "one.csv", IntakeLog(tmp_path / ".log2"))
    assert single.poll(1) == []
    write(tmp_path / "one.csv")
    assert names(single.poll(2)) == ["one.csv"]


def test_check_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_path("*.csv") == str(tmp_path / "*.csv")
    assert check_path("new") == str(tmp_path / "new")
    with pytest.raises(SourceError, match=r"no folder .*no/such"):
        check_path("no/such/*.csv")
    with pytest.raises(SourceError, match=f"there is {tmp_path}"):
        check_path("no/such/file.csv")
    with pytest.raises(SourceError, match="empty"):
        check_path("")


def test_a_file_being_written_is_not_taken(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path, settle=400_000)
    path = write(tmp_path / "a.csv", "ts\n2020-01-01\n2020", age=0)
    assert files.poll(1) == [] and files.pending == 1
    for text in ("ts\n2020-01-01\n2020-01", "ts\n2020-01-01\n2020-01-02\n2"):
        CLOCK.wait(0.3)
        write(path, text, age=0)
        assert files.poll(1) == []
    CLOCK.wait(0.45)  # no line end, but nobody writes any more
    assert names(files.poll(2)) == ["a.csv"] and files.pending == 0


def test_a_file_that_looks_whole_is_taken_soon(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path, settle=3_600_000_000)
    write(tmp_path / "a.csv", age=0)
    pq.write_table(pa.table({"ts": pa.array([1, 2], pa.timestamp("us"))}), tmp_path / "b.parquet")
    CLOCK.stamp(tmp_path / "b.parquet")
    write(tmp_path / "c.csv.gz", age=0)
    write(tmp_path / "d.parquet", "PAR1 and then", age=0)
    assert files.poll(1) == []
    CLOCK.wait(0.04)
    assert files.poll(2) == []
    CLOCK.wait(0.02)
    assert names(files.poll(3)) == ["a.csv", "b.parquet"] and files.pending == 2
    assert files.log.items()[1].rows == 2


def test_clocks_that_disagree_do_not_hold_a_file_up(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path, settle=100_000)
    write(tmp_path / "a.csv", "no line end", age=-3600)
    assert files.poll(1) == []
    CLOCK.wait(0.09)
    assert files.poll(1) == []
    CLOCK.wait(0.02)
    assert names(files.poll(2)) == ["a.csv"]


def test_drain_takes_all_that_is_there(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path)
    write(tmp_path / "a.csv", "ts", age=0)
    write(tmp_path / "b.csv", "", age=0)
    assert names(files.poll(1, settle=False)) == ["a.csv", "b.csv"]


def test_a_changed_file_is_told_and_not_taken_again(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path, recheck=0)
    path = write(tmp_path / "a.csv")
    write(tmp_path / "b.csv")
    assert len(files.poll(1)) == 2
    os.utime(path)  # only touched
    assert files.poll(2) == [] and files.changed == []
    CLOCK.wait(1)
    write(path, "ts\n2020-01-02\n")
    assert files.poll(3) == [] and files.changed == [str(path)]
    write(path, "ts\n2020-01-01\n2020-01-02\n")
    assert source(tmp_path, tmp_path).poll(4) == []
    assert files.poll(4, settle=False) == [] and files.changed == [str(path)]


def test_a_renamed_copy_is_a_new_file(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path)
    path = write(tmp_path / "a.csv")
    files.poll(1)
    path.rename(tmp_path / "b.csv")
    items = files.poll(2)
    assert names(items) == ["b.csv"] and items[0].head == files.log.items()[0].head


def test_a_growing_folder_gives_every_file_once(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path, stable=0)
    folder = tmp_path
    for n in range(60):
        temporary = folder / f".{n}.tmp"
        temporary.write_text(f"ts\n{n}\n")
        temporary.rename(folder / f"f{n:03}.csv")
        if n % 7 == 0:
            files.poll(n)
    files.poll(98)
    CLOCK.wait(1)
    files.poll(99)
    assert sorted(names(files.log.items())) == [f"f{n:03}.csv" for n in range(60)]


def test_a_name_that_comes_late_is_later_in_the_log(tmp_path: Path) -> None:
    files = source(tmp_path, tmp_path)
    write(tmp_path / "b.csv")
    files.poll(1)
    write(tmp_path / "a.csv")
    files.poll(2)
    assert names(files.log.items()) == ["b.csv", "a.csv"]


def test_10_000_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(10_000):
        descriptor = os.open(folder / f"{n}.csv", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"ts\n")
        os.close(descriptor)
    files = source(tmp_path, folder)
    assert len(files.poll(1, settle=False)) == 10_000
    assert files.poll(2, settle=False) == []
    CLOCK.wait(3600)
    files.poll(3)
    looks: list[str] = []
    monkeypatch.setattr("millpond.sources.files.list_path", lambda path: looks.append(path))
    for _ in range(100):
        files.poll(4)
    assert looks == []  # a folder that did not change is not listed again


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(SourceError, match="cannot be read"):
        source(tmp_path, tmp_path / "closed").poll(1)


def test_a_stream_without_a_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no path"):
        FileSource(stream("ts TIMESTAMP"), IntakeLog(tmp_path))
