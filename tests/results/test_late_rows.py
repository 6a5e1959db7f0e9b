"""`late(stream)` says which windows are without a row: those that had ended by the watermark that it was behind."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

from tests.conftest import SEED, Factory

START = dt.datetime(2026, 1, 1)
WINDOWS = {"tumbling": (10, 10), "sliding": (30, 10), "gaps": (5, 10)}


def take(pond: Any, *seconds: int, more: str = "") -> None:
    """An epoch of rows at these seconds."""
    pond.ingest("s", [{"ts": START + dt.timedelta(seconds=t), "watermark": more} for t in seconds])
    pond.step()


def test_answers_follow_from_rows_and_the_watermarks_that_they_were_behind(inline_pond: Factory) -> None:
    pond, draw = inline_pond(), random.Random(SEED)
    pond.sql("CREATE STREAM s (ts TIMESTAMP, watermark TEXT) WITH (event_time='ts', late='drop')")
    for name, (length, slide) in WINDOWS.items():
        pond.sql(f"CREATE QUERY {name} AS SELECT count(*) AS n FROM s [RANGE {length} SECONDS SLIDE {slide} SECONDS]")
    for _ in range(8):
        take(pond, *(draw.randrange(100) for _ in range(3)))
    take(pond, 200)
    rows = [(row[0], None) for row in pond.sql("SELECT ts FROM s").rows()]
    late = pond.sql("SELECT ts, watermark_1 FROM late(s)").rows()
    assert late and all(ts < watermark for ts, watermark in late)
    for row in late:
        rows[rows.index((row[0], None))] = row
    for name, (length, slide) in WINDOWS.items():
        expected = {}
        for end in (START + dt.timedelta(seconds=n * slide) for n in range(1, 21)):
            held = [w for ts, w in rows if end - dt.timedelta(seconds=length) <= ts < end]
            counted = [w for w in held if w is None or end > w]
            expected |= {end: len(counted)} if counted else {}
        assert dict(pond.sql(f"SELECT window_end, n FROM {name}").rows()) == expected, name


def test_a_row_that_is_late_for_its_group_alone_counts_nowhere(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("""
        CREATE STREAM s (ts TIMESTAMP, until TIMESTAMP, k TEXT)
        WITH (event_time='ts', marks='column:until', marks_by='k', late='drop', lateness='1 hour')
    """)
    at = [START + dt.timedelta(seconds=t) for t in (0, 20, 5)]
    for row in ({"ts": at[0], "k": "a", "until": at[1]}, {"ts": at[2], "k": "a", "until": None}):
        pond.ingest("s", [row])
        pond.step()
    [(behind,)] = pond.sql("SELECT CAST(watermark AS VARCHAR) FROM late(s)").rows()
    assert behind == "infinity"
