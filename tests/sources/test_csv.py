"""CSV: every shape that such files have in the wild."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from tests.sources.helpers import ARRIVED, bad, engine_db, item_of, read_text, stream

from millpond.sources.formats.read import tail_times
from millpond.types import ARRIVAL

S = stream("ts TIMESTAMP", "n INTEGER", "t VARCHAR")
DAY1 = datetime(2020, 1, 1)


def test_plain(tmp_path: Path) -> None:
    result = read_text(tmp_path, "a.csv", "ts,n,t\n2020-01-01,1,x\n2020-01-01 00:00:01.5,,\n", S)
    assert result.rows.to_pylist() == [
        {"ts": DAY1, "n": 1, "t": "x"},
        {"ts": datetime(2020, 1, 1, 0, 0, 1, 500_000), "n": None, "t": None},
    ]
    assert result.positions is None and len(result.rejected) == 0 and result.unknown == 0
    assert result.rows.schema == pa.schema([("ts", pa.timestamp("us")), ("n", pa.int32()), ("t", pa.string())])


@pytest.mark.parametrize("content", ["", "\n", "ts,n,t", "ts,n,t\n", "\ufeffts,n,t\r\n", "ts,n,t\n\n\n", " \n"])
def test_no_rows(tmp_path: Path, content: str) -> None:
    result = read_text(tmp_path, "a.csv", content, S)
    assert (len(result.rows), len(result.rejected), result.rows.schema.names) == (0, 0, ["ts", "n", "t"])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks(tmp_path: Path, end: str, last: bool, mark: str) -> None:
    text = mark + end.join(["ts,n,t", "2020-01-01,1,x", "", "2020-01-01,2,y"]) + (end if last else "")
    result = read_text(tmp_path, "a.csv", text, S)
    assert result.rows.column("n").to_pylist() == [1, 2] and result.rows.column("t").to_pylist() == ["x", "y"]
    assert result.positions is None


def test_columns_go_by_name_in_any_letters_and_order(tmp_path: Path) -> None:
    result = read_text(tmp_path, "a.csv", 'extra,T,"TS",more\n1,x,2020-01-01,2\n', S)
    assert result.rows.to_pylist() == [{"ts": DAY1, "n": None, "t": "x"}]
    assert result.unknown == 2


def test_without_a_header_columns_go_by_place(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "n INTEGER", "t VARCHAR", header=False, delimiter=";")
    result = read_text(tmp_path, "a.csv", "2020-01-01;1;x\n2020-01-01;2\n", definition)
    assert len(result.rows) == 1 and bad(result) == [(1, "2 fields where 3 are expected")]


def test_arrival_time(tmp_path: Path) -> None:
    definition = stream("n INTEGER", header=False)
    result = read_text(tmp_path, "a.csv", "1\n2\n", definition)
    assert result.rows.schema.names == ["n", ARRIVAL]
    assert result.rows.column(ARRIVAL).cast(pa.int64()).to_pylist() == [ARRIVED, ARRIVED]


def test_quotes(tmp_path: Path) -> None:
    text = 'ts,n,t\n"2020-01-01","1","a ""b"", c\nsecond line"\n2020-01-01,"",""\n2020-01-01,3,x"y\n'
    result = read_text(tmp_path, "a.csv", text, S)
    assert result.rows.column("t").to_pylist() == ['a "b", c\nsecond line', "", 'x"y']
    assert result.rows.column("n").to_pylist() == [1, None, 3]


def test_null_text(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "n INTEGER", "t VARCHAR", null="NA")
    result = read_text(tmp_path, "a.csv", "ts,n,t\n2020-01-01,NA,NA\n2020-01-01,,\n2020-01-01,1,NAN\n", definition)
    assert result.rows.select(["n", "t"]).to_pylist() == [
        {"n": None, "t": None},
        {"n": None, "t": ""},
        {"n": 1, "t": "NAN"},
    ]


def test_what_does_not_fit_is_rejected_with_its_place(tmp_path: Path) -> None:
    text = (
        "ts,n,t\n2020-01-01,1,a\n2020-01-01,2\n\n2020-01-01,x,b\n2020-01-01,2.5,c\n,3,d\nyesterday,4,e\n2020-01-01,5,f,g\n"
        "2020-01-01,6,h\ninfinity,7,i\n290000-01-01 00:00:00,8,j\n2020-01-01,99999999999,k\n2020-01-01,1e2,l\n"
    )
    result = read_text(tmp_path, "a.csv", text, S)
    assert result.rows.column("t").to_pylist() == ["a", "h", "l"]
    assert result.rows.column("n").to_pylist() == [1, 6, 100]
    assert result.positions is not None and result.positions.to_pylist() == [0, 7, 11]
    assert bad(result) == [
        (1, "2 fields where 3 are expected"),
        (2, "column 'n': 'x' does not fit INTEGER"),
        (3, "column 'n': '2.5' does not fit INTEGER"),
        (4, "event time 'ts' is NULL"),
        (5, "column 'ts': 'yesterday' does not fit TIMESTAMP"),
        (6, "4 fields where 3 are expected"),
        (8, "event time 'ts' is infinite or not in the years 1 to 9999"),
        (9, "event time 'ts' is infinite or not in the years 1 to 9999"),
        (10, "column 'n': '99999999999' does not fit INTEGER"),
    ]
    records = result.rejected.column("record").to_pylist()
    assert records[1] == "2020-01-01,x,b" and records[5] == "2020-01-01,5,f,g" and records[3] == ",3,d"


def test_rows_do_not_depend_on_the_asked_columns(tmp_path: Path) -> None:
    from millpond.sources.formats.read import read

    path = tmp_path / "a.csv"
    path.write_text("ts,n,t\n2020-01-01,x,a\n2020-01-02,2,b\n")
    item = item_of(path)
    some = read(item, S, ["t"], engine_db())
    assert some.rows.to_pylist() == [{"t": "b"}]
    assert some.rejected == read(item, S, None, engine_db()).rejected


def test_offsets_count(tmp_path: Path) -> None:
    definition = stream("ts TIMESTAMP", "z TIMESTAMPTZ")
    text = (
        "ts,z\n2020-01-01T02:00:00+02:00,2020-01-01 00:00:00\n2020-01-01 00:00:00Z,2020-01-01T00:00:00-01:30\n"
        "2020-01-01,2020-01-01 00:00:00.123456Z\n2020-01-01T00:00,\n"
    )
    result = read_text(tmp_path, "a.csv", text, definition)
    assert result.rows.column("ts").to_pylist() == [DAY1] * 4
    zoned = DAY1.replace(tzinfo=UTC)
    assert result.rows.column("z").to_pylist()[:2] == [zoned, datetime(2020, 1, 1, 1, 30, tzinfo=UTC)]
    only = read_text(tmp_path, "b.csv", "ts\n2020-01-01T02:00:00+02:00\n2020-01-01T00:00:00Z\n", definition)
    assert only.rows.column("ts").to_pylist() == [DAY1, DAY1]


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    result = read_text(tmp_path, "a.csv", b"ts,n,t\n2020-01-01,1,a\n2020-01-01,2,\xff\xfe\n2020-01-01,3,c\n\xff\n", S)
    assert result.rows.column("t").to_pylist() == ["a", "c"]
    assert bad(result)[0][0] == 1 and "is not UTF-8" in bad(result)[0][1]
    assert bad(result)[1] == (3, "1 fields where 3 are expected")
    assert result.rejected.column("record").to_pylist()[0].startswith("2020-01-01,2,\ufffd")
    unmatched = read_text(tmp_path, "b.csv", b"ts,n,other\n2020-01-01,1,\xff\n", S)
    assert len(unmatched.rows) == 1


def test_a_quote_that_is_never_closed_costs_one_record(tmp_path: Path) -> None:
    text = 'ts,n,t\n2020-01-01,1,"a\nb"\n2020-01-01,2\n2020-01-01,3,"never\n2020-01-01,4,d\n2020-01-01,5,"e"\n'
    result = read_text(tmp_path, "a.csv", text, S)
    assert result.rows.column("n").to_pylist() == [1, 4, 5]
    assert result.positions is not None and result.positions.to_pylist() == [0, 3, 4]
    assert bad(result) == [(1, "2 fields where 3 are expected"), (2, "a quote that is never closed")]
    assert result.rejected.column("record").to_pylist()[1] == '2020-01-01,3,"never'


def test_a_header_of_other_columns_rejects_the_file(tmp_path: Path) -> None:
    result = read_text(tmp_path, "a.csv", "2020-01-01,1,x\n2020-01-02,2,y\n", S)
    assert bad(result)[0][0] is None and "header names no column" in bad(result)[0][1]
    assert len(result.rejected) == 1 and len(result.rows) == 0
    utf16 = read_text(tmp_path, "b.csv", "ts,n,t\n2020-01-01,1,x\n".encode("utf-16"), S)
    assert "UTF-16" in bad(utf16)[0][1]


def test_a_missing_event_time_rejects_every_row(tmp_path: Path) -> None:
    result = read_text(tmp_path, "a.csv", "n,t\n1,x\n2,y\n", S)
    assert bad(result) == [(n, "event time 'ts' is NULL: the file has no such column") for n in range(2)]


def test_a_record_longer_than_a_block(tmp_path: Path) -> None:
    text = "x" * 3_000_000
    result = read_text(
        tmp_path, "a.csv", f'ts,n,t\n2020-01-01,1,"{text}\n"\n2020-01-01,y,"{text}"\n2020-01-01,3,z\n', S
    )
    assert result.rows.column("n").to_pylist() == [1, 3]
    assert len(result.rejected.column("record")[0].as_py()) == 1000


def test_all_of_a_large_file_is_bad(tmp_path: Path) -> None:
    result = read_text(tmp_path, "a.csv", "ts,n,t\n" + "2020-01-01,x,y\n2020-01-01\n" * 20_000, S)
    assert len(result.rows) == 0 and len(result.rejected) == 40_000
    assert result.rejected.column("position").to_pylist() == list(range(40_000))


def test_types_that_only_duckdb_reads(tmp_path: Path) -> None:
    definition = stream(
        "ts TIMESTAMP", "u UUID", "e ENUM('a','b')", "d DECIMAL(6,2)", "l INTEGER[]", "i INTERVAL", "h HUGEINT",
        "b BOOLEAN", "o TIME", "x BLOB", "f FLOAT",
    )  # fmt: skip
    row = (
        '2020-01-01,07B586D5-AC6F-42AA-990B-124693C16A1F,a,1.25,"[1, 2]",1 day,123456789012345678901234567890,'
        "yes,01:02,\\xAA,1.5"
    )
    text = "ts,u,e,d,l,i,h,b,o,x,f\n" + row + "\n" + row.replace(",a,", ",c,") + "\n" + row.replace("[1, 2]", "[1, z]")
    result = read_text(tmp_path, "a.csv", text, definition)
    got = result.rows.to_pylist()[0]
    assert got["u"] == "07b586d5-ac6f-42aa-990b-124693c16a1f" and got["l"] == [1, 2] and got["x"] == b"\xaa"
    assert str(got["d"]) == "1.25" and int(got["h"]) == 123456789012345678901234567890 and got["b"] is True
    assert [reason.split(":")[0] for _, reason in bad(result)] == ["column 'e'", "column 'l'"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "A.TSV.GZ"])
@pytest.mark.parametrize(
    ("declared", "text"),
    [("DECIMAL(4,2)", t) for t in ("99.99", "-99.99", "100", "400", "1234", "12345", "655.36", "99.994", "99.995")]
    + [("DECIMAL(9,3)", t) for t in ("999999.999", "12345678.9", "4294967.296", "-1000000")]
    + [("DECIMAL(18,9)", t) for t in ("999999999.9", "18446744073.709551616", "1e9", "1e17")]
    + [("DECIMAL(2,1)", t) for t in ("9.9", "10", "99", "9.94", "9.96")]
    + [("DECIMAL(3,0)", t) for t in ("999", "1000", "70000", "999.4", "999.5")]
    + [("DECIMAL(38,10)", t) for t in ("1" * 28, "1" * 29, "1e30")],
)
def test_decimals_are_what_duckdb_makes_of_their_text(tmp_path: Path, name: str, declared: str, text: str) -> None:
    """Alone, and among so many others that the fast way is tried."""
    between = "\t" if "tsv" in name.lower() else ","
    right = engine_db().sql(f"SELECT TRY_CAST('{text}' AS {declared}) AS v").to_arrow_table()["v"][0].as_py()
    for others in (0, 500):
        lines = ["ts,v".replace(",", between), *(f"2020-01-01{between}1" for _ in range(others))]
        content = "\n".join([*lines, f"2020-01-01{between}{text}"]).encode()
        content = gzip.compress(content) if name.lower().endswith("gz") else content
        result = read_text(tmp_path, name, content, stream("ts TIMESTAMP", f"v {declared}"))
        assert result.rows["v"].to_pylist()[others:] == ([] if right is None else [right])
        assert len(result.rejected) == (right is None)


def test_gzip_cut_short_is_one_dead_letter(tmp_path: Path) -> None:
    data = gzip.compress(b"ts,n,t\n" + b"2020-01-01,1,a\n" * 1000)
    good = read_text(tmp_path, "a.csv.gz", data + gzip.compress(b"2020-01-01,2,b\n"), S)
    assert len(good.rows) == 1001
    for name, content in (
        ("b.csv.gz", data[:-20]),
        ("c.csv.gz", b"ts,n\n1,2\n"),
        ("d.csv.gz", data[:40] + b"junk" * 9),
    ):
        result = read_text(tmp_path, name, content, S)
        assert len(result.rows) == 0 and bad(result)[0][0] is None and "gzip" in bad(result)[0][1]
    assert len(read_text(tmp_path, "e.csv.gz", b"", S).rejected) == 0


def test_zstd(tmp_path: Path) -> None:
    raw = b"ts,n,t\n" + b"2020-01-01,1,a\n" * 1000
    data = pa.compress(raw, "zstd", asbytes=True)
    assert len(read_text(tmp_path, "a.csv.zst", data, S).rows) == 1000
    for content in (data[:-5], b"nonsense", data[:20] + b"x" * 20):
        result = read_text(tmp_path, "b.csv.zst", content, S)
        assert len(result.rows) == 0 and "zstd" in bad(result)[0][1]


def test_tail_times(tmp_path: Path) -> None:
    n = 50_000
    micros = np.arange(n) * 1_000_000
    table = pa.table({"n": np.arange(n), "ts": pa.array(micros, pa.timestamp("us")), "t": ["some text"] * n})
    pacsv.write_csv(table, tmp_path / "a.csv")
    assert tail_times(item_of(tmp_path / "a.csv"), S, engine_db(), 1000).tolist() == micros[-1000:].tolist()
    with open(tmp_path / "a.csv", "rb") as file:
        (tmp_path / "b.csv.gz").write_bytes(gzip.compress(file.read()))
    assert tail_times(item_of(tmp_path / "b.csv.gz"), S, engine_db(), 10).tolist() == micros[-10:].tolist()
    (tmp_path / "c.csv").write_text("ts,n,t\n2020-01-01,x,\n,1,\nnever,1,\n1970-01-01 00:00:01,3,x\n")
    assert tail_times(item_of(tmp_path / "c.csv"), S, engine_db(), 10).tolist() == [1_577_836_800_000_000, 1_000_000]
    (tmp_path / "d.csv").write_text("other\n1\n")
    assert tail_times(item_of(tmp_path / "d.csv"), S, engine_db(), 10).tolist() == []


def test_a_position_tells_the_line_of_an_editor(inline_pond: Any, tmp_path: Path) -> None:
    """As the language reference says: two more with a header, one more without; blank lines are no records."""
    for name, header in (("with", "ts,v\n"), ("without", "")):
        text = f"{header}1970-01-01 00:00:01,1\n1970-01-01 00:00:02,x\n1970-01-01 00:00:03,3\n1970-01-01 00:00:04,y\n"
        (tmp_path / f"{name}.csv").write_text(text)
        pond = inline_pond(name)
        options = f"path='{tmp_path}/{name}.csv', event_time='ts', header={'true' if header else 'false'}"
        pond.sql(f"CREATE STREAM s (ts TIMESTAMP, v INTEGER) WITH ({options})")
        pond.drain()
        for position, record in pond.sql("SELECT position, record FROM dead(s)").rows():
            assert text.splitlines()[position + (1 if header else 0)] == record  # an editor counts one more


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_dead_record_can_be_fed_back(tmp_path: Path, delimiter: str) -> None:
    fields = ["1,5", 'say "x"', "two\nlines", "a;b", "a\tb", "", None, "NA"]
    every = stream(
        *(f"{chr(97 + n)} VARCHAR" for n in range(len(fields))), "ts TIMESTAMP", null="NA", delimiter=delimiter
    )
    head = delimiter.join(c.name for c in every.columns)
    written = ["NA" if f is None else '"' + f.replace('"', '""') + '"' for f in fields]
    dead = read_text(tmp_path, "a.csv", f"{head}\n{delimiter.join([*written, 'never'])}\n", every).rejected
    [record] = dead.column("record").to_pylist()
    again = read_text(tmp_path, "b.csv", f"{head}\n{record.removesuffix('never')}2020-01-01\n", every)
    assert [again.rows[c.name][0].as_py() for c in every.columns[:-1]] == fields


def test_what_is_not_utf8_is_called_so(tmp_path: Path) -> None:
    result = read_text(
        tmp_path, "a.csv", "ts,t\n2020-01-01,M\u00fcller\n".encode("latin-1"), stream("ts TIMESTAMP", "t TEXT")
    )
    assert bad(result) == [(0, "column 't': 'M\ufffdller' is not UTF-8")]


@pytest.mark.parametrize("rows", [1, 2])
def test_event_times_that_are_all_written_in_another_way(tmp_path: Path, rows: int) -> None:
    text = "ts\n" + "12/24/2024 08:00:00\n" * rows
    reasons = [reason for _, reason in bad(read_text(tmp_path, "a.csv", text, stream("ts TIMESTAMP")))]
    assert all(("time_format=" in reason) == (rows > 1) for reason in reasons) and len(reasons) == rows


def test_a_folder_of_commas_and_tabs(tmp_path: Path, inline_pond: Any) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pond = inline_pond()
    for name, path, more in (("s", folder, ""), ("all_", folder / "*", ""), ("said", folder / "*", ", delimiter=','")):
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, t TEXT) WITH (path='{path}', event_time='ts'{more})")
    (folder / "a.csv").write_text("ts,t\n2020-01-01,one\n")
    (folder / "b.tsv").write_text('ts\tt\n2020-01-02\t"two, three"\n')
    pond.drain(final=True)
    for name, found in (("s", ["one", "two, three"]), ("all_", ["one", "two, three"]), ("said", ["one"])):
        assert [t for (t,) in pond.sql(f"SELECT t FROM {name} ORDER BY ts").rows()] == found
