"""Text of every type means what DuckDB's TRY_CAST says, whichever way it comes; what that refuses is a dead letter."""

import contextlib
import gzip
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millpond
from millpond.server.serve import serving

#: Texts of each type at its edges, beyond them, and written in unusual ways.
VALUES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "FALSE", "t", "f", "1", "0", "yes", "no", "maybe", "2", "T "],
    "TINYINT": ["127", "-128", "128", "-129", "1.5", "1e1", " 7 ", "+7", "0x10", "1_0", "", "-0", "--1"],
    "SMALLINT": ["32767", "-32768", "32768", "007"],
    "INTEGER": ["2147483647", "-2147483648", "2147483648", "1.0", "1.4", "2e3", "abc", "1,000"],
    "BIGINT": ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "9007199254740993"],
    "HUGEINT": ["99999999999999999999999999999999999999", "170141183460469231731687303715884105727",
                "170141183460469231731687303715884105728", "-1", "1" + "0" * 45],
    "UTINYINT": ["255", "256", "-1"],
    "UBIGINT": ["18446744073709551615", "18446744073709551616", "-0"],
    "FLOAT": ["0.1", "3.4028235e38", "1e39", "nan", "inf", "-infinity", "1e-50", "16777217"],
    "DOUBLE": ["0.1", "1e308", "1e309", "NaN", "Infinity", "-0.0", "9007199254740993", ".5", "5.", "1e", "1d", "0x1p3"],
    "DECIMAL(4,2)": ["99.99", "-99.99", "100", "400", "1234", "0.005", "0.015", "99.995", "1e1", "1e-3", ".5", "5."],
    "DECIMAL(9,3)": ["12345678.9", "999999.999", "4294967.296", "123456789", "1.0005"],
    "DECIMAL(18,9)": ["123456789012", "999999999.9", "18446744073.709551616", "1e17"],
    "DECIMAL(38,10)": ["12345678901234567890123456789012345", "1234567890123456789012345678.1", "1e30", "5e-11"],
    "DATE": ["2024-02-29", "2023-02-29", "1969-12-31", "0001-01-01", "9999-12-31", "10000-01-01", "infinity",
             "2024/1/2", "2024-1-2", "epoch", "24-01-02", "2024-01-01 10:00:00", "2024-13-01", "0044-03-15 (BC)"],
    "TIME": ["00:00:00", "23:59:59.999999", "24:00:00", "23:59:60", "12:30", "1:2:3", "12:00:00.1234567", "25:00"],
    "TIMESTAMP": ["2024-01-01", "2024-01-01 00:00:00.123456", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z",
                  "2024-01-01 00:00:00+02", "2024-01-01 00:00:00+05:30", "2024-01-01 00:00:00.1234567",
                  "1969-12-31 23:59:59.999999", "infinity", "-infinity", "2024-01-01 24:00:00", "2024-01-01 10:00",
                  "290000-01-01", "300000-01-01", "epoch", "20240101", "1704067200"],
    "TIMESTAMPTZ": ["2024-01-01 00:00:00+02", "2024-01-01 00:00:00", "2024-01-01T00:00:00Z",
                    "2024-01-01 10:00 Europe/Berlin"],
    "INTERVAL": ["1 day", "1 month 2 days", "01:02:03", "-1 hour", "P1D", "1 fortnight", "1"],
    "UUID": ["00000000-0000-0000-0000-000000000001", "{80000000-0000-0000-0000-000000000000}",
             "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "80000000-0000-0000-0000", "x"],
    "BLOB": ["abc", "\\x41", "\\xzz", "é"],
    "ENUM('a', 'b')": ["a", "b", "c", "A", " a"],
    "VARCHAR": ["a", "NULL", " spaces ", "é", "null"],
    "JSON": ['{"a": 1}', "[1, 2]", "17", "null", "{a: 1}", '"text"'],
    "INTEGER[]": ["[1, 2]", "[1,NULL]", "[]", "[1", "[x]", "1"],
    "STRUCT(a INTEGER, b VARCHAR)": ["{'a': 1, 'b': x}", "{'a': 1}", "{'a': x, 'b': y}"],
    "MAP(VARCHAR, INTEGER)": ["{a=1, b=2}", "{}", "{a=x}"],
}  # fmt: skip
#: What is meant otherwise: nothing becomes another value silently, nested or not; HUGEINT has 38 digits; zero has no
#: sign; a TIMESTAMP is an instant, in UTC where its text says no offset.
OTHERWISE: dict[tuple[str, str], str | None] = {
    ("TINYINT", "1.5"): None,
    ("INTEGER", "1.4"): None,
    ("DOUBLE", "-0.0"): "0.0",
    ("HUGEINT", "170141183460469231731687303715884105727"): None,
    ("TIMESTAMP", "2024-01-01 00:00:00+02"): "2023-12-31 22:00:00",
    ("TIMESTAMP", "2024-01-01 00:00:00+05:30"): "2023-12-31 18:30:00",
    ("INTEGER[]", "[x]"): None,
    ("STRUCT(a INTEGER, b VARCHAR)", "{'a': x, 'b': y}"): None,
    ("MAP(VARCHAR, INTEGER)", "{a=x}"): None,
}
#: JSON is written as such in NDJSON, and is no text there; over HTTP binary values are base64.
NESTED = ("JSON", "INTEGER[]", "STRUCT(a INTEGER, b VARCHAR)", "MAP(VARCHAR, INTEGER)")
ELSEWHERE = {"ndjson": NESTED, "http": ("BLOB",)}


