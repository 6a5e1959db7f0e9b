"""Jobs side by side: what they give is in their order, each thread has a connection of its own, failures are raised."""

from __future__ import annotations

import threading
from functools import partial

import duckdb
import pytest

from millpond.synopses import connection, parallel


@pytest.fixture(autouse=True)
def three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: 3)
    monkeypatch.setattr(parallel, "_pools", {})  # a pool of this process may be there, with a helper for each core


def test_three_threads_do_what_one_does() -> None:
    meet, seen = threading.Barrier(3, timeout=300), {}

    def job(number: int, db: duckdb.DuckDBPyConnection) -> int:
        if number < 3:
            meet.wait()  # no one goes on before three are there
        seen[threading.get_ident()] = id(db)
        assert parallel.allowed() == (3 if threading.current_thread() is threading.main_thread() else 1)
        (found,) = db.sql(f"SELECT {number} + 1").fetchall()
        return int(found[0])

    with parallel.at_most(9):
        assert parallel.side_by_side(connection(), [partial(job, n) for n in range(20)]) == list(range(1, 21))
    assert len(seen) == len(set(seen.values())) == 3
    assert parallel.allowed() == 1
    assert parallel.side_by_side(connection(), [lambda db: threading.get_ident()] * 4) == [threading.get_ident()] * 4
    assert parallel.side_by_side(connection(), []) == []


def test_a_job_that_fails_lets_no_further_one_begin() -> None:
    begun: list[int] = []
    both = threading.Barrier(2, timeout=300)

    def job(number: int, db: duckdb.DuckDBPyConnection) -> None:
        begun.append(number)
        if number < 2:
            both.wait()
            raise ValueError(f"job {number}")

    with parallel.at_most(2), pytest.raises(ValueError, match="job"):
        parallel.side_by_side(connection(), [partial(job, n) for n in range(50)])
    assert sorted(begun) == [0, 1]
