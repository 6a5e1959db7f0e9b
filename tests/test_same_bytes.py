"""An epoch writes the same bytes: recorded lives of every kind of query, file by file and answer by answer.

The records in `tests/data/same_bytes` were made by an earlier version. A change that keeps behaviour keeps them; one
that means to change bytes or answers writes them anew and says so: `MILLPOND_REWRITE_BYTES=1 pytest
tests/test_same_bytes.py`. `MILLPOND_BYTES_DUMP=folder` writes all answers in full there, to be compared with those of
another version.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.same_bytes.kinds import KINDS
from tests.same_bytes.life import Life

RECORDS = Path(__file__).parent / "data" / "same_bytes"
VERSIONS = {name: version(name) for name in ("pyarrow", "duckdb", "numpy")}


def live(kind: str, folder: Path, shards: int = 2) -> dict[str, Any]:
    """The record of a kind's life."""
    life = Life(KINDS[kind], folder, shards, f"{kind} {shards}")
    record = {"versions": VERSIONS, **life.run()}
    if dump := os.environ.get("MILLPOND_BYTES_DUMP"):
        Path(dump).mkdir(parents=True, exist_ok=True)
        text = "\n\n".join(f"-- {what}\n" + "\n".join(lines) for what, lines in life.whole.items())
        Path(dump, f"{kind}-{shards}.txt").write_text(text, encoding="utf-8")
    return record


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_writes_the_same_bytes(kind: str, tmp_path: Path) -> None:
    check(kind, live(kind, tmp_path), RECORDS / f"{kind}.json")


@pytest.mark.parametrize("kind", ["tumbling", "row-windows", "elements", "pairs"])
def test_one_shard_writes_the_same_bytes(kind: str, tmp_path: Path) -> None:
    check(kind, live(kind, tmp_path, 1), RECORDS / f"{kind}-one-shard.json")


def check(kind: str, found: dict[str, Any], file: Path) -> None:
    """Compare with the record, or write it anew."""
    if os.environ.get("MILLPOND_REWRITE_BYTES"):
        silent = [q for q in KINDS[kind].queries if not any(q in a.split() and len(found["answers"][a]) > 1
                  for a in found["answers"])]  # fmt: skip
        assert not silent, f"{kind}: nothing is recorded of {silent}, which never answer"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    expected = json.loads(file.read_text(encoding="utf-8"))
    for question, answer in expected["answers"].items():
        assert found["answers"].get(question) == answer, f"{kind}: another answer to {question}"
    assert list(found["answers"]) == list(expected["answers"])
    if expected["versions"] != VERSIONS:
        pytest.skip(f"bytes were recorded with {expected['versions']}, here is {VERSIONS}; answers are the same")
    for stage, files in expected["files"].items():
        now = found["files"].get(stage, {})
        changed = sorted(n for n in files.keys() | now.keys() if files.get(n) != now.get(n))
        assert not changed, f"{kind}: other bytes at stage '{stage}': {changed}"
    assert list(found["files"]) == list(expected["files"]), f"{kind}: files at other stages"
    assert found["active"] == expected["active"], f"{kind}: other files in the last versions of tables"
