"""kill -9 while answers are recomputed for late rows: the answers are those of all rows, and nothing is told twice."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.lives import KILLED, Server, outcome
from tests.engine.mending_scenario import ASKED, RELATIONS, check
from tests.quick import some

CHILD = Path(__file__).with_name("mending_child.py")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(CHILD)
    yield running
    running.close()


def _fresh(work: Path) -> Path:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    return work


@pytest.fixture(scope="module")
def undisturbed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """Where lives take place, and what one without a crash gave."""
    work = _fresh(tmp_path_factory.mktemp("mending") / "work")
    assert server.run(work) == 0
    return work, outcome(work)


def test_answers_are_those_of_all_rows(undisturbed: tuple[Path, Mapping[str, Any]]) -> None:
    """Also: late rows change answers of every query, and each revision is told once."""
    _, found = undisturbed
    check({name: found[name] for name in (*ASKED, "over_x")})
    for name in ASKED:
        log = found[f"log of {name}"]
        assert found["revised"][name] > 0, f"{name} has no revision"
        assert name in RELATIONS or max(Counter(map(repr, log)).values()) == 1, name
    assert any(row[-1] == "-" for row in found["x"])
    assert found["waiting"] == found["left"] == []


#: Moments and which of their occurrences: each operator's job is one, each query's files are another.
MOMENTS = (
    "before:2",
    "told:3",
    "written:3",
    "unrecorded:2",
    "recorded:1",
    "planned:1",
    "committing:1",
    "results:1",
    "committed:2",
    "forgotten:1",
)
MORE = ("before:5", "told:6", "written:5", "unrecorded:6", "swept:2", "after:3", "planned:2", "run:2", "results:2")


@pytest.mark.parametrize("moment", [*some(MOMENTS, 6), *(pytest.param(m, marks=pytest.mark.deep) for m in MORE)])
def test_a_crash_changes_nothing(server: Server, undisturbed: tuple[Path, Mapping[str, Any]], moment: str) -> None:
    work, expected = undisturbed
    _fresh(work)
    assert server.run(work, moment) == KILLED, "the moment never came"
    assert server.run(work) == 0
    _same(outcome(work), expected)


def test_crash_after_crash(server: Server, undisturbed: tuple[Path, Mapping[str, Any]]) -> None:
    """What a recovery does can be repeated, too."""
    work, expected = undisturbed
    _fresh(work)
    for moment in ("written:2", "recorded:2", "planned:1", "committing:1", "results:1", "forgotten:1"):
        assert server.run(work, moment) == KILLED, f"{moment} never came"
    assert server.run(work) == 0
    _same(outcome(work), expected)


def _same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, rows in expected.items():
        one, other = (sorted(map(repr, each)) if isinstance(each, list) else each for each in (found[name], rows))
        assert one == other, name
