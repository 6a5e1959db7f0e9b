"""How far a standing query may answer: the progress of its stream, or the least of its streams that are not idle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millpond.catalog import Catalog, Standing
from millpond.engine.unions import progress_of
from millpond.progress import NEVER, StreamProgress
from millpond.types import StreamDefinition


def bound_of(catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The bound that a query's answers follow.

    Arguments:
        progress: of the streams, by id. clock: the reading of the epoch, which says who is idle.
    """
    if not standing.inputs:
        return progress_of(catalog, catalog.synopses[standing.synopsis].spec, progress).bound
    streams = catalog.streams_of(standing)
    if len(streams) == 1:
        return progress.get(str(streams[0].id), StreamProgress()).bound
    return least_bound(streams, progress, clock)


def least_bound(streams: Iterable[StreamDefinition], progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The least bound of the streams that are not idle; of idle ones alone the largest."""
    states = [(s, progress.get(str(s.id), StreamProgress())) for s in streams]
    awake = [p.bound for s, p in states if not is_idle(s, p, clock)]
    return min(awake) if awake else max((p.bound for _, p in states), default=NEVER)


def is_idle(stream: StreamDefinition, state: StreamProgress, clock: int) -> bool:
    """Whether a stream that says how long it may be silent has been silent for longer."""
    idle = stream.options.idle
    return idle is not None and bool(state.partitions) and all(clock - p.seen > idle for p in state.partitions.values())


def high_of(streams: Iterable[StreamDefinition], progress: Mapping[str, StreamProgress]) -> int:
    """The least high watermark of streams that have rows."""
    highs = [progress.get(str(s.id), StreamProgress()).high for s in streams]
    return min((h for h in highs if h > NEVER), default=NEVER)
