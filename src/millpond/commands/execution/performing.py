"""Carrying out plans on an open pond: what is planned is checked against the pond, made, and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from deltalake.exceptions import DeltaError

from millpond.answers.row_queries.ready import ready_of
from millpond.catalog import Register
from millpond.catalog.catalogs import Catalogs
from millpond.commands.execution.function_files import keep_function
from millpond.commands.execution.refitting import finish, fitted, note_pending
from millpond.commands.execution.row_query_adding import add_row_queries
from millpond.commands.execution.sight import facts_of
from millpond.commands.execution.table_reading import TablesAhead, make_table, refresh
from millpond.commands.naming import taken
from millpond.commands.planned import (
    AddRowQuery,
    AlterColumns,
    AlterStream,
    ChangeSettings,
    CheckColumns,
    CheckPath,
    CheckRelation,
    CheckWindows,
    Drain,
    DropKind,
    DropRowQuery,
    DropStreams,
    DropTable,
    KeepFunction,
    KeepKind,
    KeepUri,
    MakeStream,
    MakeTable,
    Plan,
    Record,
    RefreshTable,
    SetRowStatus,
    Step,
)
from millpond.commands.pond_facts import Facts
from millpond.engine.core import Core
from millpond.engine.intake.live_storage import LiveStorage
from millpond.engine.jobs.readable import check_relation, check_windows
from millpond.sources.files import look_at
from millpond.sources.listing import check_path
from millpond.support.errors import QueryError, Refusal, SourceError
from millpond.tables.locations import reason_of
from millpond.types import StreamDefinition
from millpond.types.results import DrainReport
from millpond.windows import registered

#: Ids that are kept for a plan which others were quicker than.
_BLOCK = 16


def cannot_drain(final: bool) -> DrainReport:
    """Of who runs statements that drain nothing."""
    raise AssertionError(final)


@dataclass
class Hands:
    """What performing needs beside the pond's parts, and what comes of it beside a message.

    drain: waits until all that the sources hold is committed. ahead: tables in databases that have been read.
    drained: what a drain tells.
    """

    drain: Callable[[bool], DrainReport] = cannot_drain
    ahead: TablesAhead = field(default_factory=TablesAhead)
    drained: DrainReport | None = None


#: Plans on an open pond and carries the plan out: `execute` of its parts.
CarryOut: TypeAlias = Callable[[Callable[[Facts], Plan]], Plan]


class Overtaken(Exception):
    """The pond is not what it was when the plan was made: plan again."""


def execute(core: Core, planning: Callable[[Facts], Plan], hands: Hands | None = None) -> Plan:
    """Plan, carry the plan out, and give it, its message as what there is to say.

    Args:
        hands: None: nothing is read ahead, and nothing drained.

    Raises:
        Refusal, StatementError, QueryError: of the plan, and of what only the pond itself shows; then nothing has been
            recorded.
    """
    with core.lock:
        facts = facts_of(core)
        while True:
            plan = planning(facts)
            if not core.register.reserve_ids(facts.next_id, plan.ids):  # row queries come without the lock
                first = core.register.reserve_block(plan.ids + _BLOCK)
                plan = planning(replace(facts_of(core), next_id=first))
                assert plan.ids <= _BLOCK
            try:
                return replace(plan, message=perform(core, plan, hands or Hands()))
            except Overtaken:
                facts = facts_of(core)


def perform(core: Core, plan: Plan, hands: Hands) -> str:
    """Carry a plan out; what there is to say. Raises: as `execute`; Overtaken."""
    said = ""
    for step in plan.steps:
        said = _perform(core, step, hands) or said
    return said or plan.message


def _perform(core: Core, step: Step, hands: Hands) -> str | None:
    """Carry one step out; what there is to say in place of the plan's message."""
    match step:
        case Record():
            _record(core.catalogs, step)
        case CheckPath(path):
            _check_path(path)
        case CheckColumns(definition, said):
            return _check_columns(definition, said)
        case CheckWindows(standing, synopsis):
            check_windows(core.archives, standing, synopsis)
        case CheckRelation(standing):
            check_relation(core.archives, standing)
        case MakeStream():
            _make_stream(core.storage, step)
        case AddRowQuery(query):
            add_row_queries(core.view, [query])
        case DropRowQuery(query):
            core.register.drop(query)
            ready_of(core.view).forget(query)
        case SetRowStatus(query, paused):
            core.register.set_status(query, "paused" if paused else "live")
        case DropStreams():
            _drop_streams(core.catalogs, step)
        case AlterStream(definition):
            core.streams[definition.id].definition = definition
        case AlterColumns():
            _alter_columns(core, step)
        case ChangeSettings(values):
            for name, value in values.items():
                core.change_setting(name, value)
            if "hot_bytes" in values:
                ready_of(core.view).resize(values["hot_bytes"])
            if values.get("statistics"):
                core.telemetry.reporter.forget()  # what has been told before is told anew
        case MakeTable():
            with _claimed(core.register, step.record):
                make_table(core.view, step, hands.ahead)
        case KeepUri(table, uri):
            core.tables.keep_uri(table, uri)
        case DropTable(table):
            core.tables.drop(table)
        case RefreshTable(table):
            return refresh(core.tables, table, core.now())
        case KeepFunction(definition, function):
            keep_function(core.path, definition, function)
        case KeepKind(reference, kind):
            registered.share(core.path, reference, kind)
            registered.put(reference, kind)
        case DropKind(reference):
            registered.drop(reference)
            registered.withdraw(core.path, [k.reference for k in core.catalog.kinds.values()])
        case Drain(final):
            hands.drained = hands.drain(final)
            return str(hands.drained)
        case _:
            assert_never(step)
    return None


