"""Reduction functions that give intervals, run by run: the past as sums over intervals where they say so.

What it means: a row of a run is seen at the start of its interval, or at its own time where nothing may be left out. So
the answer is that of the same query over a stream whose rows carry these times; and windows that are called exact are
those of the stream as it is.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Table, assert_rows_equal
from tests.oracle.revisions import final_answers
from tests.properties.harness import floor, options, pond, table_rows, wanted
from tests.properties.queries import BOUNDED, cases
from tests.properties.streams import TYPES, cuts, streams
from tests.properties.test_summaries import declared

#: Aggregates that do not look at the time of a row.
TIMELESS = tuple(a for a in BOUNDED if "ts" not in a)


@given(st.data())
def test_rows_of_a_run_are_seen_at_the_start_of_its_interval(data: st.DataObject) -> None:
    stream = data.draw(streams(gaps=False))
    case = data.draw(cases(stream.unit, TIMELESS, limits=False, extra=False))
    finest = stream.unit * data.draw(st.sampled_from([1, 2, 3]))
    fine = replace(case, range_us=finest, slide_us=finest, origin_us=0, align_start=False)
    summary = replace(fine, having=None).query()
    archive = data.draw(st.sampled_from(["archive='plain'", declared(summary, False), declared(summary, True)]))
    answers = data.draw(st.lists(st.sampled_from([0, 1, 2, 4]), min_size=1, max_size=4))
    looks, standing = data.draw(st.booleans()), data.draw(st.booleans())
    said: list[tuple[int, int]] = []

    def function(run: Any) -> float | dt.timedelta:
        if looks:
            run.previous()
        interval = answers[len(said) % len(answers)] * finest
        said.append((run.low, interval))
        return dt.timedelta(microseconds=interval) if interval else 0.0

    def moved(time: int) -> int:
        interval = next((i for low, i in reversed(said) if low <= time), said[0][1] if said else 0)
        return time // interval * interval if interval else time

    text = case.query().replace(" FROM s ", " FROM s REDUCE mine() ", 1)
    names = ["window_start", "window_end", *(f"c{i}" for i in range(len(case.select)))]
    with pond(f"{options(lateness=stream.unit)}, {archive}") as p:
        for epoch in data.draw(cuts(stream.rows, max_epochs=6)):
            p.epoch(epoch)
            p.pond.maintain()
        p.finish()
        p.pond.register_reduction("mine", function)
        if standing:
            p.sql(f"CREATE QUERY q WITH (since = 'start') AS {text}")
            p.settle()
        table = p.sql("SELECT * FROM q" if standing else text).table
        assert table is not None
        times = tuple(replace(r, time=moved(r.time)) for r in stream.rows)
        expected = wanted(final_answers(case, Table(times, TYPES)))
        what = f"standing: {standing}, {text} with {archive}, {said}"
        assert_rows_equal(expected, table_rows(table.select(names)), floor=floor(stream.rows), what=what)
        sure = table_rows(table.filter(table["exact"]).select(names))
        windows = {row[:2] for row in sure}
        plain = [r for r in wanted(final_answers(case, Table(stream.rows, TYPES))) if r[:2] in windows]
        assert_rows_equal(plain, sure, floor=floor(stream.rows), what=f"exact, {what}")
