"""Experiments X2 and X3 (Li 2008, section 6.2.5): what slack costs and loses under disorder, beside punctuation.

    python -m bench.disorder [--rows 60000] [--cases X2,X3]

X2: `avg(v) [RANGE 64 s SLIDE 6.4 s]` over a band of disorder of 3.2 s. X3: `count(*) [RANGE 600 s SLIDE 60 s]` over
blocks of 490 s, each in no order, with a punctuation behind each. Slack holds rows back until the largest time seen is
so far ahead of them, and puts them in order; a row that comes too late for one window is left out of all (consistent)
or of those that are closed (generous). Punctuation runs through the engine's own `partial` and `advance`.
One JSON object a line per run on standard output:

    bench, case, kind (punctuation, consistent, generous), slack_s, rows, windows
    error          X2: mean of |avg - true avg| / true avg over the windows; X3: share of windows with a wrong count
    latency_s      mean time of the replay between the punctuation that covers a window and its answer; an answer that
                   comes before it has waited for nothing
    processing_ms  mean wall clock of an answer once it was due: a scan of the rows held, or an epoch of the engine,
                   whose cost does not depend on the rows; not part of the trends

and one line `kind: trends` per case, with what the thesis states. Exit status 1 when one of them does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time as clock
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.common import Clock, emit, log, names_of
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.panes.advance import advance
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.window_progress import WindowProgress
from millpond.synopses import PanesSpec, connection, merge_partials, partial
from millpond.synopses.pane_partials import panes_spec
from millpond.testing import band, block_sorted, punctuations
from millpond.types import (
    SECOND,
    Aggregate,
    Column,
    Output,
    QueryOptions,
    StreamDefinition,
    StreamOptions,
    TimeWindow,
    WindowQuery,
)
from millpond.types.sql_expressions import parsed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """An experiment: a window, an aggregate, rows in order of arrival, true punctuations.

    at, bounds: rows before each punctuation, and its bound. pace: seconds of the replay per row.
    """

    name: str
    window: TimeWindow
    aggregate: Aggregate
    slacks: tuple[float, ...]
    kinds: tuple[str, ...]
    times: Array
    values: Array
    at: Array
    bounds: Array
    pace: float

    @property
    def ends(self) -> Array:
        """Ends of all windows that hold a row."""
        w = self.window
        first = (int(self.times.min()) - w.origin) // w.slide + 1
        last = (int(self.times.max()) - w.origin + w.range) // w.slide
        return w.origin + np.arange(first, last + 1) * w.slide


def case_x2(rows: int) -> Case:
    """Average over a band of disorder; values grow with the lag, as long flows are reported late."""
    span, most = 600 * SECOND, 3_200_000
    times = band(rows, span, most, seed=2)
    lag = np.maximum.accumulate(times) - times
    values = 100 + 400 * lag / most + np.random.default_rng(2).normal(0, 5, rows)
    window = TimeWindow(64 * SECOND, 6_400_000)
    at, bounds = punctuations(times, window.slide)
    aggregate = Aggregate("a0", "avg", (parsed('"v"').typed("DOUBLE"),), type="DOUBLE")
    slacks = (0, 0.32, 0.64, 1.28, 2.56, 3.2)
    return Case(
        "X2", window, aggregate, slacks, ("consistent", "generous"), times, values, at, bounds, span / SECOND / rows
    )


def case_x3(rows: int) -> Case:
    """Count over blocks without order; a punctuation behind each block."""
    block, blocks = 490 * SECOND, 12
    times = block_sorted(rows, blocks * block, block, seed=3)
    bounds = np.arange(1, blocks + 1) * block
    at = np.searchsorted(times // block, np.arange(1, blocks + 1))
    aggregate = Aggregate("a0", "count_star", type="BIGINT")
    slacks = (0, 54.4, 109.1, 218.2, 327.3, 434.2, 490.9, 600)
    pace = blocks * block / SECOND / rows
    window, values = TimeWindow(600 * SECOND, 60 * SECOND), np.ones(rows)
    return Case("X3", window, aggregate, slacks, ("consistent",), times, values, at, bounds, pace)


CASES = {"X2": case_x2, "X3": case_x3}


def answer_of(case: Case, values: Array) -> float:
    """The aggregate of the rows of a window; NaN of none."""
    if case.aggregate.function == "avg":
        return float(values.mean()) if len(values) else float("nan")
    return float(len(values))


def truth(case: Case) -> Array:
    """The answer of every window over all its rows."""
    inside = [(case.times >= e - case.window.range) & (case.times < e) for e in case.ends]
    return np.array([answer_of(case, case.values[i]) for i in inside])


def with_slack(case: Case, slack: int, generous: bool) -> tuple[Array, Array, float]:
    """Buffering with slack: answers, the row behind which each comes, seconds that they took together.

    Rows are released in order once the largest time is `slack` ahead of them; a window is closed when a row at or
    behind its end is released, and answered by a scan of its rows.
    """
    w, ends = case.window, case.ends
    high = np.maximum.accumulate(case.times)
    released = np.append(-(2**62), high[:-1] - slack)  # what has been closed when a row comes
    first_end = w.origin + ((case.times - w.origin) // w.slide + 1) * w.slide
    lost = first_end <= released
    answers, taken = np.empty(len(ends)), 0.0
    for number, end in enumerate(ends):
        began = clock.perf_counter()
        counted = (case.times >= end - w.range) & (case.times < end) & (end > released)
        if not generous:
            counted &= ~lost
        answers[number] = answer_of(case, case.values[counted])
        taken += clock.perf_counter() - began
    return answers, np.searchsorted(high - slack, ends) + 1, taken


@dataclass
class Held:
    """The state between punctuations, as `evaluation.State` wants it."""

    spec: PanesSpec
    held: pa.Table = field(default_factory=lambda: pa.table({}))
    delta: pa.Table = field(default_factory=lambda: pa.table({}))

    def before(self, low: int) -> pa.Table:
        """Pane rows from `low` on, without the delta."""
        return self.held.filter(pc.greater_equal(self.held["pane"], low)) if self.held.num_rows else self.held

    def after(self, low: int) -> pa.Table:
        """Pane rows from `low` on, with the delta."""
        both = merge_partials(connection(), self.spec, [self.held, self.delta])
        return both.filter(pc.greater_equal(both["pane"], low)) if both.num_rows else both

    def settle(self, low: int) -> None:
        """Take the delta in; forget what lies before `low`."""
        self.held = self.after(low)


def with_punctuation(case: Case) -> tuple[Array, Array, float]:
    """The engine between punctuations: answers, the row behind which each comes, seconds behind the punctuations."""
    stream = StreamDefinition("s", (Column("ts", "TIMESTAMP"), Column("v", "DOUBLE")), StreamOptions(time="ts"))
    query = WindowQuery(
        stream="s",
        window=case.window,
        select=(Output("a", parsed("a0").typed(case.aggregate.type)),),
        aggregates=(case.aggregate,),
    )
    db, spec = connection(), panes_spec(query, stream)
    state, progress = Held(spec), QueryProgress(own=WindowProgress())
    found: dict[int, tuple[float, int]] = {}
    begin, high, taken = 0, -(2**62), 0.0
    # At the end of the stream everything is covered.
    marks = [*zip(case.at.tolist(), case.bounds.tolist(), strict=True), (len(case.times), int(case.ends[-1]))]
    for at, bound in marks:
        rows = {"ts": pa.array(case.times[begin:at], pa.timestamp("us")), "v": pa.array(case.values[begin:at])}
        state.delta = partial(db, spec, pa.table(rows))
        began = clock.perf_counter()
        reached = max(high, int(case.times[begin:at].max(initial=high)))
        result = advance(db, spec, state, Closing(query, QueryOptions(), "drop", progress, bound, high, reached))
        taken += clock.perf_counter() - began
        if result.answers is not None:
            ends = result.answers["window_end"].cast(pa.int64()).to_pylist()
            found.update({e: (float(a), at) for e, a in zip(ends, result.answers["a"].to_pylist(), strict=True)})
        progress, begin, high = result.progress, at, reached
        state.settle(spec.panes.pane(bound - case.window.range))
    answers = [found.get(int(e), (float("nan"), len(case.times))) for e in case.ends]
    return np.array([a for a, _ in answers]), np.array([n for _, n in answers]), taken


def measure(case: Case, kind: str, slack: float, true: Array, engine: tuple[Array, Array, float]) -> dict[str, Any]:
    """One run: the line to print."""
    answers, came, taken = engine
    if kind != "punctuation":
        answers, came, taken = with_slack(case, round(slack * SECOND), kind == "generous")
    covered = np.append(case.at, len(case.times))[np.searchsorted(case.bounds, case.ends)]
    waited = np.maximum(0, np.minimum(came, len(case.times)) - covered)
    if case.name == "X2":
        error = float(np.mean(np.where(np.isnan(answers), 1.0, np.abs(answers - true) / np.abs(true))))
        error = 0.0 if error < 1e-12 else error
    else:
        error = float(np.mean(answers != true))
    return {
        "bench": "disorder",
        "case": case.name,
        "kind": kind,
        "slack_s": slack if kind != "punctuation" else None,
        "rows": len(case.times),
        "windows": len(case.ends),
        "error": round(error, 6),
        "latency_s": round(float(waited.mean()) * case.pace, 4),
        "processing_ms": round(1000 * taken / len(case.ends), 3),
        "correct": kind != "punctuation" or error == 0.0,
    }


def trends(case: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether the runs of a case have the shape that the thesis states."""
    by = {k: [line for line in lines if line["kind"] == k] for k in ("punctuation", "consistent", "generous")}
    mark, slack = by["punctuation"][0], [*by["consistent"], *by["generous"]]
    found = {
        "punctuation_is_exact": mark["error"] == 0.0,
        "punctuation_beats_every_slack": all(
            line["error"] >= mark["error"]
            and line["latency_s"] >= mark["latency_s"]
            and (line["error"], line["latency_s"]) != (mark["error"], mark["latency_s"])
            for line in slack
        ),
    }
    if case == "X2":
        runs = [by["consistent"], by["generous"]]
        errors = [[line["error"] for line in run] for run in runs]
        latencies = [[line["latency_s"] for line in run] for run in runs]
        found |= {
            "more_slack_less_error": all(e == sorted(e, reverse=True) and e[0] > e[-1] for e in errors),
            "more_slack_more_latency": all(x == sorted(x) and x[0] < x[-1] for x in latencies),
            "generous_is_far_more_accurate": all(g <= c / 2 for c, g in zip(*errors, strict=True)),
            "at_like_latency": latencies[0] == latencies[1],
        }
    else:
        flat = [line["latency_s"] for line in slack if line["slack_s"] < 490]
        jump = [line["latency_s"] for line in slack if line["slack_s"] > 491]
        found |= {
            "latency_is_flat_below_the_optimum": max(flat) - min(flat) < 0.1 * min(jump),
            "latency_jumps_above_it": min(jump) > 10 * max(flat),
            "less_slack_than_the_optimum_is_wrong": all(line["error"] > 0 for line in slack if line["slack_s"] < 490),
        }
    return {"bench": "disorder", "case": case, "kind": "trends", **found, "correct": all(found.values())}


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.disorder", description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=60_000, help="rows of each stream")
    parser.add_argument("--cases", type=names_of(CASES), default=list(CASES), help="comma-separated")
    options = parser.parse_args(arguments)
    timer, right = Clock(), True
    for name in options.cases:
        case = CASES[name](options.rows)
        true, engine = truth(case), with_punctuation(case)
        lines = [measure(case, "punctuation", 0.0, true, engine)]
        lines += [measure(case, kind, slack, true, engine) for kind in case.kinds for slack in case.slacks]
        lines.append(trends(name, lines))
        for line in lines:
            emit(line)
            right = right and bool(line["correct"])
        log(f"{timer} {name}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
