"""Runs on disk: mapped files in the place of memory, for stores that are larger than they may be.

The files have no names once they are mapped: they go with the process, whatever ends it. Nothing depends on them: rows
of a store are in the state of the pond as well.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from millpond.relations.runs import Run
from millpond.synopses.partners.orders import KeyOrder

T = TypeVar("T")


@dataclass(frozen=True)
class RunOnDisk(Run):
    """A run whose rows, and what is sorted of them, are in mapped files.

    folder: where further files are made.
    """

    folder: str = ""

    def order(self, name: str, make: Callable[[Run], KeyOrder]) -> KeyOrder:
        """As `Run.order`."""
        if name not in self.orders:
            self.orders[name] = _order_on_disk(make(self), self.folder)
        return self.orders[name]


def spill(runs: Sequence[Run], most: int, folder: str) -> tuple[Run, ...]:
    """The runs with at most so many rows in memory: the oldest are on disk, which are the largest.

    Arguments:
        folder: is made if it is not there.
    """
    found = list(runs)
    memory = sum(len(r) for r in found if not isinstance(r, RunOnDisk))
    for at, run in enumerate(found):
        if memory <= most:
            break
        if not isinstance(run, RunOnDisk):
            memory -= len(run)
            found[at] = on_disk(run, folder)
    return tuple(found)


def on_disk(run: Run, folder: str) -> RunOnDisk:
    """The run in mapped files."""
    os.makedirs(folder, exist_ok=True)

    def written(path: str) -> pa.Table:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, run.rows.schema) as writer:
            writer.write_table(run.rows)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()

    rows = _nameless(folder, written)
    orders = {name: _order_on_disk(order, folder) for name, order in run.orders.items()}
    return RunOnDisk(rows, _array(run.times, folder), _array(run.ids, folder), orders, folder)


def _order_on_disk(order: KeyOrder, folder: str) -> KeyOrder:
    arrays = (order.codes, order.places, order.values, order.directory)
    codes, places, values, directory = (_array(a, folder) for a in arrays)
    return KeyOrder(codes, places, values, directory, order.shift, order.exact, order.kinds)


def _array(values: Any, folder: str) -> Any:
    """The array as a mapped file. Private pages, so that it is an array like any other to compiled functions."""

    def written(path: str) -> Any:
        with open(path, "wb") as file:
            np.save(file, values)
        return np.asarray(np.load(path, mmap_mode="c"))

    return _nameless(folder, written)


def _nameless(folder: str, write: Callable[[str], T]) -> T:
    """What `write` gives, which writes a file and maps it; its name is gone then."""
    handle, path = tempfile.mkstemp(dir=folder)
    os.close(handle)
    try:
        return write(path)
    finally:
        os.unlink(path)
