"""Faults that must stay where they are: a query's own data, late-comers to a back-fill, a full disk, a torn pond."""

from __future__ import annotations

import datetime as dt
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millpond.archive.upkeep.compaction as compaction
import millpond.operators.windowed.past_windows as past_windows
from millpond.engine.control.loop import step
from millpond.support.errors import PondError, QueryError

Factory = Callable[..., Any]


def at(seconds: float) -> dt.datetime:
    return dt.datetime(2026, 1, 1) + dt.timedelta(seconds=seconds)


def feed(pond: Any, start: int, stop: int, **more: Any) -> None:
    """One row a second in [start, stop), as one batch, and its epoch."""
    pond.ingest("s", [{"ts": at(t), "k": "ab"[t % 2], "v": float(t), **more} for t in range(start, stop)])
    pond.step()


def made(inline_pond: Factory, name: str = "pond", **settings: Any) -> Any:
    pond = inline_pond(name, **settings)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v DOUBLE, h HUGEINT) WITH (event_time='ts')")
    return pond


def test_a_sum_that_overflows_fails_its_query_and_no_other(inline_pond: Factory) -> None:
    """Across epochs, so that it is met in the merge step; state compaction must live with it, too."""
    pond = made(inline_pond, compact_files=2)
    pond.sql("CREATE QUERY big AS SELECT sum(h) AS s FROM s [RANGE TUMBLING 100 SECONDS]")
    pond.sql("CREATE QUERY n AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k")
    for t in range(0, 40, 5):
        feed(pond, t, t + 5, h=4 * 10**37 if t % 10 else 0)
    pond.drain(final=True)
    statuses = {r[0]: r[3] for r in pond.sql("SHOW QUERIES").rows()}
    assert statuses == {"big": "quarantined", "n": "live"}
    with pytest.raises(QueryError, match=r"quarantined.*Overflow"):
        pond.sql("INVOKE big")
    assert len(pond.sql("SELECT * FROM n").rows()) == 8
    with pytest.raises(QueryError, match="cannot be answered"):
        pond.sql("SELECT sum(h) FROM s")


def test_aggregates_over_no_rows(inline_pond: Factory) -> None:
    """An empty stream and empty windows have SQL's answers, whatever the types."""
    pond = made(inline_pond)
    items = "count(*), sum(h), sum(v), min(k), first(k), list(k), string_agg(k, ','), median(v), count(DISTINCT k)"
    nothing = (0, None, None, None, None, None, None, None, 0)
    assert pond.sql(f"SELECT {items} FROM s").rows() == [nothing]
    pond.sql(f"CREATE QUERY q WITH (empty='report') AS SELECT {items} FROM s [RANGE TUMBLING 10 SECONDS]")
    feed(pond, 0, 3)
    feed(pond, 45, 46)
    rows = pond.sql("SELECT * FROM q").rows()
    assert [r[2:-1] for r in rows[1:]] == [nothing] * 3 and rows[0][2] == 3


