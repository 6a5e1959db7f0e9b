"""Whether a drain is done follows from the catalog and what is published."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from millpond.catalog import Catalog
from millpond.engine.control.draining import Goal
from millpond.manifests.records import Published
from millpond.progress import StreamProgress
from millpond.types import Column, StreamDefinition, StreamOptions

STREAMS = {n: StreamDefinition(f"s{n}", (Column("ts", "TIMESTAMP"),), StreamOptions(time="ts"), n) for n in (1, 2)}


@pytest.mark.parametrize(
    ("lengths", "ended", "intake", "over", "reached"),
    [
        ({}, (), {}, (), True),
        ({1: 0}, (), {}, (), True),
        ({1: 3}, (), {"1": 2}, (), False),
        ({1: 3}, (), {"1": 3}, (), True),
        ({1: 3, 2: 1}, (), {"1": 3}, (), False),
        ({1: 3}, (1,), {"1": 3}, (), False),
        ({1: 3}, (1,), {"1": 3}, (1,), True),
        ({1: 3, 9: 5}, (9,), {"1": 3}, (), True),  # the stream 9 was dropped since
    ],
)
def test_goals(
    lengths: dict[int, int], ended: tuple[int, ...], intake: dict[str, int], over: tuple[int, ...], reached: bool
) -> None:
    progress = {str(n): StreamProgress(ended=n in over) for n in STREAMS}
    published = Published(4, intake=intake, progress=progress)
    assert Goal(lengths, ended).reached(Catalog(streams=STREAMS), published) == reached


QUERIES = {
    "sliding": "SELECT count(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]",
    "landmark": "SELECT k, sum(k) AS n FROM s [RANGE ALL SLIDE 2 SECONDS] GROUP BY k",
    "rows": "SELECT count(*) AS n FROM s [ROWS 2 SLIDE 1]",
    "sessions": "SELECT k, count(*) AS n FROM s [SESSION 2 SECONDS] GROUP BY k",
    "istream": "SELECT ISTREAM(k) FROM s [NOW]",
    "dstream": "SELECT DSTREAM(k) FROM s [RANGE 2 SECONDS]",
    "group": "SELECT ISTREAM(k, count(*) AS n) FROM s [RANGE 3 SECONDS] GROUP BY k",
    "join": "SELECT ISTREAM(a.k) FROM s [NOW] a JOIN s [RANGE 2 SECONDS] b ON a.k = b.k",
    "outer": "SELECT ISTREAM(a.k, b.k AS l) FROM s [NOW] a LEFT JOIN s [RANGE 2 SECONDS] b ON a.k = b.k + 1",
    "pairs": "SELECT PAIRS(a.k) FROM s [NOW] a JOIN s [NOW] b ON a.k = b.k",
    "alone": "SELECT PAIRS(a.k) FROM s [NOW] a ANTI JOIN s [NOW] b ON a.k = b.k + 1",
}


@pytest.mark.parametrize("asked", QUERIES.values(), ids=QUERIES)
def test_a_resumed_query_has_caught_up_although_nothing_comes(inline_pond: Callable[..., Any], asked: str) -> None:
    found: dict[bool, list[Any]] = {}
    for paused in (False, True):
        pond = inline_pond(f"paused {paused}", shards=2)
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k INTEGER) WITH (event_time='ts')")
        pond.sql(f"CREATE QUERY q AS {asked}")
        for first, times in ((True, (0, 1)), (False, (4, 5, 12))):
            if paused and not first:
                pond.sql("ALTER QUERY q PAUSE")
            rows = [{"ts": dt.datetime(1970, 1, 1) + dt.timedelta(seconds=t), "k": t % 2} for t in times]
            pond.ingest("s", rows)
            pond.drain()
        before = pond.sql("SELECT * FROM q").rows()
        if paused:
            pond.sql("ALTER QUERY q RESUME")
            pond.drain()
            assert pond.sql("SELECT * FROM q").rows() != before
            assert not pond.step()
        found[paused] = sorted(map(repr, pond.sql("SELECT * FROM q").rows()))
    assert found[False] == found[True]
