"""Which synopsis serves a new query: reuse one that fits, widen one that has not started, or make a new one.

A pure decision; the caller records it as an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millpond.catalog.catalog_state import Catalog, Store, Synopsis
from millpond.relations import rows_needed
from millpond.support.sql import quote
from millpond.synopses import spec_of
from millpond.synopses.conjunctions import conjunction_of
from millpond.types import (
    Expression,
    QueryOptions,
    RelationalQuery,
    RelationInput,
    StreamDefinition,
    WindowedQuery,
)
from millpond.types.relation_queries import NotSalted, SaltedBy, Salting


def assign(
    catalog: Catalog,
    query: WindowedQuery,
    stream: StreamDefinition,
    next_epoch: int,
    complete_since: dict[str, int],
    needed_since: int,
    share: bool = True,
    options: QueryOptions | None = None,
) -> tuple[Synopsis, bool]:
    """The synopsis for `query`, and whether it is new (and so needs a back-fill if there is history).

    Arguments:
        next_epoch: the first epoch that a new synopsis receives.
        complete_since: per owner, the event time from which its state holds every row.
        needed_since: the event time from which the query needs rows.
        share: False gives every query a synopsis of its own.
        options: of the query.
    """
    needed = spec_of(query, stream, options)
    if share:
        for synopsis in catalog.synopses.values():
            if options is not None and not ordered_alike(catalog, synopsis.owner, needed.where, options):
                continue
            started = synopsis.first_epoch < next_epoch
            if synopsis.spec.serves(needed, query):
                if not started or complete_since.get(synopsis.owner, needed_since + 1) <= needed_since:
                    return synopsis, False
            elif not started and (wider := synopsis.spec.widened(needed, query)) is not None:
                return replace(synopsis, spec=wider), True  # not born yet: it needs no back-fill of its own
    return Synopsis(f"{needed.key}.{next_epoch}.{catalog.next_id}", needed, next_epoch), True


def ordered_alike(catalog: Catalog, owner: str, where: Expression | None, options: QueryOptions) -> bool:
    """Whether a query may have its condition evaluated with that of other users, as to the order of its filters.

    That is kept by the options of the oldest user. A query that wants it otherwise evaluates its condition by itself.
    """
    conjunction = conjunction_of(where)
    if conjunction is None or len(conjunction.filters) < 2:
        return True
    oldest = min(catalog.users(owner), key=lambda q: q.id, default=None)
    return oldest is None or oldest.definition.options.ordering == options.ordering


@dataclass(frozen=True)
class Stored:
    """The stores of a relational query: one owner per input, those that are new or widened, whether to back-fill."""

    inputs: tuple[str, ...]
    changed: tuple[Store, ...]
    waits: bool


def assign_stores(
    catalog: Catalog,
    relation: RelationalQuery,
    options: QueryOptions,
    streams: Sequence[tuple[StreamDefinition, bool]],
    next_epoch: int,
    number: int,
    shards: int,
    share: bool,
) -> Stored:
    """The stores that a relational query reads: shared where rows and columns agree and reach far enough back.

    Args:
        streams: per input, the stream, and whether it has rows of epochs before `next_epoch`.
        number: the query's id. share: False gives every query stores of its own.
    """
    made: dict[str, Store] = {}
    owners: list[str] = []
    backdated = options.since is not None
    waits = backdated and any(old for _, old in streams)
    shard: int | None = None
    for item, (stream, old) in zip(relation.inputs, streams, strict=True):
        wanted, (spread, saltings) = rows_needed(item, stream), _placing(relation, item)
        found: Store | None = next((s for s in made.values() if s.spread == spread and s.spec.serves(wanted)), None)
        for store in catalog.stores.values() if share and found is None else ():
            if not ordered_alike(catalog, store.owner, wanted.condition, options):
                continue
            if (
                store.spread != spread
                or store.salting not in saltings
                or (not spread and shard not in (None, store.shard))
            ):
                continue
            if store.first_epoch >= next_epoch and not old:  # not born yet: it may still take in more columns
                wider = store.spec.with_columns(wanted)
                if wider.serves(wanted) and wider.where == store.spec.where and wider.serves(store.spec):
                    found = replace(store, spec=wider) if wider != store.spec else store
            elif store.first_epoch < next_epoch and not backdated and store.spec.serves(wanted):
                found = store if _reaches(catalog, store, relation, item) else None
            if found is not None:
                break
        if found is None:
            found = Store(
                f"{wanted.key}.{next_epoch}.{number}.{len(owners)}", wanted, next_epoch, -1, spread, saltings[0]
            )
            waits = waits or old
        if found.shard >= 0:
            shard = found.shard
        owners.append(found.owner)
        if catalog.stores.get(found.owner) != found:
            made[found.owner] = found
    if shard is None:
        shard = _beside(catalog, [s for s in made.values() if not s.spread], number % shards)
    changed = tuple(replace(s, shard=shard) if s.shard < 0 and not s.spread else s for s in made.values())
    return Stored(tuple(owners), changed, waits)


def _beside(catalog: Catalog, made: Sequence[Store], shard: int) -> int:
    """The shard of state that new stores could share, so that they may become one with it.

    Args:
        shard: where there is none.
    """
    for mine in made:
        for other in catalog.stores.values():
            if not other.spread and other.spec.with_columns(mine.spec).serves(mine.spec):
                return other.shard
    return shard


def _placing(relation: RelationalQuery, item: RelationInput) -> tuple[Expression | None, tuple[Salting, ...]]:
    """By what the rows of an input are spread over shards, and how those of split keys may be placed: best first."""
    plan = relation.joined
    if plan is None or not plan.spread:
        return None, (NotSalted(),)
    number = plan.items.index(item.alias)
    names = [name for each in relation.inputs for name in each.names]
    if not plan.salting or len(set(names)) < len(names):  # one store for both sides is better than splitting keys
        return plan.spread[number], (NotSalted(),)
    best = plan.salting[number]
    others = [] if best.copied else [SaltedBy(quote(c)) for n, c in plan.plain if n == number]
    return plan.spread[number], (best, *others)


def _reaches(catalog: Catalog, store: Store, wanted: RelationalQuery, item: RelationInput) -> bool:
    """Whether a store certainly holds what is in the window of a new input, since a running one needs as much."""
    if not wanted.keeps_windows:
        return False
    for standing in catalog.users(store.owner):
        if standing.status != "live":
            continue
        relation = standing.relational
        for owner, other in zip(standing.inputs, relation.inputs, strict=True):
            if owner == store.owner and covers(relation, other, item):
                return True
    return False


def covers(relation: RelationalQuery, other: RelationInput, item: RelationInput) -> bool:
    """Whether what `other`, an input of `relation`, keeps in its window is all that `item` needs in its own."""
    mine = other.window
    return relation.keeps_windows and mine.holds(item.window) and (mine.leaves or not relation.forgets)
