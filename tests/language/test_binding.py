"""SELECTs over a stream into bound queries."""

from __future__ import annotations

import duckdb
import pytest
from tests.quick import plain_duckdb

from millpond.language import TableQuery, bind_query, bind_select, parse
from millpond.language.inference.duck import empty_relation
from millpond.types import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Column,
    GroupScan,
    OrderTerm,
    RowScan,
    ScanQuery,
    TimeWindow,
    WindowedQuery,
)
from millpond.types.sql_expressions import parsed

W = "[RANGE 5 MINUTES SLIDE 1 MINUTE]"


@pytest.fixture
def bind(catalog):
    def bind(text: str) -> WindowedQuery:
        (statement,) = parse(text)
        return bind_query(statement.select, catalog)

    return bind


@pytest.fixture
def adhoc(catalog):
    def adhoc(text: str) -> WindowedQuery | ScanQuery | TableQuery:
        (statement,) = parse(text)
        return bind_select(statement.select, catalog)

    return adhoc


def test_the_whole_of_a_query(bind):
    text = f"""SELECT sensor, avg(mph) AS mph, count(*) + 1 AS more FROM reading {W} WHERE mph > 0 AND ok
        GROUP BY sensor HAVING avg(mph) < 20 AND more > 1 ORDER BY mph DESC, 1 LIMIT 5 OFFSET 2"""
    query = bind(text)
    assert query.stream == "reading" and query.text == text
    assert query.window == TimeWindow(5 * MINUTE, MINUTE, 0, "ts")
    assert str(query.where) == '("mph" > 0) AND "ok"'
    assert [(k.name, str(k.expression), k.type) for k in query.keys] == [("k0", '"sensor"', "VARCHAR")]
    assert [(a.name, a.function, [(str(e), e.type) for e in a.arguments], a.type) for a in query.aggregates] == [
        ("a0", "avg", [('"mph"', "DOUBLE")], "DOUBLE"),
        ("a1", "count_star", [], "BIGINT"),
    ]
    assert [(o.name, str(o.expression), o.type) for o in query.select] == [
        ("sensor", '"k0"', "VARCHAR"),
        ("mph", '"a0"', "DOUBLE"),
        ("more", '"a1" + 1', "BIGINT"),
    ]
    assert str(query.having) == '("a0" < 20) AND (("a1" + 1) > 1)'
    assert query.order_by == (OrderTerm(parsed('"a0"'), True), OrderTerm(parsed('"k0"')))
    assert (query.limit, query.offset, query.distinct) == (5, 2, False)


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("[RANGE 5 MINUTES SLIDE 1 MINUTE]", TimeWindow(5 * MINUTE, MINUTE, 0, "ts")),
        ("[RANGE TUMBLING 1 h]", TimeWindow(HOUR, HOUR, 0, "ts")),
        ("[range '90 s', slide '1 m' on TS]", TimeWindow(90 * SECOND, MINUTE, 0, "ts")),
        ("[SLIDE INTERVAL '1 hour 30 minutes' RANGE INTERVAL '2' HOURS]", TimeWindow(2 * HOUR, 90 * MINUTE, 0, "ts")),
        ("[RANGE 1 HOUR 30 MINUTES SLIDE 2 weeks]", TimeWindow(90 * MINUTE, 14 * DAY, 0, "ts")),
        ("[RANGE 5 us SLIDE 3 microseconds]", TimeWindow(5, 3, 0, "ts")),
        ("[RANGE 0.5 s SLIDE 1.5ms]", TimeWindow(500_000, 1500, 0, "ts")),
        (
            "[RANGE 60 m SLIDE 40 m ORIGIN TIMESTAMP '2024-01-01 00:05:00']",
            TimeWindow(HOUR, 40 * MINUTE, 5 * MINUTE, "ts"),
        ),
        ("[RANGE 60 m SLIDE 40 m ORIGIN '30 m']", TimeWindow(HOUR, 40 * MINUTE, 30 * MINUTE, "ts")),
        ("[RANGE 60 m SLIDE 40 m ORIGIN -10 MINUTES]", TimeWindow(HOUR, 40 * MINUTE, 30 * MINUTE, "ts")),
        ("[RANGE 60 m SLIDE 40 m ALIGN START]", TimeWindow(HOUR, 40 * MINUTE, 20 * MINUTE, "ts")),
        ("[RANGE 60 m SLIDE 40 m ALIGN END]", TimeWindow(HOUR, 40 * MINUTE, 0, "ts")),
        ("[RANGE 10 m SLIDE 40 m ALIGN START ORIGIN '35 m']", TimeWindow(10 * MINUTE, 40 * MINUTE, 5 * MINUTE, "ts")),
    ],
)
@pytest.mark.parametrize("place", ["reading {}", "reading r {}", "reading {} AS r", "reading AS r {}"])
def test_windows(bind, written, window, place):
    if "2024" in written:  # the origin counts modulo SLIDE
        window = TimeWindow(window.range, window.slide, (1704067500_000000) % window.slide, "ts")
    assert bind(f"SELECT count(*) FROM {place.format(written)} WHERE mph > 1").window == window