def csv_of(values: list[str], delimiter: str = ",", quote: bool = True) -> str:
    lines = [f"ts{delimiter}n{delimiter}v"]
    for number, value in enumerate(values):
        shown = '"' + value.replace('"', '""') + '"' if quote or any(c in value for c in f'{delimiter}"\n') else value
        lines.append(delimiter.join(["2024-01-01", str(number), shown]))
    return "\n".join(lines) + "\n"


def as_csv(folder: Path, values: list[str]) -> None:
    (folder / "a.csv").write_text(csv_of(values, quote=False))


def as_quoted_csv(folder: Path, values: list[str]) -> None:
    (folder / "a.csv").write_text(csv_of(values))


def as_tsv(folder: Path, values: list[str]) -> None:
    (folder / "a.tsv").write_text(csv_of(values, "\t", quote=False))


def as_gzip(folder: Path, values: list[str]) -> None:
    (folder / "a.csv.gz").write_bytes(gzip.compress(csv_of(values).encode()))


def as_ndjson(folder: Path, values: list[str]) -> None:
    rows = [json.dumps({"ts": "2024-01-01", "n": n, "v": value}) for n, value in enumerate(values)]
    (folder / "a.ndjson").write_text("\n".join(rows))


def as_parquet(folder: Path, values: list[str]) -> None:
    pq.write_table(table_of(values), folder / "a.parquet")


def table_of(values: list[str]) -> pa.Table:
    return pa.table({"ts": ["2024-01-01"] * len(values), "n": range(len(values)), "v": values})


FILES = {"csv": as_csv, "quoted csv": as_quoted_csv, "tsv": as_tsv, "gzip": as_gzip, "ndjson": as_ndjson,
         "parquet": as_parquet}  # fmt: skip


def expected(kind: str, values: list[str]) -> list[str | None]:
    with duckdb.connect() as db:
        db.execute("SET TimeZone='UTC'")
        sql = f"SELECT CAST(TRY_CAST(? AS {kind}) AS VARCHAR)"
        cast = [db.execute(sql, [value]).fetchall()[0][0] for value in values]
        return [OTHERWISE.get((kind, value), found) for value, found in zip(values, cast, strict=True)]


def found(pond: Any, name: str, count: int) -> list[str | None]:
    rows = dict(pond.sql(f"SELECT n, CAST(v AS VARCHAR) FROM {name}").rows())
    return [rows.get(number) for number in range(count)]


def over_http(url: str, stream: str, row: dict[str, Any]) -> None:
    """POST a row as JSON; one that does not fit is refused before it is taken."""
    request = urllib.request.Request(f"{url}/v1/streams/{stream}/rows", json.dumps([row]).encode())
    request.add_header("Content-Type", "application/json")
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as error:
        assert error.code == 400, error.read()


