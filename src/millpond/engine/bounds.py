"""How far a standing query may answer: the progress of its stream, or the least of its streams that are not idle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millpond.catalog import Catalog, Standing
from millpond.engine.unions import Fed, progress_of, streams_of
from millpond.progress import NEVER, StreamProgress
from millpond.types import StreamDefinition


def bound_of(catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The bound that a query's answers follow.

    Arguments:
        progress: of the streams, by id. clock: the reading of the epoch, which says who is idle.
    """
    if not standing.inputs:
        return progress_of(catalog, catalog.synopses[standing.synopsis].spec, progress).bound
    return least_bound(catalog, specs_of(catalog, standing), progress, clock)


def specs_of(catalog: Catalog, standing: Standing) -> list[Fed]:
    """What the inputs of a relational query are fed by: a stream each, or a union."""
    return [catalog.stores[owner].spec for owner in standing.inputs]


def least_bound(catalog: Catalog, specs: Sequence[Fed], progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The least bound of the inputs that are not idle; of idle ones alone the largest. A union is idle when all is."""
    states = []
    for spec in specs:
        fed = [(s, progress.get(str(s.id), StreamProgress())) for s in streams_of(catalog, spec)]
        states.append((progress_of(catalog, spec, progress).bound, all(is_idle(s, p, clock) for s, p in fed)))
    if len(states) == 1:
        return states[0][0]
    awake = [bound for bound, idle in states if not idle]
    return min(awake) if awake else max((bound for bound, _ in states), default=NEVER)


def is_idle(stream: StreamDefinition, state: StreamProgress, clock: int) -> bool:
    """Whether a stream that says how long it may be silent has been silent for longer."""
    idle = stream.options.idle
    return idle is not None and bool(state.partitions) and all(clock - p.seen > idle for p in state.partitions.values())


def high_of(catalog: Catalog, specs: Iterable[Fed], progress: Mapping[str, StreamProgress]) -> int:
    """The least high watermark of the inputs that have rows; that of a union is the largest of its streams."""
    highs = [progress_of(catalog, spec, progress).high for spec in specs]
    return min((h for h in highs if h > NEVER), default=NEVER)
