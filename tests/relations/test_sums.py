"""Sums that can be taken back: floating numbers leave nothing behind, and what is no number is taken back as well."""

from __future__ import annotations

import math

import numpy as np

from millpond.relations.sums import MINUS_INFINITE, NAN, STEP, mantissas_of
from tests.oracle.cql import Stamped
from tests.relations.setting import Evaluated, bound, stored, stream

S, U = stream("s", a="INTEGER", b="DOUBLE"), stream("u", a="INTEGER", b="INTEGER")
TEXT = "SELECT x.a, sum(x.b) AS t, avg(x.b) AS m, count(*) AS n FROM s [RANGE 2 MICROSECONDS] x JOIN u y ON x.a = y.a"


def test_mantissas_are_the_numbers() -> None:
    values = np.array([0.1, -3.0, 1e300, 5e-324, -2.5e-310, 2.0**-1040, math.nan, -math.inf, 0.0])
    exponents, mantissas = mantissas_of(values)
    assert exponents[6:8].tolist() == [NAN, MINUS_INFINITE] and mantissas[-1] == 0
    back = [math.ldexp(float(m), int(e) * STEP) for e, m in zip(exponents[:6], mantissas[:6], strict=True)]
    assert back == values[:6].tolist() and (np.abs(mantissas[:6]) < 2**61).all()


def test_what_left_is_not_in_a_sum_any_more() -> None:
    query = bound(f"{TEXT} GROUP BY x.a", S, U)
    assert query.relation is not None and query.relation.plan == "grouped"
    given = [(1, (1, 1e17)), (1, (1, math.inf)), (2, (1, math.nan)), (3, (1, 0.1)), (4, (1, 0.2)), (5, (1, None))]
    rows = {
        "s": stored(S, [Stamped(at, n, values) for n, (at, values) in enumerate(given)]),
        "u": stored(U, [Stamped(0, 0, (1, 0)), Stamped(0, 1, (2, 0))]),
    }
    found = Evaluated(query, rows).changes(-1, 12)
    assert found[5, (1, 0.1 + 0.2, (0.1 + 0.2) / 2, 3)] == 1  # the infinite one has left at 4, NaN at 5
    assert found[7, (1, None, None, 1)] == 1 and found[8, (1, None, None, 1)] == -1
    assert math.isinf(next(row[1] for (at, row), n in found.items() if at == 1 and n > 0))
    assert math.isnan(next(row[1] for (at, row), n in found.items() if at == 3 and n > 0))


def test_why_an_aggregate_is_recomputed() -> None:
    for select, why in (
        ("max(x.b)", "max() needs"),
        ("count(DISTINCT y.b)", "DISTINCT"),
        ("list(x.b)", "list() needs"),
    ):
        relation = bound(f"SELECT x.a, {select} AS v FROM s x JOIN u y ON x.a = y.a GROUP BY x.a", S, U).relation
        assert relation is not None and relation.plan == "recomputed" and why in relation.reason
    query = bound(f"{TEXT} GROUP BY x.a", S, U)
    assert query.relation is not None and query.relation.grouping is not None
    assert query.relation.grouping.placed == "coalesce(CAST(k0 AS BIGINT))"
