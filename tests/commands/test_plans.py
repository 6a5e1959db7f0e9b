"""Plans are values: made of facts alone, refused with a reason, and folded over facts they are a dry run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.catalog import Catalog, Registered
from millpond.commands.dry_run import check_script
from millpond.commands.execution import performing
from millpond.commands.execution.sight import facts_of
from millpond.commands.families import CHANGES, QUESTIONS, WAITS, plan
from millpond.commands.planned import AddRowQuery, DropStreams, MakeStream, Plan, Record
from millpond.commands.pond_facts import ArchiveFacts, Facts
from millpond.language import Statement, parse
from millpond.manifests.records import Published
from millpond.support.errors import MillpondError, QueryError, StatementError
from millpond.types import to_json
from millpond.types.options import Settings
from tests.quick import quick_folder

STREAM = "CREATE STREAM s (ts TIMESTAMP, k TEXT, n INTEGER) WITH (event_time='ts')"
WINDOWS = "SELECT k, count(*) AS c FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k"
ROWS = "SELECT n FROM s WHERE n > 3"

#: Scripts that between them have every statement, in every form that changes names.
SCRIPTS = [
    STREAM,
    f"{STREAM}; CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP); CREATE QUERY w AS {WINDOWS}; SELECT * FROM w",
    f"{STREAM}; CREATE QUERY r AS {ROWS}; INVOKE r; CREATE OR REPLACE QUERY r AS SELECT n FROM s; EXPLAIN r",
    f"{STREAM}; CREATE QUERY r AS {ROWS}; CREATE OR REPLACE QUERY r AS {WINDOWS}; SELECT c FROM r; EXPLAIN QUERY r",
    f"{STREAM}; CREATE QUERY w AS {WINDOWS}; CREATE OR REPLACE QUERY w AS {ROWS}; INVOKE w; DROP QUERY w",
    f"{STREAM}; CREATE QUERY w AS {WINDOWS}; ALTER QUERY w SET (revise_for = '1 hour'); ALTER QUERY w PAUSE;"
    "ALTER QUERY w RESUME; ALTER QUERY w SET WINDOW [RANGE 20 SECONDS SLIDE 10 SECONDS]",
    f"{STREAM}; CREATE STREAM d AS {WINDOWS}; CREATE STREAM e AS SELECT ts, n FROM s WHERE n > 1;"
    "CREATE QUERY x AS SELECT count(*) AS c FROM d [RANGE TUMBLING 1 MINUTE]; DROP STREAM s CASCADE;"
    f"{STREAM}; CREATE QUERY x AS {ROWS}",
    f"{STREAM}; CREATE QUERY r AS {ROWS}; DROP STREAM s CASCADE; {STREAM}; CREATE QUERY r AS {WINDOWS}",
    f"{STREAM}; ALTER STREAM s ADD COLUMN x BIGINT; SELECT x FROM s; ALTER STREAM s ALTER COLUMN n SET TYPE BIGINT;"
    "CREATE QUERY q AS SELECT sum(x) AS x FROM s [RANGE TUMBLING 1 MINUTE]",
    f"{STREAM}; ALTER STREAM s SET (retention = '3d', archive = 'plain + summary(SELECT k, count(*) FROM s"
    " [RANGE 1 HOUR TUMBLING] GROUP BY k)'); SHOW ARCHIVE s",
    "ALTER SYSTEM SET (target = 1, statistics = on); SELECT count(*) FROM sysstream; SHOW SETTINGS",
    "CREATE TABLE t (a INTEGER) WITH (path = 't.csv'); ALTER TABLE t SET (reload = 'never'); SELECT a FROM t",
    "CREATE TABLE t (a INTEGER) WITH (path = 't.csv'); REFRESH TABLE t; DROP TABLE t; SHOW TABLES",
    f"{STREAM}; CREATE QUERY j AS SELECT count(*) AS c FROM (s [RANGE 1 MINUTE] AS a JOIN s [NOW] AS b ON a.k = b.k)"
    " [RANGE TUMBLING 1 HOUR]; CREATE QUERY i AS SELECT ISTREAM(n) FROM s [RANGE 5 SECONDS]; DROP QUERY j",
    f"{STREAM}; DROP QUERY IF EXISTS nobody; DROP STREAM s; {STREAM}; DRAIN",
]


class Nothing:
    """The sight of a pond in which nothing is."""

    def row_query_id(self, name: str) -> int | None:
        return None

    def row_query(self, number: int) -> Registered:
        raise QueryError(f"there is no query #{number}")

    def row_name(self, number: int) -> str:
        return f"#{number}"

    def row_names(self) -> list[str]:
        return []

    def rows_on(self, stream: int) -> list[int]:
        return []

    def has_history(self, stream: int) -> bool:
        return False

    def archive(self, stream: int) -> ArchiveFacts:
        return ArchiveFacts()

    def absolute(self, path: str) -> str:
        return f"/{path}"

    def users_of(self, reference: str) -> list[str]:
        return []


def facts() -> Facts:
    return Facts(Catalog(), Published(), Settings(), {}, 1, 1, "pond", "token", Nothing())


def planned(before: Facts, script: str) -> Plan:
    (statement,) = parse(script)
    found = plan(before, statement)
    assert isinstance(found, Plan)
    return found


def test_every_statement_has_one_family() -> None:
    kinds: set[type] = set(Statement.__subclasses__())
    tables = [set(CHANGES), set(WAITS), set(QUESTIONS)]
    assert set().union(*tables) == kinds and sum(map(len, tables)) == len(kinds)


def test_a_plan_is_made_of_facts_alone() -> None:
    made = planned(facts(), STREAM)
    stream, record = made.steps
    assert isinstance(stream, MakeStream) and isinstance(record, Record)
    assert (made.message, made.ids, stream.definition.id) == ("stream s created", 1, 1)
    assert record == Record(({"do": "create_stream", "definition": to_json(stream.definition)},), ("s",))
    assert planned(facts(), STREAM) == made, "the same facts, the same plan"
    after = made.over(facts())
    assert after.catalog.stream("S") == stream.definition and after.next_id == 2
    assert facts().catalog == Catalog()


def test_refusals_have_places() -> None:
    after = planned(facts(), STREAM).over(facts())
    after = planned(after, f"CREATE QUERY r AS {ROWS}").over(after)
    for script, place, message in [
        (STREAM, "s", "the name 's' is taken"),
        (f"CREATE QUERY r AS {WINDOWS}", "r", "the name 'r' is taken"),
        ("DROP STREAM t", "t", "there is no stream 't'"),
        ("DROP TABLE s", "s", "'s' is not a table but a stream"),
        ("DROP STREAM s", "s", "is read by r"),
        ("ALTER QUERY r SET revise_for = '1s'", "r", "is a row query"),
        ("ALTER STREAM s ADD COLUMN n INTEGER", "n", "has a column 'n'"),
        ("CREATE STREAM x AS SELECT n FROM s WHERE n > 1", "SELECT", "the event time 'ts' is not among"),
    ]:
        (statement,) = parse(script)
        with pytest.raises(StatementError, match=message.replace("(", r"\(")) as caught:
            plan(after, statement)
        assert script[caught.value.start : caught.value.end] == place


@pytest.fixture
def pond() -> Iterator[Any]:
    with quick_folder() as folder, millpond.open(folder / "pond", executor="inline") as opened:
        yield opened


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_planned_is_what_happens(pond: Any, script: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The catalog that a dry run ends with is the one that the execution leaves."""
    (tmp_path / "t.csv").write_text("a\n1\n")
    monkeypatch.chdir(tmp_path)
    before = facts_of(pond._core)
    monkeypatch.setattr(performing, "facts_of", lambda core: replace(facts_of(core), token=before.token))
    dry = check_script(script, before)
    assert pond._core.catalog == before.catalog, "nothing was executed"
    list(pond.run(script))
    assert to_json(dry.catalog) == to_json(pond._core.catalog)
    assert dry.next_id == facts_of(pond._core).next_id
    named = {name for name, query in dry.rows.items() if query is not None}
    assert named == {name.lower() for name in pond._core.register.names()}


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        (f"{STREAM}; CREATE QUERY w AS {WINDOWS}; CREATE QUERY w AS {WINDOWS}", "the name 'w' is taken"),
        (f"{STREAM}; DROP STREAM s; SELECT n FROM s", "there is no stream, table or query 's'"),
        (f"{STREAM}; CREATE QUERY r AS {ROWS}; SELECT n FROM r", "INVOKE r gives its answer"),
        (f"{STREAM}; CREATE QUERY r AS {ROWS}; DROP STREAM s CASCADE; INVOKE r", "there is no query 'r'"),
        (f"{STREAM}; INVOKE nobody", "there is no query 'nobody'"),
        (f"{STREAM}; ALTER STREAM s ADD COLUMN x TEXT; SELECT y FROM s", "'y'"),
        ("SELECT count(*) FROM sysstream", "nothing is reported into sysstream yet"),
        ("ALTER SYSTEM SET statistics = on; DROP STREAM sysstream", "epochs report into 'sysstream'"),
        (f"{STREAM}; CREATE QUERY w WITH (every = '1 s') AS {WINDOWS}", "'every' is for RSTREAM"),
    ],
)
def test_a_dry_run_finds_what_is_wrong_with_a_later_statement(pond: Any, script: str, wrong: str) -> None:
    before = pond._core.catalog
    with pytest.raises(MillpondError, match=wrong):
        pond.check(script)
    assert pond._core.catalog is before


