"""By which shards the rows of a store are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millpond.catalog import Store
from millpond.manifests.task_reports import Heavy
from millpond.operators.relational.skew import heavy
from millpond.synopses import query_table
from millpond.types.relation_queries import EVERYWHERE, SaltedBy


@dataclass(frozen=True)
class Placed:
    """Rows of a store by shard, and what of them is about keys that many have: rows in all, and by hash how many."""

    shards: dict[int, pa.Table]
    rows: int
    frequent: dict[str, Heavy]


def placed(db: duckdb.DuckDBPyConnection, store: Store, rows: pa.Table, shards: int, hot: Iterable[str] = ()) -> Placed:
    """The rows of a store by the shard that keeps them.

    Args:
        hot: the hashes of keys that are split.
    """
    count = rows.num_rows
    if not store.spread or shards == 1 or not count:
        return Placed({max(0, store.shard): rows} if count else {}, count, {})
    if store.spread == EVERYWHERE:
        return Placed(dict.fromkeys(range(shards), rows), count, {})
    salted = f", hash({store.salting.column}) AS d" if hot and isinstance(store.salting, SaltedBy) else ""
    found = query_table(db, f"SELECT hash({store.spread}) AS h{salted} FROM r", r=rows)
    hashes = found["h"].to_numpy()
    shard = hashes % np.uint64(shards)
    everywhere = np.zeros(count, bool)
    if hot:
        split = np.isin(hashes, np.array([int(h) for h in hot], np.uint64))
        if salted:
            shard = np.where(split, found["d"].to_numpy() % np.uint64(shards), shard)
        else:
            everywhere = split
    parts = {n: rows.filter(pa.array((shard == n) | everywhere)) for n in range(shards)}
    frequent: dict[str, Heavy] = {}
    if store.salting.splits:
        for key, (times, row) in heavy(hashes).items():
            name = query_table(db, f"SELECT ({store.spread})::VARCHAR AS k FROM r", r=rows.slice(row, 1))["k"][0]
            frequent[key] = Heavy(times, str(name.as_py()))
    return Placed({n: part for n, part in parts.items() if part.num_rows}, count, frequent)
