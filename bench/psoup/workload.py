"""The workload of PSoup's experiments: rows of four attributes, uniform, and queries of interval factors over them.

*selective*: about ten queries match each row however many there are; *broad*: two random constants bound each factor,
so that about an eighth of all queries match each row; *wide*: selective, with values from 2^24 instead of 2^8, so that
nearly all constants differ. A constant is a multiple of 32 with probability .2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ATTRIBUTES = ("a", "b", "c", "d")
STREAM = "reading"
COLUMNS = "ts TIMESTAMP, a INTEGER, b INTEGER, c INTEGER, d INTEGER"
#: Event time of the first row, microseconds: 2024-01-01 00:00:00 UTC; rows are a millisecond apart.
BASE, STEP = 1_704_067_200_000_000, 1_000
#: Queries that match each row of the selective mix, about.
MATCHES = 10.0
ROUND = 32
ROUND_SHARE = 0.2

#: (attribute, least value, largest value), both included.
Factor = tuple[str, int, int]
Condition = tuple[Factor, ...]


@dataclass(frozen=True)
class Mix:
    """A kind of queries. top: values and constants are below it. selective: their number decides the widths."""

    name: str
    top: int
    selective: bool


MIXES = {m.name: m for m in (Mix("selective", 256, True), Mix("broad", 256, False), Mix("wide", 1 << 24, True))}


def rows(count: int, start: int = 0, top: int = 256, seed: int = 1) -> pa.Table:
    """Rows number `start` and following; the same arguments give the same rows.

    >>> rows(3).column_names
    ['ts', 'a', 'b', 'c', 'd']
    """
    random = np.random.default_rng([seed, start])
    times = BASE + STEP * np.arange(start, start + count, dtype=np.int64)
    values = {name: random.integers(0, top, count, dtype=np.int32) for name in ATTRIBUTES}
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), **values})


def write_files(folder: Path, files: int, each: int, top: int = 256) -> list[Path]:
    """Parquet files of `each` rows, made once; their names are in the order of time."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{top}-{each}-{number:04d}.parquet" for number in range(files)]
    for number, path in enumerate(paths):
        if not path.exists():
            pq.write_table(rows(each, number * each, top), path)
    return paths


def constants(random: np.random.Generator, count: int, top: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Constants: uniform below `top`, multiples of 32 with probability .2."""
    plain = random.integers(0, top, count)
    return np.where(random.random(count) < ROUND_SHARE, plain // ROUND * ROUND, plain)


def conditions(mix: Mix, count: int, seed: int = 2, factors: int | None = None) -> list[Condition]:
    """The conditions of `count` queries, of one to four interval factors each (or of exactly `factors`).

    Where a single value of one attribute would already match too often, a selective query has more factors.

    >>> [len(c) for c in conditions(MIXES["broad"], 3, factors=2)]
    [2, 2, 2]
    """
    random = np.random.default_rng([seed, count, mix.top])
    share = min(1.0, MATCHES / count)
    possible = [f for f in (1, 2, 3, 4) if not mix.selective or share ** (1 / f) * mix.top >= 1] or [4]
    number = random.choice(possible, count) if factors is None else np.full(count, factors)
    order = np.argsort(random.random((count, 4)), axis=1)
    low, high = (constants(random, 4 * count, mix.top).reshape(count, 4) for _ in range(2))
    if mix.selective:
        # Factors differ in width, and their product is the share that is wanted.
        spread = np.exp(random.uniform(-0.3, 0.3, (count, 4)))
        used = np.arange(4)[None, :] < number[:, None]
        mean = np.exp((np.log(spread) * used).sum(axis=1) / number)[:, None]
        width = (share ** (1 / number) * mix.top)[:, None] * spread / mean
        # Rounded at random, up or down, so that the mean is kept for the narrowest ones too.
        width = np.clip(np.floor(width + random.random((count, 4))), 1, mix.top).astype(np.int64)
        low = np.minimum(low, mix.top - width)
        high = low + width - 1
    else:
        low, high = np.minimum(low, high), np.maximum(low, high)
    return [
        tuple((ATTRIBUTES[o], lo, hi) for o, lo, hi in zip(os[:f], los[:f], his[:f], strict=True))
        for f, os, los, his in zip(number.tolist(), order.tolist(), low.tolist(), high.tolist(), strict=True)
    ]


def equalities(count: int, seed: int = 3, top: int = 256, factors: int = 1) -> list[Condition]:
    """The conditions of equality queries."""
    random = np.random.default_rng([seed, count])
    values = constants(random, count * factors, top).reshape(count, factors)
    order = np.argsort(random.random((count, 4)), axis=1)[:, :factors]
    return [
        tuple((ATTRIBUTES[o], v, v) for o, v in zip(os, vs, strict=True))
        for os, vs in zip(order.tolist(), values.tolist(), strict=True)
    ]


def sql(condition: Condition, prefix: str = "") -> str:
    """A condition as every system understands it.

    >>> sql((("a", 3, 9), ("b", 5, 5)))
    'a >= 3 AND a <= 9 AND b = 5'
    """
    return " AND ".join(
        f"{prefix}{name} = {low}" if low == high else f"{prefix}{name} >= {low} AND {prefix}{name} <= {high}"
        for name, low, high in condition
    )


def statement(condition: Condition, columns: str = "*", window: str = "") -> str:
    """The query over the stream as Millpond registers it; without a window it sees the whole past."""
    return f"SELECT {columns} FROM {STREAM} WHERE {sql(condition)}{' ' + window if window else ''}"


def boxes(condition: Condition) -> tuple[Any, ...]:
    """The condition as the predicate index takes it."""
    from millpond.types import Interval

    return (tuple(Interval(f'"{name}"', "integer", low, high) for name, low, high in condition),)


def expected_rate(chosen: list[Condition], top: int) -> float:
    """Queries that match a row, on average over all possible rows."""
    return math.fsum(math.prod((high - low + 1) / top for _, low, high in condition) for condition in chosen)


def sample(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 … count - 1, evenly spread.

    >>> sample(10, 5)
    [0, 2, 4, 6, 8]
    """
    return [i * count // most for i in range(most)] if count > most else list(range(count))


def duckdb_counts(source: str, chosen: list[Condition], threads: int = 2) -> list[int]:
    """How many rows satisfy each condition, by DuckDB in one scan.

    Arguments: source, what stands behind FROM (`files_source` makes it).
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    shown = ", ".join(f"count(*) FILTER (WHERE {sql(c)})" for c in chosen)
    found = connection.sql(f"SELECT {shown} FROM {source}").fetchall()[0]
    connection.close()
    return [int(n) for n in found]


def files_source(paths: list[Any]) -> str:
    """Parquet files as DuckDB reads them."""
    return f"read_parquet([{', '.join(repr(str(p)) for p in paths)}])"
