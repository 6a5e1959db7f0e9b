"""Many queries registered at once, of whatever types: all or none of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from millpond.commands.execution.performing import CarryOut
from millpond.commands.execution.row_query_adding import RowQueries
from millpond.commands.planned import Plan
from millpond.commands.pond_facts import Facts
from millpond.commands.query_commands import NewQuery, plan_query, reads_of
from millpond.language import pointing_into
from millpond.support.errors import QueryError
from millpond.types import QueryOptions


@dataclass(frozen=True)
class Terms:
    """What is said of all of them. owner: whom they count for. limit: how many the owner may have; None: any number."""

    owner: str
    options: QueryOptions
    limit: int | None


def register_all(
    carry_out: CarryOut,
    rows: RowQueries,
    wanted: Sequence[tuple[str, str | None]],
    terms: Terms,
    drop: Callable[[int], None],
) -> list[int]:
    """Register queries, durably: the row queries with one write. Their ids.

    Arguments:
        carry_out: plans, and carries out. rows: adds row queries.
        wanted: the text of each, and its name; None: it is called '#<id>'. drop: drops one of them again, by its id.
    Raises: StatementError with the place in a text; QueryError when a name is taken or the limit is reached. None of
        them is registered then.
    """
    bound = [(rows.bind(text), text, name) for text, name in wanted]
    new = [rows.new(query, text, name, terms.owner, terms.options) for query, text, name in bound if query.in_register]
    standing: list[int] = []
    try:
        for query, text, name in bound:
            if not query.in_register:
                made = NewQuery(name, query, terms.options, text)
                with pointing_into(text):
                    standing.append(carry_out(partial(_planned, made)).made)
        numbers = rows.add(new, terms.limit) if new else []
    except BaseException:
        for number in standing:
            with contextlib.suppress(QueryError):
                drop(number)
        raise
    left, right = iter(standing), iter(numbers)
    return [next(right if query.in_register else left) for query, _, _ in bound]


def _planned(new: NewQuery, facts: Facts) -> Plan:
    return plan_query(facts, replace(new, reads=reads_of(facts, new.text)))
