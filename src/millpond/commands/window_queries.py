"""Registering standing queries whose answers are windows or relations: options, state that serves them, the event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, assert_never

from millpond.answers.row_queries.ready import ready_of
from millpond.archive.retention import is_retained
from millpond.catalog import Catalog, Registered, Standing, Status, assign, assign_stores, check_name
from millpond.catalog.unions import progress_of
from millpond.commands.inner_streams import InnerStreams
from millpond.engine.core import Core
from millpond.engine.jobs.readable import check_relation, check_windows
from millpond.language.plan.spreading import together_of
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import read_manifest
from millpond.operators.relational.skew import hashed
from millpond.operators.windowed.needs import complete_since, needed_by, summary_since
from millpond.progress import FOREVER
from millpond.support.errors import QueryError, Refusal
from millpond.synopses import spec_of
from millpond.types import (
    STATUS,
    Grouped,
    Joined,
    JoinPlan,
    LandmarkWindow,
    PairsQuery,
    QueryDefinition,
    QueryOptions,
    RelationalQuery,
    RelationInput,
    RelationQuery,
    RowScan,
    RowWindowQuery,
    ScanQuery,
    Staged,
    StandingQuery,
    StreamDefinition,
    StreamQuery,
    WindowedQuery,
    WindowQuery,
    to_json,
)
from millpond.types.relations import are_together


@dataclass(frozen=True)
class Wanted:
    """A query that is to be registered. number: its id. old: what it replaces."""

    number: int
    name: str
    query: StandingQuery
    options: QueryOptions
    text: str
    old: Standing | Registered | None = None

    def standing(
        self, synopsis: str, first_epoch: int, waits: bool, retained: bool = False, inputs: tuple[str, ...] = ()
    ) -> Standing:
        """The standing query with the state that serves it; `waits`: it is back-filled first."""
        old = self.old
        version = 1 if old is None else version_of(old) + 1
        definition = QueryDefinition(self.name, self.query, self.options, self.number, version, self.text, retained)
        status: Status = "backfilling" if waits else "live"
        previous = () if old is None else (*old.previous, old.id)
        return Standing(definition, synopsis, first_epoch, status, previous=previous, inputs=inputs)


class WindowQueries:
    """Registers window queries and relations on an open pond. `core.lock` must be held."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.inner = InnerStreams(core, self._plan_inner)

    def _plan_inner(self, name: str, query: StandingQuery, options: QueryOptions) -> tuple[Standing, dict[str, Any]]:
        """The query of a stream without a name of its own, as it is to be registered, and the event that does so."""
        number = self.core.register.reserve_id(self.core.catalog.next_id)
        return self.plan(Wanted(number, name, query, options, query.text))

    def register(
        self,
        name: str | None,
        asked: StandingQuery | Staged,
        options: QueryOptions,
        text: str,
        old: Standing | Registered | None,
    ) -> tuple[int, str]:
        """Register a query; its id, and what there is to say.

        Raises: Refusal when an option is not one of such queries; QueryError when the name is taken.
        """
        check_options(self.core.catalog, asked, options)
        if name is not None and old is None:
            check_name(name)
        with self.inner.made(asked, options) as (query, options):
            check_options(self.core.catalog, query, options)
            number = self.core.register.reserve_id(self.core.catalog.next_id)
            name = f"#{number}" if name is None else name
            if old is None and self.core.catalog.lookup(name) is not None:
                raise QueryError(f"the name '{name}' is taken; choose another, or drop the old one first")
            replaced = old.id if isinstance(old, Registered) else None
            with self.core.register.claim(name, replaced) as free:
                if not free:
                    raise QueryError(f"the name '{name}' is taken; choose another, or drop the old one first")
                message = self._record(Wanted(number, name, query, options, text, old))
        if replaced is not None:
            self.core.register.drop(replaced)
            ready_of(self.core).forget(replaced)
        return number, message

    def _record(self, wanted: Wanted) -> str:
        standing, event = self.plan(wanted)
        old = wanted.old
        if old is not None:
            event["replaces"] = old.id
        self.core.catalog_log.record(event)
        verb = "created" if old is None else f"replaced, version {standing.definition.version}"
        if old is not None and not standing.inputs:
            same = isinstance(old, Standing) and old.synopsis == standing.synopsis
            verb += " (state kept)" if same else " (state rebuilt from the archive)"
        if standing.definition.is_relation:
            verb += " as a relation of CQL, since its windows have no SLIDE"
        inner = [
            self.core.catalog.queries[s.derived.query or 0] for s in self.core.catalog.inner_of(standing) if s.derived
        ]
        waits = any(q.status == "backfilling" for q in (standing, *inner))
        return f"query {wanted.name} {verb}" + ("; back-filling from the archive" if waits else "")

    def plan(self, wanted: Wanted) -> tuple[Standing, dict[str, Any]]:
        """A query as it is to be registered, and the event that registers it with the state that it needs."""
        query = wanted.query
        match query:
            case RelationQuery() | PairsQuery():
                return self._plan_relation(wanted, query)
            case WindowQuery() | RowWindowQuery():
                return self._plan_windows(wanted, query)
            case _:
                assert_never(query)

    def _plan_windows(self, wanted: Wanted, query: WindowedQuery) -> tuple[Standing, dict[str, Any]]:
        """As `plan`, for a query over windows with its synopsis."""
        catalog, options = self.core.catalog, wanted.options
        stream = catalog.stream(query.stream)
        assert stream is not None
        progress = progress_of(catalog, spec_of(query, stream, options), self.core.published.progress)
        history = any(self.has_history(s) for s in [f.stream for f in query.feeds] or [stream.id])
        reusable = (options.since is None or not history) and query.reduce is None  # other samples, other states
        if isinstance(
            query, RowWindowQuery
        ):  # rows serve who needs no more than is kept, if it numbers them from the same row on
            reusable = reusable and (stream.options.retention is None or not history)
        synopsis, new = assign(
            catalog if reusable else replace(catalog, synopses={}),
            query,
            stream,
            self._next_epoch,
            {s: self._complete_since(catalog, s) for s in catalog.synopses},
            needed_by(query, progress.bound),
            self.core.settings.share,
            options,
        )
        waits = history and (new or any(q.status == "backfilling" for q in catalog.users(synopsis.owner)))
        standing = wanted.standing(synopsis.owner, self._next_epoch, waits, is_retained(catalog, query))
        if waits:
            check_windows(self.core, standing, synopsis)
        event: dict[str, Any] = {"do": "create_query", "standing": to_json(standing)}
        return standing, event | ({"synopsis": to_json(synopsis)} if new else {})

    def _plan_relation(self, wanted: Wanted, relation: RelationalQuery) -> tuple[Standing, dict[str, Any]]:
        """As `plan`, for a relational query with its stores."""
        catalog = self.core.catalog
        if isinstance(relation, RelationQuery) and isinstance(relation.plan, Joined | Grouped):
            join = relation.plan.join
            if join.hashes or any(map(are_together, join.spread)):
                relation = replace(relation, plan=replace(relation.plan, join=self._by_size(relation, join)))
                wanted = replace(wanted, query=relation)
        streams = [s for i in relation.inputs if (s := catalog.stream(i.stream)) is not None]
        fed = [[s for name in i.names if (s := catalog.stream(name)) is not None] for i in relation.inputs]
        history = [any(self.has_history(s.id) for s in each) for each in fed]
        stored = assign_stores(
            catalog, relation, streams, self._next_epoch, history, wanted.number,
            self.core.settings.shards, wanted.options.since is not None, self.core.settings.share, wanted.options,
        )  # fmt: skip
        standing = wanted.standing("", self._next_epoch, stored.waits, inputs=stored.inputs)
        if stored.waits:
            check_relation(self.core, standing)
        event: dict[str, Any] = {"do": "create_query", "standing": to_json(standing)}
        return standing, event | {"stores": [to_json(s) for s in stored.changed]}

    def _by_size(self, relation: RelationQuery, plan: JoinPlan) -> JoinPlan:
        """The plan of a join whose rows are placed as sizes want it, as far as they are known by now: the inputs that
        share a key are spread by it, and every shard has the others, or else rows of the largest window are dealt."""
        inputs = {i.alias: i for i in relation.inputs}
        sizes = [self._rows_in(inputs[alias]) if alias in inputs else 0.0 for alias in plan.items]
        windows = {alias: i.window for alias, i in inputs.items()}
        rates = [self._rate_of(inputs[alias]) if alias in inputs else 0.0 for alias in plan.items]
        if None in rates:  # nothing is known of a stream without rows: all are taken to be alike
            rates = [float(alias in inputs) for alias in plan.items]
        spread = hashed(plan, [rate or 0.0 for rate in rates], self.core.settings.shards)
        if spread:
            return replace(plan, spread=spread, deal=())
        return together_of(plan, windows, {alias: i.stream for alias, i in inputs.items()}, sizes)

    def _rate_of(self, item: RelationInput) -> float | None:
        """How many rows of an input come in a microsecond of event time, judged by all that has come; None: nothing."""
        streams = [s for name in item.names if (s := self.core.catalog.stream(name)) is not None]
        files = [f for s in streams for f in self.core.streams[s.id].archive.segments]
        if not files:
            return None
        return sum(f.rows for f in files) / (max(f.high for f in files) - min(f.low for f in files) + 1)

    def _rows_in(self, item: RelationInput) -> float:
        """About how many rows a window holds, judged by all that has come; of streams without rows, how long it is."""
        window = item.window
        if window.kind == "rows":
            return float(window.rows)
        streams = [s for name in item.names if (s := self.core.catalog.stream(name)) is not None]
        files = [f for s in streams for f in self.core.streams[s.id].archive.segments]
        rows = sum(f.rows for f in files)
        if not files:
            return window.range / FOREVER if window.kind == "range" else 1.0
        span = max(f.high for f in files) - min(f.low for f in files) + 1
        return rows * min(1.0, window.range / span) if window.kind == "range" else float(rows)

    @property
    def _next_epoch(self) -> int:
        return max(self.core.last_manifest, self.core.published.epoch) + 1

    def has_history(self, stream: int) -> bool:
        """Whether epochs have taken anything of a stream, the running one included."""
        if self.core.published.intake.get(str(stream), 0):
            return True
        if self.core.last_manifest <= self.core.published.epoch:
            return False
        return read_manifest(self.core.path, self.core.last_manifest).intake.get(str(stream), 0) > 0

    def _complete_since(self, catalog: Catalog, owner: str) -> int:
        """The event time from which a synopsis certainly holds every row, from what its users still need."""
        synopsis = catalog.synopses[owner]
        stream = catalog.streams[synopsis.spec.stream]
        known = self.core.published.queries
        users = [q for q in catalog.users(owner) if q.status == "live" and str(q.id) in known]
        reached = progress_of(catalog, synopsis.spec, self.core.published.progress)
        failures = Failures(catalog, "sharing")
        since = failures.each(
            users, lambda q: complete_since(q, synopsis, stream, known[str(q.id)], reached.high), 2**62
        )
        if summaries := catalog.kept_by(owner):
            kept = summary_since(synopsis, reached.bound, reached.high)
            since.append(max(kept, min(s.start for s in summaries)))
        return min(since, default=2**62)


