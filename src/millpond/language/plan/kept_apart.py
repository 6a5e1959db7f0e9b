"""Which columns tell rows apart that never have a say in one row of the answer: the groups that a SELECT keeps apart.

Of a column that each row of the answer shows unchanged, and by which all groups are made, the rows with one value give
the rows of the answer with the same value, whatever other rows there are. Of a join that holds if rows that meet have
one value there, which its plan says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

from millpond.language.resolve.item_owners import Owners
from millpond.language.rewrite.semi import looks_at_many
from millpond.types import Column, LatestRowsWindow, RelationWindow

#: A column of an input, by the input's generated name; None: what a SELECT shows is something else.
Shown: TypeAlias = tuple[str, str] | None

#: What a SELECT that keeps groups apart must not have: all rows have a say in it.
_OF_ALL = ("qualify", "windows", "limit", "offset", "with_", "laterals")


def kept_apart(
    tree: exp.Expr, columns: Mapping[str, Sequence[Column]], windows: Mapping[str, RelationWindow]
) -> tuple[tuple[str, str, int], ...]:
    """The columns of streams whose values a bound SELECT keeps apart: input, column, and its place in the answer.

    Arguments:
        columns: by generated name, of the inputs and tables. windows: of the inputs.
    """
    found = [(*each, place) for place, each in enumerate(_shown(tree, columns)) if each is not None]
    return tuple((name, column, place) for name, column, place in found if _own_rows(windows.get(name), column))


def _own_rows(window: RelationWindow | None, column: str) -> bool:
    """Whether a window holds rows of one value of a column whatever the others are. A table has no window."""
    return window is not None and (not isinstance(window, LatestRowsWindow) or column in window.partition)


def _shown(tree: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> list[Shown]:
    """Of each column of a SELECT, which column of an input it is, where rows that differ there are kept apart."""
    if isinstance(tree, exp.Subquery):
        return _shown(tree.this, columns)
    clause = tree.args.get("from_")
    if not isinstance(tree, exp.Select) or clause is None or any(tree.args.get(key) for key in _OF_ALL):
        return []
    items = [clause.this, *(join.this for join in tree.args.get("joins") or ())]
    queries = sum(1 for item in items for _ in item.find_all(exp.Query))
    distinct, group = tree.args.get("distinct"), tree.args.get("group")
    if sum(1 for _ in tree.find_all(exp.Query)) > 1 + queries or tree.find(exp.Window) is not None:
        return []  # a subquery, or a window function, looks at all rows
    if distinct is not None and distinct.args.get("on") is not None:
        return []
    if all(isinstance(item, exp.Table) and item.name in columns for item in items):
        given, every = _of_tables(items, columns)
    elif len(items) == 1:
        given, every = _of_select(items[0], columns)
    else:
        return []
    found = [given(each) for each in _outputs(tree, every)]
    if group is not None:
        keys = _keys(group, tree, given)
        return [each if each in keys else None for each in found]
    bare = tree.copy()
    bare.set("from_", None)
    return [] if looks_at_many(bare) else found


#: Which column of an input an expression is.
Given: TypeAlias = Callable[[exp.Expr], Shown]


def _of_tables(items: Sequence[exp.Table], columns: Mapping[str, Sequence[Column]]) -> tuple[Given, list[exp.Expr]]:
    """What columns of tables are, and what a star stands for."""
    owners = Owners(items, columns)

    def given(node: exp.Expr) -> Shown:
        owner = owners.of(node) if isinstance(node, exp.Column) else None
        if owner is None:
            return None
        name = items[owner].name
        return name, next(c.name for c in columns[name] if c.name.lower() == node.name.lower())

    every: list[exp.Expr] = [exp.column(c.name, i.alias_or_name, quoted=True) for i in items for c in columns[i.name]]
    return given, every


def _of_select(item: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> tuple[Given, list[exp.Expr]]:
    """The same of a SELECT in parentheses."""
    inner = _shown(item, columns)
    names = [each.alias_or_name for each in item.this.expressions] if inner else []
    if len(names) != len(inner):  # a star stands there
        names = [""] * len(inner) if None in inner else [each[1] for each in inner if each is not None]
    known = dict(zip([name.lower() for name in names], inner, strict=True))
    every: list[exp.Expr] = [exp.column(name, quoted=True) for name in names]
    return lambda node: known.get(node.name.lower()) if isinstance(node, exp.Column) else None, every


def _outputs(tree: exp.Select, every: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The expressions of a select list, stars spelt out; none where a star stands for some columns alone."""
    found: list[exp.Expr] = []
    for each in tree.expressions:
        if isinstance(each, exp.Star) and not any(each.args.values()):
            found += every
        elif isinstance(each, exp.Star) or (isinstance(each, exp.Column) and isinstance(each.this, exp.Star)):
            return []
        else:
            found.append(_value(each))
    return found


def _value(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _keys(group: exp.Group, tree: exp.Select, given: Given) -> set[Shown]:
    """The columns of inputs by which a SELECT groups."""
    if any(value for name, value in group.args.items() if name not in ("expressions", "all")):
        return set()
    outputs = [_value(each) for each in tree.expressions]
    by = [*group.expressions, *(outputs if group.args.get("all") else ())]
    places = [outputs[int(each.name) - 1] if isinstance(each, exp.Literal) and each.is_int else each for each in by]
    # Where another column goes by the name, it may be that one.
    taken = {
        each.alias.lower()
        for each in tree.expressions
        if isinstance(each, exp.Alias) and each.this.name.lower() != each.alias.lower()
    }
    return {given(each) for each in places if isinstance(each, exp.Column) and each.name.lower() not in taken} - {None}
