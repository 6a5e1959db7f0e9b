"""The main scenario of the Spark and cluster tests: one script for any executor, and its answers."""

from __future__ import annotations

import datetime as dt
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

QUERIES = {
    "sliding": "SELECT k, count(*) AS n, sum(v) AS s, avg(v) m FROM f [RANGE 60 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "tumbling": "SELECT k, min(v) AS a, max(v) AS b, stddev_samp(v) AS d FROM f [RANGE TUMBLING 30 SECONDS] GROUP BY k",
    "uneven": "SELECT count(*) AS n, sum(i) AS s FROM f [RANGE 60 SECONDS SLIDE 40 SECONDS]",
    "holistic": "SELECT k, median(v) AS m, count(DISTINCT i % 7) AS u FROM f [RANGE TUMBLING 60 SECONDS] GROUP BY k",
    "alert": "SELECT k, count(*) AS n FROM f [RANGE TUMBLING 30 SECONDS] GROUP BY k HAVING count(*) > 180",
    "lasting": "SELECT k, count(*) AS n, sum(v) AS s, median(v) AS m FROM f [PARTITION BY k ROWS 50 SLIDE 20]",
    "tuples": "SELECT count(*) AS n, max(i) AS m FROM g [RANGE 2 SECONDS SLIDE 10 ROWS] WHERE i > 20",
    "visits": "SELECT k, count(*) AS n, sum(i) AS s FROM f [SESSION 300 MILLISECONDS MAX 5 SECONDS] GROUP BY k",
    "dropped": "SELECT k, count(*) AS n, last(i) AS l FROM g [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
}
LATER = {
    "filled": "SELECT k, count(*) AS n, sum(v) AS s FROM f [RANGE 50 SECONDS SLIDE 25 SECONDS] GROUP BY k",
    "numbered": "SELECT k, last(i) AS l FROM f [ROWS 100 SLIDE 50] GROUP BY k",
    "refilled": "SELECT k, count(*) AS n, first(i) AS l FROM g [RANGE TUMBLING 20 SECONDS] GROUP BY k",
}
_BASE = dt.datetime(2026, 3, 1)


def rows(start: int, count: int, seed: int, disorder: float = 4.0) -> pa.Table:
    """`count` rows, 20 a second from second `start` on, out of order by at most `disorder` seconds."""
    rng = random.Random(seed)
    seconds = [start + i / 20 + rng.uniform(-disorder, 0) for i in range(count)]
    return pa.table(
        {
            "ts": pa.array([_BASE + dt.timedelta(seconds=s) for s in seconds], pa.timestamp("us")),
            "k": [rng.choice("abc") for _ in range(count)],
            "v": [rng.uniform(-100, 100) for _ in range(count)],
            "i": pa.array(range(count), pa.int64()),
        }
    )


def drop_file(folder: Path, number: int, late: bool = False) -> None:
    """Let a file of a minute come in, whole; `late`: with a hundred rows of the first two minutes."""
    table = rows(60 * number, 1200, number)
    if late:
        table = pa.concat_tables([table, rows(30, 100, 99)])
    pq.write_table(table, folder / f".{number}.parquet")
    os.rename(folder / f".{number}.parquet", folder / f"{number}.parquet")


def run(pond: Any, folder: Path) -> dict[str, list[Any]]:
    """The scenario; `folder` is the source of stream f."""
    folder.mkdir()
    drop_file(folder, 0)
    pond.sql(
        f"CREATE STREAM f (ts TIMESTAMP, k TEXT, v DOUBLE, i BIGINT) WITH (path='{folder}/*.parquet', lateness='5s');"
        "CREATE STREAM g (ts TIMESTAMP, k TEXT, v DOUBLE, i BIGINT) WITH (event_time='ts', lateness='1s', late='drop');"
        + ";".join(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items())
    )
    for number in (1, 2, 3):
        drop_file(folder, number, late=number == 3)
        pond.ingest("g", rows(30 * number, 600, 40 + number), key=f"batch {number}")
        pond.drain()
    pond.ingest("g", rows(30, 600, 41), key="batch 1")  # a repetition, not taken
    for name, text in LATER.items():
        pond.sql(f"CREATE QUERY {name} WITH (since='start') AS {text}")
    pond.sql("ALTER QUERY tumbling PAUSE; CREATE QUERY gone AS SELECT count(*) AS n FROM f [RANGE TUMBLING 5 SECONDS]")
    drop_file(folder, 4)
    pond.drain()
    pond.sql("DROP QUERY gone; ALTER QUERY tumbling RESUME")
    invoked = pond.sql("INVOKE sliding").rows()
    drop_file(folder, 5)
    pond.ingest("g", rows(120, 600, 77))
    pond.drain(final=True)
    found = {name: pond.sql(f"SELECT * FROM {name}").rows() for name in (*QUERIES, *LATER)}
    found["invoked"] = invoked
    found["ad hoc windows"] = pond.sql(QUERIES["sliding"]).rows()
    found["ad hoc groups"] = pond.sql("SELECT k, count(*), sum(v), max(ts) FROM f GROUP BY k ORDER BY k").rows()
    found["ad hoc rows"] = pond.sql("SELECT * FROM g WHERE v > 95 ORDER BY ts, i").rows()
    found["late"] = pond.sql("SELECT count(*), sum(i) FROM late(g)").rows()
    found["counts"] = [(r[0], r[1]) for r in pond.sql("SELECT 'f', count(*) FROM f").rows()]
    return found


def comparable(answers: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Without revision numbers, which count epochs, and with floating numbers to nine digits."""
    found = {}
    for name, table in answers.items():
        cut = -1 if name in QUERIES or name in LATER else None
        found[name] = sorted(
            (tuple(f"{v:.9g}" if isinstance(v, float) else v for v in row[:cut]) for row in table), key=repr
        )
    return found
