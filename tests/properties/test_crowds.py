"""Crowds: twenty random queries of one kind of window at once over one random stream, each with its own answer.

This is where `make test-deep` gets its ten thousand cases of each kind from: what a pond, a stream and its epochs cost
is paid once for all the queries, so that a case takes a tenth of what it takes alone. The queries share whatever
synopses agree; half of them come later and are filled from the archive; the pond is opened again on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.testing.streams import timestamp_text
from tests.oracle import Case, assert_rows_equal
from tests.oracle.case import span
from tests.oracle.cql import Query, Windowed
from tests.oracle.evaluate import over, seen
from tests.oracle.revisions import final_answers
from tests.oracle.row_windows import row_answers
from tests.properties.harness import Pond, floor, options, pond, wanted
from tests.properties.landmarks import landmark_cases
from tests.properties.queries import cases
from tests.properties.streams import Drawn, cuts, streams
from tests.properties.test_several_windows import several
from tests.properties.windows_of_rows import row_cases
from tests.quick import many, quick_folder
from tests.relations.shapes import ONE, naive
from tests.relations.shapes import millpond as text_of
from tests.relations.test_engine import AB, END, NAMED, Story, steps
from tests.windows.test_registered import Uneven

#: Queries at once. In deep mode 630 crowds make the ten thousand, although some queries come twice in one; a third of
#: those that may have several windows have one.
CROWD = 20
CROWD_OF_SEVERAL = 30
KEPT = 10**14
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Member:
    """A query of a crowd: its SELECT, its columns, what it must have answered in the end."""

    select: str
    columns: tuple[str, ...]
    expected: Callable[[], Rows]


def _times(case: Case) -> tuple[str, ...]:
    return ("window_start", "window_end", *(f"c{n}" for n in range(len(case.select))))


def _by_time(draw: Any, stream: Drawn) -> Member:
    case = draw(cases(stream.unit))
    return Member(case.query(), _times(case), lambda: wanted(final_answers(case, stream.table)))


def _landmark(draw: Any, stream: Drawn) -> Member:
    case = draw(landmark_cases(stream))
    return Member(case.query(), _times(case), lambda: wanted(final_answers(case, stream.table)))


def _several(draw: Any, stream: Drawn) -> Member:
    case = draw(several(stream))
    return Member(case.query(), _times(case), lambda: wanted(final_answers(case, stream.table)))


def _rows(form: str) -> Callable[[Any, Drawn], Member]:
    def member(draw: Any, stream: Drawn) -> Member:
        case = draw(row_cases(stream.unit, form=form))
        columns = (*_times(case.case)[:2], "window_number", *_times(case.case)[2:])
        return Member(case.query(), columns, lambda: wanted(row_answers(case, stream.table)))

    return member


def _registered(draw: Any, stream: Drawn) -> Member:
    case = replace(draw(cases(stream.unit, extra=False)), range_us=None)
    select = case.query().replace("FROM s", "FROM s [KIND uneven]", 1)
    kind = _kind(stream)

    def expected() -> Rows:
        found: Rows = []
        for wid in kind.windows(seen(case, stream.table), 2**62):
            start, end = kind.extent(wid)
            inside = [r for r in stream.rows if start <= r.time < end]
            found += [(start, end, *items) for items, _ in over(case, stream.table, inside, start, end)]
        return wanted(found)

    return Member(select, _times(case), expected)


def _kind(stream: Drawn) -> Uneven:
    """A kind of the stream's: which one follows from its rows."""
    return Uneven(3 + len(stream.rows) % 7, 1 + len(stream.rows) % 20, 1 + len(stream.rows) % 2)


KINDS: dict[str, Callable[[Any, Drawn], Member]] = {
    "by time": _by_time,
    "landmark": _landmark,
    "several in one SELECT": _several,
    "rows": _rows("rows"),
    "partitioned rows": _rows("partitioned rows"),
    "by tuple": _rows("by tuple"),
    "registered": _registered,
}


