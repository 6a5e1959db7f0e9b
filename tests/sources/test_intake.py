"""The intake log: order, durability, torn tails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sources.helpers import stream

from millpond.sources.base import Source, split
from millpond.sources.files import FileSource
from millpond.sources.intake_log import FILE_NAME, IntakeLog, Item
from millpond.support.errors import PondError
from millpond.types import from_json, to_json


def thing(n: int, **fields: object) -> Item:
    values: dict[str, Any] = {
        "ordinal": 0, "kind": "file", "path": f"/d/ü{n}\n.csv", "format": "csv", "size": n, "mtime_ns": n, "head": "h",
        "rows": None, "partition": "", "arrival": n,
    } | fields  # fmt: skip
    return Item(**values)


def test_ordinals_follow_the_order_of_appending_and_survive(tmp_path: Path) -> None:
    log = IntakeLog(tmp_path / "a" / "b")
    assert [i.ordinal for i in log.append([thing(0), thing(1)])] == [0, 1]
    assert [i.ordinal for i in log.append([thing(2, key="k", rows=5, partition="p")])] == [2]
    assert log.append([]) == []
    again = IntakeLog(tmp_path / "a" / "b")
    assert again.items() == log.items() and again.length == len(again) == 3
    assert [i.ordinal for i in again.items(1, 2)] == [1]
    assert again.items()[2].key == "k"
    assert [i.ordinal for i in again.append([thing(3)])] == [3]


def test_items_that_are_taken_together_survive_together(tmp_path: Path) -> None:
    log = IntakeLog(tmp_path)
    log.append([thing(0), thing(1, more=True), thing(2)])
    whole = log.path.read_bytes()
    log.append([thing(3, more=True), thing(4, more=True), thing(5)])
    lines = log.path.read_bytes()[len(whole) :].splitlines(keepends=True)
    for torn in (lines[0], lines[0] + lines[1], lines[0] + lines[1] + lines[2][:7]):
        log.path.write_bytes(whole + torn)
        again = IntakeLog(tmp_path)
        assert [i.size for i in again.items()] == [0, 1, 2] and log.path.read_bytes() == whole
        assert again.append([thing(9)])[0].ordinal == 3
        again.close()


def test_items_are_json(tmp_path: Path) -> None:
    item = thing(1, key="k")
    assert from_json(Item, json.loads(json.dumps(to_json(item)))) == item
    assert Item.from_json(json.loads(json.dumps(item.to_json())) | {"later": 1}) == item


def test_the_end_survives(tmp_path: Path) -> None:
    log = IntakeLog(tmp_path)
    log.append([thing(0)])
    assert not log.ended and log.ended_at is None
    log.end()
    log.end()
    log.append([thing(1)])
    again = IntakeLog(tmp_path)
    assert again.ended and again.ended_at == 1 and again.length == 2


@given(st.integers(0, 400))
def test_a_torn_tail_is_cut_wherever_it_tears(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = IntakeLog(folder)
    log.append([thing(0), thing(1)])
    log.close()
    path = folder / FILE_NAME
    whole = path.read_bytes()
    path.write_bytes(whole[: min(cut, len(whole))])
    again = IntakeLog(folder)
    assert again.length == whole[: min(cut, len(whole))].count(b"\n")
    again.append([thing(7)])
    assert [i.size for i in IntakeLog(folder).items()] == [*range(again.length - 1), 7]


@pytest.mark.parametrize("tail", [b"\0" * 200, b"\0\0\n", b'{"ordinal":1', b"garbage\n\0\0\0\n", b"\xff\xff\n"])
def test_lost_blocks_at_the_end_are_cut(tmp_path: Path, tail: bytes) -> None:
    IntakeLog(tmp_path).append([thing(0)])
    with open(tmp_path / FILE_NAME, "ab") as file:
        file.write(tail)
    log = IntakeLog(tmp_path)
    log.append([thing(1)])
    assert [i.size for i in IntakeLog(tmp_path).items()] == [0, 1]


def test_damage_before_the_end_is_an_error(tmp_path: Path) -> None:
    IntakeLog(tmp_path).append([thing(0), thing(1), thing(2)])
    path = tmp_path / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"oops\n" + lines[2])
    with pytest.raises(PondError, match="damaged at line 2"):
        IntakeLog(tmp_path)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(PondError, match="item 2 where 1 should be"):
        IntakeLog(tmp_path)


def test_a_failed_write_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = IntakeLog(tmp_path)
    log.append([thing(0)])
    real = os.pwrite

    def full(fd: int, data: bytes, offset: int) -> int:
        real(fd, bytes(data)[:10], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(PondError, match="No space left"):
        log.append([thing(1)])
    monkeypatch.undo()
    assert log.length == 1
    log.append([thing(2)])
    assert [i.size for i in IntakeLog(tmp_path).items()] == [0, 2]


def test_many_threads_append(tmp_path: Path) -> None:
    log = IntakeLog(tmp_path)
    threads = [threading.Thread(target=lambda n=n: [log.append([thing(n)]) for _ in range(20)]) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [i.ordinal for i in IntakeLog(tmp_path).items()] == list(range(100))


def test_100_000_items_load_and_one_more_writes_one_line(tmp_path: Path) -> None:
    IntakeLog(tmp_path).append(thing(n, ordinal=n) for n in range(100_000))
    log = IntakeLog(tmp_path)
    assert log.length == 100_000
    before = log.path.stat().st_size
    log.append([thing(1)])
    assert 0 < log.path.stat().st_size - before < 1000


def test_what_was_appended_survives_kill_9(tmp_path: Path) -> None:
    script = f"""
import sys
from millpond.sources.intake_log import IntakeLog, Item
log = IntakeLog({str(tmp_path)!r})
n = 0
while True:
    item = Item(0, "file", "/p", "csv", n, 0, "", None, "", 0)
    log.append([item, item])
    print(log.length, flush=True)
    n += 1
"""
    source = str(Path(__file__).parents[2] / "src")
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": source}
    )
    assert child.stdout is not None
    told = 0
    while told < 40:
        told = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().splitlines()
    child.wait()
    told = int(rest[-1]) if rest and rest[-1].isdigit() else told
    log = IntakeLog(tmp_path)
    assert log.length >= told
    assert [i.size for i in log.items()] == [n // 2 for n in range(log.length)]


@given(st.lists(st.integers(0, 10**9), max_size=60), st.integers(1, 12))
def test_splits_are_contiguous_balanced_and_never_empty(sizes: list[int], n: int) -> None:
    items = [thing(0, size=size, ordinal=i) for i, size in enumerate(sizes)]
    runs = split(items, n)
    assert [i for run in runs for i in run] == items
    assert len(runs) == min(n, len(items)) and all(runs)
    assert runs == split(items, n)
    if items:
        weights = [max(s, 4096) for s in sizes]
        heaviest = max(sum(max(i.size, 4096) for i in run) for run in runs)
        assert heaviest <= sum(weights) / len(runs) + 2 * max(weights)


def test_the_file_source_is_a_source(tmp_path: Path) -> None:
    source = FileSource(stream("ts TIMESTAMP", path=str(tmp_path)), IntakeLog(tmp_path / "log"))
    assert isinstance(source, Source)
