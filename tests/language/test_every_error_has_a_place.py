"""Whatever is wrong with a statement, its error says line and column and puts a caret under what is wrong.

Errors of the syntax and of names are in `test_errors`; here are those of what does not go together (options, kinds of
windows, what a query reads), and a search for others: statements with a word left out, doubled or exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.language.syntax.dialect import tokenize
from millpond.support.errors import MillpondError, StatementError

SETTING = """
CREATE STREAM s (ts TIMESTAMP, k TEXT, v INTEGER) WITH (event_time = 'ts');
CREATE STREAM marked (ts TIMESTAMP, k TEXT, end_of BOOLEAN)
  WITH (event_time = 'ts', marks = 'record:end_of', marks_by = 'k', lateness = '1s', late = 'drop');
CREATE STREAM taken WITH (revisions = 'retract') AS SELECT k, count(*) AS c FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k;
CREATE TABLE t (k TEXT, name TEXT) WITH (path = '{path}');
CREATE TABLE dated (k TEXT, c INTEGER, since TIMESTAMP) WITH (path = '{path}', valid_from = 'since', missing = 'null');
CREATE QUERY windows AS SELECT k, count(*) AS c FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k;
CREATE QUERY several AS SELECT count(*) [RANGE 1 m SLIDE 1 m] AS a, count(*) [RANGE 2 m SLIDE 1 m] AS b FROM s;
CREATE QUERY relation AS SELECT count(*) AS c FROM s [RANGE 1 MINUTE];
CREATE QUERY rows AS SELECT k FROM s WHERE v > 3;
"""

W, Q = "[RANGE 1 m TUMBLING]", "CREATE QUERY q AS SELECT"

#: A statement with «…» around what the caret must be under, and a part of the message.
TOGETHER = [
    (f"{Q} «RSTREAM»(*) FROM s [NOW]", "say how often"),
    ("SELECT «RSTREAM»(*) FROM s [NOW]", "say how often"),
    (f"{Q} ISTREAM(*) FROM s [NOW] WITH («every» = '1 s')", "'every' is for RSTREAM"),
    (f"{Q} count(*) FROM s {W} WITH («every» = '1 s')", "'every' is for RSTREAM"),
    (f"{Q} count(*) FROM s {W} WITH («flush» = 'slow')", "no GROUP BY"),
    ("CREATE QUERY q WITH («flush» = 'slow') AS SELECT k AS flush, count(*) FROM s [NOW] GROUP BY k", "at instants"),
    (f"{Q} k, count(*) FROM s {W} GROUP BY k LIMIT 3 WITH («flush» = 'lazy')", "LIMIT"),
    (f"{Q} k, count(*) FROM marked {W} GROUP BY k WITH («flush» = 'lazy')", "marks_by"),
    (f"{Q} count(*) FROM s [RANGE 1 m] WITH («empty» = 'report')", "every instant"),
    (f"{Q} count(*) FROM s [ROWS 3 SLIDE 1] WITH («empty» = 'report')", "holds it"),
    (f"{Q} count(*) FROM s [RANGE ALL SLIDE 1 m] WITH («empty» = 'report')", "by itself"),
    (f"{Q} count(*) FROM taken {W} WITH («empty» = 'report')", "take others back"),
    (f"{Q} count(*) FROM s {W} WITH («materialize» = 'none')", "is for row queries"),
    (f"{Q} count(*) FROM s [ROWS 3 SLIDE 1] WITH («state» = 'lazy')", "with a SLIDE"),
    (f"{Q} count(*) FROM s REDUCE sample(0.5) {W} WITH («state» = 'lazy')", "does not go with REDUCE"),
    (f"{Q} count(*) FROM s «REDUCE» BY INTERVAL '1 hour' [ROWS 3 SLIDE 1]", "sums over intervals"),
    ("SELECT k FROM s «REDUCE» BY INTERVAL '1 hour'", "INTERVAL"),
    (f"{Q} count(*) FROM «marked» [ROWS 3 SLIDE 1]", "late='drop'"),
    (f"{Q} k AS status, count(*) FROM s {W} GROUP BY k WITH («early» = '1 s')", "column status of their own"),
    (f"{Q} k FROM s WITH («early» = '1 s')", "is for window queries"),
    (f"{Q} k FROM s WITH («flush_delay» = '2 s')", "is for window queries"),
    (f"{Q} * FROM «rows»", "row query"),
    ("SELECT * FROM windows JOIN «rows» ON true", "row query"),
    ("SELECT k FROM s [NOW] WHERE k IN (SELECT k FROM «rows»)", "row query"),
    ("CREATE STREAM d AS SELECT * FROM «rows»", "row query"),
    ("CREATE STREAM d WITH («every» = '1 s') AS SELECT count(*) AS every FROM s [RANGE 1 m TUMBLING]", "RSTREAM"),
    ("CREATE STREAM d WITH («empty» = 'report') AS SELECT ts, k AS empty FROM s", "for streams of windows"),
    (f"{Q} ISTREAM(*) FROM s [NOW] LEFT JOIN t «[RANGE 1 m]» ON t.k = s.k", "how old the row of an ASOF JOIN"),
    (f"{Q} count(*) FROM s {W} LEFT JOIN t «[RANGE 1 m]» ON t.k = s.k", "how old the row of an ASOF JOIN"),
    (f"{Q} ISTREAM(v) FROM s [NOW] ASOF JOIN «t» ON t.k = s.k", "which times are compared"),
    (f"{Q} PAIRS(a.k) FROM s [NOW] a ASOF JOIN «s [RANGE 1 m] b» ON a.k = b.k", "which times are compared"),
    (f"{Q} PAIRS(a.k) FROM s [NOW] a JOIN s [NOW] b ON b.k = a.«kk»", "no column 'kk' in a"),
    (f"{Q} s.k, count(*) FROM s JOIN «t» USING (k) GROUP BY s.k", "'t' is a table"),
    ('CREATE QUERY «"#7"» AS SELECT k FROM s', "without a name"),
    ('CREATE QUERY «"7"» AS SELECT count(*) FROM s [RANGE 1 m TUMBLING]', "digits alone"),
    # joins: DuckDB quotes names at best, and says nothing of where in ON it means
    (f"{Q} name, count(*) FROM s {W} JOIN t ON t.k = s.«kk» GROUP BY name", "no column 'kk' in s"),
    (f"{Q} name, count(*) {W} FROM s JOIN t ON t.«nme» = s.k GROUP BY name", "no column 'nme' in t"),
    (f"{Q} name, count(*) FROM s {W} JOIN t ON t.k = s.k AND «t.k > 3» GROUP BY name", "cannot compare"),
    (f"{Q} name, count(*) FROM s {W} JOIN t ON «count(*) > 3» GROUP BY name", "aggregates"),
    (f"{Q} ISTREAM(a.k) FROM s [NOW] a JOIN t ON t.k = a.k WHERE a.v = 1 AND «a.ts > a.v»", "cannot compare"),
    (f"{Q} ISTREAM(c) FROM s [NOW] ASOF JOIN dated USING («k»)", "names the time last"),
    (f"{Q} ISTREAM(name) FROM s [NOW] ASOF JOIN «t»", "by which columns"),
    (f"{Q} ISTREAM(c) FROM s [NOW] ASOF JOIN dated d ON s.ts >= d.since AND «s.v > d.c»", "by one comparison"),
    (f"{Q} ISTREAM(name) FROM s [NOW] LEFT JOIN «t»", "how rows are compared"),
    (f"{Q} name, count(*) FROM s {W} LEFT JOIN «t» GROUP BY name", "how rows are compared"),
    (f"{Q} name, count(*) FROM s {W} POSITIONAL JOIN «t» GROUP BY name", "by their order"),
    (f"{Q} ISTREAM(name) FROM s [NOW] POSITIONAL JOIN «t»", "by their order"),
    (f"{Q} name, count(*) FROM s {W} NATURAL JOIN t ON «s.k = t.k» GROUP BY name", "no other condition"),
    (f"{Q} ISTREAM(name) FROM s [NOW] NATURAL JOIN t ON «s.k = t.k»", "no other condition"),
    (f"{Q} name, count(*) FROM s {W} JOIN «t» USING () GROUP BY name", "USING names"),
    (f"{Q} count(*) FROM s {W} JOIN t ON t.k = s.k JOIN «t» ON t.k = s.k", "two of FROM are called 't'"),
    (f"{Q} PAIRS(s.k, end_of) FROM s [NOW] JOIN marked [NOW] m ON s.k = m.k AND s.«vv» = 1", "no column 'vv' in s"),
    ("SELECT windows.k FROM windows JOIN t ON t.k = windows.k AND «windows.k > 3»", "cannot compare"),
]

#: The same, of statements that are not looked over before they are executed.
LATER = [
    ("INVOKE «taken»", "not a query but a stream"),
    ("INVOKE windows AS OF «'now'»", "not a timestamp"),
    ("INVOKE windows «BEGIN» NOW - 1 MINUTE", "is for row queries"),
    ("ALTER QUERY «rows» SET WINDOW [RANGE 1 m TUMBLING]", "row query"),
    ("ALTER QUERY «several» SET WINDOW [RANGE 1 m TUMBLING]", "has 2 windows"),
    ("ALTER STREAM s SET («retention» = '1 day')", "kept its rows for ever"),
    ("ALTER STREAM s SET («archive» = 'plain + summary(SELECT k FROM s [RANGE 1 m SLIDE 30 s])')", "an aggregate"),
    ("ALTER STREAM s SET («archive» = 'plain + summary(SELECT count(*) FROM s [RANGE 1 m SLIDE 30 s])')", "side by"),
]


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("places")
    (folder / "t.csv").write_text("k,name\na,A\n", encoding="utf-8")
    with millpond.open(folder / "pond", executor="inline") as opened:
        opened.sql(SETTING.format(path=folder / "t.csv"))
        yield opened


def pointed_at(error: MillpondError) -> str:
    """What the caret of an error is under."""
    assert isinstance(error, StatementError), repr(error)
    place, excerpt, carets = str(error).split("\n")[:3]
    assert re.match(r"line \d+, column \d+: .", place)
    found = re.fullmatch(r"( *)(\^+)", carets)
    assert found is not None
    return excerpt[len(found[1]) : len(carets)]


@pytest.mark.parametrize(("marked", "part"), [*TOGETHER, *LATER])
def test_what_does_not_go_together_is_pointed_at(pond: Any, marked: str, part: str) -> None:
    start, end = marked.index("«"), marked.index("»") - 1
    script = marked.replace("«", "").replace("»", "")
    ways = [pond.sql] if (marked, part) in LATER or '"' in marked else [pond.sql, pond.check]
    for execute in ways:
        with pytest.raises(MillpondError) as caught:
            execute("SHOW STREAMS;\n" + script)
        assert pointed_at(caught.value) == script[start:end], str(caught.value)
        assert str(caught.value).startswith("line 2, column ") and part in str(caught.value)


def test_a_query_that_is_registered_from_python_is_pointed_into(pond: Any) -> None:
    with pytest.raises(StatementError) as caught:
        pond.register("SELECT RSTREAM(*) FROM s [NOW]")
    assert pointed_at(caught.value) == "RSTREAM"
    with pytest.raises(millpond.QueryError, match="no GROUP BY"):  # the option is no part of the text
        pond.register("SELECT count(*) FROM s [RANGE 1 m TUMBLING]", flush="slow")


#: Statements that are right, of every kind that is bound.
RIGHT = [
    "CREATE QUERY q WITH (early = '1 s') AS SELECT k, avg(v) AS a FROM s [RANGE 5 m SLIDE 1 m] WHERE v > 1 GROUP BY k",
    "CREATE QUERY q AS SELECT k, max(v) FROM s [PARTITION BY k ROWS 5 SLIDE 2] GROUP BY k HAVING max(v) > 2",
    "CREATE QUERY q AS SELECT median(v) [RANGE 1 m SLIDE 1 m], count(*) [RANGE 2 m SLIDE 1 m] FROM s ORDER BY 1",
    "CREATE QUERY q AS SELECT ISTREAM(a.k, t.name) FROM s [NOW] AS a JOIN t ON a.k = t.k WHERE v IN (SELECT v FROM s)",
    "CREATE STREAM d WITH (retention = '2h') AS SELECT ts, k FROM s WHERE v BETWEEN 1 AND 3",
    "SELECT a.v, b.v FROM s AS a JOIN s AS b ON a.k = b.k AND a.v < 3 BEGIN NOW - 5 MINUTES END NOW",
    "SELECT k, corr(v, v + 1) FROM s REDUCE sample(0.5) GROUP BY k LIMIT 3",
    "SELECT w.k, c FROM windows AS w JOIN t ON w.k = t.k UNION ALL SELECT k, 0 FROM late(s)",
]
WORDS = ["rows", "k", ")", "1", "count", "BY", "s"]


@pytest.mark.parametrize("right", RIGHT)
def test_a_word_too_few_or_another_has_a_place(pond: Any, right: str) -> None:
    pond.check(right)
    tokens = tokenize(right)
    for n, token in enumerate(tokens):
        word = WORDS[n % len(WORDS)]
        for middle in ("", word, f"{right[token.start : token.end + 1]} {word}"):
            text = f"{right[: token.start]} {middle} {right[token.end + 1 :]}"
            try:
                pond.check(text)
            except MillpondError as error:
                pointed_at(error)
