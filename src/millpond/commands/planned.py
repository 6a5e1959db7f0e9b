"""What a statement does, as a value: steps in order, and what there is to say; `performing` carries them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from millpond.catalog import NewSelection, Registered, Standing, Synopsis
from millpond.commands.pond_facts import Facts
from millpond.types import FunctionDefinition, StreamDefinition, TableDefinition
from millpond.windows.protocol import WindowKind


class Ids:
    """Ids for what a plan makes, in order, from those that are free."""

    def __init__(self, facts: Facts) -> None:
        self._first = self._next = facts.next_id

    def take(self) -> int:
        """The next one."""
        self._next += 1
        return self._next - 1

    @property
    def used(self) -> int:
        """How many have been taken."""
        return self._next - self._first


#: An event of the catalog, as its log has it.
Event: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """Events of the catalog, all or none. claims: names that they give, which nobody else may take meanwhile.

    replaces: the row query that has one of these names, since it is to be replaced.
    """

    events: tuple[Event, ...]
    claims: tuple[str, ...] = ()
    replaces: int | None = None


@dataclass(frozen=True)
class CheckPath:
    """The folder of a path exists."""

    path: str


@dataclass(frozen=True)
class CheckColumns:
    """The files of a stream, or of a table as one, that are there have the columns that are declared.

    said: what there is to say, before what is found.
    """

    definition: StreamDefinition
    said: str


@dataclass(frozen=True)
class CheckWindows:
    """What a new query over windows wants of the past can be read."""

    standing: Standing
    synopsis: Synopsis


@dataclass(frozen=True)
class CheckRelation:
    """What a new query of CQL wants of the past can be read."""

    standing: Standing


@dataclass(frozen=True)
class MakeStream:
    """The folders and tables of a new stream. asked: the place in an object store that was asked for."""

    definition: StreamDefinition
    asked: str | None = None


@dataclass(frozen=True)
class AddRowQuery:
    """A row query for the register."""

    query: NewSelection


@dataclass(frozen=True)
class DropRowQuery:
    """A row query goes from the register."""

    query: int
    name: str


@dataclass(frozen=True)
class SetRowStatus:
    """A row query is paused or goes on."""

    query: int
    paused: bool


@dataclass(frozen=True)
class DropStreams:
    """Streams go with what reads them. rows: the row queries that are known to. record: what the catalog forgets."""

    streams: tuple[int, ...]
    rows: frozenset[int]
    record: Record


@dataclass(frozen=True)
class AlterStream:
    """A stream has other options from now on."""

    definition: StreamDefinition


@dataclass(frozen=True)
class AlterColumns:
    """A stream has other columns. record: what the catalog learns. widened: who reads it is bound anew."""

    definition: StreamDefinition
    record: Record
    widened: str | None = None


@dataclass(frozen=True)
class ChangeSettings:
    """Settings hold from the next manifest on."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class MakeTable:
    """A table; one in a database is read before it is recorded. asked: the option that says what it is asked."""

    definition: TableDefinition
    uri: str | None
    asked: str
    record: Record


@dataclass(frozen=True)
class KeepUri:
    """How the database of a table is reached."""

    table: TableDefinition
    uri: str


@dataclass(frozen=True)
class DropTable:
    """What is kept of a table goes."""

    table: TableDefinition


@dataclass(frozen=True)
class RefreshTable:
    """A table is read now."""

    table: TableDefinition


@dataclass(frozen=True)
class KeepFunction:
    """A registered function is kept for the pond's processes."""

    definition: FunctionDefinition
    function: Callable[..., Any]


@dataclass(frozen=True)
class KeepKind:
    """A registered kind of windows is known in this process and its workers."""

    reference: str
    kind: WindowKind


@dataclass(frozen=True)
class DropKind:
    """A kind of windows is not known any more."""

    reference: str


@dataclass(frozen=True)
class Drain:
    """All that the sources hold is committed. final: all windows close."""

    final: bool


Step: TypeAlias = (
    Record
    | CheckPath
    | CheckColumns
    | CheckWindows
    | CheckRelation
    | MakeStream
    | AddRowQuery
    | DropRowQuery
    | SetRowStatus
    | DropStreams
    | AlterStream
    | AlterColumns
    | ChangeSettings
    | MakeTable
    | KeepUri
    | DropTable
    | RefreshTable
    | KeepFunction
    | KeepKind
    | DropKind
    | Drain
)


@dataclass(frozen=True)
class Plan:
    """What a statement does. message: what there is to say when it is done. ids: how many ids it takes.

    made: the id of the query that it registers; 0: none, or one of the register's.
    """

    message: str
    steps: tuple[Step, ...] = ()
    ids: int = 0
    made: int = 0

    def over(self, facts: Facts) -> Facts:
        """The facts when it is done, as far as they can be known."""
        after = replace(facts, next_id=facts.next_id + self.ids)
        for step in self.steps:
            after = _over(after, step)
        return after


def _over(facts: Facts, step: Step) -> Facts:
    match step:
        case Record(events):
            return facts.with_events(*events)
        case AlterColumns(record=record) | MakeTable(record=record):
            return facts.with_events(*record.events)
        case DropStreams(rows=rows, record=record):
            kept = {name: q for name, q in facts.rows.items() if q is None or q.id not in rows}
            return replace(facts.with_events(*record.events), rows=kept, gone=facts.gone | rows)
        case AddRowQuery(query):
            made = Registered(
                facts.next_id, query.name or f"#{facts.next_id}", query.owner, query.selection, query.options, "live",
                query.epoch, query.streams, query.text, query.version, query.previous,
            )  # fmt: skip
            return replace(facts.with_row_query(made.name, made), next_id=made.id + 1)
        case DropRowQuery(name=name):
            return facts.with_row_query(name, None)
        case ChangeSettings(values):
            return replace(facts, settings=replace(facts.settings, **values))
        case (
            CheckPath()
            | CheckColumns()
            | CheckWindows()
            | CheckRelation()
            | MakeStream()
            | SetRowStatus()
            | AlterStream()
        ):
            return facts
        case KeepUri() | DropTable():
            return facts
        case RefreshTable() | KeepFunction() | KeepKind() | DropKind() | Drain():
            return facts
