"""Options of CREATE STREAM that say where its progress comes from: lateness, timer, steps, the source's own marks."""

from __future__ import annotations

from typing import Any

from millpond.language.inference.column_types import TIMES
from millpond.language.syntax.source_text import nearest
from millpond.language.with_options.option_reader import OptionReader
from millpond.language.with_options.row_expressions import condition_of
from millpond.types import ARRIVAL, Column
from millpond.types.options import OptionFault
from millpond.types.options.stream_values import Lateness, Mark


def generator_options(reader: OptionReader, columns: tuple[Column, ...], time: str) -> dict[str, Any]:
    """The fields of `StreamOptions` that say where progress comes from; StatementError where they contradict."""
    found = _lateness(reader)
    timer, lull = reader.value("timer"), reader.value("lull")
    if lull is not None and timer is None:
        raise reader.fault("lull is for a stream with a timer", reader.options["lull"].place, "timer='1s', lull='10s'")
    step = reader.value("step")
    if time == ARRIVAL:
        for name in ("timer", "lull", "marks", "lateness"):
            reader.conflict(name, "says nothing on a stream whose event time is its arrival, which the clock announces")
    return {**found, "timer": timer, "lull": lull, "step": step, **_marks(reader, columns, time)}


def _lateness(reader: OptionReader) -> dict[str, Any]:
    """lateness, lateness_rows, lateness_share; none of them means ordered."""
    ordered: bool | None = reader.value("ordered")
    lateness: Lateness | None = reader.value("lateness")
    if ordered if ordered is not None else lateness is None:
        reader.conflict("lateness", "contradicts ordered=true")
        return {}
    if lateness is None:
        raise reader.fault("ordered=false needs a lateness", reader.options["ordered"].place, "lateness='5s'")
    return {"lateness": lateness.time, "lateness_rows": lateness.rows, "lateness_share": lateness.share}


def _marks(reader: OptionReader, columns: tuple[Column, ...], time: str) -> dict[str, Any]:
    """The source's own bounds: where they stand, for which groups, and what breaks them."""
    mark: Mark | None = reader.value("marks")
    if mark is None:
        for name in ("marks_by", "marks_groups", "guard"):
            reader.conflict(name, f"is for a stream with marks={reader.known['marks'].kind.expected}")
        return {}
    found: dict[str, Any] = {"marks_only": "lateness" not in reader and "ordered" not in reader}
    place = reader.place_of("marks")
    if mark.kind == "column":
        column = _column(reader, "marks", mark.what, columns)
        if column.type not in TIMES:
            times = [c.name for c in columns if c.type in TIMES and c.name != time]
            raise reader.fault(
                f"column {column.name} is {column.type}, which cannot be a bound on event times", place,
                "a column of type TIMESTAMP or TIMESTAMPTZ", times[0] if times else "",
            )  # fmt: skip
        if column.name == time:
            raise reader.fault(
                "the event time itself is no bound on what follows", place,
                "ordered=true, or another column",
            )  # fmt: skip
        found["marks_column"] = column.name
    else:
        found["marks_record"] = _condition(reader, mark.what, columns, time)
    if "marks_by" in reader:
        names = [name.strip() for name in reader.value("marks_by").split(",")]
        first, *more = [_column(reader, "marks_by", name, columns).name for name in names]
        found |= {"marks_by": first, "marks_also": tuple(more)}
    else:
        reader.conflict("marks_groups", "is for a stream with marks_by='<column>'")
    return found | {"marks_groups": reader.value("marks_groups"), "guard": reader.value("guard")}


def _column(reader: OptionReader, option: str, name: str, columns: tuple[Column, ...]) -> Column:
    """The column that an option names."""
    found = next((c for c in columns if c.name.lower() == name.lower()), None)
    if found is None:
        raise reader.fault(f"there is no column '{name}'", reader.place_of(option), "a column of the stream",
                           nearest(name, [c.name for c in columns]))  # fmt: skip
    return found


def _condition(reader: OptionReader, text: str, columns: tuple[Column, ...], time: str) -> str:
    """A condition over the stream's columns as DuckDB SQL; faults point at the option's value."""
    place, what = reader.place_of("marks"), "record:<a condition over the stream's columns>"
    try:
        return condition_of(text, columns, time)
    except OptionFault as fault:
        raise reader.fault(f"option 'marks': {fault.message}", place, fault.expected or what, fault.nearest) from None
