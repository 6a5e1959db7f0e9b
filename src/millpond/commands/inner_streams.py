"""Making the streams that stand without a name in a query's FROM: shared where there is one, else new.

Such a stream is a derived one (decision 0055). It begins where the windows of its query begin, so that the query
answers what any query answers that is registered now.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from millpond.commands.planned import Event, Ids, MakeStream, Step
from millpond.commands.pond_facts import Facts
from millpond.commands.query_state import Wanted, plan_standing
from millpond.language.rewrite.unnamed_streams import named, stream_of
from millpond.operators.registry import answering_kind
from millpond.progress import NEVER, StreamProgress
from millpond.sources.formats.carriers import carriers
from millpond.support.errors import MillpondError, Refusal
from millpond.types import (
    InnerStream,
    QueryOptions,
    Staged,
    StandingQuery,
    StreamDefinition,
    from_json,
    to_json,
    union_from_json,
)

#: What the option `since` says.
Since = int | Literal["start"] | None


@dataclass(frozen=True)
class Settled:
    """A query over streams that are there, with its options; and the streams that are made for it.

    steps: what is to be done before the events are recorded, which make them.
    """

    query: StandingQuery
    options: QueryOptions
    steps: tuple[Step, ...] = ()
    events: tuple[Event, ...] = ()


def settle(facts: Facts, ids: Ids, query: StandingQuery | Staged, options: QueryOptions) -> Settled:
    """Find or make the streams without a name that a query reads.

    Raises:
        Refusal: a column cannot be carried.
    """
    return _Settling(facts, ids, options).settled(query) if isinstance(query, Staged) else Settled(query, options)


class _Settling:
    """Settles one query: `facts` are those after what has been made so far."""

    def __init__(self, facts: Facts, ids: Ids, options: QueryOptions) -> None:
        self.facts, self.ids, self.options = facts, ids, options
        self.steps: list[Step] = []
        self.events: list[Event] = []

    def settled(self, staged: Staged) -> Settled:
        """The query over streams that are there."""
        options = self.options
        query = settled = staged.query
        names: dict[str, str] = {}
        bound = self._answered(staged)
        since: Since = options.since if options.since is not None or bound > NEVER else "start"
        late = query.revised_for(options)
        fresh = False
        older: dict[str, int] = {}  # by how much what is taken back may be older than the late row that does so
        for each in staged.inner:
            inner = each.query
            below = _older(inner, older)
            older[each.name] = below + (each.query.reach if each.revisions == "retract" else 0)
            for name, real in names.items():
                inner = named(inner, name, real)
            own = QueryOptions(
                since=_since(query, since, bound), revise_for=late + below,
                held_rows=options.held_rows, memory_rows=options.memory_rows, pairs=inner.keyed,
            )  # fmt: skip
            stream = self._shared(each, inner, own) or self._make(each, inner, own)
            progress = self.facts.published.progress.get(str(stream.id), StreamProgress())
            fresh = fresh or progress.bound <= NEVER
            names[each.name] = stream.name
            settled = named(settled, each.name, stream.name)
        if more := _older(query, older):
            options = replace(options, revise_for=late + more)
        if fresh and options.since is None:
            # It knows of no windows that have ended yet; those that have by now are not reported.
            options = replace(options, since=bound if bound > NEVER else "start")
        return Settled(settled, options, tuple(self.steps), tuple(self.events))

    def _answered(self, query: Staged) -> int:
        """The event time before which all is known of the streams that a query's own streams are made of."""
        known: dict[str, int] = {}
        for each in query.inner:
            inner = each.query
            bounds = [min(known[n] if n in known else self._bound(n) for n in names) for names in inner.names_by_input]
            known[each.name] = answering_kind(inner).known_until(inner, bounds)
        return min(known.values())

    def _bound(self, name: str) -> int:
        stream = self.facts.catalog.stream(name)
        assert stream is not None
        return self.facts.published.progress.get(str(stream.id), StreamProgress()).bound

    def _shared(self, each: InnerStream, query: StandingQuery, options: QueryOptions) -> StreamDefinition | None:
        """A stream that is there and has what is needed."""
        if not self.facts.settings.share:
            return None
        wanted, catalog = made_of(_key(each, query, options)), self.facts.catalog
        for stream in catalog.streams.values():
            if stream.derived is None or made_of(stream.derived.inner) != wanted:
                continue
            for standing in [catalog.queries[q] for q in stream.queries if q in catalog.queries]:
                since = standing.definition.options.since
                if standing.status in ("live", "backfilling") and _covers(since, options.since):
                    return stream
        return None

    def _make(self, each: InnerStream, query: StandingQuery, options: QueryOptions) -> StreamDefinition:
        catalog = self.facts.catalog
        name = self._free(each.name.split(" within ")[0])
        planned = plan_standing(self.facts, Wanted(self.ids.take(), name, query, options, query.text))
        standing = planned.standing
        sources = catalog.streams_named(query.stream_names)
        definition = stream_of(each, name, sorted({s.id for s in sources}), standing.id)
        assert definition.derived is not None
        derivation = replace(
            definition.derived, first_epoch=standing.first_epoch, text=query.text, inner=_key(each, query, options)
        )
        kept = [s.options.retention for s in sources]
        retention = None if None in kept else max(k for k in kept if k is not None)
        marks = answering_kind(query).marked_columns(query, options, sources)
        kept_options = replace(definition.options, retention=retention).with_marks(marks)
        definition = replace(definition, id=self.ids.take(), derived=derivation, options=kept_options)
        try:
            carriers(definition)
        except MillpondError as error:
            raise Refusal(str(error), expected="a CAST to a type that streams carry") from None
        event = planned.event | {"do": "create_stream", "definition": to_json(definition)}
        self.steps += [*planned.checks, MakeStream(definition)]
        self.events.append(event)
        self.facts = self.facts.with_events(event)
        return definition

    def _free(self, called: str) -> str:
        """A name that nobody has given to anything."""
        for number in itertools.count(self.facts.catalog.next_id):
            name = f"{called} #{number}"
            if self.facts.catalog.lookup(name) is None and self.facts.row_query_id(name) is None:
                return name
        raise AssertionError


def _key(each: InnerStream, query: StandingQuery, options: QueryOptions) -> str:
    """What a stream is made of, and what of it is kept, as JSON."""
    what = [to_json(replace(query, text="")), each.revisions, to_json(replace(options, since=None))]
    return json.dumps(what, sort_keys=True)


def made_of(key: str) -> tuple[StandingQuery, str, QueryOptions] | None:
    """What a key says, whichever version wrote it: equal for queries that can share a stream; None: it has a name."""
    if not key:
        return None
    query, revisions, options = json.loads(key)
    return union_from_json(StandingQuery, query), revisions, from_json(QueryOptions, options)


def _since(query: StandingQuery, since: Since, bound: int) -> Since:
    """From when on a query's streams are needed that reports from `since`, or what is not known by `bound`."""
    start = None if since == "start" else bound if since is None else since
    needed = None if start is None else answering_kind(query).reads_since(query, start)
    return "start" if needed is None else needed


def _older(query: StandingQuery, older: Mapping[str, int]) -> int:
    """By how much the rows that a query reads may be older than the late row that takes them back: as far as rows may
    lie apart in each join below it."""
    return max((older.get(name, 0) for name in query.stream_names), default=0)


def _covers(kept: Since, wanted: Since) -> bool:
    """Whether a stream that begins at `kept` has what is wanted."""
    if kept == "start" or wanted is None:
        return True
    return isinstance(kept, int) and isinstance(wanted, int) and kept <= wanted
