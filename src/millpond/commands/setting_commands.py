"""ALTER SYSTEM SET, ALTER QUERY … SET: what may change while a pond runs.

    ALTER SYSTEM SET target = 0.5
    ALTER QUERY slow SET (revise_for = '2 hours')

A change is an event of the catalog, so it holds after a restart, too; the next epoch goes by it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from millpond import language as lang
from millpond.answers.describe.settings import shown
from millpond.catalog import Registered
from millpond.catalog.unions import progress_of
from millpond.commands.naming import query_named
from millpond.commands.planned import ChangeSettings, Event, Ids, MakeStream, Plan, Record, Step
from millpond.commands.pond_facts import Facts
from millpond.commands.query_checks import check_options
from millpond.engine.control.reporting import SYSSTREAM, definition_of, system_stream
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.registry import answering_kind
from millpond.progress import NEVER
from millpond.support.errors import QueryError, Refusal
from millpond.types import QueryOptions, to_json
from millpond.types.options import Settings


def alter_system(facts: Facts, statement: lang.AlterSystem) -> Plan:
    """Plan ALTER SYSTEM SET. A setting that is set to DEFAULT is as when the pond was opened.

    Raises:
        QueryError: something has the name of the stream that statistics are reported into.
    """
    reset = {name for name, value in statement.settings.items() if value is None}
    reset.discard("share")  # this one is remembered, so that an opening finishes what a crash cut short
    changes = {
        name: facts.opened_with.get(name, getattr(Settings(), name)) if value is None else value
        for name, value in statement.settings.items()
    }
    ids = Ids(facts)
    steps = list(system_stream_steps(facts, ids)) if changes.get("statistics") else []
    events: list[Event] = [
        {"do": "reset_setting", "name": n} if n in reset else {"do": "set_setting", "name": n, "value": v}
        for n, v in changes.items()
    ]
    steps += [Record(tuple(events)), ChangeSettings(changes)]
    said = " and ".join(f"{name} = {shown(value)}" for name, value in changes.items())
    return Plan(f"{said} from the next epoch on", tuple(steps), ids.used)


def begin_statistics(facts: Facts) -> Plan:
    """The plan of an opening with statistics."""
    ids = Ids(facts)
    return Plan("", tuple(system_stream_steps(facts, ids)), ids.used)


def system_stream_steps(facts: Facts, ids: Ids) -> tuple[Step, ...]:
    """What makes the stream that statistics are reported into, where it is not there.

    Raises:
        QueryError: something else has its name.
    """
    if system_stream(facts.catalog) is not None:
        return ()
    if facts.catalog.lookup(SYSSTREAM) is not None or facts.row_query_id(SYSSTREAM) is not None:
        raise QueryError(f"the name '{SYSSTREAM}' is taken; DROP what has it, then statistics can be on")
    definition = definition_of(ids.take())
    event: Event = {"do": "create_stream", "definition": to_json(definition)}
    return MakeStream(definition), Record((event,), (SYSSTREAM,))


def alter_options(facts: Facts, statement: lang.AlterQuery) -> Plan:
    """Plan ALTER QUERY … SET.

    Raises:
        Refusal: an option does not go with the query, or cannot change any more.
    """
    standing, catalog = query_named(facts, statement.name), facts.catalog
    if isinstance(standing, Registered):
        raise Refusal(f"'{statement.name}' is a row query, which keeps no windows: it has none of these options")
    definition = standing.definition
    before, query, plain = definition.options, definition.query, QueryOptions()
    changes = {name: getattr(plain, name) if value is None else value for name, value in statement.options.items()}
    after = replace(before, **changes)
    check_options(catalog, query, after)
    _check_slots(before, after)
    event: dict[str, Any] = {"do": "set_options", "id": standing.id, "options": to_json(after)}
    kind = answering_kind(query)
    if query.revised_for(after) > (known := query.revised_for(before)):
        if reason := kind.lasting(known):
            raise Refusal(reason, "revise_for")
        if catalog.inner_of(standing):
            raise Refusal(
                "what a longer 'revise_for' would join is gone; over a join of streams it can only become shorter",
                "revise_for",
            )
        progress = facts.published.queries.get(str(standing.id), QueryProgress())
        spec = catalog.synopses[standing.synopsis].spec
        high = progress_of(catalog, spec, facts.published.progress).high
        # What windows before that were made of is not kept any more: they stay as they are.
        event["floor"] = max(NEVER, min(kind.answered(progress), high) - known)
    changed = ", ".join(statement.options)
    return Plan(f"query {definition.name} altered: {changed}, from the next epoch on", (Record((event,)),))


def _check_slots(before: QueryOptions, after: QueryOptions) -> None:
    """Refuse what would change the form of answers that are out already."""
    if (before.early is None) != (after.early is None):
        raise Refusal("'early' gives answers a column of its own: CREATE OR REPLACE QUERY … WITH (early = …)", "early")
    if before.flush != after.flush and "slow" in (before.flush, after.flush):
        raise Refusal(
            "answers that go out by and by do so in slots of their own: CREATE OR REPLACE QUERY changes it", "flush"
        )
