"""The catalog as a pure fold over events: `apply(catalog, event) -> catalog`.

Names are case-insensitive and share one namespace; ids are never used twice, so a recreated name is a new thing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, assert_never

from millpond.progress import NEVER
from millpond.relations import Rows
from millpond.support.sql import quote
from millpond.synopses import PanesSpec
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.partials.specs import SynopsisSpec
from millpond.types import (
    FunctionDefinition,
    KindDefinition,
    KindWindow,
    PairsQuery,
    QueryDefinition,
    QueryOptions,
    RelationalQuery,
    RelationQuery,
    RowWindowQuery,
    StandingQuery,
    StreamDefinition,
    TableDefinition,
    WindowedQuery,
    WindowQuery,
    from_json,
)

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
class Store:
    """Rows of a stream that one or more relational queries share.

    owner: the name that its rows are stored under. first_epoch: the first epoch whose rows it receives live.
    home: the shard that has all of them; every store of a query has the same. -1: they are spread.
    spread: DuckDB SQL over the rows, by whose hash they are spread over the shards; '': they are in one.
    deal: the column by whose hash rows of split keys are dealt over the shards, or 'copies' when every shard has them;
        '': no key is split.
    """

    owner: str
    spec: Rows
    first_epoch: int
    home: int
    spread: str = ""
    deal: str = ""

    def in_shard(self, shard: int) -> bool:
        """Whether a shard has rows of it."""
        return bool(self.spread) or self.home == shard


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
    def windowed(self) -> WindowedQuery:
        """Its query, which is one over windows that have ends."""
        assert isinstance(self.definition.query, WindowedQuery)
        return self.definition.query

    @property
    def relational(self) -> RelationalQuery:
        """Its query, which is one of CQL."""
        assert isinstance(self.definition.query, RelationalQuery)
        return self.definition.query


@dataclass(frozen=True)
class Catalog:
    """Everything declared, by id (queries, streams, tables, summaries) or owner (synopses).

    reductions: registered reduction functions by name, each with the file that holds it, relative to the pond.
    settings: what ALTER SYSTEM has set, by name.
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
        hidden = {s.derived.query for s in self.streams.values() if s.is_inner and s.derived is not None}
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
        found += [s.name for s in self.streams.values() if s.derived is not None and stream in s.derived.sources
                  and not s.is_inner]  # fmt: skip
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
                if stream.is_inner and stream not in found and stream.derived is not None:
                    found.append(stream)
                    waiting += [self.queries[q] for q in [stream.derived.query] if q in self.queries]
        return found

    def stream_of(self, standing: Standing) -> StreamDefinition:
        """The stream that a query reads, the first if there are several."""
        return self.streams_of(standing)[0]

    def streams_of(self, standing: Standing) -> list[StreamDefinition]:
        """The streams that a query reads: of one input after the other, those of a union together."""
        if standing.inputs:
            return [self.streams[s] for owner in standing.inputs for s in self.stores[owner].spec.streams]
        return [self.streams[s] for s in self.synopses[standing.synopsis].spec.streams]

    def on_stream(self, stream: int) -> list[Standing]:
        """The queries that read a stream."""
        return [q for q in self.queries.values() if any(s.id == stream for s in self.streams_of(q))]

    def derived_from(self, stream: int) -> list[StreamDefinition]:
        """The streams that are derived from a stream, directly or through others, near ones first."""
        found: list[StreamDefinition] = []
        for each in self._downstream(stream):
            found += [s for s in each if s not in found]
        return found

    def _downstream(self, stream: int) -> list[list[StreamDefinition]]:
        levels: list[list[StreamDefinition]] = []
        sources = {stream}
        while sources:
            level = [s for s in self.streams.values() if s.derived is not None and sources & set(s.derived.sources)]
            levels += [level]
            sources = {s.id for s in level}
        return levels

    def stream_of_answers(self, query: int) -> StreamDefinition | None:
        """The derived stream that a query's answers are the rows of, or None."""
        return next((s for s in self.streams.values() if s.derived is not None and s.derived.query == query), None)

    def summaries_of(self, stream: int) -> list[Summary]:
        """The summary copies of a stream's archive."""
        return [s for s in self.summaries.values() if s.stream == stream]

    def kept_by(self, owner: str) -> list[Summary]:
        """The summary copies whose partials a synopsis makes."""
        return [s for s in self.summaries.values() if s.owner == owner]

    def of_kind(self, reference: str) -> list[Standing]:
        """The queries over windows of a registered kind."""
        return [q for q in self.queries.values() if _kind_of(q.definition.query) == reference]

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


