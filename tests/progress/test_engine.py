"""The engine against the definitions, for every generator: bounds, late rows, guards, and answers group by group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.progress import FOREVER, NEVER
from millpond.support.errors import StatementError
from tests.oracle import (
    Case,
    Epoch,
    Item,
    Row,
    Script,
    StreamSpec,
    Table,
    assert_rows_equal,
    evaluate,
    latest,
    revisions,
    trace,
)
from tests.oracle.revisions import revisions_by_group
from tests.progress.ponds import GROUPED, PLAIN, TYPES, Kind, MarkedPond, S, epochs, is_mark, kinds, marked_pond, rows
from tests.properties.harness import wanted


def clipped(bound: int) -> int:
    return max(NEVER, min(FOREVER, bound))


def case_of(data: st.DataObject, grouped: bool) -> Case:
    size = data.draw(st.sampled_from([2, 5, 10])) * S
    slide = data.draw(st.sampled_from([size, size, 2 * S, 3 * S]))
    return Case(GROUPED if grouped else PLAIN, size, slide, group_by=("k",) if grouped else ())


@given(st.data())
def test_progress_is_what_the_definitions_say(data: st.DataObject) -> None:
    kind = data.draw(kinds())
    script = Script(kind.spec, data.draw(epochs(data.draw(rows()))))
    before = NEVER
    with marked_pond(kind.options) as pond:
        late = broken = 0
        for epoch, step in zip(script.epochs, trace(script), strict=True):
            pond.epoch(epoch)
            state = pond.progress
            assert state.bound == clipped(step.after)
            assert state.bound >= before  # progress never goes back
            before = state.bound
            assert state.groups == {g: b for g, b in step.groups_after.items() if b > step.after}
            late, broken = late + len(step.late), broken + len(step.broken)
            assert sum(p.late for p in state.partitions.values()) == late
            assert sum(p.broken for p in state.partitions.values()) == broken
        (shown,) = [r for r in pond.sql("SHOW WATERMARKS").table.to_pylist() if r["kind"] == "stream"]
        assert (shown["late"], shown["broke_marks"]) == (late, broken)
        refused = pond.rows("SELECT reason FROM dead(s)")
        assert len(refused) == (broken if kind.spec.reject else 0)


def run(pond: MarkedPond, script: Script, data: st.DataObject) -> None:
    for epoch in script.epochs:
        if data.draw(st.integers(0, 4)) == 0:
            pond.restart()
        pond.epoch(epoch)


@given(st.data())
def test_groups_are_answered_by_their_own_progress(data: st.DataObject) -> None:
    """First answers, revisions and what is dropped: each group is as a stream of its own."""
    kind, case = data.draw(kinds(grouped=True)), case_of(data, grouped=True)
    script = Script(kind.spec, data.draw(epochs(data.draw(rows()))))
    log = revisions_by_group(case, TYPES, script, "k")
    with marked_pond(kind.options) as pond:
        pond.sql(case.statement())
        run(pond, script, data)
        got = pond.log(case)
        expected = wanted([(r.start, r.end, r.revision, r.op, *r.items) for r in log if r.op == "+"])
        assert_rows_equal(expected, [r for r in got if r[3] == "+"], what=f"{kind.options}: {case.query()}")


@given(st.data())
def test_other_queries_follow_the_stream(data: st.DataObject) -> None:
    """Marks for groups say nothing to a query that does not group by their column."""
    kind, case = data.draw(kinds()), case_of(data, grouped=False)
    script = Script(kind.spec, data.draw(epochs(data.draw(rows()))))
    log = revisions(case, TYPES, script)
    with marked_pond(kind.options) as pond:
        pond.sql(case.statement())
        run(pond, script, data)
        assert_rows_equal(wanted(latest(log)), pond.answers(case), what=f"{kind.options}: {case.query()}")


@given(st.data())
def test_answers_that_come_later_are_the_same(data: st.DataObject) -> None:
    """A query that is back-filled, or pauses and resumes, answers what one did that was there all the time."""
    kind, case = data.draw(kinds(grouped=True)), case_of(data, grouped=data.draw(st.booleans()))
    script = Script(kind.spec, data.draw(epochs(data.draw(rows()))))
    count = len(script.epochs)
    start, pause = data.draw(st.integers(0, count)), data.draw(st.integers(0, count))
    resume = data.draw(st.integers(pause, count))
    with marked_pond(kind.options) as pond:
        pond.sql(case.statement("all_along"))
        pond.sql(case.statement("paused"))
        for number, epoch in enumerate([*script.epochs, None]):
            if number == start:
                pond.sql(case.statement("later", since="start"))
            if number == pause:
                pond.sql("ALTER QUERY paused PAUSE")
            if number == resume:
                pond.sql("ALTER QUERY paused RESUME")
            if epoch is not None:
                pond.epoch(epoch)
        pond.settle()
        expected = pond.answers(case, "all_along")
        assert_rows_equal(expected, pond.answers(case, "later"), what=f"back-fill, {kind.options}: {case.query()}")
        assert_rows_equal(expected, pond.answers(case, "paused"), what=f"pause, {kind.options}: {case.query()}")


@given(st.data())
def test_early_answers_end_where_the_others_do(data: st.DataObject) -> None:
    """With groups that close by themselves: what counts is the same with and without early answers, all the time."""
    kind, case = data.draw(kinds(grouped=True)), case_of(data, grouped=True)
    script = Script(kind.spec, data.draw(epochs(data.draw(rows()))))
    with marked_pond(kind.options) as pond:
        pond.sql(case.statement("plain"))
        pond.sql(case.statement("eager") + " WITH (early='1s')")
        for epoch in script.epochs:
            pond.epoch(epoch)
            closed = "SELECT window_start, window_end, c0, c1, c2 FROM eager WHERE status = 'closed'"
            assert_rows_equal(pond.answers(case, "plain"), pond.rows(closed), what=f"{kind.options}: {case.query()}")
        pond.pond.drain(final=True)
        assert_rows_equal(pond.answers(case, "plain"), pond.answers(case, "eager"), what="final")


@given(st.data())
def test_any_order_within_the_marks_gives_the_same_answers(data: st.DataObject) -> None:
    """Rows permuted between grammatical marks, cut into epochs anyhow, of any partition: equal final answers."""
    taken = [r for r in data.draw(rows()) if not is_mark(r)]
    ends = sorted(data.draw(st.lists(st.integers(0, 45), max_size=4)))
    ends.append(50)
    by = data.draw(st.booleans())
    case = case_of(data, grouped=True)
    answers = []
    for _ in (1, 2):
        order, left = [], list(taken)
        for end in ends:
            # Rows below a mark come before it; others may come before it too.
            due = [r for r in left if r.time < end * S]
            early = [r for r in left if r.time >= end * S and data.draw(st.integers(0, 3)) == 0]
            group = data.draw(st.permutations(due + early))
            left = [r for r in left if not any(r is g for g in group)]
            order += [
                *group,
                *(
                    Row(end * S, 0, {"k": k, "n": 0, "kind": 1, "wm": None})
                    for k in (["a", "b", None] if by else ["a"])
                ),
            ]
        script = data.draw(epochs(tuple(order), partitions=False))
        kind = Kind(StreamSpec(record=is_mark, by="k" if by else None, only=True, late="drop", reject=True))
        with marked_pond(kind.options) as pond:
            pond.sql(case.statement())
            for epoch in script:
                pond.epoch(epoch)
            assert sum(p.late + p.broken for p in pond.progress.partitions.values()) == 0
            answers.append(pond.answers(case))
    expected = evaluate(case, Table(tuple(taken), TYPES), 50 * S)
    assert_rows_equal(wanted([(s, e, *items) for s, e, items, _ in expected]), answers[0])
    assert_rows_equal(answers[0], answers[1])


def test_t17_a_mark_for_one_address_releases_only_its_count() -> None:
    """The stream of Fig 2-1, its address as `k`: p1 ends one address, p3 the day."""

    def row(time: int, k: str | None, kind: int = 0) -> Row:
        return Row(time * S, 0, {"k": k, "n": 1, "kind": kind, "wm": None})

    kind = Kind(StreamSpec(record=is_mark, by="k", only=True))
    case = Case(GROUPED, 60 * S, 60 * S, group_by=("k",))
    midnight = 86_400
    seen = [row(midnight - 37, "202"), row(midnight - 120, "10"), row(midnight - 7, "10"), row(midnight - 5, "202")]
    with marked_pond(kind.options) as pond:
        pond.sql(case.statement())
        pond.epoch(Epoch((Item((*seen, row(midnight, "202", 1))),)))
        minute = (("time", (midnight - 60) * S), ("time", midnight * S))
        assert pond.answers(case) == [(*minute, "202", 2, 2)]
        pond.epoch(Epoch((Item((row(midnight, None, 1), row(midnight + 23, "10"), row(midnight + 53, "10"))),)))
        before = (("time", (midnight - 120) * S), ("time", (midnight - 60) * S))
        assert sorted(pond.answers(case)) == sorted(
            [(*minute, "202", 2, 2), (*before, "10", 1, 1), (*minute, "10", 1, 1)]
        )


def test_groups_beyond_the_limit_wait_for_the_stream() -> None:
    kind = Kind(StreamSpec(record=is_mark, by="k", only=True))
    case = replace(Case(GROUPED, 10 * S, 10 * S, group_by=("k",)))
    values = {"n": 1, "wm": None}
    data = [Row(S, 0, {"k": k, "kind": 0, **values}) for k in "ab"]
    said = [Row(10 * S, 0, {"k": k, "kind": 1, **values}) for k in "ab"]
    everybody = Row(10 * S, 0, {"k": None, "kind": 1, **values})
    with marked_pond(kind.options + ", marks_groups=1") as pond:
        pond.sql(case.statement())
        pond.epoch(Epoch((Item((*data, *said)),)))
        assert [r[2] for r in pond.answers(case)] == ["a"]
        pond.epoch(Epoch((Item((everybody,)),)))
        assert sorted(r[2] for r in pond.answers(case)) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "held"),
    [
        ("marks='record:k = ''end'''", "s (the first mark)"),
        ("marks='record:k = ''end''', marks_by='k'", "s (the first mark about all rows)"),
        ("lateness='auto'", "s (rows to estimate by)"),
        ("ordered=true", "s to reach 2026-03-01 09:00:00"),
    ],
)
def test_what_is_waited_for_is_said(inline_pond: Any, options: str, held: str) -> None:
    """Before a source has announced anything, too; windows that grow end like others, from their landmark on."""
    pond = inline_pond()
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP, k TEXT) WITH (event_time='ts', {options});
        CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE ALL SLIDE 1 HOUR];
        CREATE QUERY d AS SELECT count(*) AS n FROM s [RANGE ALL SINCE TIMESTAMP '2026-03-02 00:00' SLIDE 1 HOUR]
    """)
    pond.ingest("s", [{"ts": "2026-03-01 08:10:00", "k": "row"}])
    pond.drain()
    told = {r["name"]: r["waiting_for"] for r in pond.sql("SHOW WATERMARKS").table.to_pylist() if r["kind"] == "query"}
    assert told == {"q": held, "d": held.replace("2026-03-01 09", "2026-03-02 01")}


