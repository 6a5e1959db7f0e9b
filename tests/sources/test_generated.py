"""Columns that are made of others as rows are read: whatever the format, before 1970, and where they fail."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sources.helpers import bad, engine_db, item_of, read_text, stream

from millpond import language as lang
from millpond.sources.formats.generated import generate
from millpond.sources.formats.read import read, tail_times
from millpond.support.errors import SourceError
from millpond.types import Generated

S = stream("t BIGINT", "x VARCHAR", "ts TIMESTAMP", generated=(Generated("ts", 'epoch_ms("t")'),), missing="error")
CSV = "x,t\na,1000\nb,\nc,4611686018427387904\nd,2000\n"
JSON = "".join(f'{{"x":"{x}","t":{t}}}\n' for x, t in (("a", 1000), ("b", "null"), ("c", 2**62), ("d", 2000)))
FAILS = "column 'ts': Conversion Error: Could not convert Timestamp(MS) to Timestamp(US)"


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
@pytest.mark.parametrize("columns", [None, ["x"], ["ts"]])
def test_rows_are_the_same_in_every_format(tmp_path: Path, kind: str, columns: list[str] | None) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"x": ["a", "b", "c", "d"], "t": [1000, None, 2**62, 2000]}), path)
    else:
        path.write_text(CSV if kind == "csv" else JSON)
    result = read(item_of(path), S, columns, engine_db())
    assert result.positions is not None and result.positions.to_pylist() == [0, 3]
    assert bad(result) == [(1, "event time 'ts' is NULL"), (2, FAILS)]
    if columns is None or "ts" in columns:
        assert [str(v) for v in result.rows["ts"].to_pylist()] == ["1970-01-01 00:00:01", "1970-01-01 00:00:02"]
    assert tail_times(item_of(path), S, engine_db()).tolist() == [1_000_000, 2_000_000]


def test_a_column_of_the_file_does_not_take_its_place(tmp_path: Path) -> None:
    result = read_text(tmp_path, "a.csv", "t,x,ts\n1000,a,2020-01-01\n", S)
    assert (result.rows["ts"].to_pylist()[0].year, result.unknown) == (1970, 1)


def test_what_cannot_be_ingested_is_said(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (t BIGINT, ts TIMESTAMP AS (epoch_ms(t)))")
    with pytest.raises(SourceError, match="column 'ts' of stream 's' is generated; leave it out"):
        pond.ingest("s", [{"t": 1, "ts": "2020-01-01"}])


def test_many_failing_rows_lose_no_good_one(tmp_path: Path) -> None:
    lines = "".join(f"{2**62 if n % 2 else n},x\n" for n in range(5_000))
    result = read_text(tmp_path, "a.csv", f"t,x\n{lines}", S)
    assert (len(result.rows), len(result.rejected)) == (2_500, 2_500)


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20), st.sampled_from(["s", "ms", "us", "ns"]))
def test_numbers_since_1970_are_cut_to_microseconds(numbers: list[int], unit: str) -> None:
    per = {"s": 10**6, "ms": 10**3, "us": 1}
    (statement,) = lang.parse(f"CREATE STREAM s (t BIGINT) WITH (event_time='t', time_format='{unit}')")
    definition = statement.definition  # type: ignore[attr-defined]  # it is a CREATE STREAM
    micros = [n * per[unit] if unit in per else n // 1000 for n in numbers]
    failed: set[int] = set()
    column = pa.chunked_array([pa.array(numbers, pa.int64())])
    made = generate({"t": column}, definition, engine_db(), lambda mask, _: failed.update(mask.nonzero()[0].tolist()))
    found = made["event_ts"].cast(pa.int64()).to_pylist()
    most = 2**63 - 1  # what no timestamp of DuckDB reaches fails, or is one of its infinities
    right = [m if abs(m) < most else None for m in micros]
    assert all(
        f == r or (f is None and (n in failed or r is None)) for n, (f, r) in enumerate(zip(found, right, strict=True))
    )
    assert all(found[n] == r for n, r in enumerate(right) if r is not None and abs(r) < 9_000_000_000_000_000_000)


_MICROS = {"s": Fraction(10**6), "ms": Fraction(10**3), "us": Fraction(1), "ns": Fraction(1, 1000)}
_KINDS = {"DOUBLE": pa.float64(), "FLOAT": pa.float32(), "DECIMAL(38, 12)": pa.decimal128(38, 12),
          "BIGINT": pa.int64(), "TEXT": pa.string()}  # fmt: skip
_SPANS = st.one_of(
    st.integers(-9 * 10**12, 9 * 10**12).map(lambda n: n * 1000),  # whole milliseconds, whose nanoseconds fit BIGINT
    st.integers(-(10**10), 10**10).map(lambda n: n * 250_000),  # quarters of a second
    st.integers(-(2**52), 2**52),
    st.integers(4_290_000_000_000_000, 4_510_000_000_000_000),  # where a double's steps come near a microsecond
)


def _written_as(exact: Fraction, kind: str) -> Any:
    """A number as a column of a kind has it: what is next to it, or what its digits leave of it."""
    if kind in ("DOUBLE", "FLOAT"):
        return pa.scalar(float(exact), pa.float64()).cast(_KINDS[kind], safe=False).as_py()
    if kind == "BIGINT":
        return math.floor(exact)
    text = Decimal(math.floor(exact * 10**12)).scaleb(-12)
    return f"{text:f}" if kind == "TEXT" else text


@given(st.lists(_SPANS, min_size=1, max_size=20), st.integers(0, 999), st.sampled_from(["s", "ms", "us", "ns"]),
       st.sampled_from(sorted(_KINDS)))  # fmt: skip
def test_epoch_times_are_exact(micros: list[int], finer: int, unit: str, kind: str) -> None:
    """Numbers with a point are cut to microseconds; binary ones give the microsecond next to them."""
    (statement,) = lang.parse(f"CREATE STREAM s (t {kind}) WITH (event_time='t', time_format='{unit}')")
    is_binary, scale = kind in ("DOUBLE", "FLOAT"), _MICROS[unit]
    more = Fraction(0) if is_binary else Fraction(finer, 1000)
    values = [_written_as((m + more) / scale, kind) for m in micros]
    column = pa.chunked_array([pa.array(values, _KINDS[kind])])
    definition = statement.definition  # type: ignore[attr-defined]  # it is a CREATE STREAM
    made = generate({"t": column}, definition, engine_db(), lambda mask, reason: pytest.fail(reason))
    found = made["event_ts"].cast(pa.int64()).to_pylist()
    exact = [Fraction(v) * scale for v in values]
    assert found == [math.floor(e + Fraction(1, 2)) if is_binary else math.floor(e) for e in exact]
    for m, value, f in zip(micros, values, found, strict=True):
        if (kind == "DOUBLE" and math.ulp(value) * scale < 1) or kind in ("TEXT", "DECIMAL(38, 12)"):
            assert f == m


@pytest.mark.parametrize(
    ("unit", "value", "micros"),
    [
        ("ms", 1357002000000.0, 1357002000000000),
        ("s", 1772352000.25, 1772352000250000),
        ("s", 1521911720.600725, 1521911720600725),
        ("us", 4503599627370497.0, 4503599627370497),
        ("ns", 1.4e18, 1400000000000000),
        ("s", -0.3, -300000),
    ],
)
def test_doubles_that_were_a_microsecond_off(unit: str, value: float, micros: int) -> None:
    (statement,) = lang.parse(f"CREATE STREAM s (t DOUBLE) WITH (event_time='t', time_format='{unit}')")
    definition = statement.definition  # type: ignore[attr-defined]  # it is a CREATE STREAM
    column = pa.chunked_array([pa.array([value])])
    made = generate({"t": column}, definition, engine_db(), lambda mask, reason: pytest.fail(reason))
    assert made["event_ts"].cast(pa.int64()).to_pylist() == [micros]