@contextmanager
def _claimed(register: Register, record: Record) -> Iterator[None]:
    """While it is open, nobody takes the names that events give. Raises: Refusal where somebody has one."""
    with ExitStack() as claims:
        for name in record.claims:
            if not claims.enter_context(register.claim(name, record.replaces)):
                raise taken(name)
        yield


def _record(catalogs: Catalogs, record: Record) -> None:
    with _claimed(catalogs.register, record):
        catalogs.log.record(*record.events)


def _check_path(path: str) -> None:
    try:
        check_path(path)
    except SourceError as error:
        raise Refusal(str(error), words=(path,), expected="a path whose folder exists") from None


def _check_columns(definition: StreamDefinition, said: str) -> str:
    try:
        found = look_at(definition)
    except SourceError as error:
        raise Refusal(str(error), words=(definition.options.path or "",)) from None
    if found.lacks is not None:
        raise Refusal(str(found.lacks), words=(found.lacks.column,), expected=found.lacks.remedy)
    return f"{said}: {found}"


def _make_stream(storage: LiveStorage, step: MakeStream) -> None:
    try:
        storage.make_stream(step.definition)
    except (DeltaError, OSError) as error:
        if step.asked is None:
            raise
        raise Refusal(
            f"there can be no archive at {step.asked}: {reason_of(error)}",
            words=(step.asked,),
            expected="a place that can be written to; its options are given where the pond is opened (storage={…})",
        ) from None


def _drop_streams(catalogs: Catalogs, step: DropStreams) -> None:
    """Raises: Overtaken where a row query has come that the plan does not know."""
    register = catalogs.register
    rows = {stream: register.close_stream(stream) for stream in step.streams}
    try:
        if not {query for queries in rows.values() for query in queries} <= step.rows:
            raise Overtaken
        _record(catalogs, step.record)
    except BaseException:
        for stream in step.streams:
            register.reopen_stream(stream)
        raise
    for stream, queries in rows.items():
        if queries:
            register.drop_stream(stream)


def _alter_columns(core: Core, step: AlterColumns) -> None:
    definition = step.definition
    with core.catalogs.altering():
        reading = [] if step.widened is None else core.register.reading(definition.id, step.widened)
        try:
            selections = fitted(core.catalogs, reading, definition)
        except QueryError as error:
            raise Refusal(str(error), "column", expected="DROP QUERY first") from None
        if selections:  # a crash between the two leaves it to the next opening
            note_pending(core.path, reading)
        _record(core.catalogs, step.record)
        core.storage.alter_columns(definition)
        ready_of(core.view).altered(definition.id)
        if selections:
            core.register.fit(selections)
            finish(core.path)
            ready_of(core.view).fitted(definition.id, list(selections))
