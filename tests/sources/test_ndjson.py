"""NDJSON: invalid lines, keys in any letters, nested values, numbers in strings."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sources.helpers import bad, engine_db, item_of, read_text, stream

from millpond.sources.formats import json_arrays
from millpond.sources.formats.read import tail_times

S = stream("ts TIMESTAMP", "n INTEGER", "t VARCHAR")
DAY1 = datetime(2020, 1, 1)


def test_plain(tmp_path: Path) -> None:
    text = '{"ts":"2020-01-01","n":1,"t":"x"}\n{"n":null,"ts":"2020-01-01T00:00:00Z","more":[1]}\n'
    result = read_text(tmp_path, "a.ndjson", text, S)
    assert result.rows.to_pylist() == [{"ts": DAY1, "n": 1, "t": "x"}, {"ts": DAY1, "n": None, "t": None}]
    assert result.positions is None and len(result.rejected) == 0 and result.unknown == 1


@pytest.mark.parametrize("content", ["", "\n", "\n \r\n", "\ufeff\n"])
def test_no_rows(tmp_path: Path, content: str) -> None:
    result = read_text(tmp_path, "a.ndjson", content, S)
    assert (len(result.rows), len(result.rejected)) == (0, 0)


def test_bad_lines_are_rejected_with_their_number(tmp_path: Path) -> None:
    good = '{"ts":"2020-01-01","n":1}'
    lines = [good, "", "{oops", good + " " + good, "[1]", "null", "7", good, '{"ts":null}']
    lines += ['{"ts":"2020-01-01","n":"x"}', '{"ts":"2020-01-01","n":1.5}', '{"ts":"2020-01-01","n":{"a":1}}']
    lines += ['{"n":3}', '{"ts":12}', good]
    result = read_text(tmp_path, "a.ndjson", "\r\n".join(lines), S)
    assert result.positions is not None and result.positions.to_pylist() == [0, 7, 14]
    assert bad(result) == [
        (2, "line 3: not JSON"),
        (3, "line 4: not JSON"),
        (4, "line 5: not a JSON object"),
        (5, "line 6: not a JSON object"),
        (6, "line 7: not a JSON object"),
        (8, "event time 'ts' is NULL"),
        (9, "column 'n': 'x' does not fit INTEGER"),
        (10, "column 'n': '1.5' does not fit INTEGER"),
        (11, "column 'n': '{\"a\":1}' does not fit INTEGER"),
        (12, "event time 'ts' is NULL"),
        (13, "column 'ts': '12' does not fit TIMESTAMP"),
    ]
    assert result.rejected.column("record").to_pylist()[0] == "{oops"


def test_numbers_in_strings_and_text_from_numbers(tmp_path: Path) -> None:
    text = '{"ts":"2020-01-01","n":"42","t":1.50}\n{"ts":"2020-01-01","n":2.0,"t":{"a":[1]}}\n'
    result = read_text(tmp_path, "a.ndjson", text, S)
    assert result.rows.column("n").to_pylist() == [42, 2]
    assert result.rows.column("t").to_pylist() == ["1.5", '{"a":[1]}']


def test_keys_in_any_letters(tmp_path: Path) -> None:
    text = '{"TS":"2020-01-01","N":1,"other":2}\n{"Ts":"2020-01-01","n":2,"N":3}\n{"ts":"2020-01-01","Other":1}\n'
    result = read_text(tmp_path, "a.ndjson", text, S)
    assert result.rows.column("n").to_pylist() == [1, 2, None] and result.unknown == 1


def test_keys_with_odd_letters(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "a/b~'c\" INTEGER", "$.x INTEGER")
    line = json.dumps({"ts": "2020-01-01", "a/b~'c\"": 1, "$.x": "2"})
    assert read_text(tmp_path, "a.ndjson", line + "\n\n", definition).rows.to_pylist()[0]["a/b~'c\""] == 1
    assert read_text(tmp_path, "a.ndjson", line, definition).rows.to_pylist()[0]["$.x"] == 2


def test_nested_values(tmp_path: Path) -> None:
    definition = stream(
        "ts TIMESTAMP",
        "p STRUCT(x INTEGER, y VARCHAR)",
        "l DOUBLE[]",
        "m MAP(VARCHAR, INTEGER)",
        "w TIMESTAMP[]",
        "j JSON",
    )
    row = {
        "ts": "2020-01-01",
        "p": {"x": 1, "y": "a"},
        "l": [1, 2.5],
        "m": {"k": 3},
        "w": ["2020-01-01T02:00:00+02:00"],
    }
    rows = [
        row | {"j": {"a": 1}},
        row | {"p": {"x": "7"}, "l": [], "j": None},
        row | {"p": None, "l": None, "m": None, "w": None},
        row | {"p": {"x": "no"}},
        row | {"l": 5},
        row | {"p": {"x": 1, "z": 2}},
    ]
    result = read_text(tmp_path, "a.ndjson", "\n".join(json.dumps(r) for r in rows), definition)
    got = result.rows.to_pylist()
    assert got[0]["p"] == {"x": 1, "y": "a"} and got[0]["l"] == [1, 2.5] and got[0]["m"] == [("k", 3)]
    assert got[0]["w"] == [DAY1] and json.loads(got[0]["j"]) == {"a": 1}
    assert got[1]["p"] == {"x": 7, "y": None} and got[1]["l"] == [] and got[1]["j"] is None
    assert got[2]["p"] is None and got[2]["w"] is None
    assert [place for place, _ in bad(result)][:2] == [3, 4]
    simple = stream("ts TIMESTAMP", "p STRUCT(x INTEGER, y VARCHAR)", "l DOUBLE[]")
    fast = read_text(tmp_path, "b.ndjson", json.dumps(row), simple)
    assert fast.rows.to_pylist()[0]["p"] == {"x": 1, "y": "a"}


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    content = b'{"ts":"2020-01-01","t":"a"}\n{"ts":"2020-01-01","t":"\xff"}\n{"ts":"2020-01-01","t":"c"}'
    result = read_text(tmp_path, "a.ndjson", content, S)
    assert result.rows.column("t").to_pylist() == ["a", "c"] and bad(result) == [(1, "line 2: not UTF-8")]
    assert result.rejected.column("record").to_pylist() == ['{"ts":"2020-01-01","t":"\ufffd"}']


def test_large_numbers_keep_their_digits(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "h HUGEINT", "d DECIMAL(30,10)", "u UBIGINT")
    text = '{"ts":"2020-01-01","h":"123456789012345678901234567890","u":18446744073709551615,'
    text += '"d":"12345678901234567890.0123456789"}'
    got = read_text(tmp_path, "a.ndjson", text, definition).rows.to_pylist()[0]
    assert int(got["h"]) == 123456789012345678901234567890 and str(got["d"]) == "12345678901234567890.0123456789"
    assert got["u"] == 2**64 - 1


def test_compressed(tmp_path: Path) -> None:
    raw = b'{"ts":"2020-01-01","n":1}\n' * 500
    assert len(read_text(tmp_path, "a.ndjson.gz", gzip.compress(raw), S).rows) == 500
    assert len(read_text(tmp_path, "a.jsonl.zst", pa.compress(raw, "zstd", asbytes=True), S).rows) == 500
    assert "truncated" in bad(read_text(tmp_path, "b.ndjson.gz", gzip.compress(raw)[:-9], S))[0][1]


def test_tail_times(tmp_path: Path) -> None:
    lines = [json.dumps({"TS": f"1970-01-01 00:{n // 60:02}:{n % 60:02}", "pad": "x" * 100}) for n in range(3000)]
    (tmp_path / "a.ndjson").write_text("\n".join(lines))
    times = tail_times(item_of(tmp_path / "a.ndjson"), S, engine_db(), 100)
    assert times.tolist() == [n * 1_000_000 for n in range(2900, 3000)]
    (tmp_path / "b.ndjson").write_text('{"ts":"1970-01-01 00:00:01"}\n{oops\n\n{"ts":"x"}\n')
    assert tail_times(item_of(tmp_path / "b.ndjson"), S, engine_db(), 100).tolist() == [1_000_000]


@pytest.mark.parametrize(
    "more",
    ["", "\n", "no JSON\n", '{"ts": "2020-01-01", "l": [1]}\n']
    + [f'{{"ts": "2020-01-01", "d": {bad}}}\n' for bad in ("true", "[1]", "{}", '"a 1.5"', "1e-50")],
)
@pytest.mark.parametrize(
    ("declared", "text"),
    [("DECIMAL(38,10)", t) for t in ("1871826.2200106972", "12345678901234567890.1234567891", "-0.0000000001", "1e3")]
    + [("DECIMAL(38,10)", t) for t in ("1" * 28, "1" * 29, "1" * 45, "0.12345678905", "0.12345678904")]
    + [("DECIMAL(38,10)", t) for t in ("1" * 80, "1" * 77, "0." + "1" * 80, "1" * 60 + "e-50", "1e60", "1e100", "1e28")]
    + [("DECIMAL(4,2)", t) for t in ("99.99", "100", "400", "-99.99", "655.36")]
    + [("DECIMAL(18,0)", t) for t in ("999999999999999999", "1000000000000000000", "123456789012345678")]
    + [("HUGEINT", t) for t in ("12345678901234567890123456789", "-" + "9" * 30)],
)
def test_decimals_have_all_their_digits(tmp_path: Path, declared: str, text: str, more: str) -> None:
    """As numbers and as texts, and whatever stands beside them."""
    shown = engine_db().sql(f"SELECT TRY_CAST('{text}' AS {declared})::VARCHAR AS v").fetchall()[0][0]
    right = [] if shown is None else [Decimal(shown)]
    for written in (text, f'"{text}"'):
        content = f'{{"ts": "2020-01-01", "d": {written}}}\n{more}'
        result = read_text(tmp_path, "a.ndjson", content, stream("ts TIMESTAMP", f"d {declared}", "l INTEGER[]"))
        assert [v for v in result.rows["d"].to_pylist() if v] == right, written


@pytest.mark.parametrize("more", ["", "no JSON\n"])
@pytest.mark.parametrize(
    "text", ["1234567890123456789.0123456789", "0.12345678901234567890", "1" * 27, "655.36", "1e60"]
)
def test_decimals_inside_of_values_have_all_their_digits(tmp_path: Path, text: str, more: str) -> None:
    s = stream(
        "ts TIMESTAMP", "l DECIMAL(38,10)[]", 'p STRUCT("k""y" DECIMAL(38,10), t VARCHAR)', "small DECIMAL(4,2)[]"
    )
    t = r'a \" "1.2345678901234567890\\'.replace(' "', r" \"")
    content = f'{{"ts": "2020-01-01", "l": [1, {text}], "p": {{"k\\"y": {text}, "t": "{t}"}}}}\n{more}'
    right = engine_db().sql(f"SELECT TRY_CAST('{text}' AS DECIMAL(38,10))::VARCHAR AS v").fetchall()[0][0]
    got = read_text(tmp_path, "a.ndjson", content, s).rows.to_pylist()
    if right is None:
        assert got == []
    else:
        assert got[0]["l"] == [1, Decimal(right)]
        assert got[0]["p"] == {'k"y': Decimal(right), "t": json.loads(f'"{t}"')}
    small = read_text(tmp_path, "b.ndjson", f'{{"ts": "2020-01-01", "small": [{text}]}}\n{more}', s)
    assert [r["small"] for r in small.rows.to_pylist()] == ([[Decimal("0.12")]] if text.startswith("0") else [])


ROWS = [{"ts": "2020-01-01", "n": n, "t": t} for n, t in enumerate(['a "b", [', "\\\\", "}\n{", "", None, "\u00e9,]"])]


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("piece", [3, 50, 1 << 20])
def test_one_array_is_read_as_its_items(
    tmp_path: Path, indent: int | None, packed: bool, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_arrays, "_PIECE", piece)
    text = "\n " + json.dumps(ROWS, indent=indent) + "\n"
    content = gzip.compress(text.encode()) if packed else text
    result = read_text(tmp_path, "a.json.gz" if packed else "a.json", content, S)
    assert result.rows.to_pylist() == [row | {"ts": DAY1} for row in ROWS]
    assert len(result.rejected) == 0 and result.positions is None


def test_items_that_do_not_fit_are_rejected_with_their_number(tmp_path: Path) -> None:
    good = '{"ts":"2020-01-01","n":1}'
    text = f'[{good}, 7,\n  {{"ts":"2020-01-01",\n"n":"x"}}, {{oops}}, {good}, null]'
    result = read_text(tmp_path, "a.json", text, S)
    assert result.positions is not None and result.positions.to_pylist() == [0, 4]
    reasons = dict(bad(result))
    assert reasons[1] == "item 2: not a JSON object" and reasons[3] == "item 4: not JSON" and 2 in reasons
    records = result.rejected["record"].to_pylist()
    assert "7" in records and "{oops}" in records


@pytest.mark.parametrize("content", ["[]", " [ ]\n"])
def test_an_array_without_items(tmp_path: Path, content: str) -> None:
    result = read_text(tmp_path, "a.json", content, S)
    assert (len(result.rows), len(result.rejected)) == (0, 0)


def test_tail_times_of_an_array(tmp_path: Path) -> None:
    rows = [{"ts": f"2020-01-01 00:{n // 60 % 60:02}:{n % 60:02}", "t": "x" * 100} for n in range(3000)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    times = tail_times(item_of(tmp_path / "a.json"), S, engine_db(), 10)
    assert len(times) == 10 and times[-1] - times[0] == 9_000_000
