"""Streams and tables as they are declared."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from millpond.types.columns import ARRIVAL, Column
from millpond.types.json_records import Written, from_json, to_json
from millpond.types.options.query_options import QueryOptions
from millpond.types.outputs import Output
from millpond.types.sql_expressions import Expression

#: How many bytes file systems take as the name of a folder.
_FOLDER_BYTES = 255

#: What leads to another folder where a path is taken for a URL, as Delta tables do.
_LEADING_AWAY = re.compile(r"\\|%(?=[0-9a-fA-F]{2})")


def leads_away(path: str) -> bool:
    """Whether Delta tables below a local path would lie elsewhere.

    >>> leads_away("/ponds/100%"), leads_away("/ponds/100%20")
    (False, True)
    """
    return _LEADING_AWAY.search(path) is not None


@dataclass(frozen=True)
class Generated:
    """A column that no source gives: DuckDB SQL over the columns that sources do give.

    event_time, time_format: the options that stand for it, of an event time that is not declared among the columns.
    """

    column: str
    sql: str
    event_time: str = ""
    time_format: str = ""


@dataclass(frozen=True)
class StreamOptions:
    """What `WITH (…)` behind CREATE STREAM says. Durations are microseconds of event time (`idle`: of clock time).

    time: the event-time column; `ARRIVAL` when `event_time='arrival'`.
    lateness / lateness_rows: how far a row may lag behind the largest event time, by time or by count;
        both None means `ordered` (progress is the largest event time seen).
    ahead: how far a row may lead the median of the cohort of rows before it; None: no limit.
    lateness_share: the lateness is estimated: so much of the disorder seen so far is allowed for (1.0: all of it).
    timer: progress is announced every so often only, by the clock; lull: how far behind the clock it stays when nothing
        comes (needs a timer). step: progress is announced at multiples of so much event time only.
    marks_column: a column with the source's own bound on what follows. marks_record: DuckDB SQL over the columns: rows
        for which it holds are no data; their event time is such a bound. marks_by: the bounds are for rows with the
        same value in that column, and in those of
        `marks_also`; at most `marks_groups` values are kept. A derived stream gets them from what it is made of.
    marks_only: nothing else makes progress.
    guard: what a row does that lies behind a bound which its own source gave.
    late: what a row behind the announced progress does.
    retention: how long rows stay in the archive; None: for ever.
    archive_at: the place in an object store below which it and its copies lie; None: the pond's folder.
    archive: how it is organised, as `types.archive_design` reads it. seed: of samples of it; None: the stream's id.
    operators: what is computed of its rows beside queries, as `types.options.asked_operators` reads it.
    missing: what a file without a declared column is: refused, or NULL there (as with streams of older versions).
    generated: columns that are computed of the others when rows are read.
    added: columns that came later than the stream; files from before that lack them are not refused.
    """

    source: Literal["ingest", "files", "derived", "system"] = "ingest"
    path: str | None = None
    format: Literal["parquet", "csv", "ndjson"] | None = None
    order: Literal["name", "mtime"] = "name"
    header: bool = True
    delimiter: str = ""
    null: str = ""
    time: str = ARRIVAL
    lateness: int | None = None
    lateness_rows: int | None = None
    idle: int | None = None
    ahead: int | None = None
    late: Literal["revise", "drop"] = "revise"
    retention: int | None = None
    archive: str = "plain"
    archive_at: str | None = None
    seed: int | None = None
    lateness_share: float | None = None
    timer: int | None = None
    lull: int | None = None
    step: int | None = None
    marks_column: str | None = None
    marks_record: str | None = None
    marks_by: str | None = None
    marks_also: tuple[str, ...] = ()
    marks_groups: int = 1000
    marks_only: bool = False
    guard: Literal["late", "reject"] = "late"
    operators: str = ""
    missing: Literal["error", "null"] = "null"
    added: tuple[str, ...] = ()
    generated: tuple[Generated, ...] = ()

    @property
    def marked_by(self) -> tuple[str, ...]:
        """The columns by which bounds are for groups; none: they are for all rows."""
        return () if self.marks_by is None else (self.marks_by, *self.marks_also)

    def marked_as(self, names: Mapping[str | None, str]) -> tuple[str, ...]:
        """What these are called where columns have other names, by the columns; none: not all of them are shown.

        >>> StreamOptions(marks_by="k", marks_also=("n",)).marked_as({"n": "number", "k": "k"})
        ('k', 'number')
        """
        by = self.marked_by
        return tuple(names[c] for c in by) if names.keys() >= set(by) else ()

    def with_marks(self, by: Sequence[str]) -> StreamOptions:
        """The options of a stream with bounds for the groups of some columns; none: it has none."""
        return replace(self, marks_by=by[0], marks_also=tuple(by[1:])) if by else self


#: The fields of derivations as they are written, with what one says that does not have them.
_WRITTEN: dict[str, Any] = {
    "sources": [], "query": None, "where": None, "select": [], "revisions": "forward", "first_epoch": 1,
    "history": False, "since": None, "text": "", "options": None, "inner": "", "retimed": False,
    "whole": False,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Derivation(Written, ABC):
    """Where the rows of a derived stream come from (`CREATE STREAM x AS SELECT …`).

    word: what its rows are.
    as_one: what an epoch gives is put in order as a whole; else files come one after the other.
    sources: ids of the streams that its query reads.
    revisions: what becomes of answers that change: 'forward' (they are rows, too, with `revision` and `op`), 'retract'
        (the old answer comes again as a row with `op = '-'`, which takes it back, and the new one with '+'), 'ignore'
        (first answers only), 'final' (only answers that cannot change any more are rows; they come later). Rows of a
        stream that takes rows back are 'retract', too.
    first_epoch: the first epoch whose rows and answers it gets as they come.
    text: the statement.
    inner: what it is, of a stream that queries made for themselves: queries that need the same share it, and it goes
        with the last of them; '': it was declared.
    """

    word: ClassVar[str]
    as_one: ClassVar[bool] = False

    sources: tuple[int, ...]
    revisions: Literal["forward", "retract", "ignore", "final"] = "forward"
    first_epoch: int = 1
    text: str = ""
    inner: str = ""

    @property
    def queries(self) -> tuple[int, ...]:
        """The ids of the queries whose answers its rows are."""
        return ()

    @property
    def own_progress(self) -> bool:
        """Whether its own rows say how far it is; else it is as far as what it is made of announces."""
        return False

    @property
    def goes_with_source(self) -> bool:
        """Whether it is as far as the stream whose rows it has."""
        return False

    @property
    def has_past(self) -> bool:
        """Whether rows from before its first epoch are made from its source's archive."""
        return False

    def is_all_of(self, stream: StreamDefinition) -> bool:
        """Whether its rows are all those of a stream, with all their columns as they are."""
        return False

    def written(self) -> dict[str, Any]:
        """See `Written`."""
        return {name: to_json(getattr(self, name, otherwise)) for name, otherwise in _WRITTEN.items()}

    @classmethod
    def read(cls, value: Any) -> Any:
        """See `Written`."""
        kind: type[Derivation] = RowDerivation if value.get("query") is None else AnswerDerivation
        return from_json(kind, value)


