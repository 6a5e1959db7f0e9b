"""Tables in databases: what a driver gives becomes the declared columns; what must not be seen is not."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sources.postgres import Server, running

import millpond
from millpond.language import parse
from millpond.language.syntax.statement_types import CreateTable
from millpond.sources.table_sources.databases import read_database
from millpond.support.errors import SourceError, StatementError, without_secrets
from millpond.types import Column, TableDefinition

ALLOWED = ("sqlite3", "adbc_driver_postgresql.dbapi")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


def table(query: str, driver: str = "sqlite3", **columns: str) -> TableDefinition:
    named = tuple(Column(n, t) for n, t in columns.items())
    return TableDefinition("t", named, "x", None, driver=driver, query=query)


def test_rows_of_a_db_api_module_become_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.sources.table_sources.databases.PIECE", 2)
    uri = str(tmp_path / "x.sqlite")
    link = sqlite3.connect(uri)
    link.execute("CREATE TABLE t (k TEXT, n, at TEXT)")
    rows = [("a", 1, "2026-01-01"), (None, None, None), ("c", "3", "2026-01-02 03:04:05"), ("d", 4.0, None)]
    link.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    link.commit()
    found = read_database(
        table("SELECT n, at, K, 1 AS more FROM t", k="VARCHAR", n="INTEGER", at="TIMESTAMP"), uri, ALLOWED
    )
    assert found.column_names == ["k", "n", "at"]
    assert found["n"].to_pylist() == [1, None, 3, 4] and found["n"].type == pa.int32()
    assert found["at"].to_pylist() == [dt.datetime(2026, 1, 1), None, dt.datetime(2026, 1, 2, 3, 4, 5), None]
    assert read_database(table("SELECT k FROM t WHERE false", k="DOUBLE"), uri, ALLOWED).num_rows == 0
    for wrong, told in (
        (table("SELECT k FROM t", k="VARCHAR", z="INTEGER"), "gives no column 'z'"),
        (table("SELECT k FROM t", k="INTEGER"), "does not fit its columns.*'a'"),
        (table("SELEKT", k="INTEGER"), "syntax error"),
        (table("PRAGMA foreign_keys = 1", k="INTEGER"), "gives no rows"),
        (table("SELECT 1", "os", k="INTEGER"), "driver os is not allowed here"),
        (table("SELECT 1", "no.such", k="INTEGER"), "driver no.such is not allowed here"),
    ):
        with pytest.raises(SourceError, match=told):
            read_database(wrong, uri, ALLOWED)
    with pytest.raises(SourceError, match="no module no_such here"):
        read_database(table("SELECT 1", "no_such", k="INTEGER"), uri, ("no_such",))
    with pytest.raises(SourceError, match=r"has no connect\(\)"):
        read_database(table("SELECT 1", "math", k="INTEGER"), uri, ("math",))
    with pytest.raises(SourceError, match="NOT_SET_ANYWHERE, which is not set"):
        read_database(table("SELECT 1", k="INTEGER"), "${NOT_SET_ANYWHERE}", ALLOWED)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("uri='x'", "which module reaches this database"),
        ("uri='x', driver='a b', table='t'", "no name of a module"),
        ("uri='postgresql://h/x'", "what is the database asked"),
        ("uri='postgresql://h/x', table='t', query='SELECT 1'", "contradict"),
        ("uri='postgresql://h/x', table='t', path='t.csv'", "'path' is not for source='database'"),
        ("path='t.csv', driver='sqlite3'", "'driver' is not for source='files'"),
        ("uri='postgresql://h/x', table='t', reload='on change'", "does not tell when"),
        ("path='t.csv', reload='0 s'", "must be longer than nothing"),
        ("path='t.csv', valid_from='k'", "which is no time"),
        ("path='t.csv', valid_from='nix'", "there is no column 'nix'"),
        ("path='t.csv', valid_to='b'", "needs to be told with from when"),
        ("uri='postgresql://me:hidden@h/x', table='t', reloed='never'", "there is no option 'reloed'"),
    ],
)
def test_what_cannot_be_said(options: str, told: str) -> None:
    with pytest.raises(StatementError, match=told) as caught:
        parse(f"CREATE TABLE t (k TEXT, b TIMESTAMP) WITH ({options})")
    assert "hidden" not in str(caught.value) and "hidden" not in repr(caught.value.args)


def test_passwords_are_not_in_texts() -> None:
    assert without_secrets("host=h Password = a1 user=u") == "host=h Password = ** user=u"
    for text in ("(uri='host=h password=''my own''', driver='d')", "password='my own' user=u"):
        assert "own" not in without_secrets(text) and len(without_secrets(text)) == len(text)
    (statement,) = parse("CREATE TABLE t (k TEXT) WITH (uri='postgresql://me:hidden@h:1/x?sslkey=k', table='a.b')")
    assert "hidden" not in repr(statement).replace(statement.text, "").replace(statement.script, "")
    assert isinstance(statement, CreateTable)
    definition = statement.definition
    assert definition.path == "postgresql://h:1/x" and definition.driver == "adbc_driver_postgresql.dbapi"
    assert definition.query == 'SELECT "k" FROM "a"."b"' and definition.reload == 600_000_000


def test_postgresql_gives_values_of_every_kind(postgres: Server) -> None:
    postgres.run("""
        CREATE TYPE mood AS ENUM ('ok', 'bad');
        CREATE TABLE kinds (b boolean, s smallint, i integer, l bigint, r real, d double precision, n numeric(12, 3),
            t text, x bytea, da date, ts timestamp, tz timestamptz, u uuid, j jsonb, e mood, a integer[]);
        INSERT INTO kinds VALUES (true, 1, 2, 3, 0.5, 0.25, 12.345, 'tä', '\\x01ff', '2026-01-02',
            '2026-01-02 03:04:05.000006', '2026-01-02 03:04:05+02',
            '6f9619ff-8b86-d011-b42d-00c04fc964ff', '{"a": 1}', 'bad', '{1,NULL,3}');
        INSERT INTO kinds DEFAULT VALUES;
    """)
    columns = {
        "b": "BOOLEAN", "s": "SMALLINT", "i": "INTEGER", "l": "BIGINT", "r": "FLOAT", "d": "DOUBLE",
        "n": "DECIMAL(12,3)", "t": "VARCHAR", "x": "BLOB", "da": "DATE", "ts": "TIMESTAMP", "tz": "TIMESTAMP",
        "j": "VARCHAR", "e": "VARCHAR", "a": "INTEGER[]",
    }  # fmt: skip
    query = f"SELECT {', '.join(columns)}, u::text AS u FROM kinds ORDER BY b NULLS LAST"
    definition = table(query, "adbc_driver_postgresql.dbapi", **columns, u="UUID")
    first, second = read_database(definition, postgres.uri(), ALLOWED).to_pylist()
    assert set(second.values()) == {None}
    assert first["n"] == decimal.Decimal("12.345") and first["x"] == b"\x01\xff" and first["a"] == [1, None, 3]
    assert first["ts"] == dt.datetime(2026, 1, 2, 3, 4, 5, 6) and first["tz"] == dt.datetime(2026, 1, 2, 1, 4, 5)
    assert (first["t"], first["e"], first["da"], first["j"]) == ("tä", "bad", dt.date(2026, 1, 2), '{"a": 1}')
    assert str(first["u"]).replace("-", "") == "6f9619ff8b86d011b42d00c04fc964ff" or first["u"].hex()


def test_a_stream_is_joined_with_a_table_of_postgresql(postgres: Server, tmp_path: Path) -> None:
    postgres.run("""
        CREATE TABLE airport (faa text PRIMARY KEY, name text);
        INSERT INTO airport VALUES ('JFK', 'Kennedy'), ('EWR', 'Newark');
    """)
    clock = [0]
    with millpond.open(tmp_path / "pond", executor="inline", clock=lambda: clock[0]) as pond:
        for wrong, told in (
            (postgres.uri(password="wrong-one"), "password authentication failed"),
            (postgres.uri(database="nix"), "does not exist"),
            ("postgresql://me:wrong-one@127.0.0.1:1/x", "refused"),
        ):
            with pytest.raises(StatementError, match=told) as caught:
                pond.sql(f"CREATE TABLE t (faa TEXT) WITH (uri='{wrong}', table='airport')")
            assert "wrong-one" not in str(caught.value) and postgres.password not in str(caught.value)
        made = pond.sql(f"""
            CREATE STREAM s (ts TIMESTAMP, dest TEXT) WITH (event_time='ts');
            CREATE TABLE airport (faa TEXT, name TEXT)
              WITH (uri='{postgres.uri()}', table='public.airport', reload='1 minute');
        """)
        assert postgres.password not in repr(made)
        pond.sql("CREATE QUERY q AS SELECT ISTREAM(dest, name) FROM s [NOW] LEFT JOIN airport a ON a.faa = s.dest")
        pond.ingest(
            "s", [{"ts": f"2026-01-01 00:00:0{n}", "dest": d} for n, d in enumerate(("JFK", "LAX", "EWR", "EWR"))]
        )
        pond.drain()
        postgres.run("UPDATE airport SET name = 'Liberty' WHERE faa = 'EWR'; INSERT INTO airport VALUES ('LAX', 'LA')")
        clock[0] += 61_000_000
        pond.ingest("s", [{"ts": f"2026-01-01 00:00:1{n}", "dest": d} for n, d in enumerate(("LAX", "EWR"))])
        pond.drain(final=True)
        names = [r[2] for r in pond.sql("SELECT * FROM q ORDER BY at").rows()]
        assert names == ["Kennedy", None, "Newark", "Liberty", "LA", "Liberty"]
        told = pond.sql("SHOW TABLES").rows()[0]
        assert told[1] == f"postgresql://127.0.0.1:{postgres.port}/postgres" and told[4:6] == (2, 3)
        assert "airport" in pond.describe("airport")["query"] and postgres.password not in str(pond.describe("airport"))
        _nowhere_but_in_its_file(tmp_path, postgres.password)
        postgres.run("ALTER TABLE airport RENAME TO gone")
        with pytest.raises(millpond.MillpondError, match=r"does not exist.*version 2 stays"):
            pond.sql("REFRESH TABLE airport")


def _nowhere_but_in_its_file(folder: Path, password: str) -> None:
    found = [p for p in folder.rglob("*") if p.is_file() and password.encode() in p.read_bytes()]
    assert [p.name for p in found] == ["connection.json"]
    assert os.stat(found[0]).st_mode & 0o077 == 0
