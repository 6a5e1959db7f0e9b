"""What users hand in, and how wrong data is told."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.sources.helpers import engine_db, stream

from millpond.sources.formats.read import arrow_schema
from millpond.sources.ingest import to_table
from millpond.support.errors import SourceError
from millpond.types import ARRIVAL

S = stream("ts TIMESTAMP", "sensor VARCHAR", "n INTEGER", source="ingest")
DAY1 = datetime(2020, 1, 1)
ROW = {"ts": DAY1, "sensor": "a", "n": 1}
WANTED = [ROW, ROW | {"sensor": None, "n": None}]


@pytest.mark.parametrize(
    "data",
    [
        [ROW, {"TS": DAY1}],
        [{"ts": "2020-01-01", "sensor": "a", "n": "1"}, {"ts": "2020-01-01T00:00:00Z"}],
        [{"ts": DAY1.replace(tzinfo=UTC), "sensor": "a", "n": 1.0}, {"ts": DAY1.replace(tzinfo=UTC)}],
        {"ts": [DAY1, DAY1], "n": [1, None], "sensor": ["a", None]},
        {"ts": np.array(["2020-01-01"] * 2, "datetime64[s]"), "n": [1, None], "sensor": pa.array(["a", None])},
        pa.table({"N": pa.array([1, None], pa.int64()), "ts": pa.array([DAY1] * 2), "sensor": ["a", None]}),
        pa.record_batch({"n": [1, None], "ts": pa.array([DAY1] * 2, pa.timestamp("ms", "UTC")), "sensor": ["a", None]}),
        [pa.record_batch({"n": [n], "ts": [DAY1], "sensor": [s]}) for n, s in ((1, "a"), (None, None))],
        pa.RecordBatchReader.from_batches(
            pa.schema([("ts", pa.date32()), ("n", pa.int8()), ("sensor", pa.large_string())]),
            [pa.record_batch([[date(2020, 1, 1)] * 2, [1, None], ["a", None]],
                             schema=pa.schema([("ts", pa.date32()), ("n", pa.int8()), ("sensor", pa.large_string())]))],
        ),
    ],
)  # fmt: skip
def test_every_form(data: Any) -> None:
    table = to_table(data, S, engine_db())
    assert table.to_pylist() == WANTED and table.schema == arrow_schema(S)


def test_a_duckdb_relation() -> None:
    relation = duckdb.connect().sql("SELECT TIMESTAMP '2020-01-01' AS ts, 'a' AS sensor, 1 AS n")
    assert to_table(relation, S).to_pylist() == [ROW]


@pytest.mark.parametrize("data", [[], {}, pa.table({}), {"ts": []}])
def test_no_rows(data: Any) -> None:
    table = to_table(data, S)
    assert len(table) == 0 and table.schema == arrow_schema(S)


def test_a_null_event_time_passes() -> None:
    assert to_table([{"n": 1}], S).column("ts").to_pylist() == [None]


def test_arrival_is_not_ours_to_give() -> None:
    table = to_table([{"n": 1}], stream("n INTEGER", source="ingest"))
    assert table.schema.names == ["n", ARRIVAL] and table.column(ARRIVAL).null_count == 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([ROW | {"sensr": "b"}], r"stream 's' has no column 'sensr': did you mean 'sensor'\?"),
        ([ROW | {"zzz": 1}], "no column 'zzz': it has ts, sensor, n"),
        ([ROW, ROW | {"n": "x"}], r"row 1, column 'n' of stream 's': 'x' \(a string\) does not fit INTEGER"),
        ([ROW, ROW | {"n": 2.5}], r"row 1, column 'n' .* '2.5' \(a double\) does not fit INTEGER"),
        ([ROW, ROW | {"n": 2**40}], r"'1099511627776' \(a int64\) does not fit INTEGER"),
        ([ROW, ROW | {"n": 2**80}], r"row 1, column 'n'.*1208925819614629174706176"),
        ([ROW | {"ts": 5}], r"column 'ts' of stream 's': '5' \(a int64\) does not fit TIMESTAMP"),
        ([ROW | {"ts": "soon"}], r"'soon' \(a string\) does not fit TIMESTAMP"),
        ([ROW, ROW | {"n": [1]}], r"row 1, column 'n' of stream 's': \[1\] \(a list\) does not fit INTEGER"),
        ([ROW, ROW | {"n": object()}], r"row 1, column 'n' .* \(a object\) does not fit INTEGER"),
        ([ROW, ROW | {"sensor": "\ud800"}], r"row 1, column 'sensor' .* '\\ud800' \(a str\) does not fit VARCHAR"),
        ([ROW | {"n": 1, "N": 2}], "column 'N' is given twice"),
        (pa.table([[1], [2]], names=["n", "N"]), "column 'N' is given twice"),
        ({"ts": [DAY1], "n": [1, 2]}, r"different lengths \(ts: 1, n: 2\)"),
        ({"n": 5}, r"column 'n' .* is a int, not a list of values; a single row is"),
        ([ROW, 5], "row 1 for stream 's' is a int, not a dict"),
        ("ts,n", "cannot ingest a str into stream 's'"),
        (5, "cannot ingest a int"),
    ],
)
def test_what_is_wrong_is_told(data: Any, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        to_table(data, S, engine_db())


def test_python_values_of_every_type() -> None:
    definition = stream(
        "ts TIMESTAMPTZ", "u UUID", "d DECIMAL(10,2)", "h HUGEINT", "b BLOB", "day DATE", "i INTERVAL", "l INTEGER[]",
        "p STRUCT(x INTEGER, y VARCHAR)", "m MAP(VARCHAR, INTEGER)", "e ENUM('a','b')", "f FLOAT", "t TIME",
        "o BOOLEAN", "a INTEGER[2]", "ub UBIGINT", "j JSON", source="ingest",
    )  # fmt: skip
    key = uuid.uuid4()
    zone = timezone(timedelta(hours=2))
    row = {
        "ts": datetime(2020, 1, 1, 2, tzinfo=zone), "u": key, "d": Decimal("1.50"), "h": 10**30, "b": b"\xff",
        "day": date(2020, 1, 1), "i": timedelta(days=1, microseconds=3), "l": [1, None], "p": {"x": 1}, "m": {"k": 1},
        "e": "b", "f": 0.5, "t": datetime(2020, 1, 1, 3, 4).time(), "o": True, "a": [1, 2], "ub": 2**64 - 1,
        "j": '{"q": 1}',
    }  # fmt: skip
    table = to_table([row, {}], definition, engine_db())
    got = table.to_pylist()[0]
    assert table.schema == arrow_schema(definition)
    assert got["ts"] == datetime(2020, 1, 1, tzinfo=UTC) and got["u"] == str(key) and got["d"] == Decimal("1.50")
    assert got["h"] == 10**30 and got["b"] == b"\xff" and got["l"] == [1, None] and got["p"] == {"x": 1, "y": None}
    assert got["m"] == [("k", 1)] and got["e"] == "b" and got["a"] == [1, 2] and got["ub"] == 2**64 - 1
    assert all(v is None for v in table.to_pylist()[1].values())
    with pytest.raises(SourceError, match=r"column 'e' .* 'c' .* does not fit ENUM"):
        to_table([row | {"e": "c"}], definition)
    with pytest.raises(SourceError, match="column 'u'"):
        to_table([row | {"u": "no"}], definition)
    with pytest.raises(SourceError, match="column 'i'"):
        to_table([row | {"i": timedelta(days=200_000)}], definition)
    with pytest.raises(SourceError, match="column 'a'"):
        to_table([row | {"a": [1, 2, 3]}], definition)


@pytest.mark.parametrize(
    ("declared", "fits", "unfit"),
    [
        ("DECIMAL(38, 0)", Decimal(7), Decimal(10**45)),
        ("HUGEINT", Decimal(7), Decimal(10**45)),
        ("DECIMAL(38, 0)[]", [Decimal(7), None], [Decimal(10**45)]),
        ("STRUCT(a HUGEINT)", {"a": Decimal(7)}, {"a": Decimal(10**45)}),
    ],
)
def test_decimals_of_more_than_38_digits_are_read_and_refused(declared: str, fits: Any, unfit: Any) -> None:
    definition = stream("ts TIMESTAMP", f"n {declared}", source="ingest")
    wide = pa.array([fits, unfit]).slice(0, 1)  # the type is that of the wider value
    assert to_table({"ts": [DAY1], "n": wide}, definition, engine_db())["n"].to_pylist() == [fits]
    with pytest.raises(SourceError, match=r"row 1, column 'n'.*1000000.*does not fit"):
        to_table({"ts": [DAY1, DAY1], "n": pa.array([fits, unfit])}, definition, engine_db())
