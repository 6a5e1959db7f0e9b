"""Joins as they are written: what DuckDB's grammar refuses and the parser takes, and what streams make no sense of.

FROM s [NOW] NATURAL JOIN t ON t.k = s.k      two answers to one question: which columns are compared
FROM s [NOW] POSITIONAL JOIN t                rows of streams stand in no order but that of their times
FROM s [NOW] LEFT JOIN t                      compared how?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.syntax.source_text import Source
from millpond.types import Column

#: How types of numbers begin.
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip


def check_joins(select: exp.Expr, source: Source, ordered: bool = False) -> None:
    """Refuse joins whose words do not go together.

    Arguments:
        ordered: whether rows of all items stand in an order, so that POSITIONAL says something.
    Raises: StatementError with the place.
    """
    for join in select.find_all(exp.Join, bfs=False):
        name, on, using = join.this.alias_or_name, join.args.get("on"), join.args.get("using")
        if join.method == "POSITIONAL" and not ordered:
            raise source.error(
                "POSITIONAL JOIN pairs rows by their order, and those of a stream come in any", join.this,
                f"JOIN {name} ON …",
            )  # fmt: skip
        if join.method == "NATURAL" and (on is not None or using is not None):
            raise source.error(
                "NATURAL JOIN compares the columns that have the same names, and takes no other condition",
                on if on is not None else using[0] if using else join.this,
                f"NATURAL JOIN {name}, or JOIN {name} ON …",
            )  # fmt: skip
        if using is not None and (on is not None or not using):
            what = "USING names the columns that are compared" if not using else "a join has ON or USING, not both"
            raise source.error(what, on if on is not None else join.this, f"JOIN {name} USING (k), or ON …")


def check_conditions(tree: exp.Expr, source: Source) -> None:
    """Refuse joins that need a condition and have none, be it one that follows from what a table says of its rows.

    Raises: StatementError with the place.
    """
    for join in tree.find_all(exp.Join, bfs=False):
        if join.args.get("on") is not None or join.args.get("using") or join.method in ("NATURAL", "POSITIONAL"):
            continue
        name = join.this.alias_or_name
        if join.method == "ASOF":
            works = f"ASOF JOIN {name} ON {name}.k = s.k AND s.ts >= {name}.ts"
            raise source.error(f"ASOF JOIN finds the latest row of {name}: by which columns?", join.this, works)
        kind = " ".join(w for w in (join.side, join.kind) if w in ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
        if kind:
            works = f"{kind} JOIN {name} ON …, or USING (…)"
            raise source.error(f"{kind} JOIN needs to be told how rows are compared", join.this, works)


def check_types(tree: exp.Expr, columns: Mapping[str, Sequence[Column]], source: Source) -> None:
    """Refuse joins by a text and a number: each text that is no number would be an error of its own.

    Arguments:
        tree: the bound SELECT. columns: by generated name of a FROM item.
    Raises: StatementError with the place.
    """
    for select in tree.find_all(exp.Select):
        joins, clause = select.args.get("joins") or [], select.args.get("from_")
        if clause is None or not joins:
            continue
        items = [i for i in (clause.this, *(j.this for j in joins)) if isinstance(i, exp.Table) and i.name in columns]
        tests = [j.args["on"] for j in joins if j.args.get("on") is not None]
        tests += [w.this for w in [select.args.get("where")] if w is not None]
        for node, _ in (factor for test in tests for factor in conjuncts(test)):
            if isinstance(node, exp.EQ):
                _check_equality(node, items, columns, source)


def _check_equality(
    node: exp.EQ, items: Sequence[exp.Table], columns: Mapping[str, Sequence[Column]], source: Source
) -> None:
    sides = [(side, _column_of(side, items, columns)) for side in (node.this, node.expression)]
    texts = [side for side, kind in sides if kind == "VARCHAR"]
    numbers = [side for side, kind in sides if kind.startswith(_NUMBERS)]
    if texts and numbers:
        text, number = texts[0].sql(), numbers[0].sql()
        raise source.error(
            f"{text} is a text and {number} a number: how are they compared?", node,
            f"{text} = CAST({number} AS TEXT), or TRY_CAST({text} AS BIGINT) = {number}, which is NULL for other texts",
        )  # fmt: skip


def _column_of(node: exp.Expr, items: Sequence[exp.Table], columns: Mapping[str, Sequence[Column]]) -> str:
    """The type of a column of one of the items; '' for everything else."""
    if not isinstance(node, exp.Column) or len(node.parts) > 2:
        return ""
    own = [i for i in items if not node.table or i.alias_or_name.lower() == node.table.lower()]
    found = [c.type for i in own for c in columns[i.name] if c.name.lower() == node.name.lower()]
    return found[0] if len(found) == 1 else ""