@pytest.mark.parametrize(
    ("lateness", "problem"),
    [("-1 rows", "no number of rows"), ("1.5 rows", "no number of rows"), ("p100", "no percentile")],
)
def test_a_lateness_that_is_none_is_told(inline_pond: Any, lateness: str, problem: str) -> None:
    with pytest.raises(StatementError, match=problem):
        inline_pond().sql(f"CREATE STREAM s (ts TIMESTAMP) WITH (event_time='ts', lateness='{lateness}')")


@given(st.data())
def test_windows_that_end_with_rows_are_released_group_by_group(data: st.DataObject) -> None:
    """What is out after each epoch: windows of a group that end below its own bound, made of all that has come."""
    kind = data.draw(kinds(grouped=True, late="revise"))
    kind = replace(kind, spec=replace(kind.spec, reject=False))
    script, size = Script(kind.spec, data.draw(epochs(data.draw(rows())))), data.draw(st.integers(1, 3))
    came: list[Row] = []
    with marked_pond(kind.options) as pond:
        pond.sql(f"CREATE QUERY q AS SELECT k, sum(n) AS n FROM s [PARTITION BY k ROWS {size} SLIDE 1] GROUP BY k")
        for epoch in script.epochs:
            if data.draw(st.integers(0, 4)) == 0:
                pond.restart()
            pond.epoch(epoch)
            came += [r for item in epoch.items for r in item.rows if kind.spec.record is None or not is_mark(r)]
            expected = []
            for group in ("a", "b", None):
                own = sorted((r for r in came if r.values["k"] == group), key=lambda r: r.time)
                bound = pond.progress.bound if group is None else pond.progress.bound_of(group)
                for at, row in enumerate(own):
                    if row.time < bound:
                        total = sum(r.values["n"] for r in own[max(0, at + 1 - size) : at + 1])
                        expected.append((row.time, group, total))
            got = pond.rows("SELECT epoch_us(window_end), k, n::BIGINT FROM q")
            assert sorted(got, key=str) == sorted(expected, key=str), kind.options
