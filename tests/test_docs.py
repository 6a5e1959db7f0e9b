"""The documentation's examples run as written, block after block, in one folder."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest

import millpond

ROOT = Path(__file__).parent.parent
PAGES = ["docs/guide.md", "README.md"]


def blocks(page: str) -> list[tuple[int, str]]:
    """Line and text of each Python block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text[: m.start()].count("\n") + 2, m[1]) for m in found]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(millpond, "open", functools.partial(millpond.open, executor="inline"), raising=False)
    scope: dict[str, object] = {}
    assert blocks(page)
    for line, text in blocks(page):
        exec(compile("\n" * (line - 1) + text, page, "exec"), scope)


def test_first_query_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    script = re.search(r"<<'SQL'\n(.*?)^SQL$", text, re.MULTILINE | re.DOTALL)
    assert script is not None
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        rows = pond.sql(script[1]).rows()
    assert len(rows) == 5
    assert all(departures >= 10 for _, _, departures, _ in rows)
