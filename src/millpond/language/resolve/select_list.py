"""The columns of an answer: names, stars, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millpond.language.render.rendering import as_written
from millpond.language.resolve.aggregate_calls import order_term
from millpond.language.resolve.expressions import column
from millpond.language.resolve.scope import WINDOW_COLUMNS, RowScope
from millpond.language.syntax.nodes import texts_of
from millpond.language.syntax.source_text import Source, nearest
from millpond.types import COVERED, NUMBER, Expression, OrderTerm
from millpond.types.columns import is_own, own_name_refused

#: Columns that answers have by themselves.
RESERVED = (*WINDOW_COLUMNS, NUMBER.name, "revision", COVERED, "op")

_MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True)
class SelectItem:
    """One item of a SELECT list: the expression, its alias where one is written, and its text."""

    node: exp.Expr
    alias: exp.Identifier | None = None
    text: str = ""

    @property
    def window_column(self) -> str | None:
        """`window_start`, `window_end` or `window_number` when the item is just that, which answers have anyway."""
        plain = isinstance(self.node, exp.Column) and not self.node.table and self.alias is None
        return self.node.name.lower() if plain and self.node.name.lower() in (*WINDOW_COLUMNS, NUMBER.name) else None


def select_items(select: exp.Select, source: Source) -> list[SelectItem]:
    """The SELECT list with aliases taken off; an alias may not be a column that answers have by themselves."""
    items: list[SelectItem] = []
    for node, text in zip(select.expressions, texts_of(select), strict=True):
        if not isinstance(node, exp.Alias):
            items.append(SelectItem(node, None, text))
            continue
        alias = node.args["alias"]
        if not isinstance(alias, exp.Identifier) or not alias.name:
            raise source.error("a name is missing after AS", node)
        check_alias(alias, RESERVED, source)
        items.append(SelectItem(node.this, alias))
    return items


def check_alias(alias: exp.Identifier, taken: Sequence[str], source: Source) -> None:
    """Refuse a name that answers have by themselves (`taken`), or the engine. Raises: StatementError."""
    if alias.name.lower() in taken:
        raise source.error(f"'{alias.name}' is a column that every answer has by itself", alias, "another name")
    if is_own(alias.name):
        message, other = own_name_refused(alias.name)
        raise source.error(message, alias, other)


def expand_stars(items: list[SelectItem], rows: RowScope, source: Source) -> list[SelectItem]:
    """`*`, `alias.*` and `* EXCLUDE (a)` as the stream's columns (queries over single rows)."""
    expanded: list[SelectItem] = []
    for item in items:
        star = item.node.this if isinstance(item.node, exp.Column) else item.node
        if not isinstance(star, exp.Star):
            expanded.append(item)
            continue
        if isinstance(item.node, exp.Column):
            of = item.node.parts[0]
            if of.name.lower() not in (rows.alias.lower(), rows.stream.name.lower()):
                raise source.error(f"there is no stream '{of.name}' here", of, like=nearest(of.name, [rows.alias]))
        for key, value in star.args.items():
            if value and key != "except_":
                raise source.error(f"* {key.upper()} is not available", star, "* EXCLUDE (column)")
        left_out: set[str] = set()
        for each in star.args.get("except_") or ():
            if each.name.lower() not in rows.columns:
                raise source.error(f"there is no column '{each.name}'", each, like=nearest(each.name, rows.names()))
            left_out.add(each.name.lower())
        kept = [name for name in rows.names() if name.lower() not in left_out]
        if not kept:
            raise source.error("no column is left", star)
        expanded += [SelectItem(column(name)) for name in kept]
    return expanded


def names_of(items: Sequence[SelectItem], rows: RowScope, windowed: bool = True) -> list[str]:
    """Names of the answer's columns: alias, else column, else the text; repeated ones get _1, _2, …

    windowed: the answer has the reserved columns by itself. Else those of a derived stream keep their names.
    """
    taken = set(RESERVED) if windowed else set(RESERVED) - set(rows.columns)
    names: list[str] = []
    for item in items:
        wanted = name = _name(item, rows)
        count = 0
        while name.lower() in taken:
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name.lower())
        names.append(name)
    return names


