"""INVOKE and ad hoc SELECT against the definitions, at any moment of the stream."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import assert_rows_equal, invoke
from tests.oracle.evaluate import over
from tests.oracle.revisions import final_answers
from tests.properties.harness import floor, options, pond, wanted
from tests.properties.queries import cases
from tests.properties.streams import cuts, streams


@given(st.data())
def test_invoke_at_any_moment(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(cases(stream.unit, limits=False, extra=False))
    epochs = data.draw(cuts(stream.rows))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement())
        fed = 0
        for epoch in epochs:
            p.epoch(epoch)
            fed += len(epoch.rows)
            expected = invoke(case, stream.table.only(stream.rows[:fed]))
            result = p.sql("INVOKE q").table
            assert result is not None
            got = _list(result, len(case.select))
            assert_rows_equal(expected, got, floor=floor(stream.rows), what=f"INVOKE after {fed} rows: {case.query()}")


@given(st.data())
def test_invoke_as_of_any_moment(data: st.DataObject) -> None:
    from millpond.testing.streams import timestamp_text as timestamp

    stream = data.draw(streams(max_rows=16))
    case = data.draw(cases(stream.unit, limits=False, extra=False))
    with pond(options(lateness=60 * stream.unit)) as p:
        p.sql(case.statement())
        p.feed(data.draw(cuts(stream.rows)))
        for _ in range(3):
            now = data.draw(st.sampled_from(stream.rows)).time + data.draw(st.integers(-1, 1)) * stream.unit
            now = min(now, max(r.time for r in stream.rows))
            table = p.sql(f"INVOKE q AS OF TIMESTAMP '{timestamp(now)}'").table
            assert table is not None
            expected = invoke(case, stream.table, now)
            assert_rows_equal(expected, _list(table, len(case.select)), floor=floor(stream.rows), what=case.query())


def _list(table: pa.Table, width: int) -> list[tuple[object, ...]]:
    """The SELECT list of an invocation's answer: its columns are named c0, c1, …"""
    from tests.properties.harness import table_rows

    return table_rows(table.select([f"c{i}" for i in range(width)]))


@given(st.data())
def test_ad_hoc_windows_over_a_finished_stream(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(cases(stream.unit))
    with pond(options(lateness=stream.unit)) as p:
        p.feed(data.draw(cuts(stream.rows)))
        p.finish()
        table = p.sql(case.query()).table
        assert table is not None
        from tests.properties.harness import table_rows

        names = ["window_start", "window_end", *(f"c{i}" for i in range(len(case.select)))]
        expected = wanted(final_answers(case, stream.table))
        assert_rows_equal(expected, table_rows(table.select(names)), floor=floor(stream.rows), what=case.query())


@given(st.data())
def test_ad_hoc_without_window(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16))
    case = data.draw(cases(stream.unit, extra=False)).without_window()
    epochs = data.draw(cuts(stream.rows))
    with pond(options(lateness=stream.unit)) as p:
        fed = 0
        for epoch in epochs:
            p.epoch(epoch)
            fed += len(epoch.rows)
            expected = [items for items, _ in over(case, stream.table, stream.rows[:fed], 0, 0)]
            got = p.rows(case.query())
            assert_rows_equal(expected, got, floor=floor(stream.rows), what=case.query())
