"""Worked examples T1-T3, T5, T6, T8, T9 of the digest of Babu 2005 with its values, on the oracle and on the engine."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from millpond.types.sql_expressions import parsed
from tests.oracle.cql import Query, Stamped, Windowed
from tests.relations.setting import WINDOWS, Evaluated, bound, stored, stream

INT = "INTEGER"


def rows(*stamped: tuple[int, tuple[object, ...]]) -> list[Stamped]:
    return [Stamped(t, n, values) for n, (t, values) in enumerate(stamped)]


def reported(text: str) -> Counter[tuple[int, tuple[object, ...]]]:
    """`10@1 20@2` as a bag of single values with stamps."""
    pairs = (each.split("@") for each in text.split())
    return Counter((int(at), (int(value),)) for value, at in pairs)


S = stream("S", A=INT, B=INT, C=INT)


@pytest.mark.parametrize("factors", list(itertools.permutations(["S.A > 10", "S.B < 20", "S.C > 40"])))
def test_t1_filter(factors: tuple[str, ...]) -> None:
    data = rows((1, (11, 19, 41)), (2, (10, 19, 41)), (3, (11, 20, 41)), (4, (11, 19, 40)), (5, (50, 0, 99)))
    expected = Counter({(1, (11, 19, 41)): 1, (5, (50, 0, 99)): 1})
    for window in ("[ROWS UNBOUNDED]", ""):
        query = bound(f"SELECT ISTREAM(A, B, C) FROM S {window} WHERE {' AND '.join(factors)}", S)
        assert Evaluated(query, {"S": stored(S, data)}).stream(0, 9) == expected


AB = stream("S", A=INT, B=INT)
T2 = rows((1, (1, 10)), (2, (2, 20)), (3, (1, 30)), (5, (3, 40)))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("[ROWS 2]", {1: [10], 2: [10, 20], 3: [20, 30], 4: [20, 30], 5: [30, 40]}),
        (
            "[RANGE 2 MICROSECONDS]",
            {1: [10], 2: [10, 20], 3: [10, 20, 30], 4: [20, 30], 5: [30, 40], 6: [40], 7: [40], 8: []},
        ),
        ("[NOW]", {1: [10], 4: [], 5: [40]}),
        ("[PARTITION BY A ROWS 1]", {1: [10], 2: [10, 20], 3: [20, 30], 5: [20, 30, 40]}),
        ("[ROWS UNBOUNDED]", {5: [10, 20, 30, 40]}),
    ],
)
def test_t2_windows(window: str, expected: dict[int, list[int]]) -> None:
    engine = Evaluated(bound(f"SELECT B FROM S {window}", AB), {"S": stored(AB, T2)})
    form, partition = {k.replace(" a ", " A "): v for k, v in WINDOWS.items()}[window]
    naive = Query("SELECT B FROM S", {"S": Windowed({"A": INT, "B": INT}, T2, form, (0,) if partition else ())})
    for instant, values in expected.items():
        bag = Counter((v,) for v in values)
        assert engine.at(instant) == bag
        assert naive.at(instant) == bag


def test_t3_relation_to_stream() -> None:
    naive = Query("SELECT B FROM S", {"S": Windowed({"A": INT, "B": INT}, T2, ("rows", 2))})
    expected = {
        "ISTREAM": reported("10@1 20@2 30@3 40@5"),
        "DSTREAM": reported("10@3 20@5"),
        "RSTREAM": reported("10@1 10@2 20@2 20@3 30@3 20@4 30@4 30@5 40@5"),
    }
    for word, bag in expected.items():
        engine = Evaluated(bound(f"SELECT {word}(B) FROM S [ROWS 2]", AB), {"S": stored(AB, T2)})
        assert engine.stream(0, 6) == bag
        assert getattr(naive, word.lower())(0, 6) == bag


S1, S2 = stream("S1", A=INT, P="VARCHAR"), stream("S2", A=INT, Q="VARCHAR")
T4_1 = rows((1, (1, "a")), (2, (2, "b")), (4, (1, "c")))
T4_2 = rows((3, (1, "x")), (5, (2, "y")))


def _join(select: str) -> Evaluated:
    text = f"SELECT {select} FROM S1 [ROWS 2], S2 [RANGE 5 MICROSECONDS] WHERE S1.A = S2.A"
    return Evaluated(bound(text, S1, S2), {"S1": stored(S1, T4_1), "S2": stored(S2, T4_2)})


def test_t4_windowed_join() -> None:
    assert _join("S1.A, P, S2.A, Q").changes(0, 20) == {
        (3, (1, "a", 1, "x")): 1,
        (4, (1, "c", 1, "x")): 1,
        (4, (1, "a", 1, "x")): -1,
        (5, (2, "b", 2, "y")): 1,
        (9, (1, "c", 1, "x")): -1,
        (11, (2, "b", 2, "y")): -1,
    }


def test_t5_bag_cancellation() -> None:
    """R(3) = R(4) = {1}: forwarding every '+' of the join would report 1@4."""
    assert _join("ISTREAM(S1.A)").stream(0, 20) == reported("1@3 2@5")


def test_t6_trace_of_a_row_window() -> None:
    data = rows(*((t, (t, t)) for t in range(1, 1003)))
    engine = Evaluated(bound("SELECT B FROM S [ROWS 1000]", AB), {"S": stored(AB, data)})
    expected = {(t, (t,)): 1 for t in range(1, 1003)} | {(1001, (1,)): -1, (1002, (2,)): -1}
    assert engine.changes(0, 2000) == expected


def test_t8_filters_go_below_windows_of_time_only() -> None:
    query = bound("SELECT S1.A FROM S1 [ROWS 1000], S2 [RANGE 2 MINUTES] WHERE S1.A = S2.A AND S1.A > 10 AND S2.A > 9",
                  S1, S2)  # fmt: skip
    of = {i.stream: i.where for i in query.inputs}
    assert of == {"S1": None, "S2": parsed('("A" > 9)')}
    data = rows((1, (20, 0)), (2, (5, 0)), (3, (5, 0)))
    above = Evaluated(bound("SELECT A FROM S [ROWS 2] WHERE A > 10", AB), {"S": stored(AB, data)})
    assert above.at(3) == Counter()
    assert above.at(2) == Counter([(20,)])


def test_t9_network_query() -> None:
    link = {"pid": "VARCHAR", "size": INT}
    C, B, O = (stream(n, **link) for n in "CBO")  # noqa: E741 - the digest's names
    text = (
        "SELECT sum(C.size) FROM C [RANGE 10 MICROSECONDS], B [RANGE 10 MICROSECONDS], O [RANGE 10 MICROSECONDS]"
        " WHERE C.pid = B.pid AND B.pid = O.pid"
    )
    data = {
        "C": stored(C, rows((1, ("p1", 100)), (4, ("p2", 50)))),
        "B": stored(B, rows((2, ("p1", 0)), (6, ("p2", 0)))),
        "O": stored(O, rows((3, ("p1", 0)), (5, ("p2", 0)))),
    }
    engine = Evaluated(bound(text, C, B, O), data)
    expected = {2: None, 3: 100, 5: 100, 6: 150, 11: 150, 12: 50, 14: 50, 15: None}
    assert {t: next(iter(engine.at(t)))[0] for t in expected} == expected
    changes = Evaluated(bound(text.replace("sum(C.size)", "ISTREAM(sum(C.size))"), C, B, O), data).stream(0, 30)
    assert changes == Counter({(3, (100,)): 1, (6, (150,)): 1, (12, (50,)): 1, (15, (None,)): 1})
