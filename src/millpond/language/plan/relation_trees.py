"""SELECTs over answers of queries, tables and side streams: checked, and rendered for DuckDB over given relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from millpond.functions import display
from millpond.language.check.complaints import culprit
from millpond.language.check.joins_written import check_conditions, check_joins
from millpond.language.functions.allowed import RELATION_AGGREGATES, SCALARS, WINDOW_FUNCTIONS
from millpond.language.inference.column_types import NAMES, TypeRefused, type_sql
from millpond.language.inference.duck import Refused, describe, typed_relation
from millpond.language.inference.enum_texts import ORDERED, as_enum, enum_beside, is_text, values_of
from millpond.language.inference.zoned import cast_in_utc, in_utc, utc_text
from millpond.language.plan.answer_bounds import Ends, ends_asked
from millpond.language.render.rendering import render
from millpond.language.resolve.expressions import (
    SCALAR_NODES,
    check_arguments,
    check_word,
    checked_interval,
    column,
    function_name,
    refuse,
    unknown_function,
)
from millpond.language.resolve.from_items import find, no_window, side_stream, stream_of_side
from millpond.language.resolve.registered_calls import check_call
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.select_list import written_text
from millpond.language.rewrite.validity import hold_in_time
from millpond.language.syntax.nodes import CheckedCast, FromItem, RegisteredCall, suffix_of, texts_of
from millpond.language.syntax.source_text import Source, nearest, own_span
from millpond.language.syntax.walks import is_cte, tables_of
from millpond.support.errors import StatementError
from millpond.support.sql import quote
from millpond.types import Column, QueryDefinition, StreamDefinition, TableDefinition

Kind = Literal["query", "revisions", "final", "late", "dead", "table", "stream"]

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

_MODIFIERS = frozenset({"with_", "order", "limit", "offset"})
_SET = frozenset({"this", "expression", "distinct", "by_name"}) | _MODIFIERS
_NODES: Mapping[type[exp.Expr], frozenset[str]] = {
    **SCALAR_NODES,
    exp.Select: _MODIFIERS
    | {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        "distinct",
        "windows",
        "texts",
        "to_stream",
    },
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), _SET),
    exp.From: frozenset({"this"}),
    exp.Join: frozenset({"this", "on", "using", "side", "kind", "method"}),
    exp.Table: frozenset({"this", "alias"}),
    FromItem: frozenset({"this", "alias", "suffix"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.Values: frozenset({"expressions", "alias"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
    exp.Where: frozenset({"this"}),
    exp.Having: frozenset({"this"}),
    exp.Qualify: frozenset({"this"}),
    exp.Group: frozenset({"expressions", "all", "cube", "rollup", "grouping_sets"}),
    exp.Cube: frozenset({"expressions"}),
    exp.Rollup: frozenset({"expressions"}),
    exp.GroupingSets: frozenset({"expressions"}),
    exp.Order: frozenset({"this", "expressions"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    exp.Limit: frozenset({"expression"}),
    exp.Offset: frozenset({"expression"}),
    exp.Distinct: frozenset({"expressions", "on"}),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Star: frozenset({"except_", "replace", "rename"}),
    exp.Anonymous: frozenset({"this", "expressions"}),
    RegisteredCall: frozenset({"this", "expressions", "definition"}),
    exp.Filter: frozenset({"this", "expression"}),
    exp.WithinGroup: frozenset({"this", "expression"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side", "exclude"}),
    exp.IgnoreNulls: frozenset({"this"}),
    exp.RespectNulls: frozenset({"this"}),
    exp.In: frozenset({"this", "expressions", "query"}),
    exp.Exists: frozenset({"this"}),
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
}
_FUNCTIONS = SCALARS | RELATION_AGGREGATES | WINDOW_FUNCTIONS


@dataclass(frozen=True)
class RelationRef:
    """A relation that `TableQuery.sql` reads: register it under `alias` (r0, r1, …) before running the SQL.

    kind: 'query' (latest revisions), 'revisions' (all of them), 'final' (those that can no longer change), 'late',
        'dead', 'table'; 'stream' only where the caller of `bound_tree` says what a stream is. name: of the query, table
        or stream, as declared. columns: what the SQL expects, with DuckDB types, in this order.
    """

    alias: str
    kind: Kind
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class TableQuery:
    """A SELECT without streams: DuckDB SQL over `relations`; `columns` are those of its answer.

    ends: which windows of queries' answers it can show, by the alias of the relation (see `answer_bounds`).
    """

    sql: str
    relations: tuple[RelationRef, ...]
    columns: tuple[Column, ...]
    text: str = ""
    ends: Mapping[str, Ends] = field(default_factory=dict)


def streams_in(select: exp.Expr, schema: Schema, source: Source) -> list[exp.Table]:
    """The FROM items that name streams; StatementError for names that do not exist."""
    found = []
    for table in tables_of(select):
        if side_stream(table, source) is None and isinstance(find(schema, table, source), StreamDefinition):
            found.append(table)
    return found


def bind_relation(select: exp.Expr, text: str, source: Source, schema: Schema) -> TableQuery:
    """Check a SELECT without streams and render it over generated relation names.

    Raises:
        StatementError: a name that does not exist, a function or syntax that is not available, a wrong type.
    """
    tree, refs = bound_tree(select, source, schema)
    sql = render(tree)
    ends = {ref.alias: ends_asked(tree, ref.alias) for ref in refs if ref.kind in ("query", "revisions")}
    return TableQuery(sql, refs, describe_over(tree, render, refs, select, source), text, ends)


def bound_tree(
    select: exp.Expr, source: Source, schema: Schema, stream_item: StreamItem | None = None
) -> tuple[exp.Expr, tuple[RelationRef, ...]]:
    """A checked copy of a SELECT in which generated names stand for the FROM items, and what they stand for.

    Arguments:
        stream_item: binds FROM items that are streams, each by itself; None: there are none.
    """
    _check(select, source)
    check_joins(select, source, stream_item is None)
    tree = select.copy()
    _name_items(tree)
    prefix = free_prefix(select)
    relations: dict[tuple[str, str], RelationRef] = {}
    if stream_item is not None:
        hold_in_time(tree, list(tables_of(tree)), source, schema)
    check_conditions(tree, source)
    for table in list(tables_of(tree)):
        _bind_table(table, source, schema, relations, prefix, stream_item)
    for table in tree.find_all(exp.Table):
        if is_cte(table):
            no_window(table, source, schema)
    for cast in list(tree.find_all(exp.Cast)):
        kind = _cast_type(cast, source)
        cast.replace(CheckedCast(this=cast_in_utc(cast.this, kind), kind=kind, safe=isinstance(cast, exp.TryCast)))
    for interval in list(tree.find_all(exp.Interval)):
        if not isinstance(interval.parent, exp.DataType):
            interval.replace(checked_interval(interval, source, lambda node: node))
    for call in tree.find_all(RegisteredCall):
        if function_name(call) not in _FUNCTIONS:
            call.set("this", call.definition.reference)
    refs = tuple(relations.values())
    _compare_enums(tree, refs)
    _compare_in_utc(tree, refs)
    return tree, refs


def _compare_enums(tree: exp.Expr, refs: tuple[RelationRef, ...]) -> None:
    """Give texts beside ENUM columns their type; names that stand for several ENUMs are left alone."""
    kinds: dict[str, set[str]] = {}
    for each in (c for ref in refs for c in ref.columns if "ENUM(" in c.type):
        kinds.setdefault(each.name.lower(), set()).add(each.type)
    if not kinds:
        return
    known = {name: next(iter(found)) for name, found in kinds.items() if len(found) == 1}
    for node in list(tree.find_all(*ORDERED)):
        enum = enum_beside(node, lambda node: known.get(node.name.lower()))
        for value in list(node.args.values()):
            # should the name mean something else here, a text and an ENUM are compared as texts all the same
            if enum is not None and is_text(value) and value.name in values_of(enum):
                value.replace(as_enum(value, enum))


def _compare_in_utc(tree: exp.Expr, refs: tuple[RelationRef, ...]) -> None:
    """Give texts with an offset beside TIMESTAMPs their instant; names that stand for several types are left alone."""
    kinds: dict[str, set[str]] = {}
    for each in (c for ref in refs for c in ref.columns):
        kinds.setdefault(each.name.lower(), set()).add(each.type)
    columns = [Column(name, next(iter(found))) for name, found in kinds.items() if len(found) == 1]

    def kind(node: exp.Expr) -> str:
        plain = node.copy()
        for name in plain.find_all(exp.Column):
            name.set("table", None)
        try:
            return typed_relation(columns).types([render(plain)])[0]
        except Refused:
            return ""

    for literal in [each for each in tree.find_all(exp.Literal) if is_text(each) and utc_text(each.name) is not None]:
        node = literal.parent
        while isinstance(node, exp.Paren | exp.If):
            node = node.parent
        if node is not None and (found := in_utc(node, kind)) is not node:
            node.replace(found)


def free_prefix(select: exp.Expr) -> str:
    """A start for generated names that no name of the query has."""
    names = {node.name.lower() for node in select.find_all(exp.Identifier)}
    prefix = "r"
    while any(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in names):
        prefix = "_" + prefix
    return prefix


def _name_items(tree: exp.Expr) -> None:
    """Give items of SELECT without a name their text as the name, as in queries over streams."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return
    for node, text in zip(tree.expressions, texts_of(tree), strict=True):
        if not isinstance(node, exp.Alias | exp.Column | exp.Star | exp.Dot):
            alias = exp.Identifier(this=written_text(node, text), quoted=True)
            node.replace(exp.Alias(this=node.copy(), alias=alias))


