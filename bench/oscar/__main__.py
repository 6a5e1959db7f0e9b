"""OSCAR, section 3 of its experiments.

    python -m bench.oscar [--rows 20000000] [--minutes 10] [--scanners 0,1,2,3,4,6,8] [--seconds 20]

Tuples are `(ts TIMESTAMP, timestamp DOUBLE, userattr INTEGER)`, queries count rows and look at every column, so that a
scan reads whole tuples as a row store's count(*) does. Everything runs in one process; inserts are epochs of the
engine. One JSON object a line on standard output, counted bytes and row groups first, then seconds:

    case size      how many rows are used; fewer than asked for when they would not fit into --minutes
    case insert    Figure 11: design, rows, seconds, bytes on disk, as shares of plain
    case scan      Figure 12: design, reduction, state ('first', 'second', 'vacuumed' of modify), bytes and groups read,
                   share of a full scan, the model's share (digest, section 2), seconds with the files dropped from the
                   page cache
    case lag       live rows beside 8 full-history queries, with REDUCE load() and without: seconds that rows wait
    case rate      Figures 17-18: scans per 1,000 s against the reduction
    case beside    Figures 13-16: inserts beside N scanning threads at 25 and 75 %: seconds of inserts, scans completed
    case aim       what is wanted, what was measured, and whether it is met
    case over      what was left out for lack of time, and answers that were wrong

Exit status 1 if an answer was wrong; aims that are missed are said, and do not change it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.common import Budget, Clock, emit, log, scratch, whole_numbers
from bench.oscar.aims import aims, show
from bench.oscar.archives import BATCH, DESIGNS, HYBRID, Archive, tuples
from bench.oscar.figures import beside, inserts, rates, scans
from bench.oscar.lag import lags


def fitting(asked: int, left: float, folder: Path) -> int:
    """How many rows can be used in the time that there is; measured on an epoch of each design, which also warms up."""
    rows = min(BATCH, asked)
    taken, scan = 0.0, 0.0
    for name in DESIGNS:
        archive = Archive(folder / f"trial-{name}", name)
        for batch in tuples(2 * rows):  # code is compiled in the first epoch
            archive.seconds = 0.0
            archive.insert_batch(batch)
        archive.count(0.0)
        taken, scan = taken + 2 * archive.seconds, max(scan, archive.count(0.0)[0] / 2)
        archive.pond.close()
    # Landing takes about as long again as the epoch; some 60 full scans are read, and vacuumed copies are written.
    per_batch = taken + 60 * scan + 0.3 * rows / BATCH
    return max(min(asked, BATCH // 4), min(asked, int(0.5 * left / max(per_batch, 1e-9) * rows)))


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments; 0 when no answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--scanners", type=whole_numbers, default=[0, 1, 2, 3, 4, 6, 8])
    parser.add_argument("--seconds", type=float, default=20, help="of each run of case lag, and at most of case rate")
    given = parser.parse_args(arguments)
    clock = Clock()
    budget = Budget(clock, given.minutes * 60)
    faults: list[str] = []
    with scratch("oscar") as folder:
        rows = fitting(given.rows, budget.left, folder)
        emit({"bench": "oscar", "case": "size", "rows": rows, "asked": given.rows, "minutes": given.minutes})
        log(f"{clock} {rows} rows into {len(DESIGNS)} designs")
        archives = {name: Archive(folder / name, name) for name in DESIGNS}
        written = inserts(archives, rows)
        log(f"{clock} scans")
        read = scans(archives, rows)
        each = min(3.0, given.seconds or 3.0, max(0.2, budget.left / 200))
        log(f"{clock} scans in a stretch of time")
        rated = rates(archives, each) if budget.room(50 * each, "scans in a stretch of time") else []
        log(f"{clock} live rows beside scans")
        lagged = []
        if given.seconds and budget.room(3 * given.seconds, "live rows beside scans"):
            lagged = lags(archives[HYBRID], given.seconds)
        for archive in archives.values():
            faults += archive.faults
            archive.pond.close()
        log(f"{clock} inserts beside scans")
        together = beside(folder, min(rows, BATCH), given.scanners, budget, faults)
        show(aims(written, read, rated, together, lagged))
        emit({"bench": "oscar", "case": "over", "correct": not faults, "wrong": faults, "left_out": budget.left_out,
              "seconds": round(clock.seconds, 1)})  # fmt: skip
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
