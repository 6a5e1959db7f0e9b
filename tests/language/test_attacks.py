"""Texts that try to reach files, network, settings or other SQL; and random texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.language import Copy, CreateQuery, Explain, Select, bind_query, bind_select, parse
from millpond.language.builtins.allowed import AGGREGATES, RELATION_AGGREGATES, SCALARS, WINDOW_FUNCTIONS
from millpond.language.builtins.approximate import OURS
from millpond.language.inference.duck import Refused, describe
from millpond.support.errors import StatementError
from millpond.types import MERGED, RowScan

W = "[RANGE 5 m SLIDE 1 m]"

ATTACKS = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM 'https://example.com/x.parquet'",
    "SELECT * FROM parquet_scan('x')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM sniff_csv('x')",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_tables",
    "SELECT * FROM system.main.read_text('x')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM slow, LATERAL read_text('x')",
    "SELECT * FROM (SELECT * FROM read_text('x'))",
    "WITH a AS (SELECT * FROM read_text('x')) SELECT * FROM a",
    'SELECT * FROM (WITH "/etc/passwd" AS (SELECT 1) SELECT 1) a, "/etc/passwd"',
    "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM read_text('x')) SELECT * FROM a",
    "SELECT * FROM slow, json_execute_serialized_sql('x')",
    "PIVOT read_csv('/etc/passwd') ON a USING sum(b)",
    "TABLE '/etc/passwd'",
    "SELECT list_transform([1], lambda x: getenv('HOME')) FROM reading",
    "SELECT list_transform([1], lambda x: getenv('HOME'))",
    "SELECT [getenv('HOME') FOR x IN [1]] FROM reading",
    "SELECT * FROM range(1) AS r, read_text('x')",
    "SELECT getenv('HOME')",
    "SELECT current_setting('secret_directory')",
    "SELECT main.getenv('HOME')",
    "SELECT system.main.getenv('HOME')",
    "SELECT \"getenv\"('HOME')",
    "SELECT GetEnv('HOME')",
    "SELECT getenv/**/('HOME')",
    "SELECT 'HOME'.getenv()",
    "SELECT current_user",
    "SELECT session_user",
    "SELECT version()",
    "SELECT nextval('x')",
    "SELECT read_text('/etc/passwd')",
    "SELECT json_execute_serialized_sql('x')",
    "SELECT list_transform([1], lambda x: getenv('HOME'))",
    "SELECT list_transform([1], x -> getenv('HOME'))",
    "SELECT $1",
    "SELECT ?",
    "SELECT 1::\"INTEGER) FROM read_text('x') --\"",
    "SELECT CAST(1 AS STRUCT(a INTEGER, \"b) FROM read_text('x')--\" foo))",
    "CREATE STREAM s (ts TIMESTAMP, a \"INT); ATTACH 'x'; --\")",
    "CREATE STREAM s (ts TIMESTAMP, a INT DEFAULT getenv('HOME'))",
    "SELECT INTERVAL '1 DAY) FROM read_text(x) --'",
    "SELECT INTERVAL '1 x\"y' FROM reading",
    "SELECT extract(\"x FROM read_text('y')\" FROM ts) FROM reading",
    "PRAGMA database_list",
    "ATTACH 'x.db' AS x",
    "COPY (SELECT * FROM read_text('x')) TO 'x.csv'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 4",
    "RESET threads",
    "EXPORT DATABASE 'x'",
    "IMPORT DATABASE 'x'",
    "CALL pragma_version()",
    "USE x",
    "VACUUM",
    "CREATE MACRO f() AS 1",
    "CREATE VIEW v AS SELECT 1",
    "SELECT 1 INTO OUTFILE 'x'",
    "SELECT 1; ATTACH 'x'",
    "SELECT 1 /* ; */; DELETE FROM reading",
    "SELECT 'a' || ''; INSTALL x; --'",
    "SUMMARIZE reading",
    "SELECT * FROM (DESCRIBE reading)",
    "SELECT * FROM (SHOW ALL TABLES)",
    "SELECT * FROM slow TABLESAMPLE 10%",
    "SELECT * FROM slow AT (VERSION => 1)",
    "FROM slow |> WHERE mph > 1",
    f"CREATE QUERY q AS SELECT count(*) FROM reading {W} WHERE getenv('HOME') = sensor",
    f"CREATE QUERY q AS SELECT count(*) FROM reading {W} WHERE sensor = (SELECT content FROM read_text('x'))",
    f"CREATE QUERY q AS SELECT count(*) FROM reading {W} WHERE EXISTS (SELECT 1 FROM read_text('x'))",
    f"CREATE QUERY q AS SELECT list(getenv('HOME')) FROM reading {W}",
    f"CREATE QUERY q AS SELECT count(*) FILTER (WHERE getenv('A') = 'b') FROM reading {W}",
    f"CREATE QUERY q AS SELECT list(n ORDER BY getenv('A')) FROM reading {W}",
    f"CREATE QUERY q AS SELECT string_agg(sensor, getenv('A')) FROM reading {W}",
    f"CREATE QUERY q AS SELECT count(*) FROM reading {W} GROUP BY getenv('A')",
    f"CREATE QUERY q AS SELECT count(*) FROM reading {W} LIMIT (SELECT 1)",
    f"CREATE QUERY q AS SELECT count(*) FROM reading {W} ORDER BY getenv('A')",
    f"CREATE QUERY q AS SELECT count(*) FROM reading {W} UNION SELECT 1",
]


def understand(catalog, script: str) -> list:
    bound = []
    for statement in parse(script):
        if isinstance(statement, CreateQuery):
            bound.append(bind_query(statement.select, catalog))
        elif isinstance(statement, Select | Copy):
            bound.append(bind_select(statement.select, catalog))
        elif isinstance(statement, Explain) and not isinstance(statement.target, str):
            bound.append(bind_select(statement.target, catalog))
    return bound


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_refused(catalog, attack):
    with pytest.raises(StatementError):
        understand(catalog, attack)


@pytest.mark.parametrize(
    "text",
    [
        "'); ATTACH 'x'; --",
        "\"); SELECT getenv('HOME')",
        "/* */ -- ;",
        "\\'; DROP TABLE x; --",
        "$$; $$",
    ],
)
def test_texts_stay_texts(catalog, text):
    """Whatever stands in a text or a quoted name comes out as the same text or name."""
    literal = "'" + text.replace("'", "''") + "'"
    (bound,) = understand(catalog, f"SELECT {literal} AS v FROM reading WHERE sensor <> {literal}")
    assert isinstance(bound, RowScan)
    assert str(bound.select[0].expression) == literal
    name = '"' + text.replace('"', '""') + '"'
    (bound,) = understand(catalog, f"SELECT n AS {name} FROM reading")
    assert bound.select[0].name == text
    (relation,) = understand(catalog, f"SELECT mph AS {name}, {literal} AS b FROM slow")
    assert relation.sql == f'SELECT "mph" AS {name}, {literal} AS "b" FROM "r0" AS "slow"'


def test_comments_never_reach_duckdb(catalog):
    (bound,) = understand(catalog, "SELECT n /* one */ + -- two\n 1 AS v FROM reading WHERE /* three */ ok")
    assert (str(bound.select[0].expression), str(bound.where)) == ('"n" + 1', '"ok"')
    (relation,) = understand(catalog, "SELECT mph /* one */ FROM slow -- two")
    assert relation.sql == 'SELECT "mph" FROM "r0" AS "slow"'


def test_the_describing_connection_reaches_nothing():
    for sql in (
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM some_python_variable",
    ):
        some_python_variable = [1]
        assert some_python_variable
        with pytest.raises(Refused):
            describe(sql)


def test_what_stands_for_registered_aggregates_cannot_be_written(catalog):
    with pytest.raises(StatementError, match=f"there is no function {MERGED}"):
        understand(catalog, f"SELECT {MERGED}(mph) FROM reading")


def test_allowed_functions_exist_and_are_pure():
    """Every allowed name is a function of DuckDB without side effects."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.execute("SELECT function_name, function_type, stability FROM duckdb_functions()").fetchall()
    known = {name for name, _, _ in rows}
    syntax = {
        "coalesce",
        "ifnull",
        "grouping",
        "percentile_cont",
        "percentile_disc",
        "struct_pack",
        "row",
        "rank_dense",
        "try",
    }
    # OURS are rewritten, and never reach DuckDB by their names; MERGED stands for what somebody has registered.
    windows = WINDOW_FUNCTIONS | syntax | OURS | {MERGED}
    assert not {f for f in SCALARS | set(AGGREGATES) | RELATION_AGGREGATES if f not in known | windows}
    volatile = {name for name, _, stability in rows if stability == "VOLATILE"}
    assert not volatile & (SCALARS | RELATION_AGGREGATES | WINDOW_FUNCTIONS)
    tables = {name for name, kind, _ in rows if kind in ("table", "table_macro", "pragma")}
    assert not tables & SCALARS - {
        "repeat",
        "range",
        "generate_series",
    }  # both kinds exist; in an expression it is the pure one


