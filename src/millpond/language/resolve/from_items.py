"""What stands behind FROM: a stream with its window, or one relation of answers, tables and side streams."""

from __future__ import annotations

from typing import Literal
from zoneinfo import available_timezones

from sqlglot import exp

from millpond.language.builtins.allowed import REFUSED
from millpond.language.inference.column_types import TIMES
from millpond.language.resolve.expressions import function_name
from millpond.language.resolve.reductions_bound import refuse_reduction
from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import suffix_of, window_of
from millpond.language.syntax.source_text import Source, nearest, own_span
from millpond.language.syntax.window_clause import DATED, WORKS, WindowClause
from millpond.language.syntax.window_functions import WRITTEN
from millpond.types import (
    DAY,
    CalendarSpan,
    CalendarWindow,
    KindWindow,
    Landmark,
    LandmarkWindow,
    QueryDefinition,
    StreamDefinition,
    TableDefinition,
    TimeWindow,
    Window,
)
from millpond.windows.time_zones import zone_of

#: Windows of months that slide by days, and of days.
_ALIKE = "[RANGE 1 MONTH SLIDE 1 DAY ZONE 'Europe/Berlin'], [RANGE 7 DAYS SLIDE 1 DAY ZONE 'Europe/Berlin']"

SIDE_STREAMS = ("late", "dead")


def table_name(table: exp.Table, source: Source) -> str:
    """The name in a FROM item; StatementError for anything but a plain name."""
    if not isinstance(table.this, exp.Identifier) or table.args.get("db") or table.args.get("catalog"):
        raise source.error("names have one part", table, "the name of a stream, table or query")
    return table.name


def find(schema: Schema, table: exp.Table, source: Source) -> StreamDefinition | TableDefinition | QueryDefinition:
    """What the FROM item names."""
    name = table_name(table, source)
    found = schema.lookup(name)
    if found is None and (reason := schema.missing(name)):
        raise source.error(reason, table.this)
    if found is None:
        like = nearest(name, schema.names())
        raise source.error(f"there is no stream, table or query '{name}'", table.this, like=like)
    return found


def side_stream(table: exp.Table, source: Source) -> tuple[Literal["late", "dead"], exp.Identifier] | None:
    """('late' or 'dead', the stream's name) for `late(s)` and `dead(s)`; None for a plain name."""
    call = table.this
    if not isinstance(call, exp.Anonymous):
        if isinstance(call, exp.Func):
            raise _no_table_function(call, source)
        return None
    name = function_name(call)
    if isinstance(call.this, exp.Identifier) or name not in SIDE_STREAMS:
        raise _no_table_function(call, source)
    argument = call.expressions[0] if len(call.expressions) == 1 else None
    if (
        not isinstance(argument, exp.Column)
        or len(argument.parts) != 1
        or not isinstance(argument.this, exp.Identifier)
    ):
        raise source.error(f"{name} takes the name of a stream", call, f"{name}(stream)")
    return ("late" if name == "late" else "dead"), argument.this


def _no_table_function(call: exp.Expr, source: Source) -> Exception:
    name = function_name(call)
    reason = f"function {name} is refused: {REFUSED[name]}" if name in REFUSED else f"there is no table function {name}"
    works = WRITTEN.get(name.upper(), "the name of a stream, table or query, late(s) or dead(s)")
    return source.error(reason, own_span(call), works, nearest(name, SIDE_STREAMS))


def stream_of_side(schema: Schema, name: exp.Identifier, source: Source) -> StreamDefinition:
    """The stream that `late(s)` or `dead(s)` names."""
    found = schema.lookup(name.name)
    if not isinstance(found, StreamDefinition):
        what = f"there is no stream '{name.name}'" if found is None else f"'{name.name}' is not a stream"
        raise source.error(what, name, like=nearest(name.name, schema.names()) if found is None else "")
    return found


def bound_window(table: exp.Table, stream: StreamDefinition, source: Source, schema: Schema) -> Window | None:
    """The window behind a stream's name with its column checked and ALIGN START folded into the origin."""
    clause = window_of(table)
    if clause is None or clause.slide_rows is not None or clause.extent == "session":
        return None  # see `row_window_clauses`
    if clause.extent == "kind":
        check_attribute(clause, stream, source)
        reference, length = _kind(clause, source, schema)
        return KindWindow(reference, length, stream.options.time)
    return time_window(clause, stream, source)


def time_window(
    clause: WindowClause, stream: StreamDefinition, source: Source
) -> TimeWindow | LandmarkWindow | CalendarWindow:
    """A window that slides by time, or by a calendar, or grows from a landmark, as it is bound."""
    if clause.calendar is None:
        return fixed_window(clause, stream, source)
    check_attribute(clause, stream, source)
    return _calendar_window(clause, clause.calendar, stream, source)


def fixed_window(clause: WindowClause, stream: StreamDefinition, source: Source) -> TimeWindow | LandmarkWindow:
    """A window that slides by a fixed time, as it is bound."""
    if clause.extent not in ("range", "all") or clause.slide is None:
        raise source.error("windows of this kind are not available yet", clause.place, WORKS)
    check_attribute(clause, stream, source)
    origin = clause.origin or 0
    if clause.extent == "all":
        return LandmarkWindow(clause.slide, _landmark(clause, source), origin % clause.slide, stream.options.time)
    shift = clause.range % clause.slide if clause.align_start else 0
    return TimeWindow(clause.range, clause.slide, (origin + shift) % clause.slide, stream.options.time)


