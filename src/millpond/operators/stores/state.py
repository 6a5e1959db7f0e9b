"""The rows of a store in one shard: committed chunks read back, kept in memory as sorted runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Store
from millpond.manifests.places import state_folder
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import Manifest
from millpond.operators.contract import MergeTask, Operator
from millpond.relations import Run, all_rows, merge_rows, only_needed, with_rows
from millpond.relations.spilling import spill
from millpond.synopses import connection
from millpond.tables import Chunk, Segment, read_chunks
from millpond.tables.shard_cache import Kept, ShardCache

#: Chunks of state that are rows of stores.
ROWS = "rows"

#: Rows of a store that are kept in memory without asking whether anybody needs them.
PRUNED = 20_000


@dataclass(frozen=True)
class _Kept:
    """Rows of a store after an epoch; size: how many there were when those that nobody needs were last left out.

    adopted: the files of back-fills that were read.
    """

    runs: tuple[Run, ...]
    size: int
    adopted: frozenset[str] = frozenset()


_kept: ShardCache[_Kept] = ShardCache()


@dataclass(frozen=True)
class Asking:
    """Which rows of a store are needed. whole: `rows` are all that it has, not those of some files."""

    manifest: Manifest
    owner: str
    rows: pa.Table
    whole: bool

    def needed_by(self, readers: Sequence[Operator], failures: Failures) -> npt.NDArray[np.bool_]:
        """The rows that any of those can still need that read the store; one that fails needs all."""
        wanted = np.zeros(self.rows.num_rows, bool)
        for reader in readers:
            mine = failures.attempt(reader.owner, partial(self._by, reader))
            wanted |= True if mine is None else mine
        return wanted

    def _by(self, reader: Operator) -> npt.NDArray[np.bool_]:
        return reader.needed_rows(connection(), self.manifest, self.owner, self.rows, self.whole)


def store_runs(
    task: MergeTask,
    store: Store,
    delta: pa.Table | None,
    readers: Sequence[Operator],
) -> tuple[Run, ...]:
    """All rows of a store with those of the epoch, in total order."""
    manifest, users = task.manifest, task.catalog.users(store.owner)
    held = _kept.get(task.version, store.owner, task.shard)
    adopted = any(str(q.id) in manifest.adopt for q in users)
    # What is kept is good for the next epoch, and for a repetition of this one if that brought nothing.
    fits = held is not None and held.epoch == manifest.epoch - (0 if delta is None and not adopted else 1)
    files = frozenset(s.path for s in task.segments if s.path.startswith("b"))
    runs: tuple[Run, ...]
    missed = None if held is None or adopted else _missed(held, files, manifest.epoch, task.segments)
    if held is not None and fits and not adopted:
        runs, size = held.value.runs, held.value.size
    elif held is not None and missed is not None:
        runs, size = held.value.runs, held.value.size
        for rows in read_rows(task.pond, store.owner, missed):
            runs = with_rows(runs, rows)
    else:
        parts = read_rows(task.pond, store.owner, [s.path for s in task.segments])
        runs, size = with_rows((), merge_rows(parts)) if parts else (), 0
    if delta is not None and delta.num_rows:
        runs = with_rows(runs, delta)
    if sum(len(r) for r in runs) > max(PRUNED, 2 * size):
        asking = Asking(manifest, store.owner, all_rows(runs), True)
        runs = only_needed(runs, asking.needed_by(readers, task.failures))
        size = sum(len(r) for r in runs)
    asked = [q.definition.options.memory_rows for q in users if q.status != "quarantined"]
    if (most := min((n for n in asked if n is not None), default=None)) is not None:
        runs = spill(runs, most, os.path.join(task.pond, "spill"))
    _kept.put(task.version, store.owner, task.shard, _Kept(runs, size, files))
    return runs


def _missed(held: Kept[_Kept], files: frozenset[str], epoch: int, segments: Sequence[Segment]) -> list[str] | None:
    """The files of the epochs that others ran since; None when they do not tell all that is new."""
    if held.epoch >= epoch or files - held.value.adopted:
        return None
    paths = [s.path for s in segments if not s.path.startswith("b") and int(s.path[1:13]) > held.epoch]
    # What has been put together holds rows of before as well.
    return paths if all(p.startswith("e") for p in paths) else None


def read_rows(pond: str, owner: str, paths: Sequence[str]) -> list[pa.Table]:
    """The rows of a store in some state files."""
    found = read_chunks([os.path.join(state_folder(pond), p) for p in paths], {owner}, lambda _o, k, *_: k == ROWS)
    return [merge_rows([c.table]) for c in found if c.table.num_rows]


def keep_silent(task: MergeTask, owner: str) -> None:
    """What is kept of a store that an epoch brought nothing for is as good after it."""
    held = _kept.get(task.version, owner, task.shard)
    if held is not None and held.epoch == task.manifest.epoch - 1:
        _kept.put(task.version, owner, task.shard, held.value)


def row_chunk(owner: str, epoch: int, rows: pa.Table) -> Chunk:
    """The chunk that stores rows."""
    span = pc.min_max(rows["_t"]).as_py()
    return Chunk(owner, ROWS, epoch, span["min"], span["max"], rows)
