"""What a SELECT over relations may consist of: an allow-list of nodes, their arguments, and functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from sqlglot import exp

from millpond.language.builtins.allowed import RELATION_FUNCTIONS, WINDOW_FUNCTIONS
from millpond.language.resolve.expressions import (
    SCALAR_NODES,
    check_arguments,
    check_word,
    function_name,
    refuse,
    unknown_function,
)
from millpond.language.resolve.registered_calls import check_call
from millpond.language.syntax.nodes import FromItem, RegisteredCall
from millpond.language.syntax.source_text import Source, own_span

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
    exp.Table: frozenset({"this", "alias", "pivots"}),
    FromItem: frozenset({"this", "alias", "suffix", "pivots"}),
    exp.TableAlias: frozenset({"this", "columns"}),
    exp.Subquery: frozenset({"this", "alias", "pivots"}) | _MODIFIERS,
    exp.Values: frozenset({"expressions", "alias"}),
    exp.Lateral: frozenset({"this", "alias"}),
    exp.Unnest: frozenset({"expressions", "alias"}),
    exp.Pivot: frozenset({"this", "alias", "expressions", "fields", "using", "group", "unpivot", "into", "columns",
                          "include_nulls", "pivot_column_naming"}),
    exp.PivotAlias: frozenset({"this", "alias"}),
    exp.UnpivotColumns: frozenset({"this", "expressions"}),
    exp.With: frozenset({"expressions", "recursive"}),
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
    exp.Limit: frozenset({"expression", "limit_options"}),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.LimitOptions: frozenset({"percent", "rows"}),
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
    exp.In: frozenset({"this", "expressions", "query", "field"}),
    **dict.fromkeys((exp.Exists, exp.Any, exp.All), frozenset({"this"})),
    exp.Collate: frozenset({"this", "expression"}),
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.TryCast: frozenset({"this", "to", "safe"}),
}  # fmt: skip


def _nodes(select: exp.Expr) -> Iterator[tuple[exp.Expr, bool]]:
    """Every node but types, which `type_sql` checks, from the outside in; and whether a call with OVER is around it.

    Looking up from each node instead would visit the nodes of a flat sum, which is a deep tree, a square of times.
    """
    waiting = deque([(select, False)])
    while waiting:
        node, windowed = waiting.popleft()
        if isinstance(node, exp.DataType | exp.DataTypeParam | exp.ColumnDef):
            continue
        yield node, windowed
        below = windowed or isinstance(node, exp.Window)
        waiting.extend((child, below) for child in node.iter_expressions())


def check_nodes(select: exp.Expr, source: Source) -> None:
    """Refuse what is not listed.

    Raises: StatementError with the place.
    """
    for node, windowed in _nodes(select):
        if isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Identifier | exp.Literal):
            continue
        if type(node) not in _NODES:
            raise refuse(node, source)
        check_arguments(node, _NODES[type(node)], source)
        check_word(node, source)
        if isinstance(node, exp.Anonymous) and not isinstance(node.parent, exp.Table):
            name = function_name(node)
            if isinstance(node, RegisteredCall) and name not in RELATION_FUNCTIONS:
                check_call(node, source)
                continue
            if isinstance(node.this, exp.Identifier) or name not in RELATION_FUNCTIONS:
                raise unknown_function(node, source, RELATION_FUNCTIONS)
            if name == "age" and len(node.expressions) < 2:
                raise source.error("age with one argument depends on when it runs", own_span(node), "age(a, b)")
            if name in WINDOW_FUNCTIONS and not windowed:
                raise source.error(f"function {name} needs OVER", own_span(node), f"{name}(…) OVER (ORDER BY …)")
        if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier):
            raise source.error("a field is a name", node.expression)
