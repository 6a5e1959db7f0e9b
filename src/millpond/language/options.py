"""`WITH (name = value, …)` behind CREATE, checked and turned into the options of `millpond.types`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from millpond.errors import StatementError
from millpond.language.column_types import TIMES
from millpond.language.durations import parse_duration, parse_timestamp
from millpond.language.places import nearest
from millpond.types import ARRIVAL, Column, QueryOptions, StreamOptions

T = TypeVar("T")
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
    "ahead", "late", "retention", "archive",
)  # fmt: skip
TABLE_OPTIONS = ("source", "path", "format", "header", "delimiter", "null")
QUERY_OPTIONS = ("since", "empty", "revise_for", "materialize")
MATERIALIZE = ("auto", "partial", "complete", "none")


@dataclass(frozen=True)
class Option:
    """One `name = value` with the places of both in the script."""

    name: str
    value: str
    place: tuple[int, int]
    value_place: tuple[int, int]


class OptionReader:
    """Options by name; takes what it is asked for and raises StatementError with the place of what is wrong."""

    def __init__(self, options: list[Option], known: Collection[str], script: str, place: tuple[int, int]) -> None:
        self.script, self.place = script, place
        self.options: dict[str, Option] = {}
        for option in options:
            if option.name not in known:
                raise self.fault(
                    f"there is no option '{option.name}' here", option.place, f"one of {', '.join(known)}",
                    nearest(option.name, known),
                )  # fmt: skip
            if option.name in self.options:
                raise self.fault(f"option '{option.name}' is given twice", option.place)
            self.options[option.name] = option

    def fault(self, message: str, place: tuple[int, int], expected: str = "", like: str = "") -> StatementError:
        """An error at `place`."""
        return StatementError(message, self.script, *place, expected, like)

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def text(self, name: str, default: T) -> str | T:
        """The value as written, or the default."""
        return self.options[name].value if name in self.options else default

    def read(self, name: str, reader: Callable[[str], T], expected: str) -> T | None:
        """The value through `reader` (raises ValueError), or None when it is not given."""
        if name not in self.options:
            return None
        option = self.options[name]
        try:
            return reader(option.value)
        except ValueError as fault:
            raise self.fault(f"option '{name}': {fault}", option.value_place, expected) from None

    def choice(self, name: str, choices: Collection[str], default: Any) -> Any:
        """One of `choices`, any case."""
        if name not in self.options:
            return default
        option = self.options[name]
        if option.value.lower() not in choices:
            raise self.fault(
                f"option '{name}' cannot be '{option.value}'", option.value_place,
                " or ".join(f"'{c}'" for c in choices), nearest(option.value, choices),
            )  # fmt: skip
        return option.value.lower()

    def span(self, name: str, example: str, zero: bool = False) -> int | None:
        """A duration in microseconds, longer than nothing unless `zero`."""

        def positive(text: str) -> int:
            value = parse_duration(text)
            if value < 0 or (value == 0 and not zero):
                raise ValueError(f"'{text}' must be longer than nothing")
            return value

        return self.read(name, positive, f"a span of time such as '{example}'")

    def boolean(self, name: str, default: bool) -> bool:
        """true or false."""
        return bool(self.choice(name, ("true", "false"), str(default).lower()) == "true")

    def conflict(self, name: str, reason: str) -> None:
        """Raise if `name` is given."""
        if name in self.options:
            raise self.fault(f"option '{name}' {reason}", self.options[name].place)


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
    lateness = _lateness(reader)
    if "archive" in reader and reader.text("archive", "").lower() != "plain":
        option = reader.options["archive"]
        raise reader.fault(f"archive '{option.value}' is not available yet", option.value_place, "'plain'")
    return StreamOptions(
        source=source,
        time=_time_column(reader, columns),
        lateness=lateness[0],
        lateness_rows=lateness[1],
        idle=reader.span("idle", "30s"),
        ahead=reader.span("ahead", "10 minutes"),
        late=reader.choice("late", ("revise", "drop"), "revise"),
        retention=reader.span("retention", "90d"),
        **files,
    )


def _lateness(reader: OptionReader) -> tuple[int | None, int | None]:
    """Lateness by time and by rows; both None means ordered."""
    if reader.boolean("ordered", "lateness" not in reader):
        reader.conflict("lateness", "contradicts ordered=true")
        return None, None
    if "lateness" not in reader:
        raise reader.fault("ordered=false needs a lateness", reader.options["ordered"].place, "lateness='5s'")

    def either(text: str) -> tuple[int | None, int | None]:
        rows = re.fullmatch(r"\s*([0-9_]+)\s*rows?\s*", text, re.IGNORECASE)
        if rows:
            count = int(rows[1].replace("_", "") or 0)
            if not 0 <= count < 2**62:
                raise ValueError(f"'{text}' is out of range")
            return None, count
        value = parse_duration(text)
        if value < 0:
            raise ValueError(f"'{text}' is negative")
        return value, None

    return reader.read("lateness", either, "a span of time such as '5s' or a count such as '100 rows'") or (None, None)


def _time_column(reader: OptionReader, columns: tuple[Column, ...]) -> str:
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


def query_options(reader: OptionReader) -> QueryOptions:
    """The options of CREATE QUERY."""

    def since(text: str) -> Any:
        return "start" if text.lower() == "start" else parse_timestamp(text)

    return dataclasses.replace(
        QueryOptions(),
        since=reader.read("since", since, "'start' or a timestamp such as '2024-05-01 12:00:00'"),
        empty=reader.choice("empty", ("skip", "report"), "skip"),
        revise_for=reader.span("revise_for", "2 days", zero=True),
        materialize=reader.choice("materialize", MATERIALIZE, "auto"),
    )
