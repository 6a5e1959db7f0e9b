"""The statements of the language, as values. `millpond.language.script.parse` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from millpond.language.syntax.written_select import WrittenSelect
from millpond.support.file_forms import FileForm
from millpond.types import Column, Edge, QueryOptions, StreamDefinition, TableDefinition
from millpond.types.as_of import AsOf
from millpond.types.options.stream_values import Lateness


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement of a script.

    text: its own source, without the semicolon. offset: where it starts in `script`. script: the whole script.
    named: where the name of what it is about stands in `script`; None: it names nothing.
    places: where the names of its options stand in `script`.
    """

    text: str
    offset: int
    script: str
    named: tuple[int, int] | None = None
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, kw_only=True)
class CreateStream(Statement):
    """CREATE STREAM [IF NOT EXISTS] name (columns) [WITH (options)]."""

    definition: StreamDefinition
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateStreamFrom(Statement):
    """CREATE STREAM [IF NOT EXISTS] name FROM 'files' [WITH (options)]: its columns are those of the files.

    options: what stands between the parentheses, as it is written. given: names of them, in small letters.
    patterned: columns that a `time_format` says a pattern of.
    """

    name: str
    path: str
    options: str
    given: frozenset[str]
    patterned: tuple[str, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DeriveStream(Statement):
    """CREATE STREAM [IF NOT EXISTS] name [WITH (options)] AS SELECT …; not yet bound.

    options: of its query. revisions, retention, late: see `millpond.types`; late None: as the stream that it reads.
    event_time, lateness: of its rows, where these are not its source's.
    """

    name: str
    select: WrittenSelect
    options: QueryOptions
    revisions: Literal["forward", "retract", "ignore", "final"] | None = None
    retention: int | None = None
    late: Literal["revise", "drop"] | None = None
    event_time: str = ""
    lateness: Lateness | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateTable(Statement):
    """CREATE TABLE [IF NOT EXISTS] name (columns) WITH (path = …) or WITH (uri = …, query = …).

    uri: how a database is reached, None for files. It may hold a password, and is no part of the definition.
    """

    definition: TableDefinition
    if_not_exists: bool = False
    uri: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class AlterTable(Statement):
    """ALTER TABLE name SET (option = value, …). options: fields of `TableDefinition`; uri: as of `CreateTable`."""

    name: str
    options: dict[str, Any]
    uri: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class RefreshTable(Statement):
    """REFRESH TABLE name."""

    name: str


@dataclass(frozen=True, kw_only=True)
class CreateQuery(Statement):
    """CREATE [OR REPLACE] QUERY [IF NOT EXISTS] name [WITH (options)] AS SELECT …; not yet bound."""

    name: str
    select: WrittenSelect
    options: QueryOptions
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class Drop(Statement):
    """DROP STREAM|TABLE|QUERY [IF EXISTS] name [CASCADE]."""

    kind: Literal["stream", "table", "query"]
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, kw_only=True)
class Copy(Statement):
    """COPY (SELECT …) TO 'file', COPY name TO 'file' (HEADER false). form: of the file, with its name."""

    select: WrittenSelect
    form: FileForm


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    """DESCRIBE name, DESCRIBE 'file', DESCRIBE SELECT …, SHOW COLUMNS FROM name: what columns there are."""

    target: str | WrittenSelect


@dataclass(frozen=True, kw_only=True)
class ShowCreate(Statement):
    """SHOW CREATE [STREAM | TABLE | QUERY] name: the statement that makes it. kind: None: of whatever has the name."""

    kind: Literal["stream", "table", "query"] | None
    name: str


@dataclass(frozen=True, kw_only=True)
class Show(Statement):
    """SHOW STREAMS|TABLES|QUERIES|SYNOPSES|PROGRESS|LOAD|SETTINGS|FUNCTIONS, SHOW ARCHIVE [stream].

    name: the stream.
    """

    what: Literal["streams", "tables", "queries", "synopses", "watermarks", "load", "settings", "functions", "archive"]
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Select(Statement):
    """An ad hoc SELECT, not yet bound."""

    select: WrittenSelect


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN [ANALYZE] of a SELECT or of a standing query (its name)."""

    target: WrittenSelect | str
    analyze: bool = False


@dataclass(frozen=True, kw_only=True)
class Invoke(Statement):
    """INVOKE query [AS OF …] [BEGIN b] [END e].

    as_of: None for now, 'watermark', ('timestamp', microseconds) or ('epoch', number).
    begin, end: edges that take the place of the query's own (row queries only); None: as the query says.
    """

    query: str
    as_of: AsOf = None
    begin: Edge | None = None
    end: Edge | None = None


@dataclass(frozen=True, kw_only=True)
class Drain(Statement):
    """DRAIN [FINAL]."""

    final: bool = False


@dataclass(frozen=True, kw_only=True)
class AlterQuery(Statement):
    """ALTER QUERY name PAUSE|RESUME, SET WINDOW […] (`window` is its text, brackets included), SET option = value.

    options: what is set, by name; None: DEFAULT, which is as if it had never been given.
    """

    name: str
    action: Literal["pause", "resume", "window", "set"]
    window: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AlterSystem(Statement):
    """ALTER SYSTEM SET name = value.

    settings: what is set, by name; None: DEFAULT, which is what the opening gave, or else the setting's default.
    """

    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class AlterStream(Statement):
    """ALTER STREAM name SET (option = value, …). options: fields of `StreamOptions`, those that were given."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class AlterColumns(Statement):
    """ALTER STREAM name ADD COLUMN [IF NOT EXISTS] column type, or ALTER COLUMN column SET TYPE type.

    column: the new column, or the one that is there with its new type; `places` has the place of its name as 'column'.
    """

    name: str
    action: Literal["add", "type"]
    column: Column
    if_not_exists: bool = False
