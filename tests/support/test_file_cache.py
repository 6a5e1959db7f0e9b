"""A file is read once, and another one under its name is read, too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from millpond.support.file_cache import FileCache


def test_each_file_is_read_once(tmp_path: Path) -> None:
    cache, reads = FileCache[str](2), []

    def text(name: str) -> str:
        path = tmp_path / name

        def read() -> str:
            reads.append(name)
            return path.read_text()

        return cache.get(str(path), read)

    for name in "abc":
        (tmp_path / name).write_text(name)
    assert [text(name) for name in "aabba"] == list("aabba") and reads == ["a", "b"]
    assert text("c") == "c" and text("b") == "b" and reads == ["a", "b", "c"]
    assert text("a") == "a" and reads == ["a", "b", "c", "a"], "only two are kept"
    with pytest.raises(FileNotFoundError):
        text("d")


def test_a_file_in_the_place_of_another_is_read(tmp_path: Path) -> None:
    cache, path, copy = FileCache[str](9), tmp_path / "file", tmp_path / "copy"
    path.write_text("one")
    shutil.copy2(path, copy)
    assert cache.get(str(path), path.read_text) == "one"
    (tmp_path / "new").write_text("two")
    os.replace(tmp_path / "new", path)
    assert cache.get(str(path), path.read_text) == "two"
    os.replace(copy, path)  # as old as the first, and as long
    assert cache.get(str(path), path.read_text) == "one"
    cache.put(str(path), "said")
    assert cache.get(str(path), path.read_text) == "said"
