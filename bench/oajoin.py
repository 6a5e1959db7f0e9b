"""Experiments X6 and X7, and T19 (Li 2008, chapters 7 and 8): what a join holds and how long its results wait.

    python -m bench.oajoin [--seconds 20] [--rate 4000] [--ranges 1,3,5,7,9]

Q7-2 joins two links of about 4,000 tuples/s, ordered and in step, on opposite flows within n seconds. Three joins of
the same input, page by page, with one probing function; what they let go, and when results go out, is what differs:

    oa      order-agnostic: a result goes out with its second tuple (the product's rule; its marks and what it purges
            are those of `millpond.relations.bands`)
    opob    the same join, and a buffer that sorts the results by M1.ts and lets go of them as progress on it allows
    opib    the inputs wait: a tuple of M1 is joined when M2 has passed its reach, so that results come in order

One JSON object a line for each n on standard output:

    bench, case, range_s, tuples, results
    {oa,opob,opib}_bytes     the most that is held: tuples of 40 bytes, results of two of them
    {oa,opob,opib}_wait_s    how long a result waits on average from when both tuples are there, in stream time
    {oa,opob,opib}_s         processor time
    correct                  all three give the same results, and as many as DuckDB

then `case: delayed` (T19): M1 up to five minutes late, two minutes each way; minutes of M1 and of M2 that are held by
the order-agnostic join, and by one behind a Sort, the Sort included. Exit status 1 when results differ, or when
OA-Join does not hold less than the others, wait less, and hold three minutes less of M1 than the join behind a Sort.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.common import emit, whole_numbers
from millpond.relations.bands import marks_of, needed_from
from millpond.types import SECOND, JoinPlan, PairsQuery, RangeWindow, RelationInput
from millpond.types.relation_queries import INNER

Ints = npt.NDArray[np.int64]

#: Bytes of a tuple (two addresses, two ports, length, event time); a result has two.
TUPLE = 40

#: Tuples of a page.
PAGE = 400

MINUTE = 60 * SECOND


@dataclass(frozen=True)
class Rows:
    """Tuples: event time, flow, number."""

    ts: Ints
    flow: Ints
    number: Ints

    def where(self, chosen: npt.NDArray[Any]) -> Rows:
        """Some of them."""
        return Rows(self.ts[chosen], self.flow[chosen], self.number[chosen])

    def __add__(self, other: Rows) -> Rows:
        return Rows(*(np.concatenate([a, b]) for a, b in zip(self.columns, other.columns, strict=True)))

    @property
    def columns(self) -> tuple[Ints, Ints, Ints]:
        """ts, flow, number."""
        return self.ts, self.flow, self.number

    def __len__(self) -> int:
        return len(self.ts)


NOTHING = Rows(*(np.empty(0, np.int64) for _ in range(3)))


def packets(seconds: int, rate: int, flows: int, seed: int) -> Rows:
    """An ordered stream of packets."""
    rng = np.random.default_rng(seed)
    count = seconds * rate
    times = np.sort(rng.integers(0, seconds * SECOND, count))
    return Rows(times, rng.integers(0, flows, count), np.arange(count))


def band(left: int, right: int) -> PairsQuery:
    """The join of two windows, as the product plans it."""
    inputs = tuple(RelationInput(n, n, RangeWindow(w), ()) for n, w in (("m1", left), ("m2", right)))
    plan = JoinPlan(INNER, ("m1", "m2"), ("m1", "m2"), (), None, None, "*")
    return PairsQuery(select=(), inputs=inputs, tables=(), sql="", lifted=None, instants="i", join=plan)


def probe(left: Rows, right: Rows, ahead: int, back: int) -> tuple[Ints, Ints]:
    """Row numbers of tuples of the same flow with left - back <= right <= left + ahead."""
    order = np.lexsort((right.ts, right.flow))
    span = np.int64(1 << 40)
    keys = right.flow[order] * span + right.ts[order]
    low = np.searchsorted(keys, left.flow * span + np.maximum(left.ts - back, 0), "left")
    count = np.searchsorted(keys, left.flow * span + left.ts + ahead, "right") - low
    who = np.repeat(np.arange(len(left)), count)
    within = np.arange(len(who)) - np.repeat(np.cumsum(count) - count, count)
    return who, order[np.repeat(low, count) + within]


@dataclass
class Run:
    """What a variant did: bytes held at most, when results went out, and a sum over them."""

    held: int = 0
    results: int = 0
    waited: int = 0
    released: int = 0  # of a buffer
    checked: int = 0
    took: float = 0.0
    waiting: list[tuple[Ints, Ints]] = field(default_factory=list)  # results in a buffer: M1.ts, when both were there

    def hold(self, tuples: int) -> None:
        """Remember the most."""
        self.held = max(self.held, TUPLE * (tuples + 2 * sum(len(a) for a, _ in self.waiting)))

    def give(self, left: Rows, right: Rows, who: Ints, whom: Ints) -> None:
        """Results: count them."""
        self.results += len(who)
        self.checked += int((left.number[who] * 31 + right.number[whom] * 17).sum())


def pages(one: Rows, two: Rows) -> list[tuple[Rows, Rows, int]]:
    """Both streams page by page, in step, with the time up to which they have come."""
    found = []
    for start in range(0, len(one), PAGE):
        a = one.where(np.arange(start, min(start + PAGE, len(one))))
        low, high = found[-1][2] if found else -1, int(a.ts[-1])
        b = two.where(np.flatnonzero((two.ts > low) & (two.ts <= high)))
        found.append((a, b, high))
    return found


def symmetric(stream: list[tuple[Rows, Rows, int]], reach: int, ordered: bool) -> Run:
    """OA-Join; `ordered`: with a buffer that sorts its results (OPOB-Join)."""
    run, relation, start = Run(), band(reach, reach), time.process_time()
    left = right = NOTHING
    for a, b, now in stream:
        for one, two in ((a, right), (left + a, b)):
            who, whom = probe(one, two, reach, reach)
            run.give(one, two, who, whom)
            if ordered and len(who):
                run.waiting.append((one.ts[who], np.maximum(one.ts[who], two.ts[whom])))
        left, right = left + a, right + b
        run.hold(len(left) + len(right))
        lows = needed_from(relation, (now, now))
        left, right = left.where(left.ts >= lows[0]), right.where(right.ts >= lows[1])
        if ordered and run.waiting:
            mark = marks_of(relation, (now, now)).sides[0]
            first, there = (np.concatenate(each) for each in zip(*run.waiting, strict=True))
            order = np.argsort(first, kind="stable")
            first, there = first[order], there[order]
            gone = int(np.searchsorted(first, mark))
            run.waited += int((now - there[:gone]).sum())
            run.released += gone
            run.waiting = [(first[gone:], there[gone:])]
    run.took = time.process_time() - start
    return run


def inputs_wait(stream: list[tuple[Rows, Rows, int]], reach: int) -> Run:
    """OPIB-Join: a tuple of M1 is joined, in order, when M2 has passed its reach."""
    run, start = Run(), time.process_time()
    left = right = NOTHING
    ends = [*stream, (NOTHING, NOTHING, stream[-1][2] + 2 * reach)]
    for a, b, now in ends:
        left, right = left + a, right + b
        run.hold(len(left) + len(right))
        due = left.ts + reach < now
        ready, left = left.where(due), left.where(~due)
        who, whom = probe(ready, right, reach, reach)
        run.give(ready, right, who, whom)
        run.waited += int((now - np.maximum(ready.ts[who], right.ts[whom])).sum())
        oldest = int(left.ts[0]) if len(left) else now
        right = right.where(right.ts >= oldest - reach)
    run.took = time.process_time() - start
    return run


def expected(one: Rows, two: Rows, reach: int) -> int:
    """How many results DuckDB finds."""
    with duckdb.connect() as db:
        for name, rows in (("a", one), ("b", two)):
            db.register(name, pa.table({"ts": rows.ts, "flow": rows.flow}))
        sql = f"SELECT count(*) FROM a JOIN b ON a.flow = b.flow AND b.ts BETWEEN a.ts - {reach} AND a.ts + {reach}"
        return int(db.execute(sql).fetchall()[0][0])


def compared(one: Rows, two: Rows, seconds: int) -> dict[str, Any]:
    """The three joins of one window."""
    reach, stream = seconds * SECOND, pages(one, two)
    seen = two.where(two.ts <= stream[-1][2])
    runs = {
        "oa": symmetric(stream, reach, False),
        "opob": symmetric(stream, reach, True),
        "opib": inputs_wait(stream, reach),
    }
    found = {(r.results, r.checked) for r in runs.values()}
    line: dict[str, Any] = {
        "bench": "oajoin", "case": "ordered", "range_s": seconds, "tuples": len(one) + len(seen),
        "results": runs["oa"].results, "correct": len(found) == 1 and runs["oa"].results == expected(one, seen, reach),
    }  # fmt: skip
    for name, run in runs.items():
        line[f"{name}_bytes"] = run.held
        line[f"{name}_wait_s"] = round(run.waited / max(1, run.released or run.results) / SECOND, 3)
        line[f"{name}_s"] = round(run.took, 3)
    return line


def delayed() -> dict[str, Any]:
    """T19: minutes of each input that are held when M1 comes up to five minutes late."""
    relation, now, late = band(2 * MINUTE, 2 * MINUTE), 60 * MINUTE, 5 * MINUTE
    lows = needed_from(relation, (now - late, now))
    return {
        "bench": "oajoin", "case": "delayed",
        "oa_m1_min": (now - lows[0]) // MINUTE, "oa_m2_min": (now - lows[1]) // MINUTE,
        # What the Sort lets go of is older than what M2 can still meet: the join keeps none of it.
        "sort_m1_min": late // MINUTE + max(0, (now - late - lows[0]) // MINUTE),
        # Behind a Sort M1 is as far as before it, so that as much of M2 waits for it.
        "sort_m2_min": (now - lows[1]) // MINUTE,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=4000)
    parser.add_argument("--ranges", type=whole_numbers, default=[1, 3, 5, 7, 9], help="seconds, comma-separated")
    given = parser.parse_args(arguments)
    one, two = (packets(given.seconds, given.rate, 2_000, seed) for seed in (1, 2))
    good = True
    for seconds in given.ranges:
        line = compared(one, two, seconds)
        emit(line)
        least = min(line["opob_bytes"], line["opib_bytes"])
        good &= line["correct"] and line["oa_bytes"] <= least and line["oa_wait_s"] < line["opib_wait_s"]
    late = delayed()
    emit(late)
    good &= late["oa_m1_min"] + 3 == late["sort_m1_min"] and late["oa_m2_min"] == 7
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