@pytest.mark.parametrize(
    ("call", "function", "arguments", "parameters", "kind"),
    [
        ("count(*)", "count_star", (), (), "BIGINT"),
        ("count()", "count_star", (), (), "BIGINT"),
        ("count(mph)", "count", ('"mph"',), (), "BIGINT"),
        ("sum(n)", "sum", ('"n"',), (), "HUGEINT"),
        ("sum(mph)", "sum", ('"mph"',), (), "DOUBLE"),
        ("sum(price)", "sum", ('"price"',), (), "DECIMAL(38,2)"),
        ("avg(n)", "avg", ('"n"',), (), "DOUBLE"),
        ("mean(n)", "avg", ('"n"',), (), "DOUBLE"),
        ("min(ts)", "min", ('"ts"',), (), "TIMESTAMP"),
        ("max(sensor)", "max", ('"sensor"',), (), "VARCHAR"),
        ("stddev(mph)", "stddev_samp", ('"mph"',), (), "DOUBLE"),
        ("stddev_samp(mph)", "stddev_samp", ('"mph"',), (), "DOUBLE"),
        ("stddev_pop(mph)", "stddev_pop", ('"mph"',), (), "DOUBLE"),
        ("variance(mph)", "var_samp", ('"mph"',), (), "DOUBLE"),
        ("var_samp(mph)", "var_samp", ('"mph"',), (), "DOUBLE"),
        ("var_pop(mph)", "var_pop", ('"mph"',), (), "DOUBLE"),
        ("covar_pop(mph, n)", "covar_pop", ('"mph"', '"n"'), (), "DOUBLE"),
        ("covar_samp(mph, n)", "covar_samp", ('"mph"', '"n"'), (), "DOUBLE"),
        ("corr(mph, n)", "corr", ('"mph"', '"n"'), (), "DOUBLE"),
        ("bool_and(ok)", "bool_and", ('"ok"',), (), "BOOLEAN"),
        ("bool_or(mph > 3)", "bool_or", ('"mph" > 3',), (), "BOOLEAN"),
        ("first(mph)", "first", ('"mph"',), (), "DOUBLE"),
        ("last(mph)", "last", ('"mph"',), (), "DOUBLE"),
        ("arg_min(sensor, mph)", "arg_min", ('"sensor"', '"mph"'), (), "VARCHAR"),
        ("max_by(sensor, mph)", "arg_max", ('"sensor"', '"mph"'), (), "VARCHAR"),
        ("median(mph)", "median", ('"mph"',), (), "DOUBLE"),
        ("quantile(n, 0.25)", "quantile_disc", ('"n"',), ("0.25",), "INTEGER"),
        ("quantile_cont(mph, 0.5)", "quantile_cont", ('"mph"',), ("0.5",), "DOUBLE"),
        ("quantile_disc(mph, [0.1, 0.9])", "quantile_disc", ('"mph"',), ("[0.1, 0.9]",), "DOUBLE[]"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY mph)", "quantile_cont", ('"mph"',), ("0.5",), "DOUBLE"),
        ("percentile_disc(0.1) WITHIN GROUP (ORDER BY n DESC)", "quantile_disc", ('"n"',), ("-0.1",), "INTEGER"),
        ("mode(sensor)", "mode", ('"sensor"',), (), "VARCHAR"),
        ("mode() WITHIN GROUP (ORDER BY sensor)", "mode", ('"sensor"',), (), "VARCHAR"),
        ("string_agg(sensor, '; ')", "string_agg", ('"sensor"',), ("'; '",), "VARCHAR"),
        ("group_concat(sensor)", "string_agg", ('"sensor"',), ("','",), "VARCHAR"),
        ("listagg(sensor, ',')", "string_agg", ('"sensor"',), ("','",), "VARCHAR"),
        ("list(mph)", "list", ('"mph"',), (), "DOUBLE[]"),
        ("array_agg(tags)", "list", ('"tags"',), (), "VARCHAR[][]"),
    ],
)
def test_aggregates(bind, call, function, arguments, parameters, kind):
    (aggregate,) = bind(f"SELECT {call} FROM reading {W}").aggregates
    assert (aggregate.function, aggregate.parameters) == (function, parameters)
    assert tuple(map(str, aggregate.arguments)) == arguments
    assert (aggregate.type, aggregate.distinct, aggregate.filter) == (kind, False, None)


