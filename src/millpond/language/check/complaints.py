"""Where a SELECT is wrong of which DuckDB says only what is wrong: the part without which it has nothing to say.

Its messages quote names at best. A comparison of a text with a number, or a second inequality in an ASOF join, is found
by leaving out parts (factors of conditions, items of SELECT lists), one after the other, as in delta debugging (Zeller
and Hildebrandt 2002): the part without which DuckDB is content is the culprit. Only wrong statements cost it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from millpond.language.conditions.conjuncts import conjuncts
from millpond.language.inference.duck import Refused, describe
from millpond.language.syntax.source_text import span

#: So many parts are left out at most; a statement with more is pointed at as a whole.
_PARTS = 64


def parts_of(tree: exp.Expr) -> Iterator[exp.Expr]:
    """What can be left out of a SELECT: factors of ON, WHERE and HAVING, then items of SELECT lists.

    The last factor of a condition comes first: where two do not go together, the second is the one too many.
    """
    conditions = [join.args["on"] for join in tree.find_all(exp.Join, bfs=False) if join.args.get("on")]
    conditions += [clause.this for clause in tree.find_all(exp.Where, exp.Having, bfs=False)]
    for condition in conditions:
        yield from (node for node, _ in reversed(conjuncts(condition)))
    for select in tree.find_all(exp.Select, bfs=False):
        yield from (e.this if isinstance(e, exp.Alias) else e for e in select.expressions)


def culprit(tree: exp.Expr, question: Callable[[exp.Expr], str]) -> tuple[int, int] | None:
    """The characters of the part of a SELECT that DuckDB refuses; None where none is refused by itself.

    Arguments:
        tree: a SELECT that is refused. question: the SQL that asks DuckDB about a tree like it; it may change the tree.
    """
    parts = [part for part in parts_of(tree) if span(part) is not None]
    if len(parts) > _PARTS:
        return None
    numbers = {id(node): number for number, node in enumerate(tree.walk())}
    for part in parts:
        without = tree.copy()
        node = next(n for number, n in enumerate(without.walk()) if number == numbers[id(part)])
        node.replace(exp.Null() if isinstance(part.parent, exp.Select | exp.Alias) else exp.true())
        try:
            describe(question(without))
        except Refused:
            continue
        return span(part)
    return None
