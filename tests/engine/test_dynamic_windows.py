"""Windows on series are added, resized, re-slid and deleted while data flows: PC-1 to PC-3 of the patent's claims.

A series is a stream, or a key in one; a window on it is a standing query.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from millpond.support.errors import MillpondError

Factory = Callable[..., Any]
BASE = dt.datetime(2026, 1, 1)


def at(minutes: float) -> dt.datetime:
    return BASE + dt.timedelta(minutes=minutes)


def feed(pond: Any, *minutes: float, stream: str = "s") -> None:
    pond.ingest(stream, [{"ts": at(t), "k": "ab"[int(t) % 2], "v": float(t)} for t in minutes])
    pond.step()


def settle(pond: Any) -> None:
    while pond.step():
        pass


def create(pond: Any, *names: str, options: str = "event_time='ts'") -> None:
    for name in names or ("s",):
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k TEXT, v DOUBLE) WITH ({options})")


def query(name: str, minutes: int, slide: int = 1, options: str = "") -> str:
    return (
        f"CREATE QUERY {name} {options} AS SELECT count(*) AS n, sum(v) AS v"
        f" FROM s [RANGE {minutes} MINUTES SLIDE {slide} MINUTES]"
    )


def answers(pond: Any, name: str) -> dict[float, tuple[Any, ...]]:
    """Window end in minutes -> values."""
    found = pond.sql(f"SELECT window_end, n, v FROM {name}").rows()
    return {(end - BASE).total_seconds() / 60: values for end, *values in found}


def extent(times: list[float], minutes: float, end: float) -> list[Any]:
    """count and sum of the values in [end - minutes, end)."""
    inside = [t for t in times if end - minutes <= t < end]
    return [len(inside), sum(inside)]


def coverage(pond: Any, name: str) -> tuple[str, str]:
    rows = pond.sql("SHOW QUERIES").table.to_pylist()
    return next((r["covered_from"], r["coverage"]) for r in rows if r["query"] == name)


def test_pc_1a_series_are_stored_and_read_back_by_time(inline_pond: Factory) -> None:
    pond = inline_pond()
    create(pond, "a", "b")
    create(pond, "c", options="event_time='ts', retention='30 minutes'")
    written = {"a": [i * 0.5 for i in range(120)], "b": [0.1, 7.3, 7.4, 31.0, 59.9], "c": [float(i) for i in range(60)]}
    for minute in range(0, 60, 10):  # the three grow side by side, unevenly
        for name, times in written.items():
            if now := [t for t in times if minute <= t < minute + 10]:
                feed(pond, *now, stream=name)
    pond.maintain()
    for name, times in written.items():
        for low, high in ((0, 60), (7, 31), (45, 50)):
            between = f"ts >= '{at(low)}' AND ts < '{at(high)}'"
            found = pond.sql(f"SELECT ts, v FROM {name} WHERE {between} ORDER BY ts").rows()
            kept = [t for t in times if low <= t < high and (name != "c" or t >= 59 - 30)]
            assert [(t, v) for t, v in found] == [(at(t), t) for t in kept], (name, low, high)


def test_pc_1b_results_are_pushed_until_the_query_is_removed(inline_pond: Factory) -> None:
    pond = inline_pond()
    create(pond)
    pond.sql(query("q", 5, 5))
    seen: list[Any] = []
    cursor: Any = None
    for t in range(0, 30, 3):
        feed(pond, t)
        for batch in pond.subscribe("q", cursor, timeout=0):
            seen += batch.rows["n"].to_pylist()
            cursor = batch.cursor
    assert seen == [2, 2, 1, 2, 2]
    pond.sql("DROP QUERY q")
    with pytest.raises(MillpondError):
        list(pond.subscribe("q", timeout=0))


@pytest.mark.parametrize("share", [True, False])
def test_pc_1c_another_query_leaves_no_trace(inline_pond: Factory, share: bool) -> None:
    """Q2 comes, is changed, paused and goes while data flows: what Q1 says is the same to the byte, epochs included."""
    said = []
    for beside in (False, True):
        pond = inline_pond(f"pond{beside}", share=share)
        create(pond, options="event_time='ts', lateness='2 minutes'")
        pond.sql(query("q1", 4))
        for t in range(40):
            changes = {
                8: query("q2", 10, 2),
                14: "ALTER QUERY q2 SET WINDOW [RANGE 3 MINUTES SLIDE 30 SECONDS]",
                18: "ALTER QUERY q2 PAUSE",
                22: "ALTER QUERY q2 RESUME",
                30: "DROP QUERY q2",
            }
            if beside and t in changes:
                pond.sql(changes[t])
            feed(pond, t, t - 3.5)
        assert len(pond.sql("SHOW QUERIES").rows()) == 1
        assert pond.sql("SHOW SYNOPSES").table["users"].to_pylist() == ["q1"]
        said.append(pond.sql("SELECT * FROM q1 ALL REVISIONS").table)
    one, other = (table.combine_chunks() for table in said)
    assert one.num_rows > 60 and _bytes(one) == _bytes(other)


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_pc_1d_statistics_are_those_of_a_recompute_after_every_element(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, x DOUBLE, y DOUBLE) WITH (event_time='ts')")
    pond.sql(
        "CREATE QUERY q AS SELECT count(*) AS n, sum(x) AS s, avg(x) AS a, var_samp(x) AS v, min(x) AS lo,"
        " max(x) AS hi, corr(x, y) AS c, median(x) AS m FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE]"
    )
    x, y = [], []
    for t in range(14):
        x.append(float((t * 37) % 11))
        y.append(float((t * 17) % 7))
        pond.ingest("s", [{"ts": at(t), "x": x[-1], "y": y[-1]}])
        pond.step()
        last = x[-11:], y[-11:]  # INVOKE: both ends of [now - 10 min, now] belong to it
        row = pond.sql("INVOKE q").table.to_pylist()[0]
        assert (row["n"], row["s"], row["lo"], row["hi"]) == (len(last[0]), sum(last[0]), min(last[0]), max(last[0]))
        assert row["a"] == pytest.approx(statistics.fmean(last[0])) and row["m"] == statistics.median(last[0])
        if t >= 2:
            assert row["v"] == pytest.approx(statistics.variance(last[0]))
            assert row["c"] == pytest.approx(statistics.correlation(*last))


def test_pc_2_windows_come_and_go_beside_each_other(inline_pond: Factory) -> None:
    pond = inline_pond()
    create(pond)
    pond.sql(query("five", 5))
    times = [float(t) for t in range(40)]
    for t in range(20):
        feed(pond, t)
    assert "created" in pond.sql(query("ten", 10)).message
    # The panes of the five-minute windows make up ten minutes, and they reach back far enough: nothing is rebuilt.
    assert len(pond.sql("SHOW SYNOPSES").rows()) == 1
    for t in range(20, 30):
        feed(pond, t)
    pond.sql("DROP QUERY five")
    for t in range(30, 40):
        feed(pond, t)
    found = answers(pond, "ten")
    assert sorted(found) == [float(e) for e in range(20, 40)]
    assert all(v == extent(times, 10, e) for e, v in found.items())


def test_pc_2_a_window_is_resized_and_slides_anew(inline_pond: Factory) -> None:
    pond = inline_pond()
    create(pond)
    pond.sql(query("q", 6, 2))
    times = [float(t) for t in range(60)]
    for t in range(20):
        feed(pond, t)
    kept = pond.sql("ALTER QUERY q SET WINDOW [RANGE 12 MINUTES SLIDE 4 MINUTES]").message
    assert "version 2 (state kept): its panes of 2m make up the new windows" in kept
    for t in range(20, 30):
        feed(pond, t)
    assert answers(pond, "q") == {e: extent(times, 12, e) for e in (20.0, 24.0, 28.0)}
    rebuilt = pond.sql("ALTER QUERY q SET WINDOW [RANGE 5 MINUTES SLIDE 5 MINUTES]").message
    assert "version 3 (state rebuilt from the archive); back-filling from the archive" in rebuilt
    settle(pond)
    for t in range(30, 40):
        feed(pond, t)
    assert answers(pond, "q") == {e: extent(times, 5, e) for e in (30.0, 35.0)}
    assert pond.sql("SHOW QUERIES").table["version"].to_pylist() == [3]


def test_pc_2_windows_of_rows_and_of_relations_change_too(inline_pond: Factory) -> None:
    pond = inline_pond()
    create(pond)
    pond.sql(
        "CREATE QUERY rows AS SELECT count(*) AS n, sum(v) AS v FROM s [ROWS 3 SLIDE 1];"
        "CREATE QUERY relation AS SELECT count(*) AS n, sum(v) AS v FROM s [RANGE 5 MINUTES]"
    )
    for t in range(10):
        feed(pond, t)
    changed = [
        pond.sql("ALTER QUERY rows SET WINDOW [ROWS 2 SLIDE 1]").message,
        pond.sql("ALTER QUERY relation SET WINDOW [RANGE 2 MINUTES]").message,
    ]
    assert all("replaced, version 2" in message and "panes" not in message for message in changed)
    settle(pond)
    for t in range(10, 14):
        feed(pond, t)
    assert pond.sql("SELECT n, v FROM rows ORDER BY window_end DESC LIMIT 1").rows() == [(2, 12.0 + 11.0)]
    assert pond.sql("INVOKE relation").table.select(["n", "v"]).to_pylist() == [{"n": 3, "v": 13.0 + 12.0 + 11.0}]


def test_pc_3_new_windows_are_filled_from_present_ones_and_marked(inline_pond: Factory) -> None:
    """10-min window at t=20: 6 min at once exact over (14, 20]; 15 min loaded over (10, 20], partial until t=25."""
    pond = inline_pond()
    create(pond, options="event_time='ts', late='drop', retention='10 minutes'")
    pond.sql(query("ten", 10))
    times = [float(t) for t in range(40)]
    for t in range(21):
        feed(pond, t)
    pond.maintain()
    assert pond.sql("SELECT min(v) FROM s").rows() == [(10.0,)]
    pond.sql(query("six", 6))
    settle(pond)
    assert _invoked(pond, "six") == (at(20), 7, sum(range(14, 21)))
    assert coverage(pond, "six")[1] == "complete"
    pond.sql(query("fifteen", 15))
    settle(pond)
    assert _invoked(pond, "fifteen")[1:] == (11, sum(range(10, 21)))
    start, text = coverage(pond, "fifteen")
    assert start.startswith("2026-01-01 00:10:00") and text.startswith("partial until 2026-01-01 00:25:00")
    assert any(line.startswith("windows: partial until") for (line,) in pond.sql("EXPLAIN fifteen").rows())
    for t in range(21, 40):
        feed(pond, t)
    assert all(answers(pond, "six")[e] == extent(times, 6, e) for e in range(21, 40))
    rows = pond.sql("SELECT window_end, n, covered_from FROM fifteen").rows()
    partial = {(end - BASE).total_seconds() / 60: (n, since) for end, n, since in rows}
    for end in range(21, 40):
        n, since = partial[end]
        assert n == min(15, end - 10)
        assert (since is not None) == (end < 25), end
    assert coverage(pond, "fifteen")[1] == "complete"


def _invoked(pond: Any, name: str) -> tuple[Any, ...]:
    row = pond.sql(f"INVOKE {name}").table.to_pylist()[0]
    return row["window_end"], row["n"], row["v"]


def test_windows_wider_than_the_stream_is_old_are_partial(inline_pond: Factory) -> None:
    pond = inline_pond()
    create(pond)
    for t in range(10, 21):
        feed(pond, t)
    pond.sql(query("q", 15))
    settle(pond)
    assert coverage(pond, "q") == ("2026-01-01 00:10:00", "partial until 2026-01-01 00:25:00")
    for t in range(21, 26):
        feed(pond, t)
    assert coverage(pond, "q")[1] == "complete"


def test_set_window_refuses_what_it_cannot_do(inline_pond: Factory) -> None:
    pond = inline_pond()
    create(pond)
    pond.sql(query("q", 5))
    pond.sql("CREATE QUERY r AS SELECT v FROM s WHERE v > 1 BEGIN NOW - INTERVAL 5 MINUTES END NOW")
    for sql, message in (
        ("ALTER QUERY q SET WINDOW", "in brackets"),
        ("ALTER QUERY q SET WINDOW [RANGE 5 MINUTES SLIDE 0 MINUTES]", "SLIDE"),
        ("ALTER QUERY q SET WINDOW [RANGE 5 PARSECS SLIDE 1 MINUTE]", "PARSECS"),
        ("ALTER QUERY r SET WINDOW [RANGE 5 MINUTES SLIDE 1 MINUTE]", "row query"),
        ("ALTER QUERY nobody SET WINDOW [RANGE 5 MINUTES SLIDE 1 MINUTE]", "there is no query"),
    ):
        with pytest.raises(MillpondError, match=message):
            pond.sql(sql)
    assert pond.sql("SHOW QUERIES").table["version"].to_pylist()[0] == 1