def _check(select: exp.Expr, source: Source) -> None:
    for node in select.walk():
        if isinstance(node, exp.DataType | exp.DataTypeParam | exp.ColumnDef) or node.find_ancestor(exp.DataType):
            continue  # `type_sql` checks types
        if isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Identifier | exp.Literal):
            continue
        if type(node) not in _NODES:
            raise refuse(node, source)
        check_arguments(node, _NODES[type(node)], source)
        check_word(node, source)
        if isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Table):
            name = function_name(node)
            if isinstance(node, RegisteredCall) and name not in _FUNCTIONS:
                check_call(node, source)
                continue
            if isinstance(node.this, exp.Identifier) or name not in _FUNCTIONS:
                raise unknown_function(node, source, _FUNCTIONS)
            if name == "age" and len(node.expressions) < 2:
                raise source.error("age with one argument depends on when it runs", own_span(node), "age(a, b)")
            if name in WINDOW_FUNCTIONS and node.find_ancestor(exp.Window) is None:
                raise source.error(f"function {name} needs OVER", own_span(node), f"{name}(…) OVER (ORDER BY …)")
        if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
            raise source.error("a field is a name", node.expression)


def _cast_type(cast: exp.Cast, source: Source) -> str:
    try:
        return type_sql(cast.args["to"])
    except TypeRefused as refused:
        like = nearest(refused.name, NAMES) if refused.name else ""
        raise source.error(str(refused), cast.args["to"], like=like) from None


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
    if side is not None:
        kind = side[0]
        stream = stream_of_side(schema, side[1], source)
        name, columns = stream.name, DEAD_COLUMNS if kind == "dead" else stream.all_columns
        visible: str = kind
    else:
        found = find(schema, table, source)
        assert not isinstance(found, StreamDefinition)
        name = visible = found.name
        columns = _columns_of(found, bool(revisions or final))
        kind = "table"
        if isinstance(found, QueryDefinition):
            kind = "revisions" if revisions else "final" if final else "query"
        if kind == "revisions":
            columns = (*columns, Column("op", "VARCHAR"))
    if revisions and kind != "revisions":
        raise source.error("ALL REVISIONS is for the answers of a query", revisions, "FROM query ALL REVISIONS")
    if final and kind != "final":
        what = "FINAL and ALL REVISIONS exclude each other" if revisions else "FINAL is for the answers of a query"
        raise source.error(what, final, "FROM query FINAL")
    key = (kind, name.lower())
    ref = relations.setdefault(key, RelationRef(f"{prefix}{len(relations)}", kind, name, columns))
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


