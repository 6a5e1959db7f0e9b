"""Several windows in one SELECT, behind its aggregates: each has the value it has over the rows of its own window."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import Case, Epoch, Script, StreamSpec, assert_rows_equal, invoke, latest, revisions
from tests.oracle.case import span
from tests.oracle.revisions import final_answers
from tests.properties.harness import floor, options, pond, table_rows, wanted
from tests.properties.landmarks import hourly_streams, landmarks
from tests.properties.queries import BOUNDED, EXACT, HOLISTIC, ORDERED, cases
from tests.properties.streams import TYPES, Drawn, cuts, streams
from tests.quick import many

some_streams = st.one_of(streams(), hourly_streams())
FEWER = settings(max_examples=max(5, settings.default.max_examples // 2))


@st.composite
def several(draw: st.DrawFn, stream: Drawn, pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED) -> Case:
    """A query whose aggregates have windows of their own, some of them since landmarks."""
    drawn = draw(cases(stream.unit, pool, limits=False, extra=False))
    unit = stream.unit
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True))
    keys = set(drawn.group_by)
    ranges = [0 if i.rsplit(" AS ", 1)[0] in keys else draw(st.sampled_from(sizes)) * unit for i in drawn.select]
    slide = draw(st.sampled_from([1, 1, 2, 3, 5])) * unit
    made = replace(drawn, slide_us=slide, having=None, align_start=False)
    times = [row.time for row in stream.rows]
    dense = max(times) - min(times) <= 300 * unit  # windows that grow are reported on and on
    marks = draw(st.lists(landmarks(stream), max_size=2)) if dense else []
    sinces = [draw(st.sampled_from([None, *marks])) if size else None for size in ranges]
    if any(since is not None for since in sinces):
        ranges = [0 if since is not None else size for size, since in zip(ranges, sinces, strict=True)]
        made = replace(made, sinces=tuple(sinces), origin_us=0)
    return replace(made, range_us=max(ranges), ranges=tuple(ranges))


@many(0.5, 0.5, 5)
@given(st.data())
def test_final_answers(data: st.DataObject) -> None:
    """Live, back-filled and ad hoc."""
    stream = data.draw(some_streams)
    case = data.draw(several(stream))
    with pond(options(lateness=60 * stream.unit), compact_files=2) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(stream.rows)))
        p.sql(case.statement("later", since="start"))
        p.finish()
        p.settle()
        expected = wanted(final_answers(case, stream.table))
        names = ["window_start", "window_end", *(f"c{i}" for i in range(len(case.select)))]
        for got in (p.answers(case), p.answers(case, "later"), table_rows(p.sql(case.query()).table.select(names))):
            assert_rows_equal(expected, got, floor=floor(stream.rows), what=case.query())


@pytest.mark.parametrize("late", ["drop", "revise"])
@FEWER
@given(st.data())
def test_log(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=8, gaps=False))
    case = data.draw(several(stream, EXACT))
    kept = stream.unit * data.draw(st.integers(1, 60))
    spec = StreamSpec(lateness=stream.unit * data.draw(st.integers(0, 5)), late=late)
    ended = (*data.draw(cuts(stream.rows, max_epochs=4)), Epoch((), ended=True))
    log = revisions(case, TYPES, Script(spec, ended), kept)
    with pond(options(lateness=spec.lateness, late=late), compact_files=2) as p:
        p.sql(f"CREATE QUERY q WITH (beyond='drop', revise_for='{span(kept).lower()}') AS {case.query()}")
        for number, epoch in enumerate(ended):
            p.finish() if epoch.ended else p.epoch(epoch)
            so_far = wanted(latest([r for r in log if r.epoch <= number]))
            assert_rows_equal(so_far, p.answers(case), floor=floor(stream.rows), what=case.query())
            if data.draw(st.integers(0, 3)) == 0:
                p.restart()
        expected = wanted([(r.start, r.end, r.revision, r.op, *r.items) for r in log if r.op == "+"])
        got = [r for r in p.log(case) if r[3] == "+"]
        assert_rows_equal(expected, got, floor=floor(stream.rows), what=f"log of {case.query()}")


@FEWER
@given(st.data())
def test_invoke(data: st.DataObject) -> None:
    """Every aggregate over [NOW - its RANGE, NOW], closed at both ends, for the groups of the widest window."""
    stream = data.draw(streams(max_rows=16))
    case = data.draw(several(stream))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(stream.rows)))
        items = [f"c{i}" for i in range(len(case.select))]
        got = [tuple(r[len(r) - len(items) - 1 : -1]) for r in p.rows("INVOKE q")]
        assert_rows_equal(invoke(case, stream.table), got, floor=floor(stream.rows), what=case.query())
