"""Scripts into statements."""

from __future__ import annotations

import pytest

from millpond.language import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    Drain,
    Drop,
    Explain,
    Invoke,
    Select,
    Show,
    parse,
)
from millpond.types import ARRIVAL, DAY, MINUTE, SECOND, Column, StreamOptions


def one(text: str):
    (statement,) = parse(text)
    return statement


def test_script_of_many_statements_keeps_texts_and_offsets():
    script = "-- first\nSHOW STREAMS; /* ; */ SHOW TABLES ;;\n  DROP QUERY q -- end"
    statements = parse(script)
    assert [s.text for s in statements] == ["SHOW STREAMS", "SHOW TABLES", "DROP QUERY q"]
    assert all(script[s.offset :].startswith(s.text) for s in statements)
    assert all(s.script == script for s in statements)


@pytest.mark.parametrize("text", ["", " \n", ";", ";;", "-- only a comment", "/* a */"])
def test_nothing_is_no_statement(text):
    assert parse(text) == []


def test_semicolons_in_texts_and_names_do_not_split():
    (statement,) = parse("SELECT ';' AS \"a;b\"")
    assert isinstance(statement, Select)


def test_create_stream_with_all_options():
    statement = one(
        """create stream if not exists Reading (ts TIMESTAMP, sensor TEXT, "Odd Name" INT[])
           with (source = 'files', path = 'data/*.csv.gz', order = mtime, header = false, delimiter = ';', null = 'NA',
                 event_time = 'TS', lateness = '5s', idle = '30s', ahead = 10 minutes, late = 'drop', retention = '90d',
                 archive = 'plain')"""
    )
    assert isinstance(statement, CreateStream) and statement.if_not_exists
    assert statement.definition.name == "Reading"
    assert statement.definition.columns == (
        Column("ts", "TIMESTAMP"),
        Column("sensor", "VARCHAR"),
        Column("Odd Name", "INTEGER[]"),
    )
    assert statement.definition.options == StreamOptions(
        source="files", path="data/*.csv.gz", format="csv", order="mtime", header=False, delimiter=";", null="NA",
        time="ts", lateness=5 * SECOND, idle=30 * SECOND, ahead=10 * MINUTE, late="drop", retention=90 * DAY,
        missing="error",
    )  # fmt: skip


@pytest.mark.parametrize("text", [",", ")", "(", "=", "-", "+", ";", ".", "WITH"])
def test_a_text_is_no_sign(text):
    options = one(f"CREATE STREAM s (ts TIMESTAMP) WITH (path='a.csv', null='{text}', header=false)").definition.options
    assert (options.null, options.header) == (text, False)


@pytest.mark.parametrize(
    ("path", "format_", "delimiter"),
    [
        ("a.parquet", "parquet", ","),
        ("a/*.CSV", "csv", ","),
        ("a.tsv.zst", "csv", "\t"),
        ("a.ndjson", "ndjson", ","),
        ("a.jsonl.gz", "ndjson", ","),
        ("a.json", "ndjson", ","),
    ],
)
def test_format_comes_from_the_path(path, format_, delimiter):
    options = one(f"CREATE STREAM s (ts TIMESTAMP) WITH (path='{path}')").definition.options
    assert (options.source, options.format, options.delimiter) == ("files", format_, delimiter)


@pytest.mark.parametrize(
    ("written", "lateness", "rows"),
    [
        ("", None, None),
        ("WITH (ordered = true)", None, None),
        ("WITH (lateness = '100 rows')", None, 100),
        ("WITH (lateness = '1 minute 30 s')", 90 * SECOND, None),
        ("WITH (lateness = INTERVAL '5 minutes')", 5 * MINUTE, None),
        ("WITH (lateness = '0s')", 0, None),
    ],
)
def test_lateness(written, lateness, rows):
    options = one(f"CREATE STREAM s (ts TIMESTAMP, a INT) {written}").definition.options
    assert (options.lateness, options.lateness_rows) == (lateness, rows)


