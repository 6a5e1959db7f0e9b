"""Experiment X5 (Li 2008, section 6.4.4): bytes of state when windows of a group are partials, tuples, or the smaller.

    python -m bench.adaptwid [--seconds 20] [--data DS1,DS2,DS3,DS4,DS5] [--rate 4000]

Q6-7 asks one ordered source for `sum(len)` over tumbling windows of a second, Q6-8 three sources for `count(*)` over
ten seconds every second: two links of about 4,000 tuples/s, and a control link with a few tuples whose clock lags by a
time that varies. Groups are small (one record), medium (15 on average) or large (300); a group lives for one RANGE.
One JSON object a line per query and data set on standard output:

    bench, case, data, tuples, answers_compared
    eager_bytes, lazy_bytes, adaptive_bytes    the largest state seen: the arrays as they are held
    gain_eager, gain_lazy                      how many times smaller adaptive is
    switches, groups_pct                       groups that changed sides; shares of small, medium, large (Table 6-2)
    correct                                    answers of all three equal DuckDB's; shares within 2 points of the table

Then, per data set, `case: engine`: a pond with one query per `state` over the packets of one source, a pane of ten
seconds; {eager,lazy,adaptive}_bytes are those of its state as Arrow holds it, *_file_bytes those of its state files.

and one line `case: trends`: adaptive below eager on both queries, below lazy on three sources, the gain over eager
growing with the share of small groups. Exit status 1 when an answer is wrong or a trend fails.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import millpond
from bench.adaptive import Accumulator, Mode, Plan, Tuples, start, state_bytes, step
from bench.common import Clock, emit, log, names_of, scratch
from millpond.operators.panes.forms import TUPLES
from millpond.operators.windowed.stored import PANES
from millpond.tables import read_chunks
from millpond.types import SECOND, TimeWindow

#: Share of the records that are in small groups; medium groups have 20 %, large ones the rest.
SMALL = {"DS1": 0.01, "DS2": 0.03, "DS3": 0.05, "DS4": 0.07, "DS5": 0.09}
MEDIUM = 0.20

#: Table 6-2: share of the groups that are small, medium, large (per cent).
TABLE = {"DS1": (39, 51, 10), "DS2": (66, 28, 6), "DS3": (77, 19, 4), "DS4": (82, 15, 3), "DS5": (87, 11, 2)}

MODES: tuple[Mode, ...] = ("eager", "lazy", "adaptive")


@dataclass(frozen=True)
class Query:
    """A query of the experiment."""

    name: str
    window: TimeWindow
    accumulators: tuple[Accumulator, ...]
    columns: tuple[str, ...]
    sources: int


COUNT, LENGTH = Accumulator("n", "add"), Accumulator("total", "add", 0)
QUERIES = (
    Query("Q6-7 one source", TimeWindow(SECOND, SECOND), (COUNT, LENGTH), ("int32",), 1),
    Query("Q6-8 three sources", TimeWindow(10 * SECOND, SECOND), (COUNT,), (), 3),
)


@dataclass(frozen=True)
class Traffic:
    """Packets in order of arrival: arrival, group, time (microseconds), len, source; and each group's size class."""

    arrival: np.ndarray[Any, Any]
    group: np.ndarray[Any, Any]
    time: np.ndarray[Any, Any]
    length: np.ndarray[Any, Any]
    source: np.ndarray[Any, Any]
    shares: tuple[float, float, float]


def sizes(records: int, small: float, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], tuple[int, int, int]]:
    """Records of each group of one RANGE, and how many groups are small, medium and large."""
    ones = round(records * small)
    kinds = [np.ones(ones, np.int64)]
    for share, low, high in ((MEDIUM, 5, 25), (1 - MEDIUM - small, 200, 400)):
        left, found = round(records * share), []
        while left > 0:
            size = int(rng.integers(low, high + 1))
            found.append(size if left - size >= low else left)  # what is left is no group of its own
            left -= found[-1]
        kinds.append(np.array(found, np.int64))
    return np.concatenate(kinds), (len(kinds[0]), len(kinds[1]), len(kinds[2]))


