"""Sharing of state, switched while the pond runs (`ALTER SYSTEM SET share = off`) between two epochs.

What is shared is a store, and each query sees of it what it needs; a query with state of its own sees the same (Babu
2005, section 2.5). Switched off, every query gets a copy of the committed state that it shared, and goes on with it;
switched on, queries go over to state that has all they need, and what nobody uses any more is dropped. Stores that fit
become one whenever there are such, whatever the order in which their queries came (`store_merging`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millpond.archive.open_archives import Archives
from millpond.archive.storage import Storage
from millpond.catalog import Catalog, CatalogLog, Standing, Store, Synopsis, apply
from millpond.catalog.sharing import ordered_alike
from millpond.catalog.unions import progress_of
from millpond.engine.control.store_merging import Merging, merged_state, mergings
from millpond.manifests.places import state_folder
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import Published
from millpond.operators.registry import answering_kind, windows_over
from millpond.operators.windowed.needs import complete_since, keep_since, spans_of
from millpond.progress import NEVER
from millpond.support.event_log import event_log
from millpond.synopses.tolerance import one_line
from millpond.tables import Chunk, Segment, read_chunks, write_chunks
from millpond.types import to_json

LOG = event_log(__name__)


@dataclass(frozen=True)
class Resharing:
    """What is to be done when sharing is switched.

    event: of the catalog; None: nothing moves. copies: the owners of state that get copies of a shared one's, by owner.
    mergings: stores that become one; it depends on their rows whether they can.
    """

    event: dict[str, Any] | None = None
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mergings: Sequence[Merging] = ()


def decide(catalog: Catalog, published: Published, share: bool) -> Resharing | None:
    """What brings the queries in line with the setting `share`: a pure decision; no epoch may be under way.

    Returns: None while queries are being back-filled, which stay as they are until they are live.
    """
    if any("backfilling" in (q.status, q.reason) for q in catalog.queries.values()):
        return None
    return together(catalog, published) if share else apart(catalog, published.epoch + 1)


def reshare(archives: Archives, log: CatalogLog, published: Published, decided: Resharing) -> None:
    """Do what was decided before the epoch behind the published one; the pond's lock must be held."""
    storage, epoch = archives.storage, published.epoch + 1
    written = _copied(storage, decided.copies, epoch) if decided.copies else []
    merged = _Move()
    for merging in decided.mergings:
        try:
            files = merged_state(archives, published, merging)
        except Exception as error:  # the stores go on as they are, and so do epochs
            LOG.warning("stores cannot become one", store=merging.store.owner, error=one_line(error))
            files = None
        if files is not None:
            written += files
            merged.merge(merging)
    if written:
        # With the version of the catalog: after a crash in between, the same copies are not committed twice.
        storage.state.commit(written, (), "reshare", log.catalog.version, moved=True)
    events = [event for event in (decided.event, merged.event) if event is not None]
    if events:
        log.record(*events)


def _copied(storage: Storage, copies: Mapping[str, Sequence[str]], epoch: int) -> list[Segment]:
    """State files with the chunks of shared state under the names of the copies: one for each file that has any."""
    folder, written = state_folder(storage.path), []
    with storage.pinned():
        for segment in storage.state.segments:
            chunks = [
                Chunk(owner, c.kind, c.epoch, c.low, c.high, c.table)
                for c in read_chunks([os.path.join(folder, segment.path)], set(copies))
                for owner in copies[c.owner]
            ]
            if not chunks:
                continue
            name = f"{segment.path.removesuffix('.parquet')}-own{epoch}.parquet"
            made = write_chunks(folder, name, chunks, segment.shard, segment.level, segment.last_epoch)
            written.append(replace(made, first_epoch=segment.first_epoch, last_epoch=segment.last_epoch))
    return written


@dataclass
class _Move:
    """Queries that go over to other state, as an event of the catalog."""

    queries: dict[int, Standing] = field(default_factory=dict)
    synopses: list[Synopsis] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    def merge(self, merging: Merging) -> None:
        """Let the queries of stores that become one go over to it."""
        self.stores.append(merging.store)
        for standing in merging.users:
            self.queries[standing.id] = merging.moved(self.queries.get(standing.id, standing))

    @property
    def event(self) -> dict[str, Any] | None:
        """None: nothing moves."""
        if not self.queries:
            return None
        return {
            "do": "reshare",
            "queries": [[q.id, q.synopsis, list(q.inputs)] for q in self.queries.values()],
            "synopses": [to_json(s) for s in self.synopses],
            "stores": [to_json(s) for s in self.stores],
        }


