"""Which state serves a new standing query: what is there and fits, or new state, and whether that is back-filled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from millpond.archive.retention import is_retained
from millpond.catalog import Registered, Standing, Status, assign, assign_stores
from millpond.catalog.unions import progress_of
from millpond.commands.planned import CheckRelation, CheckWindows, Event
from millpond.commands.pond_facts import ArchiveFacts, Facts
from millpond.language.plan.spreading import together_of
from millpond.manifests.quarantine import Failures
from millpond.operators.registry import windows_over
from millpond.operators.relational.skew import hashed
from millpond.operators.windowed.needs import complete_since, needed_by, summary_since
from millpond.progress import FOREVER
from millpond.synopses import spec_of
from millpond.types import (
    JoinPlan,
    LatestRowsWindow,
    PairsQuery,
    QueryDefinition,
    QueryOptions,
    RelationalQuery,
    RelationInput,
    RelationQuery,
    RowWindowQuery,
    SessionQuery,
    StandingQuery,
    WindowedQuery,
    WindowQuery,
    to_json,
)
from millpond.types.relation_queries import are_together


@dataclass(frozen=True)
class Wanted:
    """A query that is to be registered. number: its id. old: what it replaces. reads: the queries that it reads."""

    number: int
    name: str
    query: StandingQuery
    options: QueryOptions
    text: str
    old: Standing | Registered | None = None
    reads: tuple[int, ...] = ()

    def standing(
        self, synopsis: str, first_epoch: int, waits: bool, retained: bool = False, inputs: tuple[str, ...] = ()
    ) -> Standing:
        """The standing query with the state that serves it; `waits`: it is back-filled first."""
        old = self.old
        version = 1 if old is None else version_of(old) + 1
        definition = QueryDefinition(
            self.name, self.query, self.options, self.number, version, self.text, retained, self.reads
        )
        status: Status = "backfilling" if waits else "live"
        previous = () if old is None else (*old.previous, old.id)
        return Standing(definition, synopsis, first_epoch, status, previous=previous, inputs=inputs)


def version_of(query: Standing | Registered) -> int:
    """The version of a query of any kind."""
    return query.version if isinstance(query, Registered) else query.definition.version


@dataclass(frozen=True)
class PlannedStanding:
    """A query as it is to be registered, and the event that registers it with the state that it needs.

    checks: what has to be seen first.
    """

    standing: Standing
    event: Event
    checks: tuple[CheckWindows | CheckRelation, ...] = ()


def plan_standing(facts: Facts, wanted: Wanted) -> PlannedStanding:
    """The state that serves a query."""
    query = wanted.query
    match query:
        case RelationQuery() | PairsQuery():
            return _plan_relation(facts, wanted, query)
        case WindowQuery() | RowWindowQuery() | SessionQuery():
            return _plan_windows(facts, wanted, query)
        case _:
            assert_never(query)


def _plan_windows(facts: Facts, wanted: Wanted, query: WindowedQuery) -> PlannedStanding:
    """As `plan_standing`, for a query over windows with its synopsis."""
    catalog, options = facts.catalog, wanted.options
    stream = catalog.stream(query.stream)
    assert stream is not None
    progress = progress_of(catalog, spec_of(query, stream, options), facts.published.progress)
    history = any(facts.sight.has_history(s) for s in [f.stream for f in query.feeds] or [stream.id])
    reusable = (options.since is None or not history) and query.reduce is None  # other samples, other states
    if query.numbered:  # state serves who needs no more than is kept, numbered from the same row on
        reusable = reusable and (stream.options.retention is None or not history)
    synopsis, new = assign(
        catalog if reusable else replace(catalog, synopses={}),
        query,
        stream,
        facts.next_epoch,
        {s: _complete_since(facts, s) for s in catalog.synopses},
        needed_by(query, progress.bound),
        facts.settings.share,
        options,
    )
    waits = history and (new or any(q.status == "backfilling" for q in catalog.users(synopsis.owner)))
    standing = wanted.standing(synopsis.owner, facts.next_epoch, waits, is_retained(catalog, query))
    event: Event = {"do": "create_query", "standing": to_json(standing)}
    event |= {"synopsis": to_json(synopsis)} if new else {}
    return PlannedStanding(standing, event, (CheckWindows(standing, synopsis),) if waits else ())


def _plan_relation(facts: Facts, wanted: Wanted, relation: RelationalQuery) -> PlannedStanding:
    """As `plan_standing`, for a relational query with its stores."""
    catalog = facts.catalog
    join = relation.joined
    if join is not None and (join.hashes or any(map(are_together, join.spread))):
        relation = relation.with_joined(_by_size(facts, relation, join))
        wanted = replace(wanted, query=relation)
    streams = [s for i in relation.inputs if (s := catalog.stream(i.stream)) is not None]
    fed = [catalog.streams_named(i.names) for i in relation.inputs]
    history = [any(facts.sight.has_history(s.id) for s in each) for each in fed]
    stored = assign_stores(
        catalog, relation, wanted.options, list(zip(streams, history, strict=True)),
        facts.next_epoch, wanted.number, facts.settings.shards, facts.settings.share,
    )  # fmt: skip
    standing = wanted.standing("", facts.next_epoch, stored.waits, inputs=stored.inputs)
    event: Event = {"do": "create_query", "standing": to_json(standing), "stores": [to_json(s) for s in stored.changed]}
    return PlannedStanding(standing, event, (CheckRelation(standing),) if stored.waits else ())


def _by_size(facts: Facts, relation: RelationalQuery, plan: JoinPlan) -> JoinPlan:
    """The plan of a join whose rows are placed as sizes want it, as far as they are known by now: the inputs that
    share a key are spread by it, and every shard has the others, or else rows of the largest window are salted."""
    inputs = {i.alias: i for i in relation.inputs}
    sizes = [_rows_in(facts, inputs[alias]) if alias in inputs else 0.0 for alias in plan.items]
    windows = {alias: i.window for alias, i in inputs.items()}
    rates = [_rate_of(facts, inputs[alias]) if alias in inputs else 0.0 for alias in plan.items]
    if None in rates:  # nothing is known of a stream without rows: all are taken to be alike
        rates = [float(alias in inputs) for alias in plan.items]
    spread = hashed(plan, [rate or 0.0 for rate in rates], facts.settings.shards)
    if spread:
        return replace(plan, spread=spread, salting=())
    return together_of(plan, windows, {alias: i.stream for alias, i in inputs.items()}, sizes)


def _archived(facts: Facts, item: RelationInput) -> ArchiveFacts:
    """What lies in the archives of an input's streams together."""
    streams = facts.catalog.streams_named(item.names)
    found = [facts.sight.archive(s.id) for s in streams]
    lows, highs = [a.low for a in found if a.low is not None], [a.high for a in found if a.high is not None]
    return ArchiveFacts(sum(a.rows for a in found), min(lows, default=None), max(highs, default=None))


