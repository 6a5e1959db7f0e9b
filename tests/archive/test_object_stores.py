"""Archives in object stores: the same pond with its rows and copies elsewhere, against S3 and `file://`.

The S3 is moto's, in a process of its own on the loopback; it ends with the test.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

import millpond
from millpond.answers import archive_jobs
from millpond.archive.upkeep.backup import backup, restore
from millpond.archive.upkeep.checking import check_archives
from millpond.engine.jobs import sweeping
from millpond.support.errors import StatementError
from millpond.tables import locations as stores
from tests.archive.ponds import rows, values

Store = tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def s3() -> Iterator[Store]:
    """A bucket of an S3 on this machine."""
    pytest.importorskip("moto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(3000):
            try:
                made = urllib.request.Request(f"{url}/ponds", method="PUT", headers={"Host": f"127.0.0.1:{port}"})
                urllib.request.urlopen(made, timeout=60).close()
                break
            except OSError:
                time.sleep(0.1)
        options = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        }
        yield "s3://ponds/archive", options
    finally:
        server.kill()
        server.wait()


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A place for archives, and the options that it needs."""
    if request.param == "s3":
        found: Store = request.getfixturevalue("s3")
        return found
    return f"file://{tmp_path}/elsewhere", {}


def test_a_pond_whose_archive_lies_elsewhere(tmp_path: Path, store: Store) -> None:
    place, options = store
    home = tmp_path / "p"
    with millpond.open(home, executor="inline", storage=options) as pond:
        pond.sql(
            "CREATE STREAM s (ts TIMESTAMP, a BIGINT, k VARCHAR) WITH (event_time='ts', lateness='1h',"
            f" archive='replicate(0.5, 0.9)', archive_at='{place}/')"
        )
        pond.sql("CREATE QUERY q AS SELECT k, sum(a) AS a FROM s [RANGE TUMBLING 1 SECOND] GROUP BY k")
        for epoch in range(9):
            pond.ingest("s", rows(epoch * 1000, 1000))
            pond.drain()
        core = pond._core
        stream = core.catalog.stream("s")
        at = stream.options.archive_at
        assert at.startswith(f"{place}/s-") and not list((home / "streams").rglob("*.parquet"))
        assert json.loads((home / "streams" / "s-1" / "elsewhere.json").read_text())["home"] == at
        assert (home / stores.OPTIONS).stat().st_mode & 0o777 == 0o600
        half, tenth = values(pond, 0.5), values(pond, 0.9)
        assert len(half) > 4000 and set(tenth) < set(half)
        assert pond.sql("SELECT count(*), sum(a) FROM s").rows() == [(9000, sum(range(9000)))]
        pond.maintain()  # merges nine files, with their copies, and deletes them
        pond.maintain()
        assert len(core.streams[1].archive.segments) == 1
        names = stores.file_names(core.streams[1].archive.folder)
        assert [n for n in names if n.endswith(".parquet")] == [s.path for s in core.streams[1].archive.segments]
        assert (values(pond, 0.5), values(pond, 0.9), values(pond)) == (half, tenth, list(range(9000)))
        assert pond.sql("SELECT count(*) AS n FROM s REDUCE sample(0.5)").rows()[0][0] == 2 * len(half)
        # Any Delta reader opens it.
        table = DeltaTable(f"{at}/streams/s-1", storage_options=options or None).to_pyarrow_table(columns=["a"])
        assert pc.sum(table["a"]).as_py() == sum(range(9000))
        pond.sql("ALTER STREAM s ADD COLUMN b DOUBLE; ALTER STREAM s SET (archive='replicate(0.5)')")
        pond.maintain()
        assert stores.folder_names(f"{at}/copies/s-1") == ["sample-0.5"]
        pond.sql("ALTER STREAM s SET (archive='replicate(0.5, 0.9)')")
        pond.maintain()
        assert values(pond, 0.9) == tenth and pond.sql("SELECT count(b) FROM s").rows() == [(0,)]
    with millpond.open(home, executor="inline") as pond:  # the options are those of last time
        assert (values(pond, 0.5), values(pond)) == (half, list(range(9000)))
        assert [c.faults for c in check_archives(str(home))] == [[], [], []]
        pond.sql("CREATE QUERY late WITH (since='start') AS SELECT count(*) AS n FROM s [RANGE TUMBLING 3 SECONDS]")
        pond.ingest("s", rows(9000, 1000))
        pond.drain(final=True)
        assert [r[-1] for r in pond.sql("SELECT window_start, n FROM late").rows()] == [3000, 3000, 3000, 1000]
        live = pond.sql("SELECT * FROM q").to_arrow()
    made = backup(str(home), str(tmp_path / "b"))
    assert made.bytes > 0
    restore(str(tmp_path / "b"), str(tmp_path / "r"))
    with millpond.open(tmp_path / "r", executor="inline") as again:  # a restored pond keeps its archive at home
        assert again._core.catalog.stream("s").options.archive_at is None
        assert values(again) == list(range(10_000)) and set(half) < set(values(again, 0.5))
        assert again.sql("SELECT * FROM q").to_arrow().equals(live)
    with millpond.open(home, executor="inline") as pond:
        assert values(pond) == list(range(10_000))
        pond.sql("DROP STREAM s CASCADE")
        pond.drain()
        pond.maintain()
        assert not stores.folder_names(at) and not stores.file_names(at) and not os.listdir(home / "streams")


