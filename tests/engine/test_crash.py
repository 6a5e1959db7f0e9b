"""kill -9 of the whole process group at every kind of moment: nothing lost, nothing doubled, replay byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.engine.lives import KILLED, Server, alone, fresh, manifests, outcome, written
from tests.quick import some


class Undisturbed(NamedTuple):
    """What a run without crashes gave, and where the runs take place."""

    work: Path
    outcome: dict[str, Any]
    written: dict[str, list[str]]
    manifests: dict[int, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(scope="module")
def undisturbed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    work = fresh(tmp_path_factory.mktemp("crash") / "work")
    assert server.run(work) == 0
    return Undisturbed(work, outcome(work), written(work), manifests(work))


def differing(part: str, found: Any, expected: Any) -> list[str]:
    """Where two outcomes differ, in few words."""
    if isinstance(expected, dict):
        return [d for key, value in expected.items() for d in differing(f"{part} {key}", found.get(key), value)]
    if found == expected:
        return []
    if not isinstance(expected, list):
        return [f"{part}: {found}, not {expected}"]
    missing, more = [r for r in expected if r not in found], [r for r in found if r not in expected]
    return [f"{part}: {len(found)} rows, not {len(expected)}; missing {missing[:3]}; too many {more[:3]}"]


def check(model: Undisturbed) -> None:
    """The finished run in the same folder must not differ from the undisturbed one."""
    found = outcome(model.work)
    differences = [d for part, expected in model.outcome.items() for d in differing(part, found[part], expected)]
    assert not differences, "\n".join(differences)
    files = written(model.work)
    for name, digests in files.items():
        assert len(set(digests)) == 1, f"{name} was written again with other bytes"
    compared = 0
    for epoch, manifest in manifests(model.work).items():
        if manifest == model.manifests.get(epoch):
            mark = f"/e{epoch:012d}-"
            here = {n: d[0] for n, d in files.items() if mark in f"/{n}"}
            there = {n: d[0] for n, d in model.written.items() if mark in f"/{n}"}
            assert here == there, f"files of epoch {epoch}, whose manifests are equal"
            compared += len(here)
    assert compared > 20, "hardly any epoch has the same manifest as in the undisturbed run"


def test_the_scenario_is_worth_its_name(undisturbed: Undisturbed) -> None:
    """Late rows that revise, late rows that are dropped, dead letters, and answers of every query."""
    found = undisturbed.outcome
    assert all(found["answers"].values())
    assert {row[-1] for row in found["logs"]["q1"]} == {"+"} or "-" in {row[-1] for row in found["logs"]["q2"]}
    assert max(row[-2] for row in found["logs"]["q1"]) >= 2
    assert found["late"] and len(found["dead"]) == 4
    archives = found["archives"]
    assert sum(len(archives[name]) for name in ("f", "g")) == sum(c["rows"] for c in found["counts"].values())
    assert set(archives) == {"f", "f sample-0.25", "f sample-0.75", "g", "g sample-0.5"}
    assert all(len(archives[f"f sample-{n}"]) < len(archives["f"]) for n in (0.25, 0.75))
    assert found["orphans"] == []


#: Moments and which of their occurrences: every kind of step once.
MOMENTS = (
    "pond-half-made:1",
    "intake-after:4",
    "manifest-before:2",
    "manifest-after:3",
    "torn-write:9",
    "chunks-after:9",
    "state|results:2",
    "results|state:3",
    "state-compaction:1",
    "publish-before:4",
    "backfill-unrecorded:2",
    "backfill-recorded:2",
    "adoption-decided:1",
    "merge-before:1",
    "sweep:1",
    "streams|copies:2",
    "copies|streams:3",
    "copies-written:2",
    "upkeep-before:2",
    "copy-dropped:1",
)
#: More occurrences, and what is before and behind them: where `deep` is asked for.
MORE = (
    "catalog-after:4",
    "rows-after:7",
    "streams|state:2",
    "publish-after:5",
    "backfill-mapped:3",
    "merge-after:2",
    "catalog-before:2",
    "intake-before:3",
    "rows-before:4",
    "chunks-before:5",
    "archive-before:3",
    "archive-after:4",
    "dead-after:1",
    "state-before:6",
    "results-after:5",
    "publish-before:8",
    "backfill-before:2",
    "backfill-written:2",
    "backfill-after:1",
    "adoption-decided:2",
    "merge-written:1",
    "sweep:5",
    "copy-before:3",
    "copy-after:6",
    "upkeep-written:2",
    "upkeep-after:1",
    "upkeep-before:5",
)


@pytest.mark.parametrize("moment", [*some(MOMENTS, 12), *(pytest.param(m, marks=pytest.mark.deep) for m in MORE)])
def test_a_crash_changes_nothing(server: Server, undisturbed: Undisturbed, moment: str) -> None:
    work = fresh(undisturbed.work)
    assert server.run(work, moment) == KILLED, "the moment never came"
    assert server.run(work) == 0
    check(undisturbed)


@pytest.mark.parametrize(
    "moments",
    [
        # Again and again in the same epoch: what a recovery does can be repeated too.
        ["streams|state:2", "state-before:1", "state-after:1", "results-before:1", "publish-before:1"],
        ["backfill-mapped:1", "backfill-unrecorded:1", "backfill-recorded:1", "manifest-after:1", "state|results:1"],
        ["manifest-after:2", "rows-after:1", "chunks-after:1", "publish-after:1", "merge-before:1", "sweep:1"],
    ],
    ids=["one epoch", "back-fill", "all over"],
)
def test_crash_after_crash(server: Server, undisturbed: Undisturbed, moments: list[str]) -> None:
    work = fresh(undisturbed.work)
    for moment in moments:
        assert server.run(work, moment) == KILLED, f"{moment} never came"
    assert server.run(work) == 0
    check(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("step", some([23, 61], 1))
def test_lives_of_a_few_writes(server: Server, undisturbed: Undisturbed, step: int) -> None:
    """Each life may rename `step` files, whatever they are; then it is killed."""
    work = fresh(undisturbed.work)
    for _ in range(60):
        status = server.run(work, f"any-rename:{step}")
        if status == 0:
            break
        assert status == KILLED
    check(undisturbed)


@pytest.mark.parametrize("moment", ["publish-before:8", pytest.param("publish-before:9", marks=pytest.mark.slow)])
def test_a_repeated_epoch_rounds_alike(server: Server, undisturbed: Undisturbed, moment: str) -> None:
    """State read from many files adds floating numbers in the order in which the living process had added them."""
    work = fresh(undisturbed.work)
    assert server.run(work, moment, "--compact", "20") == KILLED
    assert server.run(work, None, "--compact", "20") == 0
    twice = {n: d for n, d in written(work).items() if len(d) > 1}
    assert len(twice) >= 3
    assert all(len(set(digests)) == 1 for digests in twice.values())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "moments",
    [
        ["manifest-after:3", "state|results:1", "backfill-unrecorded:1"],
        pytest.param(["state|results:2"], marks=pytest.mark.deep),
        pytest.param(["manifest-after:3"], marks=pytest.mark.deep),
        pytest.param(["backfill-unrecorded:1"], marks=pytest.mark.deep),
    ],
    ids=" ".join,
)
def test_crashes_under_spark(undisturbed: Undisturbed, moments: list[str]) -> None:
    """Epochs are cut as Spark goes, so the final answers and the archive are compared, not epochs."""
    work = fresh(undisturbed.work)
    torn: dict[str, str] = {}
    for moment in moments:
        assert alone(work, moment, "--executor", "spark") == KILLED, f"{moment} never came"
        torn |= epoch_files(work)
    assert alone(work, None, "--executor", "spark") == 0
    found, expected = outcome(work), undisturbed.outcome
    for query, rows in expected["answers"].items():
        assert len(found["answers"][query]) == len(rows), query
        for one, other in zip(found["answers"][query], rows, strict=True):
            assert all(map(close, one[:-1], other[:-1])), (query, one, other)  # revisions count epochs
    assert found["streams"] == expected["streams"] and found["late"] == expected["late"]
    for name, rows in expected["archives"].items():
        assert [r[:-2] for r in found["archives"][name]] == [r[:-2] for r in rows], name
    assert found["counts"] == expected["counts"]
    now = epoch_files(work)
    assert all(now[name] == digest for name, digest in torn.items() if name in now), "a repeated epoch, byte for byte"


def epoch_files(work: Path) -> dict[str, str]:
    """Checksums of the files that epochs wrote and that are there."""
    found = {}
    for path in (work / "pond").rglob("e*.parquet"):
        found[str(path.relative_to(work))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def close(one: Any, other: Any) -> bool:
    """Floating numbers to the precision that sums of 1e16 leave; everything else exactly."""
    try:
        return abs(float(one) - float(other)) <= 100 + 1e-9 * abs(float(other))
    except (TypeError, ValueError):
        return bool(one == other)
