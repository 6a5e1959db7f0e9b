"""Registered aggregates whose states merge: as if all rows of a window were there at once, however they come."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
from millpond.testing import merge_faults
from tests.quick import quick_folder

START = dt.datetime(2024, 1, 1)
STREAM = "CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, w BIGINT) WITH (lateness='{} s')"


class Weighed:
    """The sum of v · w, the values that there are in v, and rows."""

    def add(self, values: pa.Array, weights: pa.Array) -> dict[str, Any]:
        total = pc.sum(pc.multiply(values, weights)).as_py() or 0
        return {"t": total, "seen": sorted({v for v in values.to_pylist() if v is not None}), "n": len(values)}

    def merge(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        seen = sorted({*one["seen"], *other["seen"]})
        return {"t": one["t"] + other["t"], "seen": seen, "n": one["n"] + other["n"]}

    def finish(self, state: dict[str, Any]) -> str:
        return f"{state['t']}|{state['seen']}|{state['n']}"


class Longest:
    """A state of bytes."""

    def add(self, texts: pa.Array) -> bytes:
        return max((t.encode() for t in texts.to_pylist() if t is not None), key=lambda t: (len(t), t), default=b"")

    def merge(self, one: bytes, other: bytes) -> bytes:
        return max(one, other, key=lambda t: (len(t), t))

    def finish(self, state: bytes) -> str:
        return state.decode()


def weighed(taken: list[tuple[Any, ...]]) -> str:
    total = sum(v * w for _, _, v, w in taken if v is not None)
    return f"{total}|{sorted({v for _, _, v, _ in taken if v is not None})}|{len(taken)}"


rows = st.tuples(
    st.integers(0, 60), st.sampled_from(["a", "bb", None]), st.sampled_from([0, 1, 5, None]), st.integers(-2, 2)
)


@given(st.data())
def test_cuts_order_restarts_and_back_fill(data: st.DataObject) -> None:
    epochs = data.draw(st.lists(st.lists(rows, max_size=5), min_size=1, max_size=5))
    begin, shards = data.draw(st.integers(0, len(epochs) - 1)), data.draw(st.sampled_from([1, 2]))
    kept = data.draw(st.sampled_from(["", ", revise_for='0 s'"]))
    size, slide = data.draw(st.sampled_from([(20, 20), (30, 10)]))
    items = "weighed(v, w) AS x, weighed(v, w) FILTER (WHERE v > 0) AS y, longest(k) AS z"
    text = f"SELECT k, {items} FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] GROUP BY k"
    taken: list[tuple[Any, ...]] = []
    with quick_folder() as folder:
        pond = millpond.open(str(folder / "p"), executor="inline", shards=shards, compact_files=2)
        pond.sql(STREAM.format(data.draw(st.integers(0, 30))))
        pond.register_aggregate("weighed", Weighed, arguments=["BIGINT"] * 2, returns="TEXT", mergeable=True)
        pond.register_aggregate("longest", Longest(), arguments=["TEXT"], returns="TEXT", mergeable=True)
        pond.sql(f"CREATE QUERY q WITH (since='start'{kept}) AS {text}")
        for number, epoch in enumerate(epochs):
            if number == begin:
                pond.sql(f"CREATE QUERY later WITH (since='start'{kept}) AS {text}")
            if epoch:
                made = [{"ts": START + dt.timedelta(seconds=t), "k": k, "v": v, "w": w} for t, k, v, w in epoch]
                pond.ingest("s", made)
                taken += epoch
            pond.step()
            if data.draw(st.integers(0, 3)) == 0:
                pond.close()
                pond = millpond.open(str(folder / "p"), executor="inline", shards=shards, compact_files=2)
        pond.drain(final=True)
        expected = []
        for end in range(slide, 60 + size + 1, slide):
            for key in {r[1] for r in taken}:
                inside = [r for r in taken if end - size <= r[0] < end and r[1] == key]
                some = [r for r in inside if r[2] is not None and r[2] > 0]
                if inside:
                    stop = START + dt.timedelta(seconds=end)
                    expected.append((stop, key, weighed(inside), weighed(some) if some else None, key or ""))
        for name in ("q", "later"):
            found = pond.sql(f"SELECT window_end, k, x, y, z FROM {name}").rows()
            assert sorted(map(tuple, found), key=repr) == sorted(expected, key=repr), name
        once = pond.sql("SELECT k, weighed(v, w) AS x FROM s GROUP BY k").rows()
        of_all = [(k, weighed([r for r in taken if r[1] == k])) for k in {r[1] for r in taken}]
        assert sorted(map(tuple, once), key=repr) == sorted(of_all, key=repr)
        pond.close()


def test_everywhere(tmp_path: Path) -> None:
    """Windows of rows, sessions, windows that grow, relations, one-off questions; EXPLAIN says what is kept."""
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(STREAM.format(1))
        pond.register_aggregate("weighed", Weighed, arguments=["BIGINT"] * 2, returns="TEXT", mergeable=True)
        windows = {
            "rows": "[ROWS 2 SLIDE 2]", "sessions": "[SESSION 5 SECONDS]", "grows": "[RANGE ALL SLIDE 10 SECONDS]",
            "relation": "[RANGE UNBOUNDED]", "tumbling": "[RANGE TUMBLING 10 SECONDS]",
        }  # fmt: skip
        for name, window in windows.items():
            pond.sql(f"CREATE QUERY q_{name} AS SELECT weighed(v, w) AS x FROM s {window}")
        taken = [(1, "a", 1, 2), (3, "a", 5, 1), (12, "a", 1, 1), (13, "a", None, 1)]
        pond.ingest("s", [{"ts": START + dt.timedelta(seconds=t), "k": k, "v": v, "w": w} for t, k, v, w in taken])
        pond.drain(final=True)
        found = {name: [r[0] for r in pond.sql(f"SELECT x FROM q_{name}").rows()] for name in windows}
        pairs = [weighed(taken[:2]), weighed(taken[2:])]
        assert found == {
            "rows": pairs, "sessions": pairs, "tumbling": pairs, "grows": [pairs[0], weighed(taken)],
            "relation": [weighed(taken)],
        }  # fmt: skip
        assert [r[-2] for r in pond.sql("INVOKE q_tumbling").rows()] == [weighed(taken[1:])]
        plan = "\n".join(r[0] for r in pond.sql("EXPLAIN q_tumbling").rows())
        assert "weighed keeps a state of its own of each pane and group" in plan


class Fails(Longest):
    def merge(self, one: bytes, other: bytes) -> bytes:
        raise ValueError("not so")


class Wide(Longest):
    def add(self, texts: pa.Array) -> bytes:
        return b"x" * 70_000


@pytest.mark.parametrize(("kind", "says"), [(Fails, "not so"), (Wide, "70001 bytes; at most 65536")])
def test_a_failure_is_the_query_s_own(tmp_path: Path, kind: type, says: str) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(STREAM.format(0))
        pond.register_aggregate("bad", kind, arguments=["TEXT"], returns="TEXT", mergeable=True)
        pond.sql("CREATE QUERY q AS SELECT bad(k) AS x FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS]")
        pond.sql("CREATE QUERY good AS SELECT count(*) AS x FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS]")
        for second in (1, 12, 50):
            pond.ingest("s", [{"ts": START + dt.timedelta(seconds=second), "k": "a", "v": 1, "w": 1}])
        pond.drain(final=True)
        assert [r[0] for r in pond.sql("SELECT x FROM good ORDER BY window_end").rows()] == [1, 2, 1, 1, 1]
        told = str(pond.sql("SHOW QUERIES").table.to_pylist()) + str(
            pond.sql("SELECT * FROM dead(s)").table.to_pylist()
        )
        assert says in told


def test_what_does_not_merge_is_found(tmp_path: Path) -> None:
    class Newest(Longest):
        def add(self, values: pa.Array) -> Any:
            return values[-1].as_py()

        def merge(self, one: Any, other: Any) -> Any:
            return other

        def finish(self, state: Any) -> Any:
            return state

    class Means(Newest):
        def add(self, values: pa.Array) -> Any:
            return pc.mean(values).as_py()

        def merge(self, one: Any, other: Any) -> Any:
            return (one + other) / 2

    assert merge_faults(Weighed, [1, None, 3, 4], [1, 1, 2, 0]) == []
    assert any("order" in fault for fault in merge_faults(Newest, [1, 2, 3]))
    assert any("brackets" in fault for fault in merge_faults(Means, [1.0, 2.0, 5.0]))
    with millpond.open(tmp_path / "pond", executor="inline") as pond, pytest.raises(millpond.QueryError, match="merge"):
        pond.register_aggregate("no", lambda v: v, arguments=["BIGINT"], returns="BIGINT", mergeable=True)
