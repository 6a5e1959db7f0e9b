"""What happens to a catalog: one function per event, and `apply(catalog, event) -> catalog`, which finds it.

An event is a JSON value as `log` stores it, `{"do": …, …}`. A new event is a new function and a line of `EVENTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from millpond.catalog.catalog_state import Catalog, Standing, Store, Summary, Synopsis
from millpond.progress import NEVER
from millpond.relations import Rows
from millpond.support.sql import quote
from millpond.synopses.partials.specs import SynopsisSpec
from millpond.types import (
    FunctionDefinition,
    KindDefinition,
    QueryOptions,
    StreamDefinition,
    TableDefinition,
    from_json,
)

Event = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")


def apply(catalog: Catalog, event: Event) -> Catalog:
    """The catalog after `event`, one version later.

    Raises:
        ValueError: for an event that this version does not know.
    """
    happen = EVENTS.get(event["do"])
    if happen is None:
        raise ValueError(f"unknown catalog event {event['do']!r}")
    return happen(replace(catalog, version=catalog.version + 1), event)


def _create_stream(catalog: Catalog, event: Event) -> Catalog:
    if "standing" in event:  # a stream of its answers
        catalog = _create_query(catalog, event)
    definition = from_json(StreamDefinition, event["definition"])
    return replace(catalog, streams={**catalog.streams, definition.id: definition}, next_id=definition.id + 1)


def _alter_stream(catalog: Catalog, event: Event) -> Catalog:
    definition = from_json(StreamDefinition, event["definition"])
    altered = replace(catalog, streams={**catalog.streams, definition.id: definition})
    return narrow(altered, definition.id, event["column"], event["type"]) if "type" in event else altered


def _drop_stream(catalog: Catalog, event: Event) -> Catalog:
    left = replace(catalog, streams=_without(catalog.streams, event["id"]))
    left = replace(left, stopped={owner: reason for owner, reason in left.stopped.items() if owner in left.asked})
    return _without_unread(_set_summaries(left, {"stream": event["id"]}))


def _set_table(catalog: Catalog, event: Event) -> Catalog:
    table = from_json(TableDefinition, event["definition"])
    return replace(catalog, tables={**catalog.tables, table.id: table}, next_id=max(catalog.next_id, table.id + 1))


def _drop_table(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, tables=_without(catalog.tables, event["id"]))


def _create_query(catalog: Catalog, event: Event) -> Catalog:
    standing = from_json(Standing, event["standing"])
    synopses = [from_json(Synopsis, event["synopsis"])] if "synopsis" in event else []
    stores = [from_json(Store, value) for value in event.get("stores", ())]
    after = replace(
        catalog,
        synopses=catalog.synopses | {s.owner: s for s in synopses},
        stores=catalog.stores | {s.owner: s for s in stores},
        queries={**_without(catalog.queries, event.get("replaces")), standing.id: standing},
        next_id=standing.id + 1,
    )
    # A stream that a query is to read is there before the query.
    return _without_unused(after) if "replaces" not in event else _without_unread(_without_unused(after))


def _drop_query(catalog: Catalog, event: Event) -> Catalog:
    return _without_unread(_without_unused(replace(catalog, queries=_without(catalog.queries, event["id"]))))


def _set_status(catalog: Catalog, event: Event) -> Catalog:
    standing = replace(catalog.queries[event["id"]], status=event["status"], reason=event.get("reason", ""))
    return replace(catalog, queries={**catalog.queries, standing.id: standing})


def _set_options(catalog: Catalog, event: Event) -> Catalog:
    standing = catalog.queries[event["id"]]
    changed = replace(standing.definition, options=from_json(QueryOptions, event["options"]))
    standing = replace(standing, definition=changed, floor=max(standing.floor, event.get("floor", NEVER)))
    return replace(catalog, queries={**catalog.queries, standing.id: standing})


def _create_kind(catalog: Catalog, event: Event) -> Catalog:
    kind = from_json(KindDefinition, event["definition"])
    return replace(catalog, kinds={**catalog.kinds, kind.name.lower(): kind}, next_id=kind.id + 1)


def _drop_kind(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, kinds=_without(catalog.kinds, event["name"].lower()))


def _create_function(catalog: Catalog, event: Event) -> Catalog:
    function = from_json(FunctionDefinition, event["definition"])
    functions = {**catalog.functions, function.name: function}
    return replace(catalog, functions=functions, next_id=function.id + 1)


def _drop_function(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, functions=_without(catalog.functions, event["name"]))


def _create_reduction(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, reductions={**catalog.reductions, event["name"]: event["file"]})


def _drop_reduction(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, reductions=_without(catalog.reductions, event["name"]))


def _set_setting(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, settings={**catalog.settings, event["name"]: event["value"]})


def _reset_setting(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, settings=_without(catalog.settings, event["name"]))


def _forsake(catalog: Catalog, event: Event) -> Catalog:
    """Summaries that a synopsis kept go on without it."""
    summaries = {
        k: replace(s, owner="" if s.owner == event["synopsis"] else s.owner) for k, s in catalog.summaries.items()
    }
    return _without_unused(replace(catalog, summaries=summaries))


def _stop_operator(catalog: Catalog, event: Event) -> Catalog:
    return replace(catalog, stopped={**catalog.stopped, event["owner"]: event["reason"]})


def _reshare(catalog: Catalog, event: Event) -> Catalog:
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


def _set_summaries(catalog: Catalog, event: Event) -> Catalog:
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
        narrowed = [stores[owner].spec.narrowed for owner in standing.inputs]
        narrowed = narrowed or [synopses[standing.synopsis].spec.narrowed]
        query = standing.definition.query.with_narrowed(narrowed)
        queries[number] = replace(standing, definition=replace(standing.definition, query=query))
    return replace(catalog, synopses=synopses, stores=stores, queries=queries)


S = TypeVar("S", bound=SynopsisSpec | Rows)


def _narrowed(spec: S, stream: int, column: str, kind: str) -> S:
    """The spec, which takes a column of a stream that it reads as `kind`; a union calls it as its first stream does."""
    ours: str | None = column if spec.stream == stream else None
    if isinstance(spec, SynopsisSpec) and spec.feeds:
        feed = next((f for f in spec.feeds if f.stream == stream and column in f.columns), None)
        ours = None if feed is None else spec.feeds[0].columns[feed.columns.index(column)]
    if ours is None or ours not in spec.reads:
        return spec
    return replace(spec, narrowed=_with(spec.narrowed, ours, kind))


def _with(narrowed: tuple[tuple[str, str], ...], column: str, kind: str) -> tuple[tuple[str, str], ...]:
    """The first type stays: what was narrowed before is narrow enough."""
    return narrowed if quote(column) in dict(narrowed) else (*narrowed, (quote(column), kind))


def _without(items: dict[K, V], key: object) -> dict[K, V]:
    return {k: v for k, v in items.items() if k != key}


def _without_unread(catalog: Catalog) -> Catalog:
    """The catalog without streams that queries made for themselves and none reads any more."""
    while True:
        read = {s for synopsis in catalog.synopses.values() for s in synopsis.spec.streams}
        read |= {s for store in catalog.stores.values() for s in store.spec.streams}
        unread = {s.id: s.queries for s in catalog.streams.values() if s.is_inner and s.id not in read}
        if not unread:
            return catalog
        streams = {k: s for k, s in catalog.streams.items() if k not in unread}
        queries = {k: q for k, q in catalog.queries.items() if not any(k in of for of in unread.values())}
        catalog = _without_unused(replace(catalog, streams=streams, queries=queries))


def _without_unused(catalog: Catalog) -> Catalog:
    used = {q.synopsis for q in catalog.queries.values()} | {s.owner for s in catalog.summaries.values()}
    stored = {owner for q in catalog.queries.values() for owner in q.inputs}
    return replace(
        catalog,
        synopses={k: s for k, s in catalog.synopses.items() if k in used},
        stores={k: s for k, s in catalog.stores.items() if k in stored},
    )


EVENTS: dict[str, Callable[[Catalog, Event], Catalog]] = {
    "create_stream": _create_stream,
    "alter_stream": _alter_stream,
    "drop_stream": _drop_stream,
    "create_table": _set_table,
    "alter_table": _set_table,
    "drop_table": _drop_table,
    "create_query": _create_query,
    "drop_query": _drop_query,
    "set_status": _set_status,
    "set_options": _set_options,
    "create_kind": _create_kind,
    "drop_kind": _drop_kind,
    "create_function": _create_function,
    "drop_function": _drop_function,
    "create_reduction": _create_reduction,
    "drop_reduction": _drop_reduction,
    "set_setting": _set_setting,
    "reset_setting": _reset_setting,
    "set_summaries": _set_summaries,
    "forsake": _forsake,
    "stop_operator": _stop_operator,
    "reshare": _reshare,
}