def test_event_time_is_the_only_timestamp_or_arrival():
    assert one("CREATE STREAM s (a INT, at TIMESTAMPTZ)").definition.options.time == "at"
    assert one("CREATE STREAM s (a INT) WITH (event_time = arrival)").definition.options.time == ARRIVAL
    assert one("CREATE STREAM s (a TIMESTAMP, b TIMESTAMP_NS) WITH (event_time = 'b')").definition.options.time == "b"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("int", "INTEGER"),
        ("text", "VARCHAR"),
        ("varchar(10)", "VARCHAR"),
        ("double precision", "DOUBLE"),
        ("float", "FLOAT"),
        ("hugeint", "HUGEINT"),
        ("ubigint", "UBIGINT"),
        ("decimal", "DECIMAL(18,3)"),
        ("numeric(10, 2)", "DECIMAL(10,2)"),
        ("timestamp with time zone", "TIMESTAMP WITH TIME ZONE"),
        ("timestamp_s", "TIMESTAMP_S"),
        ("blob", "BLOB"),
        ("time", "TIME"),
        ("interval", "INTERVAL"),
        ("uuid", "UUID"),
        ("int[][]", "INTEGER[][]"),
        ("int[3]", "INTEGER[3]"),
        ('struct(a int, "b c" text[])', 'STRUCT(a INTEGER, "b c" VARCHAR[])'),
        ("map(text, int)", "MAP(VARCHAR, INTEGER)"),
        ("enum('a', 'it''s')", "ENUM('a', 'it''s')"),
    ],
)
def test_types_are_canonical(written, canonical):
    statement = one(f"CREATE STREAM s (ts TIMESTAMP, a {written}) WITH (event_time = ts)")
    assert statement.definition.columns[1].type == canonical


def test_create_table():
    statement = one("CREATE TABLE t (id TEXT) WITH (path = 'x.csv', delimiter = '\\t')")
    assert isinstance(statement, CreateTable)
    assert (statement.definition.format, statement.definition.delimiter) == ("csv", "\t")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REPLACE QUERY q WITH (since = 'start', empty = 'report', revise_for = '2 days') AS SELECT a FROM b",
        "CREATE OR REPLACE QUERY q AS SELECT a FROM b WITH (since = start, empty = report, revise_for = 2 DAYS)",
    ],
)
def test_create_query_options_before_or_behind(text):
    statement = one(text)
    assert isinstance(statement, CreateQuery)
    assert (statement.name, statement.replace, statement.if_not_exists) == ("q", True, False)
    options = statement.options
    assert (options.since, options.empty, options.revise_for) == ("start", "report", 2 * DAY)
    assert statement.select.tree.sql() == "SELECT a FROM b"


def test_since_a_timestamp():
    assert one("CREATE QUERY q AS SELECT 1 FROM b WITH (since = TIMESTAMP '1970-01-02')").options.since == DAY
    assert one("CREATE QUERY q WITH (since = '1970-01-01T01:00:00+01:00') AS SELECT 1 FROM b").options.since == 0


def test_small_statements():
    drop = one("DROP STREAM IF EXISTS s CASCADE")
    assert isinstance(drop, Drop) and (drop.kind, drop.name, drop.if_exists, drop.cascade) == (
        "stream",
        "s",
        True,
        True,
    )
    show = one("show synopses")
    assert isinstance(show, Show) and show.what == "synopses"
    explain = one("EXPLAIN ANALYZE SELECT 1")
    assert isinstance(explain, Explain) and explain.analyze and not isinstance(explain.target, str)
    assert one("EXPLAIN q").target == one("EXPLAIN QUERY q").target == "q"
    assert isinstance(one("DRAIN"), Drain) and not one("DRAIN").final and one("DRAIN FINAL").final
    alter = one("ALTER QUERY q pause")
    assert isinstance(alter, AlterQuery) and (alter.name, alter.action) == ("q", "pause")
    assert one('ALTER QUERY "Odd q" RESUME').action == "resume"


@pytest.mark.parametrize(
    ("text", "as_of"),
    [
        ("INVOKE q", None),
        ("INVOKE q AS OF WATERMARK", "watermark"),
        ("INVOKE q AS OF TIMESTAMP '1970-01-01 00:00:01'", ("timestamp", SECOND)),
        ("INVOKE q AS OF '1970-01-01 00:00:01'", ("timestamp", SECOND)),
        ("INVOKE q AS OF EPOCH 12", ("epoch", 12)),
    ],
)
def test_invoke(text, as_of):
    statement = one(text)
    assert isinstance(statement, Invoke) and (statement.query, statement.as_of) == ("q", as_of)
