"""Binding by shape gives what ordinary binding gives."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.language.conftest import Catalog
from tests.language.test_factors import Typed, factors

from millpond.language import Binder, bind_standing, parse
from millpond.support.errors import StatementError
from millpond.types import Query, RowQuery, Staged

TEMPLATES = [
    "SELECT ts, mph FROM reading WHERE mph > {n} AND mph < {m}.5 AND price >= {n}.25 BEGIN NOW - {k} SECONDS END NOW",
    "SELECT count(*) FROM reading WHERE n BETWEEN -{n} AND {m} AND sensor = '{t}' AND (mph > {m} OR ok) LIMIT {k}",
    "SELECT n + {k}, sensor FROM reading WHERE n IN ({n}, {m}, {k}) AND sensor LIKE '{t}' AND n + {k} <> {m}",
    "SELECT ts FROM reading WHERE ts >= TIMESTAMP '2024-01-01 00:00:{k:02}' AND d < '2024-01-{k:02}' AND d <> '{t}'",
    "SELECT a.n FROM reading a, reading b WHERE a.n = b.n + {k} AND a.mph > {n} AND b.n <> {m} BEGIN NOW - {k} s FOR b",
    'SELECT ts AS "x{k}" FROM reading WHERE "Odd Name" = {n} AND NOT (n > {m}) AND n % {k} = {n} AND mph < {n}e{k}',
    "SELECT sensor, count(*) FROM reading [RANGE 5 m SLIDE {k} s] WHERE n > {n} GROUP BY sensor",
    "SELECT ts FROM reading WHERE n = '{t}' AND mph < '{n}'",
]


def ordinary(catalog: object, text: str) -> Query | Staged | str:
    try:
        (statement,) = parse(text)
        return bind_standing(statement.select, catalog)
    except StatementError as error:
        return str(error)


def by_shape(binder: Binder, text: str) -> Query | Staged | str:
    try:
        return binder.bind(text)
    except StatementError as error:
        return str(error)


CATALOG = Catalog()
BINDER = Binder(CATALOG)
NUMBERS = st.integers(0, 10**20) | st.integers(0, 20) | st.just(9223372036854775808)
TEXTS = st.sampled_from(["", "a", "a%", "a_b", "%", "it''s", "7", "2024-01-02", "x'' OR ''1", "é", "a\\b", "3.5"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEMPLATES), NUMBERS, NUMBERS, st.integers(1, 60), TEXTS)
def test_templates_are_what_ordinary_binding_says(template, n, m, k, t):
    for values in ({"n": 1, "m": 2, "k": 3, "t": "b"}, {"n": 3, "m": 4, "k": 3, "t": "c"}):
        by_shape(BINDER, template.format(**values))
    text = template.format(n=n, m=m, k=k, t=t)
    assert by_shape(BINDER, text) == ordinary(CATALOG, text)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(factors(), factors())
def test_any_condition(first, second):
    schema = Typed()
    binder = Binder(schema)
    for condition in (first, first, second, first, second):
        text = f"SELECT id FROM s WHERE {condition}"
        assert by_shape(binder, text) == ordinary(schema, text)


def test_a_known_shape_is_not_parsed_again(monkeypatch):
    binder = Binder(CATALOG)
    for n in (1, 2):
        binder.bind(f"SELECT ts FROM reading WHERE n > {n}")
    monkeypatch.setattr(binder, "ordinary", lambda text: pytest.fail("parsed again"))
    found = binder.bind("SELECT ts FROM reading WHERE n > 77")
    assert isinstance(found, RowQuery) and found.sides[0].boxes[0][0].low == 78
    assert found.query.text == "SELECT ts FROM reading WHERE n > 77"


def test_a_stream_that_is_declared_anew_is_noticed():
    catalog = Catalog()
    binder = Binder(catalog)
    text = "SELECT ts FROM clicks2 WHERE n > 3"
    for kind in ("INTEGER", "DOUBLE"):
        (statement,) = parse(f"CREATE STREAM clicks2 (ts TIMESTAMP, n {kind})")
        catalog.definitions["clicks2"] = statement.definition
        for _ in range(4):
            assert binder.bind(text) == ordinary(catalog, text)


@pytest.mark.parametrize("text", ["SHOW STREAMS", "SELECT ts FROM reading; SELECT 1", "", "SELECT mhp FROM reading"])
def test_what_is_no_query_is_refused(text):
    with pytest.raises(StatementError):
        Binder(CATALOG).bind(text)