WORD_LIST = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT AS reading slow sensors late dead ( ) [ ] , ; . * + - / = < > || :: RANGE
SLIDE TUMBLING ON ORIGIN ALIGN START 5 1.5 MINUTES s 'x' '2020-01-01' " ' -- /* */ sensor mph n ts ok count sum avg list
quantile_cont DISTINCT FILTER OVER WITHIN CASE WHEN THEN ELSE END CAST INTERVAL NULL NOT IN BETWEEN LIKE IS JOIN USING
UNION ALL REVISIONS WITH VALUES CREATE STREAM TABLE QUERY DROP SHOW EXPLAIN INVOKE DRAIN ALTER TIMESTAMP INT STRUCT MAP
path = '5s' lateness EXISTS { } ? $1 lambda : window_start QUALIFY EXCLUDE @ ~ ^ e'\\n'
"""
WORDS = WORD_LIST.split()


@settings(max_examples=250)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)))
def test_random_text_raises_statement_errors_only(text):
    from tests.language.conftest import Catalog

    global _CATALOG
    _CATALOG = _CATALOG or Catalog()
    try:
        understand(_CATALOG, text)
    except StatementError as error:
        assert str(error)


@settings(max_examples=250)
@given(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.sampled_from(["reading", f"reading {W}", "slow", "sensors s"]),
)
def test_random_queries_raise_statement_errors_only(items, rest, source):
    from tests.language.conftest import Catalog

    global _CATALOG
    _CATALOG = _CATALOG or Catalog()
    for head in ("", "CREATE QUERY q AS "):
        try:
            understand(_CATALOG, f"{head}SELECT {items or 'count(*)'} FROM {source} {rest}")
        except StatementError as error:
            assert str(error)


_CATALOG = None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT " + "1 + " * 20000 + "1 FROM reading",
        "SELECT " + "NOT " * 5000 + "ok FROM reading",
        "SELECT count(*) FROM " + "(SELECT * FROM " * 500 + "slow" + ")" * 500,
        "SELECT " + "abs(" * 2000 + "n" + ")" * 2000 + " FROM reading",
        "SELECT 1" + ", 1" * 200_000,
    ],
)
def test_deep_and_long_texts(catalog, text):
    try:
        understand(catalog, text)
    except StatementError as error:
        assert len(str(error)) < 2000
