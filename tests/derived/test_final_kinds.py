"""revisions='final' over windows that end with rows, and over relations: each answer once, the right one."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import assert_rows_equal
from tests.oracle.case import span
from tests.oracle.row_windows import row_answers
from tests.properties.harness import floor, options, pond, wanted
from tests.properties.queries import EXACT
from tests.properties.streams import cuts, streams
from tests.properties.test_early import _timed
from tests.properties.windows_of_rows import row_cases
from tests.quick import quick_folder
from tests.relations.setting import WINDOWS
from tests.relations.shapes import ONE, TWO
from tests.relations.shapes import millpond as text_of
from tests.relations.test_early import FEW, Setting, batch, reports


@given(st.data())
def test_windows_that_end_with_rows(data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=16, gaps=False))
    case = data.draw(row_cases(stream.unit, EXACT, extra=False))
    # A key of the partition is a column of the answer only where the SELECT list says so.
    more = f"revisions='final', beyond='drop', revise_for='{span(stream.disorder + 1).lower()}'"
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 5))), compact_files=2) as p:
        p.sql(f"CREATE STREAM x AS {case.query()} WITH ({more})")
        p.sql(
            f"CREATE QUERY plain WITH (beyond='drop', revise_for='{span(stream.disorder + 1).lower()}')"
            f" AS {case.query()}"
        )
        for epoch in _timed(data, data.draw(cuts(stream.rows))):
            p.epoch(epoch)
            if data.draw(st.booleans()):
                p.restart()
        p.finish()
        items = ", ".join(f"c{i}" for i in range(len(case.case.select)))
        got = p.rows(f"SELECT window_start, window_end, window_number, {items} FROM x")
        expected = wanted(row_answers(case, stream.table))
        assert_rows_equal(expected, got, floor=floor(stream.rows), what=case.query())


#: What an epoch takes, by stream.
taken = st.lists(st.dictionaries(st.sampled_from("su"), batch, max_size=2), max_size=7)


@given(data=st.data())
@settings(max_examples=FEW * 2)
def test_relations(data: Any) -> None:
    count = data.draw(st.integers(1, 2))
    shape = data.draw(st.sampled_from(ONE if count == 1 else TWO))
    operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM"]))
    windows = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=count, max_size=count))
    with quick_folder() as folder:
        own = Setting(folder / "x", data.draw(st.sampled_from(["", ", lateness='2 us'", ", idle='5 s'"])))
        try:
            text = text_of(shape, operator, *windows)
            own.pond.sql(f"CREATE STREAM x AS {text} WITH (revisions='final', beyond='drop', revise_for='12 us')")
            for given in data.draw(taken):
                own.take(given)
                own.clock.advance(data.draw(st.sampled_from([0, 6_000_000])))
                own.pond.step()
                if data.draw(st.integers(0, 4)) == 0:
                    own.restart()
            own.pond.drain(final=True)
            got: Counter[Any] = Counter()
            for at, *row in own.pond.sql("SELECT * FROM x").rows():
                got[int((at - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1)), tuple(row)] += 1
            assert got == reports(shape, operator, windows, own.rows, 30), text
        finally:
            own.pond.close()
