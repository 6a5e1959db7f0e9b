"""A join of four streams whose selectivities flip in mid-run: the adaptive order against each fixed one.

    python -m bench.mjoin                                    20,000 keys, 200,000 rows an epoch, 2 x 20 epochs
    python -m bench.mjoin --keys 5000 --rows 50000 --epochs 14

Rows of r look for partners in x, y and z, which have 2 %, 30 % and 90 % of the keys, and after the flip 90 %, 30 %
and 2 %. The same join stands in one pond several times: adaptive, and in each of the six fixed orders (`adapt = 'off'`,
the order of FROM), over the same rows in the same epochs, sharing the streams' rows. What A-Greedy needs to see a
change is given to it: the first ten epochs of each phase do not count.

One JSON object a line: `case: order` for each query (of both phases, an epoch on average: `probes`, the rows that were
asked for in all inputs; `probe_s`, processor time that this took, without profiling; `query_s`, time of the whole
query), then `case: mjoin`: the adaptive order's probes and probe time as a share of those of the best fixed order of
each phase (`correct`: at most 1.1 in probes, and the answers of all are equal; `time_within`: at most 1.1 in time).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

import millpond
from bench.common import Clock, emit, log, ratio
from millpond.engine.control.reporting import epoch_readings

#: Share of the keys that each input has, before the flip; after it the other way round.
SHARES = {"x": 0.02, "y": 0.3, "z": 0.9}

#: Event time of an epoch, microseconds, and where it begins.
LENGTH, START = 10_000_000, 1_700_000_000_000_000

#: Epochs of a phase that do not count.
LEARN = 10

#: How far the adaptive order may be behind the best fixed one.
WITHIN = 1.1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m bench.mjoin", description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=20_000, help="and rows of x, y and z in an epoch, each")
    parser.add_argument("--rows", type=int, default=200_000, help="of r in an epoch")
    parser.add_argument("--epochs", type=int, default=20, help=f"of a phase, more than {LEARN}")
    parser.add_argument("--probability", type=float, default=0.01, help="share of dropped rows that are profiled")
    return parser.parse_args(arguments)


def rows_of(name: str, epoch: int, share: float, options: argparse.Namespace) -> pa.Table:
    """The rows of a stream in an epoch: x, y and z have each of their keys once, and others that r has not."""
    random = np.random.default_rng([epoch, ord(name)])
    count = options.rows if name == "r" else options.keys
    keys = random.integers(0, options.keys, count)
    if name != "r":
        keys = random.permutation(options.keys)
        keys = np.where(keys < share * options.keys, keys, -1 - keys)[random.permutation(options.keys)]
    at = START + epoch * LENGTH + np.sort(random.integers(0, LENGTH, count))
    return pa.table(
        {"ts": pa.array(at, pa.timestamp("us")), "k": keys.astype(np.int32), "v": random.integers(0, 99, count)}
    )


def main(arguments: list[str] | None = None) -> int:
    """Run both phases; the exit status."""
    options, clock = parse(arguments), Clock()
    # What the first query sorts is sorted for all, so the first one does not count.
    orders = {"first": "xyz", "adaptive": "xyz"} | {"".join(o): "".join(o) for o in itertools.permutations("xyz")}
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="millpond-mjoin-") as home, millpond.open(
        home, executor="inline", shards=1
    ) as pond:  # fmt: skip
        for name in "rxyz":
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, v BIGINT) WITH (event_time='ts', late='drop')")
        for name, order in orders.items():
            windows = ", ".join(f"{n} [RANGE {LENGTH} MICROSECONDS]" for n in order)
            kept = f"adapt_probability = {options.probability}" if name == "adaptive" else "adapt = 'off'"
            pond.sql(
                f"CREATE QUERY q_{name} WITH ({kept}) AS SELECT ISTREAM(r.k, r.v, x.v AS xv, y.v AS yv, z.v AS zv)"
                f" FROM r [NOW], {windows} WHERE r.k = x.k AND r.k = y.k AND r.k = z.k"
            )
        shares = list(SHARES.values())
        for epoch in range(2 * options.epochs):
            now = dict(zip(SHARES, shares if epoch < options.epochs else shares[::-1], strict=True))
            for name in "rxyz":
                pond.ingest(name, rows_of(name, epoch, now.get(name, 1.0), options))
            pond.step()
            readings = epoch_readings(pond._core.catalog, pond._core.telemetry.work[-1])
            for name in orders:
                probes = [v for (e, kind), v in readings.items() if kind == "probe" and e.startswith(f"q_{name}: r >")]
                found[name].append({
                    "probes": sum(v.get("rows_in", 0.0) for v in probes),
                    "probe_s": sum(v.get("seconds", 0.0) for v in probes),
                    "query_s": readings.get((f"q_{name}", "query"), {}).get("seconds", 0.0),
                })  # fmt: skip
            log(f"{clock} epoch {epoch}: {found['adaptive'][-1]['probes']:,.0f} probes")
        answers = {n: pond.sql(f"SELECT * FROM q_{n} ORDER BY ALL").rows() for n in orders}
        changes = [e for e in pond.plans("q_adaptive").to_pylist() if e["pipeline"] == "r" and e["changed"]]
    return told(options, found, answers, changes)


def told(
    options: argparse.Namespace,
    found: dict[str, list[dict[str, float]]],
    answers: dict[str, list[tuple[Any, ...]]],
    changes: list[dict[str, Any]],
) -> int:
    """Print the lines; the exit status."""
    phases = [slice(start + LEARN, start + options.epochs) for start in (0, options.epochs)]
    mean: dict[str, dict[str, list[float]]] = {
        name: {
            what: [float(np.mean([e[what] for e in epochs[phase]])) for phase in phases]
            for what in ("probes", "probe_s", "query_s")
        }
        for name, epochs in found.items()
    }
    del mean["first"]
    for name, of in mean.items():
        emit({"bench": "mjoin", "case": "order", "order": name, **{k: [round(v, 6) for v in of[k]] for k in of}})
    fixed = [name for name in mean if name != "adaptive"]
    line: dict[str, Any] = {"bench": "mjoin", "case": "mjoin", "correct": False}
    behind: dict[str, list[float]] = {}
    for what in ("probes", "probe_s"):
        best = [min(mean[name][what][p] for name in fixed) for p in (0, 1)]
        worst = [max(mean[name][what][p] for name in fixed) for p in (0, 1)]
        behind[what] = [mean["adaptive"][what][p] / best[p] for p in (0, 1)]
        line[f"{what}_of_best"] = [ratio(mean["adaptive"][what][p], best[p]) for p in (0, 1)]
        line[f"{what}_worst_of_best"] = [ratio(worst[p], best[p]) for p in (0, 1)]
    first = answers["adaptive"]
    equal = all(each == first for each in answers.values()) and bool(first)
    within = max(behind["probes"]) <= WITHIN
    emit(
        line
        | {
            "correct": equal and within,
            "time_within": max(behind["probe_s"]) <= WITHIN,
            "answers": len(first),
            "changes": [{"epoch": e["epoch"], "order": e["plan"]} for e in changes],
            "rows_an_epoch": options.rows + 3 * options.keys,
            "epochs": 2 * options.epochs,
            "problems": ([] if equal else ["answers differ"])
            + ([] if within else ["more probes than 1.1 of the best"]),
        }
    )
    return 0 if equal and within else 1


if __name__ == "__main__":
    sys.exit(main())
