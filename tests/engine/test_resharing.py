"""Sharing switched on and off while a pond runs: answers stay what they are, state is shared or not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.catalog import Catalog, apply
from millpond.engine.control.resharing import Resharing, apart, decide, together
from millpond.manifests.records import Published
from tests.quick import quick_folder

START = dt.datetime(2026, 1, 1)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


def put(pond: Any, times: Sequence[float], stream: str = "s") -> None:
    data = {"ts": [START + dt.timedelta(seconds=t) for t in times], "a": [int(t) % 3 for t in times]}
    pond.ingest(stream, data | {"v": [t / 7 for t in times]})
    pond.step()


def synopses(pond: Any) -> list[tuple[str, int]]:
    """(users, rows) of all state."""
    return sorted((r["users"], r["rows"]) for r in pond.sql("SHOW SYNOPSES").to_arrow().to_pylist())


QUERIES = {
    "p1": "SELECT a, sum(v) AS v FROM s [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY a",
    "p2": "SELECT a, sum(v) AS v, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY a",
    "p3": "SELECT a, sum(v) AS v FROM s [RANGE 60 SECONDS SLIDE 10 SECONDS] GROUP BY a HAVING sum(v) > 1",
    "r1": "SELECT ISTREAM(a) FROM s [RANGE 20 SECONDS]",
    "r2": "SELECT ISTREAM(a, v) FROM s [RANGE 10 SECONDS]",
}


def run(folder: Path, switches: dict[int, str]) -> tuple[dict[str, Any], list[int]]:
    """Answers after epochs with late rows, sharing switched before some of them; how much state there was each time."""
    counts = []
    with millpond.open(folder, executor="inline", compact_files=3, share=True) as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a BIGINT, v DOUBLE) WITH (event_time='ts')")
        pond.sql(";".join(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items()))
        for epoch in range(7):
            if epoch in switches:
                pond.sql(f"ALTER SYSTEM SET share = {switches[epoch]}")
            base = 13 * epoch
            put(pond, [base, base + 3.5, base + 7, max(0, base - 25), max(0, base - 5)])
            counts.append(len(pond.sql("SHOW SYNOPSES").rows()))
        put(pond, [400])
        pond.drain(final=True)
        return {name: sorted(pond.sql(f"SELECT * FROM {name}").rows(), key=str) for name in QUERIES}, counts


def test_answers_do_not_know_whether_state_is_shared(folder: Path) -> None:
    always, shared = run(folder / "always", {})
    toggled, counts = run(folder / "toggled", {2: "off", 4: "on", 6: "off"})
    assert counts[0] == shared[0] < counts[2] == len(QUERIES)
    assert counts[4] < counts[3]
    for name, rows in always.items():
        assert len(rows) == len(toggled[name])
        for mine, theirs in zip(rows, toggled[name], strict=True):
            for one, other in zip(mine, theirs, strict=True):
                assert one == (pytest.approx(other, rel=1e-9) if isinstance(one, float) else other), name


def test_store_and_views(folder: Path) -> None:
    """Babu 2005, 2.5: a store holds the union of what its users see, [Rows 200] a part of [Rows 1000], or 20 of 100."""
    with millpond.open(folder / "pond", executor="inline", shards=1, compact_files=2) as pond:
        pond.sql("""
            CREATE STREAM s (ts TIMESTAMP, a BIGINT, v DOUBLE) WITH (event_time='ts', late='drop');
            CREATE QUERY q3 AS SELECT ISTREAM(count(a) AS n) FROM s [ROWS 100];
            CREATE QUERY q4 AS SELECT ISTREAM(max(a) AS m) FROM s [ROWS 20]
        """)
        put(pond, range(100))
        put(pond, range(100, 105))
        [store] = pond.sql("SHOW SYNOPSES").to_arrow().to_pylist()
        assert (store["users"], store["shared"], store["kind"]) == ("q3, q4", True, "rows")
        assert store["rows"] >= 100 and store["bytes"] > 0
        assert store["views"] == "q3: [ROWS 100]; q4: [ROWS 20]"
        before = pond.sql("SELECT n FROM q3").rows(), pond.sql("SELECT m FROM q4").rows()
        pond.sql("ALTER SYSTEM SET share = off")
        put(pond, range(105, 110))
        assert [users for users, _ in synopses(pond)] == ["q3", "q4"]
        assert pond.sql("SELECT n FROM q3").rows()[: len(before[0])] == before[0]
        assert pond.sql("SELECT max(n) AS n FROM q3").rows() == [(100,)]
        pond.sql("ALTER SYSTEM SET share = on")
        put(pond, range(110, 115))
        assert [users for users, _ in synopses(pond)] == ["q3, q4"]
        put(pond, range(115, 160))
        assert pond.sql("SELECT max(n) AS n FROM q3").rows() == [(100,)]


@pytest.mark.parametrize("rows", [(100, 20), (20, 100)])
def test_stores_of_queries_that_came_without_sharing_come_together(folder: Path, rows: Sequence[int]) -> None:
    with millpond.open(folder / "pond", executor="inline", shards=2, share=False) as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a BIGINT, v DOUBLE) WITH (event_time='ts')")
        for name, count in zip(("q3", "q4"), rows, strict=True):
            pond.sql(f"CREATE QUERY {name} AS SELECT ISTREAM(count(a) AS n) FROM s [ROWS {count}]")
            put(pond, range(10) if name == "q3" else range(10, 120))
        pond.drain()
        assert [users for users, _ in synopses(pond)] == ["q3", "q4"]
        pond.sql("ALTER SYSTEM SET share = on")
        put(pond, range(120, 250))
        assert [users for users, _ in synopses(pond)] == ["q3, q4"]
        put(pond, [300])
        assert [pond.sql(f"SELECT max(n) AS n FROM {q}").rows() for q in ("q3", "q4")] == [[(n,)] for n in rows]


WIDER = {
    "rows": ("count(a) AS n", "[ROWS 20]", "max(a) AS n", "[ROWS 100]"),
    "rows of other columns": ("sum(v) AS n", "[ROWS 20]", "max(a) AS n", "[ROWS 100]"),
    "a range": ("count(a) AS n", "[RANGE 10 SECONDS]", "max(a) AS n", "[RANGE 1 MINUTE]"),
    "a range of other columns": ("count(*) AS n", "[RANGE 10 SECONDS]", "sum(v) AS n", "[RANGE 1 MINUTE]"),
    "a range beside rows": ("sum(a) AS n", "[ROWS 20]", "sum(a) AS n", "[RANGE 1 MINUTE]"),
    "partitions": ("a, sum(v) AS n", "[PARTITION BY a ROWS 2]", "a, sum(v) AS n", "[PARTITION BY a ROWS 10]"),
}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("form", WIDER)
def test_stores_that_fit_become_one_in_whatever_order_queries_come(
    folder: Path, form: str, order: Sequence[int]
) -> None:
    """Also when rows of columns that one lacked must be read again, over late rows and an opening."""
    one, near, other, far = WIDER[form]
    texts = [f"SELECT {select} FROM s {window}" for select, window in ((one, near), (other, far))]
    texts = [t + " GROUP BY a" if "PARTITION" in t else t for t in texts]

    def answers(name: str, share: bool) -> tuple[list[str], list[Any]]:
        path, found = folder / name, []
        for epoch in range(6):
            with millpond.open(path, executor="inline", share=share, compact_files=3, shards=2) as pond:
                if not epoch:
                    pond.sql("CREATE STREAM s (ts TIMESTAMP, a BIGINT, v DOUBLE) WITH (event_time='ts')")
                if epoch in (0, 2):
                    number = order[epoch // 2]
                    pond.sql(f"CREATE QUERY q{number} AS {texts[number]}")
                base = 40 * epoch
                put(pond, [*(base + 2 * i for i in range(20)), max(0, base - 15), max(0, base - 70)])
                put(pond, [base + 41])
                pond.drain(final=epoch == 5)
                if epoch == 5:
                    found = [sorted(pond.sql(f"SELECT * FROM q{n}").rows(), key=str) for n in (0, 1)]
                there = [users for users, _ in synopses(pond)]
        return there, found

    there, shared = answers("shared", share=True)
    assert there == ["q0, q1"]
    assert shared == answers("alone", share=False)[1]
    assert all(shared)


def test_a_crash_between_copy_and_event(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with millpond.open(folder / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a BIGINT, v DOUBLE) WITH (event_time='ts')")
        pond.sql(";".join(f"CREATE QUERY {n} AS {QUERIES[n]}" for n in ("p1", "p3")))
        put(pond, range(0, 25))
        pond.sql("ALTER SYSTEM SET share = off")

        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        pond.ingest("s", {"ts": [START + dt.timedelta(seconds=70)], "a": [0], "v": [1.0]})
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(pond._core.catalogs.log, "record", killed)
            pond.step()
    with millpond.open(folder / "pond", executor="inline") as pond:
        pond.drain()
        assert [users for users, _ in synopses(pond)] == ["p1", "p3"]
        end = dt.datetime(2026, 1, 1, 0, 0, 30, tzinfo=dt.UTC)
        wanted = round(sum(t / 7 for t in range(0, 25)), 6)
        for name in ("p1", "p3"):
            rows = pond.sql(f"SELECT sum(v) AS v FROM {name} WHERE window_end = TIMESTAMP '{end:%Y-%m-%d %H:%M:%S}'")
            assert round(rows.rows()[0][0], 6) == wanted


# -- the decision ------------------------------------------------------------------------------------------------------


def facts(folder: Path) -> tuple[Catalog, Published]:
    """A catalog whose queries share state, and what is published of it."""
    with millpond.open(folder, executor="inline", share=True) as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a BIGINT, v DOUBLE) WITH (event_time='ts')")
        pond.sql(";".join(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items()))
        put(pond, [0, 10, 20])
        return pond._core.catalogs.catalog, pond._core.epochs.published


def state_of(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The state that each query has."""
    return {q.definition.name: q.inputs or (q.synopsis,) for q in catalog.queries.values()}


