"""The columns of a bound SELECT by DuckDB, and what it says against it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from millpond.functions import display
from millpond.language.check.complaints import culprit
from millpond.language.inference.duck import Refused, describe
from millpond.language.resolve.expressions import (
    function_name,
)
from millpond.language.resolve.relation_refs import RelationRef
from millpond.language.syntax.source_text import Source, nearest, own_span
from millpond.support.errors import StatementError
from millpond.support.sql import quote
from millpond.types import Column, projected

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
        f"{quote(r.alias)} AS (SELECT {', '.join(projected('NULL', c.type, c.name) for c in r.columns)})" for r in refs
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