def traffic(query: Query, data: str, seconds: int, rate: int, seed: int = 5) -> Traffic:
    """The packets that a query sees; two main links with `rate` tuples/s each where it has three sources."""
    rng = np.random.default_rng(seed)
    links = 2 if query.sources == 3 else 1
    span = query.window.range
    total, stretches = rate * links * seconds, max(1, seconds * SECOND // span)
    groups, times, classes = [], [], np.zeros(3)
    known = 0
    for number in range(stretches):
        per, counted = sizes(total // stretches, SMALL[data], rng)
        classes += counted
        group = np.repeat(np.arange(known, known + len(per)), per)
        known += len(per)
        groups.append(rng.permutation(group))
        times.append(np.sort(rng.integers(number * span, (number + 1) * span, len(group))))
    group, time = np.concatenate(groups), np.concatenate(times)
    source = rng.integers(0, links, len(group))
    arrival = time.copy()
    if query.sources == 3:  # a tuple or two a second, behind by up to three seconds
        count = max(2, seconds * 3 // 2)
        late = np.sort(rng.integers(0, seconds * SECOND, count))
        lag = (1.5 + 1.5 * np.sin(late / (7 * SECOND))) * SECOND
        group = np.concatenate([group, known + np.arange(count)])
        time, source = np.concatenate([time, late]), np.concatenate([source, np.full(count, 2)])
        arrival = np.concatenate([arrival, late + lag.astype(np.int64)])
    order = np.argsort(arrival, kind="stable")
    length = rng.integers(40, 1500, len(group)).astype(np.int32)
    share = 100 * classes / classes.sum()
    return Traffic(
        arrival[order], group[order], time[order], length[order], source[order], (share[0], share[1], share[2])
    )


def punctuations(query: Query, packets: Traffic, cuts: np.ndarray[Any, Any]) -> list[int]:
    """Behind each batch (ending at index `cuts`): what every source has passed, rolled up to the slide.

    Each source is in order, so it has passed the time of its last tuple; the union has passed the least of them.
    """
    bounds = []
    for source in range(query.sources):
        at = np.flatnonzero(packets.source == source) if query.sources == 3 else np.arange(len(packets.time))
        seen = np.searchsorted(at, cuts) - 1
        times = np.maximum.accumulate(packets.time[at])
        bounds.append(np.where(seen >= 0, times[np.maximum(seen, 0)], 0))
    # The two main links are punctuated together: each ends where the other does.
    slide = query.window.slide
    return [int(b) // slide * slide for b in np.min(bounds, axis=0)]


def run(query: Query, packets: Traffic, mode: Mode, step_us: int = SECOND // 10) -> dict[str, Any]:
    """Answer the query over the packets: peak bytes, groups that changed sides, answers."""
    plan = Plan(query.window, query.accumulators, query.columns, mode)
    state, peak, switches = start(plan), 0, 0
    wids: list[Any] = []
    groups: list[Any] = []
    values: list[list[Any]] = [[] for _ in query.accumulators]
    cuts = np.searchsorted(packets.arrival, np.arange(step_us, packets.arrival[-1] + 2 * step_us, step_us))
    marks = punctuations(query, packets, cuts)
    begin = 0
    for end, mark in [*zip(cuts.tolist(), marks, strict=True), (len(packets.time), 2**60)]:
        columns = (packets.length[begin:end],) if query.columns else ()
        tuples = Tuples(packets.group[begin:end], packets.time[begin:end], columns)
        state, _, changed = step(plan, state, tuples)
        peak = max(peak, state_bytes(plan, state))
        switches += len(changed.to_eager)
        state, closed, changed = step(plan, state, punctuation=mark)
        switches += len(changed.to_lazy)
        wids.append(closed.wid)
        groups.append(closed.group)
        for into, column in zip(values, closed.values, strict=True):
            into.append(column)
        begin = end
    answers = pa.table(
        {"wid": np.concatenate(wids), "g": np.concatenate(groups)}
        | {a.name: np.concatenate(v) for a, v in zip(query.accumulators, values, strict=True)}
    )
    return {"bytes": peak, "switches": switches, "answers": answers.sort_by([("wid", "ascending"), ("g", "ascending")])}


def expected(query: Query, packets: Traffic) -> pa.Table:
    """The answers by DuckDB over all packets at once."""
    db = duckdb.connect()
    db.register("p", pa.table({"g": packets.group, "t": packets.time, "len": packets.length.astype(np.int64)}))
    step_us, span = query.window.slide, query.window.range
    values = "count(*)::BIGINT AS n" + (", sum(len)::BIGINT AS total" if query.columns else "")
    return db.sql(
        f"SELECT w AS wid, g, {values} FROM (SELECT g, len, unnest(range(t // {step_us}, (t + {span}) // {step_us})) w"
        " FROM p) GROUP BY w, g ORDER BY w, g"
    ).to_arrow_table()


def measure(query: Query, data: str, seconds: int, rate: int) -> dict[str, Any]:
    """One query over one data set: the line to print."""
    packets = traffic(query, data, seconds, rate)
    wanted = expected(query, packets)
    found = {mode: run(query, packets, mode) for mode in MODES}
    right = all(f["answers"].equals(wanted) for f in found.values())
    near = all(abs(round(a) - b) <= 2 for a, b in zip(packets.shares, TABLE[data], strict=True))
    held = {mode: found[mode]["bytes"] for mode in MODES}
    return {
        "bench": "adaptwid",
        "case": query.name,
        "data": data,
        "tuples": len(packets.time),
        **{f"{mode}_bytes": held[mode] for mode in MODES},
        "gain_eager": round(held["eager"] / held["adaptive"], 3),
        "gain_lazy": round(held["lazy"] / held["adaptive"], 3),
        "switches": found["adaptive"]["switches"],
        "groups_pct": [round(s, 1) for s in packets.shares],
        "answers_compared": wanted.num_rows,
        "correct": right and near,
    }


AGGREGATES = "count(*) AS n, sum(len) AS total, avg(len) AS mean, stddev_pop(len) AS spread, max(len) AS most"


def measure_engine(data: str, rate: int) -> dict[str, Any]:
    """Panes of a pond in each form: the line to print. A pond each, so that files tell them apart."""
    query = QUERIES[1]
    packets = traffic(query, data, 20, rate // 2)
    held: dict[str, Any] = {}
    answers = []
    for mode in MODES:
        with scratch() as home, millpond.open(str(home / "pond"), executor="inline") as pond:
            pond.sql("CREATE STREAM s (ts TIMESTAMP, g BIGINT, len INTEGER) WITH (event_time='ts', lateness='4 s')")
            window = "[RANGE 10 SECONDS SLIDE 10 SECONDS]"
            pond.sql(f"CREATE QUERY q WITH (state='{mode}') AS SELECT g, {AGGREGATES} FROM s {window} GROUP BY g")
            parts = np.array_split(np.arange(len(packets.time)), 6)
            peak = files = 0
            for part in parts:
                times = pa.array(packets.time[part], pa.timestamp("us"))
                pond.ingest("s", pa.table({"ts": times, "g": packets.group[part], "len": packets.length[part]}))
                pond.step()
                paths = list((home / "pond" / "state").glob("*.parquet"))
                chunks = read_chunks([str(path) for path in paths])
                peak = max(peak, sum(c.table.nbytes for c in chunks if c.kind in (PANES, TUPLES)))
                files = max(files, sum(path.stat().st_size for path in paths))
            pond.drain(final=True)
            found = pond.sql("SELECT window_end, g, n, total, mean, spread, most FROM q ORDER BY window_end, g").table
            held |= {f"{mode}_bytes": peak, f"{mode}_file_bytes": files}
            answers.append(found)
    exact = [a.drop_columns(["mean", "spread"]) for a in answers]
    near = all(
        np.allclose(a[n].to_numpy(), answers[0][n].to_numpy(), rtol=1e-9) for a in answers for n in ("mean", "spread")
    )
    return {
        "bench": "adaptwid",
        "case": "engine",
        "data": data,
        "tuples": len(packets.time),
        **held,
        "gain_eager": round(held["eager_bytes"] / held["adaptive_bytes"], 3),
        "gain_lazy": round(held["lazy_bytes"] / held["adaptive_bytes"], 3),
        "answers_compared": exact[0].num_rows,
        "correct": near and all(e.equals(exact[0]) for e in exact),
    }


def trends(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether the figures have the shape that the thesis states."""
    one = [line for line in lines if line["case"] == QUERIES[0].name]
    three = [line for line in lines if line["case"] == QUERIES[1].name]
    grows = [[line["gain_eager"] for line in part] for part in (one, three)]
    found = {
        "adaptive_below_eager": all(line["adaptive_bytes"] < line["eager_bytes"] for line in [*one, *three]),
        "adaptive_below_lazy_on_three_sources": all(line["adaptive_bytes"] < line["lazy_bytes"] for line in three),
        "gain_grows_with_small_groups": all(gains == sorted(gains) for gains in grows),
    }
    return {"bench": "adaptwid", "case": "trends", **found, "correct": all(found.values())}


def main(arguments: list[str] | None = None) -> int:
    """Run all; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.adaptwid", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=20, help="data time of each data set")
    parser.add_argument("--rate", type=int, default=4000, help="tuples a second of a main link")
    parser.add_argument("--data", type=names_of(SMALL), default=list(SMALL), help="comma-separated")
    options = parser.parse_args(arguments)
    clock, lines = Clock(), []
    for query in QUERIES:
        for data in options.data:
            lines.append(measure(query, data, options.seconds, options.rate))
            emit(lines[-1])
            log(f"{clock} {query.name} {data}")
    for data in options.data:
        lines.append(measure_engine(data, options.rate))
        emit(lines[-1])
        log(f"{clock} engine {data}")
    lines.append(trends(lines))
    emit(lines[-1])
    return 0 if all(line["correct"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
