"""The catalog as a fold over events, and its log: durable, cut where torn, whole after a failed write."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.catalog import Catalog, CatalogLog, apply
from millpond.catalog.catalog_state import Standing, Synopsis
from millpond.catalog.log import snapshot_path
from millpond.support.errors import PondError
from millpond.synopses import spec_of
from millpond.types import (
    Aggregate,
    Column,
    Output,
    QueryDefinition,
    StreamDefinition,
    StreamOptions,
    TableDefinition,
    TimeWindow,
    WindowQuery,
    from_json,
    to_json,
)
from millpond.types.sql_expressions import parsed


def stream(number: int, name: str = "s") -> StreamDefinition:
    return StreamDefinition(name, (Column("ts", "TIMESTAMP"),), StreamOptions(time="ts", lateness=5), number)


def create_stream(number: int, name: str = "s") -> dict[str, Any]:
    return {"do": "create_stream", "definition": to_json(stream(number, name))}


def create_query(number: int, of: int, replaces: int | None = None, owner: str = "") -> dict[str, Any]:
    query = WindowQuery(
        stream="s",
        window=TimeWindow(10, 5),
        select=(Output("n", parsed("a0").typed("BIGINT")),),
        aggregates=(Aggregate("a0", "count_star"),),
    )
    synopsis = Synopsis(owner or f"o{number}", spec_of(query, stream(of)), 3)
    standing = Standing(QueryDefinition(f"q{number}", query, id=number), synopsis.owner, 3, "backfilling")
    event = {"do": "create_query", "standing": to_json(standing), "synopsis": to_json(synopsis)}
    return event if replaces is None else {**event, "replaces": replaces}


EVENTS = [
    create_stream(1),
    create_query(2, 1),
    create_query(3, 1, owner="o2"),
    {"do": "set_status", "id": 2, "status": "live"},
    {"do": "create_table", "definition": to_json(TableDefinition("t", (), "/t.csv", "csv", id=4))},
    create_query(5, 1, replaces=2),
    {"do": "set_status", "id": 3, "status": "quarantined", "reason": "it failed"},
    {"do": "drop_query", "id": 3},
    {"do": "drop_table", "id": 4},
    {"do": "drop_query", "id": 5},
    {"do": "drop_stream", "id": 1},
]


def test_a_fold_over_events() -> None:
    states = [Catalog()]
    for event in EVENTS:
        states.append(apply(states[-1], event))
    assert [c.version for c in states] == list(range(len(EVENTS) + 1))
    assert states[1].stream("S") == stream(1) and states[1].next_id == 2
    assert [q.id for q in states[3].users("o2")] == [2, 3]
    assert states[4].queries[2].status == "live" and states[4].queries[3].status == "backfilling"
    assert sorted(states[6].queries) == [3, 5] and sorted(states[6].synopses) == ["o2", "o5"]
    assert states[7].queries[3].reason == "it failed"
    assert sorted(states[8].synopses) == ["o5"], "a synopsis without users is dropped"
    assert states[-1].names() == [] and states[-1].synopses == {} and states[-1].next_id == 6
    assert states[0] == Catalog(), "events leave the catalog before them as it was"
    with pytest.raises(ValueError, match="unknown catalog event"):
        apply(Catalog(), {"do": "dance"})


def test_snapshots_are_read_as_written(tmp_path: Path) -> None:
    log = CatalogLog(str(tmp_path))
    for event in EVENTS[:7]:
        log.record(event)
        path = log.snapshot(log.catalog)
        assert from_json(Catalog, json.loads(Path(path).read_bytes())) == log.catalog
    log.prune(6)
    kept = [v for v in range(8) if os.path.exists(snapshot_path(str(tmp_path), v))]
    assert kept == [6, 7]
    log.close()


@given(st.integers(0, len(EVENTS)), st.data())
def test_a_torn_tail_is_cut(tmp_path_factory: pytest.TempPathFactory, count: int, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = CatalogLog(str(folder))
    for event in EVENTS[:count]:
        log.record(event)
    log.close()
    path = folder / "events.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    kept = sum(sum(map(len, lines[: n + 1])) <= cut for n in range(len(lines)))
    again = CatalogLog(str(folder))
    expected = Catalog()
    for event in EVENTS[:kept]:
        expected = apply(expected, event)
    assert again.catalog == expected
    for event in EVENTS[kept:]:
        again.record(event)
    again.close()
    last = CatalogLog(str(folder))
    assert last.catalog.version == len(EVENTS)
    last.close()


def test_an_event_that_does_not_apply_is_not_written(tmp_path: Path) -> None:
    log = CatalogLog(str(tmp_path))
    log.record(create_stream(1))
    with pytest.raises(KeyError):
        log.record(create_query(2, 1), {"do": "set_status", "id": 99, "status": "live"})
    log.close()
    again = CatalogLog(str(tmp_path))
    assert again.catalog.version == 1 and again.catalog.queries == {}
    again.close()


def test_a_full_disk_loses_the_event_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CatalogLog(str(tmp_path))
    log.record(create_stream(1))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(PondError, match="No space"):
            log.record(create_stream(2, "lost"))
    assert log.catalog.names() == ["s"]
    log.record(create_stream(2, "kept"))
    log.close()
    again = CatalogLog(str(tmp_path))
    assert again.catalog == log.catalog and again.catalog.names() == ["s", "kept"]
    again.close()
