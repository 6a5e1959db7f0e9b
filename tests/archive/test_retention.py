"""Retention by time and size, copy by copy: what is gone, what copies stand for, and what a scan says of it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from millpond.archive.planning.ranges import Range
from millpond.support.errors import QueryError, StatementError
from tests.archive.ponds import START, opened, scan, take, values

SECOND = 1_000_000
N = 5_000  # rows of an epoch: five seconds


def days(pond: object, count: int, first: int = 0) -> None:
    """Epochs of five seconds each."""
    for epoch in range(first, first + count):
        take(pond, epoch * N, N)


def test_a_copy_outlives_the_rows(tmp_path: Path) -> None:
    design = "replicate(0.5 keep 40s, 0.9 keep 1h) keep 20s"
    with opened(tmp_path / "p", design) as pond:
        pond.sql("DROP STREAM s")
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, a BIGINT, k VARCHAR, payload BLOB)"
            f" WITH (event_time='ts', archive='{design}')"
        )
        stream = pond._core.catalog.stream("s").id
        days(pond, 12)
        before = {d: values(pond, d) for d in (0.0, 0.5, 0.9)}
        pond.maintain()
        runtime = pond._core.streams[stream]
        # Progress is at 60 s. Rows of the last 20 s, half of those of the last 40 s, a tenth of all.
        assert min(s.low for s in runtime.archive.segments) == START + 35 * SECOND
        assert min(s.low for s in runtime.copies["sample-0.5"].segments) == START + 15 * SECOND
        assert min(s.low for s in runtime.copies["sample-0.9"].segments) == START
        assert values(pond) == [a for a in before[0.0] if a >= 35_000]
        assert values(pond, 0.9) == before[0.9]
        half = Range(START + 15 * SECOND)
        assert values(pond, 0.5, wanted=half) == [a for a in before[0.5] if a >= 15_000]
        assert {p.copy for p in scan(pond, 0.5, half)[2].pieces} == {"sample-0.5"}
        with pytest.raises(QueryError, match=r"up to 2026-01-01 00:00:14\.999000 only copies are left, with 90 % of"):
            scan(pond, 0.5)
        # What is left of a section is thinned like any other, and nothing is made anew of what is gone.
        assert 0 < len(values(pond, 0.95)) < len(before[0.9]) and set(values(pond, 0.95)) < set(before[0.9])
        pond.maintain()
        assert values(pond, 0.9) == before[0.9]
        assert min(s.low for s in runtime.copies["sample-0.5"].segments) == START + 15 * SECOND
        assert pond.sql("SELECT count(*), min(a) FROM s").rows() == [(20_001, 39_999)]  # rows are seen for 20 s
        shown = {r[1]: r for r in pond.sql("SHOW ARCHIVE s").rows()}
        assert shown[""][2:5:2] == ("replicate(0.5, 0.9)", 25_000)
        assert shown["sample-0.9"][8] == "2026-01-01 00:00:00" and shown["sample-0.9"][10] == "1h"
    with opened(tmp_path / "p") as pond:
        assert values(pond, 0.9) == before[0.9]


def test_a_mark_whose_removal_was_cut_off_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "p", "replicate(0.5 keep 1h) keep 10s") as pond:
        pond.sql("DROP STREAM s")
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, a BIGINT, k VARCHAR, payload BLOB)"
            " WITH (event_time='ts', archive='replicate(0.5 keep 1h) keep 10s')"
        )
        days(pond, 6)
        expected = values(pond, 0.5)
        runtime = pond._core.streams[pond._core.catalog.stream("s").id]
        commit = type(runtime.archive).commit

        def failing(table: object, *arguments: object, **named: object) -> None:
            if "/streams/" in table.folder and named.get("removed") is not None:  # type: ignore[attr-defined]
                raise OSError("no")
            commit(table, *arguments, **named)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(type(runtime.archive), "commit", failing)
            with pytest.raises(OSError):
                pond.maintain()
        assert any(s.sole for s in runtime.copies["sample-0.5"].segments)
        assert values(pond, 0.5) == expected and values(pond) == list(range(6 * N))
        pond.sql("ALTER STREAM s SET (archive='replicate(0.5 keep 1h)')")  # rows are kept again
        pond.maintain()
        assert not any(s.sole for s in runtime.copies["sample-0.5"].segments)
        days(pond, 4, 6)
        for _ in range(3):  # also when sections are put together
            pond.maintain()
        assert len(runtime.archive.segments) < 10
        assert [a for a in values(pond, 0.5) if a < 6 * N] == expected and values(pond) == list(range(10 * N))


def test_size_limits_what_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "p", "plain") as pond:
        days(pond, 7)
        sizes = [s.size for s in sorted(pond._core.streams[1].archive.segments, key=lambda s: s.low)]
        limit = sum(sizes[-3:]) + 1
        # Nothing at or behind the watermark goes: the stream's lateness is an hour.
        pond.sql(f"ALTER STREAM s SET (archive='plain keep {limit} B')")
        pond.maintain()
        assert values(pond) == list(range(7 * N))
        pond.drain(final=True)
        pond.maintain()
        assert values(pond) == list(range(4 * N, 7 * N))
        assert pond._core.streams[1].archive.snapshot[1] == START + 20 * SECOND - 1000 + 1


def test_errors_show_the_place(tmp_path: Path) -> None:
    with opened(tmp_path / "p") as pond:
        for text, message in (
            ("replicat(0.5)", "there is no archive 'replicat'"),
            ("replicate(1.5)", "from 0 to below 1"),
            ("replicate(0.5, 0.5)", "given twice"),
            ("randomize(1)", "2 to 4,096 blocks"),
            ("plain keep 2 years", "no fixed length"),
            ("plain + modify", "one way only"),
        ):
            with pytest.raises(StatementError, match=message) as caught:
                pond.sql(f"ALTER STREAM s SET (archive = '{text}')")
            assert caught.value.start >= len("ALTER STREAM s SET (archive = ")
        with pytest.raises(StatementError, match="no stream 'x'"):
            pond.sql("SHOW ARCHIVE x")
        with pytest.raises(StatementError, match="option 'late' stays as it was created"):
            pond.sql("ALTER STREAM s SET (late = 'drop')")


def test_queries_that_cannot_tell_are_not_cut(tmp_path: Path) -> None:
    with opened(tmp_path / "p") as pond:
        pond.sql("CREATE QUERY q AS SELECT count(*) AS c FROM s [RANGE TUMBLING 5 SECONDS]")
        with pytest.raises(StatementError, match="kept its rows for ever"):
            pond.sql("ALTER STREAM s SET (retention = '1h')")
        pond.sql("DROP QUERY q; ALTER STREAM s SET (retention = '1h')")
        pond.sql("CREATE QUERY q AS SELECT count(*) AS c FROM s [RANGE TUMBLING 5 SECONDS]")
        assert pond.sql("ALTER STREAM s SET (retention = '2h')").message == "stream s altered: retention"
        assert pond.sql("ALTER STREAM s SET (retention = 'forever')").message == "stream s altered: retention"
        assert pond.sql("ALTER STREAM s SET (retention = 'forever')").message == "stream s is like that already"


def test_an_error_names_the_reduction_that_is_allowed(tmp_path: Path) -> None:
    for number, level in enumerate((0.12345678, 0.99999999, 0.3)):
        with opened(tmp_path / f"p{number}", f"replicate({level!r} keep 900d) keep 1s", "1s") as pond:
            take(pond, 0, 100)
            take(pond, 10_000_000, 1)
            pond.maintain()
            with pytest.raises(QueryError) as caught:
                pond.sql("SELECT count(*) AS n FROM s REDUCE sample(0.01)")
            (allowed,) = re.findall(r"REDUCE (sample\([^)]*\))", str(caught.value))
            assert len(pond.sql(f"SELECT count(*) AS n FROM s REDUCE {allowed}").rows()) == 1


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize(
    "select", ["count(*) AS n FROM s{} ", "k, count(*) AS n FROM s{} GROUP BY k ORDER BY k", "ts, a, k FROM s{} "]
)
def test_every_reduced_scan_reads_the_copies_that_outlive_the_rows(
    tmp_path: Path, select: str, registered: bool
) -> None:
    """Whether it asks for rows, groups or windows: what they have, or an error, never less without a word."""
    with opened(tmp_path / "p", "replicate(0.3 keep 900d, 0.5) keep 1s", "1s") as pond:
        take(pond, 0, 200)
        take(pond, 10_000_000, 1)
        enough = "SELECT " + select.format(" REDUCE sample(0.5)")
        finer = "SELECT " + select.format(" REDUCE sample(0.1)")
        whole = "SELECT " + select.format("")
        before = pond.sql(enough).to_arrow()
        pond.maintain()
        assert sum(s.rows for s in pond._core.streams[1].archive.segments) == 1

        def asked(sql: str) -> pa.Table:
            if not registered:
                return pond.sql(sql).to_arrow()
            pond.sql(f"CREATE OR REPLACE QUERY q AS {sql}")
            return pond.sql("INVOKE q").to_arrow()

        assert asked(enough).select(before.column_names).to_pylist() == before.to_pylist()
        assert asked(whole).num_rows == 1
        with pytest.raises(QueryError, match=r"REDUCE sample\(0.3\)"):
            asked(finer)


def test_queries_without_a_window_see_a_copy_as_long_as_its_own_retention_says(tmp_path: Path) -> None:
    design = "replicate(0.5 keep 40s, 0.9 keep 1h) keep 20s"
    with opened(tmp_path / "p", design, lateness="0s") as pond:
        days(pond, 12)
        tenth, half = values(pond, 0.9), values(pond, 0.5)
        high = 12 * N - 1
        for upkeep in (False, True):  # whether files are gone already makes no difference
            if upkeep:
                pond.maintain()
            answers = [
                pond.sql("SELECT count(*) AS n, min(a) AS lo FROM s REDUCE sample(0.9)"),
                pond.sql("SELECT count(*) AS n, min(a) AS lo FROM s REDUCE sample(0.9) BEGIN '2026-01-01' END NOW"),
                pond.sql(
                    "SELECT count(*) AS n, min(a) AS lo FROM s REDUCE sample(0.9) WHERE a >= 0 HAVING count(*) > 0"
                ),
            ]
            for answer in answers:
                found = answer.to_arrow().to_pylist()[0]
                assert (found["n"], found["lo"], found["exact"]) == (10 * len(tenth), tenth[0], False)
            listed = pond.sql("SELECT a FROM s REDUCE sample(0.9) ORDER BY a").to_arrow()["a"].to_pylist()
            assert listed == tenth
            early = pond.sql(
                "SELECT count(*) AS n FROM s REDUCE sample(0.9) BEGIN '2026-01-01' END '2026-01-01 00:00:09'"
            )
            found = early.to_arrow().to_pylist()[0]
            assert (found["n"], found["exact"]) == (10 * sum(a <= 9000 for a in tenth), False)
            # The copy with half of the rows is seen for 40 s, the rows themselves for 20: no number of a part is given.
            for drop in ("0.5", "0.2"):
                for span in ("", " BEGIN '2026-01-01' END NOW"):
                    with pytest.raises(QueryError, match="only copies are left"):
                        pond.sql(f"SELECT count(*) FROM s REDUCE sample({drop}){span}")
            since = f"BEGIN '2026-01-01 00:00:{(high - 40_000) / 1000:06.3f}' END NOW"
            found = pond.sql(f"SELECT count(*) AS n FROM s REDUCE sample(0.5) {since}").to_arrow().to_pylist()[0]
            assert found["n"] == 2 * sum(a >= high - 40_000 for a in half)
            # Of rows that are not to be reduced those are there that any query sees.
            shown = (
                pond.sql("SELECT count(*) AS n, min(a) AS lo FROM s REDUCE age('30 s', 0.9)").to_arrow().to_pylist()[0]
            )
            assert shown["lo"] == tenth[0] and not shown["exact"]
            assert pond.sql("SELECT count(*) FROM s").rows() == [(20_001,)]
            plan = [r[0] for r in pond.sql("EXPLAIN SELECT count(*) FROM s REDUCE sample(0.9)").rows()]
            assert any("sample-0.9" in line for line in plan)


def test_summaries_are_shown_and_what_an_error_advises_works(tmp_path: Path) -> None:
    sums = "SELECT count(*) FROM s [RANGE 1 SECOND TUMBLING]"
    design = f"replicate(0.5 keep 1h) keep 10s + summary({sums}) keep 2h + lazy summary({sums.replace('1 S', '2 S')})"
    with opened(tmp_path / "p", design, lateness="0s") as pond:
        days(pond, 6)
        pond.maintain()
        shown = {r["copy"]: r for r in pond.sql("SHOW ARCHIVE s").to_arrow().to_pylist()}
        assert list(shown) == ["", "sample-0.5", "summary-1", "summary-2"]
        assert shown["summary-1"]["design"] == f"summary({sums})" and shown["summary-1"]["keep"] == "2h"
        assert shown["summary-1"]["first"] == "2026-01-01 00:00:00" and shown["summary-1"]["rows"] >= 30
        assert shown["summary-2"]["design"].startswith("lazy summary(") and shown["summary-2"]["keep"] == "for ever"
        windows = "[RANGE TUMBLING 5 SECONDS] WHERE ts >= TIMESTAMP '2026-01-01 00:00:20'"
        with pytest.raises(QueryError, match="or leave REDUCE out"):
            pond.sql(f"SELECT max(a) AS n FROM s REDUCE sample(0.1) {windows}")
        assert pond.sql(f"SELECT max(a) AS n FROM s {windows}").to_arrow()["n"].to_pylist() == [24_999]
