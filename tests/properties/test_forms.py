"""Panes kept as tuples, as partials, or as what is smaller: the same log of answers, whatever happens to the pond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import assert_rows_equal
from tests.oracle.case import span
from tests.properties.harness import floor, options, pond
from tests.properties.queries import cases
from tests.properties.streams import cuts, streams

FORMS = ("eager", "lazy", "adaptive")


@pytest.mark.parametrize("late", ["revise", "drop"])
@given(st.data())
def test_every_form_gives_the_same_log(late: str, data: st.DataObject) -> None:
    stream = data.draw(streams(max_rows=40, gaps=False))
    case = data.draw(cases(stream.unit))
    kept = span(stream.unit * data.draw(st.integers(1, 40))).lower()
    epochs = data.draw(cuts(stream.rows, max_epochs=8))
    live = data.draw(st.integers(0, len(epochs)))  # registered later: the rest is back-filled
    pauses = data.draw(st.sets(st.integers(0, 8), max_size=2))
    restarts = data.draw(st.sets(st.integers(0, 8), max_size=2))
    lateness = stream.unit * data.draw(st.integers(0, 5))
    with pond(options(lateness=lateness, late=late), compact_files=2) as p:
        paused = False
        for number, epoch in enumerate(epochs):
            if number == live:
                for form in FORMS:
                    chosen = f"state='{form}', since='start', beyond='drop', revise_for='{kept}'"
                    p.sql(f"CREATE QUERY {form} WITH ({chosen}) AS {case.query()}")
                if data.draw(st.booleans()):
                    p.settle()
            if number in restarts:
                p.restart()
            if number > live and (number in pauses) != paused:
                paused = not paused
                for form in FORMS:
                    p.sql(f"ALTER QUERY {form} {'PAUSE' if paused else 'RESUME'}")
            p.epoch(epoch)
            if data.draw(st.booleans()):
                p.pond.maintain()
        if live == len(epochs):
            return
        if paused:
            for form in FORMS:
                p.sql(f"ALTER QUERY {form} RESUME")
        p.finish()
        p.settle()
        logs = {form: p.log(case, form) for form in FORMS}
        for form in FORMS[1:]:
            assert_rows_equal(logs["eager"], logs[form], floor=floor(stream.rows), what=f"{form}: {case.query()}")
