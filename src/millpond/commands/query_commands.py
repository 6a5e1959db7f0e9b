"""CREATE QUERY, ALTER QUERY … SET WINDOW, and `Pond.register`: standing queries over windows and relations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millpond import language as lang
from millpond.catalog import Catalog, Registered, Standing, check_name
from millpond.commands.inner_streams import settle
from millpond.commands.naming import Names, check_free, query_named
from millpond.commands.planned import DropRowQuery, Ids, Plan, Record, Step
from millpond.commands.pond_facts import Facts
from millpond.commands.query_checks import check_options
from millpond.commands.query_state import Wanted, plan_standing
from millpond.commands.row_query_commands import create_row_query
from millpond.support.errors import QueryError, Refusal, StatementError
from millpond.types import QueryOptions, Staged, StandingQuery


def create_query(facts: Facts, statement: lang.CreateQuery) -> Plan:
    """Plan CREATE QUERY. Raises: Refusal; StatementError where the SELECT cannot be bound."""
    name = statement.name
    old = facts.catalog.query(name) or facts.row_query(name)
    if old is not None and statement.if_not_exists:
        return Plan(f"query {name} exists")
    if old is None or not statement.replace:
        check_free(facts, name)
    _check_readers(facts, name, old)
    reads = _reads(facts, statement.select)
    bound = lang.bind_standing(statement.select, Names(facts))
    if bound.in_register:
        return create_row_query(facts, statement, bound, old)
    return plan_query(facts, NewQuery(name, bound, _resumed(statement.options, old), statement.text, old, reads))


def reads_of(facts: Facts, text: str) -> tuple[int, ...]:
    """The queries, by id, whose answers a query reads that has this text."""
    [statement] = lang.parse(text)
    assert isinstance(statement, lang.CreateQuery | lang.Select)
    return _reads(facts, statement.select)


def _reads(facts: Facts, select: lang.WrittenSelect) -> tuple[int, ...]:
    """The queries, by id, whose answers a SELECT reads that has not been bound yet."""
    return tuple(q.id for q in lang.queries_read(select, Names(facts)))


def _check_readers(facts: Facts, name: str, old: Standing | Registered | None) -> None:
    """Refuse to replace a query that others read: they would go on with what it was. Raises: Refusal."""
    readers = [] if old is None else facts.catalog.readers_of_answers(old.id)
    if readers:
        names = ", ".join(sorted(q.definition.name for q in readers))
        raise Refusal(f"query '{name}' is read by {names}", words=(name,), expected=f"DROP QUERY {names} first")


def _resumed(options: QueryOptions, old: Standing | Registered | None) -> QueryOptions:
    """The options of a query that replaces another: one that was quarantined has missed rows, which the archive has.

    Without `since` it reports from where the other did, or else from the first row on.
    """
    if not isinstance(old, Standing) or old.status != "quarantined" or options.since is not None:
        return options
    before = old.definition.options.since
    return replace(options, since="start" if before is None else before)


@dataclass(frozen=True)
class NewQuery:
    """A query over windows or relations that is to be registered.

    name: None: it is called by its id. old: replaced. reads: ids of the queries whose answers it reads.
    """

    name: str | None
    query: StandingQuery | Staged
    options: QueryOptions
    text: str
    old: Standing | Registered | None = None
    reads: tuple[int, ...] = ()


def plan_query(facts: Facts, new: NewQuery) -> Plan:
    """What registers a query, with the streams that it makes for itself.

    Raises:
        Refusal: an option is not one of such queries, or the name is taken.
        QueryError: it cannot be a name.
    """
    check_options(facts.catalog, new.query, new.options)
    if new.name is not None and new.old is None:
        check_name(new.name)
    ids = Ids(facts)
    settled = settle(facts, ids, new.query, new.options)
    facts = facts.with_events(*settled.events)
    check_options(facts.catalog, settled.query, settled.options)
    number = ids.take()
    name = f"#{number}" if new.name is None else new.name
    if new.old is None and facts.catalog.lookup(name) is not None:
        raise QueryError(f"the name '{name}' is taken; choose another, or drop the old one first")
    replaces = new.old.id if isinstance(new.old, Registered) else None
    planned = plan_standing(facts, Wanted(number, name, settled.query, settled.options, new.text, new.old, new.reads))
    event = planned.event if new.old is None else planned.event | {"replaces": new.old.id}
    steps: list[Step] = [*settled.steps, *planned.checks]
    steps.append(Record((*settled.events, event), (name,), replaces))
    if replaces is not None:
        steps.append(DropRowQuery(replaces, name))
    after = facts.with_events(event).catalog
    return Plan(_told(after, new, name, after.queries[number]), tuple(steps), ids.used, number)


def _told(after: Catalog, new: NewQuery, name: str, standing: Standing) -> str:
    """What there is to say of a query that has been registered."""
    old = new.old
    verb = "created" if old is None else f"replaced, version {standing.definition.version}"
    if old is not None and not standing.inputs:
        same = isinstance(old, Standing) and old.synopsis == standing.synopsis
        verb += " (state kept)" if same else " (state rebuilt from the archive)"
    if standing.definition.is_relation:
        verb += " as a relation of CQL, since its windows have no SLIDE"
    inner = [after.queries[q] for s in after.inner_of(standing) for q in s.queries]
    waits = any(q.status == "backfilling" for q in (standing, *inner))
    return f"query {name} {verb}" + ("; back-filling from the archive" if waits else "")


def alter_window(facts: Facts, statement: lang.AlterQuery) -> Plan:
    """Plan ALTER QUERY … SET WINDOW: a new version of a query with other windows, filled from what is there.

    Raises:
        Refusal: it cannot have this window. StatementError: its text cannot be bound any more.
    """
    name, standing = statement.name, query_named(facts, statement.name)
    if isinstance(standing, Registered):
        raise Refusal(f"'{name}' is a row query; its window is BEGIN … END …, given anew at any INVOKE")
    definition = standing.definition
    text, select = lang.with_window(name, definition.text, statement.window)
    try:
        bound = lang.bind_standing(select, Names(facts))
    except StatementError as fault:
        raise _outdated(facts, name, definition.text) or fault from None
    if bound.in_register:
        raise Refusal(f"query '{name}' cannot have this window", words=("WINDOW",))
    plan = plan_query(facts, NewQuery(definition.name, bound, definition.options, text, standing, definition.reads))
    before, kept = facts.catalog.synopses.get(standing.synopsis), plan.over(facts).catalog.queries[plan.made]
    if before is None or kept.synopsis != before.owner or not (shared := before.spec.makes_up):
        return plan
    return replace(plan, message=f"{plan.message}: {shared} make up the new windows")


def _outdated(facts: Facts, name: str, text: str) -> StatementError | None:
    """What is wrong with the text that a query was made by, since columns have been added; None: nothing is."""
    made = lang.parse(text)[0]
    assert isinstance(made, lang.CreateQuery | lang.Select)
    try:
        lang.bind_standing(made.select, Names(facts))
    except StatementError as fault:
        message = f"the text of '{name}' does not fit the columns that there are now: {fault.message}"
        expected = "; ".join(e for e in (fault.expected, f"CREATE OR REPLACE QUERY {name} says it anew") if e)
        return StatementError(message, fault.text, fault.start, fault.end, expected)
    return None
