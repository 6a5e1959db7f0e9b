"""What a catalog knows at one version, as one immutable value; `events` has what changes it.

Names are case-insensitive and share one namespace; ids are never used twice, so a recreated name is a new thing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from millpond.progress import NEVER
from millpond.relations import Rows
from millpond.synopses import PanesSpec
from millpond.synopses.partials.dispatch import Spec
from millpond.types import (
    Expression,
    FunctionDefinition,
    KindDefinition,
    QueryDefinition,
    RelationalQuery,
    StreamDefinition,
    TableDefinition,
    WindowedQuery,
)
from millpond.types.json_records import Upgraded
from millpond.types.options.asked_operators import AskedOperator, parse_operators
from millpond.types.relation_queries import NotSalted, Salting, salting_read

Status = Literal["live", "backfilling", "paused", "quarantined"]


@dataclass(frozen=True)
class Synopsis:
    """A pane synopsis that one or more queries share.

    owner: the name that its state is stored under: the key of its definition and the epoch it was born in.
    first_epoch: the first epoch whose rows it receives live.
    """

    owner: str
    spec: Spec
    first_epoch: int


@dataclass(frozen=True)
class Store(Upgraded):
    """Rows of a stream that one or more relational queries share.

    owner: the name that its rows are stored under. first_epoch: the first epoch whose rows it receives live.
    shard: that which has all of them; every store of a query has the same. -1: they are spread.
    spread: by whose hash the rows are spread over the shards; None: they are in one.
    salting: how rows of split keys are placed.
    """

    owner: str
    spec: Rows
    first_epoch: int
    shard: int
    spread: Expression | None = None
    salting: Salting = field(default_factory=NotSalted)

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """What rows are spread by was SQL alone, and how they are salted was a text."""
        salting = salting_read(value.get("salting", value.get("deal", "")))
        shard = value.get("shard", value.get("home"))
        return {**value, "shard": shard, "spread": value.get("spread") or None, "salting": salting}

    def in_shard(self, shard: int) -> bool:
        """Whether a shard has rows of it."""
        return self.spread is not None or self.shard == shard


@dataclass(frozen=True)
class Summary:
    """A summary copy of a stream's archive: partials of a tumbling query, an entry for each archive file.

    query: as it was written in the option `archive`. spec: what its entries hold, which is what its synopsis keeps.
    lazy: entries are made when a scan has use for them, or before the rows go; else with the rows.
    retention, size: how long entries stay that stand for rows which are gone, microseconds of event time, and how many
        bytes of them; None: for ever, and all. covered: rows before this event time were gone when it came; None: none.
    owner: the synopsis that makes its partials at arrival, which standing queries share; '' for a lazy one, and when it
        has failed.
    first_epoch: the first epoch whose rows it gets as they come. start: rows from this event time on all came since.
    """

    id: int
    stream: int
    query: str
    spec: PanesSpec
    lazy: bool = False
    retention: int | None = None
    size: int | None = None
    covered: int | None = None
    owner: str = ""
    first_epoch: int = 1
    start: int = NEVER


@dataclass(frozen=True)
class Standing:
    """A standing query: definition, the synopsis that serves it, its state in life.

    inputs: of a relational query, the store of each input; it has no synopsis then.

    first_epoch: the first epoch that it is live in; its back-fill covers exactly the epochs before.
    previous: ids of the versions that it replaced.
    floor: windows that end at or before it stay as they are: what they were made of was not kept for longer when
        `revise_for` was raised.
    """

    definition: QueryDefinition
    synopsis: str
    first_epoch: int
    status: Status = "live"
    reason: str = ""
    previous: tuple[int, ...] = ()
    inputs: tuple[str, ...] = ()
    floor: int = NEVER

    @property
    def id(self) -> int:
        """The query's id."""
        return self.definition.id

    @property
    def owners(self) -> tuple[str, ...]:
        """The synopses or stores that it reads."""
        return tuple(dict.fromkeys(self.inputs)) or (self.synopsis,)

    @property
    def windowed(self) -> WindowedQuery:
        """Its query, which is one over windows that have ends."""
        assert not self.definition.query.of_instants
        return self.definition.query

    @property
    def relational(self) -> RelationalQuery:
        """Its query, which is one of CQL."""
        assert self.definition.query.of_instants
        return self.definition.query


