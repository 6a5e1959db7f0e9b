"""Where a stream's event time comes from: a column, some of them in a format, an expression, a generated column.

event_time = 'ts'                                    a timestamp column
event_time = 't', time_format = 'ms'                 numbers since 1970
event_time = 'day, time', time_format = '%d.%m.%Y %H:%M'
event_time = 'to_timestamp(t / 10)'                  an expression, which makes the column event_ts
CREATE STREAM s (t BIGINT, ts TIMESTAMP AS (epoch_ms(t)))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from millpond.language.inference.column_types import TIMES
from millpond.language.inference.duck import Refused, describe
from millpond.language.syntax.source_text import nearest
from millpond.language.with_options.option_reader import OptionReader
from millpond.language.with_options.row_expressions import expression_of
from millpond.support.errors import StatementError
from millpond.support.sql import quote, text_literal
from millpond.types import ARRIVAL, COMPUTED, Column, Generated
from millpond.types.options import OptionFault
from millpond.types.options.stream_values import UNITS, TimeFormat

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_SHOWN = 12
_BINARY = ("DOUBLE", "FLOAT")
_DAYS, _CLOCKS = ("DATE", "VARCHAR"), ("TIME", "VARCHAR")
_PARTS = "a DATE and a TIME, or texts of both"
_PLACE = "a column of type TIMESTAMP or TIMESTAMPTZ"
_ANY = "a timestamp column, or 'arrival'"


@dataclass(frozen=True)
class Written:
    """A column as it is declared: what makes it ('': sources give it), and where that stands in the script."""

    column: Column
    made: str = ""
    place: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class EventTime:
    """The event-time column, and the column that is made for it; None: it is there."""

    column: str
    generated: Generated | None = None


def generated(columns: Sequence[Written], script: str) -> tuple[Generated, ...]:
    """The generated columns of a declaration.

    Raises: StatementError: an expression is wrong, or does not fit its column.
    """
    given = tuple(w.column for w in columns if not w.made)
    found = []
    for each in (w for w in columns if w.made):
        try:
            sql, kind = expression_of(each.made, given)
            expression_of(f"CAST({each.made} AS {each.column.type})", given)
        except OptionFault as fault:
            what = f"column {each.column.name}: {fault.message}"
            hint = fault.expected or "an expression over the columns that are given"
            raise StatementError(what, script, *each.place, hint, fault.nearest) from None
        found.append(Generated(each.column.name, f"CAST({sql} AS TIMESTAMP)" if _zoned(kind, each.column) else sql))
    return tuple(found)


def _zoned(kind: str, column: Column) -> bool:
    return kind == TIMES[1] and column.type != TIMES[1]


def event_time(reader: OptionReader, columns: tuple[Column, ...], made: Sequence[Generated]) -> EventTime:
    """What `event_time` and `time_format` name, or the only timestamp column.

    Raises: StatementError: it cannot be an event time.
    """
    if "event_time" not in reader:
        reader.conflict("time_format", "is for a stream with an event_time='<column>'")
        times = [c for c in columns if c.type in TIMES]
        if len(times) == 1:
            return EventTime(times[0].name)
        found = f"there are {len(times)} timestamp columns" if times else "there is no timestamp column"
        those = times or columns
        there = ", ".join(f"{c.name} {c.type}" for c in those[:_SHOWN])
        more = f" and {len(those) - _SHOWN} more" if len(those) > _SHOWN else ""
        raise reader.fault(
            f"which column is the event time? {found} ({there}{more})", reader.place,
            "event_time='<column>', with time_format='ms', '%d.%m.%Y %H:%M:%S' or the like where it is no timestamp;"
            " or event_time='arrival' for the time of arrival",
        )  # fmt: skip
    named: str = reader.value("event_time")
    parts = [p.strip().strip('"') for p in named.split(",")]
    known = {c.name.lower(): c for c in columns}
    found_columns = [known[p.lower()] for p in parts if p.lower() in known]
    if len(found_columns) < len(parts):
        return _no_column(reader, named, parts, columns, made)
    (first, *rest), form = found_columns, reader.value("time_format")
    if not rest and first.type in TIMES and form in ("", "iso"):
        return EventTime(first.name)
    return _computed(reader, columns, _formatted(reader, columns, found_columns, form))


def patterned(reader: OptionReader) -> tuple[str, ...]:
    """The columns that a pattern of `time_format` is for, which must be text."""
    if "event_time" not in reader or reader.value("time_format") in ("", "iso", *UNITS):
        return ()
    named: str = reader.value("event_time")
    return tuple(p.strip().strip('"') for p in named.split(","))


def _no_column(
    reader: OptionReader, named: str, parts: Sequence[str], columns: tuple[Column, ...], made: Sequence[Generated]
) -> EventTime:
    """The event time that is no column: of arrival, or an expression."""
    place = reader.place_of("event_time")
    if named.lower() == "arrival":
        clash = next((c for c in columns if c.name.lower() == ARRIVAL), None)
        if clash:
            raise reader.fault(f"column {clash.name} has the name of the arrival time", place)
        reader.conflict("time_format", "says nothing of the time of arrival")
        return EventTime(ARRIVAL)
    names = [c.name for c in columns]
    wrong = next((p for p in parts if p.lower() not in {n.lower() for n in names}), "")
    if all(re.fullmatch(r"\w+", p) for p in parts):
        raise reader.fault(f"there is no column '{wrong}'", place, _ANY, nearest(wrong, [*names, "arrival"]))
    reader.conflict("time_format", "is for columns, and this is an expression, which can say it itself")
    given = tuple(c for c in columns if c.name.lower() not in {g.column.lower() for g in made})
    try:
        sql, kind = expression_of(named, given)
    except OptionFault as fault:
        raise reader.fault(f"option 'event_time': {fault.message}", place, fault.expected, fault.nearest) from None
    if kind not in (*TIMES, "DATE"):
        hint = "an expression that gives a TIMESTAMP, such as 'epoch_ms(t)'"
        raise reader.fault(f"this is {kind}, which cannot be an event time", place, hint)
    return _computed(reader, columns, sql)


def _computed(reader: OptionReader, columns: tuple[Column, ...], sql: str) -> EventTime:
    clash = next((c.name for c in columns if c.name.lower() == COMPUTED), None)
    if clash:
        raise reader.fault(
            f"column {clash} has the name of an event time that is computed", reader.place_of("event_time"),
            "another name, or ts TIMESTAMP AS (…) among the columns",
        )  # fmt: skip
    written, _ = expression_of(f"CAST({sql} AS TIMESTAMP)", columns)  # as it would be written among the columns
    made = Generated(COMPUTED, written, reader.value("event_time"), reader.value("time_format"))
    return EventTime(COMPUTED, made)


def _formatted(reader: OptionReader, every: Sequence[Column], columns: Sequence[Column], form: str) -> str:
    """SQL of what columns mean in a format."""
    names, kinds = [quote(c.name) for c in columns], [c.type for c in columns]
    if form in UNITS:
        if len(columns) > 1 or not (_is_number(kinds[0]) or kinds[0] == "VARCHAR"):
            place = reader.place_of("time_format")
            what = f"time_format='{form}' is for one column of numbers, not for {' and '.join(kinds)}"
            raise reader.fault(what, place, TimeFormat().expected)
        return _since_1970(names[0], kinds[0], form)
    if form in ("", "iso"):
        _check_iso(reader, every, columns)
        return " + ".join(names) if kinds == ["DATE", "TIME"] else f"CAST({_joined(columns)} AS {TIMES[1]})"
    _check_pattern(reader, columns, form)
    return f"strptime({_joined(columns)}, {text_literal(form)})"


def _is_number(kind: str) -> bool:
    return kind in (*_WHOLE, *_BINARY) or "DECIMAL" in kind


def _joined(columns: Sequence[Column]) -> str:
    """SQL of columns as one text, with blanks between them."""
    return " || ' ' || ".join(
        quote(c.name) if c.type == "VARCHAR" else f"CAST({quote(c.name)} AS VARCHAR)" for c in columns
    )


def _check_iso(reader: OptionReader, every: Sequence[Column], columns: Sequence[Column]) -> None:
    """See that columns, which no unit and no pattern is said of, can be a time. Raises: StatementError."""
    first, *rest = columns
    place = reader.place_of("event_time")
    if _is_number(first.type) and not rest:
        message = f"column {first.name} is {first.type}: in which unit does it count?"
        raise reader.fault(message, place, "time_format='s', 'ms', 'us' or 'ns' beside it")
    if rest:
        if first.type not in _DAYS or any(c.type not in _CLOCKS for c in rest):
            named = " and ".join(f"{c.name} is {c.type}" for c in columns)
            like = next((c.name for c in columns if c.type in TIMES), "")
            raise reader.fault(f"{named}, which make no event time together", place, _PARTS, like)
    elif first.type not in ("DATE", "VARCHAR"):
        message = f"column {first.name} is {first.type}, which cannot be an event time"
        raise reader.fault(message, place, _PLACE, next((c.name for c in every if c.type in TIMES), ""))


def _check_pattern(reader: OptionReader, columns: Sequence[Column], form: str) -> None:
    """See that a pattern is one, and that columns are written as it says. Raises: StatementError."""
    place = reader.place_of("time_format")
    read = next((c for c in columns if c.type in (*TIMES, "DATE", "TIME")), None)
    if read is not None:
        what = f"column {read.name} is {read.type}, which is read before a pattern could be"
        raise reader.fault(what, place, f"{read.name} TEXT among the columns, or no time_format")
    try:
        describe(f"SELECT strptime('', {text_literal(form)})")
    except Refused as refused:
        what = f"'{form}' is no pattern of times: {refused.reason}"
        raise reader.fault(what, place, TimeFormat().expected) from None


def _since_1970(name: str, kind: str, unit: str) -> str:
    """SQL of a number of units as a timestamp.

    Of exact numbers what is finer than a microsecond is cut, before 1970 too; a binary one, which is next to what was
    meant, gives the microsecond that is next to it. The whole part and the fraction go apart, where both are exact.
    """
    per = {"s": 1_000_000, "ms": 1_000, "us": 1}
    exact = {"VARCHAR": f"CAST({name} AS DECIMAL(38, 18))", "FLOAT": f"CAST({name} AS DOUBLE)"}.get(kind, name)
    is_whole, is_binary = kind in _WHOLE, kind in _BINARY
    number = f"CAST({exact if is_whole else f'floor({exact})'} AS HUGEINT)"
    if unit not in per:
        nanos = f"({number} + 500)" if is_binary else number
        return f"make_timestamp(CAST(({nanos} - (({nanos} % 1000) + 1000) % 1000) // 1000 AS BIGINT))"
    micros = f"{number} * {per[unit]}"
    if not is_whole:
        step = "round" if is_binary else "floor"
        micros += f" + CAST({step}(({exact} - floor({exact})) * {per[unit]}) AS HUGEINT)"
    return f"make_timestamp(CAST({micros} AS BIGINT))"


__all__ = ["EventTime", "Written", "event_time", "generated", "patterned"]
