"""Reduction functions: how much of each part of a stream's past a scan may leave out (OSCAR's r-UDFs).

A reduction is a fraction to drop, 0 <= d < 1, or an interval to sum over. What `REDUCE …` asks is resolved before a
scan into steps: stretches of event time, each with its fraction. Which rows a step keeps is a matter of their ids alone
(`sampling`), so that the rows, and with them the answer, do not depend on how they lie in files. Of a step with an
interval nothing is dropped, but every row is seen at the start of its interval, so that sums over it will do.

    sample(d)               one step
    age(t1, d1, t2, d2 …)   a step per age, counted back from the scan's NOW
    load(most)              one step, what the load asks for (`load`)
    error(e)                one step, found by pilot scans (`fidelity.fraction_for`)
    a function of your own  called for each run of the archive in order of time; a step per run

A function of your own is called as `function(run, *arguments)` with the constants of its call, for one run after
another, from old to new, and gives the fraction to drop, or the interval as a `datetime.timedelta`. It may look at the
rows kept of the run before, all at once as an Arrow table, and keep what it learns in `run.memory`:

    >>> def steady(run, target):                           # as many rows of every run, however large it is
    ...     return max(0.0, 1 - target / max(run.rows, 1))
    >>> step_of(steady, Run(0, 10, rows=400, now=20), (100,))
    Step(low=0, high=10, drop=0.75, interval=0)
    >>> step_of(lambda run: dt.timedelta(hours=1), Run(0, 10)).interval
    3600000000
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.archive.design.sampling import kept_fraction
from millpond.support.errors import Refusal
from millpond.types import Reduction

#: The first and the last instant: an open end of a step.
START, END = -(2**62), 2**62


@dataclass(frozen=True)
class Step:
    """Rows with low <= event time < high (microseconds), and the fraction of them to drop.

    interval: each is seen at the start of its interval of this length (microseconds); 0: at its own time.
    """

    low: int
    high: int
    drop: float
    interval: int = 0


@dataclass
class Run:
    """A run of the archive as a reduction function sees it. Instants are microseconds of event time.

    low, high: its rows have event times from `low` to below `high`. rows: how many there are, as far as statistics say.
    bytes: how large its files are. now: NOW of the scan. memory: a dict that all calls of one scan share.
    previous: gives the rows that the scan keeps of the run before, with their weight (`_weight`); asking reads them,
    and the scan does not read them again where it runs in the pond's process.
    """

    low: int
    high: int
    rows: int = 0
    now: int = 0
    bytes: int = 0
    memory: dict[str, Any] = field(default_factory=dict)
    previous: Callable[[], pa.Table | None] = lambda: None


def sample_steps(drop: float) -> tuple[Step, ...]:
    """One fraction for all of the past.

    >>> sample_steps(0.4)
    (Step(low=-4611686018427387904, high=4611686018427387904, drop=0.4, interval=0),)
    """
    kept_fraction(drop)
    return (Step(START, END, drop),)


def age_steps(reduction: Reduction, now: int) -> tuple[Step, ...]:
    """Newer rows are read finer: the fractions of `reduction` by age, counted back from `now`.

    >>> [(s.low, s.high, s.drop) for s in age_steps(Reduction("age", (0.5, 0.9), (10, 70)), 100)][1:]
    [(30, 90, 0.5), (90, 4611686018427387904, 0.0)]
    """
    edges = [END, *(now - span for span in reduction.spans), START]
    drops = (0.0, *reduction.drops)
    steps = [Step(low, high, drop) for high, low, drop in zip(edges, edges[1:], drops, strict=False)]
    return joined(reversed(steps))


def run_steps(
    function: Callable[..., Any],
    name: str,
    arguments: Sequence[Any],
    runs: Sequence[Run],
    previous: Callable[[Step], pa.Table | None],
    sums: bool = False,
) -> tuple[Step, ...]:
    """What a function of your own says of each run, in their order; before the first and behind the last nothing lies.

    Arguments:
        name: of the function, for errors. previous: the rows that a scan keeps of a run, by what was said of it.
        sums: whether the query can see its past as sums over intervals.
    Raises: Refusal when the function fails, gives neither a fraction nor an interval, or an interval without `sums`.
    """
    memory: dict[str, Any] = {}
    steps: list[Step] = []
    for run in runs:
        run.memory = memory
        run.previous = _once(previous, steps[-1] if steps else None)
        step = step_of(function, run, arguments, name)
        if step.interval and not sums:
            raise Refusal(
                f"reduction function '{name}' gave the interval {dt.timedelta(microseconds=step.interval)}"
                f" {_where(run)}; sums over intervals are for aggregates of one stream, over windows of time or over"
                " everything",
                words=("REDUCE",),
                expected="a fraction to drop",
            )
        steps.append(step)
    return joined(steps)


def _once(previous: Callable[[Step], pa.Table | None], of: Step | None) -> Callable[[], Any]:
    found: list[pa.Table | None] = []

    def rows() -> pa.Table | None:
        if of is None:
            return None
        if not found:
            found.append(previous(of))
        return found[0]

    return rows


def step_of(function: Callable[..., Any], run: Run, arguments: Sequence[Any] = (), name: str = "") -> Step:
    """What a function says of a run, checked.

    Raises: Refusal when it fails, or gives neither a number in [0, 1) nor a timedelta that is longer than nothing.
    """
    called = name or getattr(function, "__name__", "the function")
    try:
        said = function(run, *arguments)
    except Exception as error:
        reason = f"reduction function '{called}' failed {_where(run)}: {type(error).__name__}: {error}"
        raise Refusal(reason, words=("REDUCE",)) from error
    if isinstance(said, dt.timedelta) and said > dt.timedelta(0):
        return Step(run.low, run.high, 0.0, said // dt.timedelta(microseconds=1))
    number = isinstance(said, int | float | np.floating | np.integer) and not isinstance(said, bool)
    if not number or not 0 <= said < 1:
        raise Refusal(
            f"reduction function '{called}' gave {said!r} {_where(run)}",
            words=("REDUCE",),
            expected="a fraction to drop, from 0 to below 1, or a datetime.timedelta that is longer than nothing",
        )
    return Step(run.low, run.high, float(said))


def _where(run: Run) -> str:
    """A run, for errors."""
    low, high = (str(np.datetime64(t, "us")).replace("T", " ").removesuffix(".000000") for t in (run.low, run.high))
    return f"for the run from {low} to {high}"


def joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Steps in order of time, neighbours of which the same was said as one, empty ones left out.

    >>> joined([Step(0, 5, 0.5), Step(5, 5, 0.1), Step(5, 9, 0.5)])
    (Step(low=0, high=9, drop=0.5, interval=0),)
    """
    found: list[Step] = []
    for step in steps:
        if step.high <= step.low:
            continue
        if found and found[-1] == replace(step, low=found[-1].low, high=step.low):
            found[-1] = replace(step, low=found[-1].low)
        else:
            found.append(step)
    return tuple(found)