class Lookup(Protocol):
    """What a check must know of the names that there are."""

    def lookup(self, name: str) -> object:
        """The definition that has this name, or None."""


def version_of(query: Standing | Registered) -> int:
    """The version of a query of any kind."""
    return query.version if isinstance(query, Registered) else query.definition.version


def check_options(schema: Lookup, asked: StandingQuery | Staged | ScanQuery, options: QueryOptions) -> None:
    """Refuse options that have no meaning for a query of its kind, or over its streams: Refusal."""
    query = asked.query if isinstance(asked, Staged) else asked
    check_reduction(query)
    if options.materialize != "auto":
        raise Refusal("'materialize' is for row queries; the state of a window query is always kept", "materialize")
    operator = query.operator if isinstance(query, RelationQuery) else None
    if operator == "rstream" and options.every is None:
        raise Refusal(
            "RSTREAM reports the whole relation again and again: say how often", words=("RSTREAM",),
            expected="CREATE QUERY … WITH (every='1 s') AS SELECT RSTREAM(…)",
        )  # fmt: skip
    if operator != "rstream" and options.every is not None:
        raise Refusal("'every' is for RSTREAM; ISTREAM and DSTREAM report changes when they happen", "every")
    streams = [f for f in map(schema.lookup, _streams_of(query)) if isinstance(f, StreamDefinition)]
    if isinstance(query, PairsQuery) and options.early is not None:
        raise Refusal("'early' is for answers that wait for progress: pairs go out as soon as they are there", "early")
    if options.empty == "report":
        _check_empty(query)
        if any(s.takes_back for s in streams):
            labels = ", ".join(s.label for s in streams)
            message = f"empty='report' is not available over {labels}, whose rows take others back"
            raise Refusal(message, "empty")
    if isinstance(query, StreamQuery) and query.reduce is not None and options.state != "eager":
        raise Refusal(f"state='{options.state}' does not go with REDUCE, whose state has weights", "state", ("REDUCE",))
    if not isinstance(query, WindowQuery) and options.state != "eager":
        raise Refusal(f"state='{options.state}' is for windows of time with a SLIDE", "state")
    dropped = [s.name for s in streams if s.options.marks_by is not None and s.options.late == "drop"]
    if isinstance(query, RowWindowQuery) and dropped and not query.feeds:
        raise Refusal(
            "windows that end with rows are not available over a stream with marks_by and late='drop'",
            words=(dropped[0],), expected="a stream with late='revise'",
        )  # fmt: skip
    if options.flush != "at once":
        _check_flush(streams, query, options)
    joined = isinstance(asked, RelationalQuery | Staged) or any(s.is_inner for s in streams)
    _check_idle(options, joined)
    taken = next((o.name for o in query.select if o.name.lower() == STATUS), None)
    if options.early is not None and taken is not None:
        raise Refusal(
            f"with 'early' answers have a column {STATUS} of their own", "early", (taken,), f"{taken} AS another name"
        )


