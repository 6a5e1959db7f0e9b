"""From statements to what they do: each changes the catalog by events, waits for epochs, or reads answers."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from millpond import language as lang
from millpond.catalog import Catalog, Standing, assign
from millpond.engine.core import Core
from millpond.errors import MillpondError, QueryError, SourceError, StatementError
from millpond.progress import NEVER, StreamProgress
from millpond.results.adhoc import select_stream
from millpond.results.describe import explain, show
from millpond.results.invocation import invoke
from millpond.results.relations import select_relations
from millpond.sources.listing import check_path
from millpond.types import BoundQuery, QueryDefinition, StreamDefinition, TableDefinition, to_json

#: Statements that change the catalog.
_CHANGES = (lang.CreateStream, lang.CreateTable, lang.CreateQuery, lang.Drop, lang.AlterQuery)


@dataclass(frozen=True)
class StatementResult:
    """What a statement gave: a message, or rows.

    kind: 'message' or 'rows'. table: the rows. statement: its text.
    """

    kind: Literal["message", "rows"]
    message: str = ""
    table: pa.Table | None = None
    statement: str = ""

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python tuples; empty for a message."""
        if self.table is None:
            return []
        return (
            list(zip(*(column.to_pylist() for column in self.table.columns), strict=True))
            if self.table.num_columns
            else []
        )

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; an empty one for a message."""
        return self.table if self.table is not None else pa.table({})


class Interpreter:
    """Executes scripts on an open pond.

    Arguments:
        drain: (final) waits until all that the sources hold is committed.
        changed: called after the catalog changed.
    """

    def __init__(self, core: Core, drain: Callable[[bool], None], changed: Callable[[], None]) -> None:
        self.core, self._drain, self._changed = core, drain, changed

    def run(self, script: str) -> Iterator[StatementResult]:
        """Parse the whole script, then execute statement by statement, giving each one's result as it is there.

        Declarations that follow one another take effect together: no epoch comes between a stream and its queries.

        Raises: StatementError for the first statement that is wrong; those before it have been executed.
        """
        statements = lang.parse(script)
        while statements:
            if not isinstance(statements[0], _CHANGES):
                yield self._execute(statements.pop(0))
                continue
            done: list[StatementResult] = []
            fault: MillpondError | None = None
            with self.core.lock:
                while statements and isinstance(statements[0], _CHANGES) and fault is None:
                    statement = statements.pop(0)
                    try:
                        done.append(StatementResult("message", self._change(statement), statement=statement.text))
                    except MillpondError as error:
                        fault = error
            self._changed()
            yield from done
            if fault is not None:
                raise fault

    def _execute(self, statement: lang.Statement) -> StatementResult:
        text = statement.text
        if isinstance(statement, lang.Select):
            table, note = self._select(statement)
            return StatementResult("rows", note, table, text)
        if isinstance(statement, lang.Invoke):
            standing = self._query(statement.query, statement)
            self._readable(standing)
            return StatementResult("rows", table=invoke(self.core, standing, statement.as_of), statement=text)
        if isinstance(statement, lang.Show):
            return StatementResult("rows", table=show(self.core, statement.what), statement=text)
        if isinstance(statement, lang.Explain):
            return StatementResult("rows", table=self._explain(statement), statement=text)
        assert isinstance(statement, lang.Drain)
        self._drain(statement.final)
        message = "drained, all windows closed" if statement.final else "drained"
        return StatementResult("message", message, statement=text)

    def _change(self, statement: lang.Statement) -> str:
        if isinstance(statement, lang.CreateStream):
            return self._create_stream(statement)
        if isinstance(statement, lang.CreateTable):
            return self._create_table(statement)
        if isinstance(statement, lang.CreateQuery):
            return self._create_query(statement)
        if isinstance(statement, lang.Drop):
            return self._drop(statement)
        assert isinstance(statement, lang.AlterQuery)
        return self._alter(statement)

    def _select(self, statement: lang.Select) -> tuple[pa.Table, str]:
        """The answer, and a note about queries whose answers are not complete yet."""
        bound = lang.bind_select(statement.select, statement.text, statement.offset, self.core.catalog)
        if isinstance(bound, BoundQuery):
            return select_stream(self.core, bound), ""
        read = [q for r in bound.relations if (q := self.core.catalog.query(r.name)) is not None]
        notes = [
            f"{q.definition.name} is {q.status}" + (f": {q.reason}" if q.reason else "")
            for q in read
            if q.status != "live"
        ]
        note = f"answers so far; query {', '.join(notes)}" if notes else ""
        return select_relations(self.core, bound), note

    def _explain(self, statement: lang.Explain) -> pa.Table:
        if isinstance(statement.target, str):
            standing = self._query(statement.target, statement)
            return explain(self.core, standing.definition.query, standing, statement.analyze)
        bound = lang.bind_select(statement.target, statement.text, statement.offset, self.core.catalog)
        if not isinstance(bound, BoundQuery):
            return pa.table({"plan": ["answers, tables and side streams, joined by DuckDB in one process", bound.sql]})
        return explain(self.core, bound, None, statement.analyze)

    def _readable(self, standing: Standing) -> None:
        if standing.status == "quarantined":
            raise QueryError(
                f"query '{standing.definition.name}' is quarantined: {standing.reason}; CREATE OR REPLACE mends it"
            )

    def _query(self, name: str, statement: lang.Statement) -> Standing:
        standing = self.core.catalog.query(name)
        if standing is None:
            raise self._unknown(
                "query", name, statement, [q.definition.name for q in self.core.catalog.queries.values()]
            )
        return standing

    def _unknown(self, kind: str, name: str, statement: lang.Statement, known: list[str]) -> StatementError:
        other = self.core.catalog.lookup(name)
        message = f"there is no {kind} '{name}'" if other is None else f"'{name}' is not a {kind}"
        nearest = next(iter(difflib.get_close_matches(name, known, 1, 0.5)), "")
        start, end = _place(statement, name)
        return StatementError(message, statement.script, start, end, f"the name of a {kind}", nearest)

    def _free_name(self, name: str, statement: lang.Statement) -> None:
        if self.core.catalog.lookup(name) is not None:
            start, end = _place(statement, name)
            raise StatementError(
                f"the name '{name}' is taken", statement.script, start, end, "a new name, or DROP the old one first"
            )

    def _create_stream(self, statement: lang.CreateStream) -> str:
        definition = statement.definition
        if statement.if_not_exists and isinstance(self.core.catalog.lookup(definition.name), StreamDefinition):
            return f"stream {definition.name} exists"
        self._free_name(definition.name, statement)
        if definition.options.source == "files":
            self._check_path(definition.options.path or "", statement)
        definition = replace(definition, id=self.core.catalog.next_id)
        self.core.make_stream(definition)
        self.core.catalog_log.record({"do": "create_stream", "definition": to_json(definition)})
        return f"stream {definition.name} created"

    def _check_path(self, path: str, statement: lang.Statement) -> None:
        try:
            check_path(path)
        except SourceError as error:
            start, end = _place(statement, path)
            raise StatementError(str(error), statement.script, start, end, "a path whose folder exists") from None

    def _create_table(self, statement: lang.CreateTable) -> str:
        definition = statement.definition
        if statement.if_not_exists and isinstance(self.core.catalog.lookup(definition.name), TableDefinition):
            return f"table {definition.name} exists"
        self._free_name(definition.name, statement)
        self._check_path(definition.path, statement)
        definition = replace(
            definition, id=self.core.catalog.next_id, path=os.path.abspath(os.path.expanduser(definition.path))
        )
        self.core.catalog_log.record({"do": "create_table", "definition": to_json(definition)})
        return f"table {definition.name} created"

    def _create_query(self, statement: lang.CreateQuery) -> str:
        catalog = self.core.catalog
        old = catalog.query(statement.name)
        if old is not None and statement.if_not_exists:
            return f"query {statement.name} exists"
        if old is None or not statement.replace:
            self._free_name(statement.name, statement)
        query = lang.bind_query(statement.select, statement.text, statement.offset, catalog, standing=True)
        return self._register(statement.name, query, statement, old)

    def _register(self, name: str, query: BoundQuery, statement: lang.CreateQuery, old: Standing | None) -> str:
        catalog = self.core.catalog
        stream = catalog.stream(query.stream)
        assert stream is not None and query.window is not None
        next_epoch = max(self.core.last_manifest, self.core.published.epoch) + 1
        progress = self.core.published.progress.get(str(stream.id), StreamProgress())
        history = self._taken(stream.id) > 0
        options = statement.options
        reusable = options.since is None or not history
        needed = progress.bound - query.window.range * 2
        synopsis, new = assign(
            catalog if reusable else replace(catalog, synopses={}),
            query,
            stream,
            next_epoch,
            {s: self._complete_since(catalog, s) for s in catalog.synopses},
            needed,
            self.core.settings.share,
        )
        waits = history and (new or self._is_waiting(catalog, synopsis.owner))
        definition = QueryDefinition(
            name, query, options, catalog.next_id, 1 if old is None else old.definition.version + 1, statement.text
        )
        previous = () if old is None else (*old.previous, old.id)
        standing = Standing(
            definition, synopsis.owner, next_epoch, "backfilling" if waits else "live", previous=previous
        )
        event: dict[str, Any] = {"do": "create_query", "standing": to_json(standing)}
        if new:
            event["synopsis"] = to_json(synopsis)
        if old is not None:
            event["replaces"] = old.id
        self.core.catalog_log.record(event)
        kept = (
            ""
            if old is None
            else " (state kept)"
            if old.synopsis == synopsis.owner
            else " (state rebuilt from the archive)"
        )
        verb = "created" if old is None else f"replaced, version {definition.version}{kept}"
        return f"query {name} {verb}" + ("; back-filling from the archive" if waits else "")

    def _taken(self, stream: int) -> int:
        """How many intake items epochs have taken, the running one included."""
        published = self.core.published.intake.get(str(stream), 0)
        if self.core.last_manifest <= self.core.published.epoch:
            return published
        from millpond.engine.records import read_manifest

        return max(published, read_manifest(self.core.path, self.core.last_manifest).intake.get(str(stream), 0))

    def _is_waiting(self, catalog: Catalog, owner: str) -> bool:
        return any(q.status == "backfilling" for q in catalog.users(owner))

    def _complete_since(self, catalog: Catalog, owner: str) -> int:
        """The event time from which a synopsis certainly holds every row, from what its users still need."""
        from millpond.engine.merging import keep_since
        from millpond.engine.records import QueryProgress

        synopsis = catalog.synopses[owner]
        stream = catalog.streams[synopsis.spec.stream]
        users = [q for q in catalog.users(owner) if q.status == "live"]
        high = self.core.published.progress.get(str(stream.id), StreamProgress()).high
        known = [self.core.published.queries[str(q.id)] for q in users if str(q.id) in self.core.published.queries]
        if not known:
            return 2**62
        starts = [
            max(keep_since(synopsis, q, stream, p.closed, high), NEVER if p.start <= NEVER else p.start)
            for q, p in zip(users, known, strict=False)
            if isinstance(p, QueryProgress)
        ]
        return min(starts)

    def _drop(self, statement: lang.Drop) -> str:
        catalog = self.core.catalog
        found = catalog.lookup(statement.name)
        kinds = {"stream": StreamDefinition, "table": TableDefinition, "query": QueryDefinition}
        if not isinstance(found, kinds[statement.kind]):
            if found is None and statement.if_exists:
                return f"there is no {statement.kind} {statement.name}"
            known = [d.name for d in _definitions(catalog) if isinstance(d, kinds[statement.kind])]
            raise self._unknown(statement.kind, statement.name, statement, known)
        if isinstance(found, StreamDefinition):
            users = catalog.on_stream(found.id)
            if users and not statement.cascade:
                names = ", ".join(sorted(q.definition.name for q in users))
                start, end = _place(statement, statement.name)
                message = f"stream '{found.name}' is read by {names}"
                raise StatementError(
                    message, statement.script, start, end, "CASCADE to drop them too, or DROP QUERY first"
                )
            self.core.catalog_log.record(
                *({"do": "drop_query", "id": q.id} for q in users), {"do": "drop_stream", "id": found.id}
            )
            return f"stream {found.name} dropped" + (f", with {len(users)} queries" if users else "")
        assert isinstance(found, (TableDefinition, QueryDefinition))
        self.core.catalog_log.record({"do": f"drop_{statement.kind}", "id": found.id})
        return f"{statement.kind} {found.name} dropped"

    def _alter(self, statement: lang.AlterQuery) -> str:
        standing = self._query(statement.name, statement)
        if statement.action == "pause":
            if standing.status == "paused":
                return f"query {statement.name} is paused already"
            reason = "backfilling" if standing.status == "backfilling" else ""
            self.core.catalog_log.record({"do": "set_status", "id": standing.id, "status": "paused", "reason": reason})
            return f"query {statement.name} paused"
        if standing.status == "quarantined":
            raise QueryError(
                f"query '{statement.name}' is quarantined ({standing.reason}) and has missed rows;"
                " CREATE OR REPLACE QUERY makes it anew from the archive"
            )
        if standing.status != "paused":
            return f"query {statement.name} runs already"
        waits = standing.reason == "backfilling" and str(standing.id) not in self.core.published.queries
        status = "backfilling" if waits else "live"
        self.core.catalog_log.record({"do": "set_status", "id": standing.id, "status": status})
        return f"query {statement.name} resumed"


def _definitions(catalog: Catalog) -> list[StreamDefinition | TableDefinition | QueryDefinition]:
    return [d for n in catalog.names() if (d := catalog.lookup(n)) is not None]


def _place(statement: lang.Statement, name: str) -> tuple[int, int]:
    """Where a name stands in the script, for the caret."""
    at = statement.script.lower().find(name.lower(), statement.offset)
    return (at, at + len(name)) if at >= 0 else (statement.offset, statement.offset + 1)
