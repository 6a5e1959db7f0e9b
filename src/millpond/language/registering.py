"""SELECTs with what standing queries answer in the places of their names, into bound queries."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millpond.language.plan import standing
from millpond.language.plan.table_queries import TableQuery
from millpond.language.resolve.schema import Schema
from millpond.language.rewrite.answers_read import answers_asked, over_answers
from millpond.language.rewrite.unnamed_streams import WithInner, stream_of
from millpond.language.script import parse
from millpond.language.syntax.statement_types import CreateQuery, Select
from millpond.language.syntax.walks import tables_of
from millpond.language.syntax.written_select import WrittenSelect
from millpond.types import Query, ScanQuery, Staged, TableDefinition


def bind_standing(written: WrittenSelect, schema: Schema) -> Query | Staged:
    """As `plan.standing.bind_standing`, of a SELECT that may name other standing queries."""
    _check_streams(written, schema)
    return standing.bind_standing(over_answers(written, schema, select_of), schema)


def bind_select(written: WrittenSelect, schema: Schema) -> Query | ScanQuery | TableQuery | Staged:
    """As `plan.standing.bind_select`, of a SELECT that may have windows behind the names of standing queries."""
    written, held = answers_asked(written, schema)
    if not held:
        return standing.bind_select(written, schema)
    bound = standing.bind_select(written, WithInner(schema, {each.name: stream_of(each) for each in held}))
    match bound:
        case TableQuery():
            return replace(bound, inner=held)
        case Staged():
            return replace(bound, inner=(*held, *bound.inner))
        case _:
            assert not bound.in_register and not bound.as_retained  # there is a window
            return Staged(bound, held)


def _check_streams(written: WrittenSelect, schema: Schema) -> None:
    """Refuse a SELECT that names tables alone, or nothing: nothing comes that it could answer."""
    tables = list(tables_of(written.tree))
    named = [schema.lookup(t.name) if isinstance(t.this, exp.Identifier) else None for t in tables]
    if all(isinstance(each, TableDefinition) for each in named):
        what = f"'{tables[0].name}' is a table, which has no time" if tables else "this SELECT names none"
        works = "the SELECT alone, which is asked once; or a stream beside it, FROM s [RANGE 1 HOUR] JOIN … ON …"
        place = tables[0] if tables else None
        raise written.source.error(f"a query needs a stream, and {what}", place, works)


def select_of(text: str) -> WrittenSelect:
    """The SELECT of a query's text, which may be the whole of CREATE QUERY."""
    statement = parse(text)[0]
    assert isinstance(statement, CreateQuery | Select)
    return statement.select


__all__ = ["bind_select", "bind_standing"]
