"""What `WITH (…)` behind CREATE STREAM, CREATE STREAM … AS and ALTER STREAM … SET says, as it is written.

Which columns there are, and what goes with what, the language knows: it makes `StreamOptions` of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from millpond.types.options.declared import Table, option, options_of
from millpond.types.options.query_options import QueryOptions
from millpond.types.options.stream_values import (
    Allowance,
    ArchiveDesign,
    AskedOperators,
    Delimiter,
    Lateness,
    Mark,
    Marks,
    Retention,
    StorePlace,
    TimeFormat,
)
from millpond.types.options.value_kinds import Boolean, Choice, Span, Text, Whole

Format = Literal["parquet", "csv", "ndjson"]

#: Formats as they may be called, which are ends of names of files, too.
FORMATS: dict[str, Format] = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "csv",
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "ndjson",
}

_COLUMN = Text("a column of the stream")


@dataclass(frozen=True)
class FileTerms:
    """Options of streams and tables that read files."""

    path: str = option("", Text("path='folder/*.parquet'"), "a file, a folder or a glob, which may grow")
    format: str = option("", Choice(tuple(FORMATS)), "of the files; by default as their names end")
    header: bool = option(True, Boolean(), "whether the first line of CSV has the names of columns")
    delimiter: str | None = option(
        None, Delimiter(), "what stands between values of CSV; by default a comma, in TSV a tab"
    )
    null: str = option("", Text(), "the text that is NULL in CSV")
    missing: Literal["error", "null"] = option(
        "error",
        Choice(("error", "null")),
        "what a file without a declared column is: refused whole, or NULL there",
        live=True,
    )


@dataclass(frozen=True)
class StreamTerms(FileTerms):
    """Options of CREATE STREAM with columns."""

    source: Literal["files", "ingest"] | None = option(
        None, Choice(("files", "ingest")), "where rows come from; by default files when a path is given"
    )
    order: Literal["name", "mtime"] = option(
        "name", Choice(("name", "mtime")), "in which order files are taken: by name or by time of change"
    )
    event_time: str = option(
        "",
        Text("a column, two columns ('day, time'), an expression, or 'arrival'"),
        "where a row's event time stands, or what makes it; by default the only timestamp column",
    )
    time_format: str = option("", TimeFormat(), "how the event time is written where it is no timestamp")
    ordered: bool | None = option(
        None, Boolean(), "whether every row is as new as the newest seen, or late; by default without a lateness"
    )
    lateness: Lateness | None = option(None, Allowance(), "how far a row may lag behind the newest one")
    idle: int | None = option(
        None, Span("30s"), "a source that is silent for so long, of clock time, holds nothing up; by default never"
    )
    timer: int | None = option(None, Span("1s"), "how often the watermark is told, of clock time; by default at once")
    lull: int | None = option(None, Span("10s"), "how far behind the clock the watermark stays when nothing comes")
    step: int | None = option(None, Span("1 minute"), "the watermark moves by multiples of so much event time only")
    marks: Mark | None = option(None, Marks(), "where the source's own bounds on what follows stand")
    marks_by: str = option(
        "",
        Text("a column of the stream, or some: 'a, b'"),
        "the bounds are for rows with the same values in these columns",
    )
    marks_groups: int = option(
        1000, Whole("a number of groups such as 1000", most=100_000), "how many such groups are kept"
    )
    guard: Literal["late", "reject"] = option(
        "late", Choice(("late", "reject")), "what a row does that lies behind a bound which its own source gave"
    )
    ahead: int | None = option(
        None, Span("10 minutes"), "rows that lead the others by more are dead letters; by default there is no limit"
    )
    late: Literal["revise", "drop"] = option(
        "revise",
        Choice(("revise", "drop")),
        "what a row behind the watermark does: change the answers it belongs to, or go to late(stream)",
    )
    retention: int | None = option(None, Retention("90d"), "how long rows are kept; by default for ever", live=True)
    archive: str = option("plain", ArchiveDesign(), "how the past lies on disk, and for how long", live=True)
    archive_at: str | None = option(
        None, StorePlace(), "a place in an object store for the archive and its copies; by default the pond's folder"
    )
    seed: int | None = option(
        None,
        Whole("a whole number such as 7", least=0, most=10**18 - 1),
        "which rows samples have; by default the stream's id",
    )
    operators: str = option(
        "", AskedOperators(), "what is computed of its rows beside queries, by operators of one's own"
    )


@dataclass(frozen=True)
class DerivedTerms:
    """Options of CREATE STREAM … AS beside those that its query has."""

    revisions: Literal["forward", "retract", "ignore", "final"] | None = option(
        None,
        Choice(("forward", "retract", "ignore", "final")),
        "what becomes of answers that change: rows, too; taken back; left out; or they come when they are final; by"
        " default forward",
    )
    event_time: str = option(
        "", Text("a timestamp column of its SELECT list"), "of a stream of rows, another event time than its source's"
    )
    lateness: Lateness | None = option(
        None, Allowance(), "of such a stream, how far a row may lag behind the newest one by that time"
    )
    retention: int | None = option(None, Retention("2h"), "how long rows are kept; by default for ever", live=True)
    late: Literal["revise", "drop"] | None = option(
        None,
        Choice(("revise", "drop")),
        "what a row behind the watermark does; by default as with the stream that it reads",
    )


@cache
def derived_options() -> Table:
    """The options of CREATE STREAM … AS: those of its query that it has, and its own."""
    own = {name: found for name, found in options_of(QueryOptions).items() if found.derived}
    return own | dict(options_of(DerivedTerms))
