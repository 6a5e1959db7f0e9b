"""A pond that an earlier version made opens, answers as it did then, and goes on.

`tests/data/ponds` has such ponds, what was answered by the version that made them, and the scripts that did it.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.testing.clock import START, VirtualClock
from tests.same_bytes.life import as_lines
from tests.windows.months import Months

FOLDER = Path(__file__).parent / "data" / "ponds"
VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in FOLDER.glob("*.tar.gz"))
#: What the clock says when a pond is opened again.
LATER = START + 3_600_000_000
ASKED = ("s", "r", "far", "doubled", "sums", "met", "dead(s)", "late(r)")

Answers = dict[str, list[str]]


def answers(pond: Any) -> Answers:
    """What a pond answers about all its queries and streams; revisions and order aside, which epochs may decide.

    The watermarks of late rows have been told since.
    """
    streams = {row[0] for row in pond.sql("SHOW STREAMS").rows()}  # some of them have queries of their own
    queries = sorted({row[0] for row in pond.sql("SHOW QUERIES").rows()} - streams)
    asked = [f"INVOKE {name}" for name in queries]
    asked += [f"SELECT * FROM {name}" for name in (*queries, *ASKED) if not name.startswith("rows_")]
    found = {}
    for text in asked:
        table = pond.sql(text).table
        head, *rows = as_lines(table.drop_columns([c for c in table.column_names if c in ("revision", "watermark")]))
        found[text] = [head, *sorted(rows)]
    return found


def to_the_end(pond: Any, rows: Mapping[str, Any]) -> None:
    """Run what is waiting, go on with what is paused, take new rows in, and close all windows."""
    pond.drain()
    if any(row[0] == "paused" for row in pond.sql("SHOW QUERIES").rows()):
        pond.sql("ALTER QUERY paused RESUME")
    for stream, some in rows.items():
        pond.ingest(stream, some)
    pond.drain(final=True)


def as_text(found: Mapping[str, Answers]) -> str:
    """Answers as they are kept."""
    parts = [f"-- {when}: {q}\n" + "\n".join(lines) for when, asked in found.items() for q, lines in asked.items()]
    return "\n\n".join(parts) + "\n"


def recorded(version: str, when: str) -> Answers:
    """What was answered then."""
    found = {}
    for part in (FOLDER / f"{version}.txt").read_text(encoding="utf-8").strip().split("\n\n"):
        head, *lines = part.split("\n")
        moment, _, question = head.removeprefix("-- ").partition(": ")
        if moment == when:
            found[question] = lines
    assert found, f"nothing is recorded of '{when}'"
    return found


@pytest.fixture(params=VERSIONS)
def unpacked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The version whose ponds lie in the current folder."""
    with tarfile.open(FOLDER / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)  # a table's file has no folder
    yield request.param


def reopened(name: str, executor: str = "inline") -> Any:
    """The pond, or a skipped test where this DuckDB cannot open it."""
    try:
        return millpond.open(name, executor, clock=VirtualClock(LATER), window_kinds={"months": Months()})
    except millpond.PondError as error:
        if "a DuckDB that places groups differently" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("name", ["pond", "committed"])
def test_a_pond_of_before_goes_on(unpacked: str, name: str) -> None:
    rows = json.loads(Path("rows.json").read_text(encoding="utf-8"))
    with reopened(name) as pond:
        same(answers(pond), recorded(unpacked, f"{name}, as it was left"))
    with reopened(name) as pond:
        to_the_end(pond, rows)
        same(answers(pond), recorded(unpacked, f"{name}, at the end"))
        pond.maintain()
    with reopened(name) as pond:
        same(answers(pond), recorded(unpacked, f"{name}, at the end"))


@pytest.mark.spark
def test_a_pond_of_before_goes_on_with_spark(unpacked: str, spark_session: Any) -> None:
    rows = json.loads(Path("rows.json").read_text(encoding="utf-8"))
    with reopened("pond", "spark") as pond:
        to_the_end(pond, rows)
        same(without_epochs(answers(pond)), without_epochs(recorded(unpacked, "pond, at the end")))


def without_epochs(found: Answers) -> Answers:
    """Answers but for the last column of dead letters: with Spark a back-fill ends beside the epochs."""
    return {
        question: [line.rsplit(" | ", 1)[0] for line in lines] if " FROM dead(" in question else lines
        for question, lines in found.items()
    }


def same(found: Answers, expected: Answers) -> None:
    """Whether answers are what they were, one question after the other."""
    for question, lines in expected.items():
        assert found[question] == lines, question
    assert found.keys() == expected.keys()