def _check_idle(options: QueryOptions, joined: bool) -> None:
    """Refuse options that would change nothing."""
    plain = QueryOptions()
    idle = {
        "is for flush='slow' and 'lazy'": ("flush_delay", "flush_windows") if options.flush == "at once" else (),
        "is for relations and joins": () if joined else ("held_rows", "memory_rows"),
        "does not go with adapt='off'": (
            ("adapt_probability", "adapt_window", "adapt_alpha", "adapt_budget") if options.adapt == "off" else ()
        ),
    }
    for reason, names in idle.items():
        for name in names:
            if getattr(options, name) != getattr(plain, name):
                raise Refusal(f"'{name}' {reason}", name)


def check_reduction(query: StandingQuery | ScanQuery) -> None:
    """Refuse reductions that a query of its kind cannot be answered with: Refusal."""
    if not isinstance(query, StreamQuery) or query.reduce is None or query.reduce.samples:
        return
    if isinstance(query, RowScan | RowWindowQuery) or query.feeds:
        raise Refusal(
            "REDUCE BY INTERVAL sees the past as sums over intervals: it is for aggregates of one stream, over windows"
            " of time or over everything",
            words=("REDUCE",),
            expected="REDUCE sample(0.9), which leaves rows out",
        )


def _streams_of(query: StandingQuery | ScanQuery) -> list[str]:
    """The names of the streams that a query reads."""
    if isinstance(query, RelationalQuery):
        return [name for item in query.inputs for name in item.names]
    return [f.name for f in query.feeds] or [query.stream]