@pytest.mark.parametrize("call", ["count", "sum", "avg", "list", "string_agg"])
def test_distinct_aggregates(bind, call):
    argument = "sensor" if call == "string_agg" else "n"
    (aggregate,) = bind(f"SELECT {call}(DISTINCT {argument}) FROM reading {W}").aggregates
    assert aggregate.distinct and aggregate.function == call


def test_distinct_changes_nothing_for_extremes(bind):
    assert len(bind(f"SELECT max(DISTINCT n) + max(n) AS x FROM reading {W}").aggregates) == 1


def test_filter_and_order_inside_aggregates(bind):
    query = bind(
        f"""SELECT count(*) FILTER (WHERE mph > 3), list(mph ORDER BY ts DESC NULLS FIRST, n),
            string_agg(DISTINCT sensor, ';' ORDER BY sensor DESC), count_if(ok), any_value(n)
            FROM reading {W}"""
    )
    counted, listed, texts, if_ok, any_n = query.aggregates
    assert (counted.function, str(counted.filter)) == ("count_star", '"mph" > 3')
    assert listed.order == (OrderTerm(parsed('"ts"'), True, True), OrderTerm(parsed('"n"')))
    assert (texts.distinct, texts.parameters, texts.order) == (True, ("';'",), (OrderTerm(parsed('"sensor"'), True),))
    assert (if_ok.function, str(if_ok.filter)) == ("count_star", '"ok"')
    assert (any_n.function, str(any_n.filter)) == ("first", '("n") IS NOT NULL')


def test_equal_calls_share_one_aggregate(bind):
    query = bind(f"SELECT AVG(mph), avg(reading.mph) + 1, count(*) FROM reading {W} HAVING avg( mph ) > 1")
    assert [a.function for a in query.aggregates] == ["avg", "count_star"]


@pytest.mark.parametrize("keys", ["sx", "1", "sensor || 'x'", "(r.sensor || 'x')", "ALL", "SENSOR||'x'"])
def test_group_by_matches_by_structure(bind, keys):
    query = bind(
        f"SELECT sensor || 'x' AS sx, upper(sensor || 'x') || 'y' AS up, count(*) FROM reading r {W} GROUP BY {keys}"
    )
    assert str(query.keys[0].expression) == "\"sensor\" || 'x'"
    assert str(query.select[0].expression) == '"k0"'
    if keys != "ALL":
        assert str(query.select[1].expression) == "upper(\"k0\") || 'y'"


