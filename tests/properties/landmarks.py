"""Random queries with windows that grow from landmarks, and streams whose hours lie around changes of the clocks."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tests.oracle import Case, Row, Since
from tests.properties.queries import BOUNDED, HOLISTIC, ORDERED, cases
from tests.properties.streams import Drawn, streams

HOUR = 3_600_000_000

#: Two days before clocks change in Europe/Berlin, and in America/New_York.
CHANGES = (1_711_670_400_000_000, 1_729_814_400_000_000, 1_709_942_400_000_000, 1_730_419_200_000_000)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")


@st.composite
def hourly_streams(draw: st.DrawFn, max_rows: int = 16) -> Drawn:
    """A stream in steps of hours over some forty of them, around a change of the clocks."""
    stream, base = draw(streams(max_rows, gaps=False)), draw(st.sampled_from(CHANGES))
    rows = [Row(base + (r.time - stream.base) * HOUR // stream.unit, r.intake, r.values) for r in stream.rows]
    return Drawn(tuple(rows), HOUR, base)


@st.composite
def landmarks(draw: st.DrawFn, stream: Drawn) -> Since:
    """Since the start of the stream, an instant, instants that come again, a time of day."""
    unit, first = stream.unit, stream.base + draw(st.integers(-3, 20)) * stream.unit
    kind = draw(st.sampled_from(["all", "at", "every", "daily"] if unit >= 60_000_000 else ["all", "at", "every"]))
    if kind == "all":
        return Since()
    if kind == "at":
        return Since(at=first)
    if kind == "every":  # named by a date, or else it would be there on every day
        return Since(at=first, every=draw(st.integers(1, 12)) * unit) if first >= 86_400_000_000 else Since(at=first)
    zone = draw(st.sampled_from(ZONES)) if stream.base > 10**15 else "UTC"
    return Since(daily_at=draw(st.sampled_from([0, 6 * HOUR, 150 * HOUR // 60, 23 * HOUR + 1_800_000_000])), zone=zone)


@st.composite
def landmark_cases(
    draw: st.DrawFn,
    stream: Drawn,
    pool: tuple[str, ...] = BOUNDED + HOLISTIC + ORDERED,
    limits: bool = True,
    extra: bool = True,
) -> Case:
    """A query over windows that grow."""
    drawn = draw(cases(stream.unit, pool, limits=limits, extra=extra))
    slide = draw(st.sampled_from([1, 1, 2, 3, 7])) * stream.unit
    since = draw(landmarks(stream))
    return replace(drawn, range_us=0, slide_us=slide, origin_us=0, align_start=False, since=since)
