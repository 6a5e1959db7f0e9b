"""`REDUCE …`: what it means, where it may stand, and what its errors point at."""

from __future__ import annotations

from typing import Any

import pytest
from tests.language.conftest import Catalog

from millpond.language import parse
from millpond.language.plan.binding import bind_query, bind_select
from millpond.support.errors import StatementError
from millpond.types import Reduction

WINDOW = "[RANGE 5 MINUTES SLIDE 1 MINUTE]"
DAY, HOUR = 86_400_000_000, 3_600_000_000


def bound(sql: str, catalog: Catalog, standing: bool = False) -> Any:
    (statement,) = parse(sql)
    bind = bind_query if standing else bind_select
    return bind(statement.select, catalog)


@pytest.mark.parametrize(
    ("text", "reduction"),
    [
        ("sample(0.4)", Reduction("sample", (0.4,))),
        ("sample(.4)", Reduction("sample", (0.4,))),
        ("SAMPLE( 0 )", Reduction("sample", (0.0,))),
        ("age('7 days', 0.9)", Reduction("age", (0.9,), (7 * DAY,))),
        ("age(INTERVAL '1 day', 0.5, '7 days', 0.9)", Reduction("age", (0.5, 0.9), (DAY, 7 * DAY))),
        ("load()", Reduction("load", (0.99,))),
        ("load(0.5)", Reduction("load", (0.5,))),
        ("error(0.01)", Reduction("error", error=0.01)),
        ("BY INTERVAL '1 hour'", Reduction("interval", spans=(HOUR,))),
        ("by interval 1 HOUR", Reduction("interval", spans=(HOUR,))),
        ("mine()", Reduction("mine")),
        ("Mine(2, -1.5, 'a')", Reduction("mine", arguments=(2, -1.5, "a"))),
    ],
)
def test_what_it_means(text: str, reduction: Reduction, catalog: Catalog) -> None:
    for sql in (
        f"SELECT count(*) FROM reading REDUCE {text}",
        f"SELECT count(*) FROM reading AS r REDUCE {text}",
        f"SELECT count(*) FROM reading REDUCE {text} AS r WHERE r.n > 3",
        f"SELECT count(*) FROM reading REDUCE {text} {WINDOW}",
        f"SELECT count(*) FROM reading {WINDOW} REDUCE {text} GROUP BY sensor",
        f"SELECT count(*) {WINDOW} FROM reading REDUCE {text}",
        f"SELECT count(*) FROM reading [ROWS 10 SLIDE 5] REDUCE {text}",
    ):
        assert bound(sql, catalog).reduce == reduction


def test_the_word_can_still_be_a_name(catalog: Catalog) -> None:
    assert bound("SELECT reduce.n FROM reading reduce WHERE reduce.n > 3", catalog).reduce is None
    assert bound("SELECT count(*) AS reduce FROM reading", catalog).reduce is None


def test_columns_that_tell_the_fidelity(catalog: Catalog) -> None:
    sql = "SELECT sensor, count(*) AS n, avg(mph), sum(n) + 1 AS e, max(n) AS hi, count(DISTINCT n) AS d"
    query = bound(f"{sql} FROM reading REDUCE sample(0.5) GROUP BY sensor", catalog)
    assert [o.name for o in query.select] == [
        "sensor", "n", "avg(mph)", "e", "hi", "d",
        "n_low", "n_high", "avg(mph)_low", "avg(mph)_high", "hi_bound", "d_bound", "fraction", "small",
    ]  # fmt: skip
    taken = bound("SELECT count(*) AS n, min(n) AS n_low FROM reading REDUCE sample(0.5)", catalog)
    assert [o.name for o in taken.select] == ["n", "n_low", "n_low_1", "n_high", "n_low_bound", "fraction", "small"]
    rows = bound("SELECT n FROM reading REDUCE sample(0.5)", catalog)
    assert [o.name for o in rows.select] == ["n", "fraction"]
    by_interval = bound("SELECT count(*) AS n FROM reading REDUCE BY INTERVAL '1 h'", catalog)
    assert [o.name for o in by_interval.select] == ["n"]


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("sample(1)", "from 0 to below 1", "1"),
        ("sample(-0.1)", "from 0 to below 1", "0.1"),
        ("sample('a')", "from 0 to below 1", "'a'"),
        ("sample()", "one fraction", "sample"),
        ("sample(0.1, 0.2)", "one fraction", "sample"),
        ("age(0.5)", "pairs", "age"),
        ("age('7 days')", "pairs", "age"),
        ("age('7 days', 0.9, '1 day', 0.95)", "ascending", "'1 day'"),
        ("age('1 day', 0.9, '7 days', 0.5)", "not read finer", "0.5"),
        ("age('1 month', 0.9)", "fixed length", "'1 month'"),
        ("age(7, 0.9)", "span of time", "7"),
        ("error(0)", "above 0", "0"),
        ("error()", "one number", "error"),
        ("smaple(0.4)", "no reduction function 'smaple'", "smaple"),
        ("min(0.4)", "no reduction function 'min'", "min"),
        ("sample", "parentheses", "sample"),
        ("interval('1 hour')", "without parentheses", "interval"),
        ("BY '1 hour'", "INTERVAL", "'1 hour'"),
        ("BY INTERVAL", "missing", None),
        ("sample(0.4", "not closed|missing", None),
        ("sample(0.4) REDUCE sample(0.2)", "second REDUCE", "REDUCE"),
    ],
)
def test_errors_point_at_what_is_wrong(text: str, message: str, at: str | None, catalog: Catalog) -> None:
    sql = f"SELECT count(*) FROM reading REDUCE {text}"
    with pytest.raises(StatementError, match=message) as caught:
        bound(sql, catalog)
    if at is not None:
        error = caught.value
        assert sql[error.start : error.end] == at or sql[error.start :].startswith(at)


def test_near_names_are_offered(catalog: Catalog) -> None:
    with pytest.raises(StatementError) as caught:
        bound("SELECT count(*) FROM reading REDUCE smaple(0.4)", catalog)
    assert "did you mean 'sample'" in str(caught.value)
    with pytest.raises(StatementError) as caught:
        bound("SELECT count(*) FROM reading REDUCE mien()", catalog)
    assert "did you mean 'mine'" in str(caught.value)


def test_only_streams_are_reduced(catalog: Catalog) -> None:
    for name in ("slow", "sensors"):
        (statement,) = parse(f"SELECT count(*) FROM {name} REDUCE sample(0.5)")
        with pytest.raises(StatementError, match="this is no stream"):
            bind_select(statement.select, catalog)
