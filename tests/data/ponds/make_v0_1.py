"""Makes v0-1.tar.gz and v0-1.txt: a pond as version 0.1 left it at commit b333d34, and what that version answered.

Run at that commit, from the root of the repository: `python tests/data/ponds/make_v0_1.py`. The script is kept to say
what is in the pond; later versions read the archive and never make it again.

The archive holds two ponds, rows that are still to come, and a table:

- `pond`: queries of every kind with state and answers; a query that is paused, one whose back-fill has not run, row
  queries, a table in two versions, dead letters, copies and summaries; the manifest of an epoch that did not run;
- `committed`: a few queries; the last epoch has committed everything and was killed before it was published;
- `rows.json`: what the test takes into both; `t.csv`: the table, as it is now.

The text has the answers of both before anything runs, and at the end of all streams.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import operator
import os
import random
import tarfile
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from tests.test_ponds_of_before import LATER, answers, as_text, to_the_end
from tests.windows.months import Months

import millpond
from millpond.engine import epoch
from millpond.testing.clock import VirtualClock

BASE = dt.datetime(2026, 1, 1)
HERE = Path(__file__).parent
SETTINGS: dict[str, Any] = {"shards": 2, "compact_files": 3}

SETUP = """
CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE) WITH (progress='ts', lateness='3 s', ahead='1 hour',
  retention='10 days', seed=7, archive='replicate(0.5)
  + summary(SELECT k, count(*), sum(v) FROM s [RANGE 1 MINUTE TUMBLING] GROUP BY k)');
CREATE STREAM r (ts TIMESTAMP, k TEXT, w BIGINT) WITH (progress='ts', lateness='2 s', late='drop',
  archive='randomize(4)');
CREATE STREAM far (ts TIMESTAMP, n INTEGER, u UUID, e ENUM('low', 'high'), d DECIMAL(9, 2), l INTEGER[],
  st STRUCT(a INTEGER)) WITH (progress='ts');
CREATE TABLE t (k TEXT, name TEXT) WITH (path='t.csv');
CREATE STREAM doubled AS SELECT ts, k, v * 2 AS w FROM s WHERE v > 30;
CREATE STREAM sums AS SELECT k, sum(v) AS v, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k;
CREATE STREAM met AS SELECT PAIRS(s.k, v, w) FROM s [RANGE 2 SECONDS], r [NOW] WHERE s.k = r.k;
"""
QUERIES = {
    "tumbling": "AS SELECT k, count(*) AS n, sum(v) AS v, avg(x) AS x, median(v) AS m, list(v) AS l FROM s"
    " [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "sliding": "AS SELECT k, stddev_samp(x) AS x, first(v) AS f FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS] WHERE v > 5"
    " GROUP BY k HAVING count(*) > 1",
    "landmark": "AS SELECT k, sum(v) AS v FROM s [RANGE ALL SLIDE 10 SECONDS] GROUP BY k",
    "daily": "AS SELECT count(*) AS n FROM r [RANGE ALL SINCE '00:00' DAILY ZONE 'Europe/Berlin' SLIDE 20 SECONDS]",
    "several": "AS SELECT k, count(*) [RANGE 30 SECONDS SLIDE 10 SECONDS] AS n,"
    " sum(v) [RANGE 10 SECONDS SLIDE 10 SECONDS] AS recent FROM s GROUP BY k",
    "months": "AS SELECT count(*) AS n, max(e) AS e, sum(d) AS d FROM far [KIND months]",
    "lazy": "WITH (state='lazy') AS SELECT k, sum(v) AS v FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "adaptive": "WITH (state='adaptive') AS SELECT k, max(v) AS v FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS]"
    " GROUP BY k",
    "soon": "WITH (early='5s') AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 20 SECONDS] GROUP BY k",
    "slow": "WITH (flush='slow', flush_delay='2s') AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]"
    " GROUP BY k",
    "reported": "WITH (empty='report') AS SELECT count(*) AS n FROM r [RANGE TUMBLING 5 SECONDS]",
    "numbered": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [PARTITION BY k ROWS 4 SLIDE 3]",
    "timed": "AS SELECT count(*) AS n FROM s [RANGE 5 SECONDS SLIDE 2 ROWS BY RANK]",
    "elements": "AS SELECT ISTREAM(k, v) FROM s [ROWS 3] WHERE v > 30",
    "held": "AS SELECT k, v FROM s [PARTITION BY k ROWS 2]",
    "joined": "AS SELECT ISTREAM(s.k, v, w) FROM s [RANGE 4 SECONDS], r [RANGE 6 SECONDS] WHERE s.k = r.k",
    "chain": "AS SELECT DSTREAM(s.v, r.w, z.w AS z) FROM s [ROWS 3], r [RANGE 8 SECONDS], doubled [RANGE 6 SECONDS] z"
    " WHERE s.k = r.k AND r.w % 5 = z.w % 5",
    "grouped": "AS SELECT s.k, count(*) AS n, sum(w) AS w FROM s [ROWS 8] JOIN r [ROWS 6] ON s.k = r.k GROUP BY s.k",
    "recomputed": "AS SELECT ISTREAM(k, max(v) AS v) FROM s [RANGE 5 SECONDS] GROUP BY k",
    "named": "AS SELECT ISTREAM(s.k, name, v) FROM s [ROWS 3] JOIN t ON t.k = s.k",
    "probed": "AS SELECT ISTREAM(n.k, n.v) FROM s [NOW] n WHERE 2 <= (SELECT count(*) FROM s [RANGE 2 DAYS] h"
    " WHERE h.k = n.k AND h.ts < n.ts AND h.ts >= n.ts - INTERVAL 5 SECONDS)",
    "pairs": "AS SELECT PAIRS(s.k, v, w) FROM s [RANGE 3 SECONDS] LEFT JOIN r [RANGE 2 SECONDS] ON s.k = r.k",
    "latest": "AS SELECT PAIRS(s.k, v, w) FROM s [NOW] ASOF JOIN r [RANGE 10 SECONDS] ON r.k = s.k AND s.ts >= r.ts",
    "over_joins": "AS SELECT s.k, count(*) AS n, sum(w) AS w FROM (s [RANGE 3 SECONDS] JOIN r [RANGE 2 SECONDS]"
    " ON s.k = r.k) [RANGE TUMBLING 20 SECONDS] GROUP BY s.k",
    "looked_up": "AS SELECT name, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] LEFT JOIN t ON t.k = s.k"
    " GROUP BY name",
    "of_sums": "AS SELECT k, sum(v) AS v FROM sums [RANGE TUMBLING 20 SECONDS] GROUP BY k",
    "of_pairs": "AS SELECT k, sum(w) AS w FROM met [RANGE TUMBLING 20 SECONDS] GROUP BY k",
    "reduced": "AS SELECT k, count(*) AS n FROM s REDUCE age('30 s', 0.5) [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "filtered": "AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 20 SECONDS] WHERE above(v, 20) AND above(90, v)"
    " GROUP BY k",
    "failing": "AS SELECT sum(CAST(CASE v % 7 WHEN 0 THEN k ELSE '1' END AS INTEGER)) AS v FROM s"
    " [RANGE TUMBLING 20 SECONDS]",
    "paused": "AS SELECT k, sum(w) AS w FROM r [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "rows_some": "AS SELECT ts, k, v FROM s WHERE v > 60 AND k = 'a' BEGIN NOW - 30 SECONDS END NOW"
    " WITH (materialize='partial')",
    "rows_complete": "AS SELECT k, v FROM s WHERE v BETWEEN 20 AND 40 OR x < 0 BEGIN NOW - 20 ROWS END NOW"
    " WITH (materialize='complete')",
    "rows_sums": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s GROUP BY k HAVING count(*) > 2",
    "rows_joined": "AS SELECT a.k, a.v, b.w FROM s AS a JOIN r AS b ON a.k = b.k WHERE a.v > 50"
    " BEGIN NOW - 20 SECONDS END NOW",
}
SINCE = "WITH (since='start') AS SELECT k, {}(v) AS v FROM s [RANGE TUMBLING 15 SECONDS] GROUP BY k"
FEW = ("tumbling", "numbered", "joined", "pairs", "of_sums", "rows_some")


def batch(number: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of 20 seconds for each stream, some of them late or ahead; times as text."""
    rng = random.Random(number)
    s, r = [], []
    times = [20 * number + (i * 3 + rng.randint(-5, 5)) / 2 for i in range(13)]
    times += [20 * number - 27.5, 3.0 + 7 * number] if number > 1 else []
    times += [86_400.0] if number == 2 else []
    for at in times:
        row = {"ts": str(BASE + dt.timedelta(seconds=max(0.0, at))), "k": rng.choice(["a", "b", "d", "a", None])}
        s.append({**row, "v": rng.choice([None, *range(0, 100, 3)]), "x": rng.choice([0.1, 1e15, -1e15, rng.random()])})
        if rng.random() < 0.6:
            r.append({**row, "w": rng.randrange(100)})
    rest = {
        "u": f"00000000-0000-0000-0000-00000000000{number}",
        "d": f"{number}.25",
        "l": [number],
        "st": {"a": number},
    }
    far = {"ts": str(BASE + dt.timedelta(days=20 * number)), "n": number, "e": "high" if number % 2 else "low", **rest}
    return {"s": s, "r": [x for x in r if not x["ts"].startswith("2026-01-02")], "far": [far]}


def feed(pond: Any, number: int) -> None:
    """Take a batch in, without an epoch."""
    for stream, rows in batch(number).items():
        pond.ingest(stream, rows)


def drain(pond: Any) -> None:
    """All epochs that there are to run."""
    while pond.step():
        pass


def make(folder: Path, names: tuple[str, ...], committed: bool) -> None:
    """A pond with some of the queries. committed: whether its last epoch ran; it is never published."""
    clock = VirtualClock()
    opened = lambda: millpond.open(folder, "inline", clock=clock, window_kinds={"months": Months()}, **SETTINGS)  # noqa: E731
    Path("t.csv").write_text("k,name\na,one\nb,two\n")
    with opened() as pond:
        pond.register_function("above", operator.gt, arguments=["BIGINT", "BIGINT"])
        pond.sql(SETUP)
        for name in names:
            pond.sql(f"CREATE QUERY {name} {QUERIES[name]}")
        for number in range(2):
            feed(pond, number)
            drain(pond)
            clock.advance(5_000_000)
        pond.sql("CREATE QUERY gone AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 MINUTE]; DROP QUERY gone")
        if "paused" in names:
            pond.sql("ALTER QUERY paused PAUSE")
        pond.sql("ALTER SYSTEM SET eager_rows = 1000; ALTER STREAM r ADD COLUMN lane INTEGER")
        drain(pond)
        pond.maintain()
    Path("t.csv").write_text("k,name\na,one\nb,two\nd,three and more\n")
    with opened() as pond:
        pond.sql(
            "CREATE QUERY past WITH (since='start') AS SELECT k, min(v) AS v FROM s [TUMBLING 15 SECONDS] GROUP BY k"
        )
        for number in (2, 3):
            feed(pond, number)
            drain(pond)
            clock.advance(5_000_000)
        pond.maintain()
        feed(pond, 4)
        pond.sql(
            "CREATE QUERY waits WITH (since='start') AS SELECT k, max(v) AS v FROM s [TUMBLING 15 SECONDS] GROUP BY k"
        )
        number = epoch.propose(pond._core, settle=False)
        assert number is not None
        if committed:
            killed = mock.patch.object(epoch, "write_published", side_effect=KeyboardInterrupt)
            with killed, contextlib.suppress(KeyboardInterrupt):
                epoch.run_epoch(pond._core, number)


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        make(Path("pond"), tuple(QUERIES), False)
        make(Path("committed"), FEW, True)
        rows = {stream: [*batch(5)[stream], *batch(6)[stream]] for stream in batch(5)}
        Path("rows.json").write_text(json.dumps(rows, indent=1))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=9) as archive:
            for name in ("pond", "committed", "rows.json", "t.csv"):
                archive.add(name)
        (HERE / "v0-1.tar.gz").write_bytes(packed.getvalue())
        found = {}
        for name in ("pond", "committed"):
            with millpond.open(name, "inline", clock=VirtualClock(LATER), window_kinds={"months": Months()}) as pond:
                found[f"{name}, as it was left"] = answers(pond)
                to_the_end(pond, rows)
                found[f"{name}, at the end"] = answers(pond)
        (HERE / "v0-1.txt").write_text(as_text(found), encoding="utf-8")


if __name__ == "__main__":
    main()
