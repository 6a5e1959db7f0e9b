"""A standing query as an object: fetch its answer, follow it, pause, resume, drop it.

handle = pond.register("SELECT * FROM reading WHERE mph < 20 BEGIN NOW - INTERVAL 5 MINUTES END NOW")
handle.result().to_pylist()
handle.result(begin="2026-01-01 08:00", end="2026-01-01 09:00")
"""

from __future__ import annotations

import datetime as dt
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pyarrow as pa

from millpond import language as lang
from millpond.answers.archive_jobs import ANSWER_ROWS
from millpond.answers.invocation import invoke
from millpond.answers.relation_answers import relation_moment
from millpond.answers.row_queries.deliveries import subscribe_selection
from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.selection import evaluate
from millpond.answers.subscription import subscribe
from millpond.catalog import Register, Standing
from millpond.catalog.unions import progress_of
from millpond.commands.execution.interpreter import Interpreter
from millpond.commands.execution.performing import cannot_drain
from millpond.engine.core import Core
from millpond.engine.pond_view import PondView
from millpond.progress import NEVER
from millpond.support.errors import PondError, QueryError, StatementError
from millpond.support.sql import quote
from millpond.types import Edge, micros_of, to_json
from millpond.types.as_of import AsOf, as_of_moment, not_an_edge
from millpond.types.durations import parse_timestamp
from millpond.types.plan_nodes import PlanNode, explain_statement
from millpond.types.results import Answer, AnswerBatch, Cursor
from millpond.types.selections import ConstantEdge


