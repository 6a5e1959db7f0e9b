"""FROM items of SELECTs over relations: generated names stand for what is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from sqlglot import exp

from millpond.language.resolve.expressions import (
    column,
)
from millpond.language.resolve.from_items import find, no_window, side_stream, stream_of_side
from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import CheckedCast, suffix_of
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.walks import is_cte, tables_of
from millpond.types import Column, FileTable, QueryDefinition, StreamDefinition, TableDefinition

Kind = Literal["query", "revisions", "final", "late", "dead", "table", "file", "stream"]

#: Binds a FROM item that names a stream: (the item, the stream, the generated name) -> its relation.
StreamItem = Callable[[exp.Table, StreamDefinition, str], "RelationRef"]

#: Columns of `dead(s)`.
DEAD_COLUMNS = (
    Column("reason", "VARCHAR"),
    Column("source", "VARCHAR"),
    Column("position", "BIGINT"),
    Column("record", "VARCHAR"),
    Column("epoch", "BIGINT"),
)


@dataclass(frozen=True)
class RelationRef:
    """A relation that `TableQuery.sql` reads: register it under `alias` (r0, r1, …) before running the SQL.

    kind: 'query' (latest revisions), 'revisions' (all of them), 'final' (those that can no longer change), 'late',
        'dead', 'table', 'file'; 'stream' only where the caller of `bound_tree` says what a stream is. name: of the
        query, table or stream, as declared. columns: what the SQL expects, with DuckDB types, in this order. file: what
        is read, of files.
    """

    alias: str
    kind: Kind
    name: str
    columns: tuple[Column, ...]
    file: FileTable | None = None


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
    relations: dict[tuple[str, str], RelationRef] = {("", ref.alias): ref for ref in known}
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
    relations: dict[tuple[str, str], RelationRef],
    prefix: str,
    stream_item: StreamItem | None,
) -> None:
    """Put a generated name in the place of a FROM item; its own name stays as the alias."""
    if stream_item is not None and side_stream(table, source) is None:
        stream = find(schema, table, source)
        if isinstance(stream, StreamDefinition):
            ref = stream_item(table, stream, f"{prefix}{len(relations)}")
            relations["stream", ref.alias] = ref
            _put(table, ref, stream.name)
            return
    no_window(table, source, schema)
    revisions, final = suffix_of(table).revisions, suffix_of(table).final
    side = side_stream(table, source)
    kind: Kind
    file: FileTable | None = None
    if side is not None:
        kind = side[0]
        stream = stream_of_side(schema, side[1], source)
        name, columns = stream.name, DEAD_COLUMNS if kind == "dead" else stream.late_columns
        visible: str = kind
    else:
        found = find(schema, table, source)
        assert not isinstance(found, StreamDefinition)
        name = visible = found.name
        columns = _columns_of(found, bool(revisions or final))
        kind = "table"
        if isinstance(found, FileTable):
            kind, file, visible = "file", found, PurePath(found.name).name.split(".")[0]
        if isinstance(found, QueryDefinition):
            kind = "revisions" if revisions else "final" if final else "query"
        if kind == "revisions":
            columns = (*columns, Column("op", "VARCHAR"))
    if revisions and kind != "revisions":
        raise source.error("ALL REVISIONS is for the answers of a query", revisions, "FROM query ALL REVISIONS")
    if final and kind != "final":
        what = "FINAL and ALL REVISIONS exclude each other" if revisions else "FINAL is for the answers of a query"
        raise source.error(what, final, "FROM query FINAL")
    key = (kind, name if kind == "file" else name.lower())
    ref = relations.setdefault(key, RelationRef(f"{prefix}{len(relations)}", kind, name, columns, file))
    _put(table, ref, visible)
    if any("ENUM(" in c.type for c in ref.columns):
        table.replace(exp.Subquery(this=_with_enums(ref), alias=table.args["alias"]))


def _columns_of(found: QueryDefinition | TableDefinition, revisions: bool) -> tuple[Column, ...]:
    """What FROM sees of a query or a table: of a relation of CQL its rows as they are now, not its changes."""
    if isinstance(found, QueryDefinition) and found.is_relation and not revisions:
        return tuple(Column(o.name, o.type) for o in found.query.select)
    return found.columns


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
