"""From statements to what they do: each changes the catalog by events, waits for epochs, or reads answers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pyarrow as pa

from millpond import language as lang
from millpond.answers.adhoc import select_stream
from millpond.answers.describe.archive import show_archive
from millpond.answers.describe.describe import explain, explain_stream, show
from millpond.answers.describe.explain_row_queries import explain_selection
from millpond.answers.describe.explain_staged import explain_staged
from millpond.answers.describe.explain_windows import duration, moment
from millpond.answers.expired_history import gone_note, said_with
from millpond.answers.fidelity import note_of
from millpond.answers.invocation import invoke
from millpond.answers.relational import explain_relational, select_relational
from millpond.answers.relations import select_relations
from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.selection import evaluate, select_once
from millpond.archive import parse_design
from millpond.catalog import Catalog, Registered, Standing
from millpond.commands.altered_columns import alter_columns
from millpond.commands.archives import alter_stream, make_stream, with_design, with_place
from millpond.commands.derived_streams import (
    answer_options,
    check_sources,
    stream_of_answers,
    stream_of_rows,
    streams_read,
)
from millpond.commands.dropped_streams import drop_stream
from millpond.commands.live_settings import alter_options, alter_system
from millpond.commands.row_queries import RowQueries
from millpond.commands.summary_copies import set_summaries
from millpond.commands.table_statements import TableStatements, table_note
from millpond.commands.window_queries import Wanted, WindowQueries, check_options, check_reduction, version_of
from millpond.engine.control.system_stream import SYSSTREAM
from millpond.engine.core import Core
from millpond.sources.listing import check_path
from millpond.support.errors import (
    MillpondError,
    PondError,
    QueryError,
    Refusal,
    SourceError,
    StatementError,
    without_secrets,
)
from millpond.synopses.panes import PanesSpec
from millpond.types import (
    QueryDefinition,
    QueryOptions,
    RelationalQuery,
    RowQuery,
    Staged,
    StreamDefinition,
    TableDefinition,
    to_json,
)
from millpond.types.results import StatementResult

#: Statements that change the catalog.
_CHANGES = (
    lang.CreateStream, lang.DeriveStream, lang.CreateTable, lang.CreateQuery, lang.Drop, lang.AlterQuery,
    lang.AlterStream, lang.AlterColumns, lang.AlterSystem, lang.AlterTable,
)  # fmt: skip

#: Names of row queries, the newest, that a misspelt one is compared with.
_NEAR = 1000


def _kind(known: StreamDefinition | TableDefinition | QueryDefinition | int) -> str:
    """What has a name; a number is that of a row query."""
    kinds = {StreamDefinition: "stream", TableDefinition: "table"}
    return next((word for kind, word in kinds.items() if isinstance(known, kind)), "query")


class Interpreter:
    """Executes scripts on an open pond.

    Arguments:
        drain: (final) waits until all that the sources hold is committed.
        changed: called after the catalog changed.
    """

    def __init__(self, core: Core, drain: Callable[[bool], None], changed: Callable[[], None]) -> None:
        self.core, self._drain, self._changed = core, drain, changed
        self.rows, self.windows, self.tables = RowQueries(core), WindowQueries(core), TableStatements(core)

    def run(self, script: str) -> Iterator[StatementResult]:
        """Parse the whole script, then execute statement by statement, giving each one's result as it is there.

        Declarations that follow one another take effect together: no epoch comes between a stream and its queries.

        Raises: StatementError for the first statement that is wrong; those before it have been executed.
        """
        statements = lang.parse(script)
        while statements:
            if not isinstance(statements[0], _CHANGES):
                with lang.pointing(statements[0]):
                    result = self._execute(statements[0])
                statements.pop(0)
                yield result
                continue
            done: list[StatementResult] = []
            fault: MillpondError | None = None
            self.tables.read_ahead(list(takewhile(lambda s: isinstance(s, _CHANGES), statements)))
            with self.core.lock:
                while statements and isinstance(statements[0], _CHANGES) and fault is None:
                    statement = statements.pop(0)
                    try:
                        with lang.pointing(statement):
                            said = self._change(statement)
                        done.append(StatementResult("message", said, statement=without_secrets(statement.text)))
                    except MillpondError as error:
                        fault = error
                    except OSError as error:  # the disk is full, say
                        fault = PondError(f"{error.filename or self.core.path}: cannot be written: {error.strerror}")
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
            table, note = self._invoke(statement)
            return StatementResult("rows", note, table, text)
        if isinstance(statement, lang.Show):
            return StatementResult("rows", table=self._show(statement), statement=text)
        if isinstance(statement, lang.Explain):
            return StatementResult("rows", table=self._explain(statement), statement=text)
        if isinstance(statement, lang.RefreshTable):
            return StatementResult("message", self.tables.refresh(self._table(statement)), statement=text)
        assert isinstance(statement, lang.Drain)
        self._drain(statement.final)
        message = "drained, all windows closed" if statement.final else "drained"
        return StatementResult("message", message, statement=text)

    def _invoke(self, statement: lang.Invoke) -> tuple[pa.Table, str]:
        """The answer, and for a row query which prefix of its streams it saw."""
        standing = self._query(statement.query, statement)
        if isinstance(standing, Registered):
            answer = evaluate(self.core, standing, statement.as_of, statement.begin, statement.end)
            seen = f"as of epoch {answer.epoch}, now {moment(answer.now)}, progress {moment(answer.progress)}"
            gone = gone_note(self.core, standing.selection) if statement.begin is None else ""
            return answer.table, "; ".join(n for n in (seen, note_of(answer.table), gone) if n)
        self._readable(standing)
        if statement.begin is not None or statement.end is not None:
            raise Refusal(
                f"'{statement.query}' is a window query, whose window is RANGE; BEGIN … END is for row queries",
                words=("BEGIN", "END"),
            )
        table = invoke(self.core, standing, statement.as_of)
        return table, note_of(table)

    def _change(self, statement: lang.Statement) -> str:
        if isinstance(statement, lang.CreateStream):
            return self._create_stream(statement)
        if isinstance(statement, lang.DeriveStream):
            return self._derive_stream(statement)
        if isinstance(statement, lang.CreateTable):
            return self._create_table(statement)
        if isinstance(statement, lang.CreateQuery):
            return self._create_query(statement)
        if isinstance(statement, lang.Drop):
            return self._drop(statement)
        if isinstance(statement, lang.AlterStream):
            return alter_stream(self.core, self._stream(statement.name, statement), statement.options, self.rows.names)
        if isinstance(statement, lang.AlterColumns):
            return alter_columns(self.core, statement, self._stream(statement.name, statement))
        if isinstance(statement, lang.AlterSystem):
            return alter_system(self.core, statement)
        if isinstance(statement, lang.AlterTable):
            return self.tables.alter(self._table(statement), statement)
        assert isinstance(statement, lang.AlterQuery)
        return self._alter(statement)

    def _show(self, statement: lang.Show) -> pa.Table:
        if statement.what != "archive":
            return show(self.core, statement.what)
        named = [] if statement.name is None else [self._stream(statement.name, statement)]
        return show_archive(self.core, named or self.core.catalog.shown_streams())

    def _stream(self, name: str, statement: lang.Statement) -> StreamDefinition:
        stream = self.core.catalog.stream(name)
        if stream is None or stream.is_inner:
            known = [s.name for s in self.core.catalog.streams.values() if not s.is_inner]
            raise self._unknown("stream", name, statement, known)
        return stream

    def _select(self, statement: lang.Select) -> tuple[pa.Table, str]:
        """The answer, and a note about queries whose answers are not complete yet."""
        bound = lang.bind_select(statement.select, self.rows.names)
        if isinstance(bound, RowQuery):
            check_reduction(bound.query)
            return (table := select_once(self.core, bound).table), said_with(self.core, table, bound)
        if isinstance(bound, Staged):
            raise _only_standing(statement)
        if not isinstance(bound, lang.TableQuery):
            check_options(self.core.catalog, bound, QueryOptions())
            if isinstance(bound, RelationalQuery):
                table = select_relational(self.core, bound)
                return table, "; ".join(
                    n for n in (note_of(table), table_note(self.core, [t.name for t in bound.tables])) if n
                )
            table = select_stream(self.core, bound)
            tables = () if bound.lookup is None else bound.lookup.tables
            said = (said_with(self.core, table, bound), table_note(self.core, [t.name for t in tables]))
            return table, "; ".join(n for n in said if n)
        read = [q for r in bound.relations if (q := self.core.catalog.query(r.name)) is not None]
        notes = [
            f"{q.definition.name} is {q.status}" + (f": {q.reason}" if q.reason else "")
            for q in read
            if q.status != "live"
        ]
        note = f"answers so far; query {', '.join(notes)}" if notes else ""
        table = select_relations(self.core, bound)
        return table, "; ".join(
            n for n in (note, table_note(self.core, [r.name for r in bound.relations if r.kind == "table"])) if n
        )

    def _explain(self, statement: lang.Explain) -> pa.Table:
        if isinstance(statement.target, str):
            stream = self.core.catalog.stream(statement.target)
            if stream is not None and not stream.is_inner:
                return explain_stream(self.core, stream, statement.analyze)
            standing = self._query(statement.target, statement)
            if isinstance(standing, Registered):
                return explain_selection(self.core, standing.selection, standing, statement.analyze)
            if standing.inputs:
                return explain_relational(self.core, standing.relational, standing, statement.analyze)
            return explain(self.core, standing.windowed, standing, statement.analyze)
        bound = lang.bind_select(statement.target, self.rows.names)
        if isinstance(bound, Staged):
            return explain_staged(self.core, bound)
        if isinstance(bound, RowQuery):
            return explain_selection(self.core, bound, None, statement.analyze)
        if isinstance(bound, RelationalQuery):
            return explain_relational(self.core, bound, None)
        if isinstance(bound, lang.TableQuery):
            return pa.table({"plan": ["answers, tables and side streams, joined by DuckDB in one process", bound.sql]})
        return explain(self.core, bound, None, statement.analyze)

    def _readable(self, standing: Standing) -> None:
        if standing.status == "quarantined":
            raise QueryError(
                f"query '{standing.definition.name}' is quarantined: {standing.reason}; CREATE OR REPLACE mends it"
            )

    def _query(self, name: str, statement: lang.Statement) -> Standing | Registered:
        standing = self.core.catalog.query(name) or self.core.register.by_name(name)
        if standing is None:
            known = [q.definition.name for q in self.core.catalog.shown_queries()]
            raise self._unknown("query", name, statement, [*known, *self.core.register.names()[-_NEAR:]])
        return standing

    def _unknown(self, kind: str, name: str, statement: lang.Statement, known: list[str]) -> StatementError:
        other = self.rows.names.lookup(name) or self.core.register.id_of(name)
        message = f"there is no {kind} '{name}'" if other is None else f"'{name}' is not a {kind} but a {_kind(other)}"
        nearest = next(iter(difflib.get_close_matches(name, known, 1, 0.5)), "")
        start, end = lang.token_place(statement, name)
        return StatementError(message, statement.script, start, end, f"the name of a {kind}", nearest)

    def _free_name(self, name: str, statement: lang.Statement) -> None:
        if name.lower() == SYSSTREAM or self.core.catalog.lookup(name) or self.core.register.id_of(name) is not None:
            raise self._name_taken(name, statement)

    def _name_taken(self, name: str, statement: lang.Statement) -> StatementError:
        start, end = lang.token_place(statement, name)
        return StatementError(
            f"the name '{name}' is taken", statement.script, start, end, "a new name, or DROP the old one first"
        )

    @contextmanager
    def _claimed(self, name: str, statement: lang.Statement) -> Iterator[None]:
        """While it is open, no row query of that name is registered."""
        with self.core.register.claim(name) as free:
            if not free:
                raise self._name_taken(name, statement)
            yield

    def _create_stream(self, statement: lang.CreateStream) -> str:
        definition = statement.definition
        if statement.if_not_exists and isinstance(self.core.catalog.lookup(definition.name), StreamDefinition):
            return f"stream {definition.name} exists"
        self._free_name(definition.name, statement)
        if definition.options.source == "files":
            self._check_path(definition.options.path or "", statement)
        definition = with_design(with_place(definition))
        definition = replace(definition, id=self.core.register.reserve_id(self.core.catalog.next_id))
        events: list[dict[str, Any]] = [{"do": "create_stream", "definition": to_json(definition)}]
        if summaries := parse_design(definition.options.archive).summaries:
            events.append(set_summaries(self.core, definition, summaries, self.rows.names))
        make_stream(self.core, definition, statement)
        with self._claimed(definition.name, statement):
            self.core.catalog_log.record(*events)
        return f"stream {definition.name} created"

    def _derive_stream(self, statement: lang.DeriveStream) -> str:
        """Make a stream of a query's answers, or of another stream's rows; its query and it begin together."""
        core = self.core
        if statement.if_not_exists and isinstance(core.catalog.lookup(statement.name), StreamDefinition):
            return f"stream {statement.name} exists"
        self._free_name(statement.name, statement)
        check_sources(statement)
        bound = lang.bind_standing(statement.select, self.rows.names)
        first = max(core.last_manifest, core.published.epoch) + 1
        if isinstance(bound, RowQuery):
            source = core.catalog.stream(bound.sides[0].stream)
            assert source is not None
            definition = stream_of_rows(statement, bound, source, first, self.windows.has_history(source.id))
            waits = definition.derived is not None and definition.derived.history
            return self._record_stream(statement, definition, {}, waits)
        with self.windows.inner.made(bound, statement.options) as (bound, given):
            named = [s for n in streams_read(bound) if (s := core.catalog.stream(n)) is not None]
            options = answer_options(replace(statement, options=given), bound, named)
            check_options(core.catalog, bound, options)
            number = core.register.reserve_id(core.catalog.next_id)
            standing, event = self.windows.plan(Wanted(number, statement.name, bound, options, statement.text))
            definition = stream_of_answers(statement, standing, sorted({s.id for s in named}))
            return self._record_stream(statement, definition, event, standing.status == "backfilling")

    def _record_stream(
        self, statement: lang.DeriveStream, definition: StreamDefinition, event: dict[str, Any], waits: bool
    ) -> str:
        core = self.core
        definition = replace(definition, id=core.register.reserve_id(core.catalog.next_id))
        core.make_stream(definition)
        with self._claimed(definition.name, statement):
            core.catalog_log.record(event | {"do": "create_stream", "definition": to_json(definition)})
        return f"stream {definition.name} created" + ("; back-filling from the archive" if waits else "")

    def _check_path(self, path: str, statement: lang.Statement) -> None:
        try:
            check_path(path)
        except SourceError as error:
            start, end = lang.token_place(statement, path)
            raise StatementError(str(error), statement.script, start, end, "a path whose folder exists") from None

    def _create_table(self, statement: lang.CreateTable) -> str:
        definition = statement.definition
        if statement.if_not_exists and isinstance(self.core.catalog.lookup(definition.name), TableDefinition):
            return f"table {definition.name} exists"
        self._free_name(definition.name, statement)
        if definition.format is not None:
            self._check_path(definition.path, statement)
        number = self.core.register.reserve_id(self.core.catalog.next_id)
        with self._claimed(definition.name, statement):
            self.tables.create(statement, number)
        return f"table {definition.name} created"

    def _table(self, statement: lang.AlterTable | lang.RefreshTable) -> TableDefinition:
        if isinstance(found := self.core.catalog.lookup(statement.name), TableDefinition):
            return found
        known = [t.name for t in self.core.catalog.tables.values()]
        raise self._unknown("table", statement.name, statement, known)

    def _create_query(self, statement: lang.CreateQuery) -> str:
        name = statement.name
        old = self.core.catalog.query(name) or self.core.register.by_name(name)
        if old is not None and statement.if_not_exists:
            return f"query {name} exists"
        if old is None or not statement.replace:
            self._free_name(name, statement)
        bound = lang.bind_standing(statement.select, self.rows.names)
        if not isinstance(bound, RowQuery):
            return self.windows.register(name, bound, statement.options, statement.text, old)[1]
        version = 1 if old is None else version_of(old) + 1
        previous = () if old is None else (*old.previous, old.id)
        new = self.rows.new(
            bound, statement.text, name, options=statement.options, version=version, previous=previous,
            replaces=None if old is None else old.id, owner=old.owner if isinstance(old, Registered) else "",
        )  # fmt: skip
        self.rows.add([new])
        if isinstance(old, Standing):
            self.core.catalog_log.record({"do": "drop_query", "id": old.id})
        return f"query {name} " + ("created" if old is None else f"replaced, version {version}")

    def _drop(self, statement: lang.Drop) -> str:
        catalog = self.core.catalog
        found = catalog.lookup(statement.name)
        kinds = {"stream": StreamDefinition, "table": TableDefinition, "query": QueryDefinition}
        if not isinstance(found, kinds[statement.kind]):
            row_query = self.core.register.id_of(statement.name)
            if row_query is not None and statement.kind == "query":
                self.core.register.drop(row_query)
                ready_of(self.core).forget(row_query)
                return f"query {statement.name} dropped"
            if found is None and row_query is None and statement.if_exists:
                return f"there is no {statement.kind} {statement.name}"
            known = [d.name for d in _definitions(catalog) if isinstance(d, kinds[statement.kind])]
            if statement.kind == "query":
                known += self.core.register.names()[-_NEAR:]
            raise self._unknown(statement.kind, statement.name, statement, known)
        if isinstance(found, StreamDefinition) and found.is_inner:
            raise self._unknown(statement.kind, statement.name, statement, [])
        if isinstance(found, StreamDefinition):
            return drop_stream(self.core, found, statement)
        assert isinstance(found, (TableDefinition, QueryDefinition))
        if isinstance(found, TableDefinition):
            self.tables.drop(found, statement)
            return f"table {found.name} dropped"
        self.core.catalog_log.record({"do": "drop_query", "id": found.id})
        return f"{statement.kind} {found.name} dropped"

    def _set_window(self, statement: lang.AlterQuery, standing: Standing | Registered) -> str:
        """A new version of a query with other windows, filled from what is there."""
        name = statement.name
        if isinstance(standing, Registered):
            raise Refusal(f"'{name}' is a row query; its window is BEGIN … END …, given anew at any INVOKE")
        definition = standing.definition
        text, select = lang.with_window(name, definition.text, statement.window)
        try:
            bound = lang.bind_standing(select, self.rows.names)
        except StatementError as fault:
            raise self._outdated(name, definition.text) or fault from None
        if isinstance(bound, RowQuery):
            raise Refusal(f"query '{name}' cannot have this window", words=("WINDOW",))
        before = self.core.catalog.synopses.get(standing.synopsis)
        done = self.windows.register(definition.name, bound, definition.options, text, standing)[1]
        kept = self.core.catalog.query(name)
        if (
            kept is not None
            and before is not None
            and kept.synopsis == before.owner
            and isinstance(before.spec, PanesSpec)
        ):
            return f"{done}: its panes of {duration(before.spec.panes.width)} make up the new windows"
        return done

    def _outdated(self, name: str, text: str) -> StatementError | None:
        """What is wrong with the text that a query was made by, since columns have been added; None: nothing is."""
        made = lang.parse(text)[0]
        assert isinstance(made, lang.CreateQuery | lang.Select)
        try:
            lang.bind_standing(made.select, self.rows.names)
        except StatementError as fault:
            message = f"the text of '{name}' does not fit the columns that there are now: {fault.message}"
            expected = "; ".join(e for e in (fault.expected, f"CREATE OR REPLACE QUERY {name} says it anew") if e)
            return StatementError(message, fault.text, fault.start, fault.end, expected)
        return None

    def _alter(self, statement: lang.AlterQuery) -> str:
        standing = self._query(statement.name, statement)
        if statement.action == "window":
            return self._set_window(statement, standing)
        if statement.action == "set":
            return alter_options(self.core, statement, standing)
        pause = statement.action == "pause"
        if pause and standing.status == "paused":
            return f"query {statement.name} is paused already"
        if isinstance(standing, Registered):
            if not pause and standing.status != "paused":
                return f"query {statement.name} runs already"
            self.core.register.set_status(standing.id, "paused" if pause else "live")
            return f"query {statement.name} {'paused' if pause else 'resumed'}"
        if pause and standing.status == "quarantined":
            raise QueryError(f"query '{statement.name}' is quarantined ({standing.reason}) and answers nothing anyway")
        if pause:
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


def _only_standing(statement: lang.Select) -> StatementError:
    start = statement.offset
    return StatementError(
        "a window over a join of streams is a standing query: pairs are kept for it as they form", statement.script,
        start, start + 1, "CREATE QUERY q AS SELECT … WITH (since='start'), and SELECT … FROM q",
    )  # fmt: skip


def _definitions(catalog: Catalog) -> list[StreamDefinition | TableDefinition | QueryDefinition]:
    return [d for n in catalog.names() if (d := catalog.lookup(n)) is not None]
