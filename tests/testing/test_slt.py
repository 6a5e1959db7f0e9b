"""The sqllogictest reader, the ways, and the runner against a pond that only pretends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond.support.errors import StatementError
from millpond.testing import (
    CaseFailure,
    CaseSyntaxError,
    NotApplicable,
    VirtualClock,
    duration,
    golden,
    parse_case,
    plan,
    rows_table,
    run_case,
)
from millpond.testing.case_records import Drain, Epoch, Ingest, Query, Restart, Statement, Tick
from millpond.testing.streams import write_file
from millpond.testing.values import rows_equal, split_row, table_rows

CASE = """# a case
shuffle 5s
settings durable=no

statement ok
CREATE STREAM s (ts TIMESTAMP, v BIGINT)
  WITH (event_time='ts', lateness='5s')

statement ok
CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]

ingest s partition=p
ts:s,v
1,1
4,2
2,NULL

epoch

skipif backfill
statement error no such .*
SELECT nope
----
nope

query SI rowsort
SELECT window_end, n FROM q
----
10  3

tick 1 minute

restart

drain final
"""


def test_records() -> None:
    case = parse_case(CASE, "c.slt")
    kinds = [type(r) for r in case.records]
    assert kinds == [Statement, Statement, Ingest, Epoch, Statement, Query, Tick, Restart, Drain]
    assert case.shuffle == 5_000_000 and case.settings == (("durable", "no"),)
    ingest, error, query = case.records[2], case.records[4], case.records[5]
    assert isinstance(ingest, Ingest) and ingest.rows == ("1,1", "4,2", "2,NULL") and ingest.partition == "p"
    assert isinstance(error, Statement) and error.error == "no such .*" and error.expected == ("nope",)
    assert error.skip == ("backfill",) and not error.runs("backfill") and error.runs("straight")
    assert isinstance(query, Query) and query.rows == ("10  3",) and query.types == "SI" and query.sort == "rowsort"
    assert case.lines[query.span[0] : query.span[1]] == ("10  3",)
    assert query.line == CASE.split("\n").index("query SI rowsort") + 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("qurey I\nSELECT 1", "c:1: unknown record 'qurey'"),
        ("\nquery X\nSELECT 1\n----", "c:2: write 'query TYPES"),
        ("query I\nSELECT 1", "no '----'"),
        ("statement maybe\nSELECT 1", "statement ok"),
        ("statement ok\n\n", "no statement"),
        ("statement error (\nSELECT", "regular expression"),
        ("tick soon\n", "not a duration"),
        ("epoch\nnow", "c:2: nothing may stand below"),
        ("ingest s\n\n", "CSV header"),
    ],
)
def test_syntax_errors_say_where(text: str, says: str) -> None:
    with pytest.raises(CaseSyntaxError, match=says.replace("(", r"\(")):
        parse_case(text, "c")


def test_ways() -> None:
    case = parse_case(CASE, "c")
    names = {way: [type(r).__name__ for r in plan(case, way)] for way in ("straight", "row-per-epoch", "restart")}
    assert names["row-per-epoch"][2:8] == ["Ingest", "Epoch"] * 3
    assert names["restart"].count("Restart") == names["straight"].count("Restart") + 3
    back = plan(case, "backfill")
    sql = [getattr(r, "sql", type(r).__name__) for r in back]
    assert sql[-6].endswith("WITH (since='start')") and sql[-5:-3] == ["Settle", "SELECT window_end, n FROM q"]
    assert all("nope" not in s for s in sql)
    shuffled = [r for r in plan(case, "shuffled") if isinstance(r, Ingest)]
    assert sorted(x for r in shuffled for x in r.rows) == ["1,1", "2,NULL", "4,2"]
    with pytest.raises(ValueError, match="unknown way 'sideways'"):
        plan(case, "sideways")


def test_shuffling_stays_within_the_announced_disorder() -> None:
    text = "shuffle 5s\n\ningest s\nts:s,v\n" + "\n".join(f"{i},{i}" for i in range(40)) + "\n"
    rows = [int(x.split(",")[0]) for r in plan(parse_case(text), "shuffled") for x in getattr(r, "rows", ())]
    assert sorted(rows) == list(range(40)) and rows != sorted(rows)
    high = -1
    for time in rows:
        assert time > high - 5
        high = max(high, time)


def test_typed_rows() -> None:
    types = {"ts": "TIMESTAMP", "tz": "TIMESTAMPTZ", "d": "DECIMAL(10,2)", "l": "BIGINT[]", "t": "TEXT"}
    table = rows_table(
        "ts,tz,d,l,t",
        ['2024-01-01T02:00:00+02:00,2024-01-01 00:00:00,1.50,"[1, 2]",x y', "NULL,NULL,,NULL,"],
        types,
    )
    assert table_rows(table, "TTRTT") == [
        ["2024-01-01 00:00:00", "2024-01-01 00:00:00", "1.5", "[1, 2]", "x y"],
        ["NULL", "NULL", "NULL", "NULL", "(empty)"],
    ]
    assert table_rows(rows_table("ts:ms", ["-1"], types), "S") == [["-0.001"]]


def test_files(tmp_path: Path) -> None:
    import gzip

    parquet = write_file(tmp_path / "f", "a.parquet", ["ts TIMESTAMP, v DOUBLE", "1970-01-01 00:00:01,2.5"], False, 7)
    assert pq.read_table(parquet).to_pylist()[0]["v"] == 2.5 and parquet.stat().st_mtime == 7
    packed = write_file(tmp_path / "f", "b.csv.gz", ["a,b"], False, 7)
    assert gzip.decompress(packed.read_bytes()) == b"a,b\n"
    zst = write_file(tmp_path / "f", "c.csv.zst", ["a,b"], False, 7)
    with pa.CompressedInputStream(pa.OSFile(str(zst)), "zstd") as stream:
        assert stream.read() == b"a,b\n"
    broken = write_file(tmp_path / "f", "d.parquet", ["not parquet"], True, 7)
    assert broken.read_text() == "not parquet\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f"]


def test_comparing() -> None:
    assert rows_equal(["1.0000000000001", "a"], ["1", "a"], "RT")
    assert not rows_equal(["1", "2"], ["1", "3"], "RI")
    assert rows_equal(["NaN"], ["nan"], "R") and not rows_equal(["NULL"], ["nan"], "R")
    assert split_row("a\tb c\t", 3) == ["a", "b c"] and split_row("New York  3", 2) == ["New York", "3"]


def test_clock_and_durations() -> None:
    clock = VirtualClock(5)
    clock.advance(duration("1.5s"))
    assert clock() == 1_500_005
    with pytest.raises(ValueError):
        clock.advance(-1)
    with pytest.raises(ValueError, match="'5 parsecs' is not a duration"):
        duration("5 parsecs")


def test_golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLPOND_UPDATE", raising=False)
    with pytest.raises(AssertionError, match="no such golden file"):
        golden(tmp_path / "g.txt", "a\n")
    monkeypatch.setenv("MILLPOND_UPDATE", "1")
    golden(tmp_path / "g.txt", "a\n")
    monkeypatch.delenv("MILLPOND_UPDATE")
    golden(tmp_path / "g.txt", "a\n")
    with pytest.raises(AssertionError, match=r"(?s)-a.*\+b"):
        golden(tmp_path / "g.txt", "b\n")


class Pretender:
    """A pond that answers every SELECT with what it was told to."""

    def __init__(self, answer: pa.Table) -> None:
        self.answer, self.done = answer, list[str]()

    def sql(self, text: str) -> Any:
        self.done.append(text)
        if "nope" in text:
            raise StatementError("no such column 'nope'", text, 7, 11)
        result = type("Result", (), {})()
        result.table = self.answer if text.startswith("SELECT") else None
        return result

    def ingest(self, stream: str, data: pa.Table, partition: str = "") -> None:
        self.done.append(f"ingest {stream} {data.num_rows} {data.schema.field('v').type} {partition}")

    def step(self) -> bool:
        self.done.append("step")
        return False

    def drain(self, final: bool = False) -> None:
        self.done.append(f"drain {final}")

    def close(self) -> None:
        self.done.append("close")


def answer(n: int) -> pa.Table:
    return pa.table({"window_end": pa.array([10_000_000], pa.timestamp("us")), "n": [n]})


def test_runner_drives_the_pond() -> None:
    pond = Pretender(answer(3))
    assert run_case(parse_case(CASE, "c"), "straight", opener=lambda *_: pond) == 9
    assert [d.split()[0] for d in pond.done] == [
        "CREATE", "CREATE", "ingest", "step", "SELECT", "SELECT", "step", "close", "drain", "close"]  # fmt: skip
    assert "ingest s 3 int64 p" in pond.done and pond.done[-2] == "drain True"


def test_runner_shows_what_differs() -> None:
    with pytest.raises(CaseFailure) as caught:
        run_case(parse_case(CASE, "c.slt"), "restart", opener=lambda *_: Pretender(answer(4)))
    text = str(caught.value)
    assert text.startswith("c.slt:26 (way: restart): rows differ") and "-10  3" in text and "+10  4" in text


def test_runner_wants_errors_where_the_case_says_so() -> None:
    for case, says in [
        ("statement ok\nSELECT nope\n", "the statement failed:\nline 1, column 8: no such column"),
        ("statement error .\nSELECT 1\n", "the statement succeeded"),
        ("statement error other\nSELECT nope\n", "expected an error that matches 'other', got"),
        ("statement error such\nSELECT nope\n----\ncolumn 9\n", "does not say"),
        ("query I\nSELECT 1\n----\n1\n", "the answer has 2 columns"),
        ("query I\nSHOW x\n----\n1\n", "gave a message, not rows"),
    ]:
        with pytest.raises(CaseFailure) as caught:
            run_case(parse_case(case, "c"), opener=lambda *_: Pretender(answer(4)))
        assert says in str(caught.value)
    with pytest.raises(NotApplicable):
        run_case(parse_case("ways straight\n\nepoch\n", "c"), "restart", opener=lambda *_: Pretender(answer(4)))


def test_update_rewrites_expected_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_UPDATE", "1")
    file = tmp_path / "c.slt"
    file.write_text(CASE)
    run_case(parse_case(CASE, str(file)), opener=lambda *_: Pretender(answer(4)))
    assert file.read_text() == CASE.replace("10  3", "10\t4")
