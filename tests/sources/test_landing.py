"""The landing: durable, once per key, no orphans."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.sources.helpers import stream

from millpond.sources.formats.read import read, tail_times
from millpond.sources.intake_log import IntakeLog
from millpond.sources.landing import Landing
from millpond.support.errors import KeyReused, LostFile, PondError, SourceError
from millpond.types import DAY

ROWS = pa.table({"ts": pa.array([1, 2, 3], pa.timestamp("us")), "n": pa.array([1, 2, 3], pa.int32())})
STREAM = stream("ts TIMESTAMP", "n INTEGER", source="ingest")


def opened(folder: Path) -> Landing:
    return Landing(folder / "landing", IntakeLog(folder))


def test_what_is_taken_can_be_read(tmp_path: Path) -> None:
    landing = opened(tmp_path)
    assert landing.append(ROWS, partition="p", arrival=7) == 0
    item = landing.log.items()[0]
    assert (item.kind, item.format, item.rows, item.partition, item.arrival) == ("landing", "arrow", 3, "p", 7)
    assert read(item, STREAM).rows == ROWS
    assert read(item, STREAM, ["n"]).rows.schema.names == ["n"]
    assert tail_times(item, STREAM, None, 2).tolist() == [2, 3]


def test_nothing_is_taken_of_an_empty_batch(tmp_path: Path) -> None:
    landing = opened(tmp_path)
    assert landing.append(ROWS.slice(0, 0), key="k", arrival=1) is None
    assert landing.log.length == 0 and not list((tmp_path / "landing").iterdir())


def test_a_key_is_taken_once_in_24_hours_also_after_a_restart(tmp_path: Path) -> None:
    landing = opened(tmp_path)
    assert landing.append(ROWS, key="a", arrival=100) == 0
    assert landing.append(ROWS, key="b", arrival=100) == 1
    assert landing.append(ROWS, key="a", arrival=200) == 0
    landing = opened(tmp_path)
    assert landing.append(ROWS, key="a", arrival=99 + DAY) == 0
    assert landing.append(ROWS, key="a", arrival=100 + DAY) == 2
    assert landing.append(ROWS, key="a", arrival=101 + DAY) == 2
    assert landing.log.length == len(list((tmp_path / "landing").iterdir())) == 3


def test_a_key_that_another_batch_has_is_refused(tmp_path: Path) -> None:
    """A batch that is acknowledged and not taken would be lost."""
    landing = opened(tmp_path)
    assert landing.append(ROWS, key="a", arrival=1) == 0
    values = ROWS.set_column(1, "n", pa.array([1, 2, None], pa.int32()))
    for other in (ROWS.slice(0, len(ROWS) - 1), ROWS.slice(0, 0), values, ROWS.take([1, 0, 2])):
        with pytest.raises(SourceError, match="a key of its own"):
            landing.append(other, key="a", arrival=2)
    assert landing.append(ROWS, key="a", arrival=3) == 0 and landing.log.length == 1


def test_the_same_rows_are_known_however_they_are_stored(tmp_path: Path) -> None:
    kinds = {
        "t": pa.array(["a", "b", None]),
        "e": pa.array(["x", None, "y"]).dictionary_encode(),
        "l": pa.array([[1.5], None, []], pa.list_(pa.float64())),
        "s": pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int8())])),
    }
    rows = pa.table({**dict(zip(ROWS.column_names, ROWS.columns, strict=True)), **kinds})
    landing = opened(tmp_path)
    assert landing.append(rows, key="a", arrival=1) == 0
    # Other bytes where nothing is, other chunks, other codes of an ENUM.
    under = pa.Array.from_buffers(pa.int32(), 3, [None, pa.array([7, 2, 3], pa.int32()).buffers()[1]])
    codes = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int32()), pa.array(["y", "x"]))
    same = rows.set_column(rows.column_names.index("e"), "e", codes)
    landing.append(rows.set_column(1, "n", pa.array([None, 2, 3], pa.int32())), key="b", arrival=1)
    hidden = pa.Array.from_buffers(pa.int32(), 3, [pa.py_buffer(b"\x06"), under.buffers()[1]])
    for other in (pa.concat_tables([rows.slice(0, 2), rows.slice(2)]), same):
        assert landing.append(other, key="a", arrival=2) == 0
    assert landing.append(rows.set_column(1, "n", hidden), key="b", arrival=2) == 1
    landing = opened(tmp_path)
    assert landing.append(rows, key="a", arrival=3) == 0
    with pytest.raises(KeyReused, match="this one has other values"):
        landing.append(rows.set_column(1, "n", hidden), key="a", arrival=3)
    assert landing.log.length == 2 == len(list((tmp_path / "landing").iterdir()))


def test_rivals_with_one_key_get_one_ordinal(tmp_path: Path) -> None:
    landing = opened(tmp_path)
    got: list[int | None] = []
    threads = [
        threading.Thread(target=lambda n=n: got.append(landing.append(ROWS, key=f"k{n % 3}", arrival=1)))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(got) == {0, 1, 2} and landing.log.length == 3
    assert len(list((tmp_path / "landing").iterdir())) == 3


def test_orphans_are_removed_on_opening(tmp_path: Path) -> None:
    landing = opened(tmp_path)
    landing.append(ROWS, arrival=1)
    (tmp_path / "landing" / "0123.arrow").write_bytes(b"x")
    (tmp_path / "landing" / "0123.tmp").write_bytes(b"x")
    landing = opened(tmp_path)
    assert [p.name for p in (tmp_path / "landing").iterdir()] == [Path(landing.log.items()[0].path).name]


def test_a_crash_between_file_and_log_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = opened(tmp_path)

    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    monkeypatch.setattr(landing.log, "append", crash)
    with pytest.raises(Crash):
        landing.append(ROWS, key="k", arrival=1)
    assert len(list((tmp_path / "landing").iterdir())) == 1
    landing = opened(tmp_path)
    assert not list((tmp_path / "landing").iterdir())
    assert landing.append(ROWS, key="k", arrival=2) == 0


def test_a_log_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = opened(tmp_path)

    def full(*_: object) -> None:
        raise PondError("full")

    monkeypatch.setattr(landing.log, "append", full)
    with pytest.raises(PondError):
        landing.append(ROWS, key="k", arrival=1)
    assert not list((tmp_path / "landing").iterdir())


def test_released_files_go_and_their_keys_stay(tmp_path: Path) -> None:
    landing = opened(tmp_path)
    for n in range(4):
        landing.append(ROWS, key=str(n), arrival=n)
    assert landing.release(3) == 3 and landing.release(3) == 0
    assert len(list((tmp_path / "landing").iterdir())) == 1
    landing = opened(tmp_path)
    assert landing.append(ROWS, key="0", arrival=9) == 0
    assert landing.release(4) == 1
    with pytest.raises(LostFile, match="is missing, and the pond needs it"):
        read(landing.log.items()[0], STREAM)


def test_a_pond_may_be_moved(tmp_path: Path) -> None:
    opened(tmp_path / "here").append(ROWS, arrival=1)
    shutil.move(tmp_path / "here", tmp_path / "there")
    landing = opened(tmp_path / "there")
    assert landing.log.items()[0].path.startswith(str(tmp_path / "there"))
    assert len(read(landing.log.items()[0], STREAM).rows) == 3


def test_a_null_event_time_goes_to_the_dead_letters(tmp_path: Path) -> None:
    landing = opened(tmp_path)
    landing.append(pa.table({"ts": pa.array([1, None, 3], pa.timestamp("us")), "n": ROWS["n"]}), arrival=1)
    result = read(landing.log.items()[0], STREAM)
    assert result.positions is not None and result.positions.to_pylist() == [0, 2]
    assert result.rejected.to_pylist() == [
        {"reason": "event time 'ts' is NULL", "position": 1, "record": '{"ts":null,"n":2}'}
    ]