def apply(catalog: Catalog, event: dict[str, Any]) -> Catalog:
    """The catalog after `event`, a JSON value as `log` stores it: `{"do": …, …}`."""
    after = replace(catalog, version=catalog.version + 1)
    do = event["do"]
    if do == "create_stream":
        if "standing" in event:  # a stream of its answers
            after = replace(apply(catalog, event | {"do": "create_query"}), version=after.version)
        definition = from_json(StreamDefinition, event["definition"])
        return replace(after, streams={**catalog.streams, definition.id: definition}, next_id=definition.id + 1)
    if do in ("create_table", "alter_table"):
        table = from_json(TableDefinition, event["definition"])
        return replace(after, tables={**catalog.tables, table.id: table}, next_id=max(catalog.next_id, table.id + 1))
    if do == "create_query":
        standing = from_json(Standing, event["standing"])
        synopses = dict(catalog.synopses)
        if "synopsis" in event:
            synopsis = from_json(Synopsis, event["synopsis"])
            synopses[synopsis.owner] = synopsis
        stores = dict(catalog.stores)
        for value in event.get("stores", ()):
            store = from_json(Store, value)
            stores[store.owner] = store
        after = replace(after, stores=stores)
        queries = {k: q for k, q in catalog.queries.items() if k != event.get("replaces")}
        after = replace(after, synopses=synopses, queries={**queries, standing.id: standing}, next_id=standing.id + 1)
        # A stream that a query is to read is there before the query.
        return _without_unused(after) if "replaces" not in event else _without_unread(_without_unused(after))
    if do == "create_kind":
        kind = from_json(KindDefinition, event["definition"])
        return replace(after, kinds={**catalog.kinds, kind.name.lower(): kind}, next_id=kind.id + 1)
    if do == "drop_kind":
        return replace(after, kinds={k: d for k, d in catalog.kinds.items() if k != event["name"].lower()})
    if do == "create_function":
        function = from_json(FunctionDefinition, event["definition"])
        functions = {**catalog.functions, function.name: function}
        return replace(after, functions=functions, next_id=function.id + 1)
    if do == "drop_function":
        return replace(after, functions={k: f for k, f in catalog.functions.items() if k != event["name"]})
    if do == "drop_query":
        kept = {k: q for k, q in catalog.queries.items() if k != event["id"]}
        return _without_unread(_without_unused(replace(after, queries=kept)))
    if do == "set_summaries":
        return _with_summaries(after, event)
    if do == "forsake":
        summaries = {k: replace(s, owner="" if s.owner == event["synopsis"] else s.owner)
                     for k, s in catalog.summaries.items()}  # fmt: skip
        return _without_unused(replace(after, summaries=summaries))
    if do == "drop_stream":
        after = replace(after, streams={k: s for k, s in catalog.streams.items() if k != event["id"]})
        return _without_unread(_with_summaries(after, {"stream": event["id"]}))
    if do == "drop_table":
        return replace(after, tables={k: t for k, t in catalog.tables.items() if k != event["id"]})
    if do == "alter_stream":
        definition = from_json(StreamDefinition, event["definition"])
        altered = replace(after, streams={**catalog.streams, definition.id: definition})
        return narrow(altered, definition.id, event["column"], event["type"]) if "type" in event else altered
    if do == "set_status":
        standing = replace(catalog.queries[event["id"]], status=event["status"], reason=event.get("reason", ""))
        return replace(after, queries={**catalog.queries, standing.id: standing})
    if do == "reshare":
        return _reshared(after, event)
    if do == "set_setting":
        return replace(after, settings={**catalog.settings, event["name"]: event["value"]})
    if do == "reset_setting":
        return replace(after, settings={n: v for n, v in catalog.settings.items() if n != event["name"]})
    if do == "set_options":
        standing = catalog.queries[event["id"]]
        changed = replace(standing.definition, options=from_json(QueryOptions, event["options"]))
        standing = replace(standing, definition=changed, floor=max(standing.floor, event.get("floor", NEVER)))
        return replace(after, queries={**catalog.queries, standing.id: standing})
    if do == "create_reduction":
        return replace(after, reductions={**catalog.reductions, event["name"]: event["file"]})
    if do == "drop_reduction":
        return replace(after, reductions={k: f for k, f in catalog.reductions.items() if k != event["name"]})
    raise ValueError(f"unknown catalog event {do!r}")


def _reshared(catalog: Catalog, event: dict[str, Any]) -> Catalog:
    """The catalog with queries that went over to other state, some of it new; what nobody uses any more goes."""
    synopses = {s.owner: s for value in event["synopses"] for s in [from_json(Synopsis, value)]}
    stores = {s.owner: s for value in event["stores"] for s in [from_json(Store, value)]}
    moved = {
        number: replace(catalog.queries[number], synopsis=synopsis, inputs=tuple(inputs))
        for number, synopsis, inputs in event["queries"]
    }
    return _without_unused(
        replace(
            catalog,
            synopses=catalog.synopses | synopses,
            stores=catalog.stores | stores,
            queries=catalog.queries | moved,
        )
    )


