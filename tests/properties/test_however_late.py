"""Every archived row counts in every standing answer, however late it comes, for every kind of operator that answers.

A life is drawn: the order of the rows, how they are cut into epochs, when queries are made, and what happens between
epochs (drains, restarts, upkeep, pauses). What state covers is made short, so that nearly every late row belongs to
answers that it does not cover. In the end the standing answers are what the oracle makes of all rows. So is, in the end
and on the way, what INVOKE gives, now and of another instant, and what the text gives when it is asked once.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import millpond
from millpond.operators.contract import Answering
from tests.operators.cases import Asked, Case, Epoch, Heard, arrivals
from tests.operators.kinds import ENTRIES
from tests.oracle import Row, assert_rows_equal
from tests.oracle.case import span
from tests.oracle.progress import NEVER
from tests.properties.harness import table_rows
from tests.properties.late_forms import OVER_OTHERS
from tests.properties.selections import instant
from tests.quick import quick_folder

#: How far sums of doubles may be apart, absolutely.
FLOOR = 1e-6

EPOCH = dt.datetime(1970, 1, 1)

FOREVER = 1 << 60

#: What is asked, by name: each kind of operator that answers by itself, then what reads answers or rows of others.
FORMS: Mapping[str, st.SearchStrategy[Case]] = {
    **{entry.kind.__name__: entry.cases for entry in ENTRIES if issubclass(entry.kind, Answering)},
    **OVER_OTHERS,
}

#: Columns that tell when an answer was known, or are numbers that only standing answers have.
BESIDE = ("revision", "final", "op")

#: What happens between two epochs.
MOMENTS = st.sampled_from(("", "", "", "drained", "stopped", "kept up", "paused", "resumed"))


class Life:
    """A pond that lives through epochs. made: the queries that are there."""

    def __init__(self, folder: str, case: Case, shards: int) -> None:
        self.folder, self.case, self.shards = folder, case, shards
        self.made: list[str] = []
        self.fed: dict[str, list[Row]] = {name: [] for name in case.streams}
        self.pond = self._opened()
        self.pond.sql(replace(case, asked=()).script)

    def _opened(self) -> millpond.Pond:
        return millpond.open(self.folder, executor="inline", shards=self.shards, compact_files=2)

    def make(self, name: str, asked: Asked) -> None:
        """Make a query; one that answers by itself answers from the start, whenever that is."""
        since = ("since='start'",) if asked.revises else ()
        self.pond.sql(replace(asked, options=(*asked.options, *since)).statement(name))
        self.made.append(name)

    def take(self, epoch: Epoch) -> None:
        """Ingest the rows of an epoch and run it."""
        for stream, tasks in epoch.items():
            for rows in (rows for items in tasks for rows in items if rows):
                self.pond.ingest(stream, [_values(row) for row in rows])
                self.fed[stream] += rows
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
        """The rows of an answer, without what only tells when it was known."""
        table = self.pond.sql(sql).table
        return table_rows(table.drop_columns([n for n in table.column_names if n in BESIDE]))

    def heard(self, asked: Asked, ended: bool) -> Heard | None:
        """How far the streams of a query are; None: no row of them has come."""
        highs = {name: max(row.time for row in self.fed[name]) for name in asked.reads if self.fed[name]}
        if not highs:
            return None
        bounds = {name: highs.get(name, NEVER + self.case.lateness) - self.case.lateness for name in asked.reads}
        now = max(highs.values()) if ended else min(highs.values())
        return Heard(now, dict.fromkeys(bounds, FOREVER) if ended else bounds, ended)


def _values(row: Row) -> dict[str, Any]:
    return {"ts": EPOCH + dt.timedelta(microseconds=row.time), **row.values}


@st.composite
def lives(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> tuple[Case, Sequence[Epoch], Sequence[str], int]:
    """A case without limits, its epochs, what happens after each, and when its queries are made."""
    case = replace(draw(cases), late="revise", in_order=False)
    if any("BY ARRIVAL" in asked.text for asked in case.asked):
        case = replace(case, in_order=True)
    short = draw(st.sampled_from(("0 seconds", span(case.unit), span(3 * case.unit), "")))
    options = (f"revise_for='{short.lower()}'",) if short else ()
    asked = tuple(replace(a, options=(*a.options, *options)) if a.revises else a for a in case.asked)
    case = replace(case, asked=asked)
    epochs = draw(arrivals(case))
    moments = draw(st.lists(MOMENTS, min_size=len(epochs), max_size=len(epochs)))
    return case, epochs, moments, draw(st.sampled_from((0, 0, 0, 1, len(epochs))))


@pytest.mark.parametrize("form", FORMS)
def test_every_answer_is_that_of_all_rows(form: str) -> None:
    @settings(max_examples=max(3, settings.default.max_examples // 3))
    @given(lives(FORMS[form]), st.sampled_from((1, 2)), st.randoms(use_true_random=False))
    def check(life: tuple[Case, Sequence[Epoch], Sequence[str], int], shards: int, chance: random.Random) -> None:
        case, epochs, moments, begin = life
        note(f"{case.script}\nmade before epoch {begin}; {moments}")
        with quick_folder() as folder:
            _live(Life(str(folder / "pond"), case, shards), epochs, moments, begin, chance)

    check()


def _live(life: Life, epochs: Sequence[Epoch], moments: Sequence[str], begin: int, chance: random.Random) -> None:
    try:
        for number, (epoch, moment) in enumerate(zip(epochs, moments, strict=True)):
            if number == begin:
                _make(life)
            life.take(epoch)
            life.happens(moment)
            if moment == "drained":
                _check_asked(life, chance, ended=False)
        if begin == len(epochs):
            _make(life)
        life.happens("resumed")
        life.pond.drain(final=True)
        listed = {row["query"]: row for row in life.pond.sql("SHOW QUERIES").table.to_pylist()}
        for name in life.made:
            assert listed[name]["status"] == "live", listed[name]["reason"]
            assert not listed[name]["too_late"]
        for name, expected in life.case.expected().items():
            assert_rows_equal(expected, life.rows(f"SELECT * FROM {name}"), floor=FLOOR, what=name)
        _check_asked(life, chance, ended=True)
    finally:
        life.pond.close()


def _make(life: Life) -> None:
    for number, asked in enumerate(life.case.asked):
        life.make(f"q{number}", asked)


def _check_asked(life: Life, chance: random.Random, ended: bool) -> None:
    """What is asked for is answered from all rows so far, whatever standing answers know."""
    for number, asked in enumerate(life.case.asked):
        heard = life.heard(asked, ended)
        if heard is None:
            continue
        if asked.once is not None and (expected := asked.once(life.fed, heard)) is not None:
            assert_rows_equal(expected, life.rows(asked.text), floor=FLOOR, what=f"q{number}, asked once")
        if asked.invoked is None or f"q{number}" not in life.made:
            continue
        times = sorted(row.time for name in asked.reads for row in life.fed[name] if row.time <= heard.now)
        for at in (None, *chance.sample(times, min(2, len(times)))):
            text = f"INVOKE q{number}" + ("" if at is None else f" AS OF {instant(at)}")
            if (expected := asked.invoked(life.fed, heard, at)) is not None:
                assert_rows_equal(expected, life.rows(text), floor=FLOOR, what=text)
