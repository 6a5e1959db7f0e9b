"""CREATE QUERY of a row query, and what the register takes in of one."""

from __future__ import annotations

from millpond import language as lang
from millpond.catalog import Catalog, NewSelection, Registered, Standing
from millpond.commands.planned import AddRowQuery, Plan, Record, Step
from millpond.commands.pond_facts import Facts
from millpond.commands.query_state import version_of
from millpond.support.errors import QueryError, Refusal
from millpond.types import QueryOptions, RowQuery
from millpond.types.options import options_of


def create_row_query(
    facts: Facts, statement: lang.CreateQuery, selection: RowQuery, old: Standing | Registered | None
) -> Plan:
    """Plan CREATE QUERY of a row query. old: what it replaces. Raises: Refusal for an option that it cannot have."""
    new = new_row_query(
        facts.catalog, facts.published.epoch, selection, statement.text, statement.name,
        old.owner if isinstance(old, Registered) else "", statement.options, old,
    )  # fmt: skip
    steps: list[Step] = [AddRowQuery(new)]
    if isinstance(old, Standing):
        steps.append(Record(({"do": "drop_query", "id": old.id},)))
    return Plan(
        f"query {statement.name} " + ("created" if old is None else f"replaced, version {new.version}"), tuple(steps)
    )


def new_row_query(
    catalog: Catalog,
    epoch: int,
    selection: RowQuery,
    text: str,
    name: str | None,
    owner: str,
    options: QueryOptions,
    old: Standing | Registered | None = None,
) -> NewSelection:
    """What the register is to take in.

    Args:
        epoch: the last one that is published. name: None: it is called by its id. owner: whom it counts for.
        old: what it replaces.

    Raises:
        Refusal: an option is not one of row queries. QueryError: a stream is gone.
    """
    check_row_options(options)
    streams = []
    for side in selection.sides:
        stream = catalog.stream(side.stream)
        if stream is None:
            raise QueryError(f"the stream '{side.stream}' was dropped meanwhile")
        streams.append(stream.id)
    version = 1 if old is None else version_of(old) + 1
    previous = () if old is None else (*old.previous, old.id)
    replaces = None if old is None else old.id
    kept = lang.without_failures(selection)
    return NewSelection(kept, tuple(streams), text, name, owner, options, epoch, replaces, version, previous)


def check_row_options(options: QueryOptions) -> None:
    """Raise Refusal for options that are not those of row queries."""
    for name, option in options_of(QueryOptions).items():
        if "rows" in option.of or getattr(options, name) == option.default:
            continue
        if "windows" not in option.of:
            raise Refusal(f"'{name}' is for {' and '.join(option.of)}, and this is a row query", name)
        if name.startswith("adapt"):
            others = "those over windows, and CQL"
            raise Refusal(f"'{name}' is for queries whose filters are evaluated in an order: {others}", name)
        raise Refusal(f"'{name}' is for window queries; a row query says BEGIN … END", name)
