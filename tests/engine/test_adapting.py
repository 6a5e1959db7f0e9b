"""AdaptWID in the engine: the condition (6.9) with its two thresholds, groups that go over and back, always exact."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.operators.panes import forms
from millpond.operators.panes.adapting import Condition, Modes, adapt, condition_of
from millpond.operators.panes.forms import Forms, as_partials, tuples_of
from millpond.progress import StreamProgress
from millpond.synopses import connection, merge_partials, partial, spec_of
from millpond.tables.shard_cache import clear_all
from millpond.types import QueryOptions
from tests.engine.test_forms import STREAM, WIDE, normal, query, rows
from tests.oracle import assert_rows_equal
from tests.properties.harness import floor, options, pond
from tests.properties.queries import BOUNDED, cases
from tests.properties.streams import cuts, streams

START = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000


def test_the_condition_is_that_of_the_thesis() -> None:
    """(6.9): winVol > aggr * wed / (tup * SLIDE); with panes an extent is a pane. (6.5) = (6.6) at the threshold."""
    condition = Condition(aggr=40, tup=20, wed=300, width=60)
    assert condition.upper == 10  # as in bench.adaptive.goes_eager
    assert 20 * condition.upper == 40 * 300 / 60
    active, was = pa.array([10, 11, 10, 8, 7]), pa.array([False, False, True, True, True])
    flags = condition.eager(active.to_numpy(), was.to_numpy(zero_copy_only=False))
    assert flags.tolist() == [False, True, True, True, False]


def test_offsets_of_sources_make_extents_longer() -> None:
    """What the furthest source is ahead of the progress of the slowest is waited for in every extent."""
    spec = spec_of(query(*WIDE), STREAM, QueryOptions(state="adaptive"))
    schema = tuples_of(connection(), spec, rows((0, "a", 1))).schema
    even = condition_of(connection(), spec, [query(*WIDE)], StreamProgress(bound=100, high=100), schema)
    apart = condition_of(connection(), spec, [query(*WIDE)], StreamProgress(bound=100, high=130), schema)
    assert even is not None and apart is not None
    assert (even.wed, apart.wed) == (30, 60)
    assert apart.upper == 2 * even.upper
    eager = spec_of(query(*WIDE), STREAM, QueryOptions(state="eager"))
    assert condition_of(connection(), eager, [query(*WIDE)], StreamProgress(), schema) is None


drawn_epochs = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=12), min_size=1, max_size=12
)


@given(drawn_epochs, st.integers(2, 6))
def test_groups_go_over_and_back(epochs: list[list[tuple[str, int]]], upper: int) -> None:
    """Against the thesis tuple by tuple: modes with two thresholds, and the same panes however often groups switch."""
    db, spec = connection(), spec_of(query(*WIDE), STREAM, QueryOptions(state="adaptive"))
    condition = Condition(aggr=upper, tup=1, wed=30, width=30)
    everything: list[tuple[int, str, int]] = []
    kept: list[pa.Table] = []
    modes, eager = Modes(pa.table({})), set[str]()
    for epoch, drawn in enumerate(epochs):
        new = [(epoch * 10 + at, key, at) for key, at in drawn]
        low, since = epoch - 2, (epoch - 2) * 10  # panes of 10, the last three are open
        held = merge_partials(db, spec, [as_partials(db, spec, t) for t in kept])
        held = held.filter(pa.compute.greater_equal(held["pane"], low)) if held.num_rows else held
        made = adapt(db, spec, condition, Forms(pa.table({}), tuples_of(db, spec, rows(*new))), held,
                     modes.latest(db, spec, since), epoch)  # fmt: skip
        before = [t for t in everything if t[0] >= since]
        for key in {k for _, k, _ in new}:
            count = sum(k == key for _, k, _ in [*before, *new])
            was = key in eager and any(k == key for _, k, _ in before)
            (eager.add if (count >= 0.75 * upper if was else count > upper) else eager.discard)(key)
        stored = {r["k0"] for r in made.forms.partials.to_pylist()}
        assert stored == {k for _, k, _ in new} & eager
        assert {r["k0"] for r in made.forms.tuples.to_pylist()} == {k for _, k, _ in new} - eager
        if made.record is not None:
            modes = Modes(pa.concat_tables([t for t in (modes.table, made.record) if t.num_rows]))
        everything += new
        kept += made.forms.tables
    expected = partial(db, spec, rows(*everything)).to_pylist()
    got = merge_partials(db, spec, [as_partials(db, spec, t) for t in kept]).to_pylist()
    key = lambda r: (r["pane"], r["k0"])  # noqa: E731
    assert [normal(r) for r in sorted(got, key=key)] == [normal(r) for r in sorted(expected, key=key)]


@pytest.fixture(params=[0.5, 2.0])
def low_threshold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """A threshold so low that groups switch all the time, and panes that stay as they are otherwise."""
    monkeypatch.setattr(Condition, "upper", property(lambda _: request.param))
    monkeypatch.setattr(forms, "most_tuples", lambda *_: 1_000)
    yield request.param


@pytest.mark.parametrize("late", ["revise", "drop"])
@given(st.data())
def test_exact_through_every_switch(low_threshold: float, late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=40, gaps=False))
    case = data.draw(cases(stream.unit, BOUNDED))
    lateness = stream.unit * data.draw(st.integers(0, 5))
    restarts = data.draw(st.sets(st.integers(0, 8), max_size=2))
    with pond(options(lateness=lateness, late=late), compact_files=2) as p:
        for form in ("eager", "adaptive"):
            p.sql(f"CREATE QUERY {form} WITH (state='{form}') AS {case.query()}")
        for number, epoch in enumerate(data.draw(cuts(stream.rows, max_epochs=8))):
            if number in restarts:
                p.restart()
            p.epoch(epoch)
        p.finish()
        logs = {form: p.log(case, form) for form in ("eager", "adaptive")}
        assert_rows_equal(logs["eager"], logs["adaptive"], floor=floor(stream.rows), what=case.query())


SELECT = (
    "SELECT k, count(*) AS n, sum(v) AS s, stddev_pop(v) AS d, min(v) AS l FROM {} [RANGE 20 s SLIDE 10 s] GROUP BY k"
)


def said(pond: Any) -> str:
    return "\n".join(r[0].strip() for r in pond.sql("EXPLAIN ANALYZE q").rows())


def test_a_group_goes_back_and_keeps_its_partials(inline_pond: Callable[..., Any]) -> None:
    """The same whether the process goes on or begins anew in each epoch: modes are read from state files."""
    told = []
    for restarts in (False, True):
        pond = inline_pond(f"p{restarts}", compact_files=3)
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')")
        pond.sql(f"CREATE QUERY q WITH (state='adaptive') AS {SELECT.format('s')}")
        seen = []
        for epoch, count in enumerate([40, 1, 1, 1, 1, 40]):
            times = [START + epoch * 10_000_000 + i for i in range(count)]
            columns = {"ts": pa.array(times, pa.timestamp("us")), "k": ["g"] * count, "v": list(range(count))}
            pond.ingest("s", pa.table(columns))
            pond.step()
            lines = said(pond).splitlines()
            seen.append((next(x for x in lines if x.startswith("state")), next(x for x in lines if "eager now" in x)))
            if restarts:
                clear_all()
        told.append(seen)
    assert told[0] == told[1]
    there, gone = "eager now: 1 groups: g", "eager now: 0 groups"
    assert [line for _, line in told[0]] == [there, there, there, gone, gone, there]
    assert "1 in transition" in told[0][3][0]


def test_the_memory_of_each_choice_and_the_offsets_are_shown(inline_pond: Callable[..., Any]) -> None:
    pond = inline_pond()
    for name in "ab":
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts')")
    pond.sql(f"CREATE QUERY q WITH (state='adaptive') AS {SELECT.format('(a UNION ALL b)')}")
    for name, seconds in (("a", 30), ("b", 5)):
        rows = [{"ts": dt.datetime(2026, 1, 1) + dt.timedelta(seconds=seconds), "k": f"g{i}", "v": i} for i in range(9)]
        pond.ingest(name, rows)
    pond.step()
    pond.step()
    text = said(pond)
    assert "offsets of sources behind the furthest: a 0s, b 25s" in text
    assert "an extent lasts 45s" in text  # RANGE 20 s, and 25 s until the slower source has come so far
    assert "all as partials:" in text and "all as tuples: about" in text
