"""What is measured: the window queries of each case and the files they read, in a form every system can render.

A `WindowQuery` counts rows and sums `v` per window and group; windows end at multiples of the slide (Millpond's
convention; the other systems are shifted to it). Answers of every system are brought to one shape,
`(q, e, g, c, s)`: query, window end, group, count, sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: Event time of the first row, microseconds: 2024-01-01 00:00:00 UTC, a multiple of every slide used here.
BASE = 1_704_067_200_000_000
#: Microseconds of event time between two rows: 1,000 rows a second.
STEP = 1_000
#: The stream that every query reads.
STREAM = "reading"


@dataclass(frozen=True)
class WindowQuery:
    """`SELECT key AS g, count(*) AS c, sum(v) AS s FROM reading [RANGE range SLIDE slide] WHERE where GROUP BY key`.

    Arguments: name; range and slide in whole seconds; key and where as SQL that every system understands, or None.
    """

    name: str
    range: int
    slide: int
    key: str | None = "k"
    where: str | None = None

    @property
    def pane(self) -> int:
        """Seconds of the widest pane that tiles both range and slide."""
        return math.gcd(self.range, self.slide)

    def millpond(self) -> str:
        """The query as Millpond registers it."""
        key, where = self.key, f" WHERE {self.where}" if self.where else ""
        select = f"{key} AS g, count(*) AS c, sum(v) AS s" if key else "count(*) AS c, sum(v) AS s"
        group = f" GROUP BY {key}" if key else ""
        window = f"[RANGE {self.range} SECONDS SLIDE {self.slide} SECONDS]"
        return f"CREATE QUERY {self.name} AS SELECT {select} FROM {STREAM} {window}{where}{group};"

    def duckdb(self, source: str) -> str:
        """The same answers from plain DuckDB over `source` (a table function or a registered name).

        Panes are aggregated once and windows slide over a grid of groups and pane ends, so that a group which is
        missing from some panes still gets every window that holds one of its rows.
        """
        where = f" WHERE {self.where}" if self.where else ""
        pane, width = self.pane * 1_000_000, self.range // self.pane
        panes = (
            f"SELECT epoch_us(ts) // {pane} AS p, ({self.key or 'NULL'})::BIGINT AS g, count(*) AS c, sum(v) AS s "
            f"FROM {source}{where} GROUP BY ALL"
        )
        if width == 1 and self.slide == self.range:
            return f"SELECT '{self.name}' AS q, make_timestamp((p + 1) * {pane}) AS e, g, c, s FROM ({panes})"
        return (
            f"WITH panes AS MATERIALIZED ({panes}), "
            f"bounds AS (SELECT min(p) AS low, max(p) + {width - 1} AS high FROM panes), "
            f"grid AS (SELECT g, unnest(range(low, high + 1)) AS p FROM (SELECT DISTINCT g FROM panes), bounds), "
            f"filled AS (SELECT grid.g, grid.p, c, s FROM grid LEFT JOIN panes "
            f"ON grid.p = panes.p AND grid.g IS NOT DISTINCT FROM panes.g), "
            f"slid AS (SELECT g, p, sum(c) OVER w AS c, sum(s) OVER w AS s FROM filled "
            f"WINDOW w AS (PARTITION BY g ORDER BY p ROWS BETWEEN {width - 1} PRECEDING AND CURRENT ROW)) "
            f"SELECT '{self.name}' AS q, make_timestamp((p + 1) * {pane}) AS e, g, c::BIGINT AS c, s FROM slid "
            f"WHERE c IS NOT NULL AND (p + 1) * {self.pane} % {self.slide} = 0"
        )

    def spark(self, functions: Any) -> Any:
        """Its window in native Structured Streaming. functions: `pyspark.sql.functions`."""
        # Spark's windows start at multiples of the slide, ours end there.
        shift = -self.range % self.slide
        return functions.window("ts", f"{self.range} seconds", f"{self.slide} seconds", f"{shift} seconds")

    def until(self, progress: int) -> int:
        """The end of the last window that is closed when progress is `progress`; microseconds."""
        slide = self.slide * 1_000_000
        return progress // slide * slide


@dataclass(frozen=True)
class RowQuery(WindowQuery):
    """The same over a window that ends with rows: of the last `range` seconds, or of the last `rows` rows of each key.

    Arguments: slide counts rows here; rows None: the window is of time, and `key` must be None.
    """

    rows: int | None = None

    def millpond(self) -> str:
        """The query as Millpond registers it."""
        if self.rows is None:
            window = f"[RANGE {self.range} SECONDS SLIDE {self.slide} ROWS]"
            return f"CREATE QUERY {self.name} AS SELECT count(*) AS c, sum(v) AS s FROM {STREAM} {window};"
        window = f"[PARTITION BY {self.key} ROWS {self.rows} SLIDE {self.slide}]"
        return f"CREATE QUERY {self.name} AS SELECT {self.key} AS g, count(*) AS c, sum(v) AS s FROM {STREAM} {window};"

    def duckdb(self, source: str) -> str:
        """The same answers from DuckDB's window functions."""
        if self.rows is None:
            frame = f"ORDER BY ts RANGE BETWEEN INTERVAL {self.range * 1_000_000 - 1} MICROSECONDS PRECEDING"
            key = "NULL"
        else:
            frame = f"PARTITION BY {self.key} ORDER BY ts ROWS BETWEEN {self.rows - 1} PRECEDING"
            key = self.key or "NULL"
        part = "" if self.rows is None else f"PARTITION BY {self.key} "
        every = ""
        if self.slide > 1:
            every = f" QUALIFY row_number() OVER ({part}ORDER BY ts) % {self.slide} = 0"
        return (
            f"SELECT '{self.name}' AS q, ts AS e, ({key})::BIGINT AS g, count(*) OVER w AS c, sum(v) OVER w AS s "
            f"FROM {source} WINDOW w AS ({frame} AND CURRENT ROW){every}"
        )

    def until(self, progress: int) -> int:
        """Windows that end with a row are closed when progress is beyond it."""
        return progress - 1