def test_window_columns_are_always_there(bind):
    query = bind(
        f"SELECT window_start, window_end, window_end - window_start AS width, count(*) FROM reading {W} "
        "GROUP BY window_start, window_end HAVING window_start > TIMESTAMP '2020-01-01' ORDER BY window_end"
    )
    assert [o.name for o in query.select] == ["width", "count(*)"]
    assert query.keys == () and query.order_by == (OrderTerm(parsed('"window_end"')),)


def test_names_of_answers(bind):
    query = bind(f"SELECT SENSOR, sensor, max( mph ) + 1, n AS sensor FROM reading {W} GROUP BY ALL")
    assert [o.name for o in query.select] == ["sensor", "sensor_1", "max( mph ) + 1", "sensor_2"]


def test_structs_and_odd_names(bind):
    query = bind(f'SELECT s.x, s."the y" || \'!\' AS y, max("Odd Name"), max(r.s.x) FROM reading r {W} GROUP BY s')
    assert str(query.select[0].expression) == "struct_extract(\"k0\", 'x')"
    assert (query.select[0].name, query.select[0].type) == ("x", "INTEGER")
    assert tuple(map(str, query.aggregates[0].arguments)) == ('"Odd Name"',)
    assert tuple(map(str, query.aggregates[1].arguments)) == ("struct_extract(\"s\", 'x')",)


def test_aliases_in_where_having_and_later_items(bind):
    query = bind(f"SELECT n % 10 AS digit, count(*) AS c, c * 2 AS twice FROM reading {W} WHERE digit > 3 "
                 "GROUP BY digit HAVING c > 1 ORDER BY ALL DESC")  # fmt: skip
    assert str(query.where) == '("n" % 10) > 3'
    assert str(query.keys[0].expression) == '"n" % 10'
    assert str(query.select[2].expression) == '("a0") * 2'
    assert len(query.order_by) == 3 and all(t.descending for t in query.order_by)


def test_arrival_streams_run_over_their_implicit_column(bind):
    query = bind("SELECT page, count(*), max(arrival_ts) AS m FROM clicks [RANGE TUMBLING 1 m] GROUP BY page")
    assert query.window == TimeWindow(MINUTE, MINUTE, 0, "arrival_ts")


def test_rows_of_a_stream(adhoc):
    query = adhoc(
        "SELECT r.* EXCLUDE (tags, s), mph * 2 AS twice FROM reading r WHERE n IN (1, 2) ORDER BY twice LIMIT 1"
    )
    assert isinstance(query, RowScan)
    assert [o.name for o in query.select] == ["ts", "sensor", "mph", "n", "price", "ok", "Odd Name", "d", "twice"]
    assert query.order_by == (OrderTerm(parsed('"mph" * 2')),)
    assert [o.name for o in adhoc("SELECT * FROM clicks").select] == ["page", "arrival_ts"]
    assert adhoc("SELECT DISTINCT sensor FROM reading ORDER BY 1").distinct


def test_groups_over_the_whole_past(adhoc):
    query = adhoc("SELECT sensor, count(*) FROM reading GROUP BY sensor")
    assert isinstance(query, GroupScan)


