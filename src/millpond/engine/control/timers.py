"""Whether an epoch has something to do although no rows have come: what the passing of time alone brings about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millpond.catalog import Catalog
from millpond.manifests.records import Published
from millpond.operators.derived.rows import followers
from millpond.operators.registry import operators_of
from millpond.progress import StreamProgress, absorb
from millpond.types import ARRIVAL


def is_due(catalog: Catalog, published: Published, clock: int, arrivals: Mapping[str, int]) -> bool:
    """Whether time alone, the clock, or a query that runs again gives an epoch something to do.

    Args:
        clock: the reading of the epoch (microseconds).
        arrivals: per stream that runs on arrival time, the time before which nothing can arrive any more.
    """
    return (
        tick_closes(catalog, published, clock, arrivals)
        or clock_due(catalog, published, clock)
        or resumed(catalog, published)
    )


def tick_closes(catalog: Catalog, published: Published, clock: int, arrivals: Mapping[str, int]) -> bool:
    """Whether the passing of time alone closes a window; arguments as of `is_due`."""
    states, driven = driven_by_time(catalog, published.progress, clock, arrivals)
    if not driven:
        return False
    answering = operators_of(catalog).answering
    for standing in catalog.queries.values():
        known = published.queries.get(str(standing.id))
        if known is None or driven.isdisjoint(s.id for s in catalog.streams_of(standing)):
            continue
        if answering[standing.id].due(standing, known, states, clock):
            return True
    return False


def driven_by_time(
    catalog: Catalog, progress: Mapping[str, StreamProgress], clock: int, arrivals: Mapping[str, int]
) -> tuple[dict[str, StreamProgress], set[int]]:
    """Progress of the streams as an epoch at `clock` without rows would find it, and those that time has moved."""
    states, driven = dict(progress), set[int]()
    for stream, definition in catalog.streams.items():
        options = definition.options
        state = states.get(str(stream))
        if state is None or (options.time != ARRIVAL and options.idle is None and options.timer is None):
            continue
        after = absorb(state, options, (), clock, arrival=arrivals.get(str(stream)))
        if after.bound > state.bound or after.idle != state.idle:
            for follower in followers(catalog, stream):  # streams of rows of this one are as far as it is
                known_state = states.get(str(follower), StreamProgress())
                states[str(follower)] = after if follower == stream else replace(known_state, bound=after.bound)
                driven.add(follower)
    return states, driven


def clock_due(catalog: Catalog, published: Published, clock: int) -> bool:
    """Whether early answers are to be made of rows that have come already, or answers go out that wait."""
    answering = operators_of(catalog).answering
    return any(
        query.status == "live"
        and (known := published.queries.get(str(query.id))) is not None
        and answering[query.id].due_by_clock(query, known, clock)
        for query in catalog.queries.values()
    )


def resumed(catalog: Catalog, published: Published) -> bool:
    """Whether a query that was paused has something to catch up on."""
    answering = operators_of(catalog).answering
    return any(
        query.status == "live"
        and (known := published.queries.get(str(query.id))) is not None
        and (
            known.paused is not None
            or known.closed < answering[query.id].answered_until(query, published.progress, published.clock)
        )
        for query in catalog.queries.values()
    )


__all__ = ["clock_due", "is_due", "resumed", "tick_closes"]