def test_ids_are_given_once_beside_row_queries_that_come_without_the_lock(pond: Any) -> None:
    pond.sql(STREAM)
    stop = threading.Event()
    handles: list[int] = []

    def register() -> None:
        while not stop.is_set():
            handles.append(pond.register(ROWS).id)

    threads = [threading.Thread(target=register) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        pond.sql(f"CREATE QUERY w{number} AS {WINDOWS}; CREATE STREAM d{number} AS {WINDOWS}")
    stop.set()
    for thread in threads:
        thread.join()
    catalog = pond._core.catalog
    given = [*catalog.streams, *catalog.queries, *handles]
    assert len(given) == len(set(given)) and len(catalog.queries) == 80


def test_a_row_query_that_comes_while_its_stream_is_dropped(pond: Any, monkeypatch: Any) -> None:
    """A plan that knows less than the register is made again: nobody is dropped of whom nothing was said."""
    pond.sql(STREAM)
    drop, came = performing._drop_streams, []

    def late(core: Any, step: DropStreams) -> None:
        if not came:
            came.append(pond.register(ROWS).id)
        drop(core, step)

    monkeypatch.setattr(performing, "_drop_streams", late)
    with pytest.raises(StatementError, match=f"is read by #{came[0] if came else 2}"):
        pond.sql("DROP STREAM s")
    assert pond.query(came[0]).result().to_pylist() == []
    assert pond.sql("DROP STREAM s CASCADE").message == "stream s dropped, with 1 query"


def test_a_row_query_is_planned_for_the_register() -> None:
    after = planned(facts(), STREAM).over(facts())
    made = planned(after, f"CREATE QUERY r WITH (materialize = 'none') AS {ROWS}")
    (step,) = made.steps
    assert isinstance(step, AddRowQuery) and step.query.name == "r" and step.query.options.materialize == "none"
    assert made.ids == 0, "the register gives its own"
    kept = made.over(after).row_query("R")
    assert kept is not None and kept.streams == (1,)
