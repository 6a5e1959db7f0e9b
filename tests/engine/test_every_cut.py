"""A hybrid query answers the same wherever history ends and live rows begin (A8): for every cut point of a stream."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import millpond
from tests.quick import is_deep

BASE = dt.datetime(2026, 3, 1, 6)

#: Windows of every kind since a past instant, and live rows that are joined with history.
QUERIES = {
    "landmark": "SELECT k, count(*) FILTER (WHERE v > 1) - count(*) FILTER (WHERE v <= 1) AS n"
    " FROM s [RANGE ALL SINCE '07:00' DAILY SLIDE 15 MINUTES] GROUP BY k",
    "sliding": "SELECT k, sum(v) AS n FROM s [RANGE 3 HOURS SLIDE 1 HOUR] GROUP BY k",
    "rows": "SELECT k, max(v) AS n FROM s [PARTITION BY k ROWS 3 SLIDE 2]",
    "relation": "SELECT ISTREAM(k, count(*) AS n) FROM s [RANGE 90 MINUTES] GROUP BY k",
    "probed": "SELECT ISTREAM(n.k, n.v) FROM s [NOW] n WHERE 1 <= (SELECT count(DISTINCT CAST(h.ts AS DATE))"
    " FROM s [RANGE 3 DAYS] h WHERE h.k = n.k AND hour(h.ts) = hour(n.ts)"
    " AND h.ts < date_trunc('day', n.ts) AND h.ts >= date_trunc('day', n.ts) - INTERVAL 2 DAYS)",
}
ARCHIVES = ("plain + summary(SELECT k, sum(v) FROM s [RANGE 1 HOUR TUMBLING] GROUP BY k)", "randomize(4)")


def stream() -> list[dict[str, Any]]:
    draw = random.Random(5)
    found = [
        {
            "ts": BASE + dt.timedelta(days=day, minutes=draw.randrange(240)),
            "k": draw.choice("ab"),
            "v": draw.randrange(4),
        }
        for day in range(4)
        for _ in range(3)
    ]
    return sorted(found, key=lambda row: row["ts"])


def lived(folder: Path, rows: list[dict[str, Any]], cut: int, archive: str) -> dict[str, Counter[tuple[Any, ...]]]:
    """The final answers of all queries, registered when `cut` rows had come."""
    with millpond.open(folder, executor="inline") as pond:
        pond.sql(f"CREATE STREAM s (ts TIMESTAMP, k TEXT, v INTEGER) WITH (event_time='ts', archive='{archive}')")
        for part in (rows[: cut // 2], rows[cut // 2 : cut]):
            if part:
                pond.ingest("s", part)
                pond.step()
        pond.maintain()
        for name, text in QUERIES.items():
            pond.sql(f"CREATE QUERY {name} WITH (since='start') AS {text}")
        # Live rows come while the back-fill has not run yet, and after it.
        middle = cut + (len(rows) - cut) // 2
        for part in (rows[cut:middle], rows[middle:]):
            if part:
                pond.ingest("s", part)
                pond.step()
        pond.drain(final=True)
        return {
            name: Counter(tuple(r) for r in pond.sql(f"SELECT * EXCLUDE (revision) FROM {name}").rows())
            for name in QUERIES
        }


@pytest.mark.parametrize("archive", ARCHIVES)
def test_every_cut_point(tmp_path: Path, archive: str) -> None:
    rows = stream()
    expected = lived(tmp_path / "all-live", rows, 0, "plain")
    assert all(expected.values()), "every query has answers"
    # A form in which every cut is tried, and one in which that is left to the deep mode.
    for cut in range(1, len(rows) + 1, 1 if is_deep() or archive == ARCHIVES[0] else 3):
        found = lived(tmp_path / f"cut{cut}", rows, cut, archive)
        for name, answers in expected.items():
            assert found[name] == answers, f"{name}, cut after {cut} rows, archive {archive}"
