"""Spans of time and timestamps as users write them, in whole microseconds."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from millpond.types.columns import DAY, HOUR, MICROSECOND, MINUTE, SECOND
from millpond.types.instants import micros_of
from millpond.types.window_definitions import CalendarSpan

_MILLISECOND = 1000 * MICROSECOND

#: Every spelling of a unit, lower case, and its length in microseconds.
UNITS: dict[str, int] = {
    **dict.fromkeys(("us", "µs", "usec", "usecs", "microsecond", "microseconds"), MICROSECOND),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), _MILLISECOND),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR),
    **dict.fromkeys(("d", "day", "days"), DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY),
}

#: Units without a fixed length.
CALENDAR_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in ("month", "quarter", "year", "decade", "century", "millennium", "mon", "yr")
    for plural in ("", "s")
)

#: How DuckDB names a unit, by every spelling.
UNIT_NAMES: dict[str, str] = {
    **{u: n for u, length in UNITS.items() for n in UNITS if n.endswith("s") and len(n) > 3 and UNITS[n] == length},
    **{u: u.removesuffix("s") + "s" for u in CALENDAR_UNITS if not u.startswith(("mon", "yr", "century", "centurys"))},
    **dict.fromkeys(("mon", "mons", "month", "months"), "months"),
    **dict.fromkeys(("yr", "yrs"), "years"),
    **dict.fromkeys(("century", "centurys", "centuries"), "centuries"),
    **dict.fromkeys(("millennium", "millenniums", "millennia"), "millennia"),
}

#: Units that a calendar counts, by their spellings: so many days or months.
_CALENDAR: dict[tuple[str, ...], tuple[int, Literal["days", "months"]]] = {
    ("d", "day", "days"): (1, "days"),
    ("w", "week", "weeks"): (7, "days"),
    ("mon", "mons", "month", "months"): (1, "months"),
    ("quarter", "quarters"): (3, "months"),
    ("yr", "yrs", "year", "years"): (12, "months"),
}

#: Days or months in a span of a calendar at most.
_MOST = 100_000

_PART = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([A-Za-zµ]+)\s*(?:,|\band\b)?", re.ASCII | re.IGNORECASE)
_CLOCK = re.compile(r"\s*(\d+):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?\s*")
_LIMIT = 2**62

EXPECTED = "a span of time such as 5 MINUTES, '90 s' or INTERVAL '1 hour 30 minutes'"


def unit_length(unit: str) -> int:
    """Microseconds of one `unit`.

    Raises:
        ValueError: it is no unit, or one of the calendar, which has no fixed length.

    >>> unit_length("MINUTES")
    60000000
    """
    name = unit.lower()
    if name in UNITS:
        return UNITS[name]
    if name in CALENDAR_UNITS:
        raise ValueError(f"{unit} has no fixed length; write it in weeks, days or hours")
    raise ValueError(f"'{unit}' is not a unit of time")


def to_microseconds(amount: str, unit: str) -> int:
    """`amount` times `unit` as whole microseconds; ValueError if that is not whole or out of range.

    >>> to_microseconds("1.5", "ms")
    1500
    """
    value = Fraction(amount.replace("_", "")) * unit_length(unit)
    if value.denominator != 1:
        raise ValueError(f"{amount} {unit} is not a whole number of microseconds")
    if abs(value.numerator) > _LIMIT:
        raise ValueError(f"{amount} {unit} is too long")
    return value.numerator


def at_most(amount: str, unit: str) -> int:
    """As `to_microseconds`, and for months, quarters and years the most that they can be.

    >>> at_most("1", "month") // 86_400_000_000
    31
    """
    span = calendar_span([(amount, unit)]) if unit.lower() in CALENDAR_UNITS else None
    return to_microseconds(amount, unit) if span is None else 31 * DAY * span.count


def calendar_span(parts: Iterable[tuple[str, str]]) -> CalendarSpan | None:
    """A span, as amounts with their units, in whole days or months of a calendar; None where it is none.

    >>> calendar_span([("2", "WEEKS"), ("1", "DAY")]), calendar_span([("24", "HOURS")])
    (CalendarSpan(count=15, unit='days'), None)
    """
    total: dict[str, int] = {}
    for amount, unit in parts:
        size = next((found for names, found in _CALENDAR.items() if unit.lower() in names), None)
        if size is None or not amount.replace("_", "").isdigit():
            return None
        total[size[1]] = total.get(size[1], 0) + int(amount.replace("_", "")) * size[0]
    if len(total) != 1 or not 0 < next(iter(total.values())) <= _MOST:
        return None
    return CalendarSpan(total["days"], "days") if "days" in total else CalendarSpan(total["months"], "months")


def parts_of(text: str) -> list[tuple[str, str]]:
    """A span of time as text, in amounts with their units; empty where it is none.

    >>> parts_of("1 month"), parts_of("00:05"), parts_of("soon")
    ([('1', 'month')], [], [])
    """
    parts, position = [], 0
    while (part := _PART.match(text, position)) is not None:
        parts.append((part[1], part[2]))
        position = part.end()
    return [] if text[position:].strip() else parts


def parse_duration(text: str) -> int:
    """A span of time written as text, in microseconds.

    Raises:
        ValueError: with a message for the user.

    >>> parse_duration("1 hour 30 minutes")
    5400000000
    >>> parse_duration("90s"), parse_duration("00:01:30")
    (90000000, 90000000)
    """
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = clock.groups()
        parts = ((hours, "h"), (minutes, "m"), (seconds or "0", "s"))
        return sum(to_microseconds(amount, unit) for amount, unit in parts)
    total, position = 0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part.end() == position:
            break
        total += to_microseconds(part[1], part[2])
        position = part.end()
    if position == 0 or text[position:].strip():
        raise ValueError(f"'{text}' is not a span of time")
    if abs(total) > _LIMIT:
        raise ValueError(f"'{text}' is too long")
    return total


def interval_text(text: str) -> str:
    """The text of an INTERVAL with units as DuckDB names them; months and years are allowed here.

    Raises:
        ValueError: it is no interval.

    >>> interval_text("1 mon 2h")
    '1 months 2 hours'
    """
    if _CLOCK.fullmatch(text):
        return text.strip()
    parts, position = [], 0
    while (part := _PART.match(text, position)) is not None:
        parts.append(f"{part[1]} {unit_name(part[2])}")
        position = part.end()
    if not parts or text[position:].strip():
        raise ValueError(f"'{text}' is not an interval")
    return " ".join(parts)


def unit_name(unit: str) -> str:
    """DuckDB's name of a unit; ValueError if it is none."""
    if unit.lower() not in UNIT_NAMES:
        raise ValueError(f"'{unit}' is not a unit of time")
    return UNIT_NAMES[unit.lower()]


def parse_timestamp(text: str) -> int:
    """A timestamp as text (ISO 8601; UTC unless it carries an offset) in microseconds since 1970.

    Raises:
        ValueError: it is no timestamp.

    >>> parse_timestamp("1970-01-01 00:00:01")
    1000000
    >>> parse_timestamp("1970-01-01T01:00:00+01:00")
    0
    """
    try:
        value = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"'{text}' is not a timestamp such as '2024-05-01 12:00:00'") from None
    return micros_of(value)


def duration(micros: int) -> str:
    """A duration as text.

    >>> duration(90_000_000), duration(3_600_000_000)
    ('1m 30s', '1h')
    """
    if micros == 0:
        return "0s"
    parts, rest = [], abs(micros)
    for unit, size in (
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1000),
        ("us", 1),
    ):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if micros < 0 else "") + " ".join(parts)


def open_text(range_: int) -> str:
    """How long a range that leaves its end out is, in words; '' for one that does not.

    `[RANGE 1 HOUR OPEN]` is kept as an hour less one microsecond, and times that are written end with no such rest.

    >>> open_text(3_599_999_999)
    '1h'
    """
    return duration(range_ + 1) if range_ % 1_000_000 == 999_999 else ""
