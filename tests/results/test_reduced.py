"""REDUCE against an oracle that samples by the same rule: what is estimated, its intervals, what is marked exact."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
from millpond.archive.design.load import Choice
from millpond.archive.planning.scans import description
from millpond.support.errors import QueryError
from tests.oracle import sampling

SECOND = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1)

Rows = list[tuple[int, float | None, str | None]]


def batch(rows: Rows) -> pa.Table:
    """Rows (seconds, value, key) as they are ingested."""
    times, values, keys = zip(*rows, strict=True)
    return pa.table(
        {
            "ts": pa.array([t * SECOND for t in times], pa.timestamp("us")),
            "v": pa.array(values, pa.float64()),
            "k": pa.array(keys, pa.string()),
        }
    )


def identified(batches: list[Rows]) -> list[tuple[int, int, float | None, str | None]]:
    """Rows (id, microseconds, value, key) of ingested batches."""
    return [
        (ordinal << 32 | at, t * SECOND, v, k)
        for ordinal, rows in enumerate(batches)
        for at, (t, v, k) in enumerate(rows)
    ]


def micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // dt.timedelta(microseconds=1)


def near(found: Any, wanted: Any) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return bool(abs(float(found) - float(wanted)) <= 1e-6 * max(1.0, abs(float(wanted))))


def same(row: dict[str, Any], wanted: sampling.Estimate) -> None:
    """An answer row is what the oracle says."""
    assert row["n"] == round(wanted.count) or abs(row["n"] - wanted.count) <= 0.5 + 1e-6
    assert near(row["s"], wanted.sum) and near(row["a"], wanted.average), (row, wanted)
    assert near(row["fraction"], wanted.fraction)
    for name, ends in zip("nsa", wanted.ends, strict=True):
        if ends is not None:
            assert near(row[f"{name}_low"], ends[0]) and near(row[f"{name}_high"], ends[1]), (name, row, wanted)
        elif name != "n":
            assert row[f"{name}_low"] is None and row[f"{name}_high"] is None


LIST = "count(*) AS n, sum(v) AS s, avg(v) AS a"
CREATE = "CREATE STREAM s (ts TIMESTAMP, v DOUBLE, k TEXT) WITH (event_time = 'ts', lateness = '1000000s')"


values = st.one_of(st.none(), st.integers(-50, 50).map(lambda n: n / 4))
some_rows = st.lists(st.tuples(st.integers(0, 600), values, st.sampled_from(["a", "b", None])), min_size=1, max_size=60)
drops = st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.75, 0.9])


@pytest.fixture
def pond(tmp_path: Any) -> Any:
    with millpond.open(tmp_path / "p", executor="inline") as opened:
        yield opened


@given(batches=st.lists(some_rows, min_size=1, max_size=4), drop=drops, grouped=st.booleans())
def test_ad_hoc_groups_are_what_the_oracle_samples(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Rows], drop: float, grouped: bool
) -> None:
    with millpond.open(tmp_path_factory.mktemp("p") / "p", executor="inline") as pond:
        pond.sql(CREATE)
        for rows in batches:
            pond.ingest("s", batch(rows))
            pond.drain()
        by = " GROUP BY k" if grouped else ""
        key = "k, " if grouped else ""
        answer = pond.sql(f"SELECT {key}{LIST} FROM s REDUCE sample({drop}){by}").to_arrow().to_pylist()
    kept = sampling.scanned(identified(batches), 1, [(-(2**62), drop)])
    groups = {r.key for r in kept} if grouped else {None}
    assert {row.get("k") for row in answer} == groups
    for row in answer:
        mine = [r for r in kept if not grouped or r.key == row["k"]]
        assert row["exact"] is (drop == 0)
        wanted = sampling.estimate(mine, drop)
        assert row["small"] is (drop > 0 and (len(mine) < 30 or wanted.unsaid))
        same(row, wanted)


@given(
    batches=st.lists(some_rows, min_size=2, max_size=4),
    drop=drops,
    cut=st.integers(0, 4),
    size=st.sampled_from([(60, 60), (120, 60), (90, 45), (60, 90)]),
)
def test_hybrid_windows_are_what_the_oracle_samples_for_every_cut(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Rows], drop: float, cut: int, size: tuple[int, int]
) -> None:
    """The first `cut` batches are history when the query is registered; the others come live and are never reduced."""
    width, slide = size
    with millpond.open(tmp_path_factory.mktemp("p") / "p", executor="inline") as pond:
        pond.sql(CREATE)
        for n, rows in enumerate([*batches, None]):
            if n == min(cut, len(batches)):
                pond.sql(
                    f"CREATE QUERY q WITH (since = 'start') AS SELECT {LIST} FROM s REDUCE sample({drop})"
                    f" [RANGE {width} SECONDS SLIDE {slide} SECONDS]"
                )
            if rows is not None:
                pond.ingest("s", batch(rows))
                pond.drain()
        pond.sql("DRAIN FINAL")
        answer = pond.sql("SELECT * FROM q").to_arrow().to_pylist()
    rows = identified(batches)
    past = [r for r in rows if r[0] >> 32 < cut]
    live = [r for r in rows if r[0] >> 32 >= cut]
    kept = sampling.scanned(past, 1, [(-(2**62), drop)]) + sampling.scanned(live, 1, [(-(2**62), 0.0)])
    ends = {e for r in kept for e in range(0, (600 + width + slide) * SECOND, slide * SECOND)
            if e - width * SECOND <= r.time < e}  # fmt: skip
    assert {micros(row["window_end"]) for row in answer} == ends
    covered = (min(r[1] for r in past), max(r[1] for r in past)) if past and drop else None
    for row in answer:
        end = micros(row["window_end"])
        start = end - width * SECOND
        exact = covered is None or covered[1] < start or covered[0] >= end
        assert row["exact"] is exact
        same(row, sampling.estimate([r for r in kept if start <= r.time < end], 0.0 if exact else drop))


@given(batches=st.lists(some_rows, min_size=1, max_size=3), drop=drops, older=st.integers(0, 700))
def test_age_reads_newer_rows_finer(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Rows], drop: float, older: int
) -> None:
    with millpond.open(tmp_path_factory.mktemp("p") / "p", executor="inline") as pond:
        pond.sql(CREATE)
        for rows in batches:
            pond.ingest("s", batch(rows))
            pond.drain()
        sql = f"SELECT {LIST} FROM s REDUCE age('{older} s', {drop}, '{older + 60} s', 0.95)"
        (row,) = pond.sql(sql).to_arrow().to_pylist()
    rows = identified(batches)
    now = max(r[1] for r in rows)
    steps = [(-(2**62), 0.95), (now - (older + 60) * SECOND, drop), (now - older * SECOND, 0.0)]
    same(row, sampling.estimate(sampling.scanned(rows, 1, steps), 0.0 if row["exact"] else 0.95))


def steady(n: int, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array(np.arange(n) * SECOND, pa.timestamp("us")),
            "v": pa.array(rng.exponential(10, n)),
            "k": pa.array(rng.choice(["a", "b", "c"], n, p=[0.7, 0.299, 0.001])),
        }
    )


def filled(pond: millpond.Pond, n: int = 20_000, parts: int = 4) -> None:
    pond.sql(CREATE)
    table = steady(n)
    for part in range(parts):
        pond.ingest("s", table.slice(part * n // parts, n // parts))
        pond.drain()


def test_forty_percent_dropped_leaves_sixty(pond: millpond.Pond) -> None:
    """A1: within three standard deviations, and the rows are those that the answer is made of."""
    filled(pond)
    table = pond.sql("SELECT * FROM s REDUCE sample(0.4)").to_arrow()
    assert abs(table.num_rows - 12_000) < 3 * np.sqrt(20_000 * 0.6 * 0.4)
    assert set(table["fraction"].to_pylist()) == {0.6}
    told = description(table)
    assert told is not None and told["read"]["rows"] == table.num_rows and told["rows"] == 20_000
    again = pond.sql("SELECT * FROM s REDUCE sample(0.4)").to_arrow()
    assert again.equals(table)
    finer = set(pond.sql("SELECT * FROM s REDUCE sample(0.2)").to_arrow()["ts"].to_pylist())
    assert set(table["ts"].to_pylist()) <= finer


def test_intervals_cover_the_truth_over_seeds(tmp_path: Any) -> None:
    """A4: over 200 seeds the 95 % interval of count, sum and average covers the truth in 90 to 99 %."""
    n = 1000
    table = steady(n)
    ids = np.arange(n)
    truth = np.array([n, table["v"].to_numpy().sum(), table["v"].to_numpy().mean()])
    covered = np.zeros(3)
    for seed in range(200):
        rows = [(int(i), 0, float(v), None) for i, v in zip(ids, table["v"].to_numpy(), strict=True)]
        found = sampling.estimate(sampling.scanned(rows[:n], seed, [(-1, 0.8)]))
        ends = np.array(found.ends)
        covered += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert ((covered >= 180) & (covered <= 198)).all(), covered


def test_the_engine_covers_the_truth_over_seeds(tmp_path: Any) -> None:
    """A4 again, by the engine: streams with 20 seeds over the same rows."""
    table = steady(3000)
    truth = (3000, sum(table["v"].to_pylist()))
    hits = np.zeros(2)
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        for _ in range(20):
            name = f"s{_}"
            pond.sql(CREATE.replace(" s ", f" {name} "))
            pond.ingest(name, table)
        pond.drain()
        for _ in range(20):
            (row,) = pond.sql(f"SELECT count(*) AS n, sum(v) AS s FROM s{_} REDUCE sample(0.9)").to_arrow().to_pylist()
            hits += [row["n_low"] <= truth[0] <= row["n_high"], row["s_low"] <= truth[1] <= row["s_high"]]
    assert (hits >= 16).all(), hits


def test_nothing_dropped_is_the_answer_itself(pond: millpond.Pond) -> None:
    filled(pond)
    select = "SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a, min(v) AS lo, stddev(v) AS sd, median(v) AS m"
    plain = pond.sql(f"{select} FROM s GROUP BY k ORDER BY k").to_arrow()
    reduced = pond.sql(f"{select} FROM s REDUCE sample(0) GROUP BY k ORDER BY k").to_arrow()
    shown = [n for n in plain.column_names if n != "sd"]
    assert reduced.select(shown).equals(plain.select(shown))
    # A reduced scan takes rows of several files together; a deviation is of partials, to the last bits of a DOUBLE.
    assert reduced["sd"].to_pylist() == pytest.approx(plain["sd"].to_pylist(), rel=1e-12)
    assert reduced["exact"].to_pylist() == [True] * 3 and reduced["small"].to_pylist() == [False] * 3
    assert reduced["n_low"].to_pylist() == reduced["n_high"].to_pylist() == plain["n"].to_pylist()


def test_sums_of_integers_and_decimals_are_exact_where_nothing_is_dropped(pond: millpond.Pond) -> None:
    pond.sql("CREATE STREAM w (ts TIMESTAMP, i BIGINT, d DECIMAL(30, 3), h HUGEINT) WITH (event_time = 'ts')")
    big = 2**62
    pond.ingest(
        "w", [{"ts": f"2026-01-01 00:00:{n:02}", "i": big - n, "d": "123456789012345678.125", "h": n} for n in range(9)]
    )
    pond.drain()
    plain = pond.sql("SELECT sum(i) AS i, sum(d) AS d, sum(h) AS h FROM w").rows()
    reduced = pond.sql("SELECT sum(i) AS i, sum(d) AS d, sum(h) AS h FROM w REDUCE sample(0)").to_arrow()
    assert [tuple(r.values())[:3] for r in reduced.to_pylist()] == plain


def test_spreads_are_estimated(pond: millpond.Pond) -> None:
    filled(pond)
    plain = pond.sql("SELECT stddev(v) AS sd, var_pop(v) AS va FROM s").to_arrow().to_pylist()[0]
    reduced = pond.sql("SELECT stddev(v) AS sd, var_pop(v) AS va FROM s REDUCE age('3 hours', 0.5)").to_arrow()
    row = reduced.to_pylist()[0]
    assert row["sd"] == pytest.approx(plain["sd"], rel=0.05) and row["va"] == pytest.approx(plain["va"], rel=0.1)


def test_extremes_are_marked_as_bounds(pond: millpond.Pond) -> None:
    filled(pond)
    (row,) = pond.sql("SELECT min(v) AS lo, max(v) AS hi, count(DISTINCT k) AS d FROM s REDUCE sample(0.9)").to_arrow(
    ).to_pylist()  # fmt: skip
    assert (row["lo_bound"], row["hi_bound"], row["d_bound"]) == ("<=", ">=", ">=")


def test_error_reads_until_the_interval_is_narrow(pond: millpond.Pond) -> None:
    filled(pond, 60_000)
    answer = pond.sql("SELECT count(*) AS n, avg(v) AS a FROM s REDUCE error(0.02)").to_arrow()
    (row,) = answer.to_pylist()
    assert (row["n_high"] - row["n_low"]) / 2 <= 0.02 * row["n"]
    assert (row["a_high"] - row["a_low"]) / 2 <= 0.02 * row["a"]
    assert not row["exact"] and 0 < row["fraction"] < 0.7
    assert row["n_low"] <= 60_000 <= row["n_high"]
    rough = pond.sql("SELECT count(*) AS n FROM s REDUCE error(0.2)").to_arrow().to_pylist()[0]
    assert rough["fraction"] < row["fraction"]
    everything = pond.sql("SELECT k, count(*) AS n FROM s REDUCE error(0.001) GROUP BY k").to_arrow().to_pylist()
    assert all(r["exact"] for r in everything)


def test_a_function_of_your_own_is_called_per_run(pond: millpond.Pond) -> None:
    filled(pond)
    pond.register_reduction("steady", lambda run, target: max(0.0, 1 - target / run.rows))
    table = pond.sql("SELECT count(*) AS n FROM s REDUCE steady(500)").to_arrow()
    told = description(table)
    assert told is not None and abs(told["read"]["rows"] - 2000) < 200
    assert table["n_low"][0].as_py() <= 20_000 <= table["n_high"][0].as_py()

    seen: list[int | None] = []

    def looks(run: Any) -> float:
        before = run.previous()
        seen.append(None if before is None else before.num_rows)
        return 0.0 if before is None else 0.5

    pond.register_reduction("looks", looks)
    told = description(pond.sql("SELECT count(*) AS n FROM s REDUCE looks()").to_arrow())
    assert told is not None and told["pilots"] == 3 and [s["drop"] for s in told["steps"]] == [0.0, 0.5]
    assert seen[:2] == [None, 5000] and all(2300 < n < 2700 for n in seen[2:])
    # What it has looked at is not read again: three runs by the function, the last one by the scan.
    assert told["read"]["read"] == 20_000 and told["read"]["groups"] == told["read"]["full_groups"] == 4
    assert abs(told["read"]["rows"] - 12_500) < 300


def test_functions_survive_a_restart_and_are_dropped(tmp_path: Any) -> None:
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        filled(pond, 400)
        pond.register_reduction("half", lambda run: 0.5)
        kept = pond.sql("SELECT count(*) AS n FROM s REDUCE half()").rows()
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        from millpond.archive.planning import reduction_functions

        reduction_functions._loaded._kept.clear()
        assert pond.sql("SELECT count(*) AS n FROM s REDUCE half()").rows() == kept
        assert pond.reductions() == ["half"]
        pond.drop_reduction("half")
        with pytest.raises(millpond.StatementError, match="no reduction function 'half'"):
            pond.sql("SELECT count(*) FROM s REDUCE half()")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda run: 1.0, "gave 1.0"),
        (lambda run: "x", "gave 'x' for the run from 1970-01-01 00:00:00 to 1970-01-01 00:"),
        (lambda run: dt.timedelta(0), "gave datetime.timedelta"),
        (lambda run: 1 / 0, "failed for the run from .*: ZeroDivisionError"),
    ],
)
def test_functions_that_fail_say_so(pond: millpond.Pond, function: Callable[..., Any], message: str) -> None:
    filled(pond, 400)
    pond.register_reduction("bad", function)
    with pytest.raises(millpond.StatementError, match=message) as caught:
        pond.sql("SELECT count(*) FROM s REDUCE bad()")
    assert caught.value.text[caught.value.start :].startswith("REDUCE")


def test_functions_give_intervals_where_sums_will_do(pond: millpond.Pond) -> None:
    """Old runs by sums over an interval, a sample of younger ones, the newest whole: each says what it is."""
    filled(pond, 20_000)
    calls: list[int] = []

    def mixed(run: Any) -> float | dt.timedelta:
        calls.append(run.low)
        return (dt.timedelta(seconds=7), 0.5, 0.5, 0.0)[run.low // (5000 * SECOND)]

    pond.register_reduction("mixed", mixed)
    text = "SELECT count(*) AS n, min(ts) AS first FROM s REDUCE mixed() [RANGE TUMBLING 10 SECONDS]"
    found = pond.sql(text)
    rows, told = found.to_arrow().to_pylist(), description(found.to_arrow())
    whole = {r["window_end"]: r for r in pond.sql(text.replace("REDUCE mixed()", "")).to_arrow().to_pylist()}
    assert told is not None and [s["interval"] for s in told["steps"]] == [7 * SECOND, 0, 0]
    assert calls == [part * 5000 * SECOND for part in range(4)]
    for row in rows:
        low, high = (micros(row[name]) // SECOND for name in ("window_start", "window_end"))
        if high <= 5000:
            assert row["n"] == sum(low <= s // 7 * 7 < high for s in range(low, min(high + 7, 5000)))
            assert row["exact"] == all(edge % 7 == 0 or edge == 5000 for edge in (low, high))
            assert row["fraction"] == 1 and row["n_low"] == row["n"] == row["n_high"] and not row["small"]
        elif low >= 15_000:
            assert row["exact"] and (row["n"], row["first"]) == (10, whole[row["window_end"]]["first"])
        else:
            assert not row["exact"] and row["fraction"] == 0.5
    for query, message in (
        ("SELECT v FROM s REDUCE mixed()", "gave the interval 0:00:07 for the run"),
        ("SELECT count(*) FROM s REDUCE mixed() [ROWS 10 SLIDE 10]", "are for aggregates of one stream"),
    ):
        with pytest.raises(millpond.StatementError, match=message):
            pond.sql(query)


@pytest.mark.parametrize("lazy", ["", "lazy "])
def test_summaries_stand_for_rows_that_a_function_sums_up(pond: millpond.Pond, lazy: str) -> None:
    """Of two files the entries are read, of the others the rows; answers are those of rows that were moved."""
    of = "SELECT k, count(*), sum(v), avg(v), stddev_pop(v), min(v) FROM s [RANGE TUMBLING 20 SECONDS] GROUP BY k"
    pond.sql(CREATE.replace("1000000s'", f"1000000s', archive = 'plain + {lazy}summary({of})'"))
    table = steady(8000)
    for part in range(4):
        pond.ingest("s", table.slice(part * 2000, 2000))
        pond.drain()
    pond.register_reduction("old", lambda run: dt.timedelta(seconds=60) if run.low < 4000 * SECOND else 0.0)
    wanted = "count(*) AS n, sum(v) AS s, avg(v) AS a, stddev_pop(v) AS d, min(v) AS m"
    window = "[RANGE 2 MINUTES SLIDE 30 SECONDS]"
    found = pond.sql(f"SELECT {wanted} FROM s REDUCE old() {window}").to_arrow()
    told = description(found)
    assert told is not None and told["read"]["sections"] == {"summary": 2, "": 2}
    assert told["read"]["rows"] == 8000 and told["read"]["full_groups"] == 4
    moved = table.set_column(0, "ts", pa.array(_by(table["ts"], 60, 4000), pa.timestamp("us")))
    pond.sql("CREATE STREAM t (ts TIMESTAMP, v DOUBLE, k TEXT) WITH (event_time = 'ts', lateness = '1000000s')")
    pond.ingest("t", moved)
    pond.drain()
    plain = pond.sql(f"SELECT {wanted} FROM t {window}").to_arrow().to_pylist()
    rows = found.to_pylist()
    assert len(rows) == len(plain) > 200
    for row, other in zip(rows, plain, strict=True):
        assert all(
            near(row[name], value) if isinstance(value, float) else row[name] == value for name, value in other.items()
        )
        start, end = (micros(row[n]) // SECOND for n in ("window_start", "window_end"))
        assert row["exact"] == all(edge % 60 == 0 or edge >= 4000 for edge in (start, end)), row


def _by(times: pa.ChunkedArray, seconds: int, until: int) -> Any:
    """Times before an instant at the start of their interval."""
    at = times.cast(pa.int64()).to_numpy()
    return np.where(at < until * SECOND, at // (seconds * SECOND) * (seconds * SECOND), at)


def test_functions_are_checked_when_they_are_registered(pond: millpond.Pond) -> None:
    for name, function, message in (
        ("sample", lambda run: 0.5, "of the language"),
        ("a b", lambda run: 0.5, "cannot be the name"),
        ("none", lambda: 0.5, "has to take a run"),
    ):
        with pytest.raises(QueryError, match=message):
            pond.register_reduction(name, function)
    with pytest.raises(QueryError, match="no reduction function 'gone'"):
        pond.drop_reduction("gone")


def test_row_queries_reduce_what_came_before_them(pond: millpond.Pond) -> None:
    filled(pond, 8000)
    pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s REDUCE sample(0.5) WHERE v > 5 BEGIN '1970-01-01' END NOW")
    before = pond.sql("INVOKE q").to_arrow().to_pylist()[0]
    assert not before["exact"] and before["fraction"] == 0.5
    later = pa.table({"ts": pa.array([9_000 * SECOND] * 100, pa.timestamp("us")), "v": [6.0] * 100, "k": ["a"] * 100})
    pond.ingest("s", later)
    pond.drain()
    after = pond.sql("INVOKE q").to_arrow().to_pylist()[0]
    assert after["n"] - before["n"] == 100 and after["n_high"] - before["n_high"] == pytest.approx(100)
    recent = pond.sql("INVOKE q BEGIN NOW - 1 MINUTE END NOW").to_arrow().to_pylist()[0]
    assert recent["n"] == 100 and recent["exact"]


def test_windows_of_rows_count_the_rows_that_are_read(pond: millpond.Pond) -> None:
    filled(pond, 8000)
    pond.sql(
        "CREATE QUERY q WITH (since = 'start') AS SELECT count(*) AS n FROM s REDUCE sample(0.75) [ROWS 100 SLIDE 100]"
    )
    pond.sql("DRAIN FINAL")
    answer = pond.sql("SELECT * FROM q").to_arrow().to_pylist()
    assert {row["n"] for row in answer} == {400} and {row["fraction"] for row in answer} == {0.25}


def test_late_rows_revise_with_weight_one(pond: millpond.Pond) -> None:
    pond.sql("CREATE STREAM s (ts TIMESTAMP, v DOUBLE, k TEXT) WITH (event_time = 'ts')")
    pond.ingest("s", steady(4001))
    pond.drain()
    window = "[RANGE TUMBLING 1000 SECONDS]"
    pond.sql(f"CREATE QUERY q WITH (since = 'start') AS SELECT count(*) AS n FROM s REDUCE sample(0.5) {window}")
    pond.drain()
    first = pond.sql("SELECT * FROM q").to_arrow().to_pylist()
    late = pa.table({"ts": pa.array([1500 * SECOND] * 7, pa.timestamp("us")), "v": [1.0] * 7, "k": ["a"] * 7})
    pond.ingest("s", late)
    pond.drain()
    after = pond.sql("SELECT * FROM q").to_arrow().to_pylist()
    assert [b["n"] - a["n"] for a, b in zip(first, after, strict=True)] == [0, 7, 0, 0]
    assert [b["revision"] for b in after] == [0, 1, 0, 0]
    assert after[1]["n_high"] - first[1]["n_high"] == pytest.approx(7)


def test_a_union_is_reduced_stream_by_stream(pond: millpond.Pond) -> None:
    filled(pond, 4000)
    pond.sql(CREATE.replace(" s ", " t "))
    pond.ingest("t", steady(4000, 9))
    pond.drain()
    sql = "SELECT count(*) AS n FROM (s UNION ALL t) [RANGE TUMBLING 1000 SECONDS]"
    whole = pond.sql(sql).to_arrow().to_pylist()
    found = pond.sql(sql.replace("[RANGE", "REDUCE sample(0.2) [RANGE")).to_arrow().to_pylist()
    assert [r["window_end"] for r in found] == [r["window_end"] for r in whole]
    assert all(r["n_low"] * 0.97 <= w["n"] <= r["n_high"] * 1.03 for r, w in zip(found, whole, strict=True))


def test_what_load_leaves_out_is_recorded(tmp_path: Any) -> None:
    """Rows wait while nothing processes them; scans then leave out more, and less again when they do not."""
    now = [1_800_000_000 * SECOND]
    with millpond.open(tmp_path / "p", executor="inline", clock=lambda: now[0], target=1.0) as pond:
        filled(pond, 4000)
        sql = "SELECT count(*) AS n FROM s REDUCE load()"
        assert pond.sql(sql).to_arrow()["exact"].to_pylist() == [True]
        pond.ingest("s", batch([(90_000, 1.0, "a")]))
        seen = []
        for _ in range(4):
            now[0] += 5 * SECOND
            answer = pond.sql(sql)
            told = description(answer.to_arrow())
            assert told is not None and "the target is 2 s" in told["reason"]
            seen.append(told["steps"][0]["drop"])
        assert seen == sorted(seen) and seen[0] > 0 and seen[-1] >= 0.8
        assert pond.sql("SELECT count(*) AS n FROM s REDUCE load(0.5)").to_arrow()["fraction"].to_pylist() == [0.5]
        changes = pond.sql("SHOW LOAD").to_arrow().to_pylist()
        assert [c["drop"] for c in changes] == seen[::-1] and pond.status()["load"]["drop"] == seen[-1]
        pond.drain()
        for _ in range(80):
            now[0] += 2 * SECOND
            pond.sql("SHOW LOAD")
        assert pond.sql(sql).to_arrow()["exact"].to_pylist() == [True]
    lines = (tmp_path / "p" / "load.jsonl").read_text().splitlines()
    assert len(lines) >= 2 * len(seen) - 1


def test_a_scan_that_is_under_way_leaves_out_more_when_load_grows(
    pond: millpond.Pond, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that it has read are read whole; those to come are not, and each answer says which it is made of."""
    pond.sql(CREATE)
    for number in range(6):
        pond.ingest("s", batch([(1000 * number + n, 1.0, "a") for n in range(1000)]))
        pond.drain()
    choose = pond._core.controllers.load.choose

    def chosen(most: float) -> Choice:
        return replace(choose(most), drop=next(drops), reason="told so")

    monkeypatch.setattr(pond._core.controllers.load, "choose", chosen)
    each = (0.0, 0.0, 0.0, 0.0, 0.5, 0.9, 0.2)  # when it begins, and for each of six files
    drops = iter(each)
    rows = pond.sql("SELECT v, k FROM s REDUCE load()").to_arrow()
    assert 4200 < rows.num_rows < 4600
    drops = iter(each)
    answer = pond.sql("SELECT count(*) AS n FROM s REDUCE load() [RANGE TUMBLING 1000 SECONDS]").to_arrow()
    found = answer.to_pylist()[:5]
    assert [r["exact"] for r in found] == [True, True, True, False, False]
    assert [r["n"] for r in found[:3]] == [1000] * 3
    for row, kept in zip(found[3:], (0.5, 0.1), strict=True):
        assert row["n_low"] <= 1000 <= row["n_high"] and abs(row["fraction"] - kept) < 0.1
    told = description(answer)
    assert told is not None and told["reason"] == "told so" and not told["exact"]
    assert [s["drop"] for s in told["steps"]] == [0.0, 0.5, 0.9, 0.2]


