"""Partials by the shard that keeps their group."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from millpond.synopses.kernel import query_table
from millpond.synopses.partials.dispatch import Spec


def single_shard(spec: Spec, owner: str, shards: int) -> int | None:
    """The shard that has all rows of a synopsis, or None when they are spread by group."""
    if shards > 1 and spec.spread:
        return None
    return int.from_bytes(hashlib.blake2b(owner.encode(), digest_size=4).digest(), "big") % shards


def cut(
    db: duckdb.DuckDBPyConnection, spec: Spec, owner: str, table: pa.Table, shards: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a partial by the shard that keeps their group."""
    if not table.num_rows:
        return
    shard = single_shard(spec, owner, shards)
    if shard is not None:
        yield shard, table
        return
    yield from by_hash(db, ", ".join(spec.spread), table, shards)


def by_hash(
    db: duckdb.DuckDBPyConnection, expression: str, table: pa.Table, shards: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a table by the hash of an expression (DuckDB SQL): those of a value in one shard; no empty ones."""
    shard = query_table(db, f"SELECT (hash({expression}) % {shards})::INTEGER AS s FROM p", p=table)["s"].to_numpy()
    for number in range(shards):
        part = table.filter(pa.array(shard == number))
        if part.num_rows:
            yield number, part
