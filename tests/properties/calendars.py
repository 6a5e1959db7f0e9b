"""Random windows of calendars, and streams whose hours lie around the odd changes of clocks that zones have had."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from hypothesis import strategies as st

from tests.oracle import Case, Row
from tests.oracle.calendars import Dated
from tests.properties.queries import BOUNDED, HOLISTIC, ORDERED, cases
from tests.properties.streams import Drawn, streams

HOUR = 3_600_000_000
_EPOCH = dt.datetime(1970, 1, 1)

#: Zones, and days around which their clocks were set: at midnight in Havana and São Paulo, by half an hour on Lord
#: Howe, by a whole day in Apia; and days before 1970, when offsets were odd.
CHANGES = {
    "UTC": ("2024-02-28",),
    "Europe/Berlin": ("2024-03-30", "2024-10-26", "1892-12-31"),
    "America/New_York": ("2024-03-09", "2024-11-02"),
    "Australia/Sydney": ("2024-04-06", "2024-10-05"),
    "Australia/Lord_Howe": ("2024-04-06", "2024-10-05"),
    "America/Havana": ("2024-03-09", "2024-11-02"),
    "Pacific/Apia": ("2011-12-29", "1892-07-03"),
    "America/Sao_Paulo": ("2018-11-03", "2019-02-16"),
    "Asia/Kathmandu": ("1985-12-31", "2024-02-28"),
}


@st.composite
def zoned_streams(draw: st.DrawFn, max_rows: int = 16) -> tuple[Drawn, str]:
    """A stream in steps of some hours around a change of the clocks, and the zone."""
    zone = draw(st.sampled_from(sorted(CHANGES)))
    base = (dt.datetime.fromisoformat(draw(st.sampled_from(CHANGES[zone]))) - _EPOCH) // dt.timedelta(microseconds=1)
    step = draw(st.sampled_from((1, 7, 31))) * HOUR
    stream = draw(streams(max_rows, gaps=False))
    rows = [Row(base + (r.time - stream.base) * step // stream.unit - step, r.intake, r.values) for r in stream.rows]
    return Drawn(tuple(rows), step, base), zone


@st.composite
def dated(draw: st.DrawFn, zone: str) -> Dated:
    """Windows that tumble, slide or grow, by days, weeks or months."""
    origins = (None, None, dt.datetime(2024, 1, 1, 6), dt.datetime(2000, 1, 31, 2, 30), dt.datetime(1999, 12, 3))
    origin, days, months = draw(st.sampled_from(origins)), draw(st.integers(1, 8)), draw(st.sampled_from((1, 2, 3, 12)))
    kind = draw(st.sampled_from(("tumbling", "sliding", "months by days", "growing", "month to date")))
    if kind == "growing":
        step = draw(st.integers(1, 3))
        return draw(
            st.sampled_from(
                (
                    Dated((step * draw(st.integers(1, 4)), "days"), (step, "days"), zone, origin, True),
                    Dated((step * draw(st.integers(1, 4)), "months"), (step, "months"), zone, origin, True),
                )
            )
        )
    if kind == "month to date":
        return Dated((months, "months"), (1, "days"), zone, origin, True)
    if kind == "months by days":
        return Dated((draw(st.sampled_from((1, 2))), "months"), (days, "days"), zone, origin)
    span = draw(st.sampled_from(((1, "days"), (7, "days"), (days, "days"), (months, "months"))))
    other = draw(st.integers(1, 8)) if span[1] == "days" else draw(st.integers(1, 4))
    return Dated(span, span if kind == "tumbling" else (other, span[1]), zone, origin)


@st.composite
def dated_cases(
    draw: st.DrawFn, drawn: tuple[Drawn, str], pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED, extra: bool = True
) -> Case:
    """A query over windows of a calendar."""
    stream, zone = drawn
    case = draw(cases(stream.unit, pool, extra=extra))
    return replace(case, range_us=0, slide_us=1, origin_us=0, align_start=False, dated=draw(dated(zone)))
