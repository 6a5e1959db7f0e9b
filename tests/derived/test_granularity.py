"""Announcements between stages are rolled up to what readers need: fewer epochs, the same answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.intake import stream_sources
from millpond.progress.marks import Describe, linear
from tests.properties.harness import table_rows
from tests.quick import many, quick_folder

Factory = Callable[..., Any]
EPOCH = dt.datetime(2026, 1, 1)


def _row(second: int, n: int) -> dict[str, Any]:
    return {"ts": EPOCH + dt.timedelta(seconds=second), "n": n}


def _made(pond: Any, reader: str) -> None:
    pond.sql("CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    pond.sql("CREATE STREAM big AS SELECT ts, n FROM s WHERE n > 5")
    pond.sql(f"CREATE QUERY q AS {reader}")


def _withheld(pond: Any) -> tuple[int, int]:
    source = pond._core.streams[pond._core.catalog.stream("big").id].source
    return source.withheld, source.handed_on


HOURLY = "SELECT sum(n) AS t FROM big [RANGE TUMBLING 100 SECONDS]"


def test_progress_that_ends_no_window_is_not_handed_on(inline_pond: Factory) -> None:
    pond = inline_pond()
    _made(pond, HOURLY)
    pond.ingest("s", [_row(0, 9)])
    pond.drain()
    before = pond._core.published.epoch
    for second in range(1, 12):  # no row of these passes, and no window of the reader ends
        pond.ingest("s", [_row(second, 1)])
        pond.drain()
    assert pond._core.published.epoch - before == 11  # one epoch each, and none for the second stage
    assert _withheld(pond) == (11, 0)
    (text,) = [
        r["generator"]
        for r in pond.sql("SHOW WATERMARKS").table.to_pylist()
        if r["name"] == "big" and r["kind"] == "stream"
    ]
    assert "11 announcements rolled up, 0 handed on" in text
    pond.ingest("s", [_row(130, 1)])
    pond.drain()
    assert _withheld(pond)[1] == 1
    assert pond.sql("SELECT t FROM q").rows() == [(9,)]


def test_it_counts_as_the_operator_does() -> None:
    """As many marks as `Describe` hands on, for a reader whose windows end every 100 s."""
    describe, handed = Describe(step=100), 0
    for bound in range(0, 400, 31):
        describe, out = describe.take(linear(bound))
        handed += len(out)
    with quick_folder() as folder:
        import millpond

        with millpond.open(str(folder / "p"), executor="inline") as pond:
            _made(pond, HOURLY)
            for bound in range(0, 400, 31):
                pond.ingest("s", [_row(bound, 1)])
                pond.step()
                pond.drain()
            # The first is always handed on: it is where the stream begins.
            assert _withheld(pond)[1] == handed


READERS = [
    HOURLY,
    "SELECT sum(n) AS t FROM big [RANGE 30 SECONDS SLIDE 20 SECONDS]",
    "SELECT sum(n) AS t FROM big [RANGE ALL SLIDE 50 SECONDS]",
    "SELECT sum(n) AS t FROM big [ROWS 3 SLIDE 1]",
    "SELECT ISTREAM(n) FROM big [RANGE 10 SECONDS]",
    "SELECT DSTREAM(count(*)) FROM big [RANGE 10 SECONDS]",
    "SELECT sum(n) AS t FROM (big UNION ALL s) [RANGE 30 SECONDS SLIDE 20 SECONDS]",
]


def _answers(pond: Any) -> list[str]:
    """Without the number of the revision: a row is late only against what has been announced."""
    return sorted(map(str, table_rows(pond.sql("SELECT * FROM q").table.drop_columns(["revision"]))))


@pytest.mark.parametrize("reader", READERS)
@many(0.4, 1)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9)), min_size=1, max_size=7), st.data())
def test_answers_are_the_same_at_every_moment(reader: str, rows: list[tuple[int, int]], data: st.DataObject) -> None:
    """With the roll-up and without it: after every epoch of the source, and at the end."""
    stops = data.draw(st.sets(st.integers(0, 7), max_size=1))
    answers = []
    for rolled in (True, False):
        seen = []
        with pytest.MonkeyPatch.context() as patch, quick_folder() as folder:
            if not rolled:
                patch.setattr(stream_sources, "is_needed", lambda *_: True)
            import millpond

            pond = millpond.open(str(folder / "p"), executor="inline")
            _made(pond, reader)
            for number, (second, n) in enumerate(rows):
                if number in stops:
                    pond.close()
                    pond = millpond.open(str(folder / "p"), executor="inline")
                pond.ingest("s", [_row(second, n)])
                pond.drain()
                seen.append(_answers(pond))
            pond.drain(final=True)
            seen.append(_answers(pond))
            pond.close()
        answers.append(seen)
    assert answers[0] == answers[1]
