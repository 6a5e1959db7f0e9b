"""FROM items of SELECTs over relations: generated names stand for what is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from sqlglot import exp

from millpond.language.resolve.expressions import (
    column,
)
from millpond.language.resolve.from_items import find, no_window, side_stream, stream_of_side
from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import CheckedCast, suffix_of
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.walks import is_cte, tables_of
from millpond.types import Column, ConstantInput, FileTable, QueryDefinition, StreamDefinition
from millpond.types.relation_queries import (
    AnswersInput,
    DeadInput,
    FinalInput,
    LateInput,
    NamedInput,
    RevisionsInput,
    TableInput,
)

#: Binds a FROM item that names a stream: (the item, the stream, the generated name) -> its relation.
StreamItem = Callable[[exp.Table, StreamDefinition, str], "StreamInput"]

#: Columns of `dead(s)`.
DEAD_COLUMNS = (
    Column("reason", "VARCHAR"),
    Column("source", "VARCHAR"),
    Column("position", "BIGINT"),
    Column("record", "VARCHAR"),
    Column("epoch", "BIGINT"),
)


@dataclass(frozen=True)
class FileInput(NamedInput):
    """The rows of a file."""

    file: FileTable


@dataclass(frozen=True)
class StreamInput(NamedInput):
    """A stream, or what is asked of one, where the caller of `bound_tree` says what a stream is."""


#: A relation that `TableQuery.sql` reads: register it under `alias` (r0, r1, …) before running the SQL.
RelationRef = ConstantInput | FileInput | StreamInput


#: Relations by what they are and their name.
_Relations = dict[tuple[type[NamedInput], str], RelationRef]


def streams_in(select: exp.Expr, schema: Schema, source: Source) -> list[exp.Table]:
    """The FROM items that name streams; StatementError for names that do not exist."""
    found = []
    for table in tables_of(select):
        if side_stream(table, source) is None and isinstance(find(schema, table, source), StreamDefinition):
            found.append(table)
    return found


def with_relations(
    tree: exp.Expr,
    prefix: str,
    source: Source,
    schema: Schema,
    stream_item: StreamItem | None,
    known: Sequence[RelationRef] = (),
) -> tuple[exp.Expr, tuple[RelationRef, ...]]:
    """The tree with generated names in the places of its FROM items, and what they stand for; their names are aliases.

    Arguments:
        prefix: as of `free_prefix`. stream_item: binds FROM items that are streams, each by itself; None: there are
            none. known: relations whose generated names stand in the tree already.
    """
    tree = tree.copy()
    relations: _Relations = {(StreamInput, ref.alias): ref for ref in known}
    for table in list(tables_of(tree)):
        if table.name in {ref.alias for ref in known}:
            continue
        _bind_table(table, source, schema, relations, prefix, stream_item)
    for table in tree.find_all(exp.Table):
        if is_cte(table):
            no_window(table, source, schema)
    return tree, tuple(relations.values())


def free_prefix(select: exp.Expr) -> str:
    """A start for generated names that no name of the query has."""
    names = {node.name.lower() for node in select.find_all(exp.Identifier)}
    prefix = "r"
    while any(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in names):
        prefix = "_" + prefix
    return prefix


def _bind_table(
    table: exp.Table,
    source: Source,
    schema: Schema,
    relations: _Relations,
    prefix: str,
    stream_item: StreamItem | None,
) -> None:
    """Put a generated name in the place of a FROM item; its own name stays as the alias."""
    if stream_item is not None and side_stream(table, source) is None:
        stream = find(schema, table, source)
        if isinstance(stream, StreamDefinition):
            item = stream_item(table, stream, f"{prefix}{len(relations)}")
            relations[StreamInput, item.alias] = item
            _put(table, item, stream.name)
            return
    no_window(table, source, schema)
    found, visible = _named(table, source, schema, f"{prefix}{len(relations)}")
    suffix = suffix_of(table)
    if suffix.revisions and not isinstance(found, RevisionsInput):
        raise source.error("ALL REVISIONS is for the answers of a query", suffix.revisions, "FROM query ALL REVISIONS")
    if suffix.final and not isinstance(found, FinalInput):
        answers = "FINAL and ALL REVISIONS exclude each other"
        what = answers if suffix.revisions else "FINAL is for the answers of a query"
        raise source.error(what, suffix.final, "FROM query FINAL")
    ref = relations.setdefault((type(found), found.name if isinstance(found, FileInput) else found.name.lower()), found)
    _put(table, ref, visible)
    if any("ENUM(" in c.type for c in ref.columns):
        table.replace(exp.Subquery(this=_with_enums(ref), alias=table.args["alias"]))


def _named(table: exp.Table, source: Source, schema: Schema, alias: str) -> tuple[RelationRef, str]:
    """What a FROM item reads that is no stream, and the name that it is seen under."""
    side = side_stream(table, source)
    if side is not None:
        word, name = side
        stream = stream_of_side(schema, name, source)
        late = LateInput(alias, stream.name, stream.late_columns)
        return (late if word == "late" else DeadInput(alias, stream.name, DEAD_COLUMNS)), word
    found = find(schema, table, source)
    assert not isinstance(found, StreamDefinition)
    if isinstance(found, FileTable):
        return FileInput(alias, found.name, found.columns, found), PurePath(found.name).name.split(".")[0]
    if isinstance(found, QueryDefinition):
        return _answers(found, table, alias), found.name
    return TableInput(alias, found.name, found.columns), found.name


def _answers(found: QueryDefinition, table: exp.Table, alias: str) -> RelationRef:
    """What is read of a query: of a relation of CQL its rows as they are now, not its changes."""
    suffix = suffix_of(table)
    if suffix.revisions:
        return RevisionsInput(alias, found.name, (*found.columns, Column("op", "VARCHAR")))
    if suffix.final:
        return FinalInput(alias, found.name, found.columns)
    rows = tuple(Column(o.name, o.type) for o in found.query.select)
    return AnswersInput(alias, found.name, rows if found.is_relation else found.columns)


def _put(table: exp.Table, ref: RelationRef, visible: str) -> None:
    """Let a FROM item name a generated relation, seen under its own name."""
    table.set("this", exp.Identifier(this=ref.alias, quoted=True))
    alias = table.args.get("alias")
    if alias is None:
        table.set("alias", exp.TableAlias(this=exp.Identifier(this=visible, quoted=True)))
    elif alias.this is None:
        alias.set("this", exp.Identifier(this=visible, quoted=True))


def _with_enums(ref: RelationRef) -> exp.Select:
    """The relation with its ENUMs, which arrive as texts and would be compared as such."""
    casts = [
        exp.Alias(this=CheckedCast(this=column(c.name), kind=c.type), alias=exp.Identifier(this=c.name, quoted=True))
        for c in ref.columns
        if "ENUM(" in c.type
    ]
    item = exp.From(this=exp.Table(this=exp.Identifier(this=ref.alias, quoted=True)))
    return exp.Select(expressions=[exp.Star(replace=casts)], from_=item)
