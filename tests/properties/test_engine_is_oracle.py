"""The engine gives what the definitions give: final answers, the log of revisions, what is dropped, what is closed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Case, Epoch, Script, StreamSpec, assert_rows_equal, latest, revisions, window_ends
from tests.oracle.case import span
from tests.oracle.revisions import final_answers
from tests.properties.harness import floor, options, pond, wanted
from tests.properties.queries import EXACT, NAN_SAFE, cases
from tests.properties.streams import TYPES, Drawn, cuts, streams


@given(st.data())
def test_final_answers(data: st.DataObject) -> None:
    stream = data.draw(streams())
    queries = data.draw(st.lists(cases(stream.unit), min_size=1, max_size=3))
    epochs = data.draw(cuts(stream.rows))
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 10)))) as p:
        for i, case in enumerate(queries):
            p.sql(case.statement(f"q{i}"))
        # Whatever is not too late for a query (its state is kept for a day at least) is in its final answers.
        kept = all(stream.disorder < max(86_400_000_000, 10 * (c.range_us or 0)) for c in queries)
        p.feed(epochs)
        p.finish()
        for i, case in enumerate(queries):
            if kept:
                expected = wanted(final_answers(case, stream.table))
                assert_rows_equal(expected, p.answers(case, f"q{i}"), floor=floor(stream.rows), what=case.query())


@given(st.data())
def test_not_a_number(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=12, nan=True, gaps=False))
    case = data.draw(cases(stream.unit, NAN_SAFE, extra=False))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(stream.rows)))
        p.finish()
        expected = wanted(final_answers(case, stream.table))
        assert_rows_equal(expected, p.answers(case), floor=floor(stream.rows), what=case.query())


def _log(case: Case, stream: Drawn, epochs: tuple[Epoch, ...], spec: StreamSpec, late: str) -> None:
    """Feed epoch by epoch; after each, the log so far and what is shown must be the oracle's."""
    ended = (*epochs, Epoch((), ended=True))
    log = revisions(case, TYPES, Script(spec, ended))
    allowed = floor(stream.rows)
    with pond(options(lateness=spec.lateness, late=late)) as p:
        p.sql(case.statement())
        for number, epoch in enumerate(ended):
            if epoch.ended:
                p.finish()
            else:
                p.epoch(epoch)
            so_far = [r for r in log if r.epoch <= number]
            what = f"epoch {number} of {case.query()}"
            assert_rows_equal(wanted(latest(so_far)), p.answers(case), floor=allowed, what=what)
        expected = wanted([(r.start, r.end, r.revision, r.op, *r.items) for r in log if r.op == "+"])
        got = p.log(case)
        assert_rows_equal(expected, [r for r in got if r[3] == "+"], floor=allowed, what=f"log of {case.query()}")
        vanished = [(("time", r.start), ("time", r.end), r.revision, r.op) for r in log if r.op == "-"]
        assert_rows_equal(vanished, [r[:4] for r in got if r[3] != "+"], what=f"vanished rows of {case.query()}")


@given(st.data())
def test_revisions(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    # A revision is about exact values: sums of floats may differ in the last digit when parts are added otherwise.
    case = data.draw(cases(stream.unit, EXACT, extra=False))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)))
    _log(case, stream, data.draw(cuts(stream.rows)), spec, "revise")


@given(st.data())
def test_dropped_rows(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(cases(stream.unit))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late="drop")
    _log(case, stream, data.draw(cuts(stream.rows)), spec, "drop")


@given(st.data())
def test_late_rows_are_told_apart(data: st.DataObject) -> None:
    from tests.oracle import trace

    stream = data.draw(streams(max_rows=16))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late="drop")
    epochs = data.draw(cuts(stream.rows))
    late = [row for step in trace(Script(spec, epochs)) for row in step.late]
    with pond(options(lateness=spec.lateness, late="drop")) as p:
        p.feed(epochs)
        got = p.rows("SELECT ts, k, n FROM late(s)")
        assert_rows_equal([(("time", r.time), r.values["k"], r.values["n"]) for r in late], got)
        kept = p.rows("SELECT count(*) FROM s")
        assert kept == [(len(stream.rows),)]  # late rows are archived all the same


@given(st.data())
def test_empty_windows_are_reported_where_asked(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=8, gaps=False))
    case = data.draw(cases(stream.unit, limits=False))
    case = replace(case, group_by=(), select=("count(*) AS c0", "sum(g) AS c1"), having=None, empty="report")
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(stream.rows)))
        # Progress is 60 units behind the last row: give it a row far enough on to close all windows with data.
        high = max(r.time for r in stream.rows)
        last = replace(stream.rows[0], time=high + 200 * stream.unit, values={**stream.rows[0].values, "g": 1})
        p.ingest([last])
        p.settle()
        table = replace(stream.table, rows=(*stream.rows, replace(last, intake=len(stream.rows))))
        expected = final_answers(case, table, until=last.time - 60 * stream.unit)
        assert_rows_equal(wanted(expected), p.answers(case), what=case.query())


@given(st.data())
def test_groups_seen_lately_are_reported_where_asked(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=8, gaps=False))
    drawn = data.draw(cases(stream.unit, limits=False))
    case = replace(
        drawn,
        group_by=("k",),
        select=("k AS c0", "count(*) AS c1", "sum(g) AS c2"),
        where=None,
        having=None,
        empty="report",
    )
    size = case.range_us or 0
    with pond(options(lateness=60 * stream.unit)) as p:
        known = f"empty='report', known_for='{span(size).lower()}'"
        p.sql(case.statement().replace("empty='report'", known))
        p.feed(data.draw(cuts(stream.rows)))
        last = replace(stream.rows[0], time=max(r.time for r in stream.rows) + 200 * stream.unit)
        p.ingest([last])
        p.settle()
        bound = last.time - 60 * stream.unit
        # A group is there for a window if it has a row in the window or within the RANGE before it.
        expected = []
        for end in window_ends(replace(case, range_us=2 * size, origin_us=case.effective_origin, align_start=False),
                               [r.time for r in stream.rows]):  # fmt: skip
            near = [r for r in stream.rows if end - 2 * size <= r.time < end]
            inside = [r for r in near if r.time >= end - size]
            for key in {r.values["k"] for r in near}:
                sums = [r.values["g"] for r in inside if r.values["k"] == key and r.values["g"] is not None]
                count = sum(1 for r in inside if r.values["k"] == key)
                if end <= bound:
                    expected.append((end - size, end, key, count, sum(sums) if sums else None))
        assert_rows_equal(wanted(expected), p.answers(case), what=case.query())
