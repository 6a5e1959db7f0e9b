"""Keys and aggregates of a query, and expressions over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sqlglot import exp

from millpond.language.inference.duck import Refused, typed_relation
from millpond.language.inference.types_of import Item, Typer
from millpond.language.render.signless import without_sign
from millpond.language.resolve.aggregate_calls import CallReader
from millpond.language.resolve.aggregate_windows import OwnWindow
from millpond.language.resolve.calls import Call
from millpond.language.resolve.expressions import Resolver, column, grouped_by, has_aggregate, struct_field
from millpond.language.resolve.scope import WINDOW_COLUMNS, RowScope
from millpond.language.resolve.select_list import SelectItem, ordinal
from millpond.support.errors import StatementError
from millpond.types import NUMBER, Aggregate, Column, Expression, Key

#: The number of a row's grouping set, among the columns of groups: bit i is set where it does not group by key i.
SET = "__set"


class GroupScope:
    """Names at the level of groups: keys k0…, aggregates a0…, window_start and window_end, aliases.

    Arguments:
        rows: names at the level of rows.
        windowed: whether the query has a window.
        window_of: RANGE or landmark of the window behind a call; neither: the query's window.
    """

    def __init__(
        self, rows: RowScope, windowed: bool, window_of: Callable[[exp.Expr], OwnWindow] = lambda node: (None, None)
    ) -> None:
        self.rows, self.source, self.windowed, self._window_of = rows, rows.source, windowed, window_of
        self.window_columns = {name: "TIMESTAMP" for name in WINDOW_COLUMNS} if windowed else {}
        self.keys: list[Key] = []
        self.indices: tuple[frozenset[int], ...] = ()
        self.sets: tuple[int, ...] = ()
        self._bits: dict[str, int] = {}
        self._set_key = ""
        self.aggregates: list[Aggregate] = []
        self._partition: set[str] = set()
        self._key_nodes: list[exp.Expr] = []
        self._by_text: dict[str, str] = {}
        self._shapes: set[type[exp.Expr]] = set()
        self._calls: dict[tuple[object, ...], tuple[str, Call]] = {}
        self._open: list[str] = []
        self._reader = CallReader(self.source, rows.expression)
        self._resolver = Resolver(self.source, self._column, self._call, self._match, rows.kind, self._type_of)

    def number_windows(self) -> None:
        """The query's windows end with rows: they have a number."""
        self.window_columns[NUMBER.name] = NUMBER.type

    def partition_by(self, partition: Sequence[Key]) -> None:
        """The columns of PARTITION BY are the first keys."""
        for key in partition:
            assert key.expression.column is not None
            self._partition.add(self._keep_key(column(key.expression.column)))

    def has(self, name: str) -> bool:
        """Whether answers have this column by themselves."""
        return name in self.window_columns

    # -- keys ----------------------------------------------------------------------------------------------------

    def group_by(self, group: exp.Group | None, items: Sequence[SelectItem]) -> None:
        """Take the keys of GROUP BY: columns, expressions, aliases, ordinals, or ALL."""
        if group is None:
            return
        for key, value in group.args.items():
            if value and key not in ("expressions", "all"):
                raise self.source.error(f"GROUP BY {key.upper().replace('_', ' ')} is not available", group)
        nodes = grouped_by(group)
        if group.args.get("all"):
            nodes = [i.node for i in items if not has_aggregate(i.node) and not isinstance(i.node, exp.Star)]
            nodes = [n for n in nodes if not isinstance(n, exp.Column) or not self._of_window(n)]
        names = [self._add_key(node, items) for node in nodes]
        if self.indices:
            self._group_by_sets(names)

    def _group_by_sets(self, names: Sequence[str]) -> None:
        """Take the grouping sets: a row is in a group of each, and NULL stands for keys that a set does not have."""
        all_keys = [n for n, name in enumerate(names) if name]
        for place in all_keys:
            self._bits[names[place]] = self._bits.get(names[place], 0) | 1 << place
        masks = (sum(1 << place for place in all_keys if place not in each) for each in self.indices)
        self.sets = tuple(dict.fromkeys(masks))
        self._set_key = f"k{len(self.keys)}"

    def _add_key(self, node: exp.Expr, items: Sequence[SelectItem]) -> str:
        """Its name among keys; '' for a column of the window."""
        value = node
        if isinstance(node, exp.Literal) and not node.is_string:
            value = ordinal(node, items, "GROUP BY", self.source).node
        elif isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() not in self.rows.columns:
            value = self.rows.aliases.get(node.name.lower(), node)
        if isinstance(value, exp.Column) and self._of_window(value):
            if value is node:
                self._refuse_unclear(node)
            return ""  # answers are per window anyway
        if has_aggregate(value):
            raise self.source.error("GROUP BY cannot use an aggregate", node, "columns and expressions over them")
        self._refuse_unclear(value)
        return self._keep_key(value)

    def _of_window(self, node: exp.Column) -> bool:
        """Whether a column is one that answers have by themselves."""
        return len(node.parts) == 1 and self.has(node.name.lower())

    def _refuse_unclear(self, node: exp.Expr) -> None:
        """Refuse a name in GROUP BY that is a column of the stream's rows and one of the window."""
        for each in node.find_all(exp.Column):
            if self._of_window(each) and each.name.lower() in self.rows.columns:
                raise self.source.error(
                    f"'{each.name}' is a column of {self.rows.stream.name} and one of the window",
                    each,
                    f"{self.rows.alias}.{each.name} for the column; answers are by window anyway",
                )

    def _keep_key(self, value: exp.Expr) -> str:
        """The name of a key."""
        key = self.rows.expression(value)
        known = self._by_text.get(key.sql)
        if known is None or (self.indices and known in self._partition):  # sets may leave out what is partitioned by
            self._by_text[key.sql] = f"k{len(self.keys)}"
            self._shapes.add(type(value.unnest()))
            self.keys.append(Key(self._by_text[key.sql], key))
            self._key_nodes.append(value)
        return self._by_text[key.sql]

    # -- expressions ---------------------------------------------------------------------------------------------

    def expression(self, node: exp.Expr, alias: str = "") -> Expression:
        """What is asked over k*, a* and the window's columns; `alias`: the name being defined, which cannot be used."""
        self._open.append(alias.lower())
        try:
            return self._resolver.expression(node)
        finally:
            self._open.pop()

    def text(self, node: exp.Expr) -> str:
        """DuckDB SQL over k*, a* and the window's columns."""
        return self.expression(node).sql

    def _match(self, node: exp.Expr) -> exp.Expr | None:
        """A key that the whole node is."""
        if isinstance(node, exp.Column) or type(node.unnest()) not in self._shapes or has_aggregate(node):
            return None
        if any(map(self._of_window, node.find_all(exp.Column))):
            return None
        try:
            key = self._by_text.get(self.rows.text(node))
        except StatementError:
            return None
        return column(key) if key else None

    def _column(self, node: exp.Column) -> exp.Expr:
        plain = len(node.parts) == 1
        low = node.name.lower()
        if plain and low in self.window_columns:
            return column(low)
        if plain and low == SET and self._set_key:
            return column(self._set_key)
        if plain and low in WINDOW_COLUMNS and low not in self.rows.columns:
            raise self.source.error(f"{node.name} needs a window behind the stream", node)
        name, fields = self.rows.split(node)
        known = self.rows.columns.get(name.name.lower())
        if known is not None:
            whole = self._by_text.get(self.rows.text(node))
            if whole:
                return column(whole)
            if key := self._by_text.get(self.rows.text(column(known.name))):
                value: exp.Expr = column(key)
                for each in fields:
                    value = struct_field(value, each.name)
                return value
        if plain and low in self.rows.aliases and low not in self._open:
            self._open.append(low)
            try:
                return exp.Paren(this=self._resolver.resolve(self.rows.aliases[low]))
            finally:
                self._open.pop()
        if known is not None:
            raise self.source.error(
                f"column '{known.name}' is neither grouped nor inside an aggregate",
                node,
                f"GROUP BY {known.name}, or an aggregate such as max({known.name})",
            )
        raise self.rows.unknown(name)

    def _call(self, node: exp.Expr) -> exp.Expr:
        call = self._reader.read(node)
        call.range, call.since = self._window_of(node)
        name, _ = self._calls.setdefault(call.key, (f"a{len(self._calls)}", call))
        return column(name)

    def _type_of(self, sql: str) -> str:
        """The type of SQL over groups, which is asked for before keys and aggregates have theirs."""
        kinds = {k.name: self.rows.type_of(f"any_value({k.expression})") for k in self.keys}
        kinds |= {name: self.rows.type_of(call.sql) for name, call in self._calls.values()}
        kinds |= dict.fromkeys(WINDOW_COLUMNS, "TIMESTAMP") | self.window_columns
        try:
            return typed_relation([Column(name, kind) for name, kind in kinds.items() if kind]).types([sql])[0]
        except Refused:
            return ""

    # -- types ---------------------------------------------------------------------------------------------------

    def settle(self, typer: Typer, where: Item | None) -> None:
        """Give keys and aggregates their types and check WHERE; `typer` is over the stream's columns."""
        calls = list(self._calls.values())
        keys = [Item(k.expression, n) for k, n in zip(self.keys, self._key_nodes, strict=True)]
        arguments = [Item(a, n) for _, c in calls for a, n in zip(c.arguments, c.argument_nodes, strict=True)]
        orders = [Item(t.expression, n) for _, c in calls for t, n in zip(c.order, c.order_nodes, strict=True)]
        conditions = [("WHERE", where)] if where is not None else []
        for _, call in calls:
            if call.filter is not None and call.filter_node is not None:
                conditions.append(("FILTER", Item(call.filter, call.filter_node)))
        typed = iter(typer.typed([*(item for _, item in conditions), *keys, *arguments, *orders]))
        for clause, item in conditions:
            typer.truth(clause, item, next(typed).type)
        self.keys = [Key(k.name, self._of_set(k.name, without_sign(next(typed)))) for k in self.keys]
        if self._set_key:
            self.keys.append(Key(self._set_key, Expression(SET).typed("BIGINT")))
        given = [tuple(next(typed) for _ in call.arguments) for _, call in calls]
        ordered = [tuple(dataclasses.replace(t, expression=next(typed)) for t in call.order) for _, call in calls]
        results = typer.typed([Item(Expression(call.sql), call.node) for _, call in calls])
        self.aggregates = [
            Aggregate(
                name, call.function, values, call.distinct, call.filter and call.filter.typed("BOOLEAN"), order,
                tuple(call.parameters), result.type, call.range, since=call.since,
            )
            for (name, call), values, order, result in zip(calls, given, ordered, results, strict=True)
        ]  # fmt: skip

    def _of_set(self, name: str, key: Expression) -> Expression:
        """A key as it is in each grouping set."""
        if not self._set_key:
            return key
        bits = self._bits.get(name, 0)
        return key.within(f"CASE WHEN ({SET} & {bits}) <> {bits} THEN (", ") END", key.type) if bits else key

    @property
    def columns(self) -> tuple[Column, ...]:
        """What expressions over groups can refer to."""
        window = tuple(Column(name, kind) for name, kind in self.window_columns.items())
        return (
            *(Column(k.name, k.type) for k in self.keys),
            *(Column(a.name, a.type) for a in self.aggregates),
            *window,
        )
