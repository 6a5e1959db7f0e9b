"""Versions of tables: what an epoch sees is in its manifest; what goes wrong is told; what nobody needs goes."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millpond
from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.manifests.records import manifest_path, read_manifest
from millpond.sources.table_sources.versions import TableState, due, table_folder
from millpond.tables import read_json
from millpond.tables.shard_cache import clear_all
from millpond.types import TableDefinition

SECOND = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


def shown(pond: Any, name: str = "t") -> dict[str, Any]:
    table = pond.sql("SHOW TABLES").to_arrow()
    return next(r for r in table.to_pylist() if r["table"] == name)


def row(second: int, k: str) -> dict[str, str]:
    return {"ts": f"2026-01-01 00:00:{second:02d}", "k": k}


def files(pond: Any) -> list[str]:
    return sorted(n for n in os.listdir(table_folder(pond.path, pond._core.catalog.lookup("t"))) if n.endswith("arrow"))


def test_when_a_table_is_read() -> None:
    files_ = TableDefinition("t", (), "/t.csv", "csv")
    timed = TableDefinition("t", (), "db", None, reload=60 * SECOND)
    never = TableDefinition("t", (), "db", None, reload="never")
    good, bad = TableState(1, 1, 0, 0, "", "a"), TableState(1, 1, 0, 0, "gone", "a")
    for definition in (files_, timed, never):
        assert due(definition, TableState(), "a", 5)
        assert due(definition, bad, "a", 10 * SECOND) and not due(definition, bad, "a", 9 * SECOND)
    assert due(files_, good, "b", 1) and not due(files_, good, "a", 999 * SECOND)
    assert due(timed, good, "", 60 * SECOND) and not due(timed, good, "", 59 * SECOND)
    assert not due(never, good, "", 10**12)
    assert due(TableDefinition("t", (), "db", None, reload=SECOND), bad, "", SECOND)  # no later than it would be anyhow


def test_an_epoch_sees_what_its_manifest_names(tmp_path: Path) -> None:
    source, clock = tmp_path / "t.csv", Clock()
    source.write_text("k,v\na,1\n")
    with millpond.open(tmp_path / "pond", executor="inline", clock=clock) as pond:
        pond.sql(f"""
            CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts');
            CREATE TABLE t (k TEXT, v INTEGER) WITH (path='{source}');
            CREATE QUERY q AS SELECT s.k, v FROM s [RANGE UNBOUNDED] LEFT JOIN t ON t.k = s.k;
        """)
        assert shown(pond)["version"] is None
        pond.ingest("s", [row(1, "a"), row(2, "b"), row(5, "a")])
        pond.drain()
        assert shown(pond) | {"path": ""} == {
            "table": "t", "path": "", "format": "csv", "reload": "on change", "version": 1, "rows": 1,
            "read_at": "1970-01-01 00:16:40", "problem": None,
        }  # fmt: skip
        # The manifest is written; then the file changes, and goes; the epoch is run, and run again from the start.
        pond.ingest("s", [row(6, "a"), row(8, "b")])
        core = pond._core
        epoch = begin_epoch(core)
        assert epoch is not None and read_manifest(pond.path, epoch).tables == {"2": 1}
        source.write_text("k,v\na,2\nb,3\n")
        run_epoch(core, epoch)
        before = pond.sql("SELECT * FROM q ALL REVISIONS").rows()
        assert {r[2] for r in before} == {1, None}
        # From the next instant that is reported on the new rows hold, and what is in the windows changes with them.
        pond.ingest("s", [row(9, "b"), row(20, "b")])
        pond.drain()
        assert read_json(manifest_path(pond.path, core.epochs.last_manifest))["tables"] == {"2": 2}
        after = [
            (str(r[0])[17:19], *r[1:4]) for r in pond.sql("SELECT * FROM q ALL REVISIONS").rows() if r not in before
        ]
        assert sorted(after, key=str) == [
            ("08", "a", 1, "-"), ("08", "a", 1, "-"), ("08", "a", 1, "-"), ("08", "a", 2, "+"), ("08", "a", 2, "+"),
            ("08", "a", 2, "+"), ("08", "b", 3, "+"), ("08", "b", 3, "+"), ("08", "b", None, "-"), ("09", "b", 3, "+"),
        ]  # fmt: skip
        assert sorted(pond.sql("SELECT * FROM q").rows()) == [("a", 2)] * 3 + [("b", 3)] * 3
        assert {r[1:3] for r in pond.sql("INVOKE q AS OF EPOCH 1").rows()} == {("a", 1), ("b", None)}
        # A late row is joined as it would have been in time.
        pond.ingest("s", [row(3, "a")])
        pond.drain()
        late = [r for r in pond.sql("SELECT * FROM q ALL REVISIONS").rows() if r[4] == 1]
        assert [(str(r[0])[17:19], *r[1:4]) for r in late if str(r[0])[17:19] == "03"] == [("03", "a", 1, "+")]
        assert sorted((str(r[0])[17:19], *r[1:4]) for r in late if str(r[0])[17:19] == "08") == [
            ("08", "a", 1, "-"), ("08", "a", 2, "+"),
        ]  # fmt: skip


def joined(pond: Any, source: Path) -> None:
    """Rows of a stream with those of a table, and two of them."""
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts');
        CREATE TABLE t (k TEXT, v INTEGER) WITH (path='{source}');
        CREATE QUERY q AS SELECT ISTREAM(s.k, v) FROM s [NOW] JOIN t ON t.k = s.k;
    """)
    pond.ingest("s", [row(1, "a"), row(2, "a")])
    pond.drain()