EXPRESSIONS = """
n + 1 | n - -1 | -n | - -n | n * (n + 1) | (n - 1) - (n - 2) | n - (n - 1) | n / 2 | n // 2 | n % 7 | n ^ 2
n ** 2 | n / 2 / 2 | 2 - n * 3 + 1 | n & 6 | n | 1 | n << 2 | ~n | @(-n) | abs(-n) | xor(n, 3) | NOT ok
ok AND n > 1 OR n = 3 | NOT (ok OR n = 3) | (n > 1) = ok | n BETWEEN 1 AND 3 | n NOT BETWEEN 1 AND 3 | n IN (1, 2)
n NOT IN (1, 2) | sensor LIKE 's%' | sensor NOT LIKE 'S%' | sensor ILIKE 'S%' | sensor LIKE 's!%' ESCAPE '!'
sensor NOT LIKE 's!%' ESCAPE '!' | sensor SIMILAR TO 's.*' | sensor NOT ILIKE 'S%' | sensor NOT SIMILAR TO 's'
sensor NOT GLOB 's*' | NOT sensor LIKE 's%' | sensor ~ 's' | sensor !~ 's' | sensor GLOB 's*' | sensor IS NULL
sensor IS NOT NULL | ok IS TRUE | ok IS NOT TRUE | n IS DISTINCT FROM 3 | n IS NOT DISTINCT FROM NULL
sensor || '''x' || n | CASE WHEN ok THEN 1 ELSE n END | CASE n WHEN 1 THEN 'a' WHEN 2 THEN 'b' END | if(ok, 1, 2)
coalesce(NULL, n) | nullif(n, 1) | ifnull(NULL, 2) | n::VARCHAR | CAST(n AS DECIMAL(10, 2)) / 3
TRY_CAST(sensor AS INTEGER) | '3'::INT + 1 | n::DOUBLE | n::HUGEINT | DATE '2020-01-01' + n
ts + INTERVAL 5 MINUTES | ts - INTERVAL '1 hour 30 minutes' | ts + INTERVAL (n) DAY | ts + INTERVAL '1' MONTH
ts + INTERVAL '2 mons 3h' | ts + INTERVAL '01:30:00' | ts + INTERVAL (n + 1) QUARTERS | ts - TIMESTAMP '2020-01-01'
extract(epoch FROM ts) | extract('hour' FROM ts) | date_part('minute', ts) | year(ts) | date_trunc('hour', ts)
time_bucket(INTERVAL 5 MINUTES, ts) | strftime(ts, '%H:%M') | epoch_us(ts) | dayname(ts) | ts AT TIME ZONE 'UTC'
ts::TIMESTAMPTZ | ts::DATE | ts::TIMESTAMP_MS | tags[1] | tags[n] | tags[1:2] | tags[-1] | [1, 2, n]
{'a': n, 'b': sensor} | {'a': n}.a | s.x | s['x'] | s."the y" | struct_pack(a := n).a | row(n, 1)
list_contains(tags, 'a') | len(tags) | list_sum([n, 1]) | array_to_string(tags, ',') | list_sort(tags, 'DESC')
substring(sensor FROM 2 FOR 1) | substring(sensor, 1, 1) | trim(BOTH 's' FROM sensor) | position('1' IN sensor)
trim(sensor) | upper(sensor) | left(sensor, 1) | replace(sensor, 's', 't')
regexp_replace(sensor, '[0-9]', 'x', 'g') | regexp_extract(sensor, '([a-z])', 1) | split_part(sensor, '1', 1)
concat(sensor, NULL, 'x') | concat_ws('-', sensor, n) | format('{}-{}', sensor, n) | printf('%d', n)
greatest(n, 2) | least(n, 2) | round(mph, 1) | floor(mph) | ceil(mph) | sqrt(mph) | ln(mph) | log10(mph)
pow(mph, 2) | sign(mph) | hash(n) | md5(sensor) | typeof(n) | 1_000 + n | 1e3 + n | E'a\\tb' | $$it's$$ | NULL
true | 'a' < sensor | (n = n) = ok | (n, 1) = (1, 1) | datediff('day', d, DATE '2024-01-03') | price * 2
price / 3 | 10 - price | isnan(mph) | json_extract_string('{"a": 1}', '$.a') | map_keys(MAP([n], [1]))
"""