@dataclass(frozen=True, kw_only=True)
class RowDerivation(Derivation):
    """Its rows are rows of `sources[0]`.

    where, select: which rows and what of them, over the source's columns.
    history: whether rows from before the first epoch are made from the source's archive.
    since: of those, only rows from this event time on (microseconds); None: all.
    options: what `adapt` and its like say of the order of filters; None: the defaults.
    retimed: whether its event time is another column than its source's, with a bound of its own.
    whole: whether no row of the source came before it that it is not made from.
    """

    word: ClassVar[str] = "rows"

    where: Expression | None = None
    select: tuple[Output, ...] = ()
    history: bool = False
    since: int | None = None
    options: QueryOptions | None = None
    retimed: bool = False
    whole: bool = False

    @property
    def own_progress(self) -> bool:
        """See `Derivation`."""
        return self.retimed

    @property
    def goes_with_source(self) -> bool:
        """See `Derivation`."""
        return not self.retimed

    @property
    def has_past(self) -> bool:
        """See `Derivation`."""
        return self.history

    def is_all_of(self, stream: StreamDefinition) -> bool:
        """See `Derivation`."""
        kept = [(o.name, o.expression.column) for o in self.select]
        alike = kept == [(c.name, c.name) for c in stream.columns]
        return self.whole and self.sources == (stream.id,) and self.where is None and alike


@dataclass(frozen=True, kw_only=True)
class AnswerDerivation(Derivation):
    """Its rows are the answers of a standing query. query: its id."""

    word: ClassVar[str] = "answers"
    as_one: ClassVar[bool] = True

    query: int

    @property
    def queries(self) -> tuple[int, ...]:
        """See `Derivation`."""
        return (self.query,)


