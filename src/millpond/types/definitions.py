"""Standing queries as they are registered: a query, what WITH says of it, and the streams that it needs first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from millpond.types.columns import COVERED, EXACT, STATUS, Column
from millpond.types.options.query_options import QueryOptions
from millpond.types.queries import StandingQuery


@dataclass(frozen=True)
class InnerStream:
    """A stream that stands in the FROM of a query, in parentheses and with a window behind it, and has no name.

    name: what the query that reads it calls it until it is there. query: whose answers its rows are.
    revisions, columns: as those of a derived stream. time: which of them is its event time. answers: the standing query
    whose answers it is; '': its own.
    """

    name: str
    query: StandingQuery
    revisions: Literal["forward", "retract"]
    columns: tuple[Column, ...]
    time: str = "at"
    answers: str = ""


@dataclass(frozen=True)
class Staged:
    """A query over streams that are still to be made. inner: these; one may read those before it."""

    in_register: ClassVar[Literal[False]] = False

    query: StandingQuery
    inner: tuple[InnerStream, ...]


@dataclass(frozen=True)
class QueryDefinition:
    """A standing query as registered.

    retained: its stream has a retention, so that windows can be cut by it. reads: ids of the queries whose answers it
    reads.
    """

    name: str
    query: StandingQuery
    options: QueryOptions = QueryOptions()
    id: int = 0
    version: int = 1
    text: str = ""
    retained: bool = False
    reads: tuple[int, ...] = ()

    @property
    def is_relation(self) -> bool:
        """Whether its answer is a relation, with rows at every instant, and not a stream or windows."""
        return bool(self.query.change_columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its answers as a table."""
        query = self.query
        shown = [Column(o.name, o.type) for o in query.select]
        status = [Column(STATUS, "VARCHAR")] if self.options.early is not None else []
        covered = [Column(COVERED, "TIMESTAMP")] if self.retained else []
        exact = [Column(EXACT, "BOOLEAN")] if query.estimated else []
        revision = [Column("revision", "BIGINT"), *status]
        return (*query.time_columns, *shown, *query.change_columns, *revision, *covered, *exact)