def within(steps: Sequence[Step], low: int | None, high: int | None) -> tuple[Step, ...]:
    """The steps cut to low <= event time < high; None: open.

    >>> within((Step(0, 10, 0.5), Step(10, 20, 0.0)), 5, 12)
    (Step(low=5, high=10, drop=0.5, interval=0), Step(low=10, high=12, drop=0.0, interval=0))
    """
    low, high = START if low is None else low, END if high is None else high
    return tuple(
        replace(s, low=max(s.low, low), high=min(s.high, high)) for s in steps if s.low < high and s.high > low
    )


def reduced_stretches(steps: Sequence[Step]) -> tuple[tuple[int, int], ...]:
    """Where anything is dropped: (low, high) stretches of event time, neighbours joined."""
    some = joined(Step(s.low, s.high, 0.5) for s in steps if s.drop > 0)
    return tuple((s.low, s.high) for s in some)


def untouched(
    start: np.ndarray[Any, np.dtype[np.int64]],
    end: np.ndarray[Any, np.dtype[np.int64]],
    stretches: Sequence[tuple[int, int]],
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of the intervals start <= t < end (microseconds) meet no stretch.

    >>> untouched(np.array([0, 10]), np.array([10, 20]), [(5, 10)]).tolist()
    [False, True]
    """
    found = np.ones(len(start), np.bool_)
    for low, high in stretches:
        found &= (end <= low) | (start >= high)
    return found


def unmoved(
    start: np.ndarray[Any, np.dtype[np.int64]],
    end: np.ndarray[Any, np.dtype[np.int64]],
    coarse: Sequence[tuple[int, int, int]],
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of the intervals start <= t < end (microseconds) no row is moved into or out of.

    Arguments:
        coarse: (low, high, interval): rows with low <= event time < high are seen at the start of their interval. One
            crosses an edge that lies within an interval if it comes behind it, up to the interval's end.

    >>> unmoved(np.array([0, 0, 0, 4]), np.array([10, 12, 22, 20]), [(11, 20, 5)]).tolist()
    [True, False, True, True]
    """
    found = np.ones(len(start), np.bool_)
    for low, high, interval in coarse:
        for edge in (start, end):
            begin = edge // interval * interval
            found &= (edge == begin) | (edge >= high) | (begin + interval <= low)
    return found