# -- apart -------------------------------------------------------------------------------------------------------------


def apart(catalog: Catalog, epoch: int) -> Resharing:
    """Give every query but one of those that share state a copy of it, from epoch `epoch` on."""
    move, copies = _Move(), defaultdict[str, list[str]](list)
    for synopsis in catalog.synopses.values():
        users = sorted(catalog.served(synopsis.owner), key=lambda q: q.id)
        for standing in users[0 if catalog.kept_by(synopsis.owner) else 1 :]:
            own = replace(synopsis, owner=_owner(synopsis.owner, epoch, standing.id), first_epoch=epoch)
            copies[synopsis.owner].append(own.owner)
            move.synopses.append(own)
            move.queries[standing.id] = replace(standing, synopsis=own.owner)
    for store in catalog.stores.values():
        for standing in sorted(catalog.served(store.owner), key=lambda q: q.id)[1:]:
            mine = replace(store, owner=_owner(store.owner, epoch, standing.id), first_epoch=epoch)
            copies[store.owner].append(mine.owner)
            move.stores.append(mine)
            known = move.queries.get(standing.id, standing)
            inputs = tuple(mine.owner if o == store.owner else o for o in known.inputs)
            move.queries[standing.id] = replace(known, inputs=inputs)
    return Resharing(move.event, copies)


def _owner(owner: str, epoch: int, query: int) -> str:
    """A name for state of a query's own: the key of its definition, the epoch, the query."""
    return f"{owner.split('.')[0]}.{epoch}.{query}.own"


# -- together ----------------------------------------------------------------------------------------------------------


def together(catalog: Catalog, published: Published) -> Resharing:
    """Let queries go over to state of others that has all that they need."""
    move = _Move()
    for number in sorted(catalog.queries):
        standing = catalog.queries[number]
        if standing.status != "live" or standing.definition.query.reduced or standing.inputs:
            continue
        moved = _joined_synopsis(catalog, published, standing)
        if moved is not None:
            move.queries[number] = moved
            catalog = apply(catalog, _Move({number: moved}).event or {})
    return Resharing(move.event, mergings=mergings(catalog, published))


def _joined_synopsis(catalog: Catalog, published: Published, standing: Standing) -> Standing | None:
    query, own = standing.windowed, catalog.synopses[standing.synopsis]
    stream = catalog.stream_of(standing)
    known = published.queries.get(str(standing.id))
    if known is None or known.paused is not None or catalog.kept_by(own.owner):
        return None
    if query.numbered and stream.options.retention is not None:
        return None  # windows are numbered from the first row that was there
    high = progress_of(catalog, own.spec, published.progress).high
    need = keep_since(own, standing, stream, answering_kind(query).answered(known), high)
    since = answering_kind(query).reads_since(query, known.start) if known.start > NEVER else None
    if since is not None:  # windows that end before it are not the query's business
        need = max(need, known.start - (known.start - since) * spans_of(query, standing.definition.options, 2))
    found = [
        s
        for s in catalog.synopses.values()
        if s.owner != own.owner
        and s.spec.serves(own.spec, query)
        and ordered_alike(catalog, s.owner, own.spec.where, standing.definition.options)
        and len(catalog.users(s.owner)) >= len(catalog.users(own.owner))
        and _complete_since(catalog, published, s) <= need
    ]
    best = max(found, key=lambda s: (len(catalog.users(s.owner)), s.owner), default=None)
    return None if best is None else replace(standing, synopsis=best.owner)


def _complete_since(catalog: Catalog, published: Published, synopsis: Synopsis) -> int:
    """The event time from which a synopsis certainly holds every row, by what its users need."""
    high = progress_of(catalog, synopsis.spec, published.progress).high
    stream = catalog.streams[synopsis.spec.stream]
    known = published.queries
    users = [q for q in catalog.users(synopsis.owner) if q.status == "live" and str(q.id) in known]
    users = [q for q in users if known[str(q.id)].paused is None]
    failures = Failures(catalog, "sharing")
    covered = windows_over(synopsis.spec).covered

    def since_of(query: Standing) -> int:
        progress = known[str(query.id)]
        return complete_since(query, synopsis, stream, progress, covered(progress), high)

    since = failures.each(users, since_of, 2**62)
    return min(since, default=2**62)


__all__ = ["Resharing", "apart", "decide", "reshare", "together"]
