"""Values that Python's calendar has not are texts in rows, and all others are as ever."""

import datetime as dt
from typing import Any

import pyarrow as pa

from millpond.support.texts.python_values import python_values
from millpond.types.results import Answer, StatementResult

FAR = 2**63 - 1
DAY = dt.datetime(2026, 1, 1)


def test_within_lists_structs_and_maps() -> None:
    stamp = pa.timestamp("us")
    assert python_values(pa.array([FAR, None, 0, -(10**17)], stamp)) == [
        "infinity", None, dt.datetime(1970, 1, 1), "-1199-02-15T14:13:20.000000Z",
    ]  # fmt: skip
    assert python_values(pa.array([[0, FAR], None, []], pa.list_(stamp)))[0] == [dt.datetime(1970, 1, 1), "infinity"]
    assert python_values(pa.array([[FAR], None], pa.list_(stamp, 1))) == [["infinity"], None]
    struct = pa.array([{"a": FAR, "b": 1}, None, {"a": None, "b": 2}], pa.struct([("a", stamp), ("b", pa.int8())]))
    assert python_values(struct) == [{"a": "infinity", "b": 1}, None, {"a": None, "b": 2}]
    assert python_values(struct.slice(1)) == [None, {"a": None, "b": 2}]
    held = pa.array([[("k", FAR)], None, []], pa.map_(pa.string(), stamp))
    assert python_values(held) == [[("k", "infinity")], None, []]
    assert python_values(pa.chunked_array([[1], [2]])) == [1, 2]


def test_answers_and_results() -> None:
    table = pa.table({"d": pa.array([2**31 - 1, 0], pa.date32()), "n": [1, 2]})
    result = StatementResult("rows", table=table)
    assert result.rows() == [("infinity", 1), (dt.date(1970, 1, 1), 2)] and "infinity" in str(result)
    answer = Answer(table, 1, 0, 0, None, None, True)
    assert list(answer) == [{"d": "infinity", "n": 1}, {"d": dt.date(1970, 1, 1), "n": 2}]


def test_windows_at_the_end_of_the_calendar(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql("""
        CREATE STREAM s (ts TIMESTAMP, d DATE, t TIMESTAMP) WITH (event_time='ts');
        CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 DAY];
        CREATE QUERY i AS SELECT ISTREAM(d) FROM s [RANGE 1 DAY];
    """)
    at = "9999-12-31 12:00"
    pond.ingest("s", [{"ts": at, "d": "infinity", "t": "infinity"}, {"ts": at, "d": "10000-01-01", "t": str(DAY)}])
    pond.drain(final=True)
    assert pond.sql("SELECT * FROM q").rows() == [(dt.datetime(9999, 12, 31), "10000-01-01T00:00:00.000000Z", 2, 0)]
    assert [row[1] for row in pond.sql("SELECT * FROM i").rows()] == ["10000-01-01", "infinity"]
    assert pond.sql("SELECT d, t FROM s").rows() == [("infinity", "infinity"), ("10000-01-01", DAY)]
    assert pond.query("q").result().to_pylist()[0]["n"] == 2
