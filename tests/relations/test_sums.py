"""Sums that can be taken back: floating numbers leave nothing behind, and what is no number is taken back as well."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millpond
from millpond.operators.relation import group_sums
from millpond.relations.sums import MINUS_INFINITE, NAN, STEP, mantissas_of
from millpond.types import Grouped, Recomputed
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
    assert isinstance(query.plan, Grouped)
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
        relation = bound(f"SELECT x.a, {select} AS v FROM s x JOIN u y ON x.a = y.a GROUP BY x.a", S, U)
        assert isinstance(relation.plan, Recomputed) and why in relation.plan.reason
    query = bound(f"{TEXT} GROUP BY x.a", S, U)
    assert isinstance(query.plan, Grouped)
    assert query.plan.grouping.placed == "coalesce(CAST(k0 AS BIGINT))"


# --- sums in a pond: kept from epoch to epoch ------------------------------------------------------------------------

JOIN = (
    "SELECT ISTREAM(x.a, count(*) AS n, sum(y.b) AS t{0}) FROM s [RANGE 50 SECONDS] x JOIN u [RANGE 50 SECONDS] y"
    " ON x.a = y.a GROUP BY x.a"
)


def pond_of(folder: Path) -> Any:
    """A pond with the streams s and u, whose rows are in time order."""
    pond = millpond.open(folder / "pond", executor="inline", shards=2)
    for name in "su":
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER, b INTEGER) WITH (event_time='ts')")
    return pond


def epoch(pond: Any, s: Sequence[tuple[int, int]] = (), u: Sequence[tuple[int, int]] = ()) -> None:
    """An epoch with rows of (second, a)."""
    for name, rows in (("s", s), ("u", u)):
        if rows:
            pond.ingest(
                name, [{"ts": dt.datetime(1970, 1, 1) + dt.timedelta(seconds=t), "a": a, "b": 1} for t, a in rows]
            )
    pond.step()


def both(pond: Any) -> tuple[list[Any], list[Any]]:
    """The answers of `q`, which keeps sums, and of `p`, which is recomputed for its max()."""
    kept, recomputed = (sorted(pond.sql(f"SELECT at, a, n, t FROM {name}").rows()) for name in "qp")
    return kept, recomputed


def create(pond: Any) -> None:
    """Both queries."""
    pond.sql(f"CREATE QUERY q AS {JOIN.format('')}; CREATE QUERY p AS {JOIN.format(', max(1) AS one')}")


def test_sums_are_not_made_anew_in_every_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    whole = group_sums.sums_at

    def counted(*arguments: Any) -> Any:
        made.append(arguments[4])
        return whole(*arguments)

    monkeypatch.setattr(group_sums, "sums_at", counted)
    pond = pond_of(tmp_path)
    create(pond)
    per_epoch = []
    for n in range(0, 100, 10):
        made.clear()
        epoch(pond, [(n, 1), (n, 2)], [(n + 1, 1), (n + 1, 2)])
        per_epoch.append(len(made))
    assert per_epoch[0] > 0 and not any(per_epoch[1:])
    kept, recomputed = both(pond)
    assert kept == recomputed and len(kept) > 20
    pond.close()


def test_a_late_row_from_before_the_query_is_summed(tmp_path: Path) -> None:
    pond = pond_of(tmp_path)
    epoch(pond, [(80, 1), (100, 3)], [(82, 1), (100, 3)])
    create(pond)
    epoch(pond, [(120, 1)], [(121, 1)])
    epoch(pond, [(90, 1)])  # is joined from 90 on; the first instant of the query is 100
    epoch(pond, [(125, 1)], [(125, 1)])
    epoch(pond, [(300, 7)], [(300, 7)])
    kept, recomputed = both(pond)
    assert kept == recomputed
    assert {(at.minute * 60 + at.second, a): n for at, a, n, _ in kept}[120, 1] == 3
    pond.close()


def test_rows_from_before_the_query_are_summed_in_every_shard(tmp_path: Path) -> None:
    pond = pond_of(tmp_path)
    pond.sql(f"CREATE QUERY old AS {JOIN.format('')}")  # has rows that the others find in its stores
    keys = range(8)  # some in each shard
    epoch(pond, [(80, k) for k in keys], [(80, k) for k in keys])
    epoch(pond, [(81, 0)], [(81, 0)])
    create(pond)
    for k in keys:  # the other shard is silent
        epoch(pond, [(82 + k, k)], [(82 + k, k)])
    epoch(pond, [(300, 7)], [(300, 7)])
    kept, recomputed = both(pond)
    assert kept == recomputed and {a for _, a, *_ in kept} == set(keys)
    pond.close()