@pytest.mark.parametrize(
    "text", [e.strip() for line in EXPRESSIONS.strip().split("\n") for e in line.split(" | ") if e.strip()]
)
def test_rendering_keeps_the_meaning(adhoc, catalog, text):
    """What DuckDB gives for the text as written, it gives for what the binder renders; types agree too."""
    columns = catalog.lookup("reading").columns
    row = (
        "SELECT TIMESTAMP '2024-01-02 03:04:05.678' AS ts, 's1' AS sensor, 2.5::DOUBLE AS mph, 3::INTEGER AS n, "
        "4.25::DECIMAL(10,2) AS price, ['a','b'] AS tags, {'x': 1::INTEGER, 'the y': 'z'} AS s, true AS ok, "
        "7::INTEGER AS \"Odd Name\", DATE '2024-01-02' AS d"
    )
    with plain_duckdb() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        data = f"(SELECT * FROM {empty_relation(columns)} AS t WHERE false UNION ALL {row}) AS reading"
        expected = connection.execute(f"SELECT {text} AS v, typeof({text}) FROM {data}").fetchall()
        (output,) = adhoc(f"SELECT {text} AS v FROM reading").select
        sql = output.expression
        assert connection.execute(f"SELECT {sql} AS v, typeof({sql}) FROM {data}").fetchall()[0][0] == expected[0][0]
        if expected[0][1] != '"NULL"':
            assert output.type.split("(")[0] == expected[0][1].split("(")[0]


def test_relations(adhoc):
    query = adhoc(
        """WITH best AS (SELECT sensor, max(mph) AS m FROM slow GROUP BY 1)
           SELECT b.*, place, rank() OVER (ORDER BY m DESC) AS nth, count(*) OVER ()
           FROM best AS b JOIN sensors ON sensors.id = b.sensor LEFT JOIN slow ALL REVISIONS v USING (sensor)
           WHERE m > (SELECT avg(m) FROM best) AND b.sensor IN (SELECT sensor FROM late(reading)) ORDER BY nth"""
    )
    assert isinstance(query, TableQuery)
    assert [(r.alias, type(r).__name__, r.name) for r in sorted(query.relations, key=lambda r: r.alias)] == [
        (f"r{i}", *rest) for i, rest in enumerate((type(r).__name__, r.name) for r in query.relations)
    ]
    assert {(type(r).__name__, r.name) for r in query.relations} == {
        ("AnswersInput", "slow"), ("TableInput", "sensors"), ("RevisionsInput", "slow"), ("LateInput", "reading"),
    }  # fmt: skip
    assert query.columns == (
        Column("sensor", "VARCHAR"),
        Column("m", "DOUBLE"),
        Column("place", "VARCHAR"),
        Column("nth", "BIGINT"),
        Column("count(*) OVER ()", "BIGINT"),
    )


def test_relations_run_under_their_generated_names(adhoc):
    query = adhoc("WITH r0 AS (SELECT 1 AS one) SELECT one, sum(mph) FROM slow, r0 GROUP BY one")
    assert query.relations[0].alias not in ("r0",)
    with duckdb.connect() as connection:
        ref = query.relations[0]
        fields = ", ".join(f'CAST(NULL AS {c.type}) AS "{c.name}"' for c in ref.columns)
        connection.execute(f'CREATE TABLE "{ref.alias}" AS SELECT {fields}')
        assert connection.execute(query.sql).fetchall() == [(1, None)]


def test_side_streams_and_values(adhoc):
    dead = adhoc("SELECT * FROM dead(reading)")
    assert [c.name for c in dead.columns] == ["reason", "source", "position", "record", "epoch"]
    assert [c.name for c in adhoc("SELECT * FROM late(reading) AS l").columns][:2] == ["ts", "sensor"]
    assert adhoc("SELECT x + 1 FROM (VALUES (1), (2)) v(x)").columns == (Column("x + 1", "INTEGER"),)
    assert adhoc("SELECT 1 AS a UNION ALL SELECT mph FROM slow").columns == (Column("a", "DOUBLE"),)
    assert adhoc("FROM sensors").columns == (Column("id", "VARCHAR"), Column("place", "VARCHAR"))
    assert [c.name for c in adhoc("FROM slow ALL REVISIONS").columns][-2:] == ["revision", "op"]
