"""Looking the past up gives what keeping it at hand gives, and reads what conditions on time admit only."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.archive.upkeep import compaction
from millpond.language.plan import continuous, probed_inputs
from millpond.relations import stretches
from millpond.synopses import connection
from millpond.types import DAY, HOUR, MINUTE, Driven, Grouped, Joined, Recomputed
from tests.relations.setting import bound, stream

#: Each example runs a pond twice.
FEW = max(4, settings.default.max_examples // 6)
BASE = dt.datetime(2026, 3, 1)

#: Conditions between `n` (now) and `h` (the past).
CONDITIONS = (
    "h.a = n.a AND hour(h.ts) = hour(n.ts) AND h.ts < date_trunc('day', n.ts)",
    "h.a = n.a AND h.ts BETWEEN n.ts - INTERVAL 25 HOURS AND n.ts - INTERVAL 23 HOURS",
    "h.a = n.a AND date_trunc('hour', h.ts) IN (date_trunc('hour', n.ts) - INTERVAL 1 DAY, date_trunc('hour', n.ts))",
    "h.b < n.b AND date_diff('day', h.ts, n.ts) BETWEEN 1 AND 2 AND extract(hour FROM h.ts) = extract(hour FROM n.ts)",
    "h.a = n.a AND NOT (h.ts > n.ts - INTERVAL 3 HOURS OR CAST(h.ts AS DATE) = CAST(n.ts AS DATE) - 2)",
    "h.a = n.a AND n.ts - h.ts < INTERVAL 90 MINUTES",
    "n.a = h.a AND dayofweek(h.ts) = dayofweek(n.ts) AND minute(h.ts) <= 30",
    "h.a = n.a AND h.ts < n.ts AND epoch(h.ts) >= epoch(n.ts) - 7200",
    "h.a = n.a AND extract(dow FROM h.ts) = extract(dow FROM n.ts) AND date_part('doy', h.ts) <> 5",
)
SHAPES = (
    "SELECT {r}(n.a, n.b, h.b AS was) FROM s [NOW] n JOIN {h} h ON {c}",
    "SELECT {r}(n.a, h.b) FROM s [NOW] n, {h} h WHERE {c} AND h.b > 0",
    "SELECT {r}(n.a, n.b) FROM s [NOW] n WHERE 2 <= (SELECT count(DISTINCT CAST(h.ts AS DATE)) FROM {h} h WHERE {c})",
    "SELECT {r}(n.a, n.ts, count(*) AS many) FROM s [NOW] n JOIN {h} h ON {c} GROUP BY n.a, n.ts HAVING count(*) > 1",
    "SELECT {r}(n.a, h.b) FROM s [NOW] n LEFT JOIN {h} h ON {c}",
    "SELECT {r}(n.a, n.b) FROM s [NOW] n WHERE NOT EXISTS (SELECT 1 FROM {h} h WHERE {c})",
    "SELECT {r}(n.b) FROM s [NOW] n WHERE n.b IN (SELECT h.b FROM {h} h WHERE {c})",
)
PASTS = ("s [RANGE 2 DAYS]", "s [RANGE 30 HOURS]", "s [RANGE UNBOUNDED]", "u [RANGE 2 DAYS]")

values = st.tuples(st.integers(0, 2), st.integers(0, 3))
#: Times lie on a few hours of a few days, so that conditions often hold, and some are late.
times = st.builds(
    lambda day, hour, minute: (day * 24 + hour) * 60 + minute,
    st.integers(0, 3), st.sampled_from([7, 8, 9, 23, 0]), st.sampled_from([0, 0, 1, 30, 59]),
)  # fmt: skip
batch = st.lists(st.tuples(times, values), min_size=1, max_size=4)
rows_first = st.lists(st.tuples(st.sampled_from("su"), batch), max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["s", "u"]), batch),
        st.sampled_from(
            [(name, None) for name in ("epoch", "epoch", "restart", "create", "pause", "resume", "upkeep")]
        ),
    ),
    min_size=3,
    max_size=12,
)


@pytest.fixture(autouse=True, scope="module")
def merged_early() -> Iterator[None]:
    """Archive files are merged by twos."""
    before, compaction.FAN_IN = compaction.FAN_IN, 2
    yield
    compaction.FAN_IN = before


def play(sql: str, options: str, late: str, drawn: Any, looked_up: bool) -> list[Any]:
    """Live through the steps, with windows looked up, or kept at hand."""
    patch = pytest.MonkeyPatch()
    patch.setattr(probed_inputs, "LONG", 0)
    if not looked_up:
        patch.setattr(continuous, "probes_of", lambda *_: None)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _play(Path(folder) / "pond", sql, options, late, drawn)
    finally:
        patch.undo()


def _play(folder: Path, sql: str, options: str, late: str, drawn: Any) -> list[Any]:
    pond = millpond.open(folder, executor="inline", shards=2, compact_files=3)
    for name in "su":
        pond.sql(
            f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER, b INTEGER)"
            f" WITH (event_time='ts', lateness='2 hours', late='{late}')"
        )
    created = paused = False
    try:
        for what, rows in [*drawn, ("create", None), ("resume", None)]:
            if rows is not None:
                pond.ingest(what, [{"ts": BASE + dt.timedelta(minutes=t), "a": a, "b": b} for t, (a, b) in rows])
            elif what == "epoch":
                pond.step()
            elif what == "upkeep":
                pond.maintain()
            elif what == "restart":
                pond.close()
                pond = millpond.open(folder, executor="inline")
            elif what == "create" and not created:
                pond.sql(f"CREATE QUERY q AS {sql} WITH ({options})")
                created = True
            elif what in ("pause", "resume") and created and paused == (what == "resume"):
                pond.sql(f"ALTER QUERY q {what.upper()}")
                paused = what == "pause"
        pond.drain(final=True)
        instant = BASE + dt.timedelta(days=2, hours=8)
        kept = pond._core.catalog.query("q").definition.query.plan
        return [
            Counter(tuple(r) for r in pond.sql("SELECT * EXCLUDE (revision) FROM q").rows()),
            Counter(tuple(r) for r in pond.sql(f"INVOKE q AS OF TIMESTAMP '{instant}'").rows()),
            Counter(tuple(r) for r in pond.sql(sql).rows()),
            kept,
        ]
    finally:
        pond.close()


@given(data=st.data())
@settings(max_examples=FEW, deadline=None)
def test_looking_up_is_keeping(data: Any) -> None:
    shape, past, condition = (data.draw(st.sampled_from(each)) for each in (SHAPES, PASTS, CONDITIONS))
    sql = shape.format(r=data.draw(st.sampled_from(["ISTREAM", "DSTREAM"])), h=past, c=condition)
    options = data.draw(st.sampled_from(["since='start'", "revise_for='1 day'", "since='start', revise_for='3 hours'"]))
    late = data.draw(st.sampled_from(["revise", "revise", "drop"]))
    drawn = [*data.draw(rows_first), *data.draw(steps)]
    *found, plan = play(sql, options, late, drawn, True)
    *expected, other = play(sql, options, late, drawn, False)
    assert isinstance(plan, Driven) and not isinstance(other, Driven)
    for name, one, two in zip(("standing", "invoked", "ad hoc"), found, expected, strict=True):
        assert one == two, f"{name}: {sql} ({options}, {late})"


@pytest.mark.parametrize(
    ("sql", "plan"),
    [
        ("SELECT ISTREAM(n.a) FROM s [NOW] n JOIN s [RANGE 2 DAYS] h ON {c}", Driven),
        ("SELECT n.a FROM s [NOW] n JOIN s [RANGE 2 DAYS] h ON {c}", Driven),
        ("SELECT ISTREAM(n.a) FROM s [RANGE 2 DAYS] h JOIN s [NOW] n ON {c}", Driven),
        ("SELECT ISTREAM(n.a) FROM s [NOW] n JOIN s [RANGE 2 HOURS] h ON {c}", Joined),
        ("SELECT ISTREAM(n.a) FROM s [RANGE 1 MINUTE] n JOIN s [RANGE 2 DAYS] h ON {c}", Joined),
        ("SELECT ISTREAM(n.a) FROM s [NOW] n JOIN s [RANGE 2 DAYS] h ON h.a = n.a", Joined),
        ("SELECT ISTREAM(count(*)) FROM s [NOW] n JOIN s [RANGE 2 DAYS] h ON {c}", Grouped),
        ("SELECT ISTREAM(max(n.a)) FROM s [NOW] n JOIN s [RANGE 2 DAYS] h ON {c}", Recomputed),
        ("SELECT ISTREAM(n.a) FROM s [RANGE 2 DAYS] h LEFT JOIN s [NOW] n ON {c}", Joined),
        ("SELECT ISTREAM(n.a) FROM s [NOW] n, s [RANGE 2 DAYS] h WHERE {c} OR h.b = 1", Joined),
        ("SELECT ISTREAM(n.a) FROM s [NOW] n WHERE EXISTS (SELECT 1 FROM s [RANGE 2 DAYS] h)", Joined),
        (
            "SELECT ISTREAM(n.a) FROM s [NOW] n WHERE n.b = (SELECT max(h.b) FROM s [RANGE 2 DAYS] h WHERE {c})",
            Driven,
        ),
        (
            "SELECT ISTREAM(n.a) FROM s [NOW] n WHERE EXISTS"
            " (SELECT 1 FROM u [RANGE 1 DAY] n, s [RANGE 2 DAYS] h WHERE {c})",
            Recomputed,
        ),
    ],
)
def test_which_queries_look_up(sql: str, plan: type) -> None:
    streams = [stream(name, a="INTEGER", b="INTEGER") for name in "su"]
    relation = bound(sql.format(c=CONDITIONS[0]), *streams)
    assert type(relation.plan) is plan


@given(st.sampled_from(CONDITIONS), st.integers(0, 40 * 24 * 60), st.lists(st.integers(0, 12 * 24 * 60), max_size=40))
@settings(max_examples=4 * FEW, deadline=None)
def test_stretches_hold_every_row_that_a_condition_admits(condition: str, now: int, ago: list[int]) -> None:
    relation = bound(
        f"SELECT ISTREAM(n.a) FROM s [NOW] n JOIN s [RANGE 12 DAYS] h ON {condition}",
        stream("s", a="INTEGER", b="INTEGER"),
    )
    [probe] = relation.probes
    known = now * MINUTE + 12 * DAY
    found = stretches(connection(), probe.may, known - 12 * DAY, known + 1, known, known)
    assert all(a < b for a, b in found) and all(x[1] < y[0] for x, y in pairwise(found))
    instants = np.array([known - m * MINUTE for m in ago], np.int64)
    db = connection()
    for t in instants.tolist():
        sql = (
            f"SELECT {probe.condition} FROM (SELECT make_timestamp({known}) AS ts, 1 AS a, 1 AS b) AS driver,"
            f" (SELECT make_timestamp({t}) AS ts, 1 AS a, 0 AS b) AS probed"
        )
        if db.sql(sql).fetchall()[0][0]:
            assert any(a <= t < b for a, b in found)


@pytest.mark.parametrize(
    ("condition", "past", "now"),
    [
        ("date_part('doy', h.ts) = date_part('doy', n.ts)", ["2018-12-31 08:00"], ["2018-12-31 09:00"]),
        ("extract(epoch FROM h.ts) < extract(epoch FROM n.ts)", ["2018-12-31 08:00"], ["2018-12-31 09:00"]),
        # The last days of a year can be in week 1.
        ("week(h.ts) = 52", ["2018-12-28 08:00", "2018-12-29 08:00", "2018-12-31 08:00"], ["2018-12-31 09:00"]),
        # A month before 31 March at eight is earlier than a month before 30 March at noon.
        (
            "h.ts >= n.ts - INTERVAL 1 MONTH AND h.ts < n.ts",
            ["2026-02-28 09:00", "2026-02-28 10:00"], ["2026-03-30 12:00", "2026-03-31 08:00", "2026-03-31 10:30"],
        ),
    ],
)  # fmt: skip
def test_the_calendar_prunes_no_row_that_is_admitted(condition: str, past: list[str], now: list[str]) -> None:
    """Pruning by the bounds of the past and of now, where neither weeks of a year nor months ascend."""
    relation = bound(
        f"SELECT ISTREAM(n.a) FROM s [NOW] n JOIN s [RANGE 400 DAYS] h ON h.a = n.a AND {condition}",
        stream("s", a="INTEGER"),
    )
    [probe] = relation.probes
    rows = [
        f"(SELECT unnest({times})::TIMESTAMP AS ts, 1 AS a) AS {name}"
        for name, times in (("probed", past), ("driver", now))
    ]
    db = connection()
    assert db.sql(f"SELECT count(*) FROM {rows[0]}, {rows[1]} WHERE {probe.condition}").fetchall() != [(0,)]
    bounds = (
        "min(probed.ts) AS h_lo, max(probed.ts) AS h_hi, min(driver.ts) AS d_lo, max(driver.ts) AS d_hi"
        f" FROM {rows[0]}, {rows[1]}"
    )
    assert db.sql(f"SELECT coalesce(({probe.may}), true) FROM (SELECT {bounds})").fetchall() == [(True,)]


def test_the_same_hour_of_seven_days_is_seven_hours() -> None:
    relation = bound(
        "SELECT ISTREAM(n.a) FROM s [NOW] n JOIN s [RANGE 8 DAYS] h ON h.a = n.a AND hour(h.ts) = hour(n.ts)"
        " AND h.ts < date_trunc('day', n.ts) AND h.ts >= date_trunc('day', n.ts) - INTERVAL 7 DAYS",
        stream("s", a="INTEGER"),
    )
    first = 20_000 * DAY + 17 * HOUR
    found = stretches(connection(), relation.probes[0].may, first - 8 * DAY, first + HOUR, first + 5, first + HOUR - 5)
    assert found == [(first - k * DAY, first - k * DAY + HOUR) for k in range(7, 0, -1)]


def test_what_is_read_is_what_the_conditions_admit(tmp_path: Path) -> None:
    """Files of an hour each: a live row reads the files of its hour on seven days, and nothing of the others."""
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a INTEGER) WITH (event_time='ts')")
        for hour in (24 * day + hour for day in range(9) for hour in (2, 3, 4)):
            pond.ingest("s", [{"ts": BASE + dt.timedelta(hours=hour, minutes=m), "a": m} for m in range(0, 60, 5)])
            pond.step()
        pond.sql(
            "CREATE QUERY q AS SELECT ISTREAM(n.a) FROM s [NOW] n WHERE 7 = (SELECT count(DISTINCT CAST(h.ts AS DATE))"
            " FROM s [RANGE 8 DAYS] h WHERE h.a = n.a AND hour(h.ts) = hour(n.ts)"
            " AND h.ts < date_trunc('day', n.ts) AND h.ts >= date_trunc('day', n.ts) - INTERVAL 7 DAYS)"
            " WITH (revise_for='0 s')"
        )
        pond.drain()
        pond.ingest("s", [{"ts": BASE + dt.timedelta(days=9, hours=3, minutes=m), "a": m} for m in (0, 5, 7, 59)])
        pond.step()
        # The last row of the day before has waited for progress: for that another seven are read.
        assert pond.status()["last_epochs"][-1]["scans"]["groups"] == 7 + 7
        lines = [line for (line,) in pond.sql("EXPLAIN q").rows()]
        assert any("7 stretches of the past, 7h of 8d" in line for line in lines)
        assert any(line.startswith("files that hold them: 7 of") for line in lines)
        pond.drain(final=True)
        assert [a for _, a, _ in pond.sql("SELECT * FROM q").rows()] == [55, 0, 5]
        state = pond._core.storage.state.segments
        assert sum(s.rows for s in state) < 10, "the past is not kept again"