#: What DuckDB says of an ASOF join that compares nothing by order.
_NO_ORDER = "missing ASOF JOIN inequality"


def describe_over(
    tree: exp.Expr,
    rendered: Callable[[exp.Expr], str],
    refs: tuple[RelationRef, ...],
    select: exp.Expr,
    source: Source,
) -> tuple[Column, ...]:
    """The answer's columns by DuckDB; its complaints are pointed at what they are about.

    Arguments:
        tree: a bound SELECT. rendered: its SQL, and that of trees like it, which it may change.
        refs: what it is over. select: as it was written.
    """
    ctes = ", ".join(
        f"{quote(r.alias)} AS (SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {quote(c.name)}' for c in r.columns)})"
        for r in refs
    )

    def question(tree: exp.Expr) -> str:
        sql = rendered(tree)
        return f"SELECT * FROM (WITH {ctes} SELECT * FROM ({sql}) AS q) AS q" if ctes else sql

    try:
        return describe(question(tree.copy()))
    except Refused as refused:
        raise _complaint(refused, tree, refs, question, select, source) from None


def _complaint(
    refused: Refused,
    tree: exp.Expr,
    refs: tuple[RelationRef, ...],
    question: Callable[[exp.Expr], str],
    select: exp.Expr,
    source: Source,
) -> StatementError:
    """What DuckDB said, at the name or the call that it quotes, or the part without which it is content."""
    reason, expected, like = refused.reason, "", ""
    if refused.names:
        known = [c.split(".")[-1] for c in refused.candidates] or [c.name for r in refs for c in r.columns]
        like = nearest(refused.names[0 if refused.candidates else -1], known)
    if _NO_ORDER in reason:
        join = next(j for j in select.find_all(exp.Join) if j.method == "ASOF")
        return source.error(
            "ASOF JOIN finds the latest row at or before another: ON says which times are compared", join.this,
            "ASOF JOIN t ON t.k = s.k AND s.ts >= t.ts",
        )  # fmt: skip
    if "multiple ASOF JOIN inequalities" in reason:
        reason = "ASOF JOIN finds the latest row by one comparison: " + reason
        expected = "ON equalities, and one of >=, >, <=, <; what else is asked goes into WHERE"
    return source.error(reason, _quoted(refused, select) or culprit(tree, question), expected, like)


def _quoted(refused: Refused, select: exp.Expr) -> tuple[int, int] | None:
    """The place of the first name or call that DuckDB's message quotes."""
    wanted = [name.lower() for name in refused.names]
    for written in select.find_all(exp.Column) if len(wanted) > 1 else ():
        if [written.table.lower(), written.name.lower()] == wanted[:2]:
            return own_span(written.this)
    for node in select.walk(bfs=False):
        if isinstance(node, exp.Identifier) and wanted and node.name.lower() == wanted[0]:
            return own_span(node)
    for node in select.walk(bfs=False):
        if isinstance(node, exp.Anonymous) and f"{display(function_name(node))} does not take" in refused.reason:
            return own_span(node)
    return None
