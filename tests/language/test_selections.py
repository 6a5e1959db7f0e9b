"""Row queries: BEGIN … END, sides, join factors, names of columns."""

from __future__ import annotations

import pytest

from millpond.language import Binder, TableQuery, bind_select, bind_selection, bind_standing, parse
from millpond.types import (
    GroupScan,
    Interval,
    JoinFactor,
    RowQuery,
    RowScan,
    Span,
    WindowQuery,
    from_json,
    to_json,
)
from millpond.types.selections import NOW, ConstantEdge, NowEdge, OpenEdge, RowsEdge
from millpond.types.sql_expressions import parsed


@pytest.fixture
def bind(catalog):
    def bind(text: str) -> RowQuery:
        (statement,) = parse(text)
        found = bind_standing(statement.select, catalog)
        assert isinstance(found, RowQuery) and from_json(RowQuery, to_json(found)) == found
        assert found == bind_selection(statement.select, catalog)
        assert found == Binder(catalog).bind(text)
        return found

    return bind


@pytest.mark.parametrize(
    ("written", "span"),
    [
        ("", Span(OpenEdge(), NOW)),
        ("BEGIN NOW - INTERVAL '5 minutes' END NOW", Span(NowEdge(-300_000_000), NOW)),
        (
            "BEGIN NOW - 5 MINUTES END NOW - INTERVAL '10' SECONDS",
            Span(NowEdge(-300_000_000), NowEdge(-10_000_000)),
        ),
        ("begin now() - '1 hour' end now + 1 m 30 s", Span(NowEdge(-3_600_000_000), NowEdge(90_000_000))),
        ("BEGIN NOW - 1 m - 2 s", Span(NowEdge(-62_000_000), NOW)),
        (
            "BEGIN '1970-01-01 00:00:01' END TIMESTAMP '1970-01-01T00:00:02'",
            Span(ConstantEdge(1_000_000), ConstantEdge(2_000_000)),
        ),
        ("BEGIN TIMESTAMPTZ '1970-01-01 01:00:00+01' END NOW", Span(ConstantEdge(0), NOW)),
        ("BEGIN DATE '1970-01-02' END NOW", Span(ConstantEdge(86_400_000_000), NOW)),
        ("BEGIN NOW - 1000 ROWS END NOW", Span(RowsEdge(1000), NOW)),
        ("BEGIN NOW - 1 ROW END NOW FOR r", Span(RowsEdge(1), NOW)),
    ],
)
def test_windows(bind, written, span):
    assert bind(f"SELECT ts FROM reading r WHERE n > 5 {written}").sides[0].span == span
    assert bind(f"SELECT ts FROM reading AS r {written} ORDER BY ts LIMIT 5").sides[0].span == span
    found = bind(f"SELECT sensor, count(*) FROM reading r WHERE ok {written} GROUP BY sensor HAVING count(*) > 1")
    assert found.sides[0].span == span and isinstance(found.query, GroupScan) and str(found.query.having) == '"a0" > 1'


def test_begin_and_end_are_also_names(catalog):
    (statement,) = parse("SELECT begin - 5 AS end, CASE WHEN begin > 1 THEN 2 END FROM begin WHERE a < begin - 5")
    assert statement.select.tree.sql() == (
        "SELECT begin - 5 AS end, CASE WHEN begin > 1 THEN 2 END FROM begin WHERE a < begin - 5"
    )


def test_one_stream(bind):
    found = bind(
        "SELECT sensor, mph * 2 AS twice FROM reading WHERE mph > 5 AND n < 3.5 AND 0 < n AND sensor LIKE 'a%'"
    )
    (side,) = found.sides
    assert side.stream == found.query.stream == "reading" and found.join is None
    assert found.query.where is None and isinstance(found.query, RowScan)
    assert str(side.where) == """("mph" > 5) AND ("n" < 3.5) AND (0 < "n") AND ("sensor" LIKE 'a%')"""
    assert side.boxes == ((
        Interval('"mph"', "float", 5.0, None, low_closed=False),
        Interval('"n"', "integer", 1, 3),
        Interval('"sensor"', "text", "a", "b", high_closed=False),
    ),)  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "boxes"),
    [
        ("true", ((),)),
        ("false", ()),
        ("n BETWEEN 5 AND 3", ()),
        ("n = NULL", ()),
        ("n > 5 AND n IS NULL", ()),
        ("mph IS NULL", ((Interval('"mph"', "float", null=True),),)),
        ("n IN (1, 2, NULL, 3)", ((Interval('"n"', "integer", 1, 3),),)),
        ("n NOT IN (1, NULL)", ()),
        ("n <> 5", ((Interval('"n"', "integer", None, 4),), (Interval('"n"', "integer", 6, None),))),
        ("NOT (n > 5 OR mph = 3)", (
            (Interval('"n"', "integer", None, 5), Interval('"mph"', "float", None, 3.0, high_closed=False)),
            (Interval('"n"', "integer", None, 5), Interval('"mph"', "float", 3.0, None, low_closed=False)),
        )),
        ("n < 99999999999", ((Interval('"n"', "integer"),),)),
        ("ok", ((Interval('CAST(("ok") AS BIGINT)', "integer", 1, None),),)),
        ("NOT ok", ((Interval('CAST(("ok") AS BIGINT)', "integer", None, 0),),)),
        ("n = 1 OR mph = 2", ((Interval('CAST((("n" = 1) OR ("mph" = 2)) AS BIGINT)', "integer", 1, 1),),)),
        ("n   =1 or MPH=2", ((Interval('CAST((("n" = 1) OR ("mph" = 2)) AS BIGINT)', "integer", 1, 1),),)),
        ("abs(n) >= 3", ((Interval('abs("n")', "integer", 3, None),),)),
        ("n < mph", ((Interval('CAST(("n" < "mph") AS BIGINT)', "integer", 1, 1),),)),
    ],
)  # fmt: skip
def test_alternatives(bind, condition, boxes):
    assert bind(f"SELECT ts FROM reading WHERE {condition}").sides[0].boxes == boxes


