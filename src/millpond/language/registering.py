"""The SELECT of a standing query, with what other queries answer in the places of their names, into a bound query."""

from __future__ import annotations

from millpond.language.plan import standing
from millpond.language.resolve.schema import Schema
from millpond.language.rewrite.answers_read import over_answers
from millpond.language.script import parse
from millpond.language.syntax.statement_types import CreateQuery, Select
from millpond.language.syntax.written_select import WrittenSelect
from millpond.types import Query, Staged


def bind_standing(written: WrittenSelect, schema: Schema) -> Query | Staged:
    """As `plan.standing.bind_standing`, of a SELECT that may name other standing queries."""
    return standing.bind_standing(over_answers(written, schema, select_of), schema)


def select_of(text: str) -> WrittenSelect:
    """The SELECT of a query's text, which may be the whole of CREATE QUERY."""
    statement = parse(text)[0]
    assert isinstance(statement, CreateQuery | Select)
    return statement.select


__all__ = ["bind_standing"]