def test_a_reduced_back_fill_that_is_repeated_is_the_same(tmp_path: Any) -> None:
    create = "CREATE QUERY q WITH (since = 'start') AS SELECT k, count(*) AS n, avg(v) AS a FROM s REDUCE sample(0.7)"
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        filled(pond, 4000)
        pond.sql(f"{create} [RANGE TUMBLING 500 SECONDS] GROUP BY k")
        from millpond.engine.jobs.backfill import run_backfill

        core = pond._core
        (owner,) = core.backfills.waiting()
        run_backfill(core.view, core.backfills, owner)  # and the process ends before an epoch takes it
    with millpond.open(tmp_path / "p", executor="inline") as pond:
        pond.sql("DRAIN FINAL")
        first = pond.sql("SELECT * FROM q").to_arrow()
        pond.sql(create.replace("QUERY q", "QUERY r") + " [RANGE TUMBLING 500 SECONDS] GROUP BY k")
        pond.drain()
        assert pond.sql("SELECT * FROM r").to_arrow().equals(first) and first.num_rows >= 16


def test_what_does_not_go_with_reduce_says_so(pond: millpond.Pond) -> None:
    filled(pond, 400)
    for sql, message in (
        ("SELECT DISTINCT k, count(*) FROM s REDUCE sample(0.5) GROUP BY k", "DISTINCT"),
        ("SELECT v FROM s REDUCE error(0.1)", "count, sum or avg"),
        ("SELECT max(v) FROM s REDUCE error(0.1)", "count, sum or avg"),
        ("SELECT count(*) AS exact FROM s REDUCE sample(0.1)", "exact"),
        ("CREATE STREAM d AS SELECT ts, v FROM s REDUCE sample(0.1)", "every row"),
        ("SELECT a.v FROM s REDUCE sample(0.1) AS a JOIN s AS b ON a.k = b.k", "join"),
    ):
        with pytest.raises(millpond.StatementError, match=message):
            pond.sql(sql)
    with pytest.raises(millpond.StatementError, match="state='lazy'"):
        pond.sql(
            "CREATE QUERY q WITH (state = 'lazy') AS SELECT count(*) FROM s REDUCE sample(0.1) [RANGE TUMBLING 1 s]"
        )


