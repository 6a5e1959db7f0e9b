"""Rows of Python with dicts for maps and JSON, and nanoseconds: each value is what it is beside whatever others."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from millpond.sources.ingest import to_table
from millpond.support.errors import SourceError
from millpond.types import Column, StreamDefinition, micros_of

DAY = dt.datetime(2026, 1, 1)


def stream(**columns):
    return StreamDefinition("s", tuple(Column(name, kind) for name, kind in columns.items()))


def values(rows, **columns):
    (name,) = columns
    return to_table([{name: row} for row in rows], stream(**columns))[name].to_pylist()


def test_dicts_of_maps_have_their_own_keys():
    rows = [{"x": 1}, {"y": "2"}, {}, None, [("z", 3)]]
    assert values(rows, m="MAP(VARCHAR, INTEGER)") == [[("x", 1)], [("y", 2)], [], None, [("z", 3)]]
    nested = values([[{"x": 1}], [{"y": 2}], None], m="MAP(VARCHAR, INTEGER)[]")
    assert nested == [[[("x", 1)]], [[("y", 2)]], None]
    within = values([{"m": {"x": 1}}, {"m": {"y": 2}}, None], m="STRUCT(m MAP(VARCHAR, INTEGER))")
    assert within == [{"m": [("x", 1)]}, {"m": [("y", 2)]}, None]
    deep = values([{"a": {"x": 1}}, {"b": {}}], m="MAP(VARCHAR, MAP(VARCHAR, INTEGER))")
    assert deep == [[("a", [("x", 1)])], [("b", [])]]
    with pytest.raises(SourceError, match="does not fit MAP"):
        values([{"x": "no"}], m="MAP(VARCHAR, INTEGER)")


def test_dicts_of_json_have_their_own_keys():
    rows = [{"k": 1, "d": DAY}, {"l": [1, None]}, '{"as": "text"}', [1, "a"], 5, True, None]
    rows += [{"e": decimal.Decimal("1.5")}]
    assert values(rows, j="JSON") == [
        '{"k": 1, "d": "2026-01-01 00:00:00"}', '{"l": [1, null]}', '{"as": "text"}', '[1, "a"]', "5", "true", None,
        '{"e": 1.5}',
    ]  # fmt: skip
    assert values([[{"a": 1}, [2]], None], j="JSON[]") == [['{"a": 1}', "[2]"], None]


NANOS = [1_700_000_000_123_456_789, -1, -1_700_000_000_123_456_789, -1000, None]
FLOORED = [1_700_000_000_123_456, -1, -1_700_000_000_123_457, -1, None]


@pytest.mark.parametrize(
    ("declared", "made", "read"),
    [
        ("TIMESTAMP", lambda x: x, lambda v: v),
        ("TIMESTAMP[]", lambda x: [x, None], lambda v: v[0]),
        ("TIMESTAMP[1]", lambda x: [x], lambda v: v[0]),
        ("STRUCT(t TIMESTAMP)", lambda x: {"t": x}, lambda v: v["t"]),
        ("MAP(VARCHAR, TIMESTAMP)", lambda x: [("k", x)], lambda v: v[0][1]),
        ("STRUCT(l TIMESTAMP[])", lambda x: {"l": [x]}, lambda v: v["l"][0]),
    ],
)
def test_nanoseconds_are_in_the_microsecond_that_they_lie_in(declared, made, read):
    """Before 1970 too, and whatever they stand in."""
    kinds = {
        "TIMESTAMP": pa.timestamp("ns"),
        "TIMESTAMP[]": pa.list_(pa.timestamp("ns")),
        "TIMESTAMP[1]": pa.list_(pa.timestamp("ns"), 1),
        "STRUCT(t TIMESTAMP)": pa.struct([("t", pa.timestamp("ns"))]),
        "MAP(VARCHAR, TIMESTAMP)": pa.map_(pa.string(), pa.timestamp("ns")),
        "STRUCT(l TIMESTAMP[])": pa.struct([("l", pa.large_list(pa.timestamp("ns")))]),
    }
    column = pa.array([made(x) for x in NANOS], kinds[declared])
    for rows in (pa.table({"a": column}), pa.table({"a": column.slice(2)})):
        found = to_table(rows, stream(a=declared))["a"].to_pylist()
        micros = [read(v) for v in found]
        assert [None if m is None else micros_of(m) for m in micros] == FLOORED[-len(micros) :]


def test_times_of_day_with_nanoseconds_are_floored():
    late = 86_399_999_999_999
    rows = pa.table({"t": pa.array([late], pa.time64("ns")), "l": pa.array([[late]], pa.list_(pa.time64("ns")))})
    found = to_table(rows, stream(t="TIME", l="TIME[]")).to_pylist()[0]
    assert found["t"] == dt.time(23, 59, 59, 999999) and found["l"] == [dt.time(23, 59, 59, 999999)]
