"""Scripts on an open pond: each statement is planned, and what is planned is carried out, waited for or answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import takewhile

from millpond import language as lang
from millpond.commands.execution.answering import answer
from millpond.commands.execution.performing import Hands, execute, perform
from millpond.commands.execution.row_query_adding import RowQueries
from millpond.commands.execution.sight import facts_of
from millpond.commands.execution.table_reading import TablesAhead
from millpond.commands.families import CHANGES, plan
from millpond.commands.planned import Plan
from millpond.commands.pond_facts import Facts
from millpond.engine.core import Core
from millpond.support.errors import MillpondError, PondError, without_secrets
from millpond.types.results import DrainReport, StatementResult


class Interpreter:
    """Executes scripts on an open pond.

    Arguments:
        drain: (final) waits until all that the sources hold is committed, and says what happened.
        changed: called after the catalog changed.
    """

    def __init__(self, core: Core, drain: Callable[[bool], DrainReport], changed: Callable[[], None]) -> None:
        self.core, self._drain, self._changed = core, drain, changed
        self.rows = RowQueries(core.view)

    def run(self, script: str, files: bool = True) -> Iterator[StatementResult]:
        """Parse the whole script, then execute statement by statement, giving each one's result as it is there.

        Declarations that follow one another take effect together: no epoch comes between a stream and its queries.

        Arguments:
            files: whether who asks may reach files.
        Raises: StatementError for the first statement that is wrong; those before it have been executed.
        """
        statements = lang.parse(script)
        while statements:
            changes = list(takewhile(_is_change, statements))
            if not changes:
                yield self._execute(statements.pop(0), files)
                continue
            done, fault = self._change(changes, files)
            del statements[: len(changes)]
            self._changed()
            yield from done
            if fault is not None:
                raise fault

    def _change(
        self, statements: list[lang.Statement], files: bool
    ) -> tuple[list[StatementResult], MillpondError | None]:
        """Carry out changes one after the other; the results, and what went wrong with the last one."""
        done: list[StatementResult] = []
        hands = Hands(self._drain, TablesAhead())
        hands.ahead.read(self.core.tables, self.core.catalog, statements)
        with self.core.lock:
            for statement in statements:
                try:
                    with lang.pointing(statement):
                        carried = execute(self.core, _planning(statement, files), hands)
                except MillpondError as error:
                    return done, error
                except OSError as error:  # the disk is full, say
                    return done, PondError(f"{error.filename or self.core.path}: cannot be written: {error.strerror}")
                done.append(StatementResult("message", carried.message, statement=without_secrets(statement.text)))
        return done, None

    def _execute(self, statement: lang.Statement, files: bool) -> StatementResult:
        """Carry out what changes no catalog, or answer it."""
        planned = plan(replace(facts_of(self.core), files=files), statement)
        with lang.pointing(statement):
            if isinstance(planned, Plan):
                hands = Hands(self._drain)
                said = perform(self.core, planned, hands)
                return StatementResult("message", said, statement=statement.text, report=hands.drained)
            table, note = answer(self.core.view, self.core.instruments, planned)
        return StatementResult("message" if table is None else "rows", note, table, statement.text)


def _is_change(statement: lang.Statement) -> bool:
    return type(statement) in CHANGES


def _planning(statement: lang.Statement, files: bool) -> Callable[[Facts], Plan]:
    def planning(facts: Facts) -> Plan:
        planned = plan(replace(facts, files=files), statement)
        assert isinstance(planned, Plan)
        return planned

    return planning
