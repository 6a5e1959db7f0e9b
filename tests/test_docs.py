"""The documentation's examples run as written, block after block, in one folder; see `tests.pages`.

MILLPOND_WRITE_DOCS=1 puts what the examples print now into the pages: look at the difference before it is committed.
"""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest

import millpond
from tests.pages import ROOT, run_page

PAGES = [
    "docs/statistics.md",
    "docs/guide.md",
    "docs/revisions.md",
    "docs/standing-queries.md",
    "docs/operating.md",
    "docs/watermarks.md",
    "docs/row-windows.md",
    "docs/sessions.md",
    "docs/cql.md",
    "docs/derived-streams.md",
    "docs/adaptive-state.md",
    "README.md",
    "docs/windows.md",
    "docs/reduce.md",
    "docs/archive.md",
    "docs/hybrid.md",
    "docs/system-stream.md",
    "docs/adaptive.md",
    "docs/joins.md",
    "docs/plans.md",
    "docs/sql.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_blocks(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page in ("docs/statistics.md", "docs/joins.md", "docs/sessions.md"):
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.setattr(millpond, "open", functools.partial(millpond.open, executor="inline"), raising=False)
    run_page(page, tmp_path)


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