def test_what_goes_wrong_is_told_and_what_was_read_stays(tmp_path: Path) -> None:
    source, clock = tmp_path / "t.csv", Clock()
    source.write_text("k,v\na,1\n")
    with millpond.open(tmp_path / "pond", executor="inline", clock=clock) as pond:
        joined(pond, source)
        source.write_text("k,v\na,oops\n")
        pond.ingest("s", [row(3, "a"), row(4, "a")])
        pond.drain()
        assert [r[2] for r in pond.sql("SELECT * FROM q").rows()] == [1, 1, 1]
        told = shown(pond)
        assert told["version"] == 1 and "oops" in told["problem"] and "t.csv" in told["problem"]
        (line,) = [r[0] for r in pond.sql("EXPLAIN q").rows() if r[0].startswith("table t")]
        assert "version 1, 1 rows; cannot be read now" in line and "oops" in line
        answer = pond.sql("SELECT v FROM t")
        assert answer.rows() == [(1,)] and "oops" in answer.message
        with pytest.raises(millpond.MillpondError, match=r"oops.*version 1 stays"):
            pond.sql("REFRESH TABLE t")
        source.write_text("k,v\na,7\n")
        assert "version 2, 1 rows" in pond.sql("REFRESH TABLE t").message
        assert shown(pond)["problem"] is None
        assert "as before" in pond.sql("REFRESH TABLE t").message
        pond.sql("ALTER TABLE t SET (reload = 'never')")
        source.write_text("k,v\na,8\n")
        assert pond.sql("SELECT v FROM t").rows() == [(7,)]
        pond.sql("ALTER TABLE t SET (reload = '1 minute')")
        assert pond.sql("SELECT v FROM t").rows() == [(7,)]
        clock.now += 60 * SECOND
        assert pond.sql("SELECT v FROM t").rows() == [(8,)]
        with pytest.raises(millpond.StatementError, match="there is no table 'u'"):
            pond.sql("REFRESH TABLE u")
        with pytest.raises(millpond.StatementError, match="is read from files"):
            pond.sql("ALTER TABLE t SET (uri = 'x')")


def test_neither_a_broken_file_nor_a_full_disk_stops_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, clock = tmp_path / "t.parquet", Clock()
    pq.write_table(pa.table({"k": ["a"], "v": [1]}), source)
    with millpond.open(tmp_path / "pond", executor="inline", clock=clock) as pond:
        joined(pond, source)
        source.write_bytes(b"PAR1 and nothing else")
        pond.ingest("s", [row(3, "a")])
        pond.drain()
        assert shown(pond)["version"] == 1 and "t.parquet" in shown(pond)["problem"]

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        pq.write_table(pa.table({"k": ["a"], "v": [2]}), source)
        with monkeypatch.context() as patched:
            for name in ("write_durably", "write_json"):
                patched.setattr(f"millpond.sources.table_sources.versions.{name}", full)
            pond.ingest("s", [row(4, "a")])
            pond.drain()
            assert shown(pond)["version"] == 1 and "No space left" in shown(pond)["problem"]
        clock.now += 10 * SECOND
        pond.ingest("s", [row(5, "a"), row(6, "a")])
        pond.drain()
        assert shown(pond)["version"] == 2 and shown(pond)["problem"] is None
        assert [r[2] for r in pond.sql("SELECT * FROM q ORDER BY at").rows()] == [1, 1, 1, 2, 2]