@pytest.mark.parametrize("drop", [0.9999999999999, 1 - 2**-53])
def test_what_drops_less_than_all_is_a_fraction(pond: millpond.Pond, drop: float) -> None:
    """However little it keeps: written in a statement, or given by a function."""
    filled(pond, 400)
    pond.register_reduction("almost", lambda run: drop)
    for reduction in (f"sample({drop!r})", f"age('1 s', {drop!r})", "almost()", f"load({drop!r})"):
        (row,) = pond.sql(f"SELECT count(*) AS n FROM s REDUCE {reduction}").to_arrow().to_pylist()
        assert row["n_high"] >= 400


@pytest.mark.parametrize("reduction", ["sample(0.5)", "age('1 s', 0.5)", "error(0.1)", "load()", "half()"])
def test_nothing_is_reduced_where_nothing_is(pond: millpond.Pond, reduction: str) -> None:
    pond.sql(CREATE)
    pond.register_reduction("half", lambda run: 0.5)
    (row,) = pond.sql(f"SELECT count(*) AS n, sum(v) AS s FROM s REDUCE {reduction}").to_arrow().to_pylist()
    assert (row["n"], row["s"], row["exact"]) == (0, None, True)
    assert pond.sql(f"SELECT k, count(*) AS n FROM s REDUCE {reduction} GROUP BY k").rows() == []


def test_an_estimate_that_is_too_large_says_so(pond: millpond.Pond) -> None:
    pond.sql("CREATE STREAM w (ts TIMESTAMP, d DECIMAL(38, 2)) WITH (event_time = 'ts')")
    times = pa.array(np.arange(300) * SECOND, pa.timestamp("us"))
    pond.ingest("w", pa.table({"ts": times, "d": pa.array([Decimal(10) ** 34] * 300, pa.decimal128(38, 2))}))
    pond.drain()
    with pytest.raises(QueryError, match=r"the estimate of sum does not fit into DECIMAL\(38,2\)") as caught:
        pond.sql("SELECT sum(d) AS s FROM w REDUCE sample(0.5)")
    assert "LINE" not in str(caught.value)
    (row,) = pond.sql("SELECT avg(d) AS a FROM w REDUCE sample(0.5)").to_arrow().to_pylist()
    assert row["a"] == pytest.approx(1e34)
