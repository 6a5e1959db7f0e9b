"""SELECTs asked once over answers: those of SELECTs in parentheses, and of standing queries, are rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.adhoc import in_order, select_stream, shown
from millpond.answers.adhoc_relations import select_relational
from millpond.answers.standing_answers import latest_answers
from millpond.archive.archive_files import row_schema
from millpond.catalog.unions import union_key
from millpond.engine.pond_view import PondView
from millpond.language.rewrite.unnamed_streams import stream_of
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.registry import answering_kind, windows_over
from millpond.operators.relational.history import HeldStream
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.early import OPEN
from millpond.progress import StreamProgress, meld, now
from millpond.support.errors import QueryError
from millpond.support.sql import quote
from millpond.synopses import connection, partial, query_ordered, spec_of
from millpond.types import (
    STATUS,
    Column,
    InnerStream,
    QueryOptions,
    Staged,
    StandingQuery,
    StreamDefinition,
    WindowedQuery,
)


def select_staged(pond: PondView, staged: Staged) -> pa.Table:
    """The answer of a SELECT over answers: that of now, as a standing query would give it."""
    return HeldStreams(pond, staged.inner).answer(staged.query)


class HeldStreams:
    """The streams without a name that an ad hoc SELECT reads, as rows in memory; one may read those before it."""

    def __init__(self, pond: PondView, inner: Sequence[InnerStream]) -> None:
        self.pond = pond
        self.by_name: dict[str, HeldStream] = {}
        for each in inner:
            stream = replace(stream_of(each), id=-1 - len(self.by_name))
            answers, until = self._standing(each) if each.answers else self._once(each.query)
            self.by_name[each.name] = HeldStream(stream, _as_rows(stream, answers), until)

    def answer(self, query: StandingQuery) -> pa.Table:
        """The answer of a query over such streams, or over others."""
        if query.of_instants:
            return select_relational(self.pond, query, {h.stream.id: h for h in self.by_name.values()})
        held = self.by_name.get(query.stream)
        return select_stream(self.pond, query) if held is None else _folded(query, held)

    def _once(self, query: StandingQuery) -> tuple[pa.Table, int]:
        """The answers of a query, and until when there are all of them."""
        answers = self.answer(query)
        bounds = [self._bound(query, names) for names in query.names_by_input]
        return answers, answering_kind(query).known_until(query, bounds)

    def _bound(self, query: StandingQuery, names: Sequence[str]) -> int:
        """Until when windows of an input have ended, or all of its rows are there."""
        if (held := self.by_name.get(names[0])) is not None:
            return held.until
        progress = self.pond.published.progress
        streams = [s.id for s in self.pond.catalog.streams_named(names)]
        states = [progress.get(str(s), StreamProgress()) for s in streams]
        known = progress.get(union_key(streams), StreamProgress())
        bound, high = max(meld(states).bound, known.bound), now(states)
        return max(bound, high + 1) if query.of_instants else max(bound, high + query.ends_now)

    def _standing(self, each: InnerStream) -> tuple[pa.Table, int]:
        """The answers of a standing query that hold and are not early, and until when there are all of them."""
        standing = self.pond.catalog.query(each.answers)
        if standing is None:
            raise QueryError(f"there is no query '{each.answers}'")
        answers = latest_answers(self.pond, standing)
        if STATUS in answers.column_names:
            answers = answers.filter(pc.not_equal(answers[STATUS], OPEN))
        known = self.pond.published.queries.get(str(standing.id), QueryProgress())
        return answers, known.closed


def _folded(query: WindowedQuery, held: HeldStream) -> pa.Table:
    db, query, until = connection(), in_order(query), held.until
    spec = spec_of(query, held.stream)
    kind = windows_over(spec)
    start = QueryProgress(own=kind.progress_kind())
    closing = Closing(query, QueryOptions(since="start"), "drop", start, until, until, until)
    parts = [part for part in [partial(db, spec, held.rows)] if part.num_rows]
    answers = kind.close_past(db, spec, parts, closing).answers if parts else None
    return shown(query, answers, [*query.time_columns, *(Column(o.name, o.type) for o in query.select)])


def _as_rows(stream: StreamDefinition, answers: pa.Table) -> pa.Table:
    """Answers as rows of the stream that they are, none of which is ever taken back."""
    there = answers.column_names
    columns = [
        f"{quote(c.name)}::{c.type} AS {quote(c.name)}" if c.name in there else f"{_OWN[c.name]} AS {quote(c.name)}"
        for c in stream.all_columns
    ]
    sql = f"SELECT {', '.join(columns)}, row_number() OVER () - 1 AS _id FROM a"
    rows, schema = query_ordered(connection(), sql, a=answers), row_schema(stream)
    return rows.cast(pa.schema([schema.field(f.name) if f.name in schema.names else f for f in rows.schema]))


#: Columns of streams of answers that answers themselves lack.
_OWN = {"op": "'+'", "revision": "0::BIGINT"}

__all__ = ["HeldStreams", "select_staged"]