def _with_summaries(catalog: Catalog, event: dict[str, Any]) -> Catalog:
    """The catalog with other summaries of one stream, and the synopses that are new with them."""
    made = [from_json(Summary, value) for value in event.get("summaries", ())]
    synopses = {s.owner: s for value in event.get("synopses", ()) for s in [from_json(Synopsis, value)]}
    others = {k: s for k, s in catalog.summaries.items() if s.stream != event["stream"]}
    return _without_unused(
        replace(
            catalog,
            summaries=others | {s.id: s for s in made},
            synopses={**catalog.synopses, **synopses},
            next_id=max([catalog.next_id, *(s.id + 1 for s in made)]),
        )
    )


def narrow(catalog: Catalog, stream: int, column: str, kind: str) -> Catalog:
    """Queries over a stream one of whose columns became wider go on with the type that they know.

    Arguments:
        column, kind: the column and the type it had.
    """
    synopses = {k: replace(s, spec=_narrowed(s.spec, stream, column, kind)) for k, s in catalog.synopses.items()}
    stores = {k: replace(s, spec=_narrowed(s.spec, stream, column, kind)) for k, s in catalog.stores.items()}
    queries = dict(catalog.queries)
    for number, standing in catalog.queries.items():
        query = standing.definition.query
        match query:
            case RelationQuery() | PairsQuery():
                specs = [stores[owner].spec for owner in standing.inputs]
                inputs = tuple(replace(i, narrowed=s.narrowed) for i, s in zip(query.inputs, specs, strict=True))
                query = replace(query, inputs=inputs)
            case WindowQuery() | RowWindowQuery():
                query = replace(query, narrowed=synopses[standing.synopsis].spec.narrowed)
            case _:
                assert_never(query)
        queries[number] = replace(standing, definition=replace(standing.definition, query=query))
    return replace(catalog, synopses=synopses, stores=stores, queries=queries)


S = TypeVar("S", bound=SynopsisSpec | Rows)


def _narrowed(spec: S, stream: int, column: str, kind: str) -> S:
    """The spec, which takes a column of a stream that it reads as `kind`; a union calls it as its first stream does."""
    ours: str | None = column if spec.stream == stream else None
    if isinstance(spec, SynopsisSpec):
        if spec.feeds:
            feed = next((f for f in spec.feeds if f.stream == stream and column in f.columns), None)
            ours = None if feed is None else spec.feeds[0].columns[feed.columns.index(column)]
        reads = ours is not None and quote(ours) in spec.texts
    else:
        reads = column in spec.columns or quote(column) in " ".join([spec.condition or "", *spec.checks])
    return replace(spec, narrowed=_with(spec.narrowed, ours, kind)) if reads and ours is not None else spec


def _with(narrowed: tuple[tuple[str, str], ...], column: str, kind: str) -> tuple[tuple[str, str], ...]:
    """The first type stays: what was narrowed before is narrow enough."""
    return narrowed if quote(column) in dict(narrowed) else (*narrowed, (quote(column), kind))


def _kind_of(query: StandingQuery) -> str | None:
    """The reference of the registered kind of a query's windows; None: they are of another."""
    return query.window.kind if isinstance(query, WindowQuery) and isinstance(query.window, KindWindow) else None


def _without_unread(catalog: Catalog) -> Catalog:
    """The catalog without streams that queries made for themselves and none reads any more."""
    while True:
        read = {s for synopsis in catalog.synopses.values() for s in synopsis.spec.streams}
        read |= {s for store in catalog.stores.values() for s in store.spec.streams}
        unread = {s.id: s.derived.query for s in catalog.streams.values() if s.is_inner and s.derived is not None
                  and s.id not in read}  # fmt: skip
        if not unread:
            return catalog
        streams = {k: s for k, s in catalog.streams.items() if k not in unread}
        queries = {k: q for k, q in catalog.queries.items() if k not in unread.values()}
        catalog = _without_unused(replace(catalog, streams=streams, queries=queries))


def _without_unused(catalog: Catalog) -> Catalog:
    used = {q.synopsis for q in catalog.queries.values()} | {s.owner for s in catalog.summaries.values()}
    stored = {owner for q in catalog.queries.values() for owner in q.inputs}
    return replace(
        catalog,
        synopses={k: s for k, s in catalog.synopses.items() if k in used},
        stores={k: s for k, s in catalog.stores.items() if k in stored},
    )
