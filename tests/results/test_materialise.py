"""The decider of materialisation, and that nothing it decides changes an answer."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.answers.row_queries import selection
from millpond.answers.row_queries.keeping import Keeper
from millpond.answers.row_queries.matched_rows import RowSets
from millpond.answers.row_queries.materialise import (
    Become,
    Decider,
    Declared,
    Dropped,
    EpochPublished,
    Event,
    Invoked,
    Limits,
    MakeReady,
    MemoryRead,
    Option,
    Release,
)
from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.stretch import Stretch
from millpond.answers.row_queries.trees import Trees, aggregate_rows
from millpond.synopses.blocks import Block
from tests.quick import many
from tests.results.rows_of_blocks import matching_rows
from tests.results.test_trees import STREAM, query_of, rows

FORMS: list[Option] = ["auto", "none", "partial", "complete"]


def invoke(decider: Decider, start: float, every: float, count: int, **more: Any) -> list[Any]:
    made: list[Any] = []
    for i in range(count):
        values = {"option": "auto", "seconds": 0.01, "rows": 5, "nbytes": 1_000, **more}
        made += decider.on(Invoked(1, start + i * every, **values))
    return made


def test_auto_becomes_complete_when_invoked_more_often_than_published_and_goes_back() -> None:
    decider = Decider(Limits(dwell=0))
    for i in range(60):
        decider.on(EpochPublished(i, i))
    assert decider.form(1, "auto")[0] == "partial"
    invoke(decider, 60, 1 / 20, 400)
    form, reason = decider.form(1, "auto")
    assert form == "complete" and "invoked" in reason and "ms" in reason
    assert MakeReady((1,)) in decider.on(EpochPublished(81, 81))
    made: list[Any] = []
    for i in range(82, 600):
        made += decider.on(EpochPublished(i, i))
    assert decider.form(1, "auto")[0] == "partial"
    assert [m.form for m in made if isinstance(m, Become)] == ["partial"]  # once, not to and fro
    made = []
    for i in range(600, 800):
        made += decider.on(EpochPublished(i, i))
    assert [m for m in made if isinstance(m, Release)] == [Release(1)]
    assert decider.form(1, "auto") == ("none", "auto: not invoked for 600 s")
    assert invoke(decider, 900, 1, 1)[0].form == "partial"


def test_between_the_bounds_a_form_stays() -> None:
    decider = Decider(Limits(dwell=0))
    made: list[Any] = []
    for i in range(2_000):  # one invocation per publish: between leaving (0.75) and entering (1.5)
        made += decider.on(EpochPublished(i / 10, i))
        made += invoke(decider, i / 10 + 0.05, 1, 1)
    assert len([m for m in made if isinstance(m, Become)]) <= 2


def test_cheap_or_large_answers_are_not_kept() -> None:
    for more in ({"seconds": 0.0001}, {"nbytes": 1_000_000}, {"current": False}):
        decider = Decider(Limits(dwell=0))
        decider.on(MemoryRead(0.0, 0, 1_000_000))
        decider.on(EpochPublished(0, 1))
        invoke(decider, 1, 0.01, 300, **more)
        assert decider.form(1, "auto")[0] == "partial", more


def test_memory_pressure() -> None:
    decider = Decider(Limits(dwell=0))
    decider.on(EpochPublished(0, 1))
    invoke(decider, 1, 0.01, 10, seconds=0.0)
    decider.on(Invoked(2, 100.0, "auto", 0.0, 1, 100))
    made = decider.on(MemoryRead(101, 95, 100))
    assert Release(1) in made and Release(2) not in made  # 1 was not invoked for a tenth of the time
    made = decider.on(EpochPublished(102, 2, {2: 0.8}))
    assert [m.form for m in made if isinstance(m, Become)] == ["none"]
    assert "80%" in decider.form(2, "auto")[1]
    decider.on(MemoryRead(103, 10, 100))
    assert not [m for m in decider.on(EpochPublished(104, 3, {2: 0.4})) if isinstance(m, Become)]
    assert decider.on(EpochPublished(105, 4, {2: 0.1}))[0].form == "partial"  # type: ignore[union-attr]  # it is there, or the test fails


def test_options_are_obeyed() -> None:
    decider = Decider()
    assert decider.form(1, "none") == ("none", "WITH (materialize = 'none')")
    assert decider.on(Declared(2, "complete"))[-1] == MakeReady((2,))
    assert MakeReady((2,)) in decider.on(EpochPublished(10_000, 1))
    assert decider.on(Declared(2, "partial")) == [Release(2)]
    assert decider.form(2, "partial")[0] == "partial" and not decider.complete
    invoke(decider, 1, 0.001, 500, option="none")
    assert decider.form(1, "none")[0] == "none"
    assert decider.on(Dropped(2)) == [Release(2)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3), st.sampled_from(FORMS)), max_size=80))
@settings(max_examples=60, deadline=None)
def test_the_decider_is_a_function_of_its_events(steps: list[tuple[int, int, Option]]) -> None:
    one, two = Decider(Limits(dwell=0, cold=5)), Decider(Limits(dwell=0, cold=5))
    for at, (kind, query, option) in enumerate(steps):
        event: Event = [
            Declared(query, option),
            Dropped(query),
            Invoked(query, at, option, 0.01, 1, 10),
            EpochPublished(at, at, {query: 0.6}),
            MemoryRead(at, 10 * query, 25),
        ][kind]
        assert one.on(event) == two.on(event)
        for number in (1, 2, 3):
            assert one.form(number, "auto") == two.form(number, "auto")
            assert (number in one.complete) <= (one.form(number, "auto")[0] == "complete")


def test_kept_answers_serve_exactly_their_moment_and_are_bounded() -> None:
    now = [0.0]
    gone: list[int] = []
    keeper = Keeper(20_000, gone.extend, lambda: now[0])
    for query in range(20):
        keeper.declare(query, "complete")
    answers = {q: pa.table({"x": list(range(q, q + 100))}) for q in range(20)}
    assert keeper.published(3, lambda q: ((3, "w"), answers[q])) >= 1
    for query in range(20):
        keeper.keep(query, (3, "w"), answers[query])
    assert 0 < keeper.nbytes <= 20_000
    assert keeper.fresh(19, (3, "w")) is answers[19]
    assert keeper.fresh(19, (4, "w")) is None and keeper.fresh(19, (3, "v")) is None
    assert keeper.fresh(0, (3, "w")) is None  # pushed out by the later ones
    keeper.drop(19)
    assert keeper.fresh(19, (3, "w")) is None and gone == [19]

    def broken(query: int) -> Any:
        raise ValueError("no")

    assert keeper.published(4, broken) == 0
    keeper.invoked(50, "partial", 0.1, (4, "w"), answers[0])
    assert keeper.fresh(50, (4, "w")) is None  # not complete
    keeper.invoked(5, "complete", 0.1, (4, "w"), answers[5])
    assert keeper.fresh(5, (4, "w")) is answers[5]


@given(st.integers(0, 10**9))
@many(0.8, 1)
def test_random_changes_of_form_never_change_an_answer(seed: int) -> None:
    rng = random.Random(seed)
    now = [0.0]
    trees = Trees(rng.choice([100, 20_000, 1 << 30]))
    keeper = Keeper(
        rng.choice([500, 5_000, 1 << 20]),
        lambda qs: [trees.forget(q) for q in qs] and None,
        lambda: now[0],
        Limits(dwell=0, cold=3, memory=5),
    )
    queries = [query_of([("sum", ("i",), "HUGEINT"), ("min", ("t",), "VARCHAR")], grouped) for grouped in (False, True)]
    options: list[Option] = [rng.choice(FORMS) for _ in queries]
    blocks: list[Block] = []

    def matching(block: Any, low: int, high: int) -> Any:
        return np.flatnonzero(block.rows["i"].fill_null(0).to_numpy()[low:high] > 0) + low

    def straight(query: int, stretch: Stretch) -> pa.Table:
        table = matching_rows(blocks, matching, stretch)
        return aggregate_rows(queries[query], STREAM, [] if table is None else [table])

    def answer(query: int, stretch: Stretch) -> pa.Table:
        if keeper.form(query, options[query])[0] == "none":
            return straight(query, stretch)
        return trees.answer(query, queries[query], STREAM, blocks, matching, stretch)[0]

    epoch, high = 0, 100
    for _ in range(30):
        now[0] += rng.choice([0.0, 0.1, 4.0])
        step = rng.random()
        if step < 0.3:
            epoch, high = epoch + 1, high + 20
            blocks += Block.build(rows(rng, 40, high - 60, high, epoch * 100), "ts")
            if len(blocks) > 3 and rng.random() < 0.5:
                blocks[-2:] = Block.build(pa.concat_tables([b.rows for b in blocks[-2:]]), "ts")
            current = Stretch(high - 80, high)
            keeper.published(epoch, lambda q, c=current, e=epoch: ((e, c), answer(q, c)))  # type: ignore[misc]  # binds by default
        elif step < 0.4:
            query = rng.randrange(2)
            options[query] = rng.choice(FORMS)
            keeper.declare(query, options[query])
        elif step < 0.5:
            keeper.memory(rng.choice([0, 95]), 100)
        else:
            query, own = rng.randrange(2), rng.random() < 0.7
            stretch = Stretch(high - 80, high) if own else Stretch(rng.randint(0, high), high)
            at = (epoch, stretch)
            found = keeper.answer(query, options[query], at, lambda q=query, w=stretch: answer(q, w), own)
            assert found.equals(straight(query, stretch))


def test_a_broken_evaluation_is_left_to_whoever_invokes() -> None:
    keeper = Keeper(1 << 20)
    keeper.declare(1, "complete")
    keeper.declare(2, "complete")
    table = pa.table({"x": [1]})

    def evaluate(query: int) -> Any:
        if query == 1:
            raise ValueError("fails")
        return ("at", table)

    assert keeper.published(1, evaluate) == 1
    assert keeper.fresh(2, "at") is table
    assert keeper.forms() == {"ready": 1, "complete": 2}
    assert keeper.form(1, "complete") == ("complete", "WITH (materialize = 'complete')")


def test_making_answers_ready_does_not_count_as_invoking() -> None:
    now = [0.0]
    keeper = Keeper(1 << 20, clock=lambda: now[0], limits=Limits(dwell=0))
    table = pa.table({"x": [1]})
    for _ in range(200):
        keeper.invoked(1, "auto", 0.01, 0, table)
    assert keeper.form(1, "auto")[0] == "complete"
    for epoch in range(1, 500):
        now[0] += 1
        keeper.published(epoch, lambda q, e=epoch: keeper.answer(q, "auto", e, lambda: table) and None)  # type: ignore[misc]  # binds by default
    assert keeper.made > 10 and keeper.form(1, "auto")[0] == "partial"


def test_row_sets_tell_which_queries_are_broad() -> None:
    sets = RowSets(10_000)
    sets.put(1, 7, 0, np.arange(600, dtype=np.uint16), 1000)
    sets.put(2, 7, 0, np.arange(800, dtype=np.uint16), 1000)
    sets.put(1, 8, 0, np.arange(10, dtype=np.uint16), 1000)
    assert sets.shares() == {7: 0.7, 8: 0.01}
    sets.put(1, 7, 0, np.arange(600, dtype=np.uint16), 1000)  # is kept already
    sets.forget(blocks=[2])
    assert sets.shares() == {7: 0.6, 8: 0.01}
    decider = Decider()
    for query in (7, 8):
        decider.on(Invoked(query, 100.0, "auto", seconds=0.001, rows=10, nbytes=400))
    decider.on(MemoryRead(101.0, 95, 100))
    decider.on(EpochPublished(102.0, 3, sets.shares()))
    assert [decider.form(q, "auto")[0] for q in (7, 8)] == ["none", "partial"]
    sets.forget(queries=[7, 8])
    assert sets.shares() == {} and sets.nbytes == 0


def test_a_publish_tells_the_decider_how_much_matches(inline_pond: Any) -> None:
    """A broad query is not kept when memory is short, and answers as before."""
    pond = inline_pond(hot_bytes=400_000)
    core = pond._core
    pond.sql("CREATE STREAM s (ts TIMESTAMP, a BIGINT) WITH (event_time='ts')")
    broad = pond.register("SELECT a FROM s WHERE a >= 10")
    selection.start_ready(core.view)
    for at in range(4):
        rows = pa.table({"ts": pa.array(np.arange(2000) + at * 2000, pa.timestamp("us")), "a": np.arange(2000) % 100})
        pond.ingest("s", rows)
        pond.step()
        assert len(broad.result()) == 1800 * (at + 1)
    ready = ready_of(core.view)
    assert 0.85 < ready.sets.shares()[broad.id] < 0.95
    ready.keeper.memory(99, 100)
    ready.keeper.published(core.published.epoch, lambda query: None, ready.sets.shares())
    assert "memory is short" in "\n".join(pond.sql(f'EXPLAIN "#{broad.id}"').table["plan"].to_pylist())
    assert len(broad.result()) == 7200