def test_apart_gives_all_but_one_a_copy_of_what_they_shared(folder: Path) -> None:
    catalog, published = facts(folder / "pond")
    found = apart(catalog, published.epoch + 1)
    assert found.event is not None
    after = apply(catalog, found.event)
    owners = [o for owned in state_of(after).values() for o in owned]
    assert len(set(owners)) == len(owners)
    assert {o for copies in found.copies.values() for o in copies} == set(owners) - {*catalog.synopses, *catalog.stores}
    assert set(found.copies) <= {*catalog.synopses, *catalog.stores}


def test_together_undoes_apart(folder: Path) -> None:
    catalog, published = facts(folder / "pond")
    event = apart(catalog, published.epoch + 1).event
    assert event is not None
    alone = apply(catalog, event)
    found = together(alone, published)
    assert found.event is not None and not found.copies
    again = apply(alone, found.event)
    [merging] = found.mergings
    queries = {q.id: merging.moved(q) for q in merging.users}
    again = replace(again, queries=again.queries | queries, stores={merging.store.owner: merging.store})
    assert len({o for owned in state_of(again).values() for o in owned}) == len(
        {o for owned in state_of(catalog).values() for o in owned}
    )
    assert together(again, published) == Resharing()


def test_nothing_is_decided_while_a_query_is_back_filled(folder: Path) -> None:
    catalog, published = facts(folder / "pond")
    filling = apply(catalog, {"do": "set_status", "id": min(catalog.queries), "status": "backfilling"})
    assert decide(filling, published, share=False) is None and decide(filling, published, share=True) is None
    assert decide(catalog, published, share=False) == apart(catalog, published.epoch + 1)