@pytest.mark.parametrize("way", [*FILES, "ingest", "arrow", "one by one", "http"])
def test_text_of_every_type(inline_pond: Any, tmp_path: Path, way: str) -> None:
    pond, odd = inline_pond(), []
    kinds = [kind for kind in VALUES if kind not in ELSEWHERE.get(way, ())]
    for number, kind in enumerate(kinds):
        values = [v for v in VALUES[kind] if v or way not in ("csv", "tsv")]
        folder = tmp_path / str(number)
        folder.mkdir()
        source = f"path='{folder}', " if way in FILES else ""
        pond.sql(f"CREATE STREAM s{number} (ts TIMESTAMP, n INTEGER, v {kind}) WITH ({source}event_time='ts')")
        if way in FILES:
            FILES[way](folder, values)
        elif way == "one by one":
            for n, value in enumerate(values):
                try:
                    pond.ingest(f"s{number}", [{"ts": "2024-01-01", "n": n, "v": value}])
                except millpond.SourceError:
                    continue  # what does not fit is refused before it is taken
        elif way == "http":
            with serving(pond) as url:
                for n, value in enumerate(values):
                    over_http(url, f"s{number}", {"ts": "2024-01-01", "n": n, "v": value})
        else:
            right = [n for n, text in enumerate(expected(kind, values)) if text is not None]
            rows = table_of(values).take(right)
            pond.ingest(f"s{number}", rows if way == "arrow" else rows.to_pylist())
    pond.drain()
    for number, kind in enumerate(kinds):
        values = [v for v in VALUES[kind] if v or way not in ("csv", "tsv")]
        got, right = found(pond, f"s{number}", len(values)), expected(kind, values)
        odd += [(kind, v, g, r) for v, g, r in zip(values, got, right, strict=True) if g != r]
    assert odd == [], "\n".join(map(str, odd))


@pytest.mark.parametrize("way", FILES)
def test_text_in_tables(inline_pond: Any, tmp_path: Path, way: str) -> None:
    """A table with a value that does not fit is not read; all others are as in streams."""
    pond, odd = inline_pond(), []
    for number, kind in enumerate(k for k in VALUES if way != "ndjson" or k not in NESTED):
        values = [v for v in VALUES[kind] if v or way not in ("csv", "tsv")]
        right = {v: text for v, text in zip(values, expected(kind, values), strict=True) if text is not None}
        (folder := tmp_path / str(number)).mkdir()
        FILES[way](folder, list(right))
        (file,) = folder.iterdir()
        pond.sql(f"CREATE TABLE t{number} (n INTEGER, v {kind}) WITH (path='{file}')")
        got = found(pond, f"t{number}", len(right))
        odd += [(kind, v, g, r) for (v, r), g in zip(right.items(), got, strict=True) if g != r]
    assert odd == [], "\n".join(map(str, odd))


#: Numbers since 1970 as event times, at their edges, beyond them, and written in unusual ways.
NUMBERS = ["0", "-1", "1704067200123", "-62135596800000", "1704067200", "+7", " 7 ", "1e3", "1.5", "0x10", "abc", "",
           "9223372036854775807", "-9223372036854775808", "9223372036854775808", "null"]  # fmt: skip


def instants(unit: str, values: list[str]) -> list[int | None]:
    """Microseconds since 1970, as DuckDB has them; what is no whole number is none."""
    micros = {"s": "make_timestamp(n * 1000000)", "ms": "epoch_ms(n)", "us": "make_timestamp(n)"}[unit]
    with duckdb.connect() as db:
        sql = f"SELECT TRY(epoch_us({micros})) FROM (SELECT TRY_CAST(? AS BIGINT) AS n)"
        cast = [None if value == "1.5" else db.execute(sql, [value]).fetchall()[0][0] for value in values]
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999  # event times are in the years 1 to 9999
    return [None if n is not None and not first <= n <= last else n for n in cast]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("way", [*FILES, "bare ndjson", "one by one", "http", "bare http"])
def test_text_of_event_times_that_are_numbers(inline_pond: Any, tmp_path: Path, way: str, unit: str) -> None:
    pond = inline_pond()
    values = [v for v in NUMBERS if v or way not in ("csv", "tsv")]
    bare = [v for v in NUMBERS if v.lstrip("-").replace(".", "").isdigit() or v == "null"]
    values = bare if way.startswith("bare") else values
    path = f"path='{tmp_path}/*', " if way in FILES or way == "bare ndjson" else ""
    pond.sql(f"CREATE STREAM s (n INTEGER, v BIGINT) WITH ({path}event_time='v', time_format='{unit}')")
    rows = [{"n": n, "v": json.loads(v) if way.startswith("bare") else v} for n, v in enumerate(values)]
    if way in FILES:
        FILES[way](tmp_path, values)
    elif way == "bare ndjson":
        lines = (f'{{"n": {n}, "v": {value}}}' for n, value in enumerate(values))
        (tmp_path / "a.ndjson").write_text("\n".join(lines))
    elif way == "one by one":
        for row in rows:
            with contextlib.suppress(millpond.SourceError):
                pond.ingest("s", [row])
    else:
        with serving(pond) as url:
            for row in rows:
                over_http(url, "s", row)
    pond.drain()
    got = dict(pond.sql("SELECT n, epoch_us(event_ts) FROM s").rows())
    right = {n: micros for n, micros in enumerate(instants(unit, values)) if micros is not None}
    assert got == right, [(values[n], got.get(n), right.get(n)) for n in got.keys() | right.keys()]
