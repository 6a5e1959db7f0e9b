"""The register: durable on return, quick to open, torn files, many threads at once."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from millpond.catalog import NewSelection, Register
from millpond.catalog.shipping import BoxReader, boxes_folder
from millpond.support.errors import PondError, QueryError
from millpond.types import Interval, Output, RowQuery, RowScan, Side
from millpond.types.sql_expressions import parsed


def selection(low: int, attribute: str = '"a"', stream: str = "s") -> RowQuery:
    box = (Interval(attribute, "integer", low, low + 10, high_closed=False),)
    query = RowScan(stream=stream, select=(Output("a", parsed('"a"').typed("INTEGER")),))
    return RowQuery(query, (Side(stream, where=parsed(f"{attribute} >= {low}"), boxes=(box,)),))


def new(low: int = 0, name: str | None = None, **more: object) -> NewSelection:
    return NewSelection(selection(low), (1,), f"SELECT a FROM s WHERE a >= {low}", name, **more)  # type: ignore[arg-type]  # fields by name


def opened(path: Path) -> Register:
    return Register(str(path))


def test_what_is_added_is_there_after_opening(tmp_path: Path) -> None:
    register = opened(tmp_path)
    first, second = register.add([new(5, "Five", owner="ann"), new(6, epoch=4)])
    register.set_status(second, "paused")
    register.close()
    register = opened(tmp_path)
    five, six = register.get(first), register.get(second)
    assert five.selection.sides == selection(5).sides and five.selection.query.text == five.text
    assert (five.name, five.owner, five.status, six.name, six.status, six.registered_epoch) == (
        "Five", "ann", "live", f"#{second}", "paused", 4,
    )  # fmt: skip
    assert register.by_name("fIVE") == five and register.by_name(f"#{second}") == six
    assert register.table(1).queries() == [first]
    register.set_status(second, "live")
    assert sorted(register.table(1).queries()) == [first, second]
    assert register.count("ann") == 1 and len(register) == 2


def test_ids_are_never_given_twice(tmp_path: Path) -> None:
    register = opened(tmp_path)
    register.add([new()])
    [last] = register.add([new()])
    register.drop(last)
    register.close()
    register = opened(tmp_path)
    assert register.add([new()]) == [last + 1]
    assert register.reserve_ids(100, 1) and register.add([new()]) == [101]


def test_names_and_limits(tmp_path: Path) -> None:
    register = Register(str(tmp_path), taken=lambda name: name == "s")
    [first] = register.add([new(name="q", owner="ann")])
    for bad in ("Q", "s", "#7", "", "a\nb"):
        with pytest.raises(QueryError):
            register.add([new(), new(name=bad)])
    with pytest.raises(QueryError, match="taken"):
        register.add([new(name="x"), new(name="X")])
    with pytest.raises(QueryError, match="at most 2"):
        register.add([new(owner="ann"), new(owner="ann")], limit=2)
    assert len(register) == 1
    [second] = register.add([new(name="Q", replaces=first)])
    assert register.id_of("q") == second and first not in register
    with register.claim("q") as free:
        assert not free
    with register.claim("other") as free:
        assert free
        with pytest.raises(QueryError, match="taken"):
            register.add([new(name="other")])
    register.drop(second)
    with pytest.raises(QueryError, match="no query"):
        register.drop(second)
    register.add([new(name="q")])


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_last_line_is_cut(tmp_path: Path, cut: int) -> None:
    register = opened(tmp_path)
    kept, _ = register.add([new(1, "one")]) + register.add([new(2, "two")])
    path = tmp_path / "catalog" / "register.jsonl"
    os.truncate(path, path.stat().st_size - cut)
    again = opened(tmp_path)
    assert len(again) == 1 and again.get(kept).name == "one" and again.id_of("two") is None
    [number] = again.add([new(3, "three")])
    assert len(opened(tmp_path)) == 2 and opened(tmp_path).get(number).name == "three"


def test_damage_inside_is_told(tmp_path: Path) -> None:
    register = opened(tmp_path)
    register.add([new(i) for i in range(3)])
    path = tmp_path / "catalog" / "register.jsonl"
    data = bytearray(path.read_bytes())
    data[100] = ord("\n")
    path.write_bytes(data)
    with pytest.raises(PondError, match="damaged"):
        opened(tmp_path)


@pytest.mark.parametrize("damage", ["gone", "torn", "base"])
def test_a_checkpoint_only_saves_time(tmp_path: Path, damage: str) -> None:
    register = opened(tmp_path)
    ids = register.add([new(i, owner=f"o{i % 3}") for i in range(50)])
    register.drop(*ids[10:20])
    register.checkpoint()
    ids += register.add([new(i) for i in range(5)])
    register.drop(ids[0], ids[50])
    file = tmp_path / "catalog" / "register.arrow"
    if damage == "gone":
        file.unlink()
    elif damage == "torn":
        os.truncate(file, file.stat().st_size // 2)
    else:
        [base] = [p for p in Path(boxes_folder(str(tmp_path), 1)).iterdir() if p.name.startswith("b")]
        os.truncate(base, base.stat().st_size // 2)
    again = opened(tmp_path)
    assert again.on_stream(1).tolist() == register.on_stream(1).tolist()
    assert sorted(again.table(1).queries()) == sorted(register.table(1).queries())
    assert again.version == register.version and again.count("o1") == register.count("o1")
    for query in again.on_stream(1).tolist():
        assert again.get(query) == register.get(query)
        assert again.table(1).boxes(query) == again.get(query).selection.sides[0].boxes


def test_a_mostly_dead_log_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.catalog.register.DEAD", 10)
    register = opened(tmp_path)
    ids = register.add([new(i, f"q{i}") for i in range(40)])
    register.drop(*ids[5:])
    register.set_status(ids[2], "paused")
    before, size = register.version, (tmp_path / "catalog" / "register.jsonl").stat().st_size
    for query in ids[5:]:
        assert query not in register
    register.add([new(99, "late")])
    for i in range(30):
        register.set_status(ids[0], "paused" if i % 2 == 0 else "live")
    register.maintain(0)
    assert (tmp_path / "catalog" / "register.jsonl").stat().st_size < size
    for again in (register, opened(tmp_path)):
        assert [again.get(q).name for q in again.on_stream(1).tolist()] == ["q0", "q1", "q2", "q3", "q4", "late"]
        assert [again.get(q).status for q in ids[:3]] == ["live", "live", "paused"]
        assert again.version > before
    (tmp_path / "catalog" / "register.arrow").unlink()
    assert opened(tmp_path).version == register.version and len(opened(tmp_path)) == 6


def test_many_threads_add_at_once(tmp_path: Path) -> None:
    register = opened(tmp_path)
    given: list[tuple[int, int]] = []
    lock = threading.Lock()

    def client(number: int) -> None:
        for i in range(20):
            low = number * 100 + i
            [query] = register.add([new(low, f"c{number}-{i}" if i % 2 else None)])
            assert register.get(query).selection.sides[0].boxes[0][0].low == low
            if i % 5 == 4:
                register.drop(query)
            else:
                with lock:
                    given.append((query, low))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 128
    for found in (register, opened(tmp_path)):
        assert sorted(q for q, _ in given) == found.on_stream(1).tolist() == sorted(found.table(1).queries())
        assert all(found.get(q).selection.sides[0].boxes[0][0].low == low for q, low in given)


def test_a_stream_that_is_dropped_takes_no_more(tmp_path: Path) -> None:
    register = opened(tmp_path)
    [query] = register.add([new()])
    assert register.close_stream(1) == [query]
    with pytest.raises(QueryError, match="being dropped"):
        register.add([new()])
    register.reopen_stream(1)
    register.add([new()])
    register.close_stream(1)
    register.drop_stream(1)
    assert len(register) == len(opened(tmp_path)) == 0


def test_what_a_crash_between_the_logs_left_is_finished(tmp_path: Path) -> None:
    register = opened(tmp_path)
    on_gone = NewSelection(selection(1), (2,), "gone")
    ids = register.add([new(name="old"), new(name="newer"), on_gone])
    assert register.reconcile([1], [("old", ids[0] + 100), ("NEWER", 0)]) == [0]
    assert register.on_stream(1).tolist() == [ids[1]] and register.on_stream(2).tolist() == []


def test_workers_follow_the_index(tmp_path: Path) -> None:
    """Whatever is registered and dropped, with and without bases in between: a reader has just the same."""
    rng = random.Random(3)
    register = opened(tmp_path)
    follower, folder = BoxReader(), boxes_folder(str(tmp_path), 1)
    live: list[int] = []
    seen: dict[int, list[int]] = {}
    for step in range(40):
        live += register.add([NewSelection(selection(i, f'"c" + {step % 7}'), (1,)) for i in range(rng.randrange(4))])
        for query in rng.sample(live, min(len(live), rng.randrange(3))):
            register.drop(query)
            live.remove(query)
        if rng.random() < 0.15:
            register.checkpoint()
        if rng.random() < 0.1:
            register.close()
            register = opened(tmp_path)
        version = register.ship([1])
        seen[version] = sorted(live)
        if rng.random() < 0.7:
            found = follower.at(folder, version, "first")
            assert sorted(found[0].queries() if found else []) == sorted(live)
            expected = {i.attribute for q in live for box in found[0].boxes(q) for i in box} if found else set()
            assert set(found[1] if found else ()) == expected
        if rng.random() < 0.1:
            register.maintain(version)
            register._indexes.prune(version)
            seen = {version: sorted(live)}
    for version, queries in seen.items():  # replay after a crash: an older version from files alone
        fresh = BoxReader().at(folder, version, "second")
        assert sorted(fresh[0].queries() if fresh else []) == queries


def test_a_full_disk_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register = opened(tmp_path)
    register.add([new(1, "one")])

    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("millpond.catalog.register_log.os.pwrite", full)
        with pytest.raises(PondError, match="No space left"):
            register.add([new(2, "two")])
    assert register.id_of("two") is None and len(register) == 1
    register.add([new(2, "two")])
    assert len(opened(tmp_path)) == 2


def test_listing_and_definitions_beyond_memory(tmp_path: Path) -> None:
    register = Register(str(tmp_path), definitions=3)
    ids = register.add([new(i, f"q{i}", owner="ann" if i < 4 else "bob") for i in range(10)])
    assert [register.get(q).name for q in ids + ids] == [f"q{i}" for i in range(10)] * 2
    assert len(register._cache) == 3
    page = register.listing(owner="bob", after=ids[5], most=2)
    assert page["name"].to_pylist() == ["q6", "q7"] and page["owner"].to_pylist() == ["bob", "bob"]
    register.invoked(ids[3], 77)
    assert register.usage(ids[3]) == (77, 1) and register.usage(ids[4]) == (0, 0)
