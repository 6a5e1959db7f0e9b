"""Every type, embedded and remote, and through JSON and CSV and back."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import io
import json
from typing import Any

import pyarrow as pa
import pytest

from millpond.cli.output import Format, Writer
from millpond.server.bodies.encoding import instant
from millpond.support.texts.json_texts import csv_bytes, json_texts, rows_json
from tests.server.conftest import Served

COLUMNS = """ts TIMESTAMP, bo BOOLEAN, t TINYINT, i INTEGER, b BIGINT, u UBIGINT, h HUGEINT, f FLOAT, d DOUBLE,
de DECIMAL(20, 4), te TEXT, bl BLOB, da DATE, ti TIME, tz TIMESTAMPTZ, ms TIMESTAMP_MS, uu UUID, en ENUM('x', 'y'),
li INTEGER[], st STRUCT(a INTEGER, b TEXT), ma MAP(TEXT, INTEGER)"""
ROW: dict[str, Any] = {
    "ts": "2026-01-01T12:00:00.123456Z",
    "bo": True,
    "t": -128,
    "i": 2**31 - 1,
    "b": str(2**63 - 1),
    "u": str(2**64 - 1),
    "h": str(2**100),
    "f": 1.5,
    "d": 0.1,
    "de": "1234567890123456.7891",
    "te": 'a "b" \\ \n \u2028 ä',
    "bl": base64.b64encode(bytes(range(256))).decode(),
    "da": "2026-02-28",
    "ti": "23:59:59.999999",
    "tz": "2026-01-01T14:00:00.000000Z",
    "ms": "2026-01-01T12:00:00.123Z",
    "uu": "8a2f8b6e-4c1d-4b5e-9f3a-0123456789ab",
    "en": "y",
    "li": [1, None, 3],
    "st": {"a": 1, "b": None},
    "ma": {"k": 1},
}
ROWS = [ROW, {"ts": "2026-01-01T12:00:01.000000Z", "d": "NaN", "f": "-Infinity", "te": "", "li": [], "b": 5}]


def test_the_command_line_writes_the_json_that_http_gives(stream: Served) -> None:
    taken(stream, "a", "application/json", json.dumps(ROWS).encode())
    script = "SELECT *, 25741.02 AS x, 123456789.25::DOUBLE AS y, 0.1::FLOAT AS z, 1.123456789 AS w FROM a"
    body = json.dumps({"statements": script}).encode()
    reply = stream.raw()("POST", "/v1/statements", body, {"Content-Type": "application/json"})
    written = io.StringIO()
    Writer(Format.json, written, io.StringIO()).write(stream.pond.sql(script).to_arrow())
    lines = written.getvalue().rstrip("\n").split("\n")
    assert f'"rows":[{",".join(lines)}]' in reply.body.decode()
    shown = io.StringIO()
    Writer(Format.table, shown, io.StringIO()).write(stream.pond.sql(script).to_arrow())
    for text in ("25741.02", "123456789.25", "0.1", "1.123456789", str(2**100), "1234567890123456.7891"):
        assert text in shown.getvalue()


@pytest.fixture
def stream(served: Served) -> Served:
    served.pond.sql(
        f"CREATE STREAM a ({COLUMNS}) WITH (event_time='ts'); CREATE STREAM c ({COLUMNS}) WITH (event_time='ts')"
    )
    return served


def taken(served: Served, stream: str, media: str, body: bytes) -> None:
    reply = served.raw()("POST", f"/v1/streams/{stream}/rows", body, {"Content-Type": media})
    assert reply.status == 200, reply.body
    served.pond.drain()


def selected(served: Served, stream: str, form: str = "json") -> Any:
    body = {"statements": f"SELECT * FROM {stream} ORDER BY ts"}
    reply = served.raw()("POST", f"/v1/statements?format={form}", body)
    assert reply.status == 200, reply.body
    return reply.json["results"][0]["rows"] if form == "json" else reply.body


def test_json_comes_back_as_it_went(stream: Served) -> None:
    taken(stream, "a", "application/json", json.dumps(ROWS).encode())
    found = selected(stream, "a")
    assert {k: v for k, v in found[0].items() if v != ROW[k]} == {}
    assert {k: v for k, v in found[1].items() if v is not None} == ROWS[1]


def test_ndjson_and_json_and_arrow_are_the_same(stream: Served) -> None:
    taken(stream, "a", "application/x-ndjson", b"\n".join(json.dumps(r).encode() for r in ROWS) + b"\n\n")
    with stream.connect() as remote:
        table = remote.sql("SELECT * FROM a ORDER BY ts").to_arrow()
        embedded = stream.pond.sql("SELECT * FROM a ORDER BY ts").to_arrow()
        assert table.schema == embedded.schema and str(table.to_pylist()) == str(embedded.to_pylist())  # NaN is not NaN
        remote.ingest("c", table)
        remote.drain()
    assert selected(stream, "a") == selected(stream, "c")


def test_one_array_is_taken_as_lines_are(stream: Served) -> None:
    taken(stream, "a", "application/x-ndjson", b"\n" + json.dumps(ROWS, indent=2).encode())
    taken(stream, "c", "application/x-ndjson", b"\n".join(json.dumps(r).encode() for r in ROWS))
    assert selected(stream, "a") == selected(stream, "c")


def test_csv_comes_back_as_it_went(stream: Served) -> None:
    taken(stream, "a", "application/json", json.dumps(ROWS).encode())
    text = selected(stream, "a", "csv")
    names = [c for c in ROW if c not in ("li", "st", "ma")]  # nested values are JSON in CSV, and no way back
    body = {"statements": f"SELECT {', '.join(names)} FROM a ORDER BY ts"}
    text = stream.raw()("POST", "/v1/statements?format=csv", body).body
    taken(stream, "c", "text/csv", text)
    again = stream.raw()(
        "POST", "/v1/statements?format=csv", {"statements": body["statements"].replace("FROM a", "FROM c")}
    )
    assert again.body == text and b'""' in text


def test_embedded_and_remote_rows_are_the_same_python_values(stream: Served) -> None:
    values = {
        "ts": dt.datetime(2026, 1, 1),
        "de": decimal.Decimal("1.2500"),
        "bl": b"\x00\xff",
        "li": [1, 2],
        "st": {"a": 1, "b": "c"},
        "tz": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    }
    with stream.connect() as remote:
        remote.ingest("a", [values])
        stream.pond.ingest("c", [values])
        remote.drain()
        assert remote.sql("SELECT * FROM a").rows() == stream.pond.sql("SELECT * FROM c").rows()


@pytest.mark.parametrize("few", [True, False])
def test_few_and_many_rows_are_encoded_the_same(few: bool) -> None:
    count = 50 if few else 20_000
    table = pa.table(
        {
            "i": pa.array([2**53, 2**53 + 1, -(2**60), None, 0] * (count // 5)),
            "d": [float("nan"), float("inf"), float("-inf"), None, 1e20] * (count // 5),
            "s": ["a", 'q"', "\x01", None, "ä"] * (count // 5),
            "t": pa.array([0, 1, -(2**50), None, 2**50] * (count // 5), pa.timestamp("us")),
            "x": pa.array([True, False, True, None, True] * (count // 5)),
        }
    )
    found = json.loads(rows_json(table))
    assert len(found) == count and found[:5] == found[-5:]
    assert [r["i"] for r in found[:5]] == [2**53, str(2**53 + 1), str(-(2**60)), None, 0]
    assert [r["d"] for r in found[:5]] == ["NaN", "Infinity", "-Infinity", None, 1e20]
    assert [r["s"] for r in found[:5]] == ["a", 'q"', "\x01", None, "ä"]
    assert found[0]["t"] == "1970-01-01T00:00:00.000000Z" and found[2]["t"] == "1934-04-28T18:01:33.157376Z"


def test_nested_and_rare_types() -> None:
    array = pa.array([[{"a": [1, None], "b": b"x"}], None, []])
    assert [json.loads(t) for t in json_texts(array).to_pylist()] == [[{"a": [1, None], "b": "eA=="}], None, []]
    assert [json.loads(t) for t in json_texts(array.slice(1)).to_pylist()] == [None, []]
    interval = pa.array([pa.MonthDayNano([1, 2, 3_500_000_000]), None])
    assert json_texts(interval).to_pylist() == ['"1 month 2 days 00:00:03.5"', "null"]
    assert json_texts(pa.array(["a", None]).dictionary_encode()).to_pylist() == ['"a"', "null"]
    assert json_texts(pa.array([[1.5, float("nan")]], pa.list_(pa.float64(), 2))).to_pylist() == ['[1.5,"NaN"]']


def test_no_rows_and_no_columns() -> None:
    assert rows_json(pa.table({"a": pa.array([], pa.int64())})) == b"[]"
    assert rows_json(pa.table({})) == b"[]"
    assert csv_bytes(pa.table({"a": pa.array([], pa.int64())})) == b'"a"\n'
    assert instant(None) is None and instant(2**63 - 1) == "end"
