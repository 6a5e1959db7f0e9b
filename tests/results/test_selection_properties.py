"""An invocation is the definition over exactly the prefix it names, whatever is hot, kept, merged or archived."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
import millpond.answers.row_queries.hot as hot
import millpond.answers.row_queries.matched_rows as matching
import millpond.archive.upkeep.compaction as compaction
from millpond.answers.row_queries.ready import ready_of
from tests.quick import quick_folder
from tests.results.row_queries import BASE, COLUMNS, CONDITIONS, LATENESS, Bounds, Row, bounds, naive, traces

#: Almost nothing is hot; some of it; all.
SIZES = [0, 12_000, 1 << 26]


@contextmanager
def opened(**settings: Any) -> Iterator[Any]:
    with quick_folder() as folder, millpond.open(str(folder), executor="inline", **settings) as pond:
        pond.sql(f"CREATE STREAM s ({COLUMNS}) WITH (event_time='ts', lateness='{LATENESS} s')")
        yield pond


def take(pond: Any, rows: list[Row]) -> None:
    pond.ingest("s", [r.record() for r in rows])
    pond.step()


def text(condition: str, window: Bounds, columns: str = "n", order: str = "") -> str:
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {columns} FROM s{where} {order} {window.sql}"


def moments(rows: list[Row]) -> st.SearchStrategy[Any]:
    high, last = max((r.time for r in rows), default=0), max((r.epoch for r in rows), default=0)
    return st.one_of(
        st.none(),
        st.just("watermark"),
        st.integers(-2, high + 3).map(lambda t: ("timestamp", t)),
        st.integers(0, last).map(lambda e: ("epoch", e)),
    )


def instant(as_of: Any) -> Any:
    if isinstance(as_of, tuple) and as_of[0] == "timestamp":
        return BASE + dt.timedelta(seconds=as_of[1])
    return as_of


@given(st.data())
def test_every_invocation_equals_the_definition(data: st.DataObject) -> None:
    """E5: registrations and arrivals in any order; every window, every AS OF, at every moment."""
    epochs = data.draw(traces())
    queries = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(sorted(CONDITIONS)),
                bounds(),
                st.sampled_from(["n", "n, a + 1 AS b, s", "*"]),
                st.sampled_from(["", "ORDER BY n DESC LIMIT 5"]),
                st.sampled_from(["auto", "partial", "complete", "none"]),
                st.integers(0, max(0, len(epochs))),
            ),
            min_size=1,
            max_size=4,
        )
    )
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(hot, "FULL_ROWS", data.draw(st.sampled_from([2, 8, 16_384])))
        patch.setattr(compaction, "FAN_IN", 2)
        patch.setattr(matching, "QUICK_ROWS", data.draw(st.sampled_from([0, 3_000_000])))
        with opened(
            hot_bytes=data.draw(st.sampled_from(SIZES)), eager_rows=data.draw(st.sampled_from([1, 10**9]))
        ) as p:
            handles: list[tuple[Any, Any]] = []
            seen: list[Row] = []
            for number in range(len(epochs) + 1):
                for query in queries:
                    if query[5] == number:
                        handles.append((p.register(text(*query[:4]), materialize=query[4]), query))
                if number:
                    seen += epochs[number - 1]
                    take(p, epochs[number - 1])
                if data.draw(st.integers(0, 3)) == 0:
                    p.maintain()
                for handle, (condition, window, _, order, _, _) in handles:
                    as_of = data.draw(moments(seen))
                    answer = handle.result(as_of=instant(as_of))
                    expected = naive(seen, condition, window, as_of, order)
                    assert answer.table["n"].to_pylist() == expected, (condition, window.sql, order, as_of)
                    epoch = as_of[1] if isinstance(as_of, tuple) and as_of[0] == "epoch" else number
                    assert answer.epoch == epoch
    finally:
        patch.undo()


@given(st.data())
def test_groups_and_other_windows(data: st.DataObject) -> None:
    epochs = data.draw(traces())
    condition = data.draw(st.sampled_from(sorted(CONDITIONS)))
    with opened(hot_bytes=data.draw(st.sampled_from(SIZES))) as p:
        grouped = p.register(text(condition, Bounds("", None, None), "count(*) AS c, sum(n) AS t, max(x) AS m"))
        plain = p.register(text(condition, Bounds("", None, None)))
        for rows in epochs:
            take(p, rows)
        seen = [r for rows in epochs for r in rows]
        for _ in range(4):
            window, as_of = data.draw(bounds()), data.draw(moments(seen))
            edges = {} if not window.sql else dict(zip(("begin", "end"), _edges(window.sql), strict=True))
            expected = naive(seen, condition, window, as_of)
            by_n = {r.n: r for r in seen}
            assert plain.result(as_of=instant(as_of), **edges).table["n"].to_pylist() == expected
            [got] = grouped.result(as_of=instant(as_of), **edges).to_pylist()
            assert got["c"] == len(expected) and got["t"] == (sum(expected) if expected else None)
            assert got["m"] == max((x for n in expected if (x := by_n[n].x) is not None), default=None)


def _edges(sql: str) -> list[str]:
    begin, end = sql.removeprefix("BEGIN ").split(" END ")
    return [e.removeprefix("TIMESTAMP ").strip("'") for e in (begin, end)]


@given(st.data())
def test_subscribers_get_every_row_once(data: st.DataObject) -> None:
    """P15: from any cursor on, over restarts of the reader, late rows, compaction and eviction."""
    epochs = data.draw(traces())
    condition = data.draw(st.sampled_from(sorted(CONDITIONS)))
    with opened(hot_bytes=data.draw(st.sampled_from(SIZES))) as p:
        handle = p.register(text(condition, Bounds("", None, None)))
        cursor: Any = None
        got: list[int] = []
        seen: list[Row] = []
        for rows in epochs:
            take(p, rows)
            seen += rows
            if data.draw(st.booleans()):
                p.maintain()
            if data.draw(st.booleans()):
                continue
            for batch in handle.subscribe(cursor, timeout=0):
                got += batch.rows["n"].to_pylist()
                cursor = str(batch.cursor)
        for batch in handle.subscribe(cursor, timeout=0):
            got += batch.rows["n"].to_pylist()
        ordered = sorted(seen, key=lambda r: (r.epoch, r.time, r.n))
        assert got == [r.n for r in ordered if CONDITIONS[condition](r)]
        again = [n for b in handle.subscribe(f"{handle.id}:0:0", timeout=0) for n in b.rows["n"].to_pylist()]
        assert again == got
        assert ready_of(p._core.view).statistics()["hot"] >= 0