@dataclass(frozen=True)
class SessionQuery(WindowQuery):
    """The same over sessions of each key, which end behind a pause of more than `range` seconds (slide: the same)."""

    def millpond(self) -> str:
        """The query as Millpond registers it."""
        select = f"{self.key} AS g, count(*) AS c, sum(v) AS s FROM {STREAM}"
        return f"CREATE QUERY {self.name} AS SELECT {select} [SESSION {self.range} SECONDS] GROUP BY {self.key};"

    def duckdb(self, source: str) -> str:
        """The same answers from plain DuckDB: a session begins with the first row behind a pause."""
        gap = f"INTERVAL {self.range} SECONDS"
        begins = f"coalesce(ts - lag(ts) OVER w > {gap}, true)::INTEGER"
        runs = "SELECT g, ts, v, sum(b) OVER (PARTITION BY g ORDER BY ts ROWS UNBOUNDED PRECEDING) AS r FROM begun"
        return (
            f"WITH begun AS (SELECT ({self.key})::BIGINT AS g, ts, v, {begins} AS b FROM {source} "
            f"WINDOW w AS (PARTITION BY {self.key} ORDER BY ts)) "
            f"SELECT '{self.name}' AS q, max(ts) + {gap} AS e, g, count(*) AS c, sum(v) AS s "
            f"FROM ({runs}) GROUP BY g, r"
        )

    def spark(self, functions: Any) -> Any:
        """Its window in native Structured Streaming."""
        return functions.session_window("ts", f"{self.range} seconds")

    def until(self, progress: int) -> int:
        """Sessions are over when progress is beyond their ends."""
        return progress - 1


