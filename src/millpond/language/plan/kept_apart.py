"""Which columns tell rows apart that never have a say in one row of the answer: the groups that a SELECT keeps apart.

Of a column that each row of the answer shows unchanged, and by which all groups are made, the rows with one value give
the rows of the answer with the same value, whatever other rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millpond.language.rewrite.semi import looks_at_many
from millpond.types import Column, LatestRowsWindow, RelationWindow

#: What a SELECT that keeps groups apart must not have: all rows have a say in it.
_OF_ALL = ("qualify", "windows", "limit", "offset", "with_", "joins", "laterals")


def kept_apart(
    tree: exp.Expr, columns: Mapping[str, Sequence[Column]], windows: Mapping[str, RelationWindow]
) -> tuple[tuple[str, int], ...]:
    """The columns of the one stream of a bound SELECT whose values it keeps apart, each with its place in the answer.

    Arguments:
        columns: by generated name, of the inputs and tables. windows: of the inputs.
    """
    found = _shown(tree, columns)
    table = tree.find(exp.Table)
    window = None if table is None else windows.get(table.name)
    if window is None:  # a table changes for all groups at once
        return ()
    if isinstance(window, LatestRowsWindow):  # rows push others out of their own partition
        found = [name if name in window.partition else None for name in found]
    return tuple((name, place) for place, name in enumerate(found) if name is not None)


def _shown(tree: exp.Expr, columns: Mapping[str, Sequence[Column]]) -> list[str | None]:
    """Of each column of a SELECT, which column of the stream it is, where rows that differ there are kept apart."""
    if isinstance(tree, exp.Subquery):
        return _shown(tree.this, columns)
    clause = tree.args.get("from_")
    if not isinstance(tree, exp.Select) or clause is None or any(tree.args.get(key) for key in _OF_ALL):
        return []
    item = clause.this
    if isinstance(item, exp.Table):
        given = {c.name.lower(): c.name for c in columns[item.name]}
        names = [c.name for c in columns[item.name]]
    else:
        inner = _shown(item, columns)
        names = [each.alias_or_name for each in item.this.expressions] if inner else []
        given = {name.lower(): kept for name, kept in zip(names, inner, strict=True) if kept is not None}
    if sum(1 for _ in tree.find_all(exp.Query)) > 1 + sum(1 for _ in item.find_all(exp.Query)):
        return []  # a subquery looks at all rows
    outputs = _outputs(tree, names)
    group, distinct = tree.args.get("group"), tree.args.get("distinct")
    if tree.find(exp.Window) is not None or (distinct is not None and distinct.args.get("on") is not None):
        return []
    found = [given.get(each.name.lower()) if isinstance(each, exp.Column) else None for each in outputs]
    if group is None:
        return found if not looks_at_many(_bare(tree)) else []
    keys = _keys(group, tree, given)
    return [name if name in keys else None for name in found]


def _bare(tree: exp.Select) -> exp.Select:
    """A SELECT without what it is from."""
    tree = tree.copy()
    tree.set("from_", None)
    return tree


def _outputs(tree: exp.Select, names: Sequence[str]) -> list[exp.Expr]:
    """The expressions of a select list, stars spelt out."""
    found: list[exp.Expr] = []
    for each in tree.expressions:
        if isinstance(each, exp.Star) and not any(each.args.values()):
            found += [exp.column(name, quoted=True) for name in names]
        elif isinstance(each, exp.Star) or (each.find(exp.Star) is not None and isinstance(each, exp.Column)):
            return []
        else:
            found.append(each.this if isinstance(each, exp.Alias) else each)
    return found


def _keys(group: exp.Group, tree: exp.Select, given: Mapping[str, str]) -> set[str]:
    """The columns of the stream by which a SELECT groups."""
    if any(value for name, value in group.args.items() if name not in ("expressions", "all")):
        return set()
    outputs = [each.this if isinstance(each, exp.Alias) else each for each in tree.expressions]
    by = [*group.expressions, *(outputs if group.args.get("all") else ())]
    places = [outputs[int(each.name) - 1] if isinstance(each, exp.Literal) and each.is_int else each for each in by]
    # Where another column goes by the name, it may be that one.
    taken = {
        each.alias.lower()
        for each in tree.expressions
        if isinstance(each, exp.Alias) and each.this.name.lower() != each.alias.lower()
    }
    names = (each.name.lower() for each in places if isinstance(each, exp.Column))
    return {given[name] for name in names if name in given and name not in taken}