@dataclass(frozen=True)
class Catalog:
    """Everything declared, by id (queries, streams, tables, summaries) or owner (synopses).

    reductions: registered reduction functions by name, each with the file that holds it, relative to the pond.
    settings: what ALTER SYSTEM has set, by name.
    stopped: operators that streams ask for and that have failed, by owner, each with the reason.
    """

    version: int = 0
    next_id: int = 1
    streams: dict[int, StreamDefinition] = field(default_factory=dict)
    tables: dict[int, TableDefinition] = field(default_factory=dict)
    queries: dict[int, Standing] = field(default_factory=dict)
    synopses: dict[str, Synopsis] = field(default_factory=dict)
    stores: dict[str, Store] = field(default_factory=dict)
    reductions: dict[str, str] = field(default_factory=dict)
    summaries: dict[int, Summary] = field(default_factory=dict)
    kinds: dict[str, KindDefinition] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, FunctionDefinition] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """The stream, table or query of that name, or None."""
        return self._by_name.get(name.lower())

    @cached_property
    def _by_name(self) -> dict[str, StreamDefinition | TableDefinition | QueryDefinition]:
        return {d.name.lower(): d for d in reversed(self.definitions())}

    def definitions(self) -> list[StreamDefinition | TableDefinition | QueryDefinition]:
        """Everything that has a name."""
        return [*self.streams.values(), *self.tables.values(), *(q.definition for q in self.queries.values())]

    def names(self) -> list[str]:
        """All names, as declared."""
        names = [s.name for s in self.shown_streams()] + [t.name for t in self.tables.values()]
        return names + [q.definition.name for q in self.shown_queries()]

    def shown_streams(self) -> list[StreamDefinition]:
        """The streams that were declared: those that queries made for themselves are shown with these."""
        return [s for s in self.streams.values() if not s.is_inner]

    def shown_queries(self) -> list[Standing]:
        """The queries that were declared, with those of derived streams."""
        hidden = {q for s in self.streams.values() if s.is_inner for q in s.queries}
        return [q for q in self.queries.values() if q.id not in hidden]

    def stream(self, name: str) -> StreamDefinition | None:
        """The stream of that name, or None."""
        found = self.lookup(name)
        return found if isinstance(found, StreamDefinition) else None

    def query(self, name: str) -> Standing | None:
        """The standing query of that name, or None."""
        found = self.lookup(name)
        return self.queries.get(found.id) if isinstance(found, QueryDefinition) else None

    def readers_of(self, stream: int) -> list[str]:
        """The names of the queries and declared streams that read a stream, if need be through streams of their own."""
        found = [name for q in self.on_stream(stream) for name in self.known_as(q)]
        found += [s.name for s in self.streams.values() if stream in s.sources and not s.is_inner]
        return list(dict.fromkeys(found))

    def known_as(self, standing: Standing) -> list[str]:
        """What a query is called by who reads about it: one that others made for themselves by their names."""
        stream = self.stream_of_answers(standing.id)
        return self.readers_of(stream.id) if stream is not None and stream.is_inner else [standing.definition.name]

    def called(self, standings: Iterable[Standing]) -> list[str]:
        """What some queries are called by who reads about them (`known_as`): sorted, each once."""
        return sorted({name for standing in standings for name in self.known_as(standing)})

    def quarantined(self, query: int, reason: str) -> list[dict[str, Any]]:
        """The events that quarantine a query, and those that made the stream of its answers for themselves."""
        found = [query]
        for each in found:
            stream = self.stream_of_answers(each)
            if stream is not None and stream.is_inner:
                found += [q.id for q in self.on_stream(stream.id) if q.id not in found]
        return [{"do": "set_status", "id": q, "status": "quarantined", "reason": reason} for q in found]

    def inner_of(self, standing: Standing) -> list[StreamDefinition]:
        """The streams that were made for a query, with those that they are made of, near ones first."""
        found: list[StreamDefinition] = []
        waiting = [standing]
        for each in waiting:
            for stream in self.streams_of(each):
                if stream.is_inner and stream not in found:
                    found.append(stream)
                    waiting += [self.queries[q] for q in stream.queries if q in self.queries]
        return found

    def shown_names(self, streams: Iterable[StreamDefinition]) -> list[str]:
        """The names of streams as they were given: of one without a name, those that it is made of."""
        found: list[str] = []
        for each in streams:
            if each.is_inner:
                found += self.shown_names([self.streams[s] for s in each.sources])
            else:
                found.append(each.name)
        return list(dict.fromkeys(found))

    def stream_of(self, standing: Standing) -> StreamDefinition:
        """The stream that a query reads, the first if there are several."""
        return self.streams_of(standing)[0]

    def streams_of(self, standing: Standing) -> list[StreamDefinition]:
        """The streams that a query reads: of one input after the other, those of a union together."""
        if standing.inputs:
            return [self.streams[s] for owner in standing.inputs for s in self.stores[owner].spec.streams]
        return [self.streams[s] for s in self.synopses[standing.synopsis].spec.streams]

    def streams_named(self, names: Iterable[str]) -> list[StreamDefinition]:
        """The streams of these names, as far as there are any."""
        return [s for name in names if (s := self.stream(name)) is not None]

    def on_stream(self, stream: int) -> list[Standing]:
        """The queries that read a stream."""
        return [q for q in self.queries.values() if any(s.id == stream for s in self.streams_of(q))]

    @cached_property
    def asked(self) -> dict[str, tuple[StreamDefinition, AskedOperator]]:
        """The operators that streams ask for, by the name that their state is stored under."""
        return {asked.owner(stream.id): (stream, asked)
                for stream in self.streams.values() for asked in parse_operators(stream.options.operators)}  # fmt: skip

    def readers_of_answers(self, query: int) -> list[Standing]:
        """The queries that read the answers of a query."""
        return [q for q in self.queries.values() if query in q.definition.reads]

    def made_of(self, query: int) -> list[StreamDefinition]:
        """The streams that are made of a query's answers."""
        return [s for s in self.streams.values() if query in s.queries]

    def derived_from(self, stream: int) -> list[StreamDefinition]:
        """The streams that are derived from a stream, directly or through others, near ones first."""
        found: list[StreamDefinition] = []
        for each in self._downstream(stream):
            found += [s for s in each if s not in found]
        return found

    def by_time(self, stream: StreamDefinition, column: str) -> StreamDefinition | None:
        """The first stream of all rows of another one whose event time is that column, or None."""
        found = (s for s in self.streams.values() if s.derived is not None and s.derived.is_all_of(stream))
        return next((s for s in found if s.options.time.lower() == column.lower()), None)

    def _downstream(self, stream: int) -> list[list[StreamDefinition]]:
        levels: list[list[StreamDefinition]] = []
        sources = {stream}
        while sources:
            level = [s for s in self.streams.values() if sources & set(s.sources)]
            levels += [level]
            sources = {s.id for s in level}
        return levels

    def stream_of_answers(self, query: int) -> StreamDefinition | None:
        """The derived stream that a query's answers are the rows of, or None."""
        return next(iter(self.made_of(query)), None)

    def summaries_of(self, stream: int) -> list[Summary]:
        """The summary copies of a stream's archive."""
        return [s for s in self.summaries.values() if s.stream == stream]

    def kept_by(self, owner: str) -> list[Summary]:
        """The summary copies whose partials a synopsis makes."""
        return [s for s in self.summaries.values() if s.owner == owner]

    def of_kind(self, reference: str) -> list[Standing]:
        """The queries over windows of a registered kind."""
        return [q for q in self.queries.values() if q.definition.query.window_kind == reference]

    def users(self, owner: str) -> list[Standing]:
        """The queries that have a synopsis or a store; see `served`."""
        return list(self._users.get(owner, ()))

    @cached_property
    def _users(self) -> dict[str, list[Standing]]:
        found: dict[str, list[Standing]] = {}
        for standing in self.queries.values():
            for owner in dict.fromkeys((standing.synopsis, *standing.inputs)):
                found.setdefault(owner, []).append(standing)
        return found

    def served(self, owner: str) -> list[Standing]:
        """The queries that a synopsis or a store works for: none that is quarantined."""
        return [q for q in self._users.get(owner, ()) if q.status != "quarantined"]

    def is_of_use(self, owner: str) -> bool:
        """Whether a synopsis or a store works for anybody; if not, it gets no rows and keeps none."""
        return bool(self.served(owner) or self.kept_by(owner))

    def running(self) -> list[Standing]:
        """The queries that something may have to be done for: all but those that are quarantined."""
        return [q for q in self.queries.values() if q.status != "quarantined"]
