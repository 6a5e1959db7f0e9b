"""Streams without a name: what stands in FROM in parentheses, with a window behind them.

    SELECT item, count(*)
    FROM ("order" [RANGE 30 MINUTES] o JOIN payment [NOW] p ON p.id = o.id) [RANGE TUMBLING 1 HOUR] GROUP BY item

The windows inside say how long rows may be joined, as under PAIRS; the one behind is over the pairs. `(SELECT PAIRS(…)
FROM …) [RANGE TUMBLING 1 HOUR] AS p` says the same of columns that are written out, ISTREAM and DSTREAM as well. Joined
streams that are all cut into the same intervals are their pairs, in the windows that these are:

    SELECT count(*) FROM a JOIN b [RANGE TUMBLING 5 MINUTES] ON a.k = b.k

A SELECT with such streams is split: into the queries that give them, and what is left, over their names. A SELECT in
parentheses may also stand in FROM of a subquery, or of what WITH defines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from sqlglot import exp

from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.resolve.aggregate_windows import same_window, windowed_calls
from millpond.language.resolve.from_items import find
from millpond.language.resolve.relation_outputs import RESERVED
from millpond.language.resolve.schema import Schema
from millpond.language.rewrite.last_rows import LAST_INSTANT, last_rows
from millpond.language.syntax.nodes import FromParentheses, ToStream, to_stream_of, window_of, with_suffix
from millpond.language.syntax.source_text import Source, around, nearest, placed, span, token_span
from millpond.language.syntax.window_clause import WindowClause
from millpond.language.syntax.written_select import WrittenSelect
from millpond.types import (
    ARRIVAL,
    AnswerDerivation,
    Column,
    InnerStream,
    LatestRowsWindow,
    PairsQuery,
    Query,
    QueryDefinition,
    RelationQuery,
    RowWindowQuery,
    SessionQuery,
    StandingQuery,
    StreamDefinition,
    StreamOptions,
    TableDefinition,
    WindowedQuery,
    WindowQuery,
)

PAIRS_WORK = (
    "FROM (a [RANGE 30 MINUTES] JOIN b [NOW] ON a.k = b.k) [RANGE 1 HOUR SLIDE 10 MINUTES]: the windows inside say how"
    " long rows may be joined, the one behind is over the pairs"
)
_ROWS_WORK = (
    "FROM s [RANGE TUMBLING 1 HOUR] WHERE …, with what selects rows behind the window;"
    " or CREATE STREAM x AS SELECT … FROM s, and FROM x [RANGE TUMBLING 1 HOUR]"
)
_LATEST_WORK = (
    "(SELECT k, v FROM s [PARTITION BY k ROWS 1]) [RANGE TUMBLING 1 HOUR], which is over the last row of each k in each"
    " hour; or (SELECT ISTREAM(…) FROM s [PARTITION BY k ROWS 1]), over every row that becomes the last one of its k"
)
_STREAM_WORKS = f"(SELECT PAIRS(…) FROM …) [RANGE TUMBLING 1 HOUR] AS p, or {PAIRS_WORK}"


@dataclass(frozen=True)
class Unnamed:
    """A stream without a name, before it is bound: its SELECT, and what it is called meanwhile.

    time: which column is the event time of answers of windows.
    """

    name: str
    select: exp.Query
    time: str = "window_end"


@dataclass(frozen=True)
class Split:
    """A SELECT over streams without a name: these, and what is left, over their names."""

    streams: tuple[Unnamed, ...]
    select: exp.Query


def split(written: WrittenSelect, schema: Schema) -> Split | None:
    """The streams without a name in FROM, and the SELECT over them; None where there are none.

    Raises: StatementError for windows behind parentheses that stand elsewhere, or behind what is no stream.
    """
    select, text, source = written.tree, written.text, written.source
    if "[" not in text and select.find(FromParentheses) is None:
        return None
    items = _items(select)
    bare = next((i for i in items if _is_bare_join(i) and not _is_join(i, select, text)), None)
    if bare is not None:
        message = "a join in parentheses is a stream with a window behind them, or behind the aggregates"
        raise source.error(message, bare, PAIRS_WORK)
    found = _streams_in(select, text)
    _refuse_elsewhere(select, found, source)
    if not found:
        shared = _tumbling_together(select, items, schema, source)
        if shared is None or not isinstance(select, exp.Select):
            return None
        select = _in_parentheses(select, shared)
    tree = select.copy()
    found = _streams_in(tree, text)
    names = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    streams: list[Unnamed] = []
    for item in found:
        alias = item.alias
        while not alias or (not item.alias and alias.lower() in names):
            alias = "_" + alias if alias else "pairs"
        names.add(alias.lower())
        time = "window_end"
        lasting = last_rows(item.this, window_of(item), schema, source)
        if lasting is not None or (isinstance(item.this, exp.Query) and not isinstance(item.this, exp.Subquery)):
            inner: exp.Query = item.this if lasting is None else lasting
            time = time if lasting is None else LAST_INSTANT
            read = dict.fromkeys(t.name for t in inner.find_all(exp.Table) if isinstance(t.this, exp.Identifier))
            called, table_joins = f"what is selected from {' and '.join(read)}", []
        else:
            assert isinstance(tree, exp.Select)
            join = _Join(tree, item, schema, source)
            inner, called, table_joins = join.split(alias), join.called, join.table_joins
        count = sum(s.name.startswith(called) for s in streams)
        name = f"{called}, again ({count})" if count else called
        streams.append(Unnamed(name, inner, time))
        _put(tree, item, name, alias, table_joins)
    return Split(tuple(streams), tree)


def _streams_in(select: exp.Query, text: str) -> list[exp.Subquery]:
    """What stands in FROM in parentheses and is a stream; within such a one there may be others, which are its own."""
    own = [i for i in _items(select) if isinstance(i, exp.Subquery)]
    found = [i for i in own if window_of(i) is not None or _is_join(i, select, text)]
    for each in select.find_all(exp.Subquery, bfs=False):
        deep = (
            window_of(each) is not None and isinstance(each.this, exp.Query) and not isinstance(each.this, exp.Subquery)
        )
        if deep and isinstance(each.parent, exp.From | exp.Join) and not any(_inside(each, f) for f in found):
            found.append(each)
    return found


def _items(select: exp.Query) -> list[exp.Expr]:
    if not isinstance(select, exp.Select) or select.args.get("from_") is None:
        return []
    return [select.args["from_"].this, *(j.this for j in select.args.get("joins") or [])]


def _is_bare_join(item: exp.Expr) -> bool:
    """Whether an item is a join in parentheses without a window behind them."""
    if not isinstance(item, exp.Subquery) or window_of(item) is not None:
        return False
    return isinstance(item.this, exp.Table | exp.Subquery) and bool(item.this.args.get("joins"))


def _is_join(item: exp.Expr, select: exp.Query, text: str) -> bool:
    """Whether an item is a join in parentheses whose windows stand behind the aggregates."""
    return _is_bare_join(item) and not select.args.get("joins") and bool(windowed_calls(select, text))


def _refuse_elsewhere(select: exp.Query, found: Sequence[exp.Expr], source: Source) -> None:
    """Refuse windows behind parentheses that are not those of streams, or within them."""
    for each in select.find_all(exp.Subquery):
        clause = window_of(each)
        node: exp.Expr | None = each
        while node is not None and not any(node is f for f in found):
            node = node.parent
        if clause is not None and node is None:
            raise source.error(
                "a window behind parentheses makes a stream of what stands in them, in FROM of the outermost SELECT",
                clause.place, _STREAM_WORKS,
            )  # fmt: skip


def _tumbling_together(select: exp.Query, items: list[exp.Expr], schema: Schema, source: Source) -> WindowClause | None:
    """The intervals that several joined streams are all cut into; None where they are not."""
    if len(items) < 2 or to_stream_of(select) is not None:
        return None
    if not all(isinstance(i, exp.Table) and isinstance(i.this, exp.Identifier) for i in items):
        return None
    streams = [i for i in items if isinstance(schema.lookup(i.name), StreamDefinition)]
    clauses = [c for i in streams if (c := window_of(i)) is not None]
    if len(streams) < 2 or not clauses or len(list(select.find_all(exp.Query))) > 1:
        return None
    first = clauses[0]
    tumbling = first.extent == "range" and first.slide is not None and first.slide == first.range
    return first if tumbling and all(same_window(first, c) for c in clauses) else None


def _in_parentheses(select: exp.Select, clause: WindowClause) -> exp.Select:
    """The SELECT with its FROM in parentheses, and a window behind them."""
    tree = select.copy()
    first = tree.args["from_"].this
    first.set("joins", tree.args.pop("joins"))
    around = with_suffix(exp.Subquery(this=first), window=clause)
    tree.set("from_", exp.From(this=around))
    return tree


def _put(tree: exp.Query, item: exp.Subquery, name: str, alias: str, joins: list[exp.Join]) -> None:
    """Put a stream in the place of what stands in parentheses, with joins of tables behind it."""
    identifier = exp.Identifier(this=name, quoted=True)
    table = exp.Table(this=identifier, alias=exp.TableAlias(this=exp.Identifier(this=alias, quoted=True)))
    if (clause := window_of(item)) is not None:
        table = with_suffix(table, window=clause)
    placed(identifier, span(item))
    item.replace(table)
    if joins:
        tree.set("joins", [*joins, *(tree.args.get("joins") or [])])


class _Join:
    """A join in parentheses: streams that are paired, then tables, which are joined with the pairs."""

    def __init__(self, tree: exp.Select, item: exp.Subquery, schema: Schema, source: Source) -> None:
        self.tree, self.item, self.schema, self.source = tree, item, schema, source
        first = item.this
        joins = list(first.args.get("joins") or [])
        parts = [first, *(j.this for j in joins)]
        kinds = [self._kind(p) for p in parts]
        streams = next((n for n, kind in enumerate(kinds) if kind is None), len(kinds))
        late = next((n for n in range(streams, len(kinds)) if kinds[n] is not None), None)
        if late is not None:
            raise source.error(
                "streams are joined first, and the tables that their pairs are joined with come behind them",
                parts[late], "FROM (a [RANGE …] JOIN b [RANGE …] ON … LEFT JOIN item ON …) [RANGE …]",
            )  # fmt: skip
        if streams < 2:
            raise source.error(
                "parentheses with a window behind them are for streams that are joined, and here is one", parts[0],
                "FROM stream [RANGE TUMBLING 1 HOUR] s LEFT JOIN table t ON t.k = s.k",
            )  # fmt: skip
        self.first, self.joins = parts[0], joins[: streams - 1]
        self.table_joins = joins[streams - 1 :]
        nested = [p for p in parts[:streams] if isinstance(p, exp.Subquery)]
        for number, part in enumerate(n for n in nested if not n.alias):
            part.set("alias", exp.TableAlias(this=exp.Identifier(this=f"pairs within {number}", quoted=True)))
        self.within = {t.alias_or_name.lower() for n in nested for t in n.find_all(exp.Table)}
        hidden = [False, *(j.kind in ("SEMI", "ANTI") for j in self.joins)]
        self.columns = [
            (p.alias_or_name, () if hide else k)
            for p, k, hide in zip(parts[:streams], kinds[:streams], hidden, strict=True)
            if k is not None
        ]
        self.tables = [self._named(j.this) for j in self.table_joins]
        beside = [i for i in _items(tree) if i is not item and isinstance(i, exp.Table)]
        self.beside = [*self.tables, *(self._named(i) for i in beside)]
        self.called = "pairs of " + " and ".join(map(_called, parts[:streams]))
        self.merged = self._merged()

    def _kind(self, part: exp.Expr) -> Sequence[Column] | None:
        """The columns of a stream; None for a table."""
        if isinstance(part, exp.Subquery):
            if window_of(part) is None:
                raise self.source.error("a join in parentheses is a stream with a window behind them", part, PAIRS_WORK)
            return [Column(name, "") for name in dict.fromkeys([*self._names_in(part), "at"])]
        if not isinstance(part, exp.Table):
            raise self.source.error("streams are joined by their names", part, PAIRS_WORK)
        found = find(self.schema, part, self.source)
        if isinstance(found, QueryDefinition):
            raise self.source.error(f"'{found.name}' is a query: streams are joined", part, PAIRS_WORK)
        return None if isinstance(found, TableDefinition) else found.all_columns

    def _names_in(self, item: exp.Subquery) -> list[str]:
        """The columns of a stream without a name that need nothing before them; their types are known later."""
        if isinstance(item.this, exp.Select):
            return [e.output_name for e in item.this.expressions if e.output_name]
        parts = [item.this, *(j.this for j in item.this.args.get("joins") or [])]
        found = [c.name for p in parts for c in self._kind(p) or ()]
        return [name for name in found if [n.lower() for n in found].count(name.lower()) == 1]

    def _named(self, item: exp.Table) -> tuple[str, set[str]]:
        """What a FROM item is called, and its columns in small letters."""
        found = find(self.schema, item, self.source)
        columns = () if isinstance(found, QueryDefinition) else found.columns
        return item.alias_or_name.lower(), {c.name.lower() for c in columns}

    def _merged(self) -> set[str]:
        """Names, in small letters, of columns that USING and NATURAL make one."""
        found: set[str] = set()
        before: set[str] = set()
        for number, (_, columns) in enumerate(self.columns):
            own = {c.name.lower() for c in columns}
            if number:
                join = self.joins[number - 1]
                found |= {i.name.lower() for i in join.args.get("using") or []}
                found |= own & before if join.method == "NATURAL" else set()
            before |= own
        return found

    def split(self, alias: str) -> exp.Select:
        """The SELECT of the pairs; columns of the tree around it are those of the stream `alias` afterwards."""
        self.alias = alias
        self.shown: dict[str, exp.Column] = {}
        if any(True for q in self.tree.find_all(exp.Query) if q is not self.tree and not _inside(q, self.item)):
            raise self.source.error(
                "beside a join in parentheses there are no subqueries", self.item,
                "(SELECT PAIRS(a.x, b.y) FROM a [RANGE …] JOIN b [RANGE …] ON …) [RANGE …] AS p",
            )  # fmt: skip
        where = self._where()
        aliases = {e.alias.lower() for e in self.tree.expressions if isinstance(e, exp.Alias)}
        for node in [*self._around(), *(n for j in self.table_joins for n in j.find_all(exp.Column))]:
            self._rename(node, aliases)
        for join in self.table_joins:
            for each in join.args.get("using") or []:
                self._show(each.name)
        if not self.shown:
            name, columns = self.columns[0]
            self._show_of(name, columns[0].name if columns else "at")
        place = span(self.item) or (0, 0)
        outputs = []
        for name, column in self.shown.items():
            output = exp.Alias(this=column, alias=exp.Identifier(this=name, quoted=True))
            outputs.append(output)
        first = self.first.copy()
        first.set("joins", None)
        made = exp.Select(expressions=outputs, from_=exp.From(this=first), joins=[j.copy() for j in self.joins])
        made.set("to_stream", ToStream("pairs", place))
        if where is not None:
            made.set("where", exp.Where(this=where))
        return made

    def _where(self) -> exp.Expr | None:
        """The factors of WHERE that are about the pairs alone, which are taken out of the tree."""
        clause = self.tree.args.get("where")
        if clause is None:
            return None
        mine: list[exp.Expr] = []
        others: list[exp.Expr] = []
        for factor, negated in conjuncts(clause.this):
            own = exp.Not(this=exp.Paren(this=factor.copy())) if negated else exp.Paren(this=factor.copy())
            (mine if all(self._is_mine(c) for c in factor.find_all(exp.Column)) else others).append(own)
        if not mine:
            return None
        self.tree.set("where", exp.Where(this=exp.and_(*others, copy=False)) if others else None)
        return exp.and_(*mine, copy=False)

    def _is_mine(self, node: exp.Column) -> bool:
        parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
        first = parts[0].name.lower()
        if len(parts) > 1 and first in (*self.within, *(n.lower() for n, _ in self.columns)):
            return True
        return bool(self._owners(first)) and not any(first in own for _, own in self.beside)

    def _owners(self, column: str) -> list[str]:
        return [n for n, columns in self.columns if any(c.name.lower() == column.lower() for c in columns)]

    def _around(self) -> Iterator[exp.Column]:
        """The columns in the tree, but for those in parentheses and in joins beside them."""
        for key, value in self.tree.args.items():
            if key in ("from_",) or value is None:
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, exp.Expr):
                    found = list(each.find_all(exp.Column))
                    yield from (c for c in found if c.find_ancestor(exp.Subquery) is None)

    def _rename(self, node: exp.Column, aliases: set[str]) -> None:
        """Make a column of one of the streams one of the pairs."""
        parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
        if not parts or isinstance(node.this, exp.Star):
            if parts and node.table.lower() not in [n for n, _ in self.beside]:
                raise self.source.error("* has no meaning here", node, "columns by their names")
            return
        qualified = False
        if len(parts) > 1 and self.item.alias and parts[0].name.lower() == self.alias.lower():
            own, parts = parts[0], parts[1:]  # what is in parentheses is called so
            if not self._owners(parts[0].name):
                return
            placed(parts[0], around(map(token_span, (own, parts[0]))))
            qualified, aliases = True, set()
        first = parts[0].name.lower()
        stream = next(((n, c) for n, c in self.columns if n.lower() == first), None)
        if len(parts) > 1 and stream is not None:
            known = next((c.name for c in stream[1] if c.name.lower() == parts[1].name.lower()), None)
            if known is None and stream[1]:
                like = nearest(parts[1].name, [c.name for c in stream[1]])
                message = f"there is no column '{parts[1].name}' in {stream[0]}"
                raise self.source.error(message, parts[1], like=like)
            name, fields = self._show_of(stream[0], known or parts[1].name), parts[2:]
        elif len(parts) > 1 and first in self.within:
            name, fields = self._show_of(parts[0].name, parts[1].name), parts[2:]
        elif len(parts) > 1 and first in (self.alias.lower(), *(n for n, _ in self.beside)):
            return
        else:
            owners = self._owners(first)
            others = [] if qualified else [n for n, own in self.beside if first in own]
            if not owners or (len(parts) == 1 and first in aliases and len(owners) > 1):
                return
            if len(owners) + len(others) > 1 and first not in self.merged:
                choices = " or ".join(f"{n}.{parts[0].name}" for n in [*owners, *others])
                where = " and in ".join([*owners, *others])
                raise self.source.error(f"column '{parts[0].name}' is in {where}", parts[0], choices)
            name, fields = self._show(parts[0].name), parts[1:]
        self._replace(node, name, parts, fields)

    def _replace(self, node: exp.Column, name: str, parts: list[Any], fields: list[Any]) -> None:
        identifier = exp.Identifier(this=name, quoted=True)
        placed(identifier, around(map(token_span, parts[: len(parts) - len(fields)])))
        chain = [exp.Identifier(this=self.alias, quoted=True), identifier, *(f.copy() for f in fields)]
        made = exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(chain), strict=False)))
        placed(made, token_span(node))
        if node.parent is self.tree and node.arg_key == "expressions":  # it is called as it was
            was = (fields or parts)[-1].name
            node.replace(exp.Alias(this=made, alias=exp.Identifier(this=was, quoted=True)))
        else:
            node.replace(made)

    def _show_of(self, stream: str, column: str) -> str:
        """The name among the pairs of a stream's column."""
        plain = len(self._owners(column)) == 1 and column.lower() not in (*RESERVED, ARRIVAL)
        name = column if plain else f"{stream}.{column}"
        item = exp.Identifier(this=stream, quoted=True)
        self.shown.setdefault(name, exp.Column(this=exp.Identifier(this=column, quoted=True), table=item))
        return name

    def _show(self, column: str) -> str:
        """The name among the pairs of a column that stands alone: one stream's, or one that is merged."""
        owners = self._owners(column)
        if column.lower() in self.merged:
            known = next(c.name for _, cs in self.columns for c in cs if c.name.lower() == column.lower())
            self.shown.setdefault(known, exp.Column(this=exp.Identifier(this=known, quoted=True)))
            return known
        if not owners:
            return column
        columns = dict(self.columns)[owners[0]]
        return self._show_of(owners[0], next(c.name for c in columns if c.name.lower() == column.lower()))


