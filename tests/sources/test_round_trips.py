"""Random tables of many types through every format come back as they were; damage never raises or loses a record."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sources.helpers import engine_db, item_of, stream

from millpond.sources.formats.carriers import arrow_schema, typed_select
from millpond.sources.formats.read import read, tail_times
from millpond.sources.ingest import to_table
from millpond.support.errors import SourceError
from millpond.types import Column, StreamDefinition, StreamOptions

_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
_when = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))


def _int(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": _int(8),
    "SMALLINT": _int(16),
    "INTEGER": _int(32),
    "BIGINT": _int(64),
    "HUGEINT": st.integers(-(10**38) + 1, 10**38 - 1),
    "UTINYINT": _int(8, False),
    "USMALLINT": _int(16, False),
    "UINTEGER": _int(32, False),
    "UBIGINT": _int(64, False),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(9,3)": st.decimals(-999_999, 999_999, places=3),
    "DECIMAL(38,10)": st.decimals(-(10**15), 10**15, places=10),
    "VARCHAR": _text,
    "BLOB": st.binary(max_size=8),
    "DATE": st.dates(date(1, 1, 1)),
    "TIME": st.times(),
    "TIMESTAMP": _when,
    "TIMESTAMP_S": _when.map(lambda t: t.replace(microsecond=0)),
    "TIMESTAMPTZ": _when.map(lambda t: t.replace(tzinfo=UTC)),
    "INTERVAL": st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)),
    "UUID": st.uuids().map(str),
    "ENUM('a', 'b', 'it''s')": st.sampled_from(["a", "b", "it's"]),
    "INTEGER[]": st.lists(st.none() | _int(32), max_size=3),
    "VARCHAR[]": st.lists(_text, max_size=3),
    "STRUCT(x INTEGER, y VARCHAR)": st.fixed_dictionaries({"x": st.none() | _int(32), "y": st.none() | _text}),
    "STRUCT(p STRUCT(q DOUBLE)[], r TIMESTAMP)": st.fixed_dictionaries(
        {"p": st.lists(st.fixed_dictionaries({"q": st.floats(-1e9, 1e9)}), max_size=2), "r": _when}
    ),
    "INTEGER[2]": st.lists(_int(32), min_size=2, max_size=2),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[StreamDefinition, pa.Table]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    columns = [Column("ts", "TIMESTAMP"), *(Column(f"Col {i}", kind) for i, kind in enumerate(kinds))]
    definition = StreamDefinition("s", tuple(columns), StreamOptions(source="files", time="ts"))
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {"ts": _when, **{f"Col {i}": st.none() | VALUES[kind] for i, kind in enumerate(kinds)}}
            ),
            max_size=12,
        )
    )
    return definition, to_table(rows, definition, engine_db())


@pytest.fixture(scope="module")
def writer() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute("SET threads = 1; SET TimeZone = 'UTC'")
    return db


def check(path: Path, definition: StreamDefinition, table: pa.Table) -> None:
    db = engine_db()
    item = item_of(path)
    result = read(item, definition, None, db)
    assert result.rejected.to_pylist() == []
    assert result.rows.schema == arrow_schema(definition)
    assert result.rows.to_pylist() == table.to_pylist()
    times = table.column("ts").cast(pa.int64()).to_pylist()
    assert tail_times(item, definition, db, 5).tolist() == times[-5:]
    some = read(item, definition, ["ts"], db)
    assert some.rows == result.rows.select(["ts"])


@given(drawn=tables(), rows=st.integers(1, 5))
def test_parquet_and_arrow(tmp_path: Path, drawn: tuple[StreamDefinition, pa.Table], rows: int) -> None:
    definition, table = drawn
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table, rows)
    check(tmp_path / "a.arrow", definition, table)
    if not any("INTERVAL" in c.type for c in definition.columns):  # Parquet has no such type in Arrow
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows)
        check(tmp_path / "a.parquet", definition, table)


@given(drawn=tables())
def test_parquet_written_by_duckdb(
    tmp_path: Path, writer: duckdb.DuckDBPyConnection, drawn: tuple[StreamDefinition, pa.Table]
) -> None:
    definition, table = drawn
    # it writes DOUBLE for the first, milliseconds for the second, and a file that Arrow refuses for NULL arrays
    if any(c.type in ("HUGEINT", "INTERVAL", "INTEGER[2]") for c in definition.columns):
        return
    writer.register("rows", table)
    writer.execute(f"COPY (SELECT {typed_select(definition)} FROM rows) TO '{tmp_path}/a.parquet'")
    check(tmp_path / "a.parquet", definition, table)


@given(drawn=tables(), packed=st.booleans())
def test_csv(
    tmp_path: Path, writer: duckdb.DuckDBPyConnection, drawn: tuple[StreamDefinition, pa.Table], packed: bool
) -> None:
    definition, table = drawn
    if any(("(" in c.type and c.type.startswith("STRUCT")) or c.type == "VARCHAR[]" for c in definition.columns):
        return  # text of nested text is not unique
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    writer.register("rows", table)
    writer.execute(f"COPY (SELECT {typed_select(definition)} FROM rows) TO '{path}' (HEADER, FORCE_QUOTE *)")
    check(path, definition, table)


@given(drawn=tables(), packed=st.booleans())
def test_ndjson(
    tmp_path: Path, writer: duckdb.DuckDBPyConnection, drawn: tuple[StreamDefinition, pa.Table], packed: bool
) -> None:
    definition, table = drawn
    if any(c.type == "HUGEINT" for c in definition.columns):
        return  # written as a double
    writer.register("rows", table)
    writer.execute(f"COPY (SELECT {typed_select(definition)} FROM rows) TO '{tmp_path}/a.ndjson' (FORMAT json)")
    path = tmp_path / "a.ndjson"
    if packed:
        path = tmp_path / "a.ndjson.gz"
        path.write_bytes(gzip.compress((tmp_path / "a.ndjson").read_bytes()))
    check(path, definition, table)


@given(st.binary(max_size=200), st.sampled_from(["csv", "ndjson", "parquet", "arrow"]), st.booleans())
def test_no_bytes_raise(tmp_path: Path, noise: bytes, kind: str, headed: bool) -> None:
    definition = stream("ts TIMESTAMP", "n INTEGER", "t VARCHAR", "l INTEGER[]")
    path = tmp_path / f"a.{kind}"
    path.write_bytes((b"ts,n,t\n" if headed else b"") + noise)
    result = read(item_of(path), definition, None, engine_db())
    tail_times(item_of(path), definition, engine_db(), 3)
    assert result.rows.schema == arrow_schema(definition)
    if result.positions is not None:
        places = result.positions.to_pylist() + result.rejected.column("position").to_pylist()
        assert len(set(places)) == len(places)


_field = st.sampled_from(["2020-01-01", "1", "x", "", '"a,b"', '"q""q"', "2.5", '"two\nlines"', "é", "never"])


@given(st.lists(st.lists(_field, min_size=1, max_size=4), max_size=8))
def test_every_csv_record_is_a_row_or_a_dead_letter(tmp_path: Path, records: list[list[str]]) -> None:
    definition = stream("ts TIMESTAMP", "n INTEGER", "t VARCHAR")
    records = [r for r in records if r != [""]]  # a blank line
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["ts,n,t", *(",".join(r) for r in records)]))
    result = read(item_of(path), definition, None, engine_db())
    good = [r[0] == "2020-01-01" and len(r) == 3 and r[1] in ("1", "") for r in records]
    rows = list(range(len(result.rows))) if result.positions is None else result.positions.to_pylist()
    assert rows == [i for i, ok in enumerate(good) if ok]
    assert result.rejected.column("position").to_pylist() == [i for i, ok in enumerate(good) if not ok]


def test_types_come_back_from_what_carries_them() -> None:
    definition = stream("ts TIMESTAMP", "u UUID", "e ENUM('a','b')", "h HUGEINT", "b BIT", "z TIMETZ", "n TIMESTAMP_NS")
    row = {"ts": "2020-01-01", "u": "07b586d5-ac6f-42aa-990b-124693c16a1f", "e": "b", "h": -5, "b": "101",
           "z": "12:00:00+02", "n": "2020-01-01 00:00:00.000001"}  # fmt: skip
    db = engine_db()
    db.register("rows", to_table([row], definition, db))
    typed = db.sql(f"SELECT {typed_select(definition)} FROM rows")
    kinds = [str(t) for t in typed.types]
    assert kinds == [
        "TIMESTAMP", "UUID", "ENUM('a', 'b')", "HUGEINT", "BIT", "TIME WITH TIME ZONE", "TIMESTAMP_NS"
    ]  # fmt: skip
    assert str(typed.fetchall()[0][6]).startswith("2020-01-01 00:00:00.000001")


@pytest.mark.parametrize("kind", ["NOPE", "UNION(a INTEGER, b VARCHAR)", "VARIANT"])
def test_types_that_cannot_be_carried(kind: str) -> None:
    with pytest.raises(SourceError, match="column 'x'"):
        arrow_schema(stream(f"x {kind}"))


def test_values_that_python_writes(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "d DOUBLE", "t TIME", "c DECIMAL(5,2)")
    row = {"ts": "2020-01-01 00:00:00", "d": float("nan"), "t": str(time(1, 2)), "c": str(Decimal("1.50"))}
    path = tmp_path / "a.ndjson"
    for text in (json.dumps(row), json.dumps(row) + "\n\n"):
        path.write_text(text)
        got = read(item_of(path), definition, None, engine_db()).rows.to_pylist()[0]
        assert got["d"] != got["d"] and got["c"] == Decimal("1.50") and got["t"] == time(1, 2)