def test_a_table_that_was_never_read_fails_the_query_not_the_pond(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(f"""
            CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts');
            CREATE TABLE t (k TEXT, v INTEGER) WITH (path='{tmp_path / "t.csv"}');
            CREATE QUERY q AS SELECT ISTREAM(s.k, v) FROM s [NOW] JOIN t ON t.k = s.k;
            CREATE QUERY n AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 SECOND];
        """)
        pond.ingest("s", [row(1, "a"), row(2, "a"), row(3, "a")])
        pond.drain()
        told = next(r for r in pond.sql("SHOW QUERIES").to_arrow().to_pylist() if r["query"] == "q")
        assert told["status"] == "quarantined" and "there is no file at" in told["reason"]
        assert len(pond.sql("SELECT * FROM n").rows()) == 2


def test_versions_that_nobody_needs_go_and_restarts_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.manifests.epochs.KEPT", {"manifests": 1, "published": 2})
    source = tmp_path / "t.csv"
    pond = millpond.open(tmp_path / "pond", executor="inline")
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts');
        CREATE TABLE t (k TEXT, v INTEGER) WITH (path='{source}');
        CREATE QUERY q AS SELECT s.k, v FROM s [RANGE 5 SECONDS] JOIN t ON t.k = s.k WITH (revise_for='0s');
    """)
    for n in range(1, 6):
        source.write_text(f"k,v\na,{n}\n")
        pond.ingest("s", [row(4 * n, "a")])
        pond.drain()
    assert files(pond) == [f"{n:09d}.arrow" for n in range(1, 6)]
    pond.maintain()
    pond.maintain()  # the records that go in the first round free the versions that they name for the next
    assert files(pond) == ["000000003.arrow", "000000004.arrow", "000000005.arrow"]
    pond.close()
    clear_all()
    source.unlink()
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.ingest("s", [row(24, "a"), row(40, "a")])
        pond.drain()
        assert shown(pond)["version"] == 5 and "no file" in shown(pond)["problem"]
        assert [r[1] for r in pond.sql("INVOKE q").rows()] == ["a"]
        pond.sql("DROP QUERY q")
        folder = table_folder(pond.path, pond._core.catalog.lookup("t"))
        pond.sql("DROP TABLE t")
        pond.maintain()
        assert not os.path.exists(folder)


def test_a_backfill_and_what_comes_live_have_versions_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("k,v\na,1\n")
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(f"""
            CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts');
            CREATE TABLE t (k TEXT, v INTEGER) WITH (path='{source}');
        """)
        pond.ingest("s", [row(1, "a"), row(2, "a"), row(3, "a")])
        pond.drain()
        pond.sql("CREATE QUERY q WITH (since='start') AS SELECT ISTREAM(s.k, v) FROM s [NOW] JOIN t ON t.k = s.k")
        pond.step(force=True)  # the back-fill has run, and nothing has adopted it
        source.write_text("k,v\na,2\n")
        pond.ingest("s", [row(4, "a"), row(5, "a")])
        pond.drain()
        assert [r[2] for r in pond.sql("SELECT * FROM q ORDER BY at").rows()] == [1, 1, 2, 2]


def test_a_database_is_asked_on_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, clock = tmp_path / "t.sqlite", Clock()
    link = sqlite3.connect(database)
    link.execute("CREATE TABLE tt (k TEXT, v INTEGER, more TEXT)")
    link.execute("INSERT INTO tt VALUES ('a', 1, 'x')")
    link.commit()
    monkeypatch.setenv("FOLDER_OF_T", str(tmp_path))
    uri = "uri='${FOLDER_OF_T}/t.sqlite', driver='sqlite3'"
    with millpond.open(tmp_path / "pond", executor="inline", clock=clock, drivers="sqlite3") as pond:
        with pytest.raises(millpond.StatementError, match="no such table: nix"):
            pond.sql(f"CREATE TABLE t (k TEXT, v INTEGER) WITH ({uri}, table='nix')")
        assert pond.sql("SHOW TABLES").rows() == []
        pond.sql(f"""
            CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts');
            CREATE TABLE t (k TEXT, v BIGINT) WITH ({uri}, table='tt', reload='1 minute');
            CREATE QUERY q AS SELECT ISTREAM(s.k, v) FROM s [NOW] JOIN t ON t.k = s.k;
        """)
        assert shown(pond)["reload"] == "1m" and shown(pond)["format"] == "sqlite3"
        for n in (1, 2, 3):
            link.execute("UPDATE tt SET v = ?", (n,))
            link.commit()
            pond.ingest("s", [row(2 * n, "a"), row(2 * n + 1, "a")])
            pond.drain()
            clock.now += 40 * SECOND
        assert [r[2] for r in pond.sql("SELECT * FROM q ORDER BY at").rows()] == [1, 1, 1, 3, 3]
        link.execute("DROP TABLE tt")
        link.commit()
        clock.now += 60 * SECOND
        pond.ingest("s", [row(20, "a"), row(21, "a")])
        pond.drain()
        assert "no such table" in shown(pond)["problem"] and shown(pond)["version"] == 2
        with pytest.raises(millpond.StatementError, match="does not tell when its rows change"):
            pond.sql("ALTER TABLE t SET (reload = 'on change')")
    not_allowed = pytest.raises(millpond.MillpondError, match=r"driver sqlite3 is not allowed here.*version 2 stays")
    with millpond.open(tmp_path / "pond", executor="inline", clock=clock) as pond, not_allowed:
        pond.sql("REFRESH TABLE t")


def test_a_table_without_a_file_says_so_at_once(inline_pond: Any, tmp_path: Path) -> None:
    pond = inline_pond()
    pond.sql(f"CREATE TABLE t (n INTEGER) WITH (path='{tmp_path}/t.csv')")
    problem = f"table 't': there is no file at {tmp_path}/t.csv"
    assert pond.sql("SHOW TABLES").to_arrow()["problem"].to_pylist() == [problem]
    (tmp_path / "t.csv").write_text("n\n1\n")
    assert pond.sql("SELECT n FROM t").rows() == [(1,)]
    assert pond.sql("SHOW TABLES").to_arrow()["problem"].to_pylist() == [None]
