"""Wrong statements: each gives one StatementError that points at the right place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.language import CreateQuery, Explain, Select, bind_select, bind_standing, parse
from millpond.support.errors import StatementError

W = "[RANGE 5 m SLIDE 1 m]"
Q = "CREATE QUERY q AS"

#: statement with «…» around the place that the error points at; a part of the message; nearest name.
WRONG = [
    # statements
    ("«SELEC» count(*) FROM reading", "does not start a statement", "SELECT"),
    ("«INSERT» INTO reading VALUES (1)", "does not start a statement", ""),
    ("«5»", "does not start a statement", ""),
    ("CREATE «STEAM» s (a TIMESTAMP)", "not expected", "STREAM"),
    ("CREATE OR REPLACE «STREAM» s (a TIMESTAMP)", "OR REPLACE is for queries", ""),
    ("SHOW «STREAM»", "not expected", "STREAMS"),
    ("SHO«W»", "breaks off", ""),
    ("DROP «» reading", "not expected", ""),
    ("DROP STREAM «'s'»", "cannot be the name", ""),
    ("DROP STREAM a«.»b", "names have one part", ""),
    ("DRAIN «NOW»", "not expected", ""),
    ("ALTER QUERY q «STOP»", "not expected", ""),
    ("INVOKE q AS OF «YESTERDAY»", "not expected", ""),
    ("INVOKE q AS OF TIMESTAMP «'never'»", "not a timestamp", ""),
    ("INVOKE q AS OF EPOCH «1.5»", "whole number", ""),
    ("SHOW STREAMS «SHOW» TABLES", "not expected", ""),
    ("SELECT «'»abc", "text is not closed", ""),
    ("SELECT 1 «/»* abc", "comment is not closed", ""),
    ("SELECT «0x1F»", "is no number", ""),
    ("SELECT a FROM reading «WHERE»", "missing", ""),
    # CREATE STREAM, CREATE TABLE
    ("CREATE STREAM s (a «foo»)", "there is no type foo", ""),
    ("CREATE STREAM s (a «INTEGR»)", "there is no type INTEGR", "INTEGER"),
    ("CREATE STREAM s (a «UNION(x INT)»)", "cannot be carried by Arrow", ""),
    ("CREATE STREAM s (a TIMESTAMP, «A» INT)", "declared twice", ""),
    ("CREATE STREAM s («_n» INT)", "of its own beside those of users", ""),
    ("CREATE STREAM s (a TIMESTAMP «b»)", "not expected", ""),
    ("CREATE STREAM s (a«)»", "has no type", ""),
    ("CREATE STREAM s (a DECIMAL(«50»,2))", "", ""),
    ("CREATE «STREAM» s (a TIMESTAMP, b TIMESTAMP)", "which column is the event time", ""),
    ("CREATE «STREAM» s (a DATE)", "no timestamp column", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH («latenes»='5s')", "no option 'latenes'", "lateness"),
    ("CREATE STREAM s (a TIMESTAMP) WITH (late='drop', «late»='drop')", "given twice", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (late=«'dorp'»)", "cannot be 'dorp'", "drop"),
    ("CREATE STREAM s (a TIMESTAMP) WITH (lateness=«'5 parsecs'»)", "not a unit of time", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (retention=«'1 month'»)", "no fixed length", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (lateness=«'p0'»)", "no percentile", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH («lull»='1s')", "lull is for a stream with a timer", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (timer=«'0s'»)", "longer than nothing", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH («guard»='reject')", "is for a stream with marks", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (marks=«'colum:a'»)", "cannot be 'colum:a'", "column"),
    ("CREATE STREAM s (a TIMESTAMP) WITH (marks=«'column:a'»)", "no bound on what follows", ""),
    ("CREATE STREAM s (a TIMESTAMP, k TEXT) WITH (marks=«'column:k'»)", "cannot be a bound on event times", ""),
    ("CREATE STREAM s (a TIMESTAMP, wm TIMESTAMP) WITH (event_time='a', marks=«'column:wn'»)", "no column 'wn'", ""),
    ("CREATE STREAM s (a TIMESTAMP, kind INT) WITH (marks=«'record:knd = 1'»)", "no column 'knd'", "kind"),
    (
        "CREATE STREAM s (a TIMESTAMP, kind INT) WITH (marks=«'record:kind'»)",
        "needs a condition, but this is INTEGER",
        "",
    ),
    ("CREATE STREAM s (a TIMESTAMP, kind INT) WITH (marks=«'record:kind ='»)", "cannot be understood", ""),
    (
        "CREATE STREAM s (a TIMESTAMP, kind INT) WITH (marks=«'record:max(kind) = 1'»)",
        "aggregate cannot stand here",
        "",
    ),
    ("CREATE STREAM s (a TIMESTAMP, k INT) WITH (marks='record:k = 1', marks_by=«'kk'»)", "no column 'kk'", "k"),
    ("CREATE STREAM s (a TIMESTAMP, k INT) WITH (marks='record:k = 1', «marks_groups»=5)", "marks_by", ""),
    (
        "CREATE STREAM s (a TIMESTAMP, k INT) WITH (marks='record:k=1', marks_by='k', marks_groups=«0»)",
        "is not a whole number from 1 to 100,000",
        "",
    ),
    ("CREATE STREAM s (k INT) WITH (event_time='arrival', «marks»='record:k = 1')", "the clock announces", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (ordered=true, «lateness»='5s')", "contradicts", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH («format»='csv')", "is for source='files'", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (path='x.parquet', «header»=true)", "is for csv", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (path=«'folder/data.xyz'»)", "format", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (path='x.csv', delimiter=«'||'»)", "one character", ""),
    ("CREATE STREAM s (a TIMESTAMP) WITH (archive='«eager»')", "there is no archive 'eager'", ""),
    ("CREATE STREAM s (a TIMESTAMP, b INTERVAL) WITH (event_time=«'b'»)", "cannot be an event time", "a"),
    ("CREATE STREAM s (tick TIMESTAMP) WITH (event_time=«'tikc'»)", "no column 'tikc'", "tick"),
    ("CREATE STREAM s (a TIMESTAMP) WITH (idle=«'0s'»)", "longer than nothing", ""),
    ("CREATE TABLE s «AS» SELECT 1", "not available yet", ""),
    ("CREATE «TABLE» t (a INT)", "path", ""),
    ("CREATE TABLE t (a INT) WITH («event_time»='a', path='x.csv')", "no option 'event_time'", ""),
    # CREATE QUERY
    (f"{Q} «SELCT» 1", "not expected", "SELECT"),
    (f"CREATE QUERY q WITH (since=«'soon'») AS SELECT count(*) FROM reading {W}", "not a timestamp", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WITH (empty=«'rport'»)", "cannot be", "report"),
    # windows
    (f"{Q} SELECT «ISTREAM»(sensor) FROM reading [NOW] UNION SELECT sensor FROM reading", "outermost SELECT", ""),
    (f"{Q} SELECT ISTREAM(sensor) FROM reading {W.replace('[', '«[').replace(']', ']»')}", "answers where it ends", ""),
    (f"{Q} SELECT ISTREAM(sensor) FROM reading [PARTITION BY «sensr» ROWS 5]", "no column 'sensr'", "sensor"),
    (f"{Q} SELECT ISTREAM(«sensr») FROM reading [NOW]", "sensr", ""),
    (f"{Q} SELECT ISTREAM(sensor)«,» mph FROM reading [NOW]", "whole select list", ""),
    (f"{Q} SELECT count(*) FROM reading [RANGE ALL SINCE '06:00' DAILY ZONE «'Mars'» SLIDE 1 m]", "no time zone", ""),
    (f"{Q} SELECT mph «[RANGE 1 m SLIDE 1 m]» FROM reading", "behind a stream or an aggregate", ""),
    (f"{Q} SELECT count(*) [RANGE 2 m SLIDE 1 m], max(mph) «[RANGE 4 m SLIDE 2 m]» FROM reading", "another SLIDE", ""),
    (
        f"{Q} SELECT count(*) [RANGE 2 m SLIDE 1 m], max(mph) [RANGE 4 m SLIDE 1 m], «min»(mph) FROM reading",
        "its own",
        "",
    ),
    (f"{Q} SELECT count(*) [RANGE 2 m SLIDE 1 m], max(mph) «[ROWS 9 SLIDE 1]» FROM reading", "the only one", ""),
    (f"{Q} SELECT count(*) [RANGE 2 m SLIDE 1 m], max(mph) «[RANGE ALL SLIDE 2 m]» FROM reading", "another SLIDE", ""),
    (f"{Q} SELECT count(*) «[RANGE 2 m]» FROM reading", "stands behind the stream", ""),
    (f"{Q} SELECT count(*) [RANGE 2 m SLIDE 1 m] FROM reading «[RANGE 2 m SLIDE 1 m]»", "not both", ""),
    (
        f"{Q} SELECT count(*) FROM reading «[RANGE ALL SINCE '06:00' EVERY 90 m ZONE 'Asia/Tokyo' SLIDE 1 m]»",
        "a time zone counts days",
        "",
    ),
    (f"{Q} SELECT count(*) FROM reading [RANGE 1 «MONTH» SLIDE 1 DAY]", "no fixed length", ""),
    (f"{Q} SELECT count(*) FROM reading [RANGE TUMBLING 1 MONTH ZONE «'Mars'»]", "no time zone", ""),
    (f"{Q} SELECT count(*) FROM reading «[»RANGE TUMBLING 1 HOUR ZONE 'UTC']", "ZONE is for windows of whole days", ""),
    (f"{Q} SELECT count(*) FROM reading «[RANGE 3 DAYS SLIDE 1 MONTH ZONE 'UTC']»", "does not slide by 1 month", ""),
    (f"{Q} SELECT count(*) FROM reading «[RANGE ALL EVERY 1 MONTH SLIDE 1 WEEK ZONE 'UTC']»", "lead to each", ""),
    (f"{Q} SELECT count(*) FROM reading «[»RANGE 1 DAY ZONE 'UTC']", "that slide by time", ""),
    (f"{Q} SELECT count(*) FROM reading «[»RANGE 1 DAY EVERY 1 DAY SLIDE 1 h]", "goes with RANGE ALL", ""),
    (
        f"{Q} SELECT count(*) [RANGE 2 m SLIDE 1 m], max(mph) «[RANGE TUMBLING 1 DAY ZONE 'UTC']» FROM reading",
        "ends by a calendar",
        "",
    ),
    (f"{Q} SELECT count(*) FROM reading [RANGE 1 «fortnight» SLIDE 1 DAY]", "not a unit", ""),
    (f"{Q} SELECT count(*) FROM reading [RANGE 5 «minuts» SLIDE 1 DAY]", "not a unit", "minutes"),
    (f"{Q} SELECT count(*) FROM reading [RANGE «0» SECONDS SLIDE 1 s]", "longer than nothing", ""),
    (f"{Q} SELECT count(*) FROM reading [RANGE «5» SLIDE 1 s]", "unit of time is missing", ""),
    (f"{Q} SELECT count(*) FROM reading [RANGE 5 s «SLID» 1 s]", "not a parameter", "SLIDE"),
    (f"{Q} SELECT count(*) FROM reading [RANGE 5 s SLIDE 1 s «SLIDE» 2 s]", "given twice", ""),
    (f"{Q} SELECT count(*) FROM reading [RANGE 5 s SLIDE 1 s ON «tss»]", "no column 'tss'", "ts"),
    (f"{Q} SELECT count(*) FROM reading [RANGE 5 s SLIDE 1 s ON «n»]", "event time", ""),
    (f"{Q} SELECT count(*) FROM reading [RANGE 5 s SLIDE 1 s ORIGIN TIMESTAMP «'x'»]", "not a timestamp", ""),
    (f"{Q} SELECT count(*) FROM reading «[»RANGE 5 s SLIDE 1 s", "not closed", ""),
    (f"{Q} SELECT count(*) FROM «slow» {W}", "is a query", ""),
    # names
    (f"{Q} SELECT count(*) FROM «readin» {W}", "no stream, table or query", "reading"),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «mhp» > 3", "no column 'mhp'", "mph"),
    (f"{Q} SELECT count(*) FROM reading r {W} WHERE «x».mph > 3", "no stream or column 'x'", ""),
    (f"{Q} SELECT «uper»(sensor), count(*) FROM reading {W} GROUP BY 1", "no function uper", "upper"),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «s.zzz» = 1", "zzz", ""),
    (f'{Q} SELECT count(*) FROM reading {W} WHERE sensor = «"s7"»', "no column 's7'", "s"),
    ("SELECT «sesor» FROM slow", "sesor", "sensor"),
    ("SELECT 1 FROM late(«slow»)", "not a stream", ""),
    ("SELECT 1 FROM «dad»(reading)", "no table function dad", "dead"),
    # types
    (f"{Q} SELECT «sum(sensor»), count(*) FROM reading {W}", "sum does not take (VARCHAR)", ""),
    (f"{Q} SELECT sum(mph + («sensor - 1»)) FROM reading {W}", "operator - does not take", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «mph»", "WHERE needs a condition", ""),
    (f"{Q} SELECT count(*) FROM reading {W} HAVING «count(*»)", "HAVING needs a condition", ""),
    (f"{Q} SELECT count(*) FILTER (WHERE «n») FROM reading {W}", "FILTER needs a condition", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE n::«intt» > 1", "no type intt", "INT"),
    (f"{Q} SELECT upper(max(n) || 'x') || «abs(max(sensor»)) FROM reading {W}", "abs does not take", ""),
    # groups and aggregates
    (f"{Q} SELECT «mph», count(*) FROM reading {W}", "neither grouped nor inside", ""),
    (f"{Q} SELECT sensor, count(*) FROM reading {W} GROUP BY sensor ORDER BY «mph»", "neither grouped", ""),
    (f"{Q} SELECT sum(«sum(mph»)) FROM reading {W}", "inside another one", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «sum(mph») > 3", "cannot stand in WHERE", ""),
    (f"{Q} SELECT count(*) AS c FROM reading {W} GROUP BY «c»", "cannot use an aggregate", ""),
    (f"{Q} SELECT «*» FROM reading {W}", "needs an aggregate or GROUP BY", ""),
    (f"{Q} SELECT «*», count(*) FROM reading {W}", "no meaning beside groups", ""),
    (f"{Q} SELECT «sensor» FROM reading {W}", "needs an aggregate or GROUP BY", ""),
    # row queries
    (f"{Q} SELECT count(*) FROM reading BEGIN «x» END NOW", "no edge of a window", ""),
    (f"{Q} SELECT ts FROM reading BEGIN «NOW» + 5 ROWS END NOW", "counts back from NOW", ""),
    (f"{Q} SELECT ts FROM reading BEGIN NOW END «NOW» + 5 ROWS", "counts back from NOW", ""),
    (f"{Q} SELECT ts FROM reading BEGIN NOW - «0» ROWS END NOW", "whole number above 0", ""),
    (f"{Q} SELECT ts FROM reading BEGIN NOW - 5 «minuets» END NOW", "not a unit", "minutes"),
    (f"{Q} SELECT ts FROM reading BEGIN NOW - «5» END NOW", "unit of time is missing", ""),
    (f"{Q} SELECT ts FROM reading «BEGIN» NOW END NOW - 5 s", "begins after it ends", ""),
    (f"{Q} SELECT ts FROM reading BEGIN «'soon'» END NOW", "not a timestamp", ""),
    (f"{Q} SELECT ts FROM reading BEGIN NOW END NOW FOR «raeding»", "no stream 'raeding'", "reading"),
    (f"{Q} SELECT ts FROM reading BEGIN NOW END NOW «BEGIN NOW END NOW»", "given twice", ""),
    (f"{Q} SELECT count(*) FROM reading {W} «BEGIN NOW END NOW»", "contradict each other", ""),
    ("SELECT * FROM slow «BEGIN NOW END NOW»", "for rows of streams", ""),
    ("INVOKE slow BEGIN NOW - «5» m2 END NOW", "unit of time is missing", ""),
    (f"{Q} SELECT ts FROM reading WHERE n = «'abc'»", "not a value of type INTEGER", ""),
    (f"{Q} SELECT ts FROM reading WHERE d IN ('2024-01-01', «'2024-13-01'»)", "not a value of type DATE", ""),
    (f"{Q} SELECT * FROM reading a, «clicks c»", "no condition joins them", ""),
    (f"{Q} SELECT * FROM reading a, «clicks c» WHERE a.sensor <> c.page", "no condition between them can join", ""),
    (f"{Q} SELECT * FROM reading, «reading» WHERE n = n", "both streams are called", ""),
    (f"{Q} SELECT «n» FROM reading a, reading b WHERE a.n = b.n", "in both streams", ""),
    (f"{Q} SELECT a.«mhp» FROM reading a, reading b WHERE a.n = b.n", "no column 'mhp' in a", "mph"),
    (f"{Q} SELECT «b.mph», count(*) FROM reading a, reading b WHERE a.n = b.n", "'b.mph' is neither grouped", ""),
    (f"{Q} SELECT a.n FROM reading a, reading b, «clicks» WHERE a.n = b.n", "no condition joins 'clicks' with 'a'", ""),
    (f"{Q} SELECT a.n FROM reading a, b, c, d, e, f, g, h, «i»", "joins up to 8 streams", ""),
    (f"{Q} SELECT a.n FROM reading a LEFT JOIN «reading b» ON a.n = b.n", "LEFT JOIN is not available", ""),
    (f"{Q} SELECT a.n FROM reading a JOIN «reading b» USING (n)", "USING is not available", ""),
    (f"{Q} SELECT a.n FROM reading a JOIN reading b ON «a.n»", "ON needs a condition", ""),
    (f"{Q} SELECT count(*) FROM «slow»", "is a query", ""),
    (f"{Q} SELECT count(*) FROM «sensors»", "is a table", ""),
    (f"{Q} SELECT count(*) FROM reading {W} GROUP BY «3»", "no such item", ""),
    (f"{Q} SELECT count(*) FROM reading {W} ORDER BY «2»", "no such item", ""),
    (f"{Q} SELECT count(*) FROM reading {W} LIMIT «n»", "whole number", ""),
    (f"{Q} SELECT count(*) «OVER» () FROM reading {W}", "", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE n IN (SELECT «1»)", "subqueries", ""),
    (f"{Q} SELECT count(*) FROM reading {W} QUALIFY «1»", "QUALIFY", ""),
    (f"{Q} SELECT count(*) FROM reading {W} JOIN «slow» ON true", "is a query", ""),
    (f"{Q} SELECT * FROM reading JOIN «slow» ON true", "is a query", ""),
    (f"{Q} SELECT count(*) AS «window_end» FROM reading {W}", "every answer has", ""),
    (f"{Q} SELECT «corr»(mph) FROM reading {W}", "takes 2 arguments", ""),
    (f"{Q} SELECT quantile_cont(mph, «1.5») FROM reading {W}", "between 0 and 1", ""),
    (f"{Q} SELECT string_agg(sensor, «sensor») FROM reading {W}", "constant text", ""),
    (f"{Q} SELECT first(mph ORDER BY «n») FROM reading {W}", "has no ORDER BY", ""),
    (f"{Q} SELECT «mode»(DISTINCT n) FROM reading {W}", "has no DISTINCT", ""),
    (f"{Q} SELECT list(DISTINCT n ORDER BY «mph») FROM reading {W}", "only be the value itself", ""),
    (f"{Q} SELECT count(*), «row_number»() FROM reading {W}", "needs OVER", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «window_start» > ts", "belongs to windows", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «1 < n < 5»", "chained", ""),
    ("SELECT «window_start», count(*) FROM reading", "needs a window", ""),
    ("SELECT sensor FROM reading HAVING «n > 1»", "HAVING needs an aggregate", ""),
    ("SELECT DISTINCT sensor FROM reading ORDER BY «n»", "with DISTINCT", ""),
    ("SELECT * FROM reading «ALL REVISIONS»", "ALL REVISIONS", ""),
    # clocks and chance
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «now»() > ts", "stream's time", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «current_timestamp» > ts", "stream's time", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «current_date» > ts", "stream's time", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «random»() > 1", "could not be repeated", ""),
    (f"{Q} SELECT «uuid»(), count(*) FROM reading {W}", "could not be repeated", ""),
    (f"{Q} SELECT count(*) FROM reading {W} WHERE «age»(ts) > INTERVAL 1 DAY", "one argument", ""),
]


def understand(catalog, script: str) -> None:
    for statement in parse(script):
        if isinstance(statement, CreateQuery):
            bind_standing(statement.select, catalog)
        elif isinstance(statement, Select):
            bind_select(statement.select, catalog)
        elif isinstance(statement, Explain) and not isinstance(statement.target, str):
            bind_select(statement.target, catalog)


@pytest.mark.parametrize("before", ["", "SHOW STREAMS; -- one\n\n  "])
@pytest.mark.parametrize(("marked", "message", "like"), WRONG, ids=[w[0] for w in WRONG])
def test_wrong_statements(catalog, marked, message, like, before):
    script = before + marked.replace("«", "").replace("»", "")
    start = len(before) + marked.index("«")
    with pytest.raises(StatementError) as caught:
        understand(catalog, script)
    error = caught.value
    assert message in error.message
    assert error.text == script
    if "«»" not in marked and "«OVER»" not in marked and "«50»" not in marked:
        end = len(before) + marked.index("»") - 1
        assert (error.start, script[error.start : error.end]) == (start, script[start:end])
        line = script[:start].count("\n") + 1
        assert (error.line, error.column) == (line, start - (script.rfind("\n", 0, start) + 1) + 1)
        _, excerpt, carets, *_ = str(error).split("\n")
        assert excerpt[carets.index("^") :].startswith(script[start:end].split("\n")[0])
    assert error.nearest == like


def test_at_least_forty():
    assert len({w[0] for w in WRONG}) >= 40


def test_errors_of_binding_without_a_script_point_into_the_text(catalog):
    script = "SHOW STREAMS;\nSELECT mhp FROM reading"
    statement = parse(script)[1]
    select = replace(statement.select, script=None)
    with pytest.raises(StatementError) as caught:
        bind_select(select, catalog)
    assert (caught.value.text, caught.value.line, caught.value.column) == (statement.text, 1, 8)


def test_the_error_reads_well(catalog):
    with pytest.raises(StatementError) as caught:
        understand(catalog, "SELECT sensor,\n  avg(mhp) FROM reading GROUP BY sensor")
    assert str(caught.value).split("\n") == [
        "line 2, column 7: there is no column 'mhp' in reading",
        "    avg(mhp) FROM reading GROUP BY sensor",
        "        ^^^",
        "did you mean 'mph'?",
    ]


@pytest.mark.parametrize("word", ["inner", "on", "where", "join"])
def test_a_word_of_sql_is_no_name_without_quotes(word):
    with pytest.raises(StatementError, match=f"'{word}' has a meaning of its own") as caught:
        parse(f"SELECT * FROM {word}")
    assert caught.value.expected.endswith(f'"{word}"')
    parse(f'SELECT * FROM "{word}"')
