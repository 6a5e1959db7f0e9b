"""Expressions know what they are made of: from the checked tree, and from SQL that was written down before they did."""

from __future__ import annotations

import pytest
from tests.language.conditions import condition

from millpond.types import Expression, all_of, columns_read, composed
from millpond.types.sql_expressions import parsed

F, G = "udf__f__00000000_1", "udf__g__00000000_2"


@pytest.mark.parametrize(
    ("written", "columns", "calls"),
    [
        ("a > 1", ["a"], []),
        ('"b ""b""" = \'"a" udf__f__00000000_1(c)\'', ['b "b"'], []),
        ("a + a * 2 > b AND upper(c) = 'X'", ["a", "b", "c"], ["+", "*", "upper"]),
        ("1 = 1", [], []),
        (f"{F}(a, 'x') AND NOT {G}(a + b)", ["a", "b"], [F, G, "+"]),
        ("CASE WHEN a THEN b ELSE c END IN (1, 2)", ["a", "b", "c"], []),
        ("a LIKE 'x%' OR b IS NULL OR c BETWEEN 1 AND 2", ["a", "b", "c"], []),
    ],
)
def test_columns_and_calls(written: str, columns: list[str], calls: list[str]) -> None:
    found = condition(written)
    assert (list(found.columns), list(found.calls)) == (columns, calls)
    again = parsed(found.sql)
    assert again == found and set(again.columns) == set(columns) and set(calls) <= set(again.calls)
    assert again.registered == found.registered


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        (f"a = 1 OR {F}(v)", []),
        (f"NOT (\"a AND b\" = ' AND ') AND (c) AND {F}(v)", ["NOT (\"a AND b\" = ' AND ')", '"c"', f'{F}("v")']),
        (f"(a AND b) AND ({F}(c) AND (d))", ['"a"', '"b"', f'{F}("c")', '"d"']),
        (f"a OR b AND {F}(c)", []),
        (
            f"a BETWEEN 1 AND 2 AND CASE WHEN a AND b THEN {F}(c) END",
            ['"a" BETWEEN 1 AND 2', f'CASE WHEN "a" AND "b" THEN {F}("c") END'],
        ),
    ],
)
def test_conjuncts_of_what_calls_registered_functions(written: str, parts: list[str]) -> None:
    found = condition(written)
    assert [str(each) for each in found.conjuncts] == parts
    again = parsed(found.sql).conjuncts
    assert [set(each.columns) for each in again] == [set(each.columns) for each in found.conjuncts]


@pytest.mark.parametrize(
    ("written", "arguments", "rest"),
    [
        (f"{F}(b, 'x')", ['"b"', "'x'"], None),
        (f"(({F}(b) = TRUE))", ['"b"'], None),
        (f"TRUE = {F}(b)", ['"b"'], None),
        (f"{F}(b + 1) > 3", ['"b" + 1'], '"_u0" > 3'),
        (f"NOT {F}({G}(b))", [f'{G}("b")'], 'NOT "_u0"'),
        (f"{F}(b) IN (1, 2)", ['"b"'], '"_u0" IN (1, 2)'),
    ],
)
def test_the_call_that_is_made_for_every_row(written: str, arguments: list[str], rest: str | None) -> None:
    call = condition(written).call
    assert call is not None and call.reference == F
    assert [str(each) for each in call.arguments] == arguments
    assert (None if call.rest is None else str(call.rest)) == rest


@pytest.mark.parametrize(
    "written",
    [
        f"CASE WHEN a THEN {F}(b) END",
        f"a OR {F}(b)",
        f"coalesce({F}(b), TRUE)",
        f"upper({F}(b)) = 'X'",
        f"{F}(b) = {G}(b)",
        "a > 1",
    ],
)
def test_calls_that_others_decide_on_are_made_by_duckdb(written: str) -> None:
    assert condition(written).call is None


def test_expressions_are_put_together() -> None:
    one, two = condition(f"a > 1 AND {F}(b)"), condition("c = 'x'")
    both = all_of([one, two])
    assert both is not None and both.columns == ("a", "b", "c") and both.registered == (F,)
    assert [str(each) for each in both.conjuncts] == ['"a" > 1', f'{F}("b")', "\"c\" = 'x'"]
    assert all_of([]) is None and all_of([two]) is two
    assert columns_read(one, None, two) == {"a", "b", "c"}
    assert composed("x", "VARCHAR", [one, two], ["d"]).columns == ("a", "b", "c", "d")
    assert f"{Expression.column_of('a')}" == '"a"' and two.column is None


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="no expression: a b c"):
        parsed("a b c")


def test_expressions_made_of_others_have_a_type() -> None:
    one = condition("a > 1")
    assert one.within("NOT (", ")", "BOOLEAN").type == "BOOLEAN"
    assert composed("a + 1", "INTEGER", [one]).type == "INTEGER"
