"""Whether an epoch has something to do although no rows have come: what the passing of time alone brings about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from millpond.catalog import Catalog, Standing
from millpond.manifests.places import query_owner
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import Published
from millpond.operators.derived.passed_rows import followers
from millpond.operators.registry import operators_of
from millpond.progress import NEVER, StreamProgress, absorb
from millpond.types import ARRIVAL


def is_due(published: Published, clock: int, arrivals: Mapping[str, int], failures: Failures) -> bool:
    """Whether time alone, the clock, or a query that runs again or begins gives an epoch something to do.

    Args:
        clock: the reading of the epoch (microseconds).
        arrivals: per stream that runs on arrival time, the time before which nothing can arrive any more.
        failures: with the catalog.
    """
    return (
        tick_closes(published, clock, arrivals, failures)
        or clock_due(published, clock, failures)
        or resumed(published, failures)
        or begins(published, clock, failures)
    )


def tick_closes(published: Published, clock: int, arrivals: Mapping[str, int], failures: Failures) -> bool:
    """Whether the passing of time alone closes a window; arguments as of `is_due`."""
    catalog = failures.catalog
    states, driven = driven_by_time(catalog, published.progress, clock, arrivals)
    if not driven:
        return False
    answering = operators_of(catalog).answering
    for standing in catalog.running():
        known = published.queries.get(str(standing.id))
        if known is None or driven.isdisjoint(s.id for s in catalog.streams_of(standing)):
            continue
        looking = partial(answering[standing.id].due, standing, known, states, clock)
        if failures.attempt(query_owner(standing.id), looking):
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


def clock_due(published: Published, clock: int, failures: Failures) -> bool:
    """Whether early answers are to be made of rows that have come already, or answers go out that wait."""
    answering, known = operators_of(failures.catalog).answering, published.queries
    return any(
        failures.each(
            _live(failures.catalog, published),
            lambda q: answering[q.id].due_by_clock(q, known[str(q.id)], clock),
            otherwise=False,
        )
    )


def resumed(published: Published, failures: Failures) -> bool:
    """Whether a query that was paused has something to catch up on."""
    answering = operators_of(failures.catalog).answering

    def is_behind(query: Standing) -> bool:
        known = published.queries[str(query.id)]
        until = answering[query.id].answered_until(query, published.progress, published.clock)
        return known.paused is not None or known.closed < until

    return any(failures.each(_live(failures.catalog, published), is_behind, otherwise=False))


def begins(published: Published, clock: int, failures: Failures) -> bool:
    """Whether a relational query that needs no back-fill, as its stores hold what it needs, is to begin where its
    streams are: until an epoch has said where that is, nobody can read it.
    """
    waiting = [q for q in failures.catalog.running() if q.inputs and q.status == "live"]
    waiting = [q for q in waiting if str(q.id) not in published.queries]
    if not waiting:
        return False
    answering = operators_of(failures.catalog).answering
    starts = failures.each(waiting, lambda q: answering[q.id].starts_at(q, published.progress, clock), NEVER)
    return any(start > NEVER for start in starts)


def _live(catalog: Catalog, published: Published) -> list[Standing]:
    """The queries that answer, and have begun to."""
    return [q for q in catalog.queries.values() if q.status == "live" and str(q.id) in published.queries]