class QueryHandle(ABC):
    """A standing query of an open pond. Small: it holds nothing but the query's id; `handle_of` makes it.

    Arguments:
        query: the query's id. name: what it is called. changed: called after the query changed.
    """

    def __init__(self, core: Core, query: int, name: str, changed: Callable[[], None]) -> None:
        self._core, self.id, self.name, self._changed = core, query, name, changed

    def __repr__(self) -> str:
        return f"<query {self.name}>"

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
        return self._result(as_of_moment(as_of), as_edge(begin, "BEGIN"), as_edge(end, "END"), most)

    @abstractmethod
    def _result(self, moment: AsOf, begin: Edge | None, end: Edge | None, most: int | None) -> Answer:
        """See `result`."""

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
        return self._subscribe(since, timeout, final, status)

    @abstractmethod
    def _subscribe(
        self, since: Cursor | str | None, timeout: float | None, final: bool, status: str | None
    ) -> Iterator[AnswerBatch]:
        """See `subscribe`."""

    @abstractmethod
    def drop(self) -> None:
        """Drop the query."""

    def pause(self) -> None:
        """Stop keeping its answer ready, and its subscriptions. It can still be invoked when it is of rows."""
        self._set("paused")

    def resume(self) -> None:
        """Go on after `pause`."""
        self._set("live")

    @abstractmethod
    def _set(self, status: Literal["live", "paused"]) -> None:
        """Let the query have another status."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """What is known of the query, JSON-ready: id, name, kind, status, text, streams, options, and more by kind."""

    def _check(self, there: bool) -> None:
        if self._core.epochs.closing:
            raise PondError("the pond is closed; open it again with millpond.open")
        if not there:
            raise no_query(self.id)

    def _tell(self) -> None:
        self._changed()
        self._core.epochs.notify()


class RowQueryHandle(QueryHandle):
    """A registered row query."""

    @property
    def _register(self) -> Register:
        """The register, which has the query."""
        register = self._core.register
        self._check(self.id in register)
        return register

    def _result(self, moment: AsOf, begin: Edge | None, end: Edge | None, most: int | None) -> Answer:
        most = ANSWER_ROWS if most is None else most
        return evaluate(self._core.view, self._register.get(self.id), moment, begin, end, most)

    def _subscribe(
        self, since: Cursor | str | None, timeout: float | None, final: bool, status: str | None
    ) -> Iterator[AnswerBatch]:
        self._check(self.id in self._core.register)
        if final or status is not None:
            raise QueryError("rows that match never change: 'final' and 'status' are for window queries")
        return subscribe_selection(self._core.view, self.id, since, timeout)

    def drop(self) -> None:
        """See `QueryHandle`."""
        self._register.drop(self.id)
        ready_of(self._core.view).forget(self.id)
        self._tell()

    def _set(self, status: Literal["live", "paused"]) -> None:
        self._register.set_status(self.id, status)
        self._tell()

    def info(self) -> dict[str, Any]:
        """See `QueryHandle`."""
        found = self._register.get(self.id)
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


class StandingQueryHandle(QueryHandle):
    """A query over windows, or of CQL."""

    @property
    def _standing(self) -> Standing:
        """The query as it is in the catalog."""
        standing = self._core.catalog.queries.get(self.id)
        self._check(standing is not None)
        assert standing is not None
        return standing

    def _result(self, moment: AsOf, begin: Edge | None, end: Edge | None, most: int | None) -> Answer:
        if (begin, end) != (None, None):
            raise QueryError(f"query '{self.name}' has windows of its own: 'begin' and 'end' are for row queries")
        return invoke_windows(self._core.view, self._standing, moment)

    def _subscribe(
        self, since: Cursor | str | None, timeout: float | None, final: bool, status: str | None
    ) -> Iterator[AnswerBatch]:
        return subscribe(self._core.view, self._standing.definition.name, since, timeout, final, status)

    def drop(self) -> None:
        """See `QueryHandle`."""
        self._run("DROP QUERY {}")

    def _set(self, status: Literal["live", "paused"]) -> None:
        self._run("ALTER QUERY {} PAUSE" if status == "paused" else "ALTER QUERY {} RESUME")

    def _run(self, statement: str) -> None:
        text = statement.format(quote(self._standing.definition.name))
        list(Interpreter(self._core, cannot_drain, self._changed).run(text))
        self._core.epochs.notify()

    def info(self) -> dict[str, Any]:
        """See `QueryHandle`."""
        standing, catalog = self._standing, self._core.catalog
        definition = standing.definition
        return {
            "id": standing.id,
            "name": definition.name,
            "kind": "windows",
            "status": standing.status,
            "reason": standing.reason,
            "text": definition.text,
            # Those of a union as it was written.
            "streams": list(definition.query.union_names) or catalog.shown_names(catalog.streams_of(standing)),
            "columns": [{"name": c.name, "type": c.type} for c in definition.columns],
            "options": to_json(definition.options),
            "registered_epoch": standing.first_epoch - 1,
            "version": definition.version,
        }


def handle_of(core: Core, query: int, changed: Callable[[], None] = lambda: None) -> QueryHandle:
    """The handle of a query, by its id; `changed` as of `QueryHandle`. Raises: QueryError when there is none."""
    if query in core.register:
        return RowQueryHandle(core, query, core.register.name(query), changed)
    standing = core.catalog.queries.get(query)
    if standing is None:
        raise no_query(query)
    return StandingQueryHandle(core, query, standing.definition.name, changed)


def no_query(query: int) -> QueryError:
    """There is none with an id."""
    return QueryError(f"there is no query with the id {query}; it may have been dropped")


def invoke_windows(pond: PondView, standing: Standing, as_of: AsOf = None) -> Answer:
    """INVOKE of a window query as an `Answer`."""
    while True:
        published = pond.published
        table = invoke(pond, standing, as_of)
        # An answer that an epoch overtook while it was made may be of either.
        if as_of is not None or pond.published is published:
            break
    epoch = as_of[1] if isinstance(as_of, tuple) and as_of[0] == "epoch" else published.epoch
    if standing.definition.query.of_instants:
        return Answer(table, epoch, *relation_moment(pond.archives, published, standing, as_of))
    progress = progress_of(pond.catalog, pond.catalog.synopses[standing.synopsis].spec, published.progress)
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
    (RowsEdge(value=10), ConstantEdge(value=1000000))
    """
    if value is None or isinstance(value, Edge):
        return value
    if isinstance(value, dt.datetime):
        return ConstantEdge(micros_of(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return ConstantEdge(value)
    if not isinstance(value, str):
        raise not_an_edge(value, which)
    if not value.strip().upper().startswith(("NOW", "TIMESTAMP", "DATE")):
        try:
            return ConstantEdge(parse_timestamp(value))
        except ValueError:
            raise not_an_edge(value, which) from None
    return _edge_of(value, which)


@functools.lru_cache(1024)  # reading an edge can take as long as answering
def _edge_of(text: str, which: str) -> Edge:
    try:
        [statement, *others] = lang.parse(f"INVOKE q {which} {text}")
    except StatementError as error:
        raise not_an_edge(text, which, error.message) from None
    if others or not isinstance(statement, lang.Invoke):
        raise not_an_edge(text, which)
    found = statement.begin if which == "BEGIN" else statement.end
    other = statement.end if which == "BEGIN" else statement.begin
    if found is None or other is not None:
        raise not_an_edge(text, which)
    return found
