"""What a scan of one stream cannot answer by itself: its rows are needed as a table."""

from __future__ import annotations

from collections.abc import Iterator, Set

from sqlglot import exp

from millpond.language.builtins.allowed import AGGREGATES, RELATION_FUNCTIONS, SCALARS
from millpond.language.resolve.expressions import function_name

_TABULAR = (
    exp.Window, exp.Lateral, exp.Unnest, exp.Pivot, exp.GroupingSets, exp.Cube, exp.Rollup, exp.Collate, exp.Any,
    exp.All, exp.Fetch, exp.LimitOptions, exp.Values, exp.Query,
)  # fmt: skip
_CLAUSES = ("joins", "laterals", "with_", "qualify", "windows")

#: Calls that answer the first n values, by their number of arguments.
_OF_SEVERAL = {"min": 2, "max": 2, **dict.fromkeys(("arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by"), 3)}
_ONLY_TABULAR = RELATION_FUNCTIONS - SCALARS - AGGREGATES.keys()


def beyond_scans(select: exp.Select, columns: Set[str] = frozenset()) -> exp.Expr | None:
    """The first part of a SELECT over one stream that needs its rows as a table; None where a scan answers it.

    Arguments:
        columns: names of the stream's columns, in small letters.

    >>> import sqlglot
    >>> beyond_scans(sqlglot.parse_one("SELECT k, sum(v) FROM s GROUP BY k", dialect="duckdb")) is None
    True
    >>> beyond_scans(sqlglot.parse_one("SELECT k FROM s GROUP BY CUBE (k)", dialect="duckdb")).sql()
    'CUBE (k)'
    """
    return next(_tabular(select, columns), None)


def _tabular(select: exp.Select, columns: Set[str]) -> Iterator[exp.Expr]:
    for key in _CLAUSES:
        found = select.args.get(key)
        if found:
            yield found[0] if isinstance(found, list) else found
    distinct, clause = select.args.get("distinct"), select.args.get("from_")
    if distinct is not None and distinct.args.get("on") is not None:
        yield distinct
    table = clause.this if clause is not None else None
    if table is not None and (alias := table.args.get("alias")) is not None and alias.args.get("columns"):
        yield alias
    names = {table.name.lower(), table.alias_or_name.lower()} if table is not None else set()
    for node in select.walk():
        if node is not select and _is_tabular(node, names, columns):
            yield node


def _is_tabular(node: exp.Expr, names: Set[str], columns: Set[str]) -> bool:
    if isinstance(node, exp.Star):
        return bool(node.args.get("replace") or node.args.get("rename"))
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return len(node.parts) > 2 or node.parts[0].name.lower() not in names
    if isinstance(node, exp.Column):
        return len(node.parts) == 1 and node.name.lower() in names - columns  # a whole row
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        name = function_name(node)
        return name in _ONLY_TABULAR or len(node.expressions) == _OF_SEVERAL.get(name)
    return isinstance(node, _TABULAR)
