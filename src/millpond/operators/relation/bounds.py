"""How far a standing query may answer: the progress of its stream, or the least of its streams that are not idle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from millpond.catalog import Catalog, Standing
from millpond.catalog.unions import Fed, progress_of, streams_of
from millpond.language.duck import quote
from millpond.operators.derived.rows import announced
from millpond.progress import NEVER, StreamProgress
from millpond.relations.bands import Reached, marks_of
from millpond.types import StreamDefinition


def bound_of(catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The bound that a query's answers follow.

    Arguments:
        progress: of the streams, by id. clock: the reading of the epoch, which says who is idle.
    """
    if not standing.inputs:
        return progress_of(catalog, catalog.synopses[standing.synopsis].spec, progress).bound
    return least_bound(catalog, specs_of(catalog, standing), progress, clock)


def answered_until(catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The time up to which a query has answered when its streams are so far; arguments as of `bound_of`.

    A stream of pairs does not wait for it: it says that no result has a smaller largest event time any more.
    """
    relation = standing.definition.query.relation
    if relation is not None and is_paired(standing):
        first, second = pair_bounds(catalog, standing, progress, clock)
        return marks_of(relation, (first.bound, second.bound)).result
    return announced(standing.definition.options, bound_of(catalog, standing, progress, clock))


def stirring_bound(catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], clock: int) -> int:
    """What a relational query has reason to report (`pending`) when it lies before; arguments as of `bound_of`."""
    if is_paired(standing):
        return max(max([r.bound, *r.groups.values()]) for r in pair_bounds(catalog, standing, progress, clock))
    return answered_until(catalog, standing, progress, clock)


def is_paired(standing: Standing) -> bool:
    """Whether a query is a stream of pairs."""
    relation = standing.definition.query.relation
    return relation is not None and relation.plan == "paired"


def pair_bounds(
    catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], clock: int
) -> tuple[Reached, Reached]:
    """What each input of a stream of pairs brings no more of: by its own progress, an idle one by the other's."""
    states = _states(catalog, specs_of(catalog, standing), progress, clock)
    awake = [bound for bound, idle in states if not idle]
    other = min(awake) if awake else max(bound for bound, _ in states)
    found, options = [], standing.definition.options
    for spec, (own, idle) in zip(specs_of(catalog, standing), states, strict=True):
        bound, by = announced(options, max(own, other) if idle else own), catalog.streams[spec.stream].options.marks_by
        groups = {g: announced(options, b) for g, b in progress_of(catalog, spec, progress).groups.items()}
        further = {g: b for g, b in groups.items() if b > bound}
        found.append(Reached(bound, further, None if by is None else quote(by)))
    return found[0], found[1]


def specs_of(catalog: Catalog, standing: Standing) -> list[Fed]:
    """What the inputs of a relational query are fed by: a stream each, or a union."""
    return [catalog.stores[owner].spec for owner in standing.inputs]


def least_bound(catalog: Catalog, specs: Sequence[Fed], progress: Mapping[str, StreamProgress], clock: int) -> int:
    """The least bound of the inputs that are not idle; of idle ones alone the largest. A union is idle when all is."""
    states = _states(catalog, specs, progress, clock)
    if len(states) == 1:
        return states[0][0]
    awake = [bound for bound, idle in states if not idle]
    return min(awake) if awake else max((bound for bound, _ in states), default=NEVER)


def _states(
    catalog: Catalog, specs: Sequence[Fed], progress: Mapping[str, StreamProgress], clock: int
) -> list[tuple[int, bool]]:
    """The bound of each input, and whether it is idle."""
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
