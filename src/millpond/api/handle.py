"""A standing query as an object: fetch its answer, follow it, pause, resume, drop it.

handle = pond.register("SELECT * FROM reading WHERE mph < 20 BEGIN NOW - INTERVAL 5 MINUTES END NOW")
handle.result().to_pylist()
handle.result(begin="2026-01-01 08:00", end="2026-01-01 09:00")
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from millpond import language as lang
from millpond.answers.invocation import invoke
from millpond.answers.relation_answers import relation_moment
from millpond.answers.row_queries.deliveries import subscribe_selection
from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.selection import evaluate
from millpond.answers.subscription import subscribe
from millpond.catalog import Standing
from millpond.catalog.unions import progress_of
from millpond.commands.execution.interpreter import Interpreter
from millpond.commands.execution.performing import cannot_drain
from millpond.engine.core import Core
from millpond.progress import NEVER
from millpond.support.errors import PondError, QueryError
from millpond.support.sql import quote
from millpond.types import Edge, micros_of, to_json
from millpond.types.as_of import AsOf, as_of_moment, not_an_edge, timestamp_of
from millpond.types.plan_nodes import PlanNode, explain_statement
from millpond.types.results import Answer, AnswerBatch, Cursor


class QueryHandle:
    """A standing query of an open pond, of rows or of windows. Small: it holds nothing but the query's id.

    Arguments:
        query: the query's id.
        changed: called after the query changed.
    Raises:
        QueryError: there is no such query.
    """

    def __init__(self, core: Core, query: int, changed: Callable[[], None] = lambda: None) -> None:
        self._core, self.id, self._changed = core, query, changed
        self.name = core.register.name(query) if self._of_rows else self._standing().definition.name

    def __repr__(self) -> str:
        return f"<query {self.name}>"

    @property
    def _of_rows(self) -> bool:
        if self._core.epochs.closing:
            raise PondError("the pond is closed; open it again with millpond.open")
        return self.id in self._core.register

    def _standing(self) -> Standing:
        standing = self._core.catalog.queries.get(self.id)
        if standing is None:
            raise QueryError(f"there is no query with the id {self.id}; it may have been dropped")
        return standing

    def _streams_of(self, standing: Standing) -> list[str]:
        """The names of the streams that it reads; of a union as it was written."""
        written = list(standing.definition.query.union_names)
        return written or self._core.catalog.shown_names(self._core.catalog.streams_of(standing))

    def result(self, as_of: Any = None, begin: Any = None, end: Any = None, most: int | None = None) -> Answer:
        """The answer now, or at any other moment.

        Arguments:
            as_of: None: now. 'watermark': from final data only. An instant (datetime, text): with all that is known
                today. ('epoch', n) or a number: as it was known when epoch n was published.
            begin, end: another window than the query's own: an instant (datetime, text), microseconds since 1970, or
                text as the language has it: 'NOW - INTERVAL 5 MINUTES', 'NOW - 100 ROWS'.
            most: rows that the answer may have.
        Raises:
            QueryError: the query was dropped, the answer is too large, or the epoch is not kept.
        """
        moment = as_of_moment(as_of)
        edges = as_edge(begin, "BEGIN"), as_edge(end, "END")
        if not self._of_rows:
            if edges != (None, None):
                raise QueryError(f"query '{self.name}' has windows of its own: 'begin' and 'end' are for row queries")
            return invoke_windows(self._core, self._standing(), moment)
        registered = self._core.register.get(self.id)
        if most is None:
            return evaluate(self._core, registered, moment, *edges)
        return evaluate(self._core, registered, moment, *edges, most)

    def explain(self, analyze: bool = False) -> PlanNode:
        """How it is answered, as a tree; `analyze`: also what that took in the last epochs. See `Pond.explain`."""
        [result] = Interpreter(self._core, cannot_drain, self._changed).run(
            explain_statement(quote(self.name), analyze)
        )
        assert result.plan is not None
        return result.plan

    def subscribe(
        self,
        since: Cursor | str | None = None,
        timeout: float | None = None,
        *,
        final: bool = False,
        status: str | None = None,
    ) -> Iterator[AnswerBatch]:
        """Iterate over answers as they are published, from a cursor on (None: those since the registration).

        Ends when nothing new came for `timeout` seconds (None: never), or the query is dropped.

        Arguments:
            final: (window queries) only rows that can no longer change, each once.
            status: (window queries) 'closed': no early answers; 'final': as `final`; None: as the cursor says, or all.
        """
        if self._of_rows:
            if final or status is not None:
                raise QueryError("rows that match never change: 'final' and 'status' are for window queries")
            return subscribe_selection(self._core, self.id, since, timeout)
        return subscribe(self._core, self._standing().definition.name, since, timeout, final, status)

    def drop(self) -> None:
        """Drop the query."""
        if not self._of_rows:
            self._run(f"DROP QUERY {quote(self._standing().definition.name)}")
            return
        self._core.register.drop(self.id)
        ready_of(self._core).forget(self.id)
        self._tell()

    def pause(self) -> None:
        """Stop keeping its answer ready, and its subscriptions. It can still be invoked when it is of rows."""
        self._set("paused")

    def resume(self) -> None:
        """Go on after `pause`."""
        self._set("live")

    def _set(self, status: Any) -> None:
        if not self._of_rows:
            action = "PAUSE" if status == "paused" else "RESUME"
            self._run(f"ALTER QUERY {quote(self._standing().definition.name)} {action}")
            return
        self._core.register.set_status(self.id, status)
        self._tell()

    def _run(self, statement: str) -> None:
        list(Interpreter(self._core, cannot_drain, self._changed).run(statement))
        self._core.epochs.notify()

    def _tell(self) -> None:
        self._changed()
        self._core.epochs.notify()

    def info(self) -> dict[str, Any]:
        """What is known of the query, JSON-ready: id, name, kind, status, text, streams, options, and more by kind."""
        if self._of_rows:
            found = self._core.register.get(self.id)
            return {
                "id": found.id,
                "name": found.name,
                "kind": "rows",
                "status": found.status,
                "owner": found.owner,
                "text": found.text or found.selection.query.text,
                "streams": [s.stream for s in found.selection.sides],
                "columns": [{"name": o.name, "type": o.type} for o in found.selection.query.select],
                "options": to_json(found.options),
                "registered_epoch": found.registered_epoch,
                "version": found.version,
            }
        standing = self._standing()
        definition = standing.definition
        return {
            "id": standing.id,
            "name": definition.name,
            "kind": "windows",
            "status": standing.status,
            "reason": standing.reason,
            "text": definition.text,
            "streams": self._streams_of(standing),
            "columns": [{"name": c.name, "type": c.type} for c in definition.columns],
            "options": to_json(definition.options),
            "registered_epoch": standing.first_epoch - 1,
            "version": definition.version,
        }


def invoke_windows(core: Core, standing: Standing, as_of: AsOf = None) -> Answer:
    """INVOKE of a window query as an `Answer`."""
    while True:
        published = core.published
        table = invoke(core, standing, as_of)
        # An answer that an epoch overtook while it was made may be of either.
        if as_of is not None or core.published is published:
            break
    epoch = as_of[1] if isinstance(as_of, tuple) and as_of[0] == "epoch" else published.epoch
    if standing.definition.query.of_instants:
        return Answer(table, epoch, *relation_moment(core, published, standing, as_of))
    progress = progress_of(core.catalog, core.catalog.synopses[standing.synopsis].spec, published.progress)
    begin = end = None
    if table.num_rows:
        # No datetime: a window may begin before the year 1.
        begin, end = (table[name].cast(pa.int64())[0].as_py() for name in ("window_start", "window_end"))
    final = bool(table["final"][0].as_py()) if table.num_rows else end is not None and progress.bound > end
    now = end if end is not None else progress.high if as_of is None else NEVER
    return Answer(table, epoch, now, progress.bound, begin, end, final)


def as_edge(value: Any, which: str) -> Edge | None:
    """An edge of a window from what a caller passes; see `QueryHandle.result`.

    Arguments:
        which: 'BEGIN' or 'END'.

    >>> as_edge("NOW - 10 ROWS", "BEGIN"), as_edge(1_000_000, "END")
    (Edge(kind='rows', value=10), Edge(kind='constant', value=1000000))
    """
    if value is None or isinstance(value, Edge):
        return value
    if isinstance(value, dt.datetime):
        return Edge("constant", micros_of(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Edge("constant", value)
    if not isinstance(value, str):
        raise not_an_edge(value, which)
    if not value.strip().upper().startswith(("NOW", "TIMESTAMP", "DATE")):
        return Edge("constant", timestamp_of(value))
    return _edge_of(value, which)


@functools.lru_cache(1024)  # reading an edge can take as long as answering
def _edge_of(text: str, which: str) -> Edge:
    [statement, *others] = lang.parse(f"INVOKE q {which} {text}")
    if others or not isinstance(statement, lang.Invoke):
        raise QueryError(f"'{text}' is no edge of a window; write for example 'NOW - INTERVAL 5 MINUTES'")
    found = statement.begin if which == "BEGIN" else statement.end
    other = statement.end if which == "BEGIN" else statement.begin
    if found is None or other is not None:
        raise QueryError(f"'{text}' is no edge of a window; write for example 'NOW - INTERVAL 5 MINUTES'")
    return found
