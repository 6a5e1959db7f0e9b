"""Windows that grow from a local time of each day, over the changes of clocks of many zones, against `zoneinfo`."""

import bisect
import datetime as dt
from zoneinfo import ZoneInfo

import pytest

STEP = 15 * 60 * 1_000_000
EPOCH = dt.datetime(1970, 1, 1)

#: A zone, the local time, and the days around a change: skipped and doubled hours and half hours, skipped midnights, a
#: day that never was.
CASES = [
    ("America/New_York", "02:30", "2026-03-07", "2026-03-10"),
    ("America/New_York", "01:30", "2026-10-31", "2026-11-03"),
    ("Australia/Sydney", "02:30", "2024-04-06", "2024-04-09"),
    ("Australia/Lord_Howe", "02:00", "2024-04-05", "2024-04-08"),
    ("Australia/Lord_Howe", "02:15", "2024-10-05", "2024-10-08"),
    ("America/Sao_Paulo", "00:00", "2018-11-02", "2018-11-06"),
    ("America/Havana", "00:00", "2024-03-09", "2024-03-12"),
    ("America/Havana", "00:30", "2024-11-02", "2024-11-05"),
    ("Pacific/Apia", "06:00", "2011-12-28", "2012-01-02"),
    ("Africa/Casablanca", "02:30", "2024-03-09", "2024-03-12"),
]


def micros(when):
    return (when - EPOCH) // dt.timedelta(microseconds=1)


def landmarks(zone, clock, low, high):
    """The instants of a local time: the first of two; one that is skipped is read with the offset before the change."""
    day, found = low.date() - dt.timedelta(days=3), set()
    while day < high.date() + dt.timedelta(days=3):
        local = dt.datetime.combine(day, dt.time.fromisoformat(clock), ZoneInfo(zone))
        found.add(micros(local.astimezone(dt.UTC).replace(tzinfo=None)))
        day += dt.timedelta(days=1)
    return sorted(found)


def grown(times, marks):
    """Rows of each window that has a row since its landmark and ends at or before the next one, by end."""
    ends = {}
    for number, time in enumerate(times):
        following = marks[bisect.bisect_right(marks, time)]
        for end in range((time // STEP + 1) * STEP, following + 1, STEP):
            ends.setdefault(end, []).append(number)
    return ends


def test_days_begin_when_local_clocks_say_so(inline_pond):
    pond, expected = inline_pond(), {}
    for number, (zone, clock, first, last) in enumerate(CASES):
        low, high = dt.datetime.fromisoformat(first), dt.datetime.fromisoformat(last)
        marks = landmarks(zone, clock, low, high)
        near = [mark + d for mark in marks for d in (-1, 0, 1) if micros(low) <= mark + d < micros(high)]
        times = sorted({*range(micros(low), micros(high), 3 * STEP), *near})
        until = (times[-1] // STEP + 1) * STEP
        expected[number] = {end: (len(rows), sum(rows)) for end, rows in grown(times, marks).items() if end <= until}
        pond.sql(f"""
            CREATE STREAM s{number} (ts TIMESTAMP, n INTEGER) WITH (event_time='ts');
            CREATE QUERY q{number} AS SELECT count(*) AS c, sum(n)::BIGINT AS x
                FROM s{number} [RANGE ALL SINCE '{clock}' DAILY ZONE '{zone}' SLIDE 15 MINUTES]
        """)
        pond.ingest(f"s{number}", {"ts": [EPOCH + dt.timedelta(microseconds=t) for t in times], "n": range(len(times))})
    pond.drain(final=True)
    for number, case in enumerate(CASES):
        rows = pond.sql(f"SELECT window_end, c, x FROM q{number}").rows()
        found = {micros(end): (count, total) for end, count, total in rows}
        until = max(expected[number])
        assert {end: row for end, row in found.items() if end <= until} == expected[number], case


@pytest.mark.parametrize(
    ("zone", "clock", "day", "begins"),
    [
        (
            "America/New_York",
            "02:30",
            "2026-03-08",
            "2026-03-08 07:30",
        ),  # half an hour after 02:00, when it is 03:30
        ("America/New_York", "01:30", "2026-11-01", "2026-11-01 05:30"),  # the first of two
        ("America/Havana", "00:00", "2024-03-10", "2024-03-10 05:00"),  # there is no midnight: the day begins at 01:00
    ],
)
def test_what_a_skipped_or_a_doubled_time_is(inline_pond, zone, clock, day, begins):
    pond = inline_pond()
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP) WITH (event_time='ts');
        CREATE QUERY q AS SELECT count(*) AS c FROM s [RANGE ALL SINCE '{clock}' DAILY ZONE '{zone}' SLIDE 15 MINUTES]
    """)
    start = dt.datetime.fromisoformat(begins)
    assert str(start.date()) == day
    pond.ingest("s", {"ts": [start - dt.timedelta(microseconds=1), start, start + dt.timedelta(minutes=14)]})
    pond.drain(final=True)
    assert pond.sql("SELECT window_start, c FROM q WHERE c = 2 OR window_end = window_start").rows() == [(start, 2)]
