"""Queries over what others make: over rows of a derived stream, over answers of a stream or query, and row queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from hypothesis import strategies as st

from tests.derived.test_derived_is_oracle import KINDS, NAMES
from tests.derived.test_retract import pipelines
from tests.operators.cases import Answer, Asked, Case, Heard, Rows
from tests.operators.kinds import CONDITIONS, SOME, over_time
from tests.oracle import Case as Window
from tests.oracle import Row, Table, invoke
from tests.oracle.derived import answer_rows, stream_table
from tests.oracle.invocation import back_from
from tests.oracle.revisions import final_answers
from tests.oracle.selections import Prefix, Selection
from tests.properties.harness import wanted
from tests.properties.queries import BOUNDED, HOLISTIC
from tests.properties.queries import cases as window_cases
from tests.properties.selections import S, selections
from tests.properties.streams import COLUMNS, TYPES, Drawn


def _case(draw: st.DrawFn, stream: Drawn, *asked: Asked, beside: str = "") -> Case:
    lateness = draw(st.sampled_from((0, 3, 8))) * stream.unit
    rows = tuple(replace(row, intake=place) for place, row in enumerate(stream.rows))
    return Case({"s": COLUMNS}, asked, {"s": rows}, stream.unit, lateness, beside=beside)


# -- rows of a derived stream


def _passing(where: str, rows: Rows) -> list[Row]:
    table = Table(tuple(rows), TYPES)
    found = table.load().execute(f"SELECT __order FROM t AS s WHERE {where}").fetchall()
    ordered = sorted(rows, key=lambda row: (row.time, row.intake))
    return [ordered[place] for (place,) in found]


@st.composite
def over_passing(draw: st.DrawFn) -> Case:
    """Windows over the rows of `s` that pass a condition."""
    stream, where = draw(SOME), draw(st.sampled_from(CONDITIONS))
    asked = over_time(replace(draw(window_cases(stream.unit, BOUNDED + HOLISTIC)), stream="x"))

    def passing(rows: Mapping[str, Rows]) -> Mapping[str, Rows]:
        return {"s": _passing(where, rows["s"])}

    def invoked(rows: Mapping[str, Rows], heard: Heard, at: int | None) -> Answer | None:
        assert asked.invoked is not None
        now = max((row.time for row in passing(rows)["s"]), default=None)
        if now is None:  # of an instant it is asked what there is without any row, which the oracle does not say
            return [] if at is None else None
        return asked.invoked(passing(rows), replace(heard, now=now), at)

    def once(rows: Mapping[str, Rows], heard: Heard) -> Answer | None:
        assert asked.once is not None
        return asked.once(passing(rows), heard) if heard.ended else None

    def answer(rows: Mapping[str, Rows]) -> Answer:
        assert asked.answer is not None
        return asked.answer(passing(rows))

    made = replace(asked, answer=answer, invoked=invoked, once=once)
    return _case(draw, stream, made, beside=f"CREATE STREAM x AS SELECT * FROM s WHERE {where}")


# -- answers


def _answers_of(first: Window, rows: Mapping[str, Rows], until: int | None = None) -> Table:
    return stream_table(answer_rows(first, NAMES, Table(tuple(rows["s"]), TYPES), until), KINDS)


def _twice(first: Window, second: Window, rows: Mapping[str, Rows]) -> Answer:
    return wanted(final_answers(second, _answers_of(first, rows)))


def _twice_once(first: Window, second: Window, rows: Mapping[str, Rows], heard: Heard) -> Answer | None:
    return _twice(first, second, rows) if heard.ended else None


def _twice_invoked(
    first: Window, second: Window, rows: Mapping[str, Rows], heard: Heard, at: int | None
) -> Answer | None:
    table = _answers_of(first, rows, None if heard.ended else heard.bounds["s"])
    if not table.rows:
        return [] if at is None else None
    now = max(row.time for row in table.rows) if at is None else at
    start = back_from(second, now)
    return [] if start is None else wanted([(start, now, *items) for items in invoke(second, table, now)])


def _over_answers(first: Window, second: Window) -> Asked:
    asked = Asked(second.query(), partial(_twice, first, second), once=partial(_twice_once, first, second))
    return replace(asked, invoked=partial(_twice_invoked, first, second))


@st.composite
def over_answers(draw: st.DrawFn) -> Case:
    """Windows over a stream of answers that takes back those that are revised."""
    stream = draw(SOME)
    first, second = draw(pipelines(stream.unit))
    made = f"CREATE STREAM x WITH (revisions='retract') AS {first.query()}"
    return _case(draw, stream, _over_answers(first, second), beside=made)


@st.composite
def over_query(draw: st.DrawFn) -> Case:
    """A query, and windows over its answers."""
    stream = draw(SOME)
    first, second = draw(pipelines(stream.unit))
    return _case(draw, stream, over_time(first), _over_answers(first, replace(second, stream="q0")))


# -- rows


def _selected(selection: Selection, rows: Mapping[str, Rows], heard: Heard, now: int | None = None) -> Answer:
    given = tuple(rows["s"])
    prefix = Prefix(Table(given, TYPES), high=max((row.time for row in given), default=None))
    return selection.answer({"s": prefix}, now)


@st.composite
def row_queries(draw: st.DrawFn) -> Case:
    """Row queries, over seconds since 1970."""
    drawn = draw(SOME)
    rows = tuple(replace(row, time=(row.time - drawn.base) // drawn.unit * S) for row in drawn.rows)
    chosen = draw(st.lists(selections(("s",)), min_size=1, max_size=2))
    asked = [
        Asked(each.text(), revises=False, invoked=partial(_selected, each), once=partial(_selected, each))
        for each in chosen
    ]
    return _case(draw, Drawn(rows, S, 0), *asked)


OVER_OTHERS: Mapping[str, st.SearchStrategy[Case]] = {
    "rows of a stream": over_passing(),
    "answers of a stream": over_answers(),
    "answers of a query": over_query(),
    "row queries": row_queries(),
}
