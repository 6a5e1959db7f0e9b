"""DROP, PAUSE, RESUME, DRAIN: how the life of streams, tables and queries goes on and ends."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import language as lang
from millpond.catalog import Registered
from millpond.commands.naming import NEAR, kind_of, query_named, unknown
from millpond.commands.planned import (
    Drain,
    DropRowQuery,
    DropStreams,
    DropTable,
    Plan,
    Record,
    SetRowStatus,
    Step,
)
from millpond.commands.pond_facts import Facts
from millpond.support.errors import QueryError, Refusal
from millpond.types import QueryDefinition, StreamDefinition, TableDefinition

#: Names that a message lists.
_SHOWN = 10


def drop(facts: Facts, statement: lang.Drop) -> Plan:
    """Plan DROP STREAM, TABLE, QUERY. Raises: Refusal."""
    name, found = statement.name, facts.catalog.lookup(statement.name)
    if found is None or kind_of(found) != statement.kind:
        return _drop_row_query(facts, statement)
    match found:
        case StreamDefinition():
            if found.is_inner:
                raise unknown(facts, "stream", name, [])
            return drop_stream(facts, found, statement.cascade)
        case TableDefinition():
            return _drop_table(facts, found, statement.cascade)
        case QueryDefinition():
            return _drop_query(facts, found, statement.cascade)


def _drop_query(facts: Facts, query: QueryDefinition, cascade: bool) -> Plan:
    """The plan that drops a query; with CASCADE also those that read its answers.

    Raises: Refusal where one does, and CASCADE is not said.
    """
    doomed = [query.id]
    for each in doomed:
        doomed += [q.id for q in facts.catalog.readers_of_answers(each) if q.id not in doomed]
    readers = sorted(facts.catalog.queries[q].definition.name for q in doomed[1:])
    if readers and not cascade:
        raise Refusal(
            f"query '{query.name}' is read by {', '.join(readers)}",
            expected="CASCADE to drop them too, or DROP QUERY first",
        )
    with_them = f", with {len(readers)} {'query' if len(readers) == 1 else 'queries'}" if readers else ""
    events = tuple({"do": "drop_query", "id": number} for number in reversed(doomed))
    return Plan(f"query {query.name} dropped{with_them}", (Record(events),))


def _drop_row_query(facts: Facts, statement: lang.Drop) -> Plan:
    """The plan where the catalog has nothing of that kind and name."""
    name, number = statement.name, facts.row_query_id(statement.name)
    if number is not None and statement.kind == "query":
        return Plan(f"query {name} dropped", (DropRowQuery(number, name),))
    if facts.catalog.lookup(name) is None and number is None and statement.if_exists:
        return Plan(f"there is no {statement.kind} {name}")
    known = [d.name for d in facts.catalog.definitions() if kind_of(d) == statement.kind]
    if statement.kind == "query":
        known += facts.sight.row_names()[-NEAR:]
    raise unknown(facts, statement.kind, name, known)


def drop_stream(facts: Facts, stream: StreamDefinition, cascade: bool) -> Plan:
    """The plan that drops a stream with its own query; with CASCADE also the streams made of it, and what reads these.

    Raises:
        Refusal: something reads it, and CASCADE is not said. QueryError: epochs report into it.
    """
    catalog = facts.catalog
    if stream.options.source == "system" and facts.settings.statistics:
        raise QueryError(f"epochs report into '{stream.name}': ALTER SYSTEM SET statistics = off first")
    derived = catalog.derived_from(stream.id)
    doomed = [stream, *derived]
    own = {q for s in doomed for q in s.queries}
    reading = {q.id: q for s in doomed for q in catalog.on_stream(s.id)}
    users = [q for q in reading.values() if q.id not in own]
    asked = [query for s in doomed for query in facts.rows_on(s.id)]
    shown = [s for s in derived if not s.is_inner]
    if (derived or users or asked) and not cascade:
        names = _some_names(facts, [*(s.name for s in shown), *(q.definition.name for q in users)], asked)
        first = "DROP STREAM" if shown else "DROP QUERY"
        raise Refusal(
            f"stream '{stream.name}' is read by {names}", expected=f"CASCADE to drop them too, or {first} first"
        )
    gone = [*(q.id for q in users), *(q for q in own if q in catalog.queries)]
    events = (
        *({"do": "drop_query", "id": q} for q in gone),
        *({"do": "drop_stream", "id": s.id} for s in doomed),
    )
    counts = [(len(users) + len(asked), "query", "queries"), (len(shown), "stream", "streams")]
    with_them = " and ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)
    step = DropStreams(tuple(s.id for s in doomed), frozenset(asked), Record(events))
    return Plan(f"stream {stream.name} dropped" + (f", with {with_them}" if with_them else ""), (step,))


def _some_names(facts: Facts, users: Sequence[str], rows: Sequence[int]) -> str:
    shown = sorted(users)
    shown += [facts.row_name(query) for query in rows[: max(0, _SHOWN - len(shown))]]
    more = len(users) + len(rows) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _drop_table(facts: Facts, table: TableDefinition, cascade: bool) -> Plan:
    """The plan that drops a table; with CASCADE also the queries and streams that read it, and what reads these.

    Raises: Refusal where something does, and CASCADE is not said.
    """
    catalog = facts.catalog
    users = catalog.called(q for q in catalog.queries.values() if table.name in q.definition.query.table_names)
    if users and not cascade:
        raise Refusal(
            f"table '{table.name}' is read by {', '.join(users)}",
            expected="CASCADE to drop them too, or DROP QUERY or STREAM first",
        )
    steps: list[Step] = []
    for name in users:
        match facts.catalog.lookup(name):
            case StreamDefinition() as stream:
                plan = drop_stream(facts, stream, cascade)
            case QueryDefinition() as query:
                plan = _drop_query(facts, query, cascade)
            case _:  # it went with one before
                continue
        steps += plan.steps
        facts = plan.over(facts)
    steps += [Record(({"do": "drop_table", "id": table.id},)), DropTable(table)]
    return Plan(f"table {table.name} dropped" + (f", with {', '.join(users)}" if users else ""), tuple(steps))


def pause(facts: Facts, statement: lang.AlterQuery) -> Plan:
    """Plan ALTER QUERY … PAUSE. Raises: Refusal."""
    standing = query_named(facts, statement.name)
    if standing.status == "paused":
        return Plan(f"query {statement.name} is paused already")
    if isinstance(standing, Registered):
        return Plan(f"query {statement.name} paused", (SetRowStatus(standing.id, True),))
    if standing.status == "quarantined":
        raise QueryError(f"query '{statement.name}' is quarantined ({standing.reason}) and answers nothing anyway")
    reason = "backfilling" if standing.status == "backfilling" else ""
    event = {"do": "set_status", "id": standing.id, "status": "paused", "reason": reason}
    return Plan(f"query {statement.name} paused", (Record((event,)),))


def resume(facts: Facts, statement: lang.AlterQuery) -> Plan:
    """Plan ALTER QUERY … RESUME. Raises: Refusal; QueryError for a query that is quarantined."""
    standing = query_named(facts, statement.name)
    if isinstance(standing, Registered):
        if standing.status != "paused":
            return Plan(f"query {statement.name} runs already")
        return Plan(f"query {statement.name} resumed", (SetRowStatus(standing.id, False),))
    if standing.status == "quarantined":
        raise QueryError(
            f"query '{statement.name}' is quarantined ({standing.reason}) and has missed rows;"
            " CREATE OR REPLACE QUERY makes it anew from the archive"
        )
    if standing.status != "paused":
        return Plan(f"query {statement.name} runs already")
    waits = standing.reason == "backfilling" and str(standing.id) not in facts.published.queries
    event = {"do": "set_status", "id": standing.id, "status": "backfilling" if waits else "live"}
    return Plan(f"query {statement.name} resumed", (Record((event,)),))


def drain(statement: lang.Drain) -> Plan:
    """Plan DRAIN."""
    return Plan("drained", (Drain(statement.final),))