def _calendar_window(
    clause: WindowClause, spans: tuple[CalendarSpan, CalendarSpan], stream: StreamDefinition, source: Source
) -> CalendarWindow:
    """A window of days or months of a zone's calendar; StatementError where SLIDE and RANGE do not go together."""
    length, step = spans
    _check_zone(clause, source)
    grows, alike = clause.extent == "all", length.unit == step.unit
    if not alike and step.unit == "months":
        raise source.error(f"a window of {length} does not slide by {step}", clause.place, _ALIKE)
    if grows and (length.count % step.count if alike else step.count > 1):
        raise source.error(
            f"windows that begin anew every {length} end there, too: a SLIDE of {step} does not lead to each",
            clause.place, DATED,
        )  # fmt: skip
    counted = length if grows else step
    # Weeks begin with Monday.
    anchor = 4 * DAY if counted.unit == "days" and counted.count % 7 == 0 else 0
    anchor = anchor if clause.origin is None else clause.origin
    if clause.align_start and (shift := length.count % step.count if alike else step.count > 1):
        if not alike or step.unit == "months":
            raise source.error("ALIGN START is for windows whose RANGE is made of whole SLIDEs", clause.place, DATED)
        anchor += shift * DAY
    return CalendarWindow(length, step, clause.zone, anchor, grows, stream.options.time)


def _kind(clause: WindowClause, source: Source, schema: Schema) -> tuple[str, int]:
    """The reference of a registered kind of windows, and how long they are at most."""
    known = schema.window_kinds()
    found = known.get(clause.kind.lower())
    if found is None:
        raise source.error(
            f"there is no window kind '{clause.kind}'", clause.kind_place,
            "one that was registered: pond.register_window_kind(name, kind)", nearest(clause.kind, list(known)),
        )  # fmt: skip
    return found


def other_time(attribute: str, stream: StreamDefinition) -> str:
    """What would work for windows over another column than the event time."""
    column = next((c for c in stream.columns if c.name.lower() == attribute.lower()), None)
    if column is not None and column.type not in TIMES:
        return f"ON {stream.options.time}: '{attribute}' is {column.type}, which is no time"
    return (
        f"ON {stream.options.time}, or a stream by that time: CREATE STREAM x AS SELECT * FROM {stream.name}"
        f" WITH (event_time='{attribute}', lateness='…', since='start'), which such windows then run over"
    )


def check_attribute(clause: WindowClause, stream: StreamDefinition, source: Source) -> None:
    """Refuse windows over anything but the stream's event time."""
    attribute = clause.attribute or stream.options.time
    if attribute.lower() != stream.options.time.lower():
        if stream.column(attribute) is None:
            like = nearest(attribute, [c.name for c in stream.all_columns])
            raise source.error(f"there is no column '{attribute}' in {stream.name}", clause.attribute_place, like=like)
        raise source.error(
            f"'{attribute}' is not the event time of {stream.name}, which windows run over",
            clause.attribute_place,
            other_time(attribute, stream),
        )


def _landmark(clause: WindowClause, source: Source) -> Landmark:
    """The landmark of a window that grows; StatementError for a zone that is none, or hours that a zone would count."""
    _check_zone(clause, source)
    if clause.always:
        assert clause.every is not None
        since = (clause.origin or 0) if clause.months else (clause.origin or 0) % clause.every
        if clause.zone != "UTC" and not clause.months and clause.every % DAY:
            raise source.error("a time zone counts days: EVERY n DAYS, WEEKS or MONTHS", clause.place, DATED)
        return Landmark(since, clause.every, clause.zone, clause.months, True)
    if clause.zone != "UTC" and (clause.every is None or (clause.every % DAY and not clause.months)):
        raise source.error(
            "a time zone counts days: its landmarks come DAILY, WEEKLY or EVERY n DAYS or MONTHS",
            clause.place,
            "[RANGE ALL SINCE '06:00' DAILY ZONE 'Europe/Berlin' SLIDE 1 HOUR]",
        )
    return Landmark(clause.since, clause.every, clause.zone, clause.months)


def _check_zone(clause: WindowClause, source: Source) -> None:
    """Refuse a zone that there is not."""
    try:
        zone_of(clause.zone)
    except ValueError as fault:
        like = nearest(clause.zone, available_timezones())
        raise source.error(str(fault), clause.zone_place, "ZONE 'Europe/Berlin'", like) from None


def of_answers(name: str) -> str:
    """What to write where a query stands in the place of a stream."""
    return f"a stream of its answers: CREATE STREAM x AS SELECT … as {name} has it, then FROM x {WORKS}"


def no_window(table: exp.Table, source: Source, schema: Schema) -> None:
    """Refuse a window or a reduction behind what is no stream, and unions of such."""
    refuse_reduction(table, source, "REDUCE reads less of a stream's past, and this is no stream")
    suffix = suffix_of(table)
    if suffix.union:
        raise source.error(
            "a union in FROM is of streams, with a window in brackets behind it", table,
            f"FROM (a UNION ALL b) {WORKS}; of answers: SELECT … UNION ALL SELECT …",
        )  # fmt: skip
    if (clause := suffix.window or suffix.tolerance) is None:
        return
    found = schema.lookup(table.name) if isinstance(table.this, exp.Identifier) else None
    if isinstance(found, QueryDefinition):
        what = f"'{found.name}' is a query: windows stand behind streams, and its answers are a table"
        works = f"{of_answers(found.name)}; or FROM {found.name} without a window; or CREATE QUERY … of this SELECT"
        raise source.error(what, clause.place, works)
    what = "a window stands behind a stream, and this is none"
    if isinstance(found, TableDefinition):
        what = f"'{found.name}' is a table, which has no time: windows stand behind streams"
    raise source.error(what, clause.place, f"FROM stream {WORKS}")
