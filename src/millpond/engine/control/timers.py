"""Whether an epoch has something to do although no rows have come: what the passing of time alone brings about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millpond.catalog.unions import progress_of
from millpond.engine.core import Core
from millpond.operators.derived.granularity import moves
from millpond.operators.derived.rows import announced, followers
from millpond.operators.relation.bounds import answered_until, stirring_bound
from millpond.operators.windowed.early import due
from millpond.operators.windowed.smoothing import due as flush_due
from millpond.progress import NEVER, StreamProgress, absorb
from millpond.types import ARRIVAL
from millpond.windows import Cover, Panes, first_end_after


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
    for standing in core.catalog.queries.values():
        known = core.published.queries.get(str(standing.id))
        if known is None or driven.isdisjoint(s.id for s in core.catalog.streams_of(standing)):
            continue
        window = standing.definition.query.window
        if standing.inputs:
            until = stirring_bound(core.catalog, standing, states, clock)
            if standing.status == "live" and moves(known, standing.definition.options, until):
                return True
            continue
        state = progress_of(core.catalog, core.catalog.synopses[standing.synopsis].spec, states)
        reached = announced(standing.definition.options, state.bound)
        if state.high <= NEVER or reached <= known.closed:
            continue
        if window is None:
            if known.closed <= state.high:  # there may be a row to end a window with
                return True
            continue
        # The first end that is not closed yet; nothing was closed while the bound was not known.
        end = first_end_after(window, known.closed if known.closed > NEVER else state.high)
        start = NEVER if window.kind is not None else int(Cover(Panes(1), window).starts(np.array([end]))[0])
        reported = standing.definition.options.empty == "report" or start <= state.high
        if end <= reached and reported:
            return True
    return False


def clock_due(core: Core, clock: int) -> bool:
    """Whether early answers are to be made of rows that have come already, or answers go out that wait."""
    for query in core.catalog.queries.values():
        progress = core.published.queries.get(str(query.id))
        if query.status != "live" or progress is None:
            continue
        definition = query.definition
        if progress.stirred and due(definition.options, progress, clock):
            return True
        if flush_due(definition.query, definition.options, progress, clock):
            return True
    return False


def resumed(core: Core) -> bool:
    """Whether a query that was paused has something to catch up on."""
    return any(
        q.status == "live"
        and str(q.id) in core.published.queries
        and (
            core.published.queries[str(q.id)].paused is not None
            or core.published.queries[str(q.id)].closed
            < answered_until(core.catalog, q, core.published.progress, core.published.clock)
        )
        for q in core.catalog.queries.values()
    )
