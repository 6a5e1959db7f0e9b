"""How far the inputs of queries over several streams are: the least of those that are not idle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millpond.catalog import Catalog
from millpond.catalog.unions import Fed, progress_of, streams_of
from millpond.progress import NEVER, StreamProgress
from millpond.types import StreamDefinition


def least_bound(catalog: Catalog, specs: Sequence[Fed], progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The least bound of the inputs that are not idle; of idle ones alone the largest. A union is idle when all is.

    Args:
        progress: of the streams, by id. clock: the reading of the epoch, which says who is idle (microseconds).
    """
    states = input_states(catalog, specs, progress, clock)
    if len(states) == 1:
        return states[0][0]
    awake = [bound for bound, idle in states if not idle]
    return min(awake) if awake else max((bound for bound, _ in states), default=NEVER)


def input_states(
    catalog: Catalog, specs: Sequence[Fed], progress: Mapping[str, StreamProgress], clock: int
) -> list[tuple[int, bool]]:
    """The bound of each input, and whether it is idle; arguments as of `least_bound`."""
    states = []
    for spec in specs:
        fed = [(s, progress.get(str(s.id), StreamProgress())) for s in streams_of(catalog, spec)]
        states.append((progress_of(catalog, spec, progress).bound, all(is_idle(s, p, clock) for s, p in fed)))
    return states


def is_idle(stream: StreamDefinition, state: StreamProgress, clock: int) -> bool:
    """Whether a stream that says how long it may be silent has been silent for longer."""
    idle = stream.options.idle
    return idle is not None and bool(state.partitions) and all(clock - p.seen > idle for p in state.partitions.values())


def high_of(catalog: Catalog, specs: Iterable[Fed], progress: Mapping[str, StreamProgress]) -> int:
    """The least high watermark of the inputs that have rows; that of a union is the largest of its streams."""
    highs = [progress_of(catalog, spec, progress).high for spec in specs]
    return min((h for h in highs if h > NEVER), default=NEVER)
