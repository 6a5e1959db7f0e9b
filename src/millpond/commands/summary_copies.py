"""Summary copies as a stream's option `archive` declares them: bound, checked, and the event that sets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from millpond import language as lang
from millpond.catalog import Summary, Synopsis
from millpond.commands.naming import Names
from millpond.commands.planned import Event, Ids
from millpond.commands.pond_facts import Facts
from millpond.language.resolve.schema import Schema
from millpond.progress import NEVER, StreamProgress
from millpond.support.errors import Refusal, StatementError
from millpond.synopses import PanesSpec
from millpond.synopses.pane_partials import panes_spec
from millpond.types import QueryDefinition, StreamDefinition, TableDefinition, WindowQuery, to_json
from millpond.types.archive_design import Summary as Declared

_LIKE = "a summary is a query such as SELECT k, count(*), avg(v) FROM s [RANGE 1 HOUR TUMBLING] GROUP BY k"


@dataclass(frozen=True)
class _WithStream:
    """The names of a pond, and a stream that is being made."""

    schema: Schema
    stream: StreamDefinition

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """What a name means."""
        return self.stream if name.lower() == self.stream.name.lower() else self.schema.lookup(name)

    def names(self) -> list[str]:
        """All names."""
        return [self.stream.name, *self.schema.names()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.schema, name)


def bind_summary(stream: StreamDefinition, declared: Declared, schema: Schema) -> WindowQuery:
    """The tumbling query of a summary.

    Raises: Refusal for one that is no summary.
    """
    try:
        return _bound(stream, declared, schema)
    except StatementError as error:  # its place is one in the summary, which is but a text in the option
        raise Refusal(f"in '{declared.query}': {error.message}", "archive", (), error.expected) from None


def _bound(stream: StreamDefinition, declared: Declared, schema: Schema) -> WindowQuery:
    statements = lang.parse(declared.query)
    if len(statements) != 1 or not isinstance(statements[0], lang.Select):
        raise _refused(f"'{declared.query}' is no query; {_LIKE}")
    query = lang.bind_query(statements[0].select, _WithStream(schema, stream))
    if query.stream.lower() != stream.name.lower() or query.feeds:
        raise _refused(f"a summary of {stream.name} reads {stream.name} and nothing else: '{declared.query}'")
    if query.lookup is not None:
        raise _refused(f"a summary of {stream.name} reads {stream.name} and no tables: '{declared.query}'")
    if query.reduce is not None:
        raise _refused(f"a summary is of every row: leave REDUCE out of '{declared.query}'")
    if not query.adds_up or not _tumbles(query):
        raise _refused(f"the windows of a summary lie side by side: '{declared.query}'; {_LIKE}")
    if query.having is not None or query.limit is not None or query.offset or query.distinct:
        raise _refused(f"a summary keeps every group: leave HAVING, LIMIT and DISTINCT out of '{declared.query}'")
    return query


def _tumbles(query: WindowQuery) -> bool:
    window = query.window
    if window.landmarks or window.range != window.slide:
        return False
    return all(a.range in (None, window.range) for a in query.aggregates)


def _refused(message: str) -> Refusal:
    return Refusal(message, "archive")


def set_summaries(facts: Facts, ids: Ids, stream: StreamDefinition, declared: Sequence[Declared]) -> Event:
    """The event that gives a stream these summaries; those that it has already go on, with the retention they have now.

    Entries for rows that are there are made in the background, and nobody waits for them.

    Raises:
        Refusal: as `bind_summary`.
    """
    catalog = facts.catalog
    history = stream.id in catalog.streams and facts.sight.has_history(stream.id)
    known = {(s.query, s.lazy): s for s in catalog.summaries_of(stream.id)}
    synopses = dict(catalog.synopses)
    made: list[Summary] = []
    new: list[Synopsis] = []
    for one in dict.fromkeys(declared):
        old = known.get((one.query, one.lazy))
        if old is not None:
            made.append(replace(old, retention=one.keep.time, size=one.keep.size))
            continue
        query = bind_summary(stream, one, Names(facts))
        number = ids.take()
        spec = panes_spec(query, stream)
        owner = ""
        if not one.lazy:
            synopsis = _shared(synopses, spec)
            if synopsis is None:
                synopsis = Synopsis(f"{spec.key}.{facts.next_epoch}.{number}", spec, facts.next_epoch)
                synopses[synopsis.owner] = synopsis
                new.append(synopsis)
            assert isinstance(synopsis.spec, PanesSpec)
            owner, spec = synopsis.owner, synopsis.spec
        removed, start = None, NEVER
        if history:
            removed = facts.sight.archive(stream.id).removed
            start = facts.published.progress.get(str(stream.id), StreamProgress()).bound
        made.append(
            Summary(
                number,
                stream.id,
                one.query,
                spec,
                one.lazy,
                one.keep.time,
                one.keep.size,
                removed,
                owner,
                facts.next_epoch,
                start,
            )
        )
    return {
        "do": "set_summaries",
        "stream": stream.id,
        "summaries": [to_json(s) for s in made],
        "synopses": [to_json(s) for s in new],
    }


def _shared(synopses: dict[str, Synopsis], needed: PanesSpec) -> Synopsis | None:
    """A synopsis that keeps what a summary needs, in panes of the same width."""
    for synopsis in synopses.values():
        if synopsis.spec.summarises(needed):
            return synopsis
    return None
