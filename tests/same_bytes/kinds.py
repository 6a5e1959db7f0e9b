"""The kinds of queries whose lives are recorded: one entry each, so that a difference names the kind."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.same_bytes.life import BASE, Kind, Rows, batch
from tests.windows.months import Months

S = """CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE)
         WITH (event_time='ts', lateness='3 s', ahead='1 hour');"""
R = "CREATE STREAM r (ts TIMESTAMP, k TEXT, w BIGINT) WITH (event_time='ts', lateness='2 s');"
BOTH = S + R
FAR = BOTH.replace(", ahead='1 hour'", "")
DROP = BOTH.replace("lateness=", "late='drop', lateness=")
TABLE = "CREATE TABLE t (k TEXT, name TEXT) WITH (path='{dir}/t.csv');"
PRICE = """CREATE TABLE price (k TEXT, price INTEGER, since TIMESTAMP, until TIMESTAMP)
             WITH (path='{dir}/price.csv', valid_from='since', valid_to='until');"""


def write_tables(folder: Path, number: int) -> None:
    """The tables `t` and `price`, before the first step, and other versions of them before the last."""
    if number == -1:
        (folder / "t.csv").write_text("k,name\na,one\nb,two\nb,again\n")
        (folder / "price.csv").write_text(
            "k,price,since,until\na,4,,2026-01-01 00:00:40\na,5,2026-01-01 00:00:40,\nd,1,2026-01-01 00:00:20,\n"
        )
    if number == 3:
        (folder / "t.csv").write_text("k,name\na,one\nb,two\nd,three and more\n")
        (folder / "price.csv").write_text(
            "k,price,since,until\na,4,,2026-01-01 00:00:40\na,6,2026-01-01 00:00:40,\nb,2,2026-01-01 00:01:20,\n"
        )


def many_days(number: int) -> dict[str, Rows]:
    """The rows of each batch a day later than those of the one before."""
    return {
        stream: [
            {**row, "ts": row["ts"] + dt.timedelta(days=number) - dt.timedelta(seconds=20 * number)}
            for row in batch(number, stream)
            if row["ts"] < BASE + dt.timedelta(hours=1)
        ]
        for stream in ("s", "r")
    }


def marked(number: int) -> dict[str, Rows]:
    """Rows of `s`, and control records for single keys and for all."""
    rows: Rows = [{**row, "kind": "row"} for row in batch(number) if row["ts"] < BASE + dt.timedelta(hours=1)]
    at = BASE + dt.timedelta(seconds=20 * number)
    rows.append({"ts": at + dt.timedelta(seconds=12), "k": "ab"[number % 2], "kind": "end"})
    if number % 2:
        rows.append({"ts": at, "k": None, "kind": "end"})
    return {"s": rows, "r": batch(number, "r")}


def many(number: int) -> dict[str, Rows]:
    """A few hundred rows, whose values say which filters they pass."""
    rows = []
    for i in range(400):
        at = BASE + dt.timedelta(seconds=20 * number, milliseconds=50 * i)
        rows.append({"ts": at, "k": "abd"[i % 3], "v": (i * 7919 + number) % 97, "x": i / 8})
    return {"s": rows, "r": batch(number, "r")}


def bit(value: int, number: int) -> bool:
    """Whether a bit of the value is set; its rows are few where the number is large."""
    return bool(value >> number & 1)


def functions(pond: Any) -> None:
    """Registers the function that conditions call, when the pond is new."""
    if not pond.status()["streams"]:
        pond.register_function("bit", bit, arguments=["BIGINT", "BIGINT"])


def write_files(folder: Path, number: int) -> None:
    """A file for each batch, one of them with records that cannot be read."""
    for name in ("csv", "ndjson"):
        (folder / name).mkdir(exist_ok=True)
    if number < 0:
        return
    rows = [f"{row['ts']},{row['k'] or ''},{'' if row['v'] is None else row['v']}" for row in batch(number)]
    if number == 2:
        rows[3:3] = ["never,a,1", "2026-01-01 00:00:45,b,many", "2026-01-01 00:00:46,b"]
    (folder / "csv" / f"{number}.csv").write_text("\n".join(["ts,k,v", *rows]) + "\n")
    lines = [f'{{"ts": "{row["ts"]}", "k": "{row["k"]}", "w": {row["w"]}}}' for row in batch(number, "r")]
    if number == 3:
        lines.insert(2, '{"ts": "2026-')
    (folder / "ndjson" / f"{number}.ndjson").write_text("\n".join(lines) + "\n")


TYPES = """CREATE STREAM s (ts TIMESTAMPTZ, k ENUM('low', 'mid', 'high'), d DECIMAL(9, 2), h HUGEINT, u UUID, day DATE,
  at TIME, span INTERVAL, b BOOLEAN, f FLOAT, t UTINYINT, l INTEGER[], a INTEGER[2], st STRUCT(a INTEGER, b TEXT),
  m MAP(TEXT, INTEGER), z BLOB) WITH (event_time='ts', lateness='40 s');"""


def typed(number: int) -> dict[str, Rows]:
    """Rows with a column of each type, NULLs among them."""
    found = []
    for i, row in enumerate(batch(number)[::2]):
        n = 7 * number + i
        more = {
            "d": Decimal(n) / 4,
            "h": n << 70,
            "u": f"00000000-0000-4000-8000-{n:012}",
            "day": BASE.date() + dt.timedelta(days=n),
            "at": dt.time(n % 24, n),
            "span": dt.timedelta(minutes=n),
            "b": n % 3 > 0,
            "f": n / 8,
            "t": n,
            "l": [n, None, n + 1],
            "a": [n, -n],
            "st": {"a": n, "b": str(n)},
            "m": [("x", n), ("y", None)],
            "z": bytes([n, 0]),
        }
        found.append({"ts": row["ts"], "k": ("low", "mid", "high")[n % 3], **(more if n % 5 else {})})
    return {"s": found}


KINDS: dict[str, Kind] = {
    "tumbling": Kind(
        BOTH,
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v, avg(x) AS x, min(x) AS low, median(v) AS m,"
            " stddev_samp(x) AS d, list(v) AS l FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "few": "AS SELECT k, max(v) AS v FROM s [RANGE TUMBLING 5 SECONDS] WHERE v > 9 GROUP BY k"
            " HAVING count(*) > 1",
            "top": "AS SELECT k, sum(w) AS w FROM r [RANGE TUMBLING 20 SECONDS] GROUP BY k ORDER BY w DESC LIMIT 1",
        },
        past=("q", "few"),
        asks=(
            "SELECT k, count(*), sum(v) FROM s GROUP BY k ORDER BY k",
            "SELECT * FROM dead(s)",
            "INVOKE q AS OF TIMESTAMP '2026-01-01 00:00:33'",
            "INVOKE q AS OF EPOCH 4",
            "INVOKE q AS OF WATERMARK",
        ),
    ),
    "sessions": Kind(
        BOTH,
        {
            "q": "AS SELECT k, count(*) AS n, sum(x) AS x, list(v) AS l FROM s [SESSION 3 SECONDS] GROUP BY k",
            "cut": "AS SELECT k, count(*) AS n, avg(x) AS x FROM s [SESSION 3 SECONDS MAX 7 SECONDS] GROUP BY k",
            "own": "AS SELECT count(*) AS n, median(w) AS w FROM r [SESSION to_milliseconds(abs(w))]",
        },
        past=("q", "cut"),
        asks=("INVOKE q", "SELECT k, v > 9 AS m, count(*) FROM s [PARTITION BY k SESSION 3 SECONDS] GROUP BY m"),
    ),
    "sliding": Kind(
        BOTH,
        {
            "q": "AS SELECT k, count(*) AS n, sum(x) AS x FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY k",
            "uneven": "AS SELECT sum(v) AS v, first(v) AS f, last(v) AS l FROM s [RANGE 7 SECONDS SLIDE 3 SECONDS]",
            "gapped": "AS SELECT k, count(DISTINCT v) AS n, min(v) AS low FROM s [RANGE 4 SECONDS SLIDE 10 SECONDS]"
            " GROUP BY k",
            "starts": "AS SELECT count(*) AS n FROM r"
            " [RANGE 15 SECONDS SLIDE 10 SECONDS ALIGN START ORIGIN TIMESTAMP '2026-01-01 00:00:03']",
        },
        past=("q", "uneven", "starts"),
        asks=("SELECT k, max(v) AS v FROM s [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY k",),
    ),
    "landmark": Kind(
        BOTH,
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE ALL SLIDE 10 SECONDS] GROUP BY k",
            "stretch": "AS SELECT k, sum(x) AS x FROM s"
            " [RANGE ALL SINCE TIMESTAMP '2026-01-01 00:00:10' EVERY 30 SECONDS SLIDE 10 SECONDS] GROUP BY k",
            "daily": "AS SELECT count(*) AS n, max(w) AS w FROM r [RANGE ALL SINCE '01:01' DAILY"
            " ZONE 'Europe/Berlin' SLIDE 15 SECONDS]",
        },
        past=("q", "stretch", "daily"),
    ),
    "several-windows": Kind(
        BOTH,
        {
            "q": "AS SELECT k, count(*) [RANGE 30 SECONDS SLIDE 10 SECONDS] AS n,"
            " sum(v) FILTER (WHERE v > 50) [RANGE 10 SECONDS SLIDE 10 SECONDS] AS recent,"
            " list(v) [RANGE TUMBLING 10 SECONDS][1] AS first FROM s GROUP BY k",
            "marks": "AS SELECT k, sum(v) [RANGE ALL SLIDE 10 SECONDS] AS total,"
            " sum(v) [RANGE ALL SINCE TIMESTAMP '2026-01-01 00:00:10' EVERY 20 SECONDS SLIDE 10 SECONDS] AS stretch,"
            " count(*) [RANGE 10 SECONDS SLIDE 10 SECONDS] AS n FROM s GROUP BY k",
        },
        past=("q", "marks"),
    ),
    "registered-windows": Kind(
        FAR,
        {
            "q": "AS SELECT k, sum(v) AS v, count(*) AS n FROM s [KIND months] GROUP BY k",
            "lazy": "WITH (state='lazy') AS SELECT sum(w) AS w FROM r [KIND months]",
        },
        past=("q", "lazy"),
        opening=lambda: {"window_kinds": {"months": Months()}},
        feeds=lambda n: {
            name: [{**row, "ts": BASE + (row["ts"] - BASE) * 60_000} for row in batch(n, name)] for name in ("s", "r")
        },
    ),
    "kept-state": Kind(
        S,
        {
            name: f"WITH (state='{name}') AS SELECT k, count(*) AS n, sum(x) AS x, median(v) AS m FROM s"
            " [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k"
            for name in ("lazy", "adaptive", "eager")
        },
        past=("lazy", "adaptive"),
        feeds=lambda n: {"s": batch(n)},
    ),
    "early": Kind(
        BOTH,
        {
            "q": "WITH (early='5s') AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 20 SECONDS] GROUP BY k"
            " HAVING sum(v) > 60",
            "slow": "WITH (flush='slow', flush_delay='2s') AS SELECT k, count(*) AS n FROM s"
            " [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "lazy": "WITH (flush='lazy') AS SELECT k, sum(w) AS w FROM r [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "changes": "WITH (early='2s') AS SELECT ISTREAM(k, count(*) AS n) FROM s [RANGE 10 SECONDS] GROUP BY k",
            "numbered": "WITH (early='2s') AS SELECT k, sum(v) AS v FROM s [PARTITION BY k ROWS 4 SLIDE 2]",
        },
    ),
    "empty": Kind(
        BOTH,
        {
            "q": "WITH (empty='report') AS SELECT count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 2 SECONDS]"
            " WHERE v > 40",
            "groups": "WITH (empty='report') AS SELECT k, count(*) AS n FROM r [RANGE 8 SECONDS SLIDE 4 SECONDS]"
            " GROUP BY k",
            "limited": "WITH (beyond='drop', revise_for='15s') AS SELECT k, count(*) AS n FROM s"
            " [RANGE TUMBLING 10 SECONDS]"
            " GROUP BY k",
        },
        past=("q", "groups"),
    ),
    "late-rows-dropped": Kind(
        DROP,
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
            "numbered": "AS SELECT k, sum(v) AS v FROM s [PARTITION BY k ROWS 3 SLIDE 2]",
            "changes": "AS SELECT ISTREAM(k, sum(v) AS v) FROM s [RANGE 10 SECONDS] GROUP BY k",
            "pairs": "AS SELECT PAIRS(s.k, v, w) FROM s [RANGE 3 SECONDS] LEFT JOIN r [RANGE 2 SECONDS] ON s.k = r.k",
            "landmark": "AS SELECT count(*) AS n FROM r [RANGE ALL SLIDE 10 SECONDS]",
        },
        past=("q", "numbered", "changes", "pairs"),
        asks=("SELECT * FROM late(s)", "SELECT * FROM late(r)"),
    ),
    "marks-of-groups": Kind(
        """CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE, kind TEXT)
             WITH (event_time='ts', marks='record:kind = ''end''', marks_by='k');"""
        + R,
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "whole": "AS SELECT count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS]",
            "numbered": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [PARTITION BY k ROWS 3 SLIDE 2]",
            "alone": "AS SELECT PAIRS(r.k, w) FROM r [RANGE 2 SECONDS] ANTI JOIN s [NOW] ON s.k = r.k",
        },
        past=("q", "numbered", "alone"),
        feeds=marked,
    ),
    "watermarks": Kind(
        """CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE)
             WITH (event_time='ts', lateness='5 rows', step='4s');
           CREATE STREAM r (k TEXT, w BIGINT) WITH (event_time='arrival');
           CREATE STREAM lull (ts TIMESTAMP, k TEXT, w BIGINT) WITH (event_time='ts', timer='1 s', lull='5 s');""",
        {
            "q": "AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "arrived": "AS SELECT k, sum(w) AS w FROM r [RANGE TUMBLING 2 SECONDS] GROUP BY k",
            "quiet": "AS SELECT count(*) AS n FROM lull [RANGE TUMBLING 5 SECONDS]",
        },
        past=("q", "arrived"),
        feeds=lambda n: {
            "s": batch(n),
            "r": [{"k": row["k"], "w": row["w"]} for row in batch(n, "r")],
            "lull": [{**row, "ts": row["ts"] - dt.timedelta(days=731)} for row in batch(n, "r")],
        },
    ),
    "row-windows": Kind(
        S,
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v, list(v) AS l FROM s [PARTITION BY k ROWS 4 SLIDE 3]",
            "whole": "AS SELECT k, max(v) AS v FROM s [ROWS 5 SLIDE 2] WHERE v > 20 GROUP BY k",
            "timed": "AS SELECT count(*) AS n, sum(x) AS x FROM s [RANGE 5 SECONDS SLIDE 2 ROWS BY RANK]",
            "arrived": "AS SELECT k, sum(v) AS v FROM s [PARTITION BY k ROWS 3 SLIDE 3 BY ARRIVAL]",
            "best": "AS SELECT k, v, count(*) AS n FROM s [PARTITION BY k ROWS 6 SLIDE 6] GROUP BY v"
            " ORDER BY v DESC LIMIT 1",
        },
        past=("q", "whole", "timed", "arrived"),
        asks=("SELECT sum(v) AS v FROM s [ROWS 8 SLIDE 8]", "INVOKE q AS OF TIMESTAMP '2026-01-01 00:00:33'"),
        feeds=lambda n: {"s": batch(n)},
    ),
    "elements": Kind(
        S,
        {
            "q": "AS SELECT ISTREAM(k, v) FROM s [ROWS 3] WHERE v > 30",
            "leave": "AS SELECT DSTREAM(k, v) FROM s [RANGE 6 SECONDS] WHERE v > 50",
            "all_at": "WITH (every='5 s') AS SELECT RSTREAM(k, v) FROM s [PARTITION BY k ROWS 1]",
            "held": "AS SELECT k, v, x FROM s [PARTITION BY k ROWS 2]",
            "ever": "AS SELECT DISTINCT k FROM s [RANGE UNBOUNDED]",
        },
        past=("q", "leave", "held", "ever"),
        asks=("SELECT k, v FROM s [ROWS 4]", "SELECT ISTREAM(k) FROM s [RANGE 2 SECONDS]"),
        feeds=lambda n: {"s": batch(n)},
    ),
    "joined": Kind(
        BOTH + TABLE,
        {
            "q": "AS SELECT ISTREAM(s.k, v, w) FROM s [RANGE 4 SECONDS], r [RANGE 6 SECONDS] WHERE s.k = r.k",
            "left_": "AS SELECT s.k, v, w FROM s [PARTITION BY k ROWS 2] LEFT JOIN r [RANGE 5 SECONDS] ON s.k = r.k"
            " AND v < w",
            "without": "AS SELECT ISTREAM(k, v) FROM s [RANGE 3 SECONDS] WHERE NOT EXISTS"
            " (SELECT 1 FROM r [RANGE 4 SECONDS] WHERE r.k = s.k)",
            "named": "AS SELECT ISTREAM(s.k, name, v) FROM s [ROWS 3] JOIN t ON t.k = s.k",
        },
        past=("named", "q"),
        asks=(
            "SELECT s.k, v, w FROM s [ROWS 2] JOIN r [ROWS 5] ON s.k = r.k",
            "INVOKE left_ AS OF TIMESTAMP '2026-01-01 00:00:33'",
            "INVOKE q AS OF EPOCH 4",
        ),
        beside=write_tables,
    ),
    "joined-in-chains": Kind(
        BOTH + """CREATE STREAM z AS SELECT ts, k, v % 5 AS five FROM s WHERE v IS NOT NULL;""",
        {
            "q": "AS SELECT ISTREAM(s.k, v, w, five) FROM s [RANGE 3 SECONDS], r [RANGE 6 SECONDS], z [RANGE 4 SECONDS]"
            " WHERE s.k = r.k AND r.k = z.k",
            "chain": "AS SELECT ISTREAM(s.v, r.w, z.five) FROM s [ROWS 3], r [RANGE 8 SECONDS], z [RANGE 6 SECONDS]"
            " WHERE s.k = r.k AND r.w % 5 = z.five",
            "grouped": "AS SELECT s.k, count(*) AS n, sum(w) AS w FROM s [RANGE 3 SECONDS], r [RANGE 6 SECONDS],"
            " z [RANGE 4 SECONDS] WHERE s.k = r.k AND r.k = z.k GROUP BY s.k",
        },
        past=("q",),
    ),
    "grouped-joins": Kind(
        BOTH,
        {
            "q": "AS SELECT ISTREAM(s.k, count(*) AS n, sum(w) AS w, avg(x) AS x) FROM s [RANGE 4 SECONDS]"
            " JOIN r [RANGE 6 SECONDS] ON s.k = r.k GROUP BY s.k",
            "whole": "AS SELECT count(*) AS n, sum(w) + 1 AS w FROM s [ROWS 3], r [ROWS 4] WHERE s.k = r.k",
            "having_": "AS SELECT ISTREAM(r.k, count(w) FILTER (WHERE v > 30) AS n) FROM s [RANGE 4 SECONDS]"
            " LEFT JOIN r [RANGE 5 SECONDS] ON s.k = r.k GROUP BY r.k HAVING count(*) > 1",
        },
        past=("q", "whole"),
    ),
    "recomputed": Kind(
        BOTH + TABLE,
        {
            "q": "AS SELECT ISTREAM(k, count(*) AS n, max(v) AS v) FROM s [RANGE 5 SECONDS] GROUP BY k",
            "best": "AS WITH g AS (SELECT k, count(*) AS n FROM s [RANGE 8 SECONDS] GROUP BY k)"
            " SELECT ISTREAM(*) FROM g WHERE n = (SELECT max(n) FROM g)",
            "without": "AS SELECT ISTREAM(*) FROM (SELECT k FROM s [RANGE 4 SECONDS]"
            " EXCEPT SELECT k FROM r [RANGE 4 SECONDS]) q",
            "counted": "AS SELECT k, v, (SELECT count(*) FROM r [RANGE 4 SECONDS] y WHERE y.k = x.k) AS n"
            " FROM s [ROWS 3] x",
            "named": "AS SELECT ISTREAM(name, count(s.v) AS n) FROM t LEFT JOIN s [RANGE 5 SECONDS] ON t.k = s.k"
            " GROUP BY name",
        },
        past=("q", "without"),
        beside=write_tables,
    ),
    "probed": Kind(
        FAR,
        {
            "q": "AS SELECT ISTREAM(n.k, n.v) FROM s [NOW] n WHERE 1 <= (SELECT count(DISTINCT CAST(h.ts AS DATE))"
            " FROM s [RANGE 3 DAYS] h WHERE h.k = n.k AND hour(h.ts) = hour(n.ts)"
            " AND h.ts < date_trunc('day', n.ts) AND h.ts >= date_trunc('day', n.ts) - INTERVAL 2 DAYS)",
            "joined": "AS SELECT ISTREAM(n.k, n.v, h.w) FROM s [NOW] n JOIN r [RANGE 2 DAYS] h ON h.k = n.k"
            " AND h.ts BETWEEN n.ts - INTERVAL 25 HOURS AND n.ts - INTERVAL 23 HOURS AND h.w < n.v - 60",
        },
        past=("q", "joined"),
        feeds=many_days,
    ),
    "pairs": Kind(
        BOTH,
        {
            "q": "AS SELECT PAIRS(s.k, v, w) FROM s [RANGE 3 SECONDS], r [RANGE 2 SECONDS] WHERE s.k = r.k",
            "left_": "AS SELECT PAIRS(s.k, v, w) FROM s [RANGE 3 SECONDS OPEN] LEFT JOIN r [NOW] ON s.k = r.k",
            "zip": "AS SELECT PAIRS(v, w) FROM s FULL JOIN r [RANGE TUMBLING 5 SECONDS] ON s.k = r.k AND v > w",
            "lonely": "AS SELECT PAIRS(s.k, v) FROM s [RANGE 2 SECONDS] ANTI JOIN r [RANGE 2 SECONDS] ON s.k = r.k",
            "met": "WITH (beyond='drop', revise_for='10s') AS SELECT PAIRS(v) FROM s [RANGE 2 SECONDS]"
            " SEMI JOIN r [NOW] ON s.k = r.k",
        },
        past=("q", "left_", "lonely"),
        asks=(
            "SELECT PAIRS(v, w) FROM s [RANGE 1 SECOND] JOIN r [NOW] ON s.k = r.k",
            "INVOKE left_ AS OF TIMESTAMP '2026-01-01 00:00:33'",
        ),
    ),
    "pairs-of-the-latest": Kind(
        BOTH,
        {
            "q": "AS SELECT PAIRS(s.k, v, w) FROM s [NOW] ASOF LEFT JOIN r [RANGE 10 SECONDS] ON r.k = s.k"
            " AND s.ts >= r.ts",
            "inner_": "AS SELECT PAIRS(s.k, v, w) FROM s [NOW] ASOF JOIN r [RANGE 3 SECONDS] ON r.k = s.k"
            " AND s.ts >= r.ts WHERE v > 20",
        },
        past=("q", "inner_"),
    ),
    "windows-over-joins": Kind(
        BOTH,
        {
            "q": "AS SELECT s.k, count(*) AS n, sum(w) AS w FROM (s [RANGE 3 SECONDS] JOIN r [RANGE 2 SECONDS]"
            " ON s.k = r.k) [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY s.k",
            "outer_": "AS SELECT s.k, count(*) AS n, sum(w) AS w FROM (s [RANGE 2 SECONDS] LEFT JOIN r [NOW]"
            " ON s.k = r.k) [RANGE TUMBLING 10 SECONDS] GROUP BY s.k",
        },
        past=("q", "outer_"),
    ),
    "lookups": Kind(
        S + TABLE + PRICE,
        {
            "q": "AS SELECT name, count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] LEFT JOIN t"
            " ON t.k = s.k GROUP BY name",
            "worth": "AS SELECT s.k, sum(v * price) AS amount FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS]"
            " JOIN price p ON p.k = s.k GROUP BY s.k",
            "unknown": "AS SELECT k, count(*) AS n FROM s [RANGE ALL SLIDE 20 SECONDS] ANTI JOIN t USING (k)"
            " GROUP BY k",
            "numbered": "AS SELECT sum(v * price) AS amount, count(*) AS n FROM s [ROWS 4 SLIDE 4]"
            " LEFT JOIN price p ON p.k = s.k",
        },
        past=("q", "worth", "unknown"),
        beside=write_tables,
        feeds=lambda n: {"s": batch(n)},
    ),
    "row-queries": Kind(
        BOTH,
        {
            "q": "AS SELECT ts, k, v FROM s WHERE v > 60 AND k = 'a' BEGIN NOW - 30 SECONDS END NOW"
            " WITH (materialize='partial')",
            "complete_": "AS SELECT k, v, x FROM s WHERE v BETWEEN 20 AND 40 OR x < 0 BEGIN NOW - 20 ROWS END NOW"
            " WITH (materialize='complete')",
            "none_": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s GROUP BY k HAVING count(*) > 2 ORDER BY k"
            " WITH (materialize='none')",
            "joined": "AS SELECT a.k, a.v, b.w FROM s AS a JOIN r AS b ON a.k = b.k WHERE a.v > 50"
            " BEGIN NOW - 20 SECONDS END NOW FOR a BEGIN NOW - 6 ROWS END NOW FOR b",
            "all_rows": "AS SELECT DISTINCT upper(k) AS k FROM s WHERE v % 2 = 1",
        },
        pauses="q",
        later="CREATE QUERY more AS SELECT v FROM s WHERE v > 90;"
        "CREATE OR REPLACE QUERY all_rows AS SELECT max(v) AS v FROM s WHERE k = 'b'",
        asks=(
            "INVOKE more",
            "INVOKE q BEGIN '2026-01-01' END NOW - 1 MINUTE",
            "INVOKE complete_ AS OF TIMESTAMP '2026-01-01 00:01:00'",
            "INVOKE none_ AS OF WATERMARK",
            "SELECT * FROM s ORDER BY ts DESC, v LIMIT 5",
        ),
    ),
    "derived": Kind(
        BOTH
        + """CREATE STREAM rows_ AS SELECT ts, k, v * 2 AS w FROM s WHERE v > 30;
             CREATE STREAM sums AS SELECT k, sum(v) AS v, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k;
             CREATE STREAM some AS SELECT * FROM sums WHERE n > 1;
             CREATE STREAM once AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k
               WITH (revisions='ignore');
             CREATE STREAM settled AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k
               WITH (revisions='final', beyond='drop', revise_for='25s');
             CREATE STREAM back AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k
               WITH (revisions='retract');
             CREATE STREAM changes AS SELECT ISTREAM(k, count(*) AS n) FROM r [RANGE 5 SECONDS] GROUP BY k;
             CREATE STREAM met AS SELECT PAIRS(s.k, v, w) FROM s [RANGE 2 SECONDS], r [NOW] WHERE s.k = r.k;""",
        {
            "q": "AS SELECT k, sum(v) AS v, list(n) AS n FROM some [RANGE TUMBLING 20 SECONDS] GROUP BY k",
            "doubled": "AS SELECT k, sum(w) AS w FROM rows_ [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
            "exact": "AS SELECT sum(v) AS v FROM back [RANGE TUMBLING 20 SECONDS]",
            "of_changes": "AS SELECT count(*) AS n FROM changes [RANGE TUMBLING 20 SECONDS]",
            "of_pairs": "AS SELECT k, sum(w) AS w FROM met [RANGE TUMBLING 20 SECONDS] GROUP BY k",
        },
        past=("q", "doubled", "exact"),
        later="""CREATE STREAM late_sums AS SELECT k, max(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k
                   WITH (since='start');
                 CREATE STREAM late_rows AS SELECT ts, v FROM s WHERE k = 'a' WITH (since='start')""",
        asks=tuple(
            f"SELECT * FROM {name}"
            for name in ("rows_", "sums", "some", "once", "settled", "back", "changes", "met", "late_sums", "late_rows")
        ),
    ),
    "unions": Kind(
        S
        + S.replace("STREAM s", "STREAM s2")
        + "CREATE STREAM both AS SELECT k, sum(v) AS v FROM (s UNION ALL s2) [RANGE TUMBLING 10 SECONDS] GROUP BY k;",
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM (s UNION ALL s2) [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "numbered": "AS SELECT count(*) AS n, sum(v) AS v FROM (s UNION ALL s2) [ROWS 5 SLIDE 5]",
            "changes": "AS SELECT ISTREAM(k, count(*) AS n) FROM (s UNION ALL s2) [RANGE 4 SECONDS] AS u GROUP BY k",
        },
        past=("q", "numbered"),
        feeds=lambda n: {"s": batch(n), "s2": batch(n + 50)[:5]},
    ),
    "summaries": Kind(
        """CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE) WITH (event_time='ts', lateness='3 s',
             retention='2 days', archive='plain
             + summary(SELECT k, count(*), sum(v) FROM s [RANGE 1 MINUTE TUMBLING] GROUP BY k) keep 365d');
           CREATE STREAM r (ts TIMESTAMP, k TEXT, w BIGINT) WITH (event_time='ts', lateness='2 s', archive='plain
             + lazy summary(SELECT k, sum(w) FROM r [RANGE 1 HOUR TUMBLING] GROUP BY k)');""",
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 1 MINUTE] GROUP BY k",
            "days": "AS SELECT k, sum(w) AS w FROM r [RANGE TUMBLING 1 DAY] GROUP BY k",
        },
        past=("q", "days"),
        asks=(
            "SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE 1 DAY TUMBLING] GROUP BY k",
            "SELECT k, sum(w) AS w FROM r [RANGE 1 DAY TUMBLING] GROUP BY k",
        ),
        feeds=many_days,
    ),
    "copies": Kind(
        """CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT, x DOUBLE)
             WITH (event_time='ts', lateness='3 s', archive='replicate(0.5, 0.9)', seed=7);
           CREATE STREAM r (ts TIMESTAMP, k TEXT, w BIGINT)
             WITH (event_time='ts', lateness='2 s', archive='randomize(4)');
           CREATE STREAM z (ts TIMESTAMP, k TEXT, w BIGINT)
             WITH (event_time='ts', lateness='2 s', archive='modify', seed=3);""",
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s REDUCE sample(0.5) [RANGE TUMBLING 10 SECONDS]"
            " GROUP BY k",
            "aged": "AS SELECT k, avg(w) AS w FROM r REDUCE age('20 s', 0.5) [RANGE TUMBLING 20 SECONDS] GROUP BY k",
            "by_interval": "AS SELECT sum(w) AS w FROM z REDUCE BY INTERVAL '10 seconds' [RANGE TUMBLING 20 SECONDS]",
        },
        past=("q", "aged", "by_interval"),
        later="ALTER STREAM r SET (archive='replicate(0.25)')",
        asks=(
            "SELECT k, count(*) AS n, avg(v) AS v FROM s REDUCE sample(0.9) GROUP BY k ORDER BY k",
            "SELECT k, sum(w) AS w FROM r REDUCE error(0.2) GROUP BY k ORDER BY k",
            "SELECT k, sum(w) AS w FROM z REDUCE sample(0.5) GROUP BY k ORDER BY k",
        ),
        feeds=lambda n: {"s": batch(n), "r": batch(n, "r"), "z": batch(n + 20, "r")},
    ),
    "filters": Kind(
        BOTH
        + "CREATE STREAM d WITH (adapt='sweep') AS SELECT ts, k, v FROM s WHERE bit(v, 0) AND bit(v, 2) AND k = 'a';",
        {
            "q": "WITH (adapt='a_greedy', adapt_probability=1, adapt_window=100, adapt_budget=1) AS SELECT k,"
            " count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] WHERE k <> 'b' AND bit(v, 0) AND bit(v, 1)"
            " AND bit(v, 2) GROUP BY k",
            "off_": "WITH (adapt='off') AS SELECT ISTREAM(k, v) FROM s [RANGE 1 SECOND] WHERE bit(v, 5) AND bit(v, 3)",
            "rows_": "AS SELECT count(*) AS n FROM s WHERE bit(v, 4) AND bit(v, 1) BEGIN NOW - 30 SECONDS END NOW",
        },
        past=("q", "off_"),
        feeds=many,
        prepare=functions,
    ),
    "files": Kind(
        """CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT)
             WITH (path='{dir}/csv/*.csv', event_time='ts', lateness='3 s', ahead='1 hour');
           CREATE STREAM r (ts TIMESTAMP, k TEXT, w SMALLINT) WITH (path='{dir}/ndjson/*.ndjson', event_time='ts');""",
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "lines": "AS SELECT k, sum(w) AS w FROM r [RANGE TUMBLING 10 SECONDS] GROUP BY k",
        },
        past=("q", "lines"),
        asks=("SELECT reason, position, record FROM dead(s)", "SELECT reason, position, record FROM dead(r)"),
        beside=write_files,
        feeds=lambda n: {},
    ),
    "types": Kind(
        TYPES + "CREATE STREAM some AS SELECT ts, k, d, h, u, day, at, span, l, a, st, m, z FROM s WHERE b;",
        {
            "q": "AS SELECT k, count(*) AS n, sum(d) AS d, max(h) AS h, min(u) AS u, max(day) AS day, min(at) AS at,"
            " max(span) AS span, bool_and(b) AS b, avg(f) AS f, sum(t) AS t, first(l) AS l, last(a) AS a,"
            " list(st) AS st, any_value(m) AS m, max(z) AS z FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "ordered": "AS SELECT max(k) AS k, median(k) AS mid, mode(k) AS most, count(DISTINCT u) AS n FROM s"
            " [RANGE 20 SECONDS SLIDE 10 SECONDS] WHERE k >= 'mid'",
            "changes": "AS SELECT ISTREAM(k, d, h, u, day, at, b, f, l, st) FROM s [ROWS 2]",
            "numbered": "AS SELECT k, sum(h) AS h, list(day) AS day FROM s [PARTITION BY k ROWS 2 SLIDE 2]",
        },
        past=("ordered", "q", "changes"),
        asks=("SELECT * FROM some", "SELECT k, sum(d) AS d, max(st) AS st FROM s GROUP BY k ORDER BY k"),
        feeds=typed,
    ),
    "lives": Kind(
        BOTH,
        {
            "q": "AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "replaced": "AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "failing": "AS SELECT k, sum(CAST(CASE v % 7 WHEN 0 THEN k ELSE '1' END AS INTEGER)) AS v FROM s"
            " [RANGE TUMBLING 10 SECONDS] GROUP BY k",
            "finer": "AS SELECT k, count(*) AS n FROM s [RANGE 20 SECONDS SLIDE 4 SECONDS] GROUP BY k",
        },
        past=("finer", "failing", "q"),
        later="CREATE OR REPLACE QUERY replaced AS SELECT k, sum(v) AS v, max(v) AS m FROM s"
        " [RANGE TUMBLING 10 SECONDS] GROUP BY k; ALTER QUERY q SET revise_for = '10 s';"
        "ALTER STREAM s ADD COLUMN lane INTEGER; ALTER STREAM r ALTER COLUMN w SET TYPE HUGEINT",
        asks=("SELECT reason, source, record FROM dead(s)", "SELECT k, lane, v FROM s LIMIT 3"),
    ),
    "upkeep": Kind(
        S,
        {
            "q": "AS SELECT k, count(*) AS n, sum(v) AS v FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
            "changes": "AS SELECT ISTREAM(k, v) FROM s [ROWS 3]",
        },
        past=("q", "changes"),
        asks=("SELECT count(*), sum(v) FROM s",),
        batches=10,
        feeds=lambda n: {"s": batch(n)[::3]},
    ),
}