@dataclass(frozen=True)
class GrowingQuery(WindowQuery):
    """The same over everything since the start of the stream, told every `slide` seconds (`range` is the slide)."""

    def millpond(self) -> str:
        """The query as Millpond registers it."""
        select = f"{self.key} AS g, count(*) AS c, sum(v) AS s FROM {STREAM}"
        return (
            f"CREATE QUERY {self.name} AS SELECT {select} [RANGE ALL SLIDE {self.slide} SECONDS] GROUP BY {self.key};"
        )

    def duckdb(self, source: str) -> str:
        """The same answers from plain DuckDB: panes once, and running sums over a grid of groups and pane ends."""
        pane = self.slide * 1_000_000
        return (
            f"WITH panes AS MATERIALIZED (SELECT epoch_us(ts) // {pane} AS p, ({self.key})::BIGINT AS g, "
            f"count(*) AS c, sum(v) AS s FROM {source} GROUP BY ALL), "
            f"bounds AS (SELECT min(p) AS low, max(p) AS high FROM panes), "
            f"grid AS (SELECT g, unnest(range(low, high + 1)) AS p FROM (SELECT DISTINCT g FROM panes), bounds), "
            f"grown AS (SELECT grid.g, grid.p, sum(c) OVER w AS c, sum(s) OVER w AS s FROM grid LEFT JOIN panes "
            f"ON grid.p = panes.p AND grid.g IS NOT DISTINCT FROM panes.g "
            f"WINDOW w AS (PARTITION BY grid.g ORDER BY grid.p)) "
            f"SELECT '{self.name}' AS q, make_timestamp((p + 1) * {pane}) AS e, g, c::BIGINT AS c, s FROM grown "
            f"WHERE c IS NOT NULL"
        )


@dataclass(frozen=True)
class Data:
    """How the files of a case are made: number of distinct keys, and by how many seconds rows may lag."""

    name: str
    keys: int = 100
    disorder: int = 0


@dataclass(frozen=True)
class Case:
    """One line of the report.

    native_files: on how many files the native baseline runs at most (it is too slow for all of them).
    native_per_epoch: files in one of its micro-batches.
    native_queries: how many of the queries it can run at once; its rate is extrapolated to all of them.
    native_memory: heap of its JVM.
    target: the ratio to native that the project wants to reach. limit_target: that to the limit.
    not_native: why native cannot answer the queries at all; it is left out then.
    """

    name: str
    title: str
    data: Data
    queries: tuple[WindowQuery, ...]
    target: float
    native_files: int = 24
    native_per_epoch: int = 8
    native_queries: int = 1
    native_memory: str = "1g"
    not_native: str = ""
    limit_target: float | None = None


def hundred_queries() -> tuple[WindowQuery, ...]:
    """A hundred different queries: ten filters by ten windows, with the grouping changing from one to the next.

    >>> len({(q.where, q.key, q.range, q.slide) for q in hundred_queries()})
    100
    """
    filters = (
        None,
        "v < 0.5",
        "v >= 0.9",
        "k < 50",
        "k % 2 = 0",
        "k BETWEEN 10 AND 19",
        "v BETWEEN 0.25 AND 0.75",
        "k % 5 = 1 AND v < 0.8",
        "k <> 7",
        "k % 10 = 3 OR v > 0.95",
    )
    windows = (
        (60, 60),
        (60, 10),
        (300, 60),
        (120, 30),
        (600, 60),
        (10, 10),
        (60, 40),
        (300, 300),
        (90, 60),
        (30, 5),
    )
    keys = ("k", "k % 10", None, "(k + 1) % 4")
    return tuple(
        WindowQuery(f"q{10 * i + j:02d}", *window, key=keys[(i + j) % 4], where=where)
        for i, where in enumerate(filters)
        for j, window in enumerate(windows)
    )


