"""Options of CREATE STREAM that say where its progress comes from: lateness, timer, steps, the source's own marks."""

from __future__ import annotations

import re
from typing import Any

from sqlglot.errors import ParseError, TokenError

from millpond.language.column_types import TIMES
from millpond.language.dialect import SyntaxFault, new_parser, tokenize
from millpond.language.durations import parse_duration
from millpond.language.option_reader import OptionReader
from millpond.language.places import Source, nearest
from millpond.language.scope import RowScope
from millpond.language.types_of import Item, Typer
from millpond.support.errors import StatementError
from millpond.types import ARRIVAL, Column, StreamDefinition, StreamOptions

#: Groups whose own bounds are kept beside the stream's, and how many may be asked for.
MARKS_GROUPS = 1000
MOST_GROUPS = 100_000

_MARKS = "'column:<timestamp column>' or 'record:<condition>'"


def generator_options(reader: OptionReader, columns: tuple[Column, ...], time: str) -> dict[str, Any]:
    """The fields of `StreamOptions` that say where progress comes from; StatementError where they contradict."""
    found = _lateness(reader)
    timer, lull = reader.span("timer", "1s"), reader.span("lull", "10s")
    if lull is not None and timer is None:
        raise reader.fault("lull is for a stream with a timer", reader.options["lull"].place, "timer='1s', lull='10s'")
    step = reader.span("step", "1 minute")
    if time == ARRIVAL:
        for name in ("timer", "lull", "marks", "lateness"):
            reader.conflict(name, "says nothing on a stream whose progress is its arrival, which the clock announces")
    return {**found, "timer": timer, "lull": lull, "step": step, **_marks(reader, columns, time)}


def _lateness(reader: OptionReader) -> dict[str, Any]:
    """lateness, lateness_rows, lateness_share; none of them means ordered."""
    if reader.boolean("ordered", "lateness" not in reader):
        reader.conflict("lateness", "contradicts ordered=true")
        return {}
    if "lateness" not in reader:
        raise reader.fault("ordered=false needs a lateness", reader.options["ordered"].place, "lateness='5s'")
    what = "a span of time such as '5s', a count such as '100 rows', or an estimate: 'auto', 'p99'"
    return reader.read("lateness", _amount, what) or {}


def _amount(text: str) -> dict[str, Any]:
    if text.strip().lower() == "auto":
        return {"lateness_share": 1.0}
    if share := re.fullmatch(r"\s*p([0-9]{1,4}(?:\.[0-9]+)?)\s*", text, re.IGNORECASE):
        if not 0 < float(share[1]) < 100:
            raise ValueError(f"'{text}' is no percentile")
        return {"lateness_share": float(share[1]) / 100}
    rows = re.fullmatch(r"\s*([0-9_]+)\s*rows?\s*", text, re.IGNORECASE)
    if rows is None and re.search(r"\brows?\b", text, re.IGNORECASE):
        raise ValueError(f"'{text}' is no number of rows")
    if rows:
        count = int(rows[1].replace("_", "") or 0)
        if not 0 <= count < 2**62:
            raise ValueError(f"'{text}' is out of range")
        return {"lateness_rows": count}
    value = parse_duration(text)
    if value < 0:
        raise ValueError(f"'{text}' is negative")
    return {"lateness": value}


def _marks(reader: OptionReader, columns: tuple[Column, ...], time: str) -> dict[str, Any]:
    """The source's own bounds: where they stand, for which groups, and what breaks them."""
    if "marks" not in reader:
        for name in ("marks_by", "marks_groups", "guard"):
            reader.conflict(name, f"is for a stream with marks={_MARKS}")
        return {}
    option = reader.options["marks"]
    kind, _, what = option.value.partition(":")
    kind, what = kind.strip().lower(), what.strip()
    if kind not in ("column", "record") or not what:
        raise reader.fault(
            f"option 'marks' cannot be '{option.value}'", option.value_place, _MARKS,
            nearest(kind, ("column", "record")),
        )  # fmt: skip
    found: dict[str, Any] = {"marks_only": "lateness" not in reader and "ordered" not in reader}
    if kind == "column":
        column = _column(reader, "marks", what, columns)
        if column.type not in TIMES:
            times = [c.name for c in columns if c.type in TIMES and c.name != time]
            raise reader.fault(
                f"column {column.name} is {column.type}, which cannot be a bound on event times", option.value_place,
                "a column of type TIMESTAMP or TIMESTAMPTZ", times[0] if times else "",
            )  # fmt: skip
        if column.name == time:
            raise reader.fault(
                "the event time itself is no bound on what follows", option.value_place,
                "ordered=true, or another column",
            )  # fmt: skip
        found["marks_column"] = column.name
    else:
        found["marks_record"] = _condition(reader, what, columns, time)
    if "marks_by" in reader:
        found["marks_by"] = _column(reader, "marks_by", reader.options["marks_by"].value, columns).name
    else:
        reader.conflict("marks_groups", "is for a stream with marks_by='<column>'")
    groups = reader.read("marks_groups", _groups, "a number of groups such as 1000")
    guard = reader.choice("guard", ("late", "reject"), "late")
    return found | {"marks_groups": MARKS_GROUPS if groups is None else groups, "guard": guard}


def _groups(text: str) -> int:
    if not re.fullmatch(r"[0-9_]+", text) or not 1 <= int(text.replace("_", "") or 0) <= MOST_GROUPS:
        raise ValueError(f"'{text}' is no number of groups between 1 and {MOST_GROUPS}")
    return int(text.replace("_", ""))


def _column(reader: OptionReader, option: str, name: str, columns: tuple[Column, ...]) -> Column:
    """The column that an option names."""
    found = next((c for c in columns if c.name.lower() == name.lower()), None)
    if found is None:
        place = reader.options[option].value_place
        raise reader.fault(f"there is no column '{name}'", place, "a column of the stream",
                           nearest(name, [c.name for c in columns]))  # fmt: skip
    return found


def _condition(reader: OptionReader, text: str, columns: tuple[Column, ...], time: str) -> str:
    """A condition over the stream's columns as DuckDB SQL; faults point at the option's value."""
    place, what = reader.options["marks"].value_place, "record:<a condition over the stream's columns>"
    script = f"SELECT 1 FROM s WHERE {text}"
    try:
        trees = [t for t in new_parser().parse(tokenize(script), script) if t is not None]
        where = trees[0].args.get("where") if len(trees) == 1 else None
        if where is None or set(k for k, v in trees[0].args.items() if v) - {"expressions", "from_", "where"}:
            raise reader.fault("option 'marks': this is no condition", place, what)
        stream = StreamDefinition("s", columns, StreamOptions(time=time))
        source = Source(script)
        rows = RowScope(source, stream, "s")
        item = Item(rows.text(where.this), where.this)
        typer = Typer(source, stream.all_columns, rows.text)
        typer.truth("marks", item, typer.types([item])[0])
    except StatementError as error:
        if error.text != script:
            raise
        raise reader.fault(f"option 'marks': {error.message}", place, error.expected or what, error.nearest) from None
    except (SyntaxFault, ParseError, TokenError, RecursionError, ValueError, IndexError, AttributeError):
        raise reader.fault("option 'marks': the condition cannot be understood", place, what) from None
    return item.sql
