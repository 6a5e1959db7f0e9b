"""SHOW CREATE gives a statement that makes the same again, whatever options it was made with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millpond.language import parse
from millpond.support.errors import MillpondError
from millpond.support.sql import quote
from millpond.testing.case_records import File, Statement, parse_case
from millpond.types.options import StreamTerms, options_of

STREAMS = [
    "CREATE STREAM x (ts TIMESTAMP)",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (lateness = '90s', idle = '10s', ahead = '1 day', late = 'drop')",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (lateness = '100 rows', retention = '30d', step = '1 minute')",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (lateness = 'auto', timer = '1s', lull = '10s')",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (lateness = 'p99.5', seed = 5, archive = 'randomize(64)')",
    "CREATE STREAM x (k TEXT) WITH (event_time = 'arrival')",
    "CREATE STREAM x (a TIMESTAMP, b TIMESTAMP) WITH (event_time = 'b', marks = 'column:a')",
    "CREATE STREAM x (a TIMESTAMP, b TIMESTAMP) WITH (event_time = 'b', marks = 'column:a', ordered = true)",
    "CREATE STREAM x (ts TIMESTAMP, k INT) WITH (marks = 'record:k = 1', marks_by = 'k', marks_groups = 5,"
    " guard = 'reject', lateness = '5s')",
    "CREATE STREAM x (ts TIMESTAMP, k INT, m TEXT) WITH (marks = 'record:k = 1', marks_by = 'm, k')",
    "CREATE STREAM x (t BIGINT, ts TIMESTAMP AS (epoch_ms(t)), u INT AS (t + 1))",
    "CREATE STREAM x (t BIGINT) WITH (event_time = 't', time_format = 'ns')",
    "CREATE STREAM x (t DOUBLE, ts TIMESTAMP, d DATE AS (CAST(ts AS DATE))) WITH (event_time = 't',"
    " time_format = 's', marks = 'column:ts')",
    "CREATE STREAM x (\"a b\" TEXT, k TEXT) WITH (event_time = '\"a b\"', late = 'drop')",
    "CREATE STREAM x (d DATE, t TIME) WITH (event_time = 'd, t', lateness = '5s')",
    "CREATE STREAM x (d DATE, k TEXT) WITH (event_time = 'd')",
    "CREATE STREAM x (d TEXT, t TEXT) WITH (event_time = 'd, t', time_format = '%d.%m.%Y %H:%M')",
    "CREATE STREAM x (t TEXT) WITH (event_time = 'timezone(''Europe/Berlin'', strptime(t, ''%H:%M''))')",
    "CREATE STREAM x (ts TIMESTAMP, \"a b\" STRUCT(\"x y\" INT, z TEXT[]), e ENUM('a', 'it''s'), m MAP(TEXT, INT))",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (path = '{folder}/*.csv', header = false, delimiter = ';',"
    " null = 'NA')",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (path = '{folder}/*.tsv', order = 'mtime', missing = 'null')",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (path = '{folder}', operators = '')",
    "CREATE STREAM x (ts TIMESTAMP, k TEXT) WITH (path = '{folder}/a', format = 'ndjson')",
]


@pytest.mark.parametrize("statement", STREAMS)
def test_streams(inline_pond: Callable[..., Any], tmp_path: Path, statement: str) -> None:
    pond = inline_pond()
    text = statement.replace("{folder}", str(tmp_path))
    pond.sql(text)
    [(shown,)] = pond.sql("SHOW CREATE x").rows()
    [made], [again] = parse(text), parse(shown)
    assert replace(again.definition, id=0) == made.definition  # type: ignore[attr-defined]  # both are CreateStream
    pond.sql("DROP STREAM x")
    pond.sql(shown)
    assert pond.sql("SHOW CREATE STREAM x").rows() == [(shown,)]


def test_an_event_time_that_options_stand_for_is_shown_as_these(inline_pond: Callable[..., Any]) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM x (t BIGINT, k TEXT) WITH (event_time = 't', time_format = 'ms')")
    [(shown,)] = pond.sql("SHOW CREATE x").rows()
    assert (
        shown == "CREATE STREAM x (\n  t BIGINT,\n  k VARCHAR\n) WITH (\n  event_time = 't',\n  time_format = 'ms'\n)"
    )
    pond.sql("ALTER STREAM x ADD COLUMN v INT")  # behind event_ts, where no option puts it
    [(shown,)] = pond.sql("SHOW CREATE x").rows()
    assert "event_ts TIMESTAMP AS (" in shown and shown.index("event_ts") < shown.index("v INTEGER")
    columns = pond.sql("DESCRIBE x").rows()
    pond.sql(f"DROP STREAM x; {shown}")
    assert pond.sql("SHOW CREATE x").rows() == [(shown,)]
    assert [row[:2] for row in pond.sql("DESCRIBE x").rows()] == [row[:2] for row in columns]


def test_what_was_altered_of_a_derived_stream_stands_behind_it(inline_pond: Callable[..., Any]) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT); CREATE STREAM d WITH (retention = '2h') AS SELECT ts FROM s")
    [(made,)] = pond.sql("SHOW CREATE d").rows()
    assert made == "CREATE STREAM d WITH (retention = '2h') AS SELECT ts FROM s"
    for change, behind in (
        ("retention = '5h'", "retention = '5h'"),
        ("retention = 'forever', archive = 'randomize(64)'", "archive = 'randomize(64)', retention = 'forever'"),
        ("archive = 'plain', retention = '2h'", ""),
    ):
        pond.sql(f"ALTER STREAM d SET ({change})")
        [(shown,)] = pond.sql("SHOW CREATE d").rows()
        assert shown == (f"{made};\nALTER STREAM d SET ({behind})" if behind else made)
        pond.sql(f"DROP STREAM d; {shown}")
        assert pond.sql("SHOW CREATE d").rows() == [(shown,)]


def test_every_option_is_tried() -> None:
    told = " ".join(STREAMS)
    elsewhere = {"source", "archive_at"}
    assert not {name for name in options_of(StreamTerms) if name not in told and f"{name} =" not in told} - elsewhere


def test_tables_and_queries(inline_pond: Callable[..., Any], tmp_path: Path) -> None:
    pond = inline_pond()
    (tmp_path / "t.csv").write_text("k;since\na;2024-01-01\n")
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INT)")
    pond.sql(
        f"""
        CREATE TABLE t (k TEXT, since TIMESTAMP)
        WITH (path = '{tmp_path}/t.csv', delimiter = ';', reload = 'never', valid_from = 'since');
        CREATE QUERY w WITH (since = 'start', revise_for = '2 hours')
            AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k;
        CREATE QUERY r AS SELECT k FROM s WHERE k IN (SELECT 'x') OR v = 1 BEGIN NOW - 5 MINUTES END NOW
    """.replace("k IN (SELECT 'x') OR ", "")
    )
    pond.sql("CREATE STREAM d WITH (retention = '2h') AS SELECT ts, k FROM s WHERE v > 0")
    pond.register("SELECT max(v) AS m FROM s [RANGE TUMBLING 1 HOUR]", name="by hand", early="10s")
    for name in ("t", "w", "r", "d", '"by hand"'):
        [(shown,)] = pond.sql(f"SHOW CREATE {name}").rows()
        kind = shown.split()[1]
        pond.sql(f"DROP {kind} {name}")
        pond.sql(shown)
        assert pond.sql(f"SHOW CREATE {kind} {name}").rows() == [(shown,)]
    pond.sql("ALTER QUERY w SET revise_for = '3 hours'")
    assert "revise_for = '3h'" in pond.sql("SHOW CREATE w").rows()[0][0]


CASES = Path(__file__).parents[1] / "cases"
_QUICK = ("cql/sql_forms", "queries/over_queries", "derived/union", "windows/several", "selections/n_way")
FILES = [
    pytest.param(file, id=name, marks=() if name in _QUICK else pytest.mark.slow)
    for file in sorted(CASES.rglob("*.slt"))
    for name in [str(file.relative_to(CASES).with_suffix(""))]
]


def _shown(pond: Any) -> dict[tuple[str, str], str]:
    """What SHOW CREATE says of everything in a pond."""
    names = [(kind, name) for kind in ("stream", "table") for (name, *_) in pond.sql(f"SHOW {kind.upper()}S").rows()]
    fed = {name for _, name in names}
    names += [("query", name) for (name, *_) in pond.sql("SHOW QUERIES").rows() if name not in fed]
    return {(k, n): pond.sql(f"SHOW CREATE {k} {quote(n)}").rows()[0][0] for k, n in names}


@pytest.mark.parametrize("file", FILES)
def test_what_is_shown_of_any_case_makes_the_same_in_another_pond(
    inline_pond: Callable[..., Any], tmp_path: Path, file: Path
) -> None:
    pond, other = inline_pond("one"), inline_pond("other")
    case = parse_case(file.read_text(), str(file))
    for record in case.records:
        if isinstance(record, File):
            (tmp_path / record.folder).mkdir(parents=True, exist_ok=True)
        if isinstance(record, Statement) and record.error is None and "{dir}" not in record.sql:
            with suppress(MillpondError):  # of what had a file, or rows
                pond.sql(record.sql)
    shown = _shown(pond)
    assert shown or "{dir}" in file.read_text()
    waiting = list(shown.values())
    while waiting:  # a query over a query comes behind it, whatever they are called
        refused = [text for text in waiting if not _made(other, text)]
        assert len(refused) < len(waiting), refused
        waiting = refused
    assert _shown(other) == shown


def _made(pond: Any, text: str) -> bool:
    try:
        pond.sql(text)
    except MillpondError:
        return False
    return True


def test_a_query_over_a_query_is_shown_as_it_is_made_again(inline_pond: Callable[..., Any]) -> None:
    pond, other = inline_pond("one"), inline_pond("other")
    stream = "CREATE STREAM s (ts TIMESTAMP, v INT)"
    pond.sql(f"{stream}; CREATE QUERY q AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 1 MINUTE]")
    pond.ingest("s", [{"ts": "2026-03-01 09:00:30", "v": 1}, {"ts": "2026-03-01 09:05:00", "v": 2}])
    pond.drain()
    pond.sql("CREATE QUERY over AS SELECT max(v) AS v FROM q [RANGE TUMBLING 1 HOUR]")
    pond.sql("CREATE QUERY later WITH (since = '2026-03-01 09:02:00') AS SELECT v FROM q WHERE v > 1")
    shown = _shown(pond)
    for text in shown.values():
        other.sql(text)
    assert _shown(other) == shown


@pytest.mark.parametrize(
    "word", ["order", "select", "date", "end", "as", "primary", "check", "range", "Group", "ts2", "über"]
)
def test_names_that_are_words_of_the_language(inline_pond: Callable[..., Any], word: str) -> None:
    pond = inline_pond()
    pond.sql(f'CREATE STREAM "{word}" (ts TIMESTAMP, "{word}" INT)')
    [(shown,)] = pond.sql(f'SHOW CREATE STREAM "{word}"').rows()
    assert f'"{word}" INTEGER' in shown or word == "ts2"
    pond.sql(f'DROP STREAM "{word}"')
    pond.sql(shown)
    assert pond.sql(f'SHOW CREATE STREAM "{word}"').rows() == [(shown,)]
