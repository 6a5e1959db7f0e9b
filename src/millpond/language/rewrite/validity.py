"""Rows of tables that hold for a time (`valid_from`, `valid_to`): joined with a stream's rows as of their event time.

Such a table is the history of a relation (Snodgrass's valid time): one row per key and stretch of time, half open.
Where it is joined with a stream the condition says so: `valid_from <= event time AND event time < valid_to`, NULL being
for ever. It becomes a part of the join's ON, so that an outer join reports rows for which nothing held. An ASOF join
finds the latest row that had begun, which must not have ended. A statement that says itself what it does with
`valid_from` is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from sqlglot import exp

from millpond.language.resolve.schema import Schema
from millpond.language.syntax.nodes import suffix_of, window_of, with_suffix
from millpond.language.syntax.source_text import Source
from millpond.language.syntax.walks import tables_of
from millpond.types import StreamDefinition, TableDefinition

WORKS = "FROM s [NOW] JOIN price p ON p.item = s.item"

_Tree = TypeVar("_Tree", bound=exp.Expr)

#: What stands between a FROM item and the SELECT that it is correlated with, if anything may be.
_Found = tuple[exp.Table, StreamDefinition]


def times_needed(select: exp.Expr, schema: Schema) -> frozenset[str]:
    """Names, in small letters, of the event-time columns that joins with such tables look at."""
    found = [schema.lookup(t.name) for t in select.find_all(exp.Table) if isinstance(t.this, exp.Identifier)]
    if not any(isinstance(each, TableDefinition) and each.valid_from is not None for each in found):
        return frozenset()
    return frozenset(each.options.time.lower() for each in found if isinstance(each, StreamDefinition))


def hold_in_time(tree: exp.Expr, source: Source, schema: Schema) -> exp.Expr:
    """A SELECT that says which rows of its tables hold. Its FROM items have their own names.

    Raises: StatementError where it cannot be said with which stream's time.
    """
    tree = tree.copy()
    for table in list(tables_of(tree)):
        definition = schema.lookup(table.name) if isinstance(table.this, exp.Identifier) else None
        own = table.find_ancestor(exp.Select)
        if not isinstance(definition, TableDefinition) or own is None:
            continue
        if definition.valid_from is None:
            _look_back_only(own, table, definition, source, schema)
            continue
        join = next((j for j in own.args.get("joins") or [] if j.this is table), None)
        told = _says_itself(own, table, definition.valid_from)
        streams = _streams_beside(table, own, source, schema)
        if not streams or (told and (join is None or join.method != "ASOF")):
            continue
        item, stream = _meant(table, own, streams, source)
        if join is not None and join.method == "ASOF":
            time = _column(item, stream.options.time)
            _look_back(join, own, table, definition, time, told, source)
            young = _young(join, table, source)
            ended = [] if definition.valid_to is None else [_not_ended(table, definition.valid_to, time)]
            _require([*ended, *young], join, own, table, definition, source, schema)
        else:
            _add(table, own, _holds(table, definition, item, stream), source)
    return tree


def _look_back(
    join: exp.Join,
    own: exp.Select,
    table: exp.Table,
    definition: TableDefinition,
    time: exp.Column,
    told: bool,
    source: Source,
) -> None:
    """An ASOF join: the latest row that had begun at the event time."""
    if not told and (using := join.args.get("using")):
        raise source.error(
            f"USING of an ASOF join names the time last, and which of these is {table.name}'s {definition.valid_from}?",
            using[-1], f"ASOF JOIN {table.name} ON {table.alias_or_name}.k = s.k",
        )  # fmt: skip
    if not told:
        begun = exp.GTE(this=time.copy(), expression=_column(table, str(definition.valid_from)))
        on = join.args.get("on")
        join.set("on", begun if on is None else exp.And(this=exp.Paren(this=on), expression=begun))


def _look_back_only(
    own: exp.Select, table: exp.Table, definition: TableDefinition, source: Source, schema: Schema
) -> None:
    """An ASOF join with a table that does not say from when its rows hold: only how old one may be."""
    join = next((j for j in own.args.get("joins") or [] if j.this is table), None)
    if join is not None and join.method == "ASOF":
        _require(_young(join, table, source), join, own, table, definition, source, schema)


def with_tolerances(select: _Tree, schema: Schema, source: Source) -> _Tree:
    """The tree with windows behind tables of ASOF joins taken for what they are there: how old a row may be.

    Of streams they say under PAIRS what is kept; a table has no time: its rows are as old as the join compares them.

    Raises: StatementError for a window behind a table that is joined otherwise.
    """
    if not any(_dated(join, schema) is not None for join in select.find_all(exp.Join)):
        return select
    tree = select.copy()
    for join in tree.find_all(exp.Join):
        if (table := _dated(join, schema)) is None or (clause := window_of(table)) is None:
            continue
        if join.method != "ASOF":
            raise source.error(
                f"'{table.name}' is a table, and a window behind one says how old the row of an ASOF JOIN may be",
                clause.place, f"no window here, or ASOF JOIN {table.name} [RANGE 10 MINUTES]",
            )  # fmt: skip
        with_suffix(table, window=None, tolerance=clause)
    return tree


def _dated(join: exp.Join, schema: Schema) -> exp.Table | None:
    """The table that is joined, if there is a window behind it."""
    table = join.this
    named = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and window_of(table) is not None
    return table if named and isinstance(schema.lookup(table.name), TableDefinition) else None


def _young(join: exp.Join, table: exp.Table, source: Source) -> list[exp.Expr]:
    """What says that the row that an ASOF join finds is no older than it may be; nothing where any will do."""
    clause = suffix_of(table).tolerance
    if clause is None:
        return []
    table.set("suffix", replace(suffix_of(table), tolerance=None))
    works = f"ASOF JOIN {table.name} [RANGE 10 MINUTES], or [RANGE 10 MINUTES OPEN]"
    if not clause.is_relation or clause.partition or clause.extent not in ("range", "now"):
        raise source.error("the window behind a table of an ASOF join says how old its row may be", clause.place, works)
    visible = table.alias_or_name.lower()
    on = join.args.get("on")
    for test in on.find_all(exp.GTE, exp.GT, exp.LTE, exp.LT) if on is not None else ():
        later, earlier = (
            (test.this, test.expression) if isinstance(test, exp.GTE | exp.GT) else (test.expression, test.this)
        )
        if {c.table.lower() for c in earlier.find_all(exp.Column)} == {visible}:
            length = clause.range if clause.extent == "range" else 0
            back = exp.Interval(this=exp.Literal.string(str(length)), unit=exp.var("MICROSECONDS"))
            oldest = exp.Sub(this=exp.Paren(this=later.copy()), expression=back)
            kind = exp.GT if clause.open_end else exp.GTE
            return [kind(this=exp.Paren(this=earlier.copy()), expression=oldest)]
    raise source.error(
        f"how old may a row of {table.name} be, compared with what? ON says {visible}'s time is at or before another",
        clause.place, f"ASOF JOIN {table.name} [RANGE 10 MINUTES] ON … AND s.ts >= {visible}.ts",
    )  # fmt: skip


def _require(
    tests: list[exp.Expr],
    join: exp.Join,
    own: exp.Select,
    table: exp.Table,
    definition: TableDefinition,
    source: Source,
    schema: Schema,
) -> None:
    """See to it that the row that an ASOF join finds is none where tests fail: with LEFT its columns are NULL then."""
    if not tests:
        return
    test = reduce(lambda a, b: exp.And(this=a, expression=b), tests)
    if not join.side:
        _also(own, test)
        return
    visible = table.alias_or_name.lower()
    names = {c.name.lower() for c in definition.columns}
    others: set[str] = set()
    for item in _items(own):
        found = schema.lookup(item.name) if isinstance(item, exp.Table) and item is not table else None
        if isinstance(found, StreamDefinition | TableDefinition):
            others |= {c.name.lower() for c in found.columns}
    for star in (e for e in own.expressions if e.find(exp.Star) is not None and not e.find(exp.Anonymous)):
        raise source.error(
            f"what is said of a row of {table.name} that is too old, or has ended, is NULL: * cannot be", star,
            "the names of the columns",
        )  # fmt: skip
    for node in list(own.find_all(exp.Column)):
        if node.find_ancestor(exp.Join) is join or node.find_ancestor(exp.Select) is not own:
            continue
        mine = node.name.lower() in names and (
            node.table.lower() == visible or (not node.table and node.name.lower() not in others)
        )
        if mine:
            case: exp.Expr = exp.Case(ifs=[exp.If(this=test.copy(), true=node.copy())])
            if node.parent is own and node.arg_key == "expressions":
                case = exp.Alias(this=case, alias=exp.Identifier(this=node.name, quoted=True))
            node.replace(case)


def _says_itself(select: exp.Select, table: exp.Table, valid_from: str) -> bool:
    """Whether a condition of the SELECT names the column from which rows hold."""
    joins = select.args.get("joins") or []
    conditions = [j.args["on"] for j in joins if j.args.get("on")]
    conditions += [select.args["where"]] if select.args.get("where") is not None else []
    visible = table.alias_or_name.lower()
    used = next((j.args.get("using") or [] for j in joins if j.this is table), [])
    return any(name.name.lower() == valid_from.lower() for name in used) or any(
        c.name.lower() == valid_from.lower() and c.table.lower() in ("", visible)
        for each in conditions
        for c in each.find_all(exp.Column)
    )


def _streams_beside(table: exp.Table, own: exp.Select, source: Source, schema: Schema) -> list[_Found]:
    """The streams of the nearest SELECT around a table that has any."""
    inside: exp.Expr = own
    select: exp.Select | None = own
    while select is not None:
        found = [
            (item, stream)
            for item in _items(select)
            if isinstance(item, exp.Table)
            and isinstance(item.this, exp.Identifier)
            and isinstance(stream := schema.lookup(item.name), StreamDefinition)
        ]
        if found:
            if select is not own and _stands_in_from(inside, select):
                raise source.error(
                    f"rows of {table.name} hold for a time, and a subquery in FROM knows none", table,
                    f"the table beside the stream: {WORKS}",
                )  # fmt: skip
            return found
        inside, select = select, select.find_ancestor(exp.Select)
    return []


def _stands_in_from(inside: exp.Expr, select: exp.Select) -> bool:
    """Whether a SELECT is a derived table, or one of a WITH, of another: it cannot look at the rows beside it."""
    node: exp.Expr | None = inside
    while node is not None and node.parent is not select:
        node = node.parent
    return isinstance(node, exp.From | exp.Join | exp.With)


def _items(select: exp.Select) -> Iterator[exp.Expr]:
    if (clause := select.args.get("from_")) is not None:
        yield clause.this
        yield from (j.this for j in select.args.get("joins") or [])


def _meant(table: exp.Table, own: exp.Select, streams: list[_Found], source: Source) -> _Found:
    """The stream whose event time counts: the only one, else the one that the table is compared with."""
    if len(streams) == 1:
        return streams[0]
    visible = table.alias_or_name.lower()
    tests = [j.args["on"] for j in own.args.get("joins") or [] if j.args.get("on")]
    tests += [own.args["where"].this] if own.args.get("where") is not None else []
    names: set[str] = set()
    for test in (node for each in tests for node in each.find_all(exp.EQ)):
        sides = {c.table.lower() for c in test.find_all(exp.Column)}
        if visible in sides:
            names |= sides - {visible}
    found = [s for s in streams if s[0].alias_or_name.lower() in names]
    if len(found) == 1:
        return found[0]
    raise source.error(
        f"rows of {table.name} hold for a time: as of which stream's? It is compared with {len(found)} of"
        f" {', '.join(s[0].alias_or_name for s in streams)}",
        table,
        "an equality with a column of one of them, or a condition that says what is done with its times",
    )


def _holds(table: exp.Table, definition: TableDefinition, item: exp.Table, stream: StreamDefinition) -> exp.Expr:
    time = _column(item, stream.options.time)
    begin = _column(table, str(definition.valid_from))
    tests: list[exp.Expr] = [_or_null(begin, exp.LTE(this=begin.copy(), expression=time))]
    if definition.valid_to is not None:
        tests.append(_not_ended(table, definition.valid_to, time))
    return tests[0] if len(tests) == 1 else exp.And(this=tests[0], expression=tests[1])


def _not_ended(table: exp.Table, valid_to: str, time: exp.Column) -> exp.Expr:
    end = _column(table, valid_to)
    return _or_null(end, exp.LT(this=time.copy(), expression=end.copy()))


def _also(own: exp.Select, test: exp.Expr) -> None:
    """Add a factor to WHERE."""
    clause = own.args.get("where")
    test = test if clause is None else exp.And(this=exp.Paren(this=clause.this), expression=test)
    own.set("where", exp.Where(this=test))


def _or_null(column: exp.Column, test: exp.Expr) -> exp.Paren:
    return exp.Paren(this=exp.Or(this=exp.Is(this=column.copy(), expression=exp.Null()), expression=test))


def _column(table: exp.Table, name: str) -> exp.Column:
    visible = exp.Identifier(this=table.alias_or_name, quoted=True)
    return exp.Column(this=exp.Identifier(this=name, quoted=True), table=visible)


def _add(table: exp.Table, own: exp.Select, test: exp.Expr, source: Source) -> None:
    """Put a condition where it belongs: ON of the table's join, WHERE where all joins are inner."""
    joins = own.args.get("joins") or []
    mine = next((j for j in joins if j.this is table), None)
    inner = not any(j.side or j.kind not in ("", "INNER", "CROSS") for j in joins)
    if inner and not any(j.method for j in joins if j.method != "NATURAL"):
        _also(own, test)
        return
    mine = joins[0] if mine is None and len(joins) == 1 else mine
    if mine is None or mine.args.get("using") or mine.method == "NATURAL":
        raise source.error(
            f"rows of {table.name} hold for a time, which is a condition of its join: the join says ON", table, WORKS
        )
    on = mine.args.get("on")
    mine.set("on", test if on is None else exp.And(this=exp.Paren(this=on), expression=test))
