"""Parameters: values of Python in a script, each as a constant of its type; never a name, never more SQL."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.language import parse, with_parameters
from millpond.support.errors import StatementError
from millpond.support.sql_values import NoConstant, literal, of_json, parameters_json, to_json

EAST, WEST = (dt.timezone(dt.timedelta(hours=hours)) for hours in (5, -5))
NESTED: list[Any] = []
NESTED.append(NESTED)

VALUES: list[tuple[Any, Any, str]] = [
    (None, None, "INTEGER"),
    (True, True, "BOOLEAN"),
    (0, 0, "INTEGER"),
    (-7, -7, "INTEGER"),
    (2**62, 2**62, "BIGINT"),
    (2**100, 2**100, "HUGEINT"),
    (1.5, 1.5, "DOUBLE"),
    (-2.5e-300, -2.5e-300, "DOUBLE"),
    (float("inf"), float("inf"), "DOUBLE"),
    ("it's; -- 'x'", "it's; -- 'x'", "VARCHAR"),
    ("", "", "VARCHAR"),
    (b"\x00'\xff", b"\x00'\xff", "BLOB"),
    (Decimal("1.20"), Decimal("1.20"), "DECIMAL(3,2)"),
    (Decimal("-1E+3"), Decimal("-1000"), "DECIMAL(4,0)"),
    (Decimal("0.001"), Decimal("0.001"), "DECIMAL(3,3)"),
    (dt.datetime(2026, 3, 1, 8, 0, 0, 5), dt.datetime(2026, 3, 1, 8, 0, 0, 5), "TIMESTAMP"),
    (
        dt.datetime(2026, 3, 1, 8, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime(2026, 3, 1, 6),
        "TIMESTAMP",
    ),
    (dt.date(2026, 3, 1), dt.date(2026, 3, 1), "DATE"),
    (dt.time(8, 30), dt.time(8, 30), "TIME"),
    (dt.timedelta(days=1, microseconds=-1), dt.timedelta(days=1, microseconds=-1), "INTERVAL"),
    (uuid.UUID(int=5), uuid.UUID(int=5), "UUID"),
    ([1, 2], [1, 2], "INTEGER[]"),
    ((dt.date(2026, 3, 1),), [dt.date(2026, 3, 1)], "DATE[]"),
    ({"a": 1, "b c": ["x"]}, {"a": 1, "b c": ["x"]}, 'STRUCT(a INTEGER, "b c" VARCHAR[])'),
    (np.int32(5), 5, "INTEGER"),
    (np.float64(0.1), 0.1, "DOUBLE"),
    (np.datetime64("2026-03-01T08:00"), dt.datetime(2026, 3, 1, 8), "TIMESTAMP"),
    (np.datetime64("NaT"), None, "INTEGER"),
    (np.array([1, 2]), [1, 2], "INTEGER[]"),
    (np.bool_(True), True, "BOOLEAN"),
    (pa.scalar(5), 5, "INTEGER"),
]


@pytest.mark.parametrize(("value", "expected", "kind"), VALUES, ids=[repr(v[0])[:40] for v in VALUES])
@pytest.mark.parametrize("way", [lambda value: value, lambda value: of_json(to_json(value))], ids=["python", "json"])
def test_a_value_is_a_constant_of_its_type(value: Any, expected: Any, kind: str, way: Any) -> None:
    with duckdb.connect() as db:
        found, name = db.execute(f"SELECT v, typeof(v) FROM (SELECT {literal(way(value))} AS v)").fetchall()[0]
    assert found == expected
    assert name.replace('"NULL"', "INTEGER") == kind


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_text_stays_a_text(text: str) -> None:
    filled = with_parameters("SELECT $a AS x FROM s WHERE k = $a", {"a": text})
    [statement] = parse(filled.text)
    assert statement.select.tree.expressions[0].this.name == text  # type: ignore[attr-defined]  # it is a Select


@given(st.one_of(st.integers(-(2**100), 2**100), st.floats(), st.decimals(-(10**9), 10**9, places=3)))
def test_a_number_binds_to_nothing_around_it(number: Any) -> None:
    with duckdb.connect() as db:
        text = with_parameters("SELECT 0 -$n, -$n, $n::DOUBLE, [$n]", {"n": number}).text
        left, minus, cast, listed = db.execute(text).fetchall()[0]
    assert repr(left) == repr(minus) or left == minus or number != number
    assert cast == float(number) or number != number
    assert listed[0] == number or number != number


@pytest.mark.parametrize(
    ("script", "values", "text"),
    [
        ("SELECT ?, ?", [1, "a"], "SELECT 1, 'a'"),
        ("SELECT $1, $2, $1", [1, "a"], "SELECT 1, 'a', 1"),
        ("SELECT * FROM s WHERE k IN $ks", {"ks": ["a", "b"]}, "SELECT * FROM s WHERE k IN ('a', 'b')"),
        ("SELECT * FROM s WHERE k IN $ks", {"ks": []}, "SELECT * FROM s WHERE k IN (NULL)"),
        ("SELECT '$a', \"?\" -- $a\n, $a", {"a": 1}, "SELECT '$a', \"?\" -- $a\n, 1"),
        ("SELECT a FROM s, o WHERE x = $a; SELECT $a", {"a": 1}, "SELECT a FROM s, o WHERE x = 1; SELECT 1"),
        ("SELECT f(a, $a), (SELECT $a FROM s) FROM s", {"a": 1}, "SELECT f(a, 1), (SELECT 1 FROM s) FROM s"),
        ("SELECT a FROM s ORDER BY a LIMIT $n", {"n": 5}, "SELECT a FROM s ORDER BY a LIMIT 5"),
        ("CREATE STREAM s (ts TIMESTAMP) WITH (lateness = $d)", {"d": dt.timedelta(seconds=5)},
         "CREATE STREAM s (ts TIMESTAMP) WITH (lateness = INTERVAL '5000000 microseconds')"),
    ],
)  # fmt: skip
def test_where_they_stand(script: str, values: Any, text: str) -> None:
    assert with_parameters(script, values).text == text
    parse(with_parameters(script, values).text)


@pytest.mark.parametrize(
    ("marked", "values", "message"),
    [
        ("SELECT a FROM «$t»", {"t": "s"}, "a name stands here"),
        ("SELECT a FROM s, «$t»", {"t": "s"}, "a name stands here"),
        ("SELECT a FROM s JOIN «?»", ["s"], "a name stands here"),
        ("SELECT s.«$c» FROM s", {"c": "a"}, "a name stands here"),
        ("SELECT «$c».a FROM s", {"c": "s"}, "a name stands here"),
        ("SELECT a AS «$c» FROM s", {"c": "a"}, "a name stands here"),
        ("SELECT a FROM s ORDER BY «$c»", {"c": "a"}, "a name stands here"),
        ("DROP STREAM «$s»", {"s": "s"}, "a name stands here"),
        ("INVOKE «?»", ["q"], "a name stands here"),
        ("SELECT «$b»", {"a": 1}, "no value for $b"),
        ("SELECT ?, «?»", [1], "no value for parameter 2"),
        ("SELECT ?, «$2»", [1, 2], "? counts by itself"),
        ("SELECT «$a»", {"a": object()}, "type object"),
        ("SELECT «$a»", {"a": "x\0"}, "NUL"),
        ("SELECT «$a»", {"a": 2**200}, "128 bits"),
        ("SELECT 1, «$a»", {"a": {"type": 1, 5: 2}}, "texts"),
        ("SELECT «$a»", {"a": "half \ud800"}, "surrogate"),
        ("SELECT «$a»", {"a": dt.datetime.max.replace(tzinfo=WEST)}, "beyond the years"),
        ("SELECT «$a»", {"a": [dt.datetime.min.replace(tzinfo=EAST)]}, "beyond the years"),
        ("SELECT «$a»", {"a": NESTED}, "nested so deeply"),
    ],
)
def test_wrong_ones(marked: str, values: Any, message: str) -> None:
    script = marked.replace("«", "").replace("»", "")
    with pytest.raises(StatementError) as caught:
        with_parameters(script, values)
    assert message in caught.value.message
    assert (caught.value.start, caught.value.end) == (marked.index("«"), marked.index("»") - 1)


def test_a_value_too_many() -> None:
    with pytest.raises(StatementError, match="no parameter 'b' in the script: it has \\$a"):
        with_parameters("SELECT $a", {"a": 1, "b": 2})


@pytest.mark.parametrize("values", [5, "a", b"a", memoryview(b"a"), np.array(5), {1, 2}, object()])
def test_parameters_are_a_mapping_or_a_list(values: Any) -> None:
    with pytest.raises(StatementError, match="a mapping of names, or a list of values"):
        with_parameters("SELECT ?", values)
    with pytest.raises(NoConstant, match="a mapping of names, or a list of values"):
        parameters_json(values)


def test_values_that_hold_one_value_or_bytes() -> None:
    values = [np.array(5), np.array(2.5), np.array("2026-03-01", "datetime64[us]"), memoryview(b"ab"), bytearray(b"ab")]
    alone = [5, 2.5, dt.datetime(2026, 3, 1), b"ab", b"ab"]
    assert [literal(v) for v in values] == [literal(v) for v in alone]
    assert literal(np.array([[1, 2], [3, 4]])) == "[[1, 2], [3, 4]]"


@pytest.mark.parametrize(
    ("given", "constant"),
    [
        ({"type": "TINYINT", "value": 5}, "CAST('5' AS TINYINT)"),
        ({"type": "DECIMAL(5, 2)", "value": 1.1}, "CAST('1.1' AS DECIMAL(5, 2))"),
        ({"type": "BOOLEAN", "value": True}, "CAST('true' AS BOOLEAN)"),
        ({"type": "DATE", "value": None}, "CAST(NULL AS DATE)"),
        ({"type": "TINYINT[]", "value": [1, None]}, "CAST([1, NULL] AS TINYINT[])"),
        ({"type": "STRUCT", "value": {"type": "a", "value": 1}}, "{'type': 'a', 'value': 1}"),
    ],
)
def test_types_in_json_are_of_values_of_every_kind(given: Any, constant: str) -> None:
    assert literal(of_json(given)) == constant


def test_a_mapping_with_a_type_and_a_value_stays_one() -> None:
    for value in ({"type": "sale", "value": 1}, {"type": "DATE", "value": "2026-03-01"}):
        assert literal(of_json(to_json(value))) == literal(value)


def test_a_type_is_no_way_in() -> None:
    with pytest.raises(NoConstant, match="is not a type"):
        literal(of_json({"type": "INT); DROP TABLE x; --", "value": "1"}))


def test_errors_point_into_the_script_as_it_was_written() -> None:
    script = "SELECT $long, mhp FROM s WHERE a = $long"
    filled = with_parameters(script, {"long": "x" * 50})
    at = filled.text.index("mhp")
    error = filled.pointing(StatementError("no", filled.text, at, at + 3))
    assert (error.text, script[error.start : error.end]) == (script, "mhp")
    at = filled.text.rindex("'x")
    error = filled.pointing(StatementError("no", filled.text, at, at + 52))
    assert script[error.start : error.end] == "$long"
    other = StatementError("no", "another text", 0, 3)
    assert filled.pointing(other) is other


@pytest.mark.parametrize(
    ("script", "values", "text"),
    [
        ("SELECT $1,$2", [1, 2], "SELECT 1,2"),
        ("SELECT v IN ($a,$b), $a-$b, v[$a:$b]", {"a": 1, "b": 2}, "SELECT v IN (1,2), 1-2, v[1:2]"),
        ("SELECT ?::INTEGER", ["3"], "SELECT '3'::INTEGER"),
        ("SELECT $$a $x b$$, $t$ $x,$y $t$, '$x', $x", {"x": 1}, "SELECT $$a $x b$$, $t$ $x,$y $t$, '$x', 1"),
    ],
)
def test_parameters_beside_each_other(script: str, values: Any, text: str) -> None:
    assert with_parameters(script, values).text == text


@pytest.mark.parametrize("script", ["SELECT 1?", "SELECT 1.?", "LIMIT 1?", "SELECT k?", "SELECT ?1:2", "SELECT E?"])
def test_a_value_does_not_run_together_with_a_word(script: str) -> None:
    with pytest.raises(StatementError, match="touches a word"):
        with_parameters(script, [5])
