"""SELECT … FROM 'file', CREATE STREAM … FROM 'files', COPY … TO 'file': for who opens the pond, not over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millpond
from millpond import QueryError, SourceError, StatementError
from millpond.server.serve import serving

Factory = Callable[..., Any]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("when;k;v\n2024-01-01 00:00:01;a;1\n2024-01-01 00:00:02;b;2.5\n")
    (folder / "b.csv").write_text("when;k;v\n2024-01-01 00:00:03;it's;3\n")
    pq.write_table(pa.table({"k": ["a", "b"], "w": [10, 20]}), folder / "w.parquet")
    (folder / "j.ndjson").write_text('{"k": "a", "l": [1, 2]}\n{"k": "b", "l": []}\n')
    monkeypatch.chdir(tmp_path)
    return folder


def test_select_from_files(inline_pond: Factory, data: Path) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT)")
    pond.ingest("s", [{"ts": "2024-01-01", "k": "a"}])
    pond.drain()
    assert pond.sql("SELECT k, v FROM 'data/*.csv' ORDER BY k").rows() == [("a", 1.0), ("b", 2.5), ("it's", 3.0)]
    joined = "SELECT w.w, s.ts FROM 'data/w.parquet' JOIN s USING (k)".replace("w.w", "w")
    assert [row[0] for row in pond.sql(joined).rows()] == [10]
    assert pond.sql(f"SELECT sum(len(l)) AS n FROM '{data}/j.ndjson' AS j").rows() == [(2,)]
    assert pond.sql("SELECT w.k FROM 'data/w.parquet' WHERE w.w > 15").rows() == [("b",)]
    assert pond.sql("DESCRIBE SELECT * FROM 'data/w.parquet'").rows() == [("k", "VARCHAR", ""), ("w", "BIGINT", "")]
    assert pond.sql("DESCRIBE 'data/w.parquet'").rows() == [("k", "VARCHAR", ""), ("w", "BIGINT", "")]
    assert "read_parquet" not in str(pond.explain("SELECT * FROM 'data/w.parquet'"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("SELECT * FROM 'data/none.csv'", "there is no file 'data/none.csv'"),
        ("SELECT nothing FROM 'data/w.parquet'", "nothing"),
        ("SELECT * FROM 's3://bucket/x.parquet'", "not a file here"),
        ("SELECT * FROM 'data'", "there is no stream, table or query 'data'"),
        ("SELECT count(*) FROM s [RANGE 1 MINUTE] JOIN 'data/w.parquet' AS w USING (k)", "is a file"),
        ("CREATE QUERY q AS SELECT count(*) FROM 'data/w.parquet' [RANGE TUMBLING 1 HOUR]", "no stream"),
        ("CREATE STREAM x FROM 'data/w.parquet'", "event time"),
        ("CREATE STREAM x FROM 'data'", "cannot be told from its name"),
        ("COPY s TO 'data/x.txt'", "cannot be told from its name"),
        ("COPY s TO 'data/x.parquet.gz'", "cannot be told from its name"),
        ("COPY s TO 'data/x.csv' (FORMAT json)", "a file that is called 'data/x.csv' is read as csv"),
        ("COPY s TO 'nowhere/x.csv'", "cannot be written"),
        ("COPY nothing TO 'x.csv'", "there is no stream"),
    ],
)
def test_wrong_ones(inline_pond: Factory, data: Path, wrong: str, message: str) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT)")
    with pytest.raises((StatementError, QueryError, SourceError), match=message):
        pond.sql(wrong)


def test_a_stream_with_the_columns_of_files(inline_pond: Factory, data: Path) -> None:
    pond = inline_pond()
    said = pond.sql("CREATE STREAM x FROM 'data/*.csv' WITH (lateness = '5s')").message
    text, _, end = said.partition(";\n")
    assert end == "stream x created: 2 files are there"
    assert '"when" TIMESTAMP' in text and '"v" DOUBLE' in text and "delimiter = ';'" in text
    assert "event_time = 'when'" in text and "lateness = '5s'" in text
    pond.drain()
    assert pond.sql("SELECT k, v FROM x").rows() == [("a", 1.0), ("b", 2.5), ("it's", 3.0)]
    [(shown,)] = pond.sql("SHOW CREATE x").rows()
    assert "lateness = '5s'" in shown
    assert pond.sql("CREATE STREAM IF NOT EXISTS x FROM 'data/*.csv'").message == "stream x exists"


_FILES = {
    "g.csv": "day,clock,v\n24.12.2024,08:00:00,1\n25.12.2024,08:00:01,2\n",
    "h.csv": "ts,day,v\n2024-12-01 08:00:00,24.12.2024,1\n2024-12-01 08:00:01,25.12.2024,2\n",
    "j.ndjson": '{"ts":"2024-12-01 08:00:00","d":"24/12/2024"}\n{"ts":"2024-12-01 08:00:00","d":"25/12/2024"}\n',
    "us.csv": "ts,v\n12/24/2024 08:00:00,1\n12/25/2024 08:00:00,2\n",
}


@pytest.mark.parametrize(
    ("name", "more", "shown"),
    [
        ("g.csv", "event_time='day, clock', time_format='%d.%m.%Y %H:%M:%S'", '"day" VARCHAR,\n  "clock" VARCHAR'),
        ("h.csv", "lateness='1s'", '"ts" TIMESTAMP,\n  "day" VARCHAR,\n  "v" BIGINT'),
        ("j.ndjson", "lateness='1s'", '"ts" TIMESTAMP,\n  "d" VARCHAR'),
        ("us.csv", "event_time='ts', time_format='%m/%d/%Y %H:%M:%S'", '"ts" VARCHAR,\n  "v" BIGINT'),
    ],
)
def test_types_are_those_that_a_stream_reads(
    inline_pond: Factory, data: Path, name: str, more: str, shown: str
) -> None:
    pond = inline_pond()
    (data / name).write_text(_FILES[name])
    assert shown in pond.sql(f"CREATE STREAM s FROM 'data/{name}' WITH ({more})").message
    pond.drain()
    assert pond.sql("SELECT count(*) AS n FROM s").rows() == [(2,)]


@pytest.mark.parametrize(
    "text",
    [
        '[{"ts":"2024-12-01 08:00:00"},{"ts":"2024-12-02 08:00:00"}]',
        '[\n{"ts":"2024-12-01 08:00:00"},\n{"ts":"2024-12-02 08:00:00"}\n]',
    ],
)
@pytest.mark.parametrize("made", ["FROM 'data/a.json'", "(ts TIMESTAMP) WITH (path = 'data/a.json')"])
def test_one_json_array_is_a_stream(inline_pond: Factory, data: Path, text: str, made: str) -> None:
    (data / "a.json").write_text(text)
    pond = inline_pond()
    pond.sql(f"CREATE STREAM s {made}")
    pond.drain()
    assert pond.sql("SELECT day(ts) FROM s ORDER BY ts").rows() == [(1,), (2,)]


@pytest.mark.parametrize(
    ("options", "message", "under"),
    [
        ("", "there is no timestamp column (t BIGINT, k VARCHAR)", "n"),
        ("WITH (event_time = 't')", "column t is BIGINT: in which unit does it count?", "'t'"),
        ("WITH (lateness = '1s', event_time = 'tt')", "there is no column 'tt'", "'tt'"),
        ("WITH (event_time = 'k', time_format = '%d %Q')", "'%d %Q' is no pattern of times", "'%d %Q'"),
    ],
)
def test_faults_are_pointed_at_where_they_were_written(
    inline_pond: Factory, data: Path, options: str, message: str, under: str
) -> None:
    (data / "n.csv").write_text("t,k\n1,a\n2,b\n")
    with pytest.raises(StatementError) as error:
        inline_pond().sql(f"CREATE STREAM n FROM 'data/n.csv' {options}")
    assert message in str(error.value) and error.value.text[error.value.start : error.value.end] == under
    assert error.value.text.startswith("CREATE STREAM n FROM")


def test_files_that_are_not_utf8(inline_pond: Factory, data: Path) -> None:
    (data / "l.csv").write_bytes("ts,k\n2024-01-01 00:00:00,M\u00fcller\n".encode("latin-1"))
    with pytest.raises(StatementError, match="not utf-8"):
        inline_pond().sql("CREATE STREAM l FROM 'data/l.csv'")


_ENDS = [f"out.{form}{packed}" for form in ("csv", "tsv", "json", "ndjson", "jsonl") for packed in ("", ".gz", ".zst")]
_STARTS = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd", "parquet": b"PAR1"}


def test_what_was_copied_is_read_again(inline_pond: Factory, data: Path) -> None:
    """Every name that a file may have: as a table, and as the source of a stream."""
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, l TEXT, v DOUBLE)")
    texts = ["it's", "a,b\tc;d", 'say "x"', "two\nlines", None, "m\u00fcller"]
    rows = [{"ts": f"2024-01-01 00:00:0{n}.000{n}", "k": k, "l": "l", "v": n / 4} for n, k in enumerate(texts)]
    pond.ingest("s", rows)
    pond.drain()
    asked = "SELECT ts, k, l, v FROM {} ORDER BY ts"
    expected = pond.sql(asked.format("s")).rows()
    assert len(expected) == len(texts)
    for number, name in enumerate(["out.parquet", *_ENDS]):
        pond.sql(f"COPY (SELECT * FROM s) TO 'data/{name}'")
        start = (data / name).read_bytes()[:4]
        assert all(start.startswith(mark) == name.endswith(end) for end, mark in _STARTS.items()), name
        assert pond.sql(asked.format(f"'data/{name}'")).rows() == expected, name
        pond.sql(f"CREATE STREAM s{number} FROM 'data/{name}' WITH (lateness = '1 hour')")
    pond.drain()
    for number in range(len(_ENDS) + 1):
        assert pond.sql(asked.format(f"s{number}")).rows() == expected, number


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.ndjson"])
def test_copy_to_files(inline_pond: Factory, data: Path, name: str) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INT)")
    pond.ingest("s", [{"ts": "2024-01-01", "k": "it's", "v": 1}, {"ts": "2024-01-02", "k": None, "v": 2}])
    pond.drain()
    result = pond.sql(f"COPY (SELECT k, v FROM s WHERE v > 0) TO 'data/{name}'")
    assert (result.kind, result.message) == ("message", f"2 rows copied to data/{name}")
    assert pond.sql(f"SELECT k, v FROM 'data/{name}' ORDER BY v").rows() == [("it's", 1), (None, 2)]
    assert pond.sql(f"COPY s TO 'data/{name}'").message.startswith("2 rows")
    assert sorted(p.name for p in data.iterdir() if "out" in p.name) == [name]
    pond.sql("COPY s TO 'data/all.csv' (FORMAT csv)")
    assert (data / "all.csv").read_text().startswith("ts,k,v")


def test_options_of_copy(inline_pond: Factory, data: Path) -> None:
    """What a file is, byte by byte; `tests/cases/adhoc/copy.slt` reads such files again."""
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INT)")
    pond.ingest("s", [{"ts": "2024-01-01", "k": "a;b", "v": 1}, {"ts": "2024-01-02", "k": None, "v": 2}])
    pond.drain()

    def written(name: str, options: str) -> bytes:
        pond.sql(f"COPY (SELECT * FROM s ORDER BY ts) TO 'data/{name}' {options}")
        return (data / name).read_bytes()

    semicolons = written("o.csv", "(DELIMITER ';', TIMESTAMPFORMAT '%d.%m.%Y', NULLSTR 'NA')")
    assert semicolons.decode() == 'ts;k;v\n01.01.2024;"a;b";1\n02.01.2024;NA;2\n'
    assert written("o.csv", "(FORMAT csv, HEADER false, QUOTE '@', FORCE_QUOTE *)").startswith(b"@2024")
    assert written("o.txt", r"(FORMAT csv, SEP '\t')").startswith(b"ts\tk\tv\n")
    assert written("o.json", "(ARRAY)").startswith(b"[\n")
    assert written("o.json", "(ARRAY false)").startswith(b"{")
    assert written("o.csv.gz", "(COMPRESSION 'GZIP')").startswith(b"\x1f\x8b")
    kinds = {"snappy": "SNAPPY", "zstd": "ZSTD", "gzip": "GZIP", "uncompressed": "UNCOMPRESSED"}
    for kind, told in kinds.items():
        written("o.parquet", f"WITH (COMPRESSION {kind})")
        assert pq.ParquetFile(data / "o.parquet").metadata.row_group(0).column(0).compression == told


def test_nobody_reaches_files_over_http(inline_pond: Factory, data: Path, tmp_path: Path) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP)")
    statements = ["SELECT * FROM 'data/w.parquet'", "CREATE STREAM x FROM 'data/a.csv'", "COPY s TO 'data/o.csv'",
                  "COPY (SELECT ts FROM s) TO 'data/o.csv'", "DESCRIBE 'data/w.parquet'",
                  "DESCRIBE SELECT * FROM 'data/w.parquet'", "EXPLAIN SELECT * FROM \"data/w.parquet\""]  # fmt: skip
    with serving(pond) as url, millpond.connect(url) as remote:
        for statement in statements:
            with pytest.raises((StatementError, QueryError), match="over HTTP nobody reaches them") as refused:
                remote.sql(statement)
            named = statement.index("data/") - 1
            assert f"line 1, column {named + 1}:" in str(refused.value)
    assert not (data / "o.csv").exists()
    with (
        millpond.open(tmp_path / "other", executor="inline", remote_files=True) as other,
        serving(other) as url,
        millpond.connect(url) as remote,
    ):
        assert remote.sql("SELECT w FROM 'data/w.parquet' ORDER BY w").rows() == [(10,), (20,)]


def test_streams_read_what_they_are_made_from(inline_pond: Factory, data: Path) -> None:
    """Whole numbers of both signs are BIGINT, unless there are some that need more."""
    pond = inline_pond()
    (data / "n.ndjson").write_text(
        '{"ts": "2024-01-01T00:00:01", "v": 11, "l": [1, -2], "big": 18446744073709551615}\n'
        '{"ts": "2024-01-01T00:00:02", "v": -5, "l": [3], "big": -1}\n'
    )
    said = str(pond.sql("CREATE STREAM n FROM 'data/n.ndjson'"))
    assert '"v" BIGINT' in said and '"l" BIGINT[]' in said and '"big" HUGEINT' in said
    pond.drain()
    assert pond.sql("SELECT v, l[1] AS l, big FROM n ORDER BY ts").rows() == [(11, 1, 2**64 - 1), (-5, 3, -1)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("one.json", '{"ts": "2024-01-01T00:00:01",\n "v": 1}\n', "an object stands over several lines"),
        ("twice.csv", "ts,Price,price\n2024-01-01 00:00:01,1,2\n", "column 'price' stands twice in the header"),
    ],
)
def test_what_streams_do_not_read_is_refused_before(
    inline_pond: Factory, data: Path, name: str, text: str, message: str
) -> None:
    """By both forms of CREATE STREAM; a file that comes later is one dead letter with the reason."""
    pond = inline_pond()
    columns = '(ts TIMESTAMP, "v" INTEGER)' if name.endswith("json") else "(ts TIMESTAMP, price INTEGER)"
    (data / "empty").mkdir()
    pond.sql(f"CREATE STREAM later {columns} WITH (path='data/empty/*', event_time='ts')")
    (data / name).write_text(text)
    (data / "empty" / name).write_text(text)
    for statement in (
        f"CREATE STREAM x FROM 'data/{name}'",
        f"CREATE STREAM x {columns} WITH (path='data/{name}', event_time='ts')",
    ):
        with pytest.raises(StatementError, match=message):
            pond.sql(statement)
    pond.drain()
    [(reason,)] = pond.sql("SELECT reason FROM dead(later)").rows()
    assert message in reason
    assert pond.sql("SELECT * FROM later").rows() == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.csv", "", "'data/e.csv' is empty"),
        ("e.ndjson", "", "'data/e.ndjson' is empty"),
        ("e.csv", "ts,v\n", "holds no rows that tell its columns and their types"),
        ("e.json", "[]", "holds no rows that tell"),
        ("e.json", "[1, 2]", "holds no rows that tell"),
        ("e.parquet", "no Parquet", "cannot be read"),
        ("e.csv.gz", "no gzip", "cannot be read"),
        ("e.json", "{no", "cannot be read"),
    ],
)
def test_files_that_tell_no_columns(inline_pond: Factory, data: Path, name: str, text: str, message: str) -> None:
    (data / name).write_text(text)
    with pytest.raises(StatementError, match=message) as refused:
        inline_pond().sql(f"CREATE STREAM x FROM 'data/{name}'")
    assert "DESCRIBE" not in str(refused.value) and "line 1, column 22:" in str(refused.value)
