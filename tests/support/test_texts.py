"""Every type has one text: in JSON lines of the command line, in JSON over HTTP, of few rows and of many; what is read
back from it is the value."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.cli.output import Format, Writer, rows_table
from millpond.support.texts.far_instants import dates_texts, instants_texts
from millpond.support.texts.json_texts import csv_columns, interval_text, json_texts, rows_json
from millpond.support.texts.shown_texts import shown_texts
from millpond.types.results import StatementResult
from tests.quick import plain_duckdb
from tests.server.conftest import Served

#: A type of columns, DuckDB SQL of a value, its text in JSON, what people see.
VALUES = [
    ("BOOLEAN", "true", "true", "true"),
    ("TINYINT", "-128", "-128", "-128"),
    ("BIGINT", "9007199254740992", "9007199254740992", "9007199254740992"),
    ("BIGINT", "9007199254740993", '"9007199254740993"', "9007199254740993"),
    ("BIGINT", "-9223372036854775808", '"-9223372036854775808"', "-9223372036854775808"),
    ("UBIGINT", "18446744073709551615", '"18446744073709551615"', "18446744073709551615"),
    ("HUGEINT", "7", "7", "7"),
    ("HUGEINT", "-9007199254740993", '"-9007199254740993"', "-9007199254740993"),
    ("HUGEINT", "170141183460469231731687303715884105727", '"170141183460469231731687303715884105727"',
     "170141183460469231731687303715884105727"),
    ("FLOAT", "0.1::FLOAT", "0.1", "0.1"),
    ("DOUBLE", "25741.02", "25741.02", "25741.02"),
    ("DOUBLE", "123456789.25", "123456789.25", "123456789.25"),
    ("DOUBLE", "2", "2.0", "2"),
    ("DOUBLE", "-1e15", "-1e+15", "-1000000000000000"),
    ("DOUBLE", "-0.0::DOUBLE", "-0.0", "-0"),
    ("DOUBLE", "1e300", "1e+300", "1e+300"),
    ("DOUBLE", "'nan'", '"NaN"', "nan"),
    ("DOUBLE", "'inf'", '"Infinity"', "inf"),
    ("DOUBLE", "'-inf'", '"-Infinity"', "-inf"),
    ("DECIMAL(10, 2)", "12.50", '"12.50"', "12.50"),
    ("DECIMAL(38, 10)", "0.0000000001", '"0.0000000001"', "0.0000000001"),
    ("DECIMAL(38, 2)", "-123456789012345678901234567890123456.78", '"-123456789012345678901234567890123456.78"',
     "-123456789012345678901234567890123456.78"),
    ("DECIMAL(18, 0)", "12", "12", "12"),
    ("VARCHAR", "'a\"b, é'", '"a\\"b, é"', 'a"b, é'),
    ("VARCHAR", "''", '""', ""),
    ("BLOB", "'\\x00\\xFF'::BLOB", '"AP8="', "AP8="),
    ("DATE", "'2013-03-01'", '"2013-03-01"', "2013-03-01"),
    ("DATE", "'12000-01-01'", '"12000-01-01"', "12000-01-01"),
    ("DATE", "'0044-03-15 (BC)'", '"-0043-03-15"', "-0043-03-15"),
    ("DATE", "'infinity'", '"infinity"', "infinity"),
    ("DATE", "'5881580-07-10'", '"5881580-07-10"', "5881580-07-10"),
    ("TIME", "'10:00:01.5'", '"10:00:01.500000"', "10:00:01.500000"),
    ("TIMESTAMP", "'2013-03-01 10:00:00'", '"2013-03-01T10:00:00.000000Z"', "2013-03-01 10:00:00"),
    ("TIMESTAMP", "'9999-12-31 23:59:59.999999'", '"9999-12-31T23:59:59.999999Z"', "9999-12-31 23:59:59.999999"),
    ("TIMESTAMP", "'20000-01-01'", '"20000-01-01T00:00:00.000000Z"', "20000-01-01 00:00:00"),
    ("TIMESTAMP", "'294247-01-10 04:00:54.775806'", '"294247-01-10T04:00:54.775806Z"', "294247-01-10 04:00:54.775806"),
    ("TIMESTAMP", "'-infinity'", '"-infinity"', "-infinity"),
    ("TIMESTAMP_S", "'2013-03-01 10:00:00'", '"2013-03-01T10:00:00Z"', "2013-03-01 10:00:00"),
    ("TIMESTAMP_MS", "'2013-03-01 10:00:00.5'", '"2013-03-01T10:00:00.500Z"', "2013-03-01 10:00:00.500"),
    ("TIMESTAMP_NS", "'2013-03-01 10:00:00.123456789'", '"2013-03-01T10:00:00.123456789Z"',
     "2013-03-01 10:00:00.123456789"),
    ("TIMESTAMPTZ", "'2013-03-01 10:00:00.25+02'", '"2013-03-01T08:00:00.250000Z"', "2013-03-01 08:00:00.250000"),
    ("TIMESTAMPTZ", "'infinity'", '"infinity"', "infinity"),
    ("INTERVAL", "'1 month 2 days 3.5 seconds'", '"1 month 2 days 00:00:03.5"', "1 month 2 days 00:00:03.5"),
    ("INTERVAL", "'-3.000001 seconds'", '"-00:00:03.000001"', "-00:00:03.000001"),
    ("UUID", "'8a2f8b6e-4c1d-4b5e-9f3a-0123456789ab'", '"8a2f8b6e-4c1d-4b5e-9f3a-0123456789ab"',
     "8a2f8b6e-4c1d-4b5e-9f3a-0123456789ab"),
    ("ENUM('x', 'y')", "'y'", '"y"', "y"),
    ("INTEGER[]", "[1, NULL, 3]", "[1,null,3]", "[1,null,3]"),
    ("DOUBLE[2]", "[1.5, 'nan'::DOUBLE]", '[1.5,"NaN"]', '[1.5,"NaN"]'),
    ("TIMESTAMP[][]", "[['infinity'::TIMESTAMP, '2013-03-01'], NULL]",
     '[["infinity","2013-03-01T00:00:00.000000Z"],null]', '[["infinity","2013-03-01T00:00:00.000000Z"],null]'),
    ("STRUCT(a BIGINT, b DECIMAL(9, 2))", "{'a': 9007199254740993, 'b': NULL}", '{"a":"9007199254740993","b":null}',
     '{"a":"9007199254740993","b":null}'),
    ("MAP(VARCHAR, TIMESTAMP)", "MAP {'k': 'infinity'::TIMESTAMP}", '{"k":"infinity"}', '{"k":"infinity"}'),
    ("MAP(BIGINT, VARCHAR)", "MAP {1: 'x', 9007199254740993: NULL}", '{"1":"x","9007199254740993":null}',
     '{"1":"x","9007199254740993":null}'),
]  # fmt: skip
#: What a stream does not take in: integers of 39 digits, nanoseconds, NaN as a text within a list.
BEYOND = {'"170141183460469231731687303715884105727"', '"2013-03-01T10:00:00.123456789Z"', '[1.5,"NaN"]'}
IDS = [f"{kind} {sql}" for kind, sql, *_ in VALUES]


def values_of(kind: str, sql: str, count: int) -> pa.Table:
    """A column with a value so many times, and NULL in between."""
    with plain_duckdb() as db:
        db.execute("SET TimeZone = 'UTC'")
        column = f"CASE WHEN i % 2 = 0 THEN CAST({sql} AS {kind}) END AS v"
        return db.sql(f"SELECT {column} FROM range({count}) t(i) ORDER BY i").to_arrow_table()


def lines(table: pa.Table, form: Format = Format.json) -> list[str]:
    """What the command line writes."""
    out = io.StringIO()
    Writer(form, out, io.StringIO()).write(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(("kind", "sql", "text", "shown"), VALUES, ids=IDS)
def test_one_text(kind: str, sql: str, text: str, shown: str) -> None:
    for count in (2, 402):
        table = values_of(kind, sql, count)
        row, null = f'{{"v":{text}}}', '{"v":null}'
        assert lines(table) == [row, null] * (count // 2), "on the command line"
        assert rows_json(table).decode() == f"[{','.join([row, null] * (count // 2))}]", "over HTTP"
        json.loads(row)
        nested = pa.table({"v": pa.chunked_array([pa.array([None], pa.list_(table["v"].type))]), "w": [1]})
        assert rows_json(nested) == b'[{"v":null,"w":1}]'
    column = values_of(kind, sql, 2)["v"].combine_chunks()
    listed = pa.ListArray.from_arrays([0, 2, 2], column)
    assert json_texts(listed).to_pylist() == [f"[{text},null]", "[]"], "in a list"
    assert shown_texts(column) == [shown, None]
    assert csv_columns(pa.table({"v": column}))["v"].cast(pa.string()).to_pylist()[1] is None


@pytest.mark.parametrize(("kind", "sql", "text", "shown"), VALUES, ids=IDS)
def test_people_see_all_of_a_number(kind: str, sql: str, text: str, shown: str) -> None:
    table = values_of(kind, sql, 2)
    if len(shown) <= 40 or not shown.startswith("["):
        printed = str(StatementResult("rows", "", table, "SELECT"))
        assert f"│ {shown} " in printed or (len(shown) > 40 and "…" in printed and not shown[-1].isdigit())
    drawn = rows_table(table)
    assert [str(cell) for cell in drawn.columns[0].cells] == [shown, "NULL"]


def test_texts_are_read_back_as_the_values(served: Served) -> None:
    """NDJSON of a row goes in, and the same texts come out by every way."""
    taken_in = [v for v in VALUES if v[2] not in (*BEYOND, "-0.0")]  # a zero is taken in without its sign
    columns = ", ".join(f"c{n} {kind}" for n, (kind, *_) in enumerate(taken_in))
    served.pond.sql(f"CREATE STREAM m (ts TIMESTAMP, {columns}) WITH (event_time='ts')")
    row = ",".join(f'"c{n}":{text}' for n, (_, _, text, _) in enumerate(taken_in))
    given = f'{{"ts":"2026-01-01T00:00:00.000000Z",{row}}}'
    raw = served.raw()
    taken = raw("POST", "/v1/streams/m/rows", given.encode() + b"\n", {"Content-Type": "application/x-ndjson"})
    assert taken.status == 200, taken.body
    served.pond.drain()
    dead = served.pond.sql("SELECT reason FROM dead(m)").rows()
    assert not dead
    reply = raw("POST", "/v1/statements", {"statements": "SELECT * FROM m"}).body.decode()
    told = json.loads(reply)["results"][0]["rows"][0]
    wrong = {f"{kind} {text}": told[f"c{n}"] for n, (kind, _, text, _) in enumerate(taken_in)
             if told[f"c{n}"] != json.loads(text)}  # fmt: skip
    assert not wrong
    assert given in reply, "over HTTP"
    assert lines(served.pond.sql("SELECT * FROM m").to_arrow()) == [given], "on the command line"


@settings(deadline=None)
@given(st.lists(st.none() | st.decimals(-(10**26), 10**26, allow_nan=False, places=9), max_size=5))
def test_decimals_have_all_their_digits(values: list[Decimal | None]) -> None:
    array = pa.array(values, pa.decimal128(38, 9))
    assert json_texts(array).to_pylist() == ["null" if v is None else f'"{v:.9f}"' for v in values]


#: The first instant that DuckDB has, microseconds.
FIRST = -9_223_372_022_400_000_000


@given(st.lists(st.none() | st.integers(-(2**63) + 1, 2**63 - 1), max_size=5))
def test_far_instants_are_read_by_duckdb(values: list[int | None]) -> None:
    shown = instants_texts(pa.array(values, pa.int64()).cast(pa.timestamp("us"))).to_pylist()
    with plain_duckdb() as db:
        for number, text in zip(values, shown, strict=True):
            if number is not None and FIRST <= number < 2**63 - 1:
                assert db.execute("SELECT epoch_us(CAST(? AS TIMESTAMP))", [text]).fetchall() == [(number,)], text


@given(st.integers(-(2**20), 2**20), st.integers(-(2**20), 2**20), st.integers(-(10**15), 10**15))
def test_intervals_are_as_duckdb_writes_them(months: int, days: int, micros: int) -> None:
    with plain_duckdb() as db:
        sql = "SELECT CAST(to_months(?) + to_days(?) + to_microseconds(?) AS VARCHAR)"
        assert db.execute(sql, [months, days, micros]).fetchall() == [(interval_text(months, days, micros * 1000),)]


def test_dates_of_64_bits() -> None:
    assert dates_texts(pa.array([86_400_000, None], pa.date64())).to_pylist() == ["1970-01-02", None]


def test_rare_types() -> None:
    array: Any = pa.array([[{"a": [1, None], "b": b"x"}], None, []])
    assert json_texts(array.slice(1)).to_pylist() == ["null", "[]"]
    assert json_texts(pa.array(["a", None]).dictionary_encode()).to_pylist() == ['"a"', "null"]
    assert json_texts(pa.array([3_500_000, None], pa.duration("us"))).to_pylist() == ['"00:00:03.5"', "null"]
    assert json_texts(pa.nulls(2)).to_pylist() == ["null", "null"]
    maps = pa.array([[("a", 1)], None, [("b", 2), ("c", None)], []], pa.map_(pa.string(), pa.int8()))
    assert json_texts(maps.slice(1)).to_pylist() == ["null", '{"b":2,"c":null}', "{}"]
