"""What the next epoch is to do: a pure decision. Facts in; a manifest and events of the catalog out, or nothing.

Nothing here waits, reads a clock, asks a source or writes; `gathering` finds the facts, `epoch` does what is proposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from millpond.catalog import Standing, apply
from millpond.catalog.unions import with_unions
from millpond.engine.control.facts import Facts
from millpond.engine.control.state_files import expired, merged
from millpond.engine.control.timers import is_due
from millpond.engine.intake.admission import splits_of
from millpond.engine.intake.stages import choose
from millpond.engine.jobs.mending_queue import mended
from millpond.engine.tasks.merging import end_of_need
from millpond.manifests.places import query_owner
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest, start_of
from millpond.operators.derived.passed_rows import bounds_of, group_bounds_of, takeable
from millpond.operators.registry import Operators, operators_of
from millpond.operators.relational.skew import decided, moved
from millpond.operators.windowed.lookup_versions import stretches_now
from millpond.progress import StreamProgress
from millpond.sources.intake_log import Item
from millpond.tables import Segment
from millpond.types import ARRIVAL

#: Items of a stream that one epoch looks at.
MOST_ITEMS = 100_000


@dataclass(frozen=True)
class Proposal:
    """An epoch to be.

    events: of the catalog, to be recorded before the manifest is written, which is made for the catalog after them.
    manifest: without the version of the register and the orders of filters: what these are is asked when the events
    are recorded.
    taken: the streams of which rows are taken.
    """

    events: tuple[dict[str, Any], ...]
    manifest: Manifest
    taken: tuple[int, ...]


@dataclass(frozen=True)
class Intake:
    """What an epoch takes in.

    taken: items by stream. until: per stream, the first item that is not taken yet afterwards. ends: streams that have
    given all they had. arrivals: per stream that runs on arrival time, the time before which nothing comes any more.
    """

    taken: Mapping[int, list[Item]]
    until: dict[str, int]
    ends: tuple[int, ...]
    arrivals: dict[str, int]


def propose(facts: Facts, failures: Failures | None = None) -> Proposal | None:
    """The next epoch; None when there is nothing to do, or when queries fail.

    Args:
        failures: gets the queries of which it cannot be told what there is to do.
    """
    failures = Failures(facts.catalog, "what is to do") if failures is None else failures
    intake = intake_of(facts)
    if not is_wanted(facts, intake, failures):
        return None
    events = adopting(facts)
    catalog = facts.catalog
    for event in events:
        catalog = apply(catalog, event)
    manifest = _manifest(facts, intake, replace(failures, catalog=catalog))
    if failures.consequences():
        return None
    return Proposal(events, manifest, tuple(intake.taken))


def is_wanted(facts: Facts, intake: Intake, failures: Failures) -> bool:
    """Whether there is something to do."""
    return bool(
        intake.taken
        or intake.ends
        or facts.adoptions
        or facts.mended
        or facts.force
        or is_due(facts.published, facts.clock, intake.arrivals, failures)
    )


# -- rows --------------------------------------------------------------------------------------------------------------


def intake_of(facts: Facts) -> Intake:
    """What the epoch takes in of what waits."""
    before = facts.published.intake
    pending = {
        stream: takeable(facts.catalog.streams[stream], list(of.items[:MOST_ITEMS]))
        for stream, of in sorted(facts.streams.items())
        if of.items
    }
    taken: dict[int, list[Item]] = {}
    if pending:
        taken = choose(facts.catalog, facts.settings, facts.stages, pending, facts.pace, facts.cores)
    until = {str(s): before.get(str(s), 0) + len(taken.get(s, ())) for s in sorted(facts.streams)}
    return Intake(taken, until, _ends(facts, until), _arrivals(facts, taken))


def _ends(facts: Facts, until: Mapping[str, int]) -> tuple[int, ...]:
    """The streams whose source has ended, and whose last item was taken."""
    known = facts.published.progress
    return tuple(
        stream
        for stream, of in sorted(facts.streams.items())
        if of.ended_at is not None
        and until[str(stream)] >= of.ended_at
        and not known.get(str(stream), StreamProgress()).ended
    )


def _arrivals(facts: Facts, taken: Mapping[int, list[Item]]) -> dict[str, int]:
    """Per stream that runs on arrival time, the time before which nothing can arrive: what waits, or comes just now."""
    found = {}
    for stream, of in sorted(facts.streams.items()):
        if facts.catalog.streams[stream].options.time == ARRIVAL:
            at = len(taken.get(stream, ()))
            left = of.items[at : at + 1]
            found[str(stream)] = min([facts.clock, *of.arriving, *(i.arrival for i in left)])
    return found


def with_rows(taken: Mapping[int, list[Item]]) -> dict[int, list[Item]]:
    """The items that have something to read: some of a derived stream tell its progress only."""
    found = {s: [i for i in items if i.kind != "derived" or i.parts] for s, items in taken.items()}
    return {s: items for s, items in found.items() if items}


# -- queries -----------------------------------------------------------------------------------------------------------


def adopting(facts: Facts) -> tuple[dict[str, Any], ...]:
    """The events that make queries live whose back-fills are adopted."""
    return tuple(
        {"do": "set_status", "id": query, "status": "live"}
        for adoption in facts.adoptions
        for query in adoption.waiting(facts.catalog)
    )


def query_progress(
    facts: Facts, operators: Operators, progress: Mapping[str, StreamProgress], failures: Failures
) -> dict[str, QueryProgress]:
    """How far every query is when the epoch begins: published, adopted, or new.

    Args:
        operators: after adoption.
        progress: of the streams, and of unions that are read.
        failures: with the catalog after adoption.
    """
    catalog, found = failures.catalog, dict(facts.published.queries)
    for adoption in facts.adoptions:
        found.update(adoption.progress)
    for adoption in facts.mended:
        found |= {query: mended(found[query], adoption) for query in adoption.progress}
    adopted = {query for adoption in facts.adoptions for query in adoption.progress}
    kept = {key: known for key, known in found.items() if int(key) in catalog.queries}

    def begun(standing: Standing) -> QueryProgress | None:
        """None: it has not begun."""
        answering, known = operators.answering[standing.id], kept.get(str(standing.id))
        if known is None:
            if not _runs(standing):
                return None
            start = start_of(standing.definition.options, answering.starts_at(standing, progress, facts.clock))
            known = QueryProgress(closed=start, start=start)
        known = replace(known, floor=max(known.floor, standing.floor))
        if standing.status == "paused" and known.paused is None:
            # One that was paused while its back-fill ran has seen nothing of what came live.
            first = answering.first_epoch
            known = replace(known, paused=first if str(standing.id) in adopted else facts.published.epoch + 1)
        return known

    for standing in catalog.running():
        if (known := failures.attempt(query_owner(standing.id), partial(begun, standing))) is not None:
            kept[str(standing.id)] = known
    return kept


def _runs(standing: Standing) -> bool:
    return standing.status == "live" or (standing.status == "paused" and standing.reason != "backfilling")


# -- the manifest ------------------------------------------------------------------------------------------------------


def _manifest(facts: Facts, intake: Intake, failures: Failures) -> Manifest:
    """What stands in the manifest, but for what `Proposal.manifest` leaves out."""
    catalog = failures.catalog
    published, settings, taken = facts.published, facts.settings, intake.taken
    progress = {str(s): published.progress.get(str(s), StreamProgress()) for s in catalog.streams}
    progress = with_unions(catalog, progress, published.progress)
    operators = operators_of(catalog)
    queries = query_progress(facts, operators, progress, failures)
    state = (*facts.state, *(s for adoption in (*facts.adoptions, *facts.mended) for s in adoption.state))
    adopt = tuple(str(q) for adoption in facts.adoptions for q in adoption.queries)
    expire = expired(state, end_of_need(operators, progress, queries, failures))
    hot = decided(catalog, facts.skew, published.hot, settings.shards)
    return Manifest(
        epoch=published.epoch + 1,
        clock=facts.clock,
        version=catalog.version,
        shards=settings.shards,
        splits=splits_of(with_rows(taken), facts.cores),
        intake=intake.until,
        ends=intake.ends,
        progress=progress,
        queries=queries,
        state=tuple(sorted(state, key=lambda s: (s.last_epoch, s.path))),
        adopt=adopt,
        compact=merged(state, expire, queries.values(), settings),
        arrivals=intake.arrivals,
        expire=expire,
        eager_rows=settings.eager_rows,
        explicit_matches=settings.explicit_matches,
        matching_work=facts.matching_work,
        bounds=bounds_of(taken),
        group_bounds=group_bounds_of(taken),
        copies={str(s): dict(copies) for s in taken if (copies := facts.streams[s].copies)},
        archive=looked_up(facts, operators, progress, queries, failures),
        hot=hot,
        moved=moved(catalog, hot, published.hot, adopt),
        tables=dict(facts.tables),
        unread=dict(facts.unread),
        lookups=stretches_now(catalog, published.lookups, progress, queries, facts.tables, failures),
        mended=tuple(adoption.owner for adoption in facts.mended),
    )


def looked_up(
    facts: Facts,
    operators: Operators,
    progress: Mapping[str, StreamProgress],
    queries: Mapping[str, QueryProgress],
    failures: Failures,
) -> dict[str, tuple[Segment, ...]]:
    """The files of archives that queries may look up: those that windows of instants not final yet can reach."""
    since: dict[int, int] = {}
    for standing in failures.catalog.running():
        if (known := queries.get(str(standing.id))) is not None:
            looking = partial(operators.answering[standing.id].looks_up, standing, known, progress)
            for stream, low in (failures.attempt(query_owner(standing.id), looking) or {}).items():
                since[stream] = min(low, since.get(stream, low))
    return {str(s): tuple(f for f in facts.streams[s].archive if f.high >= low) for s, low in since.items()}