def test_many_alternatives_become_attributes(bind):
    lists = " AND ".join(f"{c} IN ({', '.join(str(3 * k) for k in range(20))})" for c in ("n", "mph", '"Odd Name"'))
    boxes = bind(f"SELECT ts FROM reading WHERE {lists}").sides[0].boxes
    assert len(boxes) <= 64 and all(len(box) == 3 for box in boxes)


def test_joins(bind):
    found = bind(
        "SELECT a.ts, b.MPH, a.n + b.n AS sum FROM reading a JOIN reading b ON a.mph < b.mph AND a.n = b.n + 5 "
        "WHERE a.sensor = 'x' AND b.ok BEGIN NOW - 5 s END NOW FOR a BEGIN NOW - 10 ROWS FOR b"
    )
    assert found.join == JoinFactor(parsed('"n"'), "=", parsed('"n" + 5'), "integer")
    assert str(found.query.where) == '"0.mph" < "1.mph"'
    assert [(o.name, str(o.expression)) for o in found.query.select] == [
        ("ts", '"0.ts"'), ("mph", '"1.mph"'), ("sum", '"0.n" + "1.n"'),
    ]  # fmt: skip
    assert [str(s.where) for s in found.sides] == ["\"sensor\" = 'x'", '"ok"']
    assert [s.span.begin for s in found.sides] == [NowEdge(-5_000_000), RowsEdge(10)]


def test_join_factors(bind):
    def join(condition: str) -> JoinFactor | None:
        return bind(f"SELECT a.n FROM reading a, reading b WHERE {condition} BEGIN NOW - 5 s END NOW").join

    assert join("b.n < a.n + 1") == JoinFactor(parsed('"n" + 1'), ">", parsed('"n"'), "integer")
    assert join("NOT (a.mph >= b.mph)") == JoinFactor(parsed('"mph"'), "<", parsed('"mph"'), "float")
    assert join("a.n <= b.mph") == JoinFactor(parsed('CAST("n" AS DOUBLE)'), "<=", parsed('"mph"'), "float")
    assert join("a.sensor = b.sensor") == JoinFactor(parsed('"sensor"'), "=", parsed('"sensor"'), "text")
    assert join("a.n BETWEEN b.n - 5 AND b.n + 5") == JoinFactor(parsed('"n"'), ">=", parsed('"n" - 5'), "integer")
    assert join("a.ts > b.ts AND a.n = b.n").operator == "="
    assert join("a.ts > b.ts - INTERVAL 5 SECONDS").kind == "integer"


def test_stars_of_joins(bind):
    found = bind("SELECT * FROM clicks c, clicks d WHERE c.page = d.page")
    assert [o.name for o in found.query.select] == ["page", "arrival_ts", "page_1", "arrival_ts_1"]
    found = bind("SELECT d.*, c.* EXCLUDE (page) FROM clicks c, clicks d WHERE c.page = d.page ORDER BY d.page")
    assert [str(o.expression) for o in found.query.select] == ['"1.page"', '"1.arrival_ts"', '"0.arrival_ts"']
    grouped = bind("SELECT sensor, count(*) AS n FROM reading, clicks WHERE sensor = page GROUP BY sensor ORDER BY n")
    assert [(str(k.expression), k.type) for k in grouped.query.keys] == [('"0.sensor"', "VARCHAR")]


def test_what_is_a_selection(catalog):
    def kind(text: str, standing: bool) -> type:
        (statement,) = parse(text)
        bound = bind_standing if standing else bind_select
        return type(bound(statement.select, catalog))

    window = "SELECT count(*) FROM reading [RANGE 5 m SLIDE 1 m]"
    assert kind(window, True) is kind(window, False) is WindowQuery
    assert kind("SELECT count(*) FROM reading", True) is RowQuery
    assert kind("SELECT count(*) FROM reading", False) is GroupScan
    assert kind("SELECT count(*) FROM reading BEGIN NOW - 5 s END NOW", False) is RowQuery
    assert kind("SELECT count(*) FROM reading, clicks WHERE page = sensor", True) is RowQuery
    assert kind("SELECT count(*) FROM reading, clicks WHERE page = sensor", False) is TableQuery
    assert kind("SELECT count(*) FROM reading, clicks WHERE page = sensor BEGIN NOW - 5 s END NOW", False) is RowQuery
    assert kind("SELECT count(*) FROM slow, sensors WHERE id = sensor", False) is TableQuery


def test_invoke_and_options():
    (invoke,) = parse("INVOKE q AS OF EPOCH 3 BEGIN NOW - 5 s END '1970-01-01'")
    assert (invoke.as_of, invoke.begin, invoke.end) == (("epoch", 3), NowEdge(-5_000_000), ConstantEdge(0))
    (invoke,) = parse("INVOKE q END NOW - 1 s")
    assert (invoke.begin, invoke.end) == (None, NowEdge(-1_000_000))
    (create,) = parse("CREATE QUERY q AS SELECT a FROM s BEGIN NOW - 5 s END NOW WITH (materialize = 'complete')")
    assert create.options.materialize == "complete"
