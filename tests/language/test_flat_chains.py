"""Long flat chains of operators: a tree of the same terms in their order that is not deep."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millpond.language import parse
from millpond.language.syntax.flat_chains import MOST_TERMS, flattened


def _tree(text: str) -> exp.Expr:
    [statement] = parse(f"SELECT {text} AS x FROM s")
    node: exp.Expr = statement.select.tree.expressions[0].this  # type: ignore[attr-defined]  # it is a SELECT
    return node


def _depth(node: exp.Expr) -> int:
    return 1 + max((_depth(each) for each in node.iter_expressions()), default=0)


@pytest.mark.parametrize("operator", ["+", "*", "||", "AND", "OR", "&", "|"])
def test_a_long_chain_is_as_deep_as_its_logarithm(operator: str) -> None:
    tree = _tree(f" {operator} ".join(f"c{n}" for n in range(5000)))
    assert [column.name for column in tree.find_all(exp.Column, bfs=False)] == [f"c{n}" for n in range(5000)]
    assert _depth(tree) < 40


def test_a_short_chain_stays_as_it_is_written() -> None:
    terms = [f"c{n}" for n in range(MOST_TERMS - 1)]
    tree = _tree(" + ".join(terms))
    assert _depth(tree) >= len(terms) and tree.sql() == " + ".join(terms)


def test_chains_within_chains() -> None:
    inner = " + ".join(["a"] * 300)
    tree = _tree(" OR ".join(f"({inner}) = {n} AND b" for n in range(300)))
    assert _depth(tree) < 60
    assert sum(1 for each in tree.find_all(exp.EQ)) == 300


def test_what_is_not_associative_keeps_its_order() -> None:
    terms = " - ".join(["c"] * 200)
    assert _tree(terms).sql() == terms
    assert flattened(exp.column("a")).sql() == "a"
