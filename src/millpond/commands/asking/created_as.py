"""SHOW CREATE: the statement that makes a stream, a table or a query as it is now, and reads back as the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millpond import language as lang
from millpond.catalog import Registered, Standing
from millpond.support.errors import QueryError
from millpond.support.sql import quote, text_literal
from millpond.types import QueryOptions, StreamDefinition, StreamOptions, TableDefinition
from millpond.types.durations import duration
from millpond.types.options import StreamTerms, Table, TableTerms, options_of


def stream_as_created(stream: StreamDefinition) -> str:
    """The statement that makes a stream. Raises: QueryError where no statement says all of it."""
    if stream.derived is not None:
        return f"{stream.derived.text}{_altered(stream, stream.derived.text)}"
    if stream.options.source == "system":
        raise QueryError(f"'{stream.name}' is the system's; ALTER SYSTEM SET statistics = true makes it")
    plain = replace(stream, id=0, options=replace(stream.options, added=()))
    for same in (plain, _declared(plain)):  # an event time behind which columns were added is declared where it stands
        terms = _written(options_of(StreamTerms), _stream_terms(same.options))
        text = _create("STREAM", same, terms)
        [statement] = lang.parse(text)
        assert isinstance(statement, lang.CreateStream)
        if statement.definition == same:
            return text
    raise QueryError(f"stream '{stream.name}' has options that this version has no words for")


def _altered(stream: StreamDefinition, text: str) -> str:
    """What ALTER STREAM has changed of a derived stream since the statement that made it, as a statement behind it."""
    [statement] = lang.parse(text)
    assert isinstance(statement, lang.DeriveStream)
    known, kept, design = options_of(StreamTerms), stream.options.retention, stream.options.archive
    terms = [] if design == known["archive"].default else [f"archive = {text_literal(design)}"]
    if kept != statement.retention:
        terms.append(f"retention = {text_literal('forever' if kept is None else duration(kept))}")
    return f";\nALTER STREAM {_name(stream.name)} SET ({', '.join(terms)})" if terms else ""


def _declared(stream: StreamDefinition) -> StreamDefinition:
    """A stream with an event time that options stand for as a generated column among the others."""
    made = tuple(replace(g, event_time="", time_format="") for g in stream.options.generated)
    return replace(stream, options=replace(stream.options, generated=made))


def table_as_created(table: TableDefinition) -> str:
    """The statement that makes a table; of a database without its URI, which nobody is shown."""
    found: dict[str, Any]
    if table.driver:
        found = {"uri": "…", "driver": table.driver, "query": table.query}
    else:
        found = {
            "path": table.path, "format": _format(table.format, table.delimiter), "header": table.header,
            "delimiter": None if table.format != "csv" or table.delimiter in (",", "\t") else table.delimiter,
            "null": table.null, "missing": table.missing,
        }  # fmt: skip
    reload = duration(table.reload) if isinstance(table.reload, int) else table.reload
    found |= {"reload": reload, "valid_from": table.valid_from, "valid_to": table.valid_to}
    if not table.driver and reload == "on change":
        del found["reload"]
    known = options_of(TableTerms)
    return _create("TABLE", table, _written(known, {name: value for name, value in found.items() if value is not None}))


def query_as_created(query: Standing | Registered) -> str:
    """The statement that makes a query."""
    definition = query if isinstance(query, Registered) else query.definition
    [statement] = lang.parse(definition.text)
    assert isinstance(statement, lang.CreateQuery | lang.Select)
    known, options = options_of(QueryOptions), definition.options
    given = {name: each for name in known if (each := getattr(options, name)) != known[name].default}
    terms = _written(known, {name: known[name].kind.shown(value) for name, value in given.items()})
    around = f" WITH ({', '.join(terms)})" if terms else ""
    return f"CREATE QUERY {_name(definition.name)}{around} AS\n{lang.select_text(statement)}"


def _create(kind: str, found: StreamDefinition | TableDefinition, terms: list[str]) -> str:
    options = found.options if isinstance(found, StreamDefinition) else StreamOptions()
    made = {g.column.lower(): f" AS ({g.sql})" for g in options.generated}
    unsaid = {g.column for g in options.generated if g.event_time}
    told = [c for c in found.columns if c.name not in unsaid]
    columns = ",\n".join(f"  {_name(c.name)} {c.type}{made.get(c.name.lower(), '')}" for c in told)
    around = " WITH (\n  " + ",\n  ".join(terms) + "\n)" if terms else ""
    return f"CREATE {kind} {_name(found.name)} (\n{columns}\n){around}"


def _name(name: str) -> str:
    """A name as it is written: in quotes where it would be read as another, or as a word of the language."""
    return name if lang.is_plain_name(name) else quote(name)


def _written(known: Table, given: Mapping[str, Any]) -> list[str]:
    """Options as they are written, those that are as without them left out."""
    shown = {name: value if isinstance(value, str) else known[name].kind.shown(value) for name, value in given.items()}
    return [f"{name} = {text_literal(text)}" for name, text in shown.items() if given[name] != known[name].default]


def _format(format_: str | None, delimiter: str) -> str | None:
    return "tsv" if format_ == "csv" and delimiter == "\t" else format_


def _stream_terms(options: StreamOptions) -> dict[str, Any]:
    """What `WITH (…)` says of a stream, by name."""
    found: dict[str, Any] = {}
    if options.source == "files":
        found |= {"path": options.path, "format": _format(options.format, options.delimiter), "order": options.order}
        found |= {"header": options.header, "null": options.null, "missing": options.missing}
        if options.format in ("csv", None) and options.delimiter not in ("", ",", "\t"):
            found["delimiter"] = options.delimiter
    found["event_time"] = "arrival" if options.time == "arrival_ts" else options.time
    for each in options.generated:
        if each.event_time:
            found |= {"event_time": each.event_time, "time_format": each.time_format}
    found |= _lateness(options)
    for name in ("idle", "ahead", "timer", "lull", "step", "retention"):
        if (span := getattr(options, name)) is not None:
            found[name] = duration(span)
    if options.marks_column is not None:
        found["marks"] = f"column:{options.marks_column}"
    if options.marks_record is not None:
        found["marks"] = f"record:{options.marks_record}"
    if options.marks_by is not None:
        found |= {"marks_by": ", ".join(options.marked_by), "marks_groups": options.marks_groups}
    if "marks" in found:
        found["guard"] = options.guard
    found |= {n: getattr(options, n) for n in ("late", "archive", "archive_at", "seed", "operators")}
    return {name: value for name, value in found.items() if value is not None}


def _lateness(options: StreamOptions) -> dict[str, Any]:
    if options.lateness is not None:
        return {"lateness": duration(options.lateness)}
    if options.lateness_rows is not None:
        return {"lateness": f"{options.lateness_rows} rows"}
    if options.lateness_share is not None:
        share = options.lateness_share
        return {"lateness": "auto" if share == 1 else f"p{100 * share:.10g}"}
    has_marks = options.marks_column is not None or options.marks_record is not None
    return {"ordered": True} if has_marks and not options.marks_only else {}
