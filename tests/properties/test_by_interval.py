"""REDUCE BY INTERVAL: the past as sums over intervals, whatever summaries there are to give them.

What it means: a row of the archive is seen at the start of its interval. So the answer is that of the same query over a
stream whose rows carry these times, and it is exact where windows begin and end with intervals.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Table, assert_rows_equal
from tests.oracle.case import span
from tests.oracle.revisions import final_answers
from tests.properties.harness import floor, options, pond, table_rows, wanted
from tests.properties.queries import BOUNDED, cases
from tests.properties.streams import TYPES, cuts, streams
from tests.properties.test_summaries import declared, having_calls

EPOCH = dt.datetime(1970, 1, 1)

#: Aggregates that do not look at the time of a row.
TIMELESS = tuple(a for a in BOUNDED if "ts" not in a)


@given(st.data())
def test_rows_are_seen_at_the_start_of_their_interval(data: st.DataObject) -> None:
    stream = data.draw(streams(gaps=False))
    case = data.draw(cases(stream.unit, TIMELESS, limits=False, extra=False))
    interval = stream.unit * data.draw(st.sampled_from([1, 2, 3, 4, 6, 12]))
    divisor = data.draw(st.sampled_from([d for d in (1, 2, 3) if interval % d == 0]))
    fine = replace(case, range_us=interval // divisor, slide_us=interval // divisor, origin_us=0, align_start=False)
    summary = replace(fine, having=None, select=(*fine.select, *having_calls(case))).query()
    archive = data.draw(st.sampled_from(["archive='plain'", declared(summary, False), declared(summary, True)]))
    retention = f", retention='{span(stream.unit).lower()}'" if archive != "archive='plain'" else ""
    text = case.query().replace(" FROM s ", f" FROM s REDUCE BY INTERVAL '{span(interval).lower()}' ", 1)
    with pond(f"{options(lateness=stream.unit)}, {archive}{retention}") as p:
        for epoch in data.draw(cuts(stream.rows, max_epochs=6)):
            p.epoch(epoch)
            p.pond.maintain()
        p.finish()
        table = p.sql(text).table
        assert table is not None
        names = ["window_start", "window_end", *(f"c{i}" for i in range(len(case.select)))]
        moved = tuple(replace(r, time=r.time // interval * interval) for r in stream.rows)
        expected = wanted(final_answers(case, Table(moved, TYPES)))
        what = f"{text} with {archive}"
        assert_rows_equal(expected, table_rows(table.select(names)), floor=floor(stream.rows), what=what)
        for row in table.to_pylist():
            bounds = [(row[n] - EPOCH) // dt.timedelta(microseconds=1) for n in ("window_start", "window_end")]
            assert row["exact"] == all(b % interval == 0 for b in bounds)