@dataclass(frozen=True)
class StreamDefinition:
    """A stream as declared. `id` is given by the catalog and never used twice. derived: where its rows come from."""

    name: str
    columns: tuple[Column, ...]
    options: StreamOptions = StreamOptions()
    id: int = 0
    derived: Derivation | None = None

    def column(self, name: str) -> Column | None:
        """The column of that name (case-insensitive), or None."""
        return next((c for c in self.all_columns if c.name.lower() == name.lower()), None)

    def makes(self, name: str) -> bool:
        """Whether no source gives that column: it is generated, or the time of arrival."""
        lower = name.lower()
        arrival = self.options.time == ARRIVAL and lower == ARRIVAL
        return arrival or any(g.column.lower() == lower for g in self.options.generated)

    @property
    def folder(self) -> str:
        """How its folders are called: by its name, as far as a file system takes that, and by its id.

        >>> StreamDefinition("Rain/../Snow", (), id=7).folder
        'rain_.._snow-7'
        """
        name, end = _LEADING_AWAY.sub("_", self.name.lower().replace("/", "_")).encode(), f"-{self.id}"
        return name[: _FOLDER_BYTES - len(end)].decode(errors="ignore") + end

    @property
    def takes_back(self) -> bool:
        """Whether its rows with `op = '-'` take back equal ones with '+': windows and relations see what is left."""
        return self.derived is not None and self.derived.revisions == "retract"

    @property
    def goes_with_source(self) -> bool:
        """Whether it is as far as the stream whose rows it has."""
        return self.derived is not None and self.derived.goes_with_source

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of the streams that it is derived from."""
        return () if self.derived is None else self.derived.sources

    @property
    def queries(self) -> tuple[int, ...]:
        """The ids of the queries whose answers its rows are."""
        return () if self.derived is None else self.derived.queries

    @property
    def label(self) -> str:
        """What it is called where people read it: one that was not declared without its number."""
        return self.name.rsplit(" #", 1)[0] if self.is_inner else self.name

    @property
    def is_inner(self) -> bool:
        """Whether queries made it for themselves: it is shown with them, and goes with the last of them."""
        return self.derived is not None and bool(self.derived.inner)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The declared columns, and the implicit `arrival_ts` of a stream that runs on arrival time."""
        if self.options.time == ARRIVAL and all(c.name != ARRIVAL for c in self.columns):
            return (*self.columns, Column(ARRIVAL, "TIMESTAMP"))
        return self.columns

    @property
    def late_columns(self) -> tuple[Column, ...]:
        """The columns of `late(stream)`: its own, and the watermark that a row was behind when it came.

        >>> [c.name for c in StreamDefinition("s", (Column("watermark", "TEXT"),)).late_columns]
        ['watermark', 'watermark_1']
        """
        taken, name, count = {c.name.lower() for c in self.all_columns}, "watermark", 0
        while name in taken:
            count += 1
            name = f"watermark_{count}"
        return (*self.all_columns, Column(name, "TIMESTAMP"))


@dataclass(frozen=True)
class TableDefinition:
    """A table: rows without progress. What they are is read again and again; each reading that differs is a version.

    path: of its files; of a database where it is, as it may be shown. format: of files; None: it is in a database.
    driver: the Python module that reaches the database (DB-API 2.0 or ADBC). query: the SQL that it is asked.
    reload: when it is read anew: when its files look different, never by itself, or every so often (microseconds).
    valid_from, valid_to: columns that say from when, and until when, a row holds: it is joined with rows of a stream
        with valid_from <= event time < valid_to (NULL: for ever).
    missing: what a file without a declared column is: an error, or NULL there (as with tables of older versions).
    """

    name: str
    columns: tuple[Column, ...]
    path: str
    format: Literal["parquet", "csv", "ndjson"] | None
    header: bool = True
    delimiter: str = ","
    null: str = ""
    id: int = 0
    driver: str = ""
    query: str = ""
    reload: int | Literal["on change", "never"] = "on change"
    valid_from: str | None = None
    valid_to: str | None = None
    missing: Literal["error", "null"] = "null"


@dataclass(frozen=True)
class FileTable(TableDefinition):
    """Files as a table, as they look. scan: the DuckDB SQL that reads them. paths: those that it may open."""

    scan: str = ""
    paths: tuple[str, ...] = ()