def _called(part: exp.Expr) -> str:
    """What a joined stream is called; one without a name by what it is made of."""
    if isinstance(part, exp.Subquery):
        return f"({' and '.join(t.name for t in part.find_all(exp.Table))})"
    return part.name


def _inside(node: exp.Expr, item: exp.Expr) -> bool:
    found: exp.Expr | None = node
    while found is not None and found is not item:
        found = found.parent
    return found is not None


def inner_stream(unnamed: Unnamed, query: Query, source: Source) -> InnerStream:
    """A stream without a name whose query is bound.

    Raises: StatementError where it is no stream.
    """
    none = "a window stands behind a stream, and what is in these parentheses is none"
    if query.in_register:
        raise source.error(none, unnamed.select, _ROWS_WORK)
    if not query.of_instants:
        return _of_windows(unnamed, query)
    if not query.makes_stream:
        latest = any(isinstance(i.window, LatestRowsWindow) and i.window.partition for i in query.inputs)
        message = "the last row of each key stands in windows that tumble, and as plain columns" if latest else none
        raise source.error(message, unnamed.select, _LATEST_WORK if latest else _ROWS_WORK)
    if query.repeats:
        raise source.error(
            "RSTREAM reports all of a relation again and again: a stream of it has a name", unnamed.select,
            "CREATE STREAM x WITH (every='1 minute') AS SELECT RSTREAM(…), and the window behind x",
        )  # fmt: skip
    forward = query.adds_only and not any(i.signed for i in query.inputs)
    columns = [Column("at", "TIMESTAMP"), *(Column(o.name, o.type) for o in query.select)]
    columns += [Column("revision", "BIGINT")] if forward else []
    columns += [Column("op", "VARCHAR")]
    return InnerStream(unnamed.name, query, "forward" if forward else "retract", tuple(columns))


