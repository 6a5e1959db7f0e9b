"""Looking a script over before anything of it is executed: what is certainly wrong is said at once.

Statements are parsed and bound one after the other, as if those before had been executed. What only the pond's data or
its running can tell is left to the execution.
"""

from __future__ import annotations

from dataclasses import replace

from millpond import language as lang
from millpond.catalog import Standing
from millpond.commands.derived_streams import (
    answer_options,
    check_sources,
    stream_of_answers,
    stream_of_rows,
    streams_read,
)
from millpond.commands.row_queries import check_row_options, only_invoked
from millpond.commands.window_queries import check_options, check_reduction
from millpond.engine.control.reporting import SYSSTREAM, definition_of
from millpond.language import Schema
from millpond.language.rewrite.unnamed_streams import stream_of
from millpond.types import (
    FunctionDefinition,
    Query,
    QueryDefinition,
    QueryOptions,
    RelationalQuery,
    RowQuery,
    ScanQuery,
    Staged,
    StandingQuery,
    StreamDefinition,
    TableDefinition,
    outer_of,
)

Named = StreamDefinition | TableDefinition | QueryDefinition


class _Gone(Exception):
    """From here on only the execution can tell."""


class Foresight:
    """The names as they will be when the statements so far have been executed; a schema for the binder.

    Arguments:
        schema: the names as they are.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._made: dict[str, Named | None] = {}
        self._row_queries: set[str] = set()

    def lookup(self, name: str) -> Named | None:
        """See `millpond.language.Schema`."""
        return self._made[name.lower()] if name.lower() in self._made else self._schema.lookup(name)

    def names(self) -> list[str]:
        """The names that something can be selected from."""
        gone = {name for name, found in self._made.items() if found is None}
        made = [found.name for found in self._made.values() if found is not None]
        return [*(n for n in self._schema.names() if n.lower() not in gone), *made]

    def missing(self, name: str) -> str:
        """See `millpond.language.Schema`."""
        if name.lower() in self._row_queries:
            return only_invoked(name)
        return "" if name.lower() in self._made else self._schema.missing(name)

    def reductions(self) -> list[str]:
        """Names of the registered reduction functions."""
        return self._schema.reductions()

    def window_kinds(self) -> dict[str, tuple[str, int]]:
        """References and lengths of registered kinds of windows, by name in small letters."""
        return self._schema.window_kinds()

    def functions(self) -> dict[str, FunctionDefinition]:
        """Registered functions, by name in small letters."""
        return self._schema.functions()

    def look(self, statement: lang.Statement) -> None:
        """Bind a statement, and take its effect on the names into account.

        Raises: StatementError: it cannot be executed.
        """
        with lang.pointing(statement):
            self._look(statement)

    def _look(self, statement: lang.Statement) -> None:
        if isinstance(statement, lang.CreateStream | lang.CreateTable):
            self._put(statement.definition.name, statement.definition, statement.if_not_exists)
        elif isinstance(statement, lang.CreateQuery):
            bound = self._bind(statement)
            if not isinstance(bound, RowQuery):
                self._put(
                    statement.name, self._standing(statement, outer_of(bound)).definition, statement.if_not_exists
                )
            else:
                check_row_options(statement.options)
                if not (statement.if_not_exists and self._is_known(statement.name)):
                    self._row_queries.add(statement.name.lower())
        elif isinstance(statement, lang.DeriveStream):
            self._derive(statement)
        elif isinstance(statement, lang.Drop):
            if statement.cascade:
                raise _Gone
            self._row_queries.discard(statement.name.lower())
            self._made[statement.name.lower()] = None
        elif isinstance(statement, lang.AlterColumns):
            self._alter(statement)
        elif isinstance(statement, lang.AlterSystem) and "statistics" in statement.settings:
            self._made.setdefault(SYSSTREAM, definition_of(0))
        elif isinstance(statement, lang.Select):
            self._check(lang.bind_select(statement.select, self))
        elif isinstance(statement, lang.Explain) and not isinstance(statement.target, str):
            lang.bind_select(statement.target, self)

    def _is_known(self, name: str) -> bool:
        return self.lookup(name) is not None or bool(self.missing(name))

    def _put(self, name: str, definition: Named, if_not_exists: bool) -> None:
        if not (if_not_exists and self._is_known(name)):
            self._row_queries.discard(name.lower())
            self._made[name.lower()] = definition

    def _bind(self, statement: lang.CreateQuery | lang.DeriveStream) -> Query | Staged:
        bound = lang.bind_standing(statement.select, self)
        if isinstance(statement, lang.CreateQuery):
            self._check(bound, statement.options)
        return bound

    def _check(self, bound: Query | Staged | ScanQuery | lang.TableQuery, options: QueryOptions | None = None) -> None:
        """Refuse options that the query cannot have, as its execution does."""
        if isinstance(bound, RowQuery):
            check_reduction(bound.query)
        elif not isinstance(bound, lang.TableQuery):
            check_options(self, bound, options or QueryOptions())

    def _standing(
        self, statement: lang.CreateQuery | lang.DeriveStream, bound: StandingQuery, options: QueryOptions | None = None
    ) -> Standing:
        streams = [] if isinstance(bound, RelationalQuery) else [self.lookup(name) for name in streams_read(bound)]
        retained = any(isinstance(s, StreamDefinition) and s.options.retention is not None for s in streams)
        chosen = statement.options if options is None else options
        return Standing(QueryDefinition(statement.name, bound, chosen, retained=retained), "", 1)

    def _derive(self, statement: lang.DeriveStream) -> None:
        check_sources(statement)
        bound = self._bind(statement)
        if isinstance(bound, Staged):
            query = bound.query
            read = [stream_of(each) for each in bound.inner if each.name in streams_read(query)]
            options = answer_options(statement, query, read)
            check_options(self, bound, options)
            definition = stream_of_answers(statement, self._standing(statement, query, options), [])
            self._put(statement.name, definition, statement.if_not_exists)
            return
        source = self.lookup(bound.sides[0].stream if isinstance(bound, RowQuery) else bound.stream)
        assert isinstance(source, StreamDefinition)
        if isinstance(bound, RowQuery):
            definition = stream_of_rows(statement, bound, source, 1, False)
        else:
            read = [s for n in streams_read(bound) if isinstance(s := self.lookup(n), StreamDefinition)]
            options = answer_options(statement, bound, read)
            check_options(self, bound, options)
            definition = stream_of_answers(statement, self._standing(statement, bound, options), [source.id])
        self._put(statement.name, definition, statement.if_not_exists)

    def _alter(self, statement: lang.AlterColumns) -> None:
        stream, column = self.lookup(statement.name), statement.column
        if not isinstance(stream, StreamDefinition):
            return
        old = stream.column(column.name)
        columns = (*stream.columns, column) if old is None else tuple(
            replace(c, type=column.type) if c is old and statement.action == "type" else c for c in stream.columns
        )  # fmt: skip
        self._made[stream.name.lower()] = replace(stream, columns=columns)


def check_script(script: str, schema: Schema) -> None:
    """Find the first statement of a script that is certainly wrong; nothing is executed.

    Raises: StatementError with the place in the script.
    """
    foresight = Foresight(schema)
    try:
        for statement in lang.parse(script):
            foresight.look(statement)
    except _Gone:
        return


__all__ = ["Foresight", "check_script"]
