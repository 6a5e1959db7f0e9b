"""Whether an epoch has something to do although no rows have come: what the passing of time alone brings about."""

from __future__ import annotations

from dataclasses import replace

from millpond.engine.core import Core
from millpond.operators.derived.rows import followers
from millpond.progress import StreamProgress, absorb
from millpond.types import ARRIVAL


def tick_closes(core: Core, clock: int, arrivals: dict[str, int]) -> bool:
    """Whether the passing of time alone closes a window."""
    states, driven = dict(core.published.progress), set()
    for stream, runtime in list(core.streams.items()):
        options = runtime.definition.options
        state = states.get(str(stream))
        if state is None or (options.time != ARRIVAL and options.idle is None and options.timer is None):
            continue
        after = absorb(state, options, (), clock, arrival=arrivals.get(str(stream)))
        if after.bound > state.bound or after.idle != state.idle:
            for follower in followers(core.catalog, stream):  # streams of rows of this one are as far as it is
                known_state = states.get(str(follower), StreamProgress())
                states[str(follower)] = after if follower == stream else replace(known_state, bound=after.bound)
                driven.add(follower)
    if not driven:
        return False
    answering = core.operators.answering
    for standing in core.catalog.queries.values():
        known = core.published.queries.get(str(standing.id))
        if known is None or driven.isdisjoint(s.id for s in core.catalog.streams_of(standing)):
            continue
        if answering[standing.id].due(standing, known, states, clock):
            return True
    return False


def clock_due(core: Core, clock: int) -> bool:
    """Whether early answers are to be made of rows that have come already, or answers go out that wait."""
    answering = core.operators.answering
    return any(
        q.status == "live"
        and str(q.id) in core.published.queries
        and answering[q.id].due_by_clock(q, core.published.queries[str(q.id)], clock)
        for q in core.catalog.queries.values()
    )


def resumed(core: Core) -> bool:
    """Whether a query that was paused has something to catch up on."""
    published, answering = core.published, core.operators.answering
    return any(
        q.status == "live"
        and (known := published.queries.get(str(q.id))) is not None
        and (
            known.paused is not None
            or known.closed < answering[q.id].answered_until(q, published.progress, published.clock)
        )
        for q in core.catalog.queries.values()
    )