def _of_windows(unnamed: Unnamed, query: WindowedQuery) -> InnerStream:
    """The stream of the answers of windows: a late row takes the answers back that it changes, and gives new ones."""
    columns = (*query.time_columns, *(Column(o.name, o.type) for o in query.select), Column("op", "VARCHAR"))
    return InnerStream(unnamed.name, query, "retract", columns, unnamed.time)


def stream_of(inner: InnerStream, name: str = "", sources: Sequence[int] = (), query: int = 0) -> StreamDefinition:
    """The definition of a stream without a name."""
    derivation = AnswerDerivation(sources=tuple(sources), query=query, revisions=inner.revisions)
    options = StreamOptions(source="derived", time=inner.time)
    return StreamDefinition(name or inner.name, inner.columns, options, 0, derivation)


class WithInner:
    """The names of a schema, and those of streams without one."""

    def __init__(self, schema: Schema, streams: Mapping[str, StreamDefinition]) -> None:
        self._schema, self._streams = schema, dict(streams)

    def lookup(self, name: str) -> StreamDefinition | TableDefinition | QueryDefinition | None:
        """What a name means."""
        return self._streams.get(name) or self._schema.lookup(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schema, name)


def named(query: StandingQuery, name: str, real: str) -> StandingQuery:
    """A query over `real` in the place of the stream `name`."""
    match query:
        case RelationQuery() | PairsQuery():
            inputs = tuple(replace(i, stream=real) if i.stream == name else i for i in query.inputs)
            return replace(query, inputs=inputs)
        case WindowQuery() | RowWindowQuery() | SessionQuery():
            return replace(query, stream=real) if query.stream == name else query
        case _:
            assert_never(query)