def test_a_query_that_joins_a_running_backfill_is_filled_too(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered between the start of a back-fill and the epoch that adopts it, on the same synopsis."""
    query = "SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"
    narrow = "SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"
    pond = made(inline_pond)
    pond.sql(f"CREATE QUERY before AS {query}")
    feed(pond, 0, 13)
    write_json, joined = past_windows.write_json, []

    def joining(path: str, value: Any) -> None:
        if not joined:
            joined.append(path)
            pond.sql(f"CREATE QUERY b AS {query}")
        write_json(path, value)

    pond.sql(f"CREATE QUERY a AS {narrow.replace('GROUP', 'WHERE v >= 0 GROUP')}")
    query = query.replace("GROUP", "WHERE v >= 0 GROUP")
    monkeypatch.setattr(past_windows, "write_json", joining)
    for _ in range(10):
        if not step(pond._core):
            break
    monkeypatch.setattr(past_windows, "write_json", write_json)
    assert joined
    pond.sql(f"CREATE QUERY c AS {query}")
    feed(pond, 13, 40)
    pond.drain(final=True)
    wanted = [r for r in pond.sql("SELECT * FROM before").rows() if r[1].second > 10 or r[1].minute]
    assert pond.sql("SELECT * FROM b").rows() == wanted
    assert pond.sql("SELECT * FROM c").rows() == wanted
    assert pond.sql("SELECT * FROM a").rows() == [(*r[:4], r[5]) for r in wanted]


def test_a_repeated_backfill_has_a_new_plan(tmp_path: Path) -> None:
    """Workers keep plans; the same name may come again with another plan."""
    path = str(tmp_path / "o.json.plan")
    for number in range(3):
        past_windows.write_json(path, {"tasks": number})
        assert past_windows._plan(path) == {"tasks": number}


def test_an_epoch_of_many_files_is_merged_in_parts(inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two merges of files of one epoch: the second must not write over the first."""
    pond = made(inline_pond, rows_per_epoch=10**9)
    for t in range(12):
        pond.ingest("s", [{"ts": at(t), "k": "a", "v": 1.0}])
    core = pond._core
    runtime = next(iter(core.streams.values()))
    monkeypatch.setattr("millpond.engine.intake.admission.SMALL", 1)
    monkeypatch.setattr("millpond.tables.executors.InlineExecutor.cores", 12)
    pond.step()
    assert len(runtime.archive.segments) == 12
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    size = max(s.size for s in runtime.archive.segments)
    monkeypatch.setattr(compaction, "SMALL_FILE", size + 1)
    for _ in range(8):
        compaction.compact_archive(core.archives, runtime)
    assert len(runtime.archive.segments) < 12
    assert [r[0].second for r in pond.sql("SELECT ts FROM s ORDER BY ts").rows()] == list(range(12))


def test_a_full_disk_fails_the_statement_and_the_ingest(inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    pond = made(inline_pond)
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]")
    fsync = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PondError, match="No space"):
        pond.ingest("s", [{"ts": at(1)}])
    with pytest.raises(PondError, match="No space"):
        pond.sql("CREATE QUERY r AS SELECT sum(v) AS n FROM s [RANGE TUMBLING 10 SECONDS]")
    monkeypatch.setattr(os, "fsync", fsync)
    feed(pond, 0, 21)
    pond.sql("CREATE QUERY r AS SELECT sum(v) AS n FROM s [RANGE TUMBLING 10 SECONDS]")
    pond.drain(final=True)
    assert [r[2] for r in pond.sql("SELECT * FROM q").rows()] == [10, 10, 1]
    assert [r[2] for r in pond.sql("SELECT * FROM r").rows()] == [20.0]


def test_a_disk_that_fills_during_an_epoch(inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch fails at any of its writes; later it is repeated and nothing is doubled."""
    pond = made(inline_pond)
    pond.sql("CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 5 SECONDS] GROUP BY k")
    fsync = os.fsync
    for number in range(8):
        pond.ingest("s", [{"ts": at(10 * number + t), "k": "a"} for t in range(10)])
        calls = 0

        def filling(descriptor: int, number: int = number) -> None:
            nonlocal calls
            calls += 1
            if calls > number:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", filling)
        with pytest.raises(Exception, match="No space"):
            pond.step()
        monkeypatch.setattr(os, "fsync", fsync)
        while pond.step():
            pass
    pond.drain(final=True)
    assert pond.sql("SELECT sum(n), count(*) FROM q").rows() == [(80, 16)]
    assert pond.sql("SELECT count(*) FROM s").rows() == [(80,)]


def test_a_stream_whose_making_was_cut_off_leaves_no_trace(inline_pond: Factory, tmp_path: Path) -> None:
    """Killed after its folders were made and before the catalog knew it; then made with other columns."""
    pond = made(inline_pond)

    def killed(*events: Any) -> None:
        raise KeyboardInterrupt

    record = pond._core.catalogs.log.record
    pond._core.catalogs.log.record = killed
    with pytest.raises(KeyboardInterrupt):
        pond.sql("CREATE STREAM t (ts TIMESTAMP, old TEXT) WITH (event_time='ts')")
    pond._core.catalogs.log.record = record
    pond.close()
    pond = inline_pond("pond")
    pond.sql("CREATE STREAM t (ts TIMESTAMP, new BIGINT) WITH (event_time='ts')")
    pond.ingest("t", [{"ts": at(1), "new": 5}])
    pond.step()
    assert pond.sql("SELECT new FROM t").rows() == [(5,)]
    from deltalake import DeltaTable

    folder = next((tmp_path / "pond" / "streams").glob("t-*"))
    assert DeltaTable(str(folder)).to_pyarrow_table()["new"].to_pylist() == [5]


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("file", "File exists"),
        ("file/pond", "Not a directory"),
        ("a\0b", "null byte"),
        ("a%20b", "a %"),
        ("a\\b", "a %"),
    ],
)
def test_folders_that_cannot_be_a_ponds(inline_pond: Factory, tmp_path: Path, folder: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PondError, match=f"cannot be a pond's folder: .*{reason}.*; give "):
        inline_pond(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_one_process_at_a_time(inline_pond: Factory, tmp_path: Path) -> None:
    made(inline_pond)
    with pytest.raises(PondError, match="open already, here or in another process"):
        inline_pond("pond")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(PondError, match=r"not a pond and not empty \(it holds letter.txt\)"):
        inline_pond("other")
    (tmp_path / "other" / "letter.txt").unlink()
    inline_pond("other")
