"""A stream whose window slides, joined with tables: each of its rows meets their rows before it enters the window.

    FROM sold [RANGE TUMBLING 1 HOUR] s LEFT JOIN item i ON i.item = s.item

Since a table has no time, what a row meets does not depend on the window: windows, groups and aggregates are over
joined rows as they are over rows. The join is bound as that of a relation of CQL (`continuous`), over the rows of the
stream and a number for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from sqlglot import exp

from millpond.language.check.joins_written import check_joins
from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.plan.continuous import bind_join
from millpond.language.resolve.expressions import check_arguments
from millpond.language.resolve.from_items import find, side_stream
from millpond.language.resolve.schema import Schema
from millpond.language.resolve.scope import RowScope
from millpond.language.resolve.select_list import SelectItem
from millpond.language.syntax.nodes import window_of, with_suffix
from millpond.language.syntax.source_text import Source, nearest, placed, token_span
from millpond.types import Column, Lookup, QueryDefinition, StreamDefinition, TableDefinition, TableRef

_WORKS = "FROM stream [RANGE TUMBLING 1 HOUR] s LEFT JOIN table t ON t.k = s.k"
_STREAMS = (
    "streams in parentheses and this window behind them: FROM (a [RANGE 30 MINUTES] JOIN b [NOW] ON …) [RANGE 1 HOUR "
    "SLIDE 10 MINUTES]; the windows inside say how long rows may be joined"
)


@dataclass(frozen=True)
class JoinedTable:
    """A table of FROM: its name there, what it is, and its join. shown: whether its columns can be named."""

    alias: str
    table: TableDefinition
    join: exp.Join
    shown: bool


@dataclass(frozen=True)
class JoinedTables:
    """FROM as a stream and the tables that it is joined with, in this order."""

    stream: exp.Table
    tables: tuple[JoinedTable, ...]


def joined_tables(select: exp.Select, schema: Schema, source: Source) -> JoinedTables | None:
    """The stream and the tables of a FROM that has joins; None for one that has none.

    Raises: StatementError where something else is joined, or where rows of a table would stand alone.
    """
    clause, joins = select.args.get("from_"), list(select.args.get("joins") or [])
    if clause is None or not joins:
        return None
    check_joins(select, source)
    items = [clause.this, *(j.this for j in joins)]
    streams = [n for n, item in enumerate(items) if _found(item, schema, source) is not None]
    if len(streams) > 1:
        raise source.error(
            "a window with SLIDE stands over one stream, and the tables that it is joined with", items[streams[1]],
            _STREAMS,
        )  # fmt: skip
    if not streams:
        raise source.error("a query needs a stream", items[0], _WORKS)
    if streams[0] > 0:
        items, joins = _turned(items, joins, streams[0], source)
    tables = []
    for item, join in zip(items[1:], joins, strict=True):
        if join.side not in ("", "LEFT") or join.args.get("kind") not in (
            None,
            "",
            "INNER",
            "OUTER",
            "CROSS",
            "SEMI",
            "ANTI",
        ):
            raise source.error(
                f"{join.side} {join.kind} JOIN".replace("  ", " ") + " has rows of the table alone, which have no event"
                " time and are in no window",
                item, f"LEFT JOIN {item.name} here; all rows of the table beside the answers of a query q:"
                f" SELECT … FROM {item.name} LEFT JOIN q ON …",
            )  # fmt: skip
        found = find(schema, item, source)
        if not isinstance(found, TableDefinition):
            assert isinstance(found, QueryDefinition)
            raise source.error(
                f"'{found.name}' is a query, and a window joins its stream with tables", item.this, _WORKS
            )
        if (window := window_of(item)) is not None:
            raise source.error(
                f"'{found.name}' is a table, which has no time: windows stand behind streams", window.place, _WORKS
            )
        tables.append(JoinedTable(item.alias or found.name, found, join, join.kind not in ("SEMI", "ANTI")))
    names = [(items[0].alias_or_name.lower(), items[0]), *((t.alias.lower(), t.join.this) for t in tables)]
    for number, (name, item) in enumerate(names):
        if name in dict(names[:number]):
            raise source.error(
                f"two of FROM are called '{name}'", item, f"another name for one of them: JOIN {item.name} AS other"
            )
    return JoinedTables(items[0], tuple(tables))


def _found(item: exp.Expr, schema: Schema, source: Source) -> StreamDefinition | None:
    """The stream that a FROM item names; None for a table."""
    if not isinstance(item, exp.Table) or side_stream(item, source) is not None:
        raise source.error("a window that slides joins its stream with tables by their names", item, _WORKS)
    found = find(schema, item, source)
    return found if isinstance(found, StreamDefinition) else None


def _turned(items: list[Any], joins: list[exp.Join], place: int, source: Source) -> tuple[list[Any], list[exp.Join]]:
    """FROM items and joins with the stream first, where that says the same."""
    mine = joins[place - 1]
    if len(items) == 2 and mine.side == "RIGHT" and not mine.method:
        return [items[1], items[0]], [_join(items[0], mine, side="LEFT")]
    if any(j.side or j.kind not in ("", "INNER", "CROSS") or j.method or j.args.get("using") for j in joins):
        raise source.error("the stream, whose rows enter the window, stands first in FROM", items[place], _WORKS)
    tests = [j.args["on"].copy() for j in joins if j.args.get("on")]
    on = reduce(lambda a, b: exp.And(this=exp.Paren(this=a), expression=exp.Paren(this=b)), tests) if tests else None
    others = [i for n, i in enumerate(items) if n != place]
    crossed = [exp.Join(this=i, on=exp.true()) for i in others[:-1]]
    return [items[place], *others], [*crossed, exp.Join(this=others[-1], on=on if on is not None else exp.true())]


def _join(item: exp.Expr, like: exp.Join, **changed: Any) -> exp.Join:
    """A join of another item that is else like one."""
    found = like.copy()
    found.set("this", item.copy())
    for name, value in changed.items():
        found.set(name, value)
    return found


class LookupScope(RowScope):
    """Names at the level of joined rows: columns of the stream and of the tables, with their names or aliases.

    A column of a table keeps its name where nothing else has it; else it is called "alias.column".
    """

    def __init__(self, source: Source, stream: StreamDefinition, alias: str, tables: Sequence[JoinedTable]) -> None:
        self.tables = [t for t in tables if t.shown]
        self.merged = _merged(stream, tables, source)
        plain = [c.name.lower() for c in stream.all_columns]
        plain += [c.name.lower() for t in self.tables for c in t.table.columns]
        taken = {c.name.lower() for c in stream.all_columns}
        self.known: dict[tuple[str, str], Column] = {}
        self.used: set[str] = set()
        for each in self.tables:
            for c in each.table.columns:
                name = c.name if plain.count(c.name.lower()) == 1 else f"{each.alias}.{c.name}"
                while name.lower() in taken:
                    name += "_"
                taken.add(name.lower())
                self.known[each.alias.lower(), c.name.lower()] = Column(name, c.type)
        self.own = {c.name.lower() for c in stream.all_columns}
        joined = replace(stream, columns=(*stream.all_columns, *self.known.values()))
        super().__init__(source, joined, alias)

    def split(self, node: exp.Column) -> tuple[exp.Identifier, list[exp.Identifier]]:
        """The column of the joined row that is meant, and the fields of a struct behind it."""
        parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
        first = parts[0].name.lower()
        if len(parts) > 1 and first != self.alias.lower():
            table = next((t for t in self.tables if first == t.alias.lower()), None)
            if table is not None:
                found = self.known.get((first, parts[1].name.lower()))
                if found is None:
                    like = nearest(parts[1].name, [c.name for c in table.table.columns])
                    message = f"there is no column '{parts[1].name}' in {table.alias}"
                    raise self.source.error(message, parts[1], like=like)
                return self._named(found, parts[1]), parts[2:]
        if len(parts) == 1 or first not in (self.alias.lower(), self.stream.name.lower()):
            holders = [t for t in self.tables if (t.alias.lower(), first) in self.known]
            if first not in self.merged and len(holders) + (first in self.own) > 1:
                named = [self.alias] * (first in self.own) + [t.alias for t in holders]
                choices = " or ".join(f"{n}.{parts[0].name}" for n in named)
                raise self.source.error(f"column '{parts[0].name}' is in {' and in '.join(named)}", parts[0], choices)
            if holders and first not in self.own:
                return self._named(self.known[holders[0].alias.lower(), first], parts[0]), parts[1:]
        elif parts[1].name.lower() not in self.own:
            # What the stream's name stands before is a column of its own, not one that a table has.
            like = nearest(parts[1].name, list(self.own))
            raise self.source.error(f"there is no column '{parts[1].name}' in {parts[0].name}", parts[1], like=like)
        return super().split(node)

    def _named(self, column: Column, place: exp.Identifier) -> exp.Identifier:
        self.used.add(column.name)
        return placed(exp.Identifier(this=column.name, quoted=True), token_span(place))

    def item(self, item: SelectItem) -> SelectItem:
        """An item that is just a column of a table gets the name that it has there."""
        node = item.node
        if item.alias is not None or not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return item
        name, fields = self.split(node)
        shown = next((n for (_, n), c in self.known.items() if c.name == name.name), None)
        if fields or shown is None:
            return item
        own = next(c.name for t in self.tables for c in t.table.columns if c.name.lower() == shown)
        return SelectItem(node, exp.Identifier(this=own, quoted=True))

    def names(self) -> list[str]:
        """Names that could have been meant."""
        return [*super().names(), *(f"{t.alias}.{c.name}" for t in self.tables for c in t.table.columns)]


def _merged(stream: StreamDefinition, tables: Sequence[JoinedTable], source: Source) -> set[str]:
    """Names, in small letters, of the columns that USING and NATURAL make one."""
    found: set[str] = set()
    before = {c.name.lower() for c in stream.all_columns}
    for each in tables:
        own = {c.name.lower() for c in each.table.columns}
        named = list(each.join.args.get("using") or [])
        for name in named:
            if name.name.lower() not in own or name.name.lower() not in before:
                where = each.alias if name.name.lower() not in own else "what stands before it"
                like = nearest(name.name, own & before)
                raise source.error(
                    f"USING names a column of both sides, and '{name.name}' is not in {where}", name, like=like
                )
        found |= {n.name.lower() for n in named}
        if each.join.method == "NATURAL":
            found |= own & before
        before |= own if each.shown else set()
    return found


def bound_lookup(
    joined: JoinedTables, scope: LookupScope, stream: StreamDefinition, select: exp.Select, schema: Schema, one: bool
) -> Lookup:
    """The joins as they are evaluated, with the columns of tables that the query names.

    Arguments:
        scope: what names have been resolved in. one: see `Lookup`.
    """
    number, met = "_row", "_met"
    while any(c.name.lower() in (number, met) for c in scope.stream.all_columns):
        number, met = "_" + number, "_" + met
    names = {c.name: key for key, c in scope.known.items() if c.name in scope.used}
    rows = with_suffix(joined.stream.copy(), window=None, union=(), reduce=None)
    if not rows.alias:
        rows.set("alias", exp.TableAlias(this=exp.Identifier(this=scope.alias, quoted=True)))
    outputs: list[exp.Expr] = [_column(scope.alias, number)]
    outputs += [
        exp.Alias(this=_column(alias, name), alias=exp.Identifier(this=own, quoted=True))
        for own, (alias, name) in names.items()
    ]
    inner = exp.Select(expressions=outputs, from_=exp.From(this=rows), joins=_on(joined, stream))
    if tests := _about_tables(select, scope):
        inner.set("where", exp.Where(this=reduce(lambda a, b: exp.And(this=a, expression=b), tests)))
    relation = bind_join(inner, scope.source, _Numbered(schema, stream, number))
    item = relation.inputs[0]
    refs = []
    for each in relation.tables:
        table = schema.lookup(each.name)
        assert isinstance(table, TableDefinition)
        refs.append(TableRef(each.alias, each.name, table.id))
    kept = {c.name: c for c in scope.known.values()}
    return Lookup(
        item.alias,
        tuple(refs),
        relation.sql,
        tuple(kept[n] for n in names),
        tuple(c.name for c in item.columns if c.name != number),
        number,
        one,
        met if one else "",
        ", ".join(_said(t) for t in joined.tables),
        calls=relation.calls,
    )


def _about_tables(select: exp.Select, scope: LookupScope) -> list[exp.Expr]:
    """The factors of WHERE that look at tables: what they leave out need not be joined, and they may be about time."""
    clause = select.args.get("where")
    found: list[exp.Expr] = []
    for factor, negated in conjuncts(clause.this) if clause is not None else ():
        columns = list(factor.find_all(exp.Column))
        plain = {c.parts[0].name.lower() for c in columns if len(c.parts) == 1}
        own = {n for _, n in scope.known}
        asks = any(n in own for n in plain - scope.own) or any(
            c.parts[0].name.lower() == t.alias.lower() for c in columns if len(c.parts) > 1 for t in scope.tables
        )
        if asks and plain <= scope.own | own and not plain & scope.merged:
            test: exp.Expr = exp.Paren(this=factor.copy())
            found.append(exp.Not(this=test) if negated else test)
    return found


def _on(joined: JoinedTables, stream: StreamDefinition) -> list[exp.Join]:
    """The joins with ON in the place of USING and NATURAL."""
    alias = joined.stream.alias or stream.name
    owners = {c.name.lower(): (alias, c.name) for c in stream.all_columns}
    found = []
    for each in joined.tables:
        join = each.join.copy()
        own = {c.name.lower(): c.name for c in each.table.columns}
        shared = [n.name.lower() for n in join.args.get("using") or []]
        shared = [n for n in own if n in owners] if join.method == "NATURAL" else shared
        if shared and join.method in ("", "NATURAL"):
            tests: list[exp.Expr] = [
                exp.EQ(this=_column(*owners[n]), expression=_column(each.alias, own[n])) for n in shared
            ]
            join.set("on", reduce(lambda a, b: exp.And(this=a, expression=b), tests))
            join.set("using", None)
            join.set("method", None)
        found.append(join)
        if each.shown:
            owners = {n: (each.alias, c) for n, c in own.items()} | owners
    return found


def _said(table: JoinedTable) -> str:
    join = table.join
    words = [w for w in (join.method, join.side, join.kind) if w and w not in ("INNER", "OUTER")]
    named = table.table.name if table.alias.lower() == table.table.name.lower() else f"{table.table.name} {table.alias}"
    return f"{' '.join([*words, 'join']).lower()} {named}"


def _column(table: str, name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=table, quoted=True))


class _Numbered:
    """Names as they are, where the stream has a number for each row."""

    def __init__(self, schema: Schema, stream: StreamDefinition, number: str) -> None:
        self.schema = schema
        self.stream = replace(stream, columns=(*stream.all_columns, Column(number, "BIGINT")), derived=None)

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """What a name means."""
        return self.stream if name.lower() == self.stream.name.lower() else self.schema.lookup(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.schema, name)


def allowed_clauses(select: exp.Select, joined: JoinedTables | None, source: Source) -> tuple[str, ...]:
    """The clauses that a FROM with tables may have beside those of one stream."""
    if joined is None:
        return ()
    for each in joined.tables:
        check_arguments(each.join, ("this", "on", "using", "side", "kind", "method"), source)
    return ("joins",)
