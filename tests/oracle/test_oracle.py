"""The reference itself against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.oracle import Case, Epoch, Item, Row, Script, StreamSpec, Table, evaluate, invoke, latest, revisions, trace
from tests.oracle.case import ordered, span
from tests.oracle.compare import assert_rows_equal, matched, values_equal
from tests.oracle.evaluate import window_ends

S, M = 1_000_000, 60_000_000
TYPES = {"k": "VARCHAR", "v": "DOUBLE"}


def rows(*items: tuple[float, str | None, float | None]) -> tuple[Row, ...]:
    return tuple(Row(int(t * S), i, {"k": k, "v": v}) for i, (t, k, v) in enumerate(items))


def count(range_us: int, slide_us: int, **more: Any) -> Case:
    return Case(("count(*) AS n",), range_us, slide_us, **more)


def test_text_of_a_case() -> None:
    case = Case(("k", "sum(v) AS x"), 90 * S, M, origin_us=-5, align_start=True, where="v > 1", group_by=("k",),
                having="sum(v) > 2", order_by=("x DESC",), limit=3, empty="report")  # fmt: skip
    assert case.statement("q", "start") == (
        "CREATE QUERY q AS SELECT k, sum(v) AS x FROM s [RANGE 90 SECONDS SLIDE 1 MINUTE ORIGIN TIMESTAMP "
        "'1969-12-31 23:59:59.999995' ALIGN START] WHERE v > 1 GROUP BY k HAVING sum(v) > 2 ORDER BY x DESC LIMIT 3 "
        "WITH (since='start', empty='report')"
    )
    assert [span(x) for x in (1, 1_500, 3_600 * S, 7 * 86_400 * S)] == [
        "1 MICROSECOND", "1500 MICROSECONDS", "1 HOUR", "1 WEEK"]  # fmt: skip
    assert ordered("string_agg(k, '-' ORDER BY v) || first(v)") == (
        "string_agg(k, '-' ORDER BY v, __order) || first(v ORDER BY __order)"
    )


def test_every_tuple_in_each_of_its_windows() -> None:
    # T2 of Li 2008: +5 s, RANGE 600 SLIDE 60 -> windows 0..9, which end at 60, …, 600.
    assert window_ends(count(600 * S, 60 * S), [5 * S]) == [60 * S * (i + 1) for i in range(10)]
    # T4: a tuple in [12:10, 12:11) after a start at 12:00 is in ten windows, 10..19.
    case = count(10 * M, M, origin_us=12 * 60 * M)
    ends = window_ends(case, [(12 * 60 + 10) * M + 30 * S])
    assert [(e - 12 * 60 * M) // M - 1 for e in ends] == list(range(10, 20))
    # The last instant before an end belongs to the window, the end itself does not.
    assert window_ends(count(10, 10), [9]) == [10]
    assert window_ends(count(10, 10), [10]) == [20]
    # Before 1970 and with gaps: [RANGE 4 SLIDE 10] covers [-4, 0), [6, 10), …
    assert window_ends(count(4, 10), [-1]) == [0]
    assert window_ends(count(4, 10), [-5]) == []
    assert window_ends(count(4, 10), [0, 5, 6]) == [10]
    # ALIGN START: windows start at k·slide, so RANGE 15 SLIDE 10 ends at 15 + 10k.
    assert window_ends(count(15, 10, align_start=True), [0]) == [5, 15]
    # One row in 1970 and one in 2026 under 1 µs: two windows.
    assert len(window_ends(count(1, 1), [0, 56 * 365 * 86_400 * S])) == 2


def test_answers_by_hand() -> None:
    table = Table(rows((1, "a", 1.0), (2, "b", 5.0), (9, "a", None), (10, "a", 2.0), (31, None, 7.0)), TYPES)
    case = Case(("k", "count(*)", "count(v)", "sum(v)", "first(v)", "last(v)"), 20 * S, 10 * S, group_by=("k",))
    assert_rows_equal(
        [
            (-10 * S, 10 * S, "a", 2, 1, 1.0, 1.0, None),
            (-10 * S, 10 * S, "b", 1, 1, 5.0, 5.0, 5.0),
            (0, 20 * S, "a", 3, 2, 3.0, 1.0, 2.0),
            (0, 20 * S, "b", 1, 1, 5.0, 5.0, 5.0),
            (10 * S, 30 * S, "a", 1, 1, 2.0, 2.0, 2.0),
            (20 * S, 40 * S, None, 1, 1, 7.0, 7.0, 7.0),
            (30 * S, 50 * S, None, 1, 1, 7.0, 7.0, 7.0),
        ],
        [(s, e, *items) for s, e, items, _ in evaluate(case, table)],
    )


def test_order_within_the_window_is_event_time_then_intake() -> None:
    table = Table(rows((3, "c", 3), (1, "a", 1), (3, "d", 4), (2, "b", 2)), TYPES)
    case = Case(("first(k)", "last(k)", "list(k)", "string_agg(k, '') AS s"), 10 * S)
    assert evaluate(case, table)[0][2] == ("a", "d", ["a", "b", "c", "d"], "abcd")


def test_windows_without_a_tuple() -> None:
    table = Table(rows((1, "a", 1), (31, "a", 2)), TYPES)
    assert [end // S for _, end, *_ in evaluate(count(10 * S, 10 * S), table)] == [10, 40]
    reported = evaluate(count(10 * S, 10 * S, empty="report"), table, until=55 * S)
    assert [(end // S, items[0]) for _, end, items, _ in reported] == [(10, 1), (20, 0), (30, 0), (40, 1), (50, 0)]
    # A window whose rows all fail WHERE has no tuple for the query.
    assert evaluate(count(10 * S, 10 * S, where="v > 1"), table)[0][1] == 40 * S


def test_having_order_limit_are_per_window() -> None:
    table = Table(rows((1, "a", 1), (2, "b", 5), (3, "c", 3), (11, "a", 9)), TYPES)
    case = Case(("k", "sum(v) AS x"), 10 * S, group_by=("k",), having="sum(v) > 1", order_by=("sum(v) DESC",), limit=2)
    assert [(e // S, *i) for _, e, i, _ in evaluate(case, table)] == [(10, "b", 5.0), (10, "c", 3.0), (20, "a", 9.0)]


def test_division_by_zero_is_null() -> None:
    table = Table(rows((1, "a", 0)), TYPES)
    assert evaluate(Case(("sum(v) / sum(v)", "1 // count(v) - 1"), 10 * S), table)[0][2] == (None, 0)


def script(spec: StreamSpec, *epochs: list[float] | tuple[str, list[float]], clocks: list[int] | None = None) -> Script:
    built, n = [], 0
    for i, epoch in enumerate(epochs):
        partition, times = epoch if isinstance(epoch, tuple) else ("", epoch)
        items = tuple(Row(int(t * S), n + j, {"k": "a", "v": 1.0}) for j, t in enumerate(times))
        n += len(times)
        built.append(Epoch((Item(items, partition),) if times else (), clocks[i] if clocks else 0))
    return Script(spec, tuple(built))


def test_progress_by_lateness() -> None:
    steps = trace(script(StreamSpec(lateness=5 * S), [10, 3], [4, 12], [6]))
    assert [s.after // S for s in steps] == [5, 7, 7]
    assert [len(s.late) for s in steps] == [0, 1, 1]  # 3 shares its epoch with 10; 4 < 5; 6 < 7
    assert [s.high for s in steps] == [10 * S, 12 * S, 12 * S]
    assert [s.after for s in trace(script(StreamSpec(), [10], [7]))] == [10 * S, 10 * S]  # ordered: never back


def test_progress_by_rows() -> None:
    # T21 (b): the bound is the largest event time without the last n rows, across epochs.
    steps = trace(script(StreamSpec(lateness_rows=2), [10, 30], [20], [25, 5]))
    assert steps[0].after < 0
    assert [s.after // S for s in steps[1:]] == [10, 30]


def test_progress_of_partitions_and_idle() -> None:
    spec = StreamSpec(lateness=0, idle=30 * S)
    steps = trace(script(spec, ("p", [10]), ("q", [4]), ("p", [50]), ("p", [60]), clocks=[0, 10 * S, 20 * S, 50 * S]))
    # Bounds never go back; q is silent since 10 and after 40 s no longer counts.
    assert [s.after // S for s in steps] == [10, 10, 10, 60]


def test_rows_that_run_ahead() -> None:
    steps = trace(script(StreamSpec(lateness=0, ahead=60 * S), [1, 2, 90_000, 3], [4, 70_000]))
    assert [len(s.ahead) for s in steps] == [1, 1]
    assert [s.after // S for s in steps] == [3, 4]


def test_late_rows_revise() -> None:
    log = revisions(count(10 * S, 10 * S), TYPES, script(StreamSpec(), [1, 2], [12], [3, 11], [31]))
    assert [(r.epoch, r.end // S, r.items[0], r.revision, r.op) for r in log] == [
        (1, 10, 2, 0, "+"), (2, 10, 3, 1, "+"), (3, 20, 2, 0, "+")]  # fmt: skip
    assert sorted(latest(log)) == [(0, 10 * S, 3), (10 * S, 20 * S, 2)]


def test_late_rows_make_rows_vanish_and_come_back() -> None:
    case = Case(("count(*) AS n",), 10 * S, having="count(*) % 2 = 1")
    log = revisions(case, TYPES, script(StreamSpec(), [1], [12], [2], [3]))
    assert [(r.epoch, r.items[0], r.revision, r.op) for r in log] == [(1, 1, 0, "+"), (2, 1, 1, "-"), (3, 3, 2, "+")]


def test_late_rows_dropped_window_by_window() -> None:
    # RANGE 20 SLIDE 10: when progress is 12, a row at 5 is too late for [-10, 10), but counts in [0, 20).
    log = revisions(count(20 * S, 10 * S), TYPES, script(StreamSpec(late="drop"), [1], [12], [5], [41]))
    assert [(r.end // S, r.items[0], r.revision) for r in sorted(log, key=lambda r: r.end)] == [
        (10, 1, 0), (20, 3, 0), (30, 1, 0)]  # fmt: skip


def test_dropped_rows_do_not_decide_which_windows_there_are() -> None:
    # The row at 5 comes late, is no part of [0, 10), and must not make its HAVING fail.
    case = count(10 * S, 10 * S, having="count(*) = 1")
    log = revisions(case, TYPES, script(StreamSpec(late="drop"), [1], [12], [5], [41]))
    assert [(r.end // S, r.items, r.op) for r in log] == [(10, (1,), "+"), (20, (1,), "+")]


def test_too_late_rows_change_nothing() -> None:
    spec = script(StreamSpec(), [1], [100], [2], [100])
    log = revisions(count(10 * S, 10 * S), TYPES, spec, revise_for=20 * S)
    assert [(r.end // S, r.items[0], r.revision) for r in log] == [(10, 1, 0)]


def test_invocation() -> None:
    table = Table(rows((1, "a", 1), (5, "a", 2), (15, "b", 4)), TYPES)
    case = Case(("k", "sum(v)"), 10 * S, 5 * S, group_by=("k",))
    assert_rows_equal([("a", 2.0), ("b", 4.0)], invoke(case, table))  # [5, 15], closed at both ends
    assert_rows_equal([("a", 3.0)], invoke(case, table, now=5 * S))
    assert invoke(case, table, now=100 * S) == []


def test_comparison() -> None:
    assert values_equal(0.1 + 0.2, 0.3) and not values_equal(1.0, 1.0001)
    assert values_equal(math.nan, math.nan) and not values_equal(math.nan, None)
    assert not values_equal(1, True) and not values_equal("1", 1)
    assert matched([(1.0,), (2.0,)], [(2.0,), (1.0000000001,)])
    assert not matched([(1,), (1,)], [(1,), (2,)])
    with pytest.raises(AssertionError, match="same rows in another order"):
        assert_rows_equal([(1,), (2,)], [(2,), (1,)], ordered=True)
