"""Operators that streams ask for: what is refused, what is answered, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import millpond
from millpond.answers import stream_operators
from millpond.operators import registry
from millpond.operators.contract import Mapped, Mapper, MapTask, MergeTask, Step, Taken
from millpond.operators.stream_operator import StreamOperator
from millpond.progress import StreamProgress
from millpond.tables import Chunk
from millpond.tables.chunks import pack


class CountMapper(Mapper):
    """Counts the rows of a task."""

    whole = True

    def __init__(self, operator: Counter) -> None:
        self.operator = operator

    def finish(self, taken: Taken) -> Mapped:
        """See `Mapper`."""
        return Mapped([(self.operator.owner, 0, pack(pa.table({"n": [taken.whole.rows.num_rows]})))])


class Counter(StreamOperator):
    """Counts the rows of a stream, and fails when an epoch brings three of them."""

    word = "counter"

    def mapper(self, task: MapTask) -> Mapper | None:
        """See `Operator`."""
        return CountMapper(self) if task.stream.id == self.stream.id else None

    def merge(self, task: MergeTask, parts: Sequence[pa.Table]) -> Step:
        """See `Operator`."""
        count = sum(part["n"][0].as_py() for part in parts)
        if count == 3:
            raise ValueError("three is too many")
        return Step([Chunk(self.owner, "n", task.manifest.epoch, 0, 0, pa.table({"n": [count]}))] if count else [])

    def answer(self, chunks: Iterable[Chunk], progress: StreamProgress) -> pa.Table:
        """See `StreamOperator`."""
        return pa.table({"n": [sum(chunk.table["n"][0].as_py() for chunk in chunks)]})


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The kind is in the registry."""
    with (
        mock.patch.object(registry, "KINDS", (*registry.KINDS, Counter)),
        mock.patch.dict(registry.ASKED, {Counter.word: Counter}),
    ):
        yield


def rows(*times: int) -> list[dict[str, object]]:
    return [{"ts": f"2024-05-01 12:00:{time:02d}", "n": time} for time in times]


SCRIPT = "CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (operators = 'Counter')"


def test_it_answers_whoever_asks_and_after_a_restart(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(SCRIPT)
        assert pond.answer("s", "counter")["n"].to_pylist() == [0]
        for part in (rows(1, 2), rows(3)):
            pond.ingest("s", part)
            pond.drain()
        assert pond.answer("s", "counter")["n"].to_pylist() == [3]
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        assert pond.answer("s", "counter()")["n"].to_pylist() == [3]


def test_one_that_fails_is_stopped_for_good_and_nobody_else_is(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(f"{SCRIPT}; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 SECONDS TUMBLING]")
        for part in (rows(1, 2), rows(3, 4, 5), rows(6)):
            pond.ingest("s", part)
            pond.drain()
        pond.drain(final=True)
        assert pond.sql("SELECT n FROM q").rows() == [(6,)]
        with pytest.raises(millpond.QueryError, match="stopped: three is too many"):
            pond.answer("s", "counter")
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        with pytest.raises(millpond.QueryError, match="three is too many"):
            pond.answer("s", "counter")
        pond.sql("DROP QUERY q; DROP STREAM s")
        assert pond._core.catalog.stopped == {}


@pytest.mark.parametrize(
    ("asked", "message"),
    [("count", "there is no operator 'count'.*did you mean 'counter'"), ("counter(", "operators with their arguments")],
)
def test_what_cannot_be_asked_for_is_refused(tmp_path: Path, asked: str, message: str) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        with pytest.raises(millpond.StatementError, match=f"(?s){message}"):
            pond.sql(SCRIPT.replace("Counter", asked))
        with pytest.raises(millpond.QueryError, match="there is no stream 's'"):
            pond.answer("s", "counter")


@pytest.mark.parametrize("asked", ["", "count er", "counter + counter2", "counter(1)"])
def test_what_it_is_not_asked_for_as_is_refused(tmp_path: Path, asked: str) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(SCRIPT)
        with pytest.raises(millpond.QueryError, match=r"stream 's' has no operator .*; it has counter\(\)"):
            pond.answer("s", asked)


def test_state_that_is_too_much_to_read_at_once_is_refused(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(SCRIPT)
        for part in (rows(1, 2), rows(3)):
            pond.ingest("s", part)
            pond.drain()
        refused = pytest.raises(millpond.QueryError, match="counter keeps more than 1 rows, the most that are read")
        with mock.patch.object(stream_operators, "MOST_ROWS", 1), refused:
            pond.answer("s", "counter")
