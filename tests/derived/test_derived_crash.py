"""kill -9 between the stages of derived streams: every answer goes on once, whatever was written when it came."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.derived.crash_child import QUERIES, STREAMS
from tests.engine.lives import KILLED, Server, outcome, written
from tests.quick import some

CHILD = Path(__file__).with_name("crash_child.py")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(CHILD)
    yield running
    running.close()


@pytest.fixture(scope="module")
def undisturbed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    work = tmp_path_factory.mktemp("undisturbed")
    assert server.run(work) == 0
    return outcome(work)


def test_the_scenario_is_worth_its_name(undisturbed: dict[str, object]) -> None:
    """Rows everywhere, late ones and revisions among them, and nothing is left lying about."""
    assert all(undisturbed[s] for s in (*STREAMS, *QUERIES))
    assert undisturbed["late(x)"] and undisturbed["late(f)"] and undisturbed["late(y)"] and not undisturbed["late(z)"]
    assert set(undisturbed["progress"].values()) == {"end"}  # type: ignore[attr-defined]  # JSON
    assert undisturbed["left"] == []


MOMENTS = (
    "part-after:4",
    "taken-before:4",
    "taken-after:5",
    "publish-after:7",
    "history-recorded:1",
)
#: Once before or behind each step.
BESIDE = (
    "part-before:3",
    "manifest-after:6",
    "publish-before:7",
    "release-after:3",
    "history-unrecorded:1",
    "adoption-decided:1",
    "intake-after:9",
)
#: The same again, at other moments: where `deep` is asked for.
AGAIN = (
    "part-after:9",
    "taken-before:8",
    "taken-after:12",
    "history-before:1",
    "release-before:9",
    "manifest-before:8",
    "results-after:6",
    "archive-after:9",
    "catalog-after:2",
    "backfill-recorded:1",
    "publish-before:12",
)


@pytest.mark.parametrize(
    "moment", [*some([*MOMENTS, *BESIDE], 9), *(pytest.param(m, marks=pytest.mark.deep) for m in AGAIN)]
)
def test_a_crash_changes_nothing(server: Server, undisturbed: dict[str, object], moment: str, tmp_path: Path) -> None:
    assert server.run(tmp_path, moment) == KILLED, "the moment never came"
    assert server.run(tmp_path) == 0
    assert outcome(tmp_path) == undisturbed
    again = {n: d for n, d in written(tmp_path).items() if len(set(d)) > 1}
    assert not again, "written again with other bytes"


def test_crash_after_crash(server: Server, undisturbed: dict[str, object], tmp_path: Path) -> None:
    for moment in ("part-after:2", "publish-after:1", "taken-after:1", "release-before:2", "manifest-after:3"):
        assert server.run(tmp_path, moment) == KILLED, f"{moment} never came"
    assert server.run(tmp_path) == 0
    assert outcome(tmp_path) == undisturbed