def fifty_windows() -> tuple[WindowQuery, ...]:
    """Fifty different windows over the same groups: ten slides by five ranges, some uneven.

    >>> len({(q.range, q.slide) for q in fifty_windows()})
    50
    """
    slides = (5, 10, 12, 15, 20, 30, 40, 60, 90, 120)
    return tuple(WindowQuery(f"w{10 * j + i:02d}", s * n + s // 2 * (n == 3), s) for i, s in enumerate(slides)
                 for j, n in enumerate((1, 2, 3, 5, 10)))  # fmt: skip


#: Why windows that grow have no native figure.
NOT_GROWING = (
    "Structured Streaming has no window that grows: without a window it reports totals, not the state at each end"
)

#: Why windows that end with rows have no native figure.
NOT_NATIVE = "Structured Streaming has no windows of rows and no OVER on streams: it cannot express the query"

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("tumbling", "tumbling 60 s by 100 keys", Data("ordered"), (WindowQuery("q", 60, 60),), 4),
        Case(
            "sliding",
            "sliding 60 s by 1 s",
            Data("ordered"),
            (WindowQuery("q", 60, 1),),
            15,
            native_files=8,
            native_per_epoch=2,
        ),
        Case(
            "disorder",
            "sliding 600 s by 10 s, 5 s disorder",
            Data("disordered", disorder=5),
            (WindowQuery("q", 600, 10),),
            15,
            native_files=8,
            native_per_epoch=2,
        ),
        Case(
            "manykeys",
            "tumbling 60 s, 1,000,000 keys",
            Data("manykeys", keys=1_000_000),
            (WindowQuery("q", 60, 60),),
            4,
            native_files=12,
            native_per_epoch=4,
            native_memory="4g",
        ),
        Case(
            "sessions",
            "sessions of 10,000 keys, which end behind a pause of 30 s",
            Data("partitions", keys=10_000),
            (SessionQuery("q", 30, 30),),
            4,
            native_files=12,
            native_per_epoch=4,
            native_memory="4g",
        ),
        Case(
            "hundred",
            "100 window queries on one stream",
            Data("ordered"),
            hundred_queries(),
            20,
            native_files=6,
            native_per_epoch=2,
            native_queries=8,
        ),
        Case(
            "landmark",
            "everything since the start by 100 keys, told every 10 s",
            Data("ordered"),
            (GrowingQuery("q", 10, 10),),
            5,
            not_native=NOT_GROWING,
            limit_target=0.2,
        ),
        Case(
            "fifty",
            "50 different windows by 100 keys on one stream",
            Data("ordered"),
            fifty_windows(),
            5,
            native_files=6,
            native_per_epoch=2,
            native_queries=8,
            limit_target=0.2,
        ),
        Case(
            "tuples",
            "slide by tuple: the last 60 s at each row",
            Data("ordered"),
            (RowQuery("q", 60, 1, key=None),),
            5,
            not_native=NOT_NATIVE,
            limit_target=0.2,
        ),
        Case(
            "partitions",
            "the last 100 rows of each of 10,000 partitions, every 10 rows",
            Data("partitions", keys=10_000),
            (RowQuery("q", 0, 10, key="k", rows=100),),
            5,
            not_native=NOT_NATIVE,
            limit_target=0.2,
        ),
    )
}


def sample(queries: tuple[WindowQuery, ...], count: int) -> tuple[WindowQuery, ...]:
    """`count` of the queries that stand for all: filters and windows change from one to the next."""
    if count >= len(queries):
        return queries
    stride = len(queries) // count
    return tuple(queries[(i * stride + i) % len(queries)] for i in range(count))


def table(data: Data, rows: int, index: int) -> pa.Table:
    """The rows of file `index`: ts (UTC microseconds), k (int32), v (double in [0, 1)); the same on every machine."""
    rng = np.random.default_rng((index, data.keys, data.disorder))
    ts = BASE + (np.arange(rows, dtype=np.int64) + index * rows) * STEP
    if data.disorder:
        ts -= rng.integers(0, data.disorder * 1_000_000, rows)
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us")),
            "k": rng.integers(0, data.keys, rows).astype(np.int32),
            "v": rng.random(rows),
        }
    )


def generate(data: Data, folder: Path, files: int, rows: int) -> list[Path]:
    """Write the files of a case once, named and dated in their order, and return their paths.

    What exists already under the same folder is kept, so that cases share files.
    """
    import os

    home = folder / data.name
    home.mkdir(parents=True, exist_ok=True)
    paths = [home / f"{index:04d}.parquet" for index in range(files)]
    for index, path in enumerate(paths):
        if not path.exists():
            pq.write_table(table(data, rows, index), path)
        # Spark orders files by modification time.
        os.utime(path, (1_700_000_000 + index, 1_700_000_000 + index))
    return paths
