"""Answers need no more than what is published: a view that is made of a pond's folder gives those of the open pond."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millpond
from millpond import Pond, language
from millpond.answers.adhoc import select_stream
from millpond.answers.adhoc_relations import select_relational
from millpond.answers.invocation import invoke
from millpond.answers.nested_windows import select_staged
from millpond.answers.row_queries.selection import evaluate, select_once
from millpond.answers.standing_answers import latest_answers
from millpond.answers.subscription import subscribe
from millpond.answers.table_selects import select_relations
from millpond.archive.observed_load import Load
from millpond.archive.open_archives import Archives
from millpond.archive.storage import Storage
from millpond.catalog.catalogs import Catalogs
from millpond.commands.execution.sight import LiveSight
from millpond.commands.naming import Names
from millpond.engine.pond_view import PondView
from millpond.manifests.epochs import Clock, Epochs, wall_clock
from millpond.sources.table_sources.versions import TableVersions
from millpond.tables.executors import InlineExecutor
from millpond.types.options import Settings

START = datetime(2024, 1, 1)

SCRIPT = """
    CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (lateness = '1 s');
    CREATE TABLE t (k TEXT, name TEXT) WITH (path = '{folder}/t.csv');
    CREATE QUERY q WITH (since = 'start') AS SELECT k, sum(v) AS total FROM s [RANGE TUMBLING 5 SECONDS] GROUP BY k;
    CREATE QUERY held WITH (since = 'start') AS SELECT k, v FROM s [RANGE 6 SECONDS];
    CREATE QUERY big AS SELECT k, v FROM s WHERE v > 3;
"""

#: SELECTs by how they are answered.
ONCE: dict[Callable[[PondView, Any], Any], str] = {
    select_stream: "SELECT k, count(*) AS n FROM s [RANGE TUMBLING 4 SECONDS] GROUP BY k",
    select_relational: "SELECT ISTREAM k, v FROM s [RANGE 3 SECONDS]",
    select_staged: "SELECT max(total) AS m FROM q [RANGE TUMBLING 10 SECONDS]",
    select_relations: "SELECT t.name, q.total FROM q JOIN t USING (k) ORDER BY ALL",
    select_once: "SELECT k, v FROM s WHERE v < 3 BEGIN NOW - INTERVAL 5 SECONDS END NOW",
}


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pond]:
    """A pond with a few epochs, of which nothing runs any more."""
    folder = tmp_path_factory.mktemp("views")
    (folder / "t.csv").write_text("k,name\na,Anna\nb,Bob\n")
    with millpond.open(folder / "pond", executor="inline") as opened:
        opened.sql(SCRIPT.format(folder=folder))
        for at in range(0, 30, 10):
            rows = [{"ts": START + timedelta(seconds=i), "k": "abc"[i % 3], "v": i * i % 7} for i in range(at, at + 10)]
            opened.ingest("s", rows)
            opened.drain()
        opened.sql("SELECT * FROM t")
        yield opened


@pytest.fixture
def view(pond: Pond) -> Iterator[PondView]:
    """What another process could make of the pond's folder."""
    path, lock = pond.path, threading.RLock()
    catalogs, epochs, storage = Catalogs(path, lock), Epochs(path, lock), Storage(path, lock)
    for definition in catalogs.catalog.streams.values():
        storage.open_stream(definition)
    clock = Clock(wall_clock, epochs)
    archives = Archives(storage, catalogs, epochs, InlineExecutor(), Load(path, 2.0, clock.now, lambda: None))
    yield PondView(archives, TableVersions(path, lambda: ()), clock, Settings())
    catalogs.close()


def files(folder: str) -> dict[str, int]:
    """When each file of a folder was changed."""
    return {str(f): f.stat().st_mtime_ns for f in Path(folder).rglob("*") if f.is_file()}


def rows(answer: Any) -> list[dict[str, Any]]:
    """The rows of an answer."""
    table = answer if isinstance(answer, pa.Table) else answer.table
    return table.to_pylist()


@pytest.mark.parametrize("answering", ONCE, ids=lambda f: f.__name__)
def test_a_select_is_answered(pond: Pond, view: PondView, answering: Callable[[PondView, Any], Any]) -> None:
    before = files(pond.path)
    [statement] = language.parse(ONCE[answering])
    bound = language.bind_select(statement.select, Names(LiveSight(view.archives)))
    found = rows(answering(view, bound))
    wanted = pond.sql(ONCE[answering]).to_arrow().to_pylist()
    assert found == wanted and found
    assert files(pond.path) == before and view.storage.pins == 0


@pytest.mark.parametrize("name", ["q", "held"])
def test_a_standing_query_is_answered(pond: Pond, view: PondView, name: str) -> None:
    before = files(pond.path)
    standing = view.catalog.query(name)
    assert standing is not None
    assert rows(invoke(view, standing)) == pond.sql(f"INVOKE {name}").to_arrow().to_pylist()
    followed = [b.rows.to_pylist() for b in subscribe(view, name, "0:0:0", timeout=0)]
    assert followed == [b.rows.to_pylist() for b in pond.subscribe(name, "0:0:0", timeout=0)] and followed
    assert files(pond.path) == before and view.storage.pins == 0


def test_answers_and_row_queries_are_read(pond: Pond, view: PondView) -> None:
    before = files(pond.path)
    standing, number = view.catalog.query("q"), view.register.id_of("big")
    assert standing is not None and number is not None
    assert rows(latest_answers(view, standing)) == pond.sql("SELECT * FROM q").to_arrow().to_pylist()
    assert rows(evaluate(view, view.register.get(number))) == pond.query("big").result().to_pylist()
    assert files(pond.path) == before and view.storage.pins == 0
