"""`WITH (name = value, …)` behind CREATE, checked and turned into the options of `millpond.types`."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal

from millpond.language.column_types import TIMES
from millpond.language.durations import parse_timestamp
from millpond.language.generator_options import generator_options
from millpond.language.option_reader import OptionReader
from millpond.language.places import nearest
from millpond.types import ARRIVAL, Column, QueryOptions, StreamOptions

Format = Literal["parquet", "csv", "ndjson"]

FORMATS: dict[str, Format] = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "csv",
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "ndjson",
}
STREAM_OPTIONS = (
    "source", "path", "format", "order", "header", "delimiter", "null", "progress", "ordered", "lateness", "idle",
    "timer", "lull", "step", "marks", "marks_by", "marks_groups", "guard", "ahead", "late", "retention", "archive",
    "archive_at", "seed",
)  # fmt: skip
#: Kinds of object stores, as URLs name them; file:// is a folder that is used like one.
STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "file")
ALTER_OPTIONS = ("archive", "retention")
QUERY_OPTIONS = (
    "since", "empty", "revise_for", "materialize", "early", "flush", "flush_delay", "flush_windows", "every", "state",
    "held_rows", "memory_rows",
    "adapt", "adapt_probability", "adapt_window", "adapt_alpha", "adapt_budget",
)  # fmt: skip
#: Options of a query that may change while it runs.
LIVE_QUERY_OPTIONS = (
    "revise_for", "early", "flush", "flush_delay", "flush_windows",
    "adapt", "adapt_probability", "adapt_window", "adapt_alpha", "adapt_budget",
)  # fmt: skip
DERIVED_OPTIONS = (
    "since", "empty", "revise_for", "every", "revisions", "late", "retention",
    "adapt", "adapt_probability", "adapt_window", "adapt_alpha", "adapt_budget",
)  # fmt: skip
REVISIONS = ("forward", "retract", "ignore", "final")
ADAPT = ("a_greedy", "sweep", "independent", "local_swaps", "auto", "off")
MATERIALIZE = ("auto", "partial", "complete", "none")


def file_options(reader: OptionReader, mixed: bool = False) -> dict[str, Any]:
    """path, format, header, delimiter, null of a stream or table that reads files.

    `mixed`: a folder or a glob without an extension may hold files of several formats, each told by its name; the
    format is then None.
    """
    path = str(reader.text("path", ""))
    if not path:
        where = reader.options["path"].value_place if "path" in reader else reader.place
        raise reader.fault("files need a path", where, "path='folder/*.parquet'")
    written = str(reader.choice("format", tuple(FORMATS), "")) or _extension(path)
    if not written and mixed and "." not in path.rsplit("/", 1)[-1]:
        return {
            "path": path,
            "format": None,
            "header": reader.boolean("header", True),
            "delimiter": str(reader.text("delimiter", ",")),
            "null": str(reader.text("null", "")),
        }
    if not written:
        raise reader.fault(
            f"the format of '{path}' cannot be told from its name",
            reader.options["path"].value_place,
            "format='parquet', 'csv', 'tsv' or 'ndjson'",
        )
    format_ = FORMATS[written]
    if format_ != "csv":
        for name in ("header", "delimiter", "null"):
            reader.conflict(name, f"is for csv, but the format is {format_}")
    delimiter = str(reader.text("delimiter", "\t" if written == "tsv" else ",")).replace("\\t", "\t")
    if len(delimiter) != 1 or delimiter in '"\n\r':
        raise reader.fault("a delimiter is one character", reader.options["delimiter"].value_place, "','")
    return {
        "path": path,
        "format": format_,
        "header": reader.boolean("header", True),
        "delimiter": delimiter,
        "null": str(reader.text("null", "")),
    }


def _extension(path: str) -> str:
    name = path.rsplit("/", 1)[-1].lower()
    plain = re.sub(r"\.(gz|zst)$", "", name)
    extension = plain.rsplit(".", 1)[-1] if "." in plain else ""
    return "" if extension not in FORMATS or (extension == "parquet" and plain != name) else extension


def stream_options(reader: OptionReader, columns: tuple[Column, ...]) -> StreamOptions:
    """The options of CREATE STREAM; StatementError on unknown, ill-typed or conflicting ones."""
    source = reader.choice("source", ("files", "ingest"), "files" if "path" in reader else "ingest")
    files: dict[str, Any] = {}
    if source == "files":
        files = file_options(reader, mixed=True) | {"order": reader.choice("order", ("name", "mtime"), "name")}
    else:
        for name in ("path", "format", "order", "header", "delimiter", "null"):
            reader.conflict(name, "is for source='files', but the source is 'ingest'")
    time = time_column(reader, columns)
    generator = generator_options(reader, columns, time)
    return StreamOptions(
        source=source,
        time=time,
        idle=reader.span("idle", "30s"),
        ahead=reader.span("ahead", "10 minutes"),
        late=reader.choice("late", ("revise", "drop"), "revise"),
        retention=reader.span("retention", "90d"),
        archive=_archive(reader),
        archive_at=reader.read("archive_at", _place, "a URL such as 's3://bucket/folder'"),
        seed=reader.read("seed", _seed, "a whole number such as 7"),
        **files,
        **generator,
    )


def _archive(reader: OptionReader) -> str:
    """How the archive is organised, as it is written; what is no design is an error with its place."""
    from millpond.archive.design.designs import DesignFault, parse_design  # it reads durations as this room does

    text = reader.text("archive", "plain")
    try:
        parse_design(text)
    except DesignFault as fault:
        start, end = reader.options["archive"].value_place
        at = start + (reader.script[start] in "'\"")
        raise reader.fault(str(fault), (at + fault.start, min(end, at + fault.end)), fault.expected) from None
    return text


def alter_options(reader: OptionReader) -> dict[str, Any]:
    """The options of ALTER STREAM … SET: fields of `StreamOptions`."""
    found: dict[str, Any] = {}
    if "archive" in reader:
        found["archive"] = _archive(reader)
    if "retention" in reader:
        ever = str(reader.text("retention", "")).lower() == "forever"
        found["retention"] = None if ever else reader.span("retention", "90d")
    return found


def time_column(reader: OptionReader, columns: tuple[Column, ...]) -> str:
    """The event-time column that `progress` names, or the only one there is."""
    times = [c for c in columns if c.type in TIMES]
    if "progress" not in reader:
        if len(times) == 1:
            return times[0].name
        found = f"there are {len(times)} timestamp columns" if times else "there is no timestamp column"
        raise reader.fault(
            f"which column is the event time? {found}", reader.place,
            "progress='<column>', or progress='arrival' for the time of arrival",
        )  # fmt: skip
    option = reader.options["progress"]
    column = next((c for c in columns if c.name.lower() == option.value.lower()), None)
    if column is None and option.value.lower() == "arrival":
        clash = next((c for c in columns if c.name.lower() == ARRIVAL), None)
        if clash:
            raise reader.fault(f"column {clash.name} has the name of the arrival time", option.value_place)
        return ARRIVAL
    if column is None:
        raise reader.fault(
            f"there is no column '{option.value}'", option.value_place, "a timestamp column, or 'arrival'",
            nearest(option.value, [*(c.name for c in columns), "arrival"]),
        )  # fmt: skip
    if column.type not in TIMES:
        raise reader.fault(
            f"column {column.name} is {column.type}, which cannot be an event time", option.value_place,
            "a column of type TIMESTAMP or TIMESTAMPTZ", times[0].name if times else "",
        )  # fmt: skip
    return column.name


def derived_options(reader: OptionReader) -> dict[str, Any]:
    """The options of CREATE STREAM … AS: fields of `DeriveStream`."""
    revisions = reader.choice("revisions", REVISIONS, None)
    return {
        "options": query_options(reader),
        "revisions": revisions,
        "retention": reader.span("retention", "2h"),
        "late": reader.choice("late", ("revise", "drop"), None),
    }


def _place(text: str) -> str:
    """A place in an object store that deltalake knows.

    >>> _place("s3://bucket/ponds/")
    's3://bucket/ponds'
    """
    scheme, found, rest = text.partition("://")
    if not found or scheme not in STORES or not rest.strip("/"):
        raise ValueError(f"'{text}' is no place in an object store ({', '.join(f'{s}://' for s in STORES)})")
    return text.rstrip("/")


def _seed(text: str) -> int:
    if not re.fullmatch(r"\s*\d{1,18}\s*", text):
        raise ValueError(f"'{text}' is not a whole number from 0 on")
    return int(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"\s*\d{1,9}\s*", text) or int(text) < 1:
        raise ValueError(f"'{text}' is not a whole number from 1 to 999999999")
    return int(text)


def changed_options(reader: OptionReader, before: QueryOptions) -> QueryOptions:
    """The options of a query after ALTER QUERY … SET; StatementError on a value that cannot be.

    One that is set to DEFAULT is as if it had never been given.
    """
    names = list(reader.options)
    given = query_options(reader.without([n for n in names if reader.options[n].value.upper() == "DEFAULT"]))
    return dataclasses.replace(before, **{name: getattr(given, name) for name in names})


def _share(text: str) -> float:
    if not re.fullmatch(r"\s*(\d+(\.\d*)?|\.\d+)\s*", text) or float(text) > 1:
        raise ValueError(f"'{text}' is not a number from 0 to 1")
    return float(text)


def _factor(text: str) -> float:
    if _share(text) == 0:
        raise ValueError(f"'{text}' is not more than 0")
    return float(text)


def query_options(reader: OptionReader) -> QueryOptions:
    """The options of CREATE QUERY."""

    def since(text: str) -> Any:
        return "start" if text.lower() == "start" else parse_timestamp(text)

    budget = reader.read("adapt_budget", _share, "a share of the time such as 0.05")
    return dataclasses.replace(
        QueryOptions(),
        since=reader.read("since", since, "'start' or a timestamp such as '2024-05-01 12:00:00'"),
        empty=reader.choice("empty", ("skip", "report"), "skip"),
        revise_for=reader.span("revise_for", "2 days", zero=True),
        materialize=reader.choice("materialize", MATERIALIZE, "auto"),
        early=reader.span("early", "10s"),
        flush=reader.choice("flush", ("at once", "lazy", "slow"), "at once"),
        flush_delay=reader.span("flush_delay", "5s") or QueryOptions().flush_delay,
        flush_windows=reader.read("flush_windows", _count, "a number of windows such as 2")
        or QueryOptions().flush_windows,
        every=reader.span("every", "1 s"),
        state=reader.choice("state", ("eager", "lazy", "adaptive"), "eager"),
        held_rows=reader.read("held_rows", _count, "a number of rows such as 1000000") or QueryOptions().held_rows,
        memory_rows=reader.read("memory_rows", _count, "a number of rows such as 1000000"),
        adapt=reader.choice("adapt", ADAPT, "a_greedy"),
        adapt_probability=reader.read("adapt_probability", _share, "a share of the dropped rows such as 0.01"),
        adapt_window=reader.read("adapt_window", _count, "a number of profile tuples such as 1000"),
        adapt_alpha=reader.read("adapt_alpha", _factor, "a factor up to 1 such as 0.9"),
        adapt_budget=0.05 if budget is None else budget,
    )
