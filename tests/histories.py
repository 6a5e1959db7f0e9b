"""A pond with every kind of state, and what becomes of it after one backup in several histories.

`python -m tests.histories FOLDER SEED STEPS` goes on with a pond in a process that has kept nothing, and prints its
answers.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import millpond
from millpond.testing import VirtualClock

BASE = dt.datetime(2026, 1, 1)

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE) WITH (event_time='ts', lateness='3 s');
CREATE STREAM r (ts TIMESTAMP, k TEXT, w BIGINT) WITH (event_time='ts', lateness='2 s');
CREATE STREAM halves AS SELECT ts, k, v // 2 AS h FROM s WHERE v IS NOT NULL;
"""

QUERIES = {
    "panes": "AS SELECT k, count(*) AS n, sum(x) AS x, median(v) AS m FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS]"
    " GROUP BY k",
    "lazy": "WITH (state='lazy') AS SELECT k, sum(x) AS x FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "adaptive": "WITH (state='adaptive') AS SELECT k, sum(x) AS x, median(v) AS m FROM s"
    " [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "landmark": "AS SELECT k, sum(v) AS v FROM s [RANGE ALL SLIDE 10 SECONDS] GROUP BY k",
    "rows": "AS SELECT k, list(v) AS l FROM s [PARTITION BY k ROWS 5 SLIDE 2]",
    "slow": "WITH (flush='slow', flush_delay='30s') AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]"
    " GROUP BY k",
    "early": "WITH (early='1s') AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 20 SECONDS] GROUP BY k",
    "joined": "AS SELECT ISTREAM(s.k, v, w) FROM s [RANGE 30 SECONDS], r [RANGE 30 SECONDS] WHERE s.k = r.k",
    "sums": "AS SELECT ISTREAM(s.k, count(*) AS n, sum(w) AS w) FROM s [RANGE 30 SECONDS] JOIN r [RANGE 30 SECONDS]"
    " ON s.k = r.k GROUP BY s.k",
    "recomputed": "AS SELECT ISTREAM(k, max(v) AS v) FROM s [RANGE 30 SECONDS] GROUP BY k",
    "pairs": "AS SELECT PAIRS(s.k, v, w) FROM s [RANGE 10 SECONDS] LEFT JOIN r [RANGE 10 SECONDS] ON s.k = r.k",
    "over_join": "AS SELECT s.k, sum(w) AS w FROM (s [RANGE 9 SECONDS] JOIN r [RANGE 9 SECONDS] ON s.k = r.k)"
    " [RANGE TUMBLING 20 SECONDS] GROUP BY s.k",
    "derived": "AS SELECT k, sum(h) AS h FROM halves [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "asked": "AS SELECT ts, k, v FROM s WHERE v > 40 BEGIN NOW - 60 SECONDS END NOW WITH (materialize='complete')",
}

#: What is made anew in every history, under the same names and numbers: another thing in each.
AGAIN = {
    "again": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] WHERE v > {0} GROUP BY k",
    "called": "AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] WHERE passes(v) GROUP BY k",
    "kinds": "AS SELECT count(*) AS n FROM s [KIND stretches]",
    "asked_again": "AS SELECT k, v FROM s WHERE v > {0} AND k <> 'a' BEGIN NOW - 60 SECONDS END NOW"
    " WITH (materialize='complete')",
}


class Stretches:
    """Windows of some seconds, one behind the other."""

    def __init__(self, seconds: int) -> None:
        self.length = seconds * 1_000_000

    def windows(self, times: Iterable[int], mark: int) -> set[int]:
        """The windows that times lie in."""
        return {wid for time in times for wid in self.wids(time, mark)}

    def extent(self, wid: int) -> tuple[int, int]:
        """Where a window lies."""
        return wid * self.length, (wid + 1) * self.length

    def wids(self, time: int, mark: int) -> range:
        """The windows of a time."""
        return range(time // self.length, time // self.length + 1)


class Few:
    """A reduction that drops a part."""

    def __init__(self, part: float) -> None:
        self.part = part

    def __call__(self, run: Any) -> float:
        return self.part


def above(limit: int) -> Callable[[int], bool]:
    """A filter that is another one for every limit."""
    return lambda value: value > limit


class History:
    """A pond that is open, and its clock.

    Args:
        folder: of the pond.
        step: how many steps it has lived.
    """

    def __init__(self, folder: Path, step: int = 0) -> None:
        self.step = step
        self.clock = VirtualClock(1_767_225_600_000_000 + step * 5_000_000)
        self.pond: Any = millpond.open(
            folder, executor="inline", clock=self.clock, shards=2, compact_files=50, eager_rows=1
        )

    def take(self, seed: int, steps: int) -> None:
        """Epochs with rows that the seed chooses; some are late."""
        for _ in range(steps):
            chance = random.Random(f"{seed} {self.step}")
            for name in "sr":
                rows = []
                for _ in range(12):
                    at = BASE + dt.timedelta(seconds=5 * self.step + chance.uniform(-8, 5))
                    row: dict[str, Any] = {"ts": at, "k": chance.choice("abc")}
                    number = chance.randrange(100)
                    rows.append(row | ({"v": number, "x": number / 7} if name == "s" else {"w": number}))
                self.pond.ingest(name, rows)
            self.clock.advance(5_000_000)
            self.pond.step()
            self.step += 1

    def begin(self) -> None:
        """Streams, queries and the first epochs."""
        self.pond.sql(SCRIPT)
        for name, text in QUERIES.items():
            self.pond.sql(f"CREATE QUERY {name} {text}")
        self.take(0, 4)

    def go_on(self, seed: int, steps: int, silent: bool = False) -> dict[str, Any]:
        """What follows in the history of a seed, and all answers then, as text.

        Args:
            silent: an epoch without rows comes first.
        """
        pond = self.pond
        pond.register_function("passes", above(seed * 10), arguments=["BIGINT"])
        pond.register_window_kind("stretches", Stretches(5 + seed))
        pond.register_reduction("few", Few(seed / 10))
        for name, text in AGAIN.items():
            pond.sql(f"CREATE QUERY {name} {text.format(seed * 10)}")
        if silent:
            pond.step(force=True)
        self.take(seed, steps)
        found = {}
        for name, text in {**QUERIES, **AGAIN}.items():
            asked = f"INVOKE {name}" if "BEGIN" in text else f"SELECT * FROM {name} ALL REVISIONS"
            found[name] = sorted(map(str, pond.sql(asked).rows()))
        found["few"] = sorted(map(str, pond.sql("SELECT count(*) AS n FROM s REDUCE few()").rows()))
        return found


def gone_on(folder: Path, seed: int, steps: int) -> dict[str, Any]:
    """The answers of a restored pond that has gone on."""
    history = History(folder, 4)
    with history.pond:
        return history.go_on(seed, steps, silent=True)


if __name__ == "__main__":
    print(json.dumps(gone_on(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
