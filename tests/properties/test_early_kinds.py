"""Final answers are the same with and without `early`, whatever the kind of window, the lateness and the disorder.

Every kind beside those that `test_early`, `test_early_rows` and `tests.relations.test_early` look at: windows that
grow, several in one SELECT, empty ones, groups with bounds of their own, unions, answers over answers.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import Case, Row, Script, assert_rows_equal
from tests.oracle.case import span
from tests.progress.ponds import epochs as marked_epochs
from tests.progress.ponds import kinds, marked_pond
from tests.progress.ponds import rows as marked_rows
from tests.progress.test_engine import case_of
from tests.progress.test_unions import FROMS, batches
from tests.progress.test_unions import streams as union_streams
from tests.properties.harness import Pond, floor, options, pond
from tests.properties.landmarks import hourly_streams, landmark_cases
from tests.properties.queries import BOUNDED, HOLISTIC, cases
from tests.properties.streams import Drawn, cuts, streams
from tests.properties.test_early import _disturb, _timed
from tests.properties.test_several_windows import several

S = 1_000_000
FEWER = settings(max_examples=max(5, settings.default.max_examples // 2))


def _same(data: st.DataObject, stream: Drawn, case: Case, kept: int | None = None, more: str = "") -> None:
    """Run a query with and without `early` over a stream: in the end they say the same, and all of it is final."""
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 30))), compact_files=2) as p:
        keep = more + ("" if kept is None else f", beyond='drop', revise_for='{span(kept).lower()}'")
        p.sql(f"CREATE QUERY q WITH (early='10s'{keep}) AS {case.query()}")
        p.sql(f"CREATE QUERY plain WITH ({keep.removeprefix(', ')}) AS {case.query()}" if keep else
              f"CREATE QUERY plain AS {case.query()}")  # fmt: skip
        for epoch in _timed(data, data.draw(cuts(stream.rows))):
            p.epoch(epoch)
            _disturb(data, p)
        p.finish()
        _agree(p, case, stream)


def _agree(p: Pond, case: Case, stream: Drawn) -> None:
    expected = p.answers(case, "plain")
    assert_rows_equal(expected, p.answers(case), floor=floor(stream.rows), what=case.query())
    assert_rows_equal(expected, p.answers(case, "q FINAL"), floor=floor(stream.rows), what=case.query())
    assert_rows_equal(expected, p.answers(case, "plain FINAL"), floor=floor(stream.rows), what=case.query())
    assert p.rows("SELECT DISTINCT status FROM q") in ([("closed",)], [])


@FEWER
@given(st.data())
def test_windows_that_grow(data: st.DataObject) -> None:
    stream = data.draw(st.one_of(streams(max_rows=14, gaps=False), hourly_streams()))
    _same(data, stream, data.draw(landmark_cases(stream)), stream.unit * 100)


@FEWER
@given(st.data())
def test_several_windows(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    _same(data, stream, data.draw(several(stream)))


@FEWER
@given(st.data())
def test_empty_windows(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=12, gaps=False))
    case = data.draw(cases(stream.unit, BOUNDED + HOLISTIC, limits=False, extra=False))
    _same(data, stream, case, more=", empty='report'")


@FEWER
@given(st.data())
def test_groups_with_bounds_of_their_own(data: st.DataObject) -> None:
    kind, case = data.draw(kinds(grouped=True, late="revise")), case_of(data, grouped=True)
    script = Script(kind.spec, data.draw(marked_epochs(data.draw(marked_rows()))))
    with marked_pond(kind.options) as p:
        p.sql(f"{case.statement()} WITH (early='2s'); {case.statement('plain')}")
        for epoch in script.epochs:
            if data.draw(st.integers(0, 4)) == 0:
                p.restart()
            p.epoch(epoch)
        p.pond.drain(final=True)
        expected = p.answers(case, "plain")
        assert_rows_equal(expected, p.answers(case), what=f"{kind.options}: {case.query()}")
        assert_rows_equal(expected, p.answers(case, "q FINAL"), what=f"{kind.options}: {case.query()}")
        assert p.rows("SELECT DISTINCT status FROM q") in ([("closed",)], [])


@FEWER
@given(st.data())
def test_unions(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([2, 5, 10]))
    slide = data.draw(st.sampled_from([size, 2, 3]))
    text = (
        f"SELECT k, count(*) AS n, sum(n) AS t FROM {data.draw(st.sampled_from(FROMS))}"
        f" [RANGE {size} SECONDS SLIDE {slide} SECONDS] GROUP BY k"
    )
    idle = data.draw(st.sampled_from(["", ", idle='10s'"]))
    with union_streams(f", lateness='{data.draw(st.integers(0, 9))}s'{idle}") as s:
        s.pond.sql(f"CREATE QUERY q WITH (early='10s') AS {text}; CREATE QUERY plain AS {text}")
        for number, (stream, values) in enumerate(data.draw(batches)):
            s.ingest(stream, [Row(t * S, 100 * number + i, {"k": k, "n": n}) for i, (t, k, n) in enumerate(values)])
            s.clock.advance(data.draw(st.sampled_from([0, 4, 12])) * S)
            if data.draw(st.booleans()):
                s.pond.step()
            if data.draw(st.integers(0, 5)) == 0:
                s.restart()
        s.pond.drain(final=True)
        shown = "SELECT window_start, window_end, k, n, t FROM"
        expected = s.rows(f"{shown} plain")
        assert_rows_equal(expected, s.rows(f"{shown} q"), what=text)
        assert_rows_equal(expected, s.rows(f"{shown} q FINAL"), what=text)
        assert s.rows("SELECT DISTINCT status FROM q") in ([("closed",)], [])


@FEWER
@given(st.data())
def test_answers_over_answers(data: st.DataObject) -> None:
    """Queries over derived streams, of answers and of rows, with early answers of their own."""
    stream = data.draw(streams(max_rows=16, gaps=False))
    slide = stream.unit * data.draw(st.integers(1, 6))
    kind = data.draw(st.sampled_from(["forward", "ignore", "final"]))
    window = f"[RANGE {span(slide * 2)} SLIDE {span(slide)}]"
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 5))), compact_files=2) as p:
        p.sql(f"CREATE STREAM x AS SELECT k, count(*) AS c FROM s {window} GROUP BY k WITH (revisions='{kind}')")
        p.sql("CREATE STREAM f AS SELECT ts, k, n FROM s WHERE n IS NOT NULL")
        texts: dict[str, Any] = {
            "x": f"SELECT k, sum(c) AS c, max(c) AS m FROM x [RANGE TUMBLING {span(slide * 3)}] GROUP BY k",
            "f": f"SELECT k, count(*) AS c FROM f [RANGE TUMBLING {span(slide)}] GROUP BY k",
        }
        for name, text in texts.items():
            p.sql(f"CREATE QUERY early_{name} WITH (early='10s') AS {text}; CREATE QUERY plain_{name} AS {text}")
        for epoch in _timed(data, data.draw(cuts(stream.rows))):
            p.epoch(epoch)
            if data.draw(st.integers(0, 3)) == 0:
                p.restart()
        p.finish()
        for name in texts:
            expected = p.rows(f"SELECT * EXCLUDE (revision) FROM plain_{name} ORDER BY ALL")
            for shown in (f"early_{name}", f"early_{name} FINAL"):
                got = p.rows(f"SELECT * EXCLUDE (revision, status) FROM {shown} ORDER BY ALL")
                assert_rows_equal(expected, got, what=texts[name])