def test_a_commit_whose_answer_was_lost_is_there(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    place, options = store
    with millpond.open(tmp_path / "p", executor="inline", storage=options) as pond:
        pond.sql(f"CREATE STREAM s (ts TIMESTAMP, a BIGINT, k VARCHAR) WITH (event_time='ts', archive_at='{place}')")
        archive = pond._core.streams[1].archive
        inner = archive._log._table

        class Losing:
            """A table whose commits arrive and whose answers do not."""

            def __getattr__(self, name: str) -> object:
                return getattr(inner, name)

            def create_write_transaction(self, *arguments: object, **named: object) -> None:
                inner.create_write_transaction(*arguments, **named)  # type: ignore[arg-type]  # whatever was given is passed on
                raise OSError("the connection was lost")

        monkeypatch.setattr(archive._log, "_table", Losing())
        pond.ingest("s", rows(0, 100))
        pond.drain()
        monkeypatch.setattr(archive._log, "_table", inner)
        pond.ingest("s", rows(100, 100))
        pond.drain()
        assert values(pond) == list(range(200)) and archive.committed("epoch") == 2


def test_what_cannot_be_used_is_an_error_with_its_place(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        for place, message in (("/tmp/x", "no place in an object store"), ("http://x/y", "no place in an object")):
            with pytest.raises(StatementError, match=message) as caught:
                pond.sql(f"CREATE STREAM s (ts TIMESTAMP) WITH (archive_at='{place}')")
            assert caught.value.text[caught.value.start :].startswith(f"'{place}")
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StatementError, match="there can be no archive at file://"):
            pond.sql(f"CREATE STREAM s (ts TIMESTAMP) WITH (archive_at='file://{tmp_path}/file')")
        assert pond.sql("SHOW STREAMS").to_arrow().num_rows == 0
    secret = {"AWS_SECRET_ACCESS_KEY": "hidden", "AWS_ACCESS_KEY_ID": "k", "AWS_REGION": "r", "AWS_ALLOW_HTTP": "maybe"}
    with millpond.open(tmp_path / "p", executor="inline", storage=secret) as pond:
        with pytest.raises(StatementError, match=r"at s3://x/y: [^\n]*: failed to parse \"maybe\"") as caught:
            pond.sql("CREATE STREAM s (ts TIMESTAMP) WITH (archive_at='s3://x/y')")
        assert "hidden" not in str(caught.value) and "\x1b" not in str(caught.value)
        with pytest.raises(StatementError, match="option 'archive_at' stays as it was created"):
            pond.sql("CREATE STREAM s (ts TIMESTAMP); ALTER STREAM s SET (archive_at='s3://x/y')")


def test_nobody_else_can_read_the_options_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    replace = os.replace

    def renamed(source: str, target: str) -> None:
        if target.endswith(stores.OPTIONS):
            modes.append(os.stat(source).st_mode & 0o777)
        replace(source, target)

    monkeypatch.setattr(os, "replace", renamed)
    for options in ({"a": "1"}, {"a": "2"}):
        stores.write_options(str(tmp_path), options)
        assert stores.read_options(str(tmp_path)) == options
    assert modes == [0o600, 0o600] and os.listdir(tmp_path) == [stores.OPTIONS]


def test_a_store_that_does_not_answer_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dropped stream has there is deleted beside the epochs, and at a later round when it fails."""
    answers = iter((False, True))
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        core = pond._core
        pond.sql(f"CREATE STREAM s (ts TIMESTAMP) WITH (archive_at='file://{tmp_path}/elsewhere')")

        def slow(*_: str) -> bool:
            with ThreadPoolExecutor(1) as other:
                assert other.submit(core.lock.acquire, timeout=120).result()
                other.submit(core.lock.release).result()
            return next(answers)

        monkeypatch.setattr(sweeping, "remove_remote", slow)
        pond.sql("DROP STREAM s")
        pond.drain()
        pond.maintain()
        assert os.listdir(tmp_path / "p" / "streams") == ["s-1"]
        pond.maintain()
        assert os.listdir(tmp_path / "p" / "streams") == []


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_a_stream_whose_archive_lies_in_a_store(
    spark_pond: Callable[..., Any], inline_pond: Callable[..., Any], s3: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standing queries over it, back-fill and reduced scans as jobs, upkeep, a restart: as inline on a disk."""
    monkeypatch.setattr(archive_jobs, "QUICK_ROWS", 100)  # ad hoc scans are jobs, too
    place, options = s3
    spark = _answers(spark_pond("p", storage=options), f", archive_at='{place}'")
    assert spark == _answers(inline_pond("q"), "")
    again = spark_pond("p")  # with the options of last time
    assert again.sql("SELECT count(*) AS n FROM s REDUCE sample(0.9)").rows()[0][0] == spark["tenth again"][0]["n"]


def _answers(pond: Any, more: str) -> dict[str, list[dict[str, Any]]]:
    """What queries say of a stream that gets 9,000 rows, and then 1,000 after upkeep; the pond is closed then."""
    pond.sql(
        "CREATE STREAM s (ts TIMESTAMP, a BIGINT, k VARCHAR) WITH (event_time='ts', lateness='1h',"
        f" archive='replicate(0.5, 0.9)'{more})"
    )
    pond.sql("CREATE QUERY live AS SELECT k, sum(a) AS a FROM s [RANGE TUMBLING 1 SECOND] GROUP BY k")
    for epoch in range(3):
        pond.ingest("s", rows(epoch * 3000, 3000))
        pond.drain()
    if more:
        at = pond._core.catalog.stream("s").options.archive_at
        assert at.startswith("s3://") and not list((Path(pond.path) / "streams").rglob("*.parquet"))
        assert len([n for n in stores.file_names(f"{at}/streams/s-1") if n.endswith(".parquet")]) >= 3
    found = {"tenth": "SELECT count(*) AS n, avg(a) AS a FROM s REDUCE sample(0.9)"}
    asked = {name: pond.sql(text).to_arrow() for name, text in found.items()}
    pond.maintain()
    since = "WITH (since='start') AS SELECT count(*) AS n FROM s"
    pond.sql(f"CREATE QUERY late {since} [RANGE TUMBLING 3 SECONDS]")
    pond.sql(f"CREATE QUERY less {since} REDUCE sample(0.5) [RANGE TUMBLING 3 SECONDS]")
    pond.ingest("s", rows(9000, 1000))
    pond.drain(final=True)
    for name in ("live", "late", "less"):
        asked[name] = pond.sql(f"SELECT * FROM {name} ORDER BY ALL").to_arrow()
    asked["tenth again"] = pond.sql(found["tenth"]).to_arrow()
    pond.close()
    return {name: table.to_pylist() for name, table in asked.items()}
