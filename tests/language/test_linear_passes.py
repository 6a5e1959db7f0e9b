"""Long flat expressions: every pass looks at each node a bounded number of times, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlglot import exp
from tests.language.conftest import Catalog

from millpond.language import bind_select, bind_standing, parse
from millpond.language.syntax.flat_chains import MOST_TERMS
from millpond.support.errors import StatementError

BASE: Any = next(each for each in exp.Column.__mro__ if "find_ancestor" in each.__dict__)
BESIDE = "FROM reading, (SELECT 1) AS t"


def _listed(each: Callable[[int], str], between: str) -> Callable[[int], str]:
    return lambda count: between.join(each(number) for number in range(count))


ADDED = _listed(lambda _: "n", " + ")
EITHER = _listed(lambda number: f"n = {number}", " OR ")
NUMBERS = _listed(str, ", ")
ITEMS = _listed(lambda number: f"n + {number} AS c{number}", ", ")
SUMS = _listed(lambda number: f"sum(n + {number}) AS c{number}", ", ")
CASES = _listed(lambda number: f"WHEN n = {number} THEN {number}", " ")

FORMS: dict[str, Callable[[int], str]] = {
    "a sum": lambda n: f"SELECT {ADDED(n)} AS x {BESIDE}",
    "items": lambda n: f"SELECT {ITEMS(n)} {BESIDE}",
    "CASE": lambda n: f"SELECT CASE {CASES(n)} END AS x {BESIDE}",
    "a list": lambda n: f"SELECT [{NUMBERS(n)}] AS x {BESIDE}",
    "a condition of a relation": lambda n: f"SELECT sensor FROM reading [RANGE 1 HOUR] WHERE {EITHER(n)}",
    "IN of a relation": lambda n: f"SELECT n IN ({NUMBERS(n)}) AS x FROM reading [RANGE 1 HOUR]",
    "a condition of windows": lambda n: f"SELECT count(*) FROM reading [RANGE TUMBLING 1 HOUR] WHERE {EITHER(n)}",
    "sums of windows": lambda n: f"SELECT {SUMS(n)} FROM reading [RANGE TUMBLING 1 HOUR]",
    "a condition of rows": lambda n: f"SELECT sensor FROM reading WHERE ({EITHER(n)}) BEGIN NOW - 1 HOUR END NOW",
    "a union": lambda n: " UNION ALL ".join(["SELECT n FROM reading"] * (n // 4)),
}


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often a node was looked at: asked for those below it, or passed on the way up."""
    count = [0]
    below = BASE.iter_expressions

    def iter_expressions(self: exp.Expr, *args: Any, **named: Any) -> Any:
        count[0] += 1
        return below(self, *args, **named)

    def find_ancestor(self: exp.Expr, *types: type[exp.Expr]) -> exp.Expr | None:
        node = self.parent
        while node is not None and not isinstance(node, types):
            count[0] += 1
            node = node.parent
        return node

    monkeypatch.setattr(BASE, "iter_expressions", iter_expressions)
    monkeypatch.setattr(BASE, "find_ancestor", find_ancestor)
    yield count


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bind", [bind_select, bind_standing], ids=["ad hoc", "standing"])
@pytest.mark.parametrize("terms", [MOST_TERMS // 4, MOST_TERMS + 2], ids=["as written", "as shallow trees"])
def test_twice_as_many_terms_are_twice_as_many_visits(
    visits: list[int], catalog: Catalog, form: str, bind: Callable[..., object], terms: int
) -> None:
    found = []
    for count in (terms, 2 * terms - 2):
        [statement] = parse(FORMS[form](count))
        visits[0] = 0
        try:
            bind(statement.select, catalog)  # type: ignore[attr-defined]  # it is a SELECT
        except StatementError:
            assert bind is bind_standing  # it is nothing that may stand, which takes as long to find
        found.append(visits[0])
    assert found[1] <= 2.2 * found[0]