@pytest.mark.parametrize("kind", KINDS)
@many(0.05, 4.2, 1)
@given(st.data())
def test_final_answers(kind: str, data: st.DataObject) -> None:
    stream = data.draw(streams(gaps=False))
    if kind == "registered":  # its windows are of whole seconds
        rows = [replace(r, time=(r.time - stream.base) // stream.unit * 1_000_000) for r in stream.rows]
        stream = Drawn(tuple(rows), 1_000_000, 0)
    size = CROWD_OF_SEVERAL if kind == "several in one SELECT" else CROWD
    crowd = [KINDS[kind](data.draw, stream) for _ in range(size)]
    epochs = data.draw(cuts(stream.rows, max_epochs=3))
    opened = data.draw(st.integers(0, len(epochs)))
    settings: dict[str, Any] = {"shards": 1, "compact_files": 2}
    settings |= {"window_kinds": {"uneven": _kind(stream)}} if kind == "registered" else {}
    with pond(options(lateness=stream.unit * data.draw(st.integers(0, 10))), **settings) as p:
        _register(p, crowd, 0)
        for number, epoch in enumerate(epochs):
            if number == opened:
                p.restart()
            p.epoch(epoch)
        _register(p, crowd, 1)
        p.finish()
        p.settle()
        for number, member in enumerate(crowd):
            found = p.rows(f"SELECT {', '.join(member.columns)} FROM q{number}")
            what = f"{timestamp_text(stream.base)} {member.select}"
            assert_rows_equal(member.expected(), found, floor=floor(stream.rows), what=what)


def _register(p: Pond, crowd: list[Member], part: int) -> None:
    """Register the first half of a crowd, or the other one, which wants the stream from its start."""
    since = ", since='start'" if part else ""
    p.sql(
        ";".join(
            f"CREATE QUERY q{n} WITH (beyond='drop', revise_for='{span(KEPT)}'{since}) AS {member.select}"
            for n, member in enumerate(crowd)
            if n % 2 == part
        )
    )


@st.composite
def relation_windows(draw: st.DrawFn, kind: str) -> tuple[str, tuple[str, int], bool]:
    """The text of a window of CQL, what the oracle is told, whether it is partitioned by `a`."""
    size = draw(st.integers(1, END - 1 - 9 - 1))  # the last rows of a story are at 9, and have left before its end
    if kind == "range, relation":
        return f"[RANGE {size} MICROSECONDS]", ("range", size), False
    if kind == "unbounded":
        return draw(st.sampled_from(["[RANGE UNBOUNDED]", "[ROWS UNBOUNDED]"])), ("unbounded", 0), False
    if kind == "now":
        return "[NOW]", ("range", 0), False
    by = kind.startswith("partitioned")
    return f"[{'PARTITION BY a ' if by else ''}ROWS {size}]", ("rows", size), by


@st.composite
def relations(draw: st.DrawFn) -> str:
    """A shape of a query over one windowed stream, with constants of its own."""
    shape = draw(st.sampled_from(ONE))
    if shape.endswith("FROM {0} x"):
        shape += f" WHERE x.{draw(st.sampled_from('ab'))} {draw(st.sampled_from(['=', '<>', '<', '>=']))} 1"
    return re.sub(r"(?<=[=<>] )\d", lambda _: str(draw(st.integers(-1, 3))), shape)


@pytest.mark.parametrize(
    "kind", ["now", "unbounded", "range, relation", "rows, relation", "partitioned rows, relation"]
)
@many(0.05, 4.2, 1)
@given(st.data())
def test_relations(kind: str, data: st.DataObject) -> None:
    drawn = [
        (data.draw(relations()), data.draw(st.sampled_from(["ISTREAM", "DSTREAM"])), data.draw(relation_windows(kind)))
        for _ in range(CROWD)
    ]
    with quick_folder() as folder:
        story = Story(
            folder, [text_of(shape, operator, window) for shape, operator, (window, *_) in drawn], "since='start'"
        )
        try:
            for what, given_ in data.draw(steps):
                story.step(what, given_)
            story.end()
            for number, (shape, operator, (window, form, by)) in enumerate(drawn):
                rows = Windowed(AB, story.rows["s"], form, (0,) if by else ())
                query = Query(naive(shape), {"w0": rows}, {"t": ({"a": "INTEGER", "name": "VARCHAR"}, NAMED)})
                assert story.answers(number) == getattr(query, operator.lower())(-1, END), (shape, operator, window)
        finally:
            story.pond.close()
