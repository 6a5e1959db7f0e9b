"""Every archived row counts in every standing answer, however late it comes, for every kind of operator that answers.

A life is drawn: the order of the rows, how they are cut into epochs, when queries are made, and what happens between
epochs (drains, restarts, upkeep, pauses). What state covers is made short, so that nearly every late row belongs to
answers that it does not cover. In the end the standing answers are what the oracle makes of all rows; so is, where
there is one, the ad hoc answer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import millpond
from millpond.operators.contract import Answering
from millpond.types import WindowedQuery
from tests.operators.cases import Asked, Case, Epoch, arrivals
from tests.operators.kinds import ENTRIES, Entry
from tests.oracle import Row, assert_rows_equal
from tests.oracle.case import span
from tests.properties.harness import table_rows
from tests.quick import quick_folder

#: How far sums of doubles may be apart, absolutely.
FLOOR = 1e-6

EPOCH = dt.datetime(1970, 1, 1)

ANSWERING = [entry for entry in ENTRIES if issubclass(entry.kind, Answering)]

#: What happens between two epochs.
MOMENTS = st.sampled_from(("", "", "", "drained", "stopped", "kept up", "paused", "resumed"))


class Life:
    """A pond that lives through epochs. made: the queries that are there."""

    def __init__(self, folder: str, case: Case, shards: int) -> None:
        self.folder, self.case, self.shards = folder, case, shards
        self.made: list[str] = []
        self.pond = self._opened()
        self.pond.sql(replace(case, asked=()).script)

    def _opened(self) -> millpond.Pond:
        return millpond.open(self.folder, executor="inline", shards=self.shards, compact_files=2)

    def make(self, name: str, asked: Asked) -> None:
        """Make a query; it answers from the start, whenever that is."""
        self.pond.sql(replace(asked, options=(*asked.options, "since='start'")).statement(name))
        self.made.append(name)

    def take(self, epoch: Epoch) -> None:
        """Ingest the rows of an epoch and run it."""
        for stream, tasks in epoch.items():
            for rows in (rows for items in tasks for rows in items if rows):
                self.pond.ingest(stream, [_values(row) for row in rows])
        self.pond.step()

    def happens(self, what: str) -> None:
        """Something that must make no difference."""
        if what == "drained":
            self.pond.drain()
        elif what == "stopped":
            self.pond.close()
            self.pond = self._opened()
        elif what == "kept up":
            self.pond.maintain()
        elif what in ("paused", "resumed"):
            statuses = {row["query"]: row["status"] for row in self.pond.sql("SHOW QUERIES").table.to_pylist()}
            before, verb = ("live", "PAUSE") if what == "paused" else ("paused", "RESUME")
            for name in (n for n in self.made if statuses[n] == before):
                self.pond.sql(f"ALTER QUERY {name} {verb}")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a SELECT, without revision numbers."""
        table = self.pond.sql(sql).table
        return table_rows(table.drop_columns([n for n in table.column_names if n == "revision"]))


def _values(row: Row) -> dict[str, Any]:
    return {"ts": EPOCH + dt.timedelta(microseconds=row.time), **row.values}


@st.composite
def lives(draw: st.DrawFn, entry: Entry) -> tuple[Case, Sequence[Epoch], Sequence[str], int]:
    """A case without limits, its epochs, what happens after each, and when its queries are made."""
    case = replace(draw(entry.cases), late="revise", in_order=False)
    if any("BY ARRIVAL" in asked.text for asked in case.asked):
        case = replace(case, in_order=True)
    short = draw(st.sampled_from(("0 seconds", span(case.unit), span(3 * case.unit), "")))
    options = (f"revise_for='{short.lower()}'",) if short else ()
    asked = tuple(replace(a, options=(*a.options, *options)) for a in case.asked if a.answer is not None)
    case = replace(case, asked=asked)
    epochs = draw(arrivals(case))
    moments = draw(st.lists(MOMENTS, min_size=len(epochs), max_size=len(epochs)))
    return case, epochs, moments, draw(st.sampled_from((0, 0, 0, 1, len(epochs))))


@pytest.mark.parametrize("entry", ANSWERING, ids=lambda entry: entry.kind.__name__)
def test_standing_answers_are_those_of_all_rows(entry: Entry) -> None:
    @settings(max_examples=max(3, settings.default.max_examples // 3))
    @given(lives(entry), st.sampled_from((1, 2)))
    def check(life: tuple[Case, Sequence[Epoch], Sequence[str], int], shards: int) -> None:
        case, epochs, moments, begin = life
        note(f"{case.script}\nmade before epoch {begin}; {moments}")
        with quick_folder() as folder:
            _live(Life(str(folder / "pond"), case, shards), epochs, moments, begin)

    check()


def _live(life: Life, epochs: Sequence[Epoch], moments: Sequence[str], begin: int) -> None:
    try:
        for number, (epoch, moment) in enumerate(zip(epochs, moments, strict=True)):
            if number == begin:
                _make(life)
            life.take(epoch)
            life.happens(moment)
        if begin == len(epochs):
            _make(life)
        life.happens("resumed")
        life.pond.drain(final=True)
        listed = {row["query"]: row for row in life.pond.sql("SHOW QUERIES").table.to_pylist()}
        for name, expected in life.case.expected().items():
            assert listed[name]["status"] == "live", listed[name]["reason"]
            assert listed[name]["too_late"] == 0
            assert_rows_equal(expected, life.rows(f"SELECT * FROM {name}"), floor=FLOOR, what=name)
            _check_ad_hoc(life, name, expected)
    finally:
        life.pond.close()


def _make(life: Life) -> None:
    for number, asked in enumerate(life.case.asked):
        life.make(f"q{number}", asked)


def _check_ad_hoc(life: Life, name: str, expected: Sequence[Sequence[Any]]) -> None:
    """What is asked once is answered alike, where windows that have closed are what is asked for."""
    standing = next(q for q in life.pond._core.catalog.queries.values() if q.definition.name == name)
    if isinstance(standing.definition.query, WindowedQuery) and standing.definition.options.empty == "skip":
        text = life.case.asked[int(name[1:])].text
        assert_rows_equal(expected, life.rows(text), floor=FLOOR, what=f"{name}, asked once")