def _check_empty(query: StandingQuery | ScanQuery) -> None:
    if isinstance(query, RelationalQuery):
        raise Refusal("empty='report' is for windows with SLIDE; a relation is defined at every instant", "empty")
    if isinstance(query, RowWindowQuery):
        raise Refusal("empty='report' is for windows that end at instants; one that ends with a row holds it", "empty")
    if isinstance(query, WindowQuery) and isinstance(query.window, LandmarkWindow):
        raise Refusal(
            "a window that grows reports every window since a group's first row by itself: leave empty='report' out",
            "empty",
        )


def _check_flush(streams: Sequence[StreamDefinition], query: StandingQuery | ScanQuery, options: QueryOptions) -> None:
    """Refuse to spread the answers of a window that cannot go out one by one."""
    if not isinstance(query, WindowQuery):
        raise Refusal(f"flush='{options.flush}' is for windows that end at instants", "flush")
    whole = query.distinct or query.limit is not None or bool(query.offset)
    marks = any(s.options.marks_by is not None for s in streams)
    reasons = {
        "spreads groups, and there is no GROUP BY": not query.keys,
        "does not go with LIMIT or DISTINCT, which need all groups of a window at once": whole,
        "does not go with the bounds of groups that marks_by gives": marks,
    }
    for reason, holds in reasons.items():
        if holds:
            raise Refusal(f"flush='{options.flush}' {reason}", "flush")
