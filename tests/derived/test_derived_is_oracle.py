"""Two stages give what the definitions give one after the other: whatever the disorder, the cuts and the restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Case, Epoch, Row, Script, StreamSpec, assert_rows_equal, revisions
from tests.oracle.derived import answer_rows, log_rows, stream_table
from tests.oracle.revisions import final_answers
from tests.properties.harness import Pond, options, pond, wanted
from tests.properties.streams import TYPES, Drawn, cuts, streams

NAMES = ("k", "c", "t", "lo")
FIRST = Case(("k", "count(*) AS c", "sum(n) AS t", "min(g) AS lo"), group_by=("k",))
KINDS = {"k": "VARCHAR", "c": "BIGINT", "t": "HUGEINT", "lo": "INTEGER"}
LOG_KINDS = KINDS | {"revision": "BIGINT", "op": "VARCHAR"}

SECOND = (
    ("sum(c) AS a", "max(t) AS b", "count(*) AS n"),
    ("sum(c) AS a", "list(k) AS ks", "last(lo) AS l"),
    ("count(DISTINCT k) AS a", "sum(t) FILTER (WHERE c > 1) AS b"),
)


@st.composite
def pipelines(draw: st.DrawFn, unit: int) -> tuple[Case, Case]:
    """A query over `s`, and one over the stream `x` of its answers."""
    slide = unit * draw(st.integers(1, 6))
    having = draw(st.sampled_from([None, None, "count(*) > 1"]))
    where = draw(st.sampled_from([None, None, "g IS NOT NULL"]))
    first = replace(
        FIRST, range_us=slide * draw(st.integers(1, 3)), slide_us=slide, having=having, where=where,
        origin_us=draw(st.sampled_from([0, 0, unit])),
    )  # fmt: skip
    step = slide * draw(st.integers(1, 3))
    grouped = draw(st.booleans())
    items = draw(st.sampled_from(SECOND))
    second = Case(
        ("k", *items) if grouped else items, range_us=step * draw(st.integers(1, 2)), slide_us=step, stream="x",
        group_by=("k",) if grouped else (), origin_us=draw(st.sampled_from([0, 1])),
    )  # fmt: skip
    return first, second


def derive(p: Pond, first: Case, second: Case, revisions_: str = "forward", more: str = "") -> None:
    """Make the stream of answers and the query over it."""
    p.sql(f"CREATE STREAM x AS {first.query()} WITH (revisions='{revisions_}'{more})")
    p.sql(second.statement())


def answers(p: Pond, case: Case, name: str = "q") -> list[tuple[Any, ...]]:
    """The latest answers of the second query."""
    return p.rows(f"SELECT * EXCLUDE (revision) FROM {name}") if case.select else []


def feed(p: Pond, epochs: Sequence[Epoch], restarts: Sequence[int] = (), drains: Sequence[int] = ()) -> None:
    """Run epochs; sometimes the stages after them run at once, sometimes they pile up; sometimes the pond restarts."""
    for number, epoch in enumerate(epochs):
        if number in restarts:
            p.restart()
        p.epoch(epoch)
        if number in drains:
            p.sql("DRAIN")
    p.finish()


some = st.sets(st.integers(0, 4), max_size=3)


@given(st.data())
def test_in_time(data: st.DataObject) -> None:
    """Without late rows there are first answers only: the definition applied twice."""
    stream = data.draw(streams(gaps=False))
    first, second = data.draw(pipelines(stream.unit))
    kind = data.draw(st.sampled_from(["forward", "ignore", "final"]))
    with pond(options(lateness=60 * stream.unit)) as p:
        derive(p, first, second, kind)
        feed(p, data.draw(cuts(stream.rows)), data.draw(some), data.draw(some))
        rows = answer_rows(first, NAMES, stream.table)
        shown = [(("time", r.values["window_start"]), ("time", r.time), *(r.values[n] for n in NAMES)) for r in rows]
        got = p.rows(f"SELECT window_start, window_end, {', '.join(NAMES)} FROM x")
        assert_rows_equal(shown, got, what=first.query())
        expected = wanted(final_answers(second, stream_table(rows, KINDS)))
        assert_rows_equal(expected, answers(p, second), what=f"{first.query()} / {second.query()}")


@given(st.data())
def test_final_answers_whatever_comes_late(data: st.DataObject) -> None:
    """revisions='final': late rows change nothing behind the stream, since it waits for them."""
    stream = data.draw(streams(max_rows=16, gaps=False))
    first, second = data.draw(pipelines(stream.unit))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 5)))) as p:
        derive(p, first, second, "final", f", revise_for='{stream.disorder + 1} microseconds'")
        feed(p, data.draw(cuts(stream.rows)), data.draw(some), data.draw(some))
        rows = answer_rows(first, NAMES, stream.table)
        expected = wanted(final_answers(second, stream_table(rows, KINDS)))
        assert_rows_equal(expected, answers(p, second), what=f"{first.query()} / {second.query()}")


@given(st.data())
def test_revisions_that_are_passed_on(data: st.DataObject) -> None:
    """'forward': the stream is the log of its query; 'ignore': the first answers of it."""
    stream = data.draw(streams(max_rows=14, gaps=False))
    first, second = data.draw(pipelines(stream.unit))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 4)))
    epochs = (*data.draw(cuts(stream.rows)), Epoch((), ended=True))
    log = revisions(first, TYPES, Script(spec, epochs))
    only = data.draw(st.booleans())
    rows = log_rows(log, NAMES, first_only=only)
    with pond(options(lateness=spec.lateness)) as p:
        derive(p, first, second, "ignore" if only else "forward")
        feed(p, epochs[:-1], data.draw(some), data.draw(some))
        columns = (*NAMES, *(() if only else ("revision", "op")))
        # Whatever a vanished row showed last: the oracle and the engine agree on that.
        shown = [(("time", r.values["window_start"]), ("time", r.time), *(r.values[n] for n in columns)) for r in rows]
        got = p.rows(f"SELECT window_start, window_end, {', '.join(columns)} FROM x")
        assert_rows_equal(shown, got, what=first.query())
        expected = wanted(final_answers(second, stream_table(rows, KINDS if only else LOG_KINDS)))
        assert_rows_equal(expected, answers(p, second), what=f"{first.query()} / {second.query()}")


@st.composite
def row_cases(draw: st.DrawFn, unit: int) -> tuple[Case, str]:
    """A window query over `s` with a condition, and that condition."""
    where = draw(st.sampled_from(["n > 0", "k = 'a' OR g IS NULL", "b"]))
    slide = unit * draw(st.integers(1, 6))
    items = draw(st.sampled_from([("count(*) AS a", "sum(n) AS b"), ("list(n) AS a", "max(d) AS b")]))
    by_g = draw(st.booleans())
    case = Case(
        ("g", *items) if by_g else items, range_us=slide * draw(st.integers(1, 3)), slide_us=slide, where=where,
        group_by=("g",) if by_g else (),
    )  # fmt: skip
    return case, where


def _filtered(p: Pond, case: Case, where: str, stream: str = "f") -> Case:
    """The stream of the rows that pass, a query over it, and the same query over `s` beside it."""
    p.sql(f"CREATE STREAM {stream} AS SELECT g, n, ts, d FROM s WHERE {where}")
    over = replace(case, stream=stream, where=None)
    p.sql(over.statement("over_f"))
    p.sql(case.statement("over_s"))
    return over


@given(st.data())
def test_a_filter_hands_on_rows_and_lateness(data: st.DataObject) -> None:
    """A query over the rows that pass has the log of the same query with the condition, late rows and all."""
    stream = data.draw(streams(max_rows=16, gaps=False))
    case, where = data.draw(row_cases(stream.unit))
    late = data.draw(st.sampled_from(["revise", "drop"]))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 4)), late=late)) as p:
        _filtered(p, case, where)
        epochs = data.draw(cuts(stream.rows))
        # Where late rows are dropped each epoch has its own in the stream of rows, however they pile up.
        drains = data.draw(some) if late == "drop" else range(9)
        feed(p, epochs, data.draw(some), drains)
        everything = "SELECT * FROM {} ALL REVISIONS ORDER BY ALL"
        assert_rows_equal(p.rows(everything.format("over_s")), p.rows(everything.format("over_f")), what=case.query())
        assert p.rows("SELECT ts FROM late(f) ORDER BY ts") == p.rows(
            f"SELECT ts FROM (SELECT * FROM late(s)) WHERE {where} ORDER BY ts"
        )


@given(st.data())
def test_attached_later(data: st.DataObject) -> None:
    """A stream made later with its past, a query attached later: as if they had been there all along."""
    stream = data.draw(streams(max_rows=20, gaps=False))
    first, second = data.draw(pipelines(stream.unit))
    case, where = data.draw(row_cases(stream.unit))
    epochs = data.draw(cuts(stream.rows))
    when, attach = data.draw(st.integers(0, len(epochs))), data.draw(st.integers(0, len(epochs)))
    restarts = data.draw(some)
    with pond(options(lateness=60 * stream.unit)) as p:
        for number in range(len(epochs) + 1):
            if number == when:
                p.sql(f"CREATE STREAM x AS {first.query()} WITH (since='start')")
                p.sql(f"CREATE STREAM f AS SELECT * FROM s WHERE {where} WITH (since='start')")
            if number in restarts:
                p.restart()
            if number == max(when, attach):
                p.sql(second.statement("q", since="start"))
                p.sql(replace(case, stream="f", where=None).statement("over_f", since="start"))
                p.sql(case.statement("over_s", since="start"))
            if number < len(epochs):
                p.epoch(epochs[number])
        p.finish()
        rows = answer_rows(first, NAMES, stream.table)
        expected = wanted(final_answers(second, stream_table(rows, KINDS)))
        assert_rows_equal(expected, answers(p, second), what=f"{first.query()} / {second.query()}")
        assert_rows_equal(
            p.rows("SELECT * EXCLUDE (revision) FROM over_s"), p.rows("SELECT * EXCLUDE (revision) FROM over_f")
        )
        assert p.rows("SELECT * EXCLUDE (b) FROM f") == p.rows(f"SELECT * EXCLUDE (b) FROM s WHERE {where}")


@given(st.data())
def test_chains(data: st.DataObject) -> None:
    """Four stages: rows, answers, rows of answers, answers of these."""
    stream = data.draw(streams(max_rows=20, gaps=False))
    first, second = data.draw(pipelines(stream.unit))
    first = replace(first, stream="f", where=None)
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql("CREATE STREAM f AS SELECT * FROM s WHERE n IS NOT NULL")
        p.sql(f"CREATE STREAM x0 AS {first.query()}")
        p.sql("CREATE STREAM x AS SELECT * FROM x0 WHERE c > 1")
        p.sql(second.statement())
        feed(p, data.draw(cuts(stream.rows)), data.draw(some), data.draw(some))
        passing = tuple(r for r in stream.rows if r.values["n"] is not None)
        rows = [r for r in answer_rows(first, NAMES, stream.table.only(passing)) if r.values["c"] > 1]
        expected = wanted(final_answers(second, stream_table(rows, KINDS)))
        assert_rows_equal(expected, answers(p, second), what=f"{first.query()} / {second.query()}")


def test_the_cases_are_worth_their_name() -> None:
    """One drawn pipeline by hand, so that the tests above cannot all pass on nothing."""
    rows = tuple(Row(i * 1_000_000, i, dict.fromkeys(TYPES) | {"k": "ab"[i % 2], "n": i}) for i in range(12))
    drawn = Drawn(rows, 1_000_000, 0)
    first = replace(FIRST, range_us=2_000_000, slide_us=2_000_000)
    second = Case(("sum(c) AS a", "list(k) AS ks"), range_us=4_000_000, slide_us=4_000_000, stream="x")
    found = final_answers(second, stream_table(answer_rows(first, NAMES, drawn.table), KINDS))
    assert found[0] == (0, 4_000_000, 2, ["a", "b"])
    assert found[1] == (4_000_000, 8_000_000, 4, ["a", "b", "a", "b"])
