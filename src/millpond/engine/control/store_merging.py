"""Stores that are put together: rows that queries keep several times over, because the queries came one by one.

A query that comes when rows have been taken in gets a store of its own where none reaches far enough back, or lacks
columns. As soon as its back-fill is done, its store and those of others become one, with all rows and columns that
any of them has: each query sees of it what it needs (Babu 2005, section 2.5).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Standing, Store
from millpond.catalog.sharing import ordered_alike
from millpond.manifests.places import state_folder
from millpond.manifests.records import Published
from millpond.operators.relational.history import InputReader
from millpond.operators.stores.state import row_chunk
from millpond.relations import Rows
from millpond.relations.stored_rows import OWN
from millpond.support.distinct import is_among
from millpond.tables import Chunk, Segment, read_chunks, write_chunks

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Merging:
    """Stores that become one.

    store: what they become. parts: the stores, those with most columns first. users: their queries.
    """

    store: Store
    parts: tuple[Store, ...]
    users: tuple[Standing, ...]

    def moved(self, standing: Standing) -> Standing:
        """A user that reads the one store in place of those that it had."""
        parts = {s.owner for s in self.parts}
        return replace(standing, inputs=tuple(self.store.owner if o in parts else o for o in standing.inputs))


def mergings(catalog: Catalog, published: Published) -> tuple[Merging, ...]:
    """The stores that can become one: those of the same rows of the same streams, placed alike, in state of which all
    is known: no user is being back-filled, and no key is split."""
    alike: dict[object, list[Store]] = defaultdict(list)
    for store in catalog.stores.values():
        if store.owner not in published.hot:
            rows = replace(store.spec, columns=(), casts=())
            alike[rows.key, rows.narrowed, store.shard, str(store.spread), store.salting].append(store)
    several = [stores for stores in alike.values() if len(stores) > 1]
    found = [_merging(catalog, published.epoch + 1, n, stores) for n, stores in enumerate(several)]
    return tuple(merging for merging in found if merging is not None)


def _merging(catalog: Catalog, epoch: int, number: int, stores: Sequence[Store]) -> Merging | None:
    """How some of these stores become one before an epoch; None: they do not. number: of those before it."""
    settled = [s for s in stores if all(map(_is_settled, catalog.users(s.owner)))]
    parts = sorted(settled, key=lambda s: (-len(s.spec.columns), s.owner))
    parts = [s for s in parts if _ordered_alike(catalog, parts[0], s)]
    users = {q.id: q for s in parts for q in catalog.users(s.owner)}
    if len(parts) < 2 or len(users) < 2:
        return None
    spec: Rows = reduce(Rows.with_columns, (s.spec for s in parts))
    if not all(spec.serves(s.spec) for s in parts):
        return None
    # Rows placed otherwise have an equal key; and with the version, rows are not found twice after a crash.
    owner = f"{spec.key}.{epoch}.{catalog.version}.{number}.one"
    store = replace(parts[0], owner=owner, spec=spec, first_epoch=epoch)
    return Merging(store, tuple(parts), tuple(users[query] for query in sorted(users)))


def _is_settled(standing: Standing) -> bool:
    """Whether it goes on with what is in its windows, from what its store has by now."""
    return standing.relational.keeps_windows and "backfilling" not in (standing.status, standing.reason)


def _ordered_alike(catalog: Catalog, one: Store, other: Store) -> bool:
    """Whether the users of two stores want their condition evaluated alike."""
    return all(
        ordered_alike(catalog, one.owner, one.spec.condition, q.definition.options) for q in catalog.users(other.owner)
    )


def merged_state(archives: Archives, published: Published, merging: Merging) -> list[Segment] | None:
    """Write the rows of the stores under the name of the one that they become.

    Returns: the files; None: columns are wanted of rows that retention has removed, so the stores stay as they are.
    """
    writer = _Writer(archives, published, merging)
    with archives.pinned():
        for part in merging.parts:
            whole = set(part.spec.columns) == set(merging.store.spec.columns)
            if not (writer.copy(part) if whole else writer.widen(part)):
                return None
    return writer.written


class _Writer:
    """Writes the files of a merging; a shard has each row once.

    Attributes:
        written: the files so far.
    """

    def __init__(self, archives: Archives, published: Published, merging: Merging) -> None:
        self.written: list[Segment] = []
        self._archives, self._published, self._merging = archives, published, merging
        self._folder = state_folder(archives.path)
        self._there: dict[int, list[Ids]] = defaultdict(list)

    def copy(self, part: Store) -> bool:
        """Copy the rows of a store that has all columns, file by file."""
        for segment, rows in self._lacking(part):
            self._write(segment, rows)
        return True

    def widen(self, part: Store) -> bool:
        """Copy the rows of a store that lacks columns, with what the archive has of these, file by file.

        Returns: whether the archive has all of the rows.
        """
        for segment, rows in self._lacking(part):
            times = pc.min_max(rows["_t"]).as_py()
            archived = self._archived(part, times["min"], times["max"])
            found = archived.filter(pa.array(is_among(archived["_id"].to_numpy(), rows["_id"].to_numpy()))).sort_by(
                "_id"
            )
            if found.num_rows != rows.num_rows:
                return False
            ordered = rows.sort_by("_id")
            for name in OWN:
                found = found.set_column(found.column_names.index(name), name, ordered[name])
            self._write(segment, found.sort_by([("_t", "ascending"), ("_id", "ascending")]))
        return True

    def _archived(self, part: Store, low: int, high: int) -> pa.Table:
        """The rows of a stretch of event time with all columns."""
        standing = next(q for q in self._merging.users if part.owner in q.inputs)
        relation, spec = standing.relational, self._merging.store.spec
        specs = [spec] * len(relation.inputs)
        reader = InputReader(self._archives, relation, self._published, specs, past_retention=True)
        return reader.stored(standing.inputs.index(part.owner), low, high)

    def _lacking(self, part: Store) -> Iterator[tuple[Segment, pa.Table]]:
        """What is not written yet of a store, by the file that it comes from."""
        others = {shard: np.concatenate(ids) for shard, ids in self._there.items() if ids}
        for segment in self._archives.storage.state.segments:
            found = []
            for chunk in read_chunks([os.path.join(self._folder, segment.path)], {part.owner}):
                ids = chunk.table["_id"].to_numpy()
                new = ~is_among(ids, others.get(segment.shard, ids[:0]))
                self._there[segment.shard].append(ids[new])
                found.append(chunk.table.filter(pa.array(new)))
            if sum(t.num_rows for t in found):
                yield segment, pa.concat_tables(found, promote_options="permissive")

    def _write(self, segment: Segment, rows: pa.Table) -> None:
        """Write rows that come from a file, which has epochs in its name."""
        store, last = self._merging.store, segment.last_epoch
        name = f"{segment.path.removesuffix('.parquet')}-{store.owner}-{len(self.written)}.parquet"
        chunk: Chunk = row_chunk(store.owner, last, rows)
        made = write_chunks(self._folder, name, [chunk], segment.shard, segment.level, last)
        self.written.append(replace(made, first_epoch=segment.first_epoch, last_epoch=last))


__all__ = ["Merging", "merged_state", "mergings"]
