"""The catalog of a pond from before a query was one of a few types: what it says is what the statements say now."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import millpond
from millpond.catalog import Catalog, Register
from millpond.catalog.events import apply
from millpond.commands.inner_streams import made_of
from millpond.synopses import PanesSpec, RowsSpec
from millpond.types import KindWindow, LandmarkWindow, TimeWindow, Window, from_json, union_from_json
from millpond.types.stream_definitions import RowDerivation
from millpond.windows import KindPanes, PaneCut, Panes

OLD = Path(__file__).parent.parent / "data" / "old_catalog"


def folded(path: Path) -> Catalog:
    """The catalog after the events of a file."""
    return reduce(apply, map(json.loads, path.read_text().splitlines()), Catalog())


def alike(catalog: Catalog) -> Catalog:
    """A catalog without what differs between places and versions: folders, and keys of streams as they are written.

    A delimiter that was not said was a comma, and is told by a file's name now. A column that a file lacks was NULL.
    Streams of rows did not say whether they have all of their source.
    """
    tables = {n: replace(t, path=Path(t.path).name, missing="error") for n, t in catalog.tables.items()}
    unsaid: dict[Any, dict[str, Any]] = {RowDerivation: {"whole": False}}
    derived = {
        n: d and replace(d, inner="", **unsaid.get(type(d), {}))
        for n, s in catalog.streams.items()
        for d in [s.derived]
    }
    streams = {n: replace(s, derived=derived[n]) for n, s in catalog.streams.items()}
    said = {n: replace(s.options, delimiter=s.options.delimiter or ",", missing="error") for n, s in streams.items()}
    streams = {n: replace(s, options=said[n]) for n, s in streams.items()}
    return replace(catalog, tables=tables, streams=streams)


def inner_streams(path: Path) -> list[Any]:
    """What the streams without a name are made of."""
    return [made_of(s.derived.inner) for s in folded(path).streams.values() if s.derived is not None]


def kinds(catalog: Catalog) -> list[Any]:
    """The types of what queries show, group by and aggregate."""
    found: list[Any] = []
    for standing in catalog.queries.values():
        query = standing.definition.query
        parts = [
            *query.select,
            *getattr(query, "keys", ()),
            *(e for a in getattr(query, "aggregates", ()) for e in a.arguments),
        ]
        found.append([each.type for each in parts])
    assert all(map(all, found))
    return found


def test_a_catalog_of_an_older_version_is_read_as_the_statements_are_now(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(OLD / "t.csv", tmp_path)
    with millpond.open(tmp_path / "pond", executor="inline", shards=2) as pond:
        pond.sql((OLD / "statements.sql").read_text())
        new = pond._core.register
        numbers = [r.id for r in (new.by_name(n) for n in ("row_groups", "row_plain", "row_pairs")) if r is not None]
        defined = [new.get(n) for n in numbers]
    made, old = alike(folded(tmp_path / "pond" / "catalog" / "events.jsonl")), alike(folded(OLD / "events.jsonl"))
    for name in ("streams", "tables", "queries", "synopses", "stores", "summaries"):
        was, now = getattr(old, name), getattr(made, name)
        assert was.keys() == now.keys(), name
        for key, value in was.items():
            assert value == now[key], (name, key)
    assert old == made
    assert inner_streams(OLD / "events.jsonl") == inner_streams(tmp_path / "pond" / "catalog" / "events.jsonl")
    assert kinds(old) == kinds(made)
    (tmp_path / "old" / "catalog").mkdir(parents=True)
    shutil.copy(OLD / "register.jsonl", tmp_path / "old" / "catalog")
    register = Register(str(tmp_path / "old"))
    assert len(numbers) == 3 and [register.get(n) for n in numbers] == defined


def test_registered_kinds_and_bare_windows_are_read() -> None:
    mark = {"since": None, "every": None, "zone": "UTC"}
    plain = {"range": 60, "slide": 60, "origin": 0, "attribute": "ts", "landmark": None, "kind": None, "length": 0}
    assert union_from_json(Window, plain) == TimeWindow(60, 60)
    months = plain | {"range": 1, "slide": 1, "kind": "months@pond.7", "length": 99}
    assert union_from_json(Window, months) == KindWindow("months@pond.7", 99)
    assert isinstance(union_from_json(Window, plain | {"range": 0, "landmark": mark}), LandmarkWindow)
    assert union_from_json(PaneCut, {"width": 5, "phase": 1, "kind": None}) == Panes(5, 1)
    assert union_from_json(PaneCut, {"width": 1, "phase": 0, "kind": "months@pond.7"}) == KindPanes("months@pond.7")


def test_a_class_that_is_asked_for_by_itself_is_read_from_an_older_version() -> None:
    synopses = [e["synopsis"]["spec"] for e in map(json.loads, (OLD / "events.jsonl").open()) if "synopsis" in e]
    panes = [s for s in synopses if s["rows"] is None]
    grows = next(s for s in panes if s["beside"])
    assert len(from_json(PanesSpec, grows).landmarks) == 2
    assert from_json(RowsSpec, next(s for s in synopses if s["rows"] is not None)).rows.rows == 10
