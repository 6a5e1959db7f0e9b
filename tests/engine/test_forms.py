"""`state='eager' | 'lazy' | 'adaptive'`: the form that is smaller, in files and in memory, and what is said of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.manifests.places import state_folder
from millpond.operators.panes.forms import TUPLES, are_tuples, as_partials, most_tuples, settled, tuples_of
from millpond.operators.windowed.stored import PANES
from millpond.support.errors import MillpondError
from millpond.synopses import connection, merge_partials, partial, spec_of
from millpond.tables import read_chunks
from millpond.types import (
    Aggregate,
    Column,
    Key,
    QueryOptions,
    StreamDefinition,
    StreamOptions,
    TimeWindow,
    WindowQuery,
)
from millpond.types.sql_expressions import parsed

START = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
STREAM = StreamDefinition(
    "s", (Column("ts", "TIMESTAMP"), Column("k", "VARCHAR"), Column("v", "BIGINT")), StreamOptions(time="ts"), 1
)
WIDE = (
    Aggregate("a0", "count_star"),
    Aggregate("a1", "sum", (parsed('"v"').typed("BIGINT"),), type="HUGEINT"),
    Aggregate("a2", "stddev_pop", (parsed('"v"').typed("BIGINT"),), type="DOUBLE"),
    Aggregate("a3", "min", (parsed('"v"').typed("BIGINT"),)),
)


def query(*aggregates: Aggregate) -> WindowQuery:
    return WindowQuery(
        stream="s",
        window=TimeWindow(30, 10),
        select=(),
        keys=(Key("k0", parsed('"k"').typed("VARCHAR")),),
        aggregates=aggregates,
    )


def rows(*drawn: tuple[int, str, int]) -> pa.Table:
    ts, k, v = zip(*drawn, strict=True)
    return pa.table({"ts": pa.array(ts, pa.timestamp("us")), "k": list(k), "v": pa.array(v, pa.int64())})


def test_only_bare_columns_can_be_kept() -> None:
    lazy, adaptive = QueryOptions(state="lazy"), QueryOptions(state="adaptive")
    assert spec_of(query(*WIDE), STREAM, lazy).carried == ('"v"',)
    computed = Aggregate("a0", "sum", (parsed('"v" + 1').typed("BIGINT"),), type="HUGEINT")
    assert spec_of(query(computed), STREAM, lazy).form == "eager"
    first = Aggregate("a0", "first", (parsed('"v"').typed("BIGINT"),))
    assert spec_of(query(first), STREAM, adaptive).carried == ('"ts"', '"v"', "_id")


def test_forms_do_not_share_synopses() -> None:
    kinds = {f: spec_of(query(*WIDE), STREAM, QueryOptions(state=f)) for f in ("eager", "lazy", "adaptive")}  # type: ignore[arg-type]
    assert len({s.key for s in kinds.values()}) == 3
    assert not kinds["eager"].serves(kinds["lazy"], query(*WIDE))


@given(
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from("abc"), st.integers(-9, 9)), min_size=1, max_size=60),
    st.data(),
)
def test_what_is_settled_is_the_same_and_smaller(drawn: list[tuple[int, str, int]], data: st.DataObject) -> None:
    db, spec = connection(), spec_of(query(*WIDE), STREAM, QueryOptions(state="adaptive"))
    at = data.draw(st.integers(0, len(drawn)))
    parts = [tuples_of(db, spec, rows(*part)) for part in (drawn[:at], drawn[at:]) if part]
    first = settled(db, spec, [], parts[:1])
    forms = settled(db, spec, [first.partials], [first.tuples, *parts[1:]])
    seen: dict[tuple[int, str], int] = {}
    for ts, k, _ in drawn:
        seen[ts // 10, k] = seen.get((ts // 10, k), 0) + 1
    most = most_tuples(db, spec, parts[0])
    assert most > 1
    kept = [(r["pane"], r["k0"]) for r in forms.tuples.to_pylist()]
    made = [(r["pane"], r["k0"]) for r in forms.partials.to_pylist()]
    assert len(set(made)) == len(made) and not set(kept) & set(made)
    assert {k: kept.count(k) for k in kept} == {k: n for k, n in seen.items() if n <= most}
    expected = partial(db, spec, rows(*drawn)).to_pylist()
    got = merge_partials(db, spec, [as_partials(db, spec, t) for t in forms.tables]).to_pylist()
    key = lambda r: (r["pane"], r["k0"])  # noqa: E731
    assert [normal(r) for r in sorted(got, key=key)] == [normal(r) for r in sorted(expected, key=key)]


def normal(row: dict[str, Any]) -> dict[str, Any]:
    return {k: pytest.approx(v, rel=1e-9, abs=1e-9) if isinstance(v, float) else v for k, v in row.items()}


VALUES = "count(*) AS n, sum(v) AS s, stddev_pop(v) AS d, min(v) AS l"
SELECT = f"SELECT k, {VALUES} FROM s [RANGE 60 s SLIDE 10 s] GROUP BY k"


def feed(pond: Any, epochs: int, small: int, large: int) -> None:
    """Per epoch of five seconds: `small` groups with a row each that never come again, one group of `large` rows."""
    for epoch in range(epochs):
        times = [START + epoch * 5_000_000 + i for i in range(small + large)]
        keys = [*(f"{epoch}-{i}" for i in range(small)), *["large"] * large]
        columns = {
            "ts": pa.array(times, pa.timestamp("us")),
            "k": keys,
            "v": list(range(small + large)),
        }
        pond.ingest("s", pa.table(columns))
        pond.step()


def held(pond: Any) -> dict[str, tuple[int, int, int]]:
    """Per query: rows of partials, rows of tuples, bytes of both in the state files."""
    core = pond._core
    found = {}
    for standing in core.catalog.queries.values():
        paths = [f"{state_folder(core.path)}/{s.path}" for s in core.storage.state.segments]
        chunks = list(read_chunks(paths, {standing.synopsis}, lambda _o, kind, _e, _l, _h: kind in (PANES, TUPLES)))
        tuples = [c.table for c in chunks if are_tuples(c.table)]
        partials = [c.table for c in chunks if not are_tuples(c.table)]
        size = sum(t.nbytes for t in (*tuples, *partials))
        found[standing.definition.name] = (sum(map(len, partials)), sum(map(len, tuples)), size)
    return found


def made(inline_pond: Callable[..., Any], **settings: Any) -> Any:
    pond = inline_pond(**settings)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')")
    for form in ("eager", "lazy", "adaptive"):
        pond.sql(f"CREATE QUERY {form} WITH (state='{form}') AS {SELECT}")
    return pond


def test_state_is_smallest_where_groups_are_of_both_kinds(inline_pond: Callable[..., Any]) -> None:
    pond = made(inline_pond, compact_files=3)
    feed(pond, 8, small=60, large=60)
    sizes = held(pond)
    assert sizes["eager"][1] == 0 and sizes["lazy"][0] == 0
    assert sizes["adaptive"][2] < sizes["eager"][2] < sizes["lazy"][2] * 2
    assert sizes["adaptive"][2] < sizes["lazy"][2]
    assert sizes["adaptive"][1] == 8 * 60  # the small groups; the large one is a partial per pane and file
    text = "\n".join(r[0] for r in pond.sql("EXPLAIN ANALYZE adaptive").rows())
    assert "state: adaptive; groups: 1 as partials, 480 as tuples, 0 in transition" in text
    assert "all as partials:" in text and "all as tuples: about" in text
    assert "state: eager; groups: 481 as partials" in "\n".join(r[0] for r in pond.sql("EXPLAIN ANALYZE eager").rows())
    shown = pond.sql("SHOW SYNOPSES").table
    assert sorted(shown["state"].to_pylist()) == ["adaptive", "eager", "lazy"]


def test_what_cannot_be_kept_as_tuples_says_so(inline_pond: Callable[..., Any]) -> None:
    pond = made(inline_pond)
    pond.sql("CREATE QUERY c WITH (state='lazy') AS SELECT sum(v + 1) AS s FROM s [RANGE 60 s SLIDE 10 s]")
    text = "\n".join(r[0] for r in pond.sql("EXPLAIN ANALYZE c").rows())
    assert "state: eager ('lazy' is for" in text
    with pytest.raises(MillpondError, match="eager"):
        pond.sql("CREATE QUERY d WITH (state='hungry') AS SELECT count(*) AS n FROM s [RANGE 60 s SLIDE 10 s]")
    with pytest.raises(MillpondError, match="window queries"):
        pond.sql("CREATE QUERY e WITH (state='lazy') AS SELECT v FROM s BEGIN NOW - '1 minute' END NOW")