def _rate_of(facts: Facts, item: RelationInput) -> float | None:
    """How many rows of an input come in a microsecond of event time, judged by all that has come; None: nothing."""
    there = _archived(facts, item)
    if there.low is None or there.high is None:
        return None
    return there.rows / (there.high - there.low + 1)


def _rows_in(facts: Facts, item: RelationInput) -> float:
    """About how many rows a window holds, judged by all that has come; of streams without rows, how long it is."""
    window, there = item.window, _archived(facts, item)
    if isinstance(window, LatestRowsWindow):
        return float(window.rows)
    if there.low is None or there.high is None:
        return 1.0 if window.reach is None else window.reach / FOREVER
    share = 1.0 if window.reach is None else min(1.0, window.reach / (there.high - there.low + 1))
    return there.rows * share


def _complete_since(facts: Facts, owner: str) -> int:
    """The event time from which a synopsis certainly holds every row, from what its users still need."""
    catalog, published = facts.catalog, facts.published
    synopsis = catalog.synopses[owner]
    stream = catalog.streams[synopsis.spec.stream]
    known = published.queries
    users = [q for q in catalog.users(owner) if q.status == "live" and str(q.id) in known]
    reached = progress_of(catalog, synopsis.spec, published.progress)
    failures = Failures(catalog, "sharing")
    covered = windows_over(synopsis.spec).covered

    def since_of(query: Standing) -> int:
        progress = known[str(query.id)]
        return complete_since(query, synopsis, stream, progress, covered(progress), reached.high)

    since = failures.each(users, since_of, 2**62)
    if summaries := catalog.kept_by(owner):
        kept = summary_since(synopsis, reached.bound, reached.high)
        since.append(max(kept, min(s.start for s in summaries)))
    return min(since, default=2**62)
