"""Sessions that late rows join and cut, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Case, Row, Script, StreamSpec, assert_rows_equal
from tests.oracle.sessions import SessionCase, latest_sessions, session_revisions
from tests.properties.harness import options, pond, wanted
from tests.properties.lives import ENDED, LATE, upkeep
from tests.properties.streams import TYPES, Drawn, S, cuts

DAY = 86_400_000_000


@st.composite
def held_up(draw: st.DrawFn, gap: int) -> Drawn:
    """Rows with pauses of about the gap, in the order of their times but for some that come a few places later."""
    pauses = draw(st.lists(st.sampled_from([1, gap - 1, gap, gap, gap + 1, 2 * gap]), min_size=4, max_size=12))
    times = [0, *accumulate(pauses)]
    for at in draw(st.lists(st.integers(0, len(times) - 1), min_size=1, max_size=4)):
        times.insert(at + draw(st.integers(1, 2)), times.pop(at))
    empty: dict[str, Any] = dict.fromkeys(TYPES)
    keys = draw(st.sampled_from([(None,), (None, True)]))
    return Drawn(tuple(Row(t * S, n, empty | {"b": draw(st.sampled_from(keys))}) for n, t in enumerate(times)), S, 0)


@LATE
@given(st.data())
def test_joined_by_late_rows(late: str, data: st.DataObject) -> None:
    """A row that comes later joins what was over with what was not, and may be over in the same epoch."""
    gap, longest = data.draw(st.integers(2, 5)), data.draw(st.sampled_from([None, None, 5, 12]))
    stream = data.draw(held_up(gap))
    case = SessionCase(Case(("b AS c0", "count(*) AS c1"), group_by=("b",)), gap * S)
    case = replace(case, longest=None if longest is None else longest * S)
    epochs = data.draw(cuts(stream.rows, max_epochs=12))
    log = session_revisions(case, TYPES, Script(StreamSpec(late=late), (*epochs, ENDED)), DAY)
    with pond(options(late=late), compact_files=2) as p:
        p.sql(case.statement(revise_for="1 day"))
        for number, epoch in enumerate(epochs):
            p.epoch(epoch)
            upkeep(data, p)
            shown = latest_sessions([r for r in log if r.epoch <= number])
            assert_rows_equal(wanted(shown), p.answers(case.case), what=f"epoch {number} of {case.query()}")
        p.finish()
        assert_rows_equal(wanted(latest_sessions(log)), p.answers(case.case), what=case.query())


@pytest.mark.parametrize(("late", "longest"), [("drop", None), ("revise", 5)])
def test_state_is_bounded_by_what_is_not_final(late: str, longest: int | None) -> None:
    """Beside a session that never ends 400 come and go: of those state holds few, in files of all levels."""
    case = SessionCase(Case(("k AS c0", "count(*) AS c1"), group_by=("k",)), 1_000_000)
    case = replace(case, longest=None if longest is None else longest * 1_000_000)
    empty: dict[str, Any] = dict.fromkeys(TYPES)
    kept = []
    with pond(options(lateness=1_000_000, late=late), compact_files=2, shards=1) as p:
        p.sql(case.statement(revise_for="1 second"))
        for epoch in range(40):
            times = [("always", epoch), *((f"k{epoch}.{n}", epoch) for n in range(10))]
            p.ingest([Row(second * 1_000_000, 0, empty | {"k": k}) for k, second in times])
            p.pond.step()
            kept.append(p.sql("SHOW SYNOPSES").table["rows"].to_pylist()[0])
        p.restart()
        p.finish()
        assert len(p.answers(case.case)) == 400 + (1 if longest is None else 8)
    assert max(kept) < 250
