"""Constants that cannot be what they are compared with: `n > 'abc'` for a number n, which would fail on every row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from millpond.language.conditions.axes import ConstantFault
from millpond.language.conditions.factors import FactorReader
from millpond.language.inference.duck import Refused, typed_relation
from millpond.language.syntax.source_text import Source
from millpond.support.errors import StatementError
from millpond.types import Column


def type_over(columns: Sequence[Column], node: exp.Expr, sql: str) -> str:
    """The type of an expression over some columns, given as node and SQL; '' where DuckDB refuses it."""
    if isinstance(node, exp.Column):
        found = next((c.type for c in columns if c.name == node.name), None)
        if found is not None:
            return found
    try:
        return typed_relation(tuple(columns)).types([sql])[0]
    except Refused:
        return ""


def fault_of(fault: ConstantFault, written: Iterable[exp.Expr], source: Source) -> StatementError:
    """The error for a constant, with its place in the conditions as they are written."""
    found = (x for c in written for x in c.find_all(exp.Literal) if x.name == fault.text)
    return source.error(str(fault), next(found, None))


def check_constants(
    factors: Iterable[tuple[exp.Expr, bool]], columns: Sequence[Column], written: Iterable[exp.Expr], source: Source
) -> None:
    """Refuse a condition whose constants are no values of the type that they are compared with.

    Arguments:
        factors: as `factors.conjuncts` gives them, over `columns`. written: the conditions as they are written.
    Raises: StatementError with the place of the constant.
    """
    reader = FactorReader(lambda node, sql: type_over(columns, node, sql))
    try:
        for node, negated in factors:
            reader.read(node, negated)
    except ConstantFault as fault:
        raise fault_of(fault, written, source) from None
