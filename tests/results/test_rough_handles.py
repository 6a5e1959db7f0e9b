"""What callers do to handles: names that cannot be, lists that fail half-way, use while the pond closes."""

from __future__ import annotations

import datetime as dt
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millpond.catalog.register_log import RegisterLog
from millpond.support.errors import MillpondError, PondError, QueryError

Factory = Callable[..., Any]
ROWS, WINDOWS = "SELECT v FROM s WHERE v > 3", "SELECT count(*) AS n FROM s [RANGE TUMBLING 2 SECONDS]"


def made(inline_pond: Factory) -> Any:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')")
    return pond


@pytest.mark.parametrize("text", [ROWS, WINDOWS])
def test_every_name_that_is_taken_can_be_said_in_a_statement(inline_pond: Factory, text: str) -> None:
    pond = made(inline_pond)
    for name in ('a"b', "ünï", "select", "a b", "x'y", "🙂", "../../etc", "a/b", "A" * 128, "%", "?x#y", "ß"):
        handle = pond.register(text, name=name)
        said = '"' + name.replace('"', '""') + '"'
        pond.sql(f"INVOKE {said}; ALTER QUERY {said} PAUSE; ALTER QUERY {said} RESUME; EXPLAIN {said}")
        assert pond.query(name).id == handle.id
        pond.sql(f"CREATE OR REPLACE QUERY {said} AS {WINDOWS}; CREATE OR REPLACE QUERY {said} AS {ROWS}")
        pond.sql(f"DROP QUERY {said}")
    for name in ("#1", "12", "", " ", "a\nb", "A" * 129, "s", "S", "\ud800", "a\0b"):
        with pytest.raises(QueryError):
            pond.register(text, name=name)
    assert pond.sql("SHOW QUERIES").to_arrow().num_rows == 0


@pytest.mark.parametrize("names", [["a", "b", "b"], ["b", "a", "b"], ["a", "s", "b"], ["a", "b", "#9"]])
def test_many_queries_are_taken_all_or_none(inline_pond: Factory, names: list[str]) -> None:
    pond = made(inline_pond)
    for texts in ([ROWS, WINDOWS, WINDOWS], [WINDOWS, ROWS, ROWS], [WINDOWS, WINDOWS, ROWS]):
        with pytest.raises(QueryError):
            pond.register_many(texts, names)
        assert pond.sql("SHOW QUERIES").to_arrow().num_rows == 0
        handles = pond.register_many(texts, ["x", "y", "z"])
        assert [h.name for h in handles] == ["x", "y", "z"]
        assert [h.info()["kind"] for h in handles] == ["windows" if t == WINDOWS else "rows" for t in texts]
        for handle in handles:
            handle.drop()


def test_nothing_works_on_a_closed_pond_and_nobody_hangs(inline_pond: Factory) -> None:
    pond = made(inline_pond)
    handles = [pond.register(ROWS), pond.register(WINDOWS)]
    pond.ingest("s", [{"ts": dt.datetime(2026, 1, 1, 0, 0, n), "v": n} for n in range(60)])
    pond.drain()
    ends: list[BaseException] = []

    def busy(what: Callable[[], Any]) -> None:
        try:
            while True:
                what()
        except BaseException as error:
            ends.append(error)

    calls = [handles[0].result, lambda: pond.register(ROWS).drop(), handles[1].result, handles[0].info]
    threads = [threading.Thread(target=busy, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    pond.close()
    for thread in threads:
        thread.join(20)
    assert not any(t.is_alive() for t in threads)
    assert all(isinstance(e, MillpondError) for e in ends), ends
    for handle in handles:
        for call in (handle.result, handle.info, handle.pause, handle.drop, handle.subscribe):
            with pytest.raises(PondError):
                call()
    for call in (lambda: pond.register(ROWS), lambda: pond.query(2), lambda: pond.describe("s"), pond.status):
        with pytest.raises(PondError):
            call()


@pytest.mark.parametrize("damage", ["flip", "cut", "zero", "empty", "gone"])
def test_damaged_derived_files_cost_no_answer(inline_pond: Factory, damage: str) -> None:
    """Any wrong bit in a shipped index, a checkpoint or a file of matched blocks is noticed."""
    pond = made(inline_pond)
    handles = pond.register_many([f"SELECT v FROM s WHERE v = {n}" for n in range(300)])
    feed(pond, 20_000)
    pond._core.register.checkpoint()
    wanted = [handle.result().to_pylist() for handle in handles[:5]]
    pond.close()
    random = np.random.default_rng(7)
    files = [*Path(pond.path).rglob("*.boxes"), *Path(pond.path).rglob("*.blocks")]
    files.append(Path(pond.path, "catalog", "register.arrow"))
    assert len(files) >= 3
    for file in files:
        data = bytearray(file.read_bytes())
        if damage == "flip":
            data[int(random.integers(len(data) // 2, len(data)))] ^= 1 << int(random.integers(8))
        changed = {"flip": data, "cut": data[: len(data) // 2], "zero": bytearray(len(data)), "empty": bytearray()}
        file.unlink() if damage == "gone" else file.write_bytes(changed[damage])
    pond = inline_pond()
    assert [pond.query(handle.id).result().to_pylist() for handle in handles[:5]] == wanted
    feed(pond, 20_000)
    for handle, rows in zip(handles[:5], wanted, strict=True):
        assert pond.query(handle.id).result().to_pylist() == rows + rows
    assert len(pond._core.register) == 300


def feed(pond: Any, count: int) -> None:
    times = pa.array([0] * count, pa.timestamp("us"))
    pond.ingest("s", pa.table({"ts": times, "v": pa.array(np.arange(count) % 300)}))
    pond.drain()


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_full_disk_is_an_error_and_not_the_end(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    pond = made(inline_pond)
    handle = pond.register(ROWS, name="q")

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    changes: list[Callable[[], Any]] = [lambda: pond.register(ROWS, name="x"), handle.drop, handle.pause]
    if call == "fsync":
        changes.append(lambda: pond.ingest("s", [{"ts": dt.datetime(2026, 1, 1), "v": 7}]))
        changes += [
            lambda text=text: pond.sql(text) for text in (f"CREATE QUERY x AS {WINDOWS}", "DROP STREAM s CASCADE")
        ]
        changes.append(lambda: pond.sql("CREATE STREAM x (ts TIMESTAMP) WITH (event_time = 'ts')"))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        for change in changes:
            with pytest.raises(MillpondError, match="No space"):
                change()
    for again in range(2):
        assert pond.sql("SHOW QUERIES").to_arrow()["query"].to_pylist() == ["q"]
        assert pond.query("q").info()["status"] == "live"
        assert pond.sql("SHOW STREAMS").to_arrow()["stream"].to_pylist() == ["s"]
        feed(pond, 8)
        assert len(pond.query("q").result()) == 4 * (again + 1)
        pond.close()
        pond = inline_pond()


def test_a_closed_log_does_not_touch_whoever_has_its_file_number_now(tmp_path: Path) -> None:
    log = RegisterLog(str(tmp_path / "log"))
    list(log.replay())
    log.close()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    try:
        with pytest.raises(PondError):
            log.commit(log.enqueue([b"{}\n"], lambda offsets: None))
        with pytest.raises(PondError):
            log.read(0, 1)
        log.close()
        assert os.fstat(other).st_size == 0
    finally:
        os.close(other)