def _name(item: SelectItem, rows: RowScope) -> str:
    if item.alias is not None:
        return item.alias.name
    node = item.node
    if isinstance(node, exp.Column):
        known = rows.columns.get(node.name.lower())
        return known.name if known is not None and len(node.parts) < 3 else node.name
    if isinstance(node, exp.Dot):
        return str(node.expression.name)
    return written_text(node, item.text)


def written_text(node: exp.Expr, text: str) -> str:
    """What stands for the name of an expression: its text, with white space made even."""
    written = " ".join(text.split())
    return written if written and "--" not in written and "/*" not in written else as_written(node)


def with_names(tree: exp.Expr) -> exp.Expr:
    """A SELECT whose items without a name have their text as the name, as in queries over streams.

    COLUMNS(…) stands for several items, which are called as the columns are.
    """
    tree = tree.copy()
    _name_items(tree)
    return tree


def _name_items(tree: exp.Expr) -> None:
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return
    for node, text in zip(tree.expressions, texts_of(tree), strict=True):
        if not isinstance(node, exp.Alias | exp.Column | exp.Star | exp.Dot) and not _is_many(node):
            alias = exp.Identifier(this=written_text(node, text), quoted=True)
            node.replace(exp.Alias(this=node.copy(), alias=alias))


def _is_many(node: exp.Expr) -> bool:
    """Whether an item holds COLUMNS(…)."""
    return any(call.name.lower() == "columns" for call in node.find_all(exp.Anonymous))


@dataclass(frozen=True)
class Order:
    """One term of ORDER BY, and the node to point at."""

    term: OrderTerm
    node: exp.Expr


def order_terms(
    select: exp.Select,
    items: Sequence[SelectItem],
    names: Sequence[str],
    values: Sequence[Expression],
    written: Sequence[SelectItem],
    bound: Callable[[exp.Expr], Expression],
    source: Source,
) -> list[Order]:
    """ORDER BY over names of the answer, ordinals, ALL, or expressions (as `bound` gives them).

    Arguments:
        items, names, values: the answer's columns.
        written: the SELECT list as written, which ordinals count in.
    """
    order = select.args.get("order")
    if order is None:
        return []
    by_name = {name.lower(): value for name, value in zip(reversed(names), reversed(values), strict=True)}
    distinct = bool(select.args.get("distinct"))
    terms: list[Order] = []
    for each in order.expressions:
        node = each.this if isinstance(each, exp.Ordered) else each
        plain = isinstance(node, exp.Column) and len(node.parts) == 1 and isinstance(node.this, exp.Identifier)
        if isinstance(node, exp.Var) and node.name.upper() == "ALL":
            terms += [Order(order_term(each, value), node) for value in values]
            continue
        if isinstance(node, exp.Literal) and not node.is_string:
            item = ordinal(node, written, "ORDER BY", source)
            by = bound(item.node)
        elif plain and node.name.lower() in by_name:
            by = by_name[node.name.lower()]
        else:
            by = bound(node)
        if distinct and by not in values and by.column not in WINDOW_COLUMNS:
            raise source.error("with DISTINCT, ORDER BY can only use columns of the answer", node)
        terms.append(Order(order_term(each, by), node))
    return terms


def ordinal(node: exp.Literal, items: Sequence[SelectItem], clause: str, source: Source) -> SelectItem:
    """The item that a number in GROUP BY or ORDER BY stands for."""
    if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
        raise source.error(f"{clause} {node.name}: there is no such item in SELECT", node, f"1 to {len(items)}")
    return items[int(node.name) - 1]


def constant(clause: exp.Expr | None, name: str, source: Source, per: bool = False) -> int | None:
    """The number behind LIMIT or OFFSET. per: PER may follow it."""
    if clause is None:
        return None
    node = clause.args.get("expression")
    extra = [k for k, v in clause.args.items() if v and k not in ("expression", *(["expressions"] if per else []))]
    if extra or not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        raise source.error(f"{name} takes a whole number", node if isinstance(node, exp.Expr) else clause, f"{name} 10")
    if int(node.name) > _MAX_INTEGER:
        raise source.error(f"{name} {node.name} is out of range", node)
    return int(node.name)
