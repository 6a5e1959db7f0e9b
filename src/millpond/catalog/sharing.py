"""Which synopsis serves a new query: reuse one that fits, widen one that has not started, or make a new one.

A pure decision; the caller records it as an event.
"""

from __future__ import annotations

from dataclasses import replace

from millpond.catalog.state import Catalog, Synopsis
from millpond.synopses import spec_of
from millpond.types import BoundQuery, QueryOptions, StreamDefinition


def assign(
    catalog: Catalog,
    query: BoundQuery,
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
            started = synopsis.first_epoch < next_epoch
            if synopsis.spec.serves(needed, query):
                if not started or complete_since.get(synopsis.owner, needed_since + 1) <= needed_since:
                    return synopsis, False
            elif not started and _widens(synopsis, query) and synopsis.spec.agrees(needed):
                # Not born yet: it may still take in more components without any back-fill of its own.
                have = {c.name: c for c in synopsis.spec.components}
                have.update({c.name: c for c in needed.components})
                casts = dict(synopsis.spec.casts) | dict(needed.casts)
                wider = replace(synopsis.spec, components=tuple(have.values()), casts=tuple(casts.items()))
                if wider.serves(needed, query):
                    return replace(synopsis, spec=wider), True
    return Synopsis(f"{needed.key}.{next_epoch}.{catalog.next_id}", needed, next_epoch), True


def _widens(synopsis: Synopsis, query: BoundQuery) -> bool:
    return query.window is not None and synopsis.spec.panes.serves(query.window)
