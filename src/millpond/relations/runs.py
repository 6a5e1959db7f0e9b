"""Rows of a store in runs: stretches of its total order, each sorted by key for the joins that ask for it.

A run never changes, so what was sorted stays sorted: an epoch adds a run of its own rows, and runs are put together by
and by as in a log-structured merge tree (O'Neil et al. 1996), in neighbouring pairs, so that the runs together are the
total order. Rows that lie before the end of what is there (late ones, or within the announced lateness) cut the last
run in two. Every join over the same store and key uses the same sorted run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.relations.spans import Ints
from millpond.relations.stored_rows import merge_rows
from millpond.synopses.partners.orders import KeyOrder

#: Runs up to this size are put together whatever there is besides; larger ones up to a share of all rows.
SMALL_RUN = 65_536
_SHARE = 4


@dataclass(frozen=True)
class Run:
    """Rows of a store that stand side by side in its total order.

    orders: the rows sorted by keys that were asked for, by what the key is called.
    """

    rows: pa.Table
    times: Ints
    ids: Ints
    orders: dict[str, KeyOrder] = field(default_factory=dict)

    @staticmethod
    def of(rows: pa.Table) -> Run:
        """A run of rows in total order."""
        rows = rows.combine_chunks()
        # Copies, since what lies in Arrow's buffers cannot be written to: another type to compiled functions.
        return Run(rows, np.array(rows["_t"]), np.array(rows["_id"]))

    def __len__(self) -> int:
        return len(self.times)

    def order(self, name: str, make: Callable[[Run], KeyOrder]) -> KeyOrder:
        """The rows sorted by a key.

        Arguments:
            name: of the key: what makes it and the columns that it is made of. make: sorts the rows of a run.
        """
        if name not in self.orders:
            self.orders[name] = make(self)
        return self.orders[name]

    def only(self, mask: npt.NDArray[np.bool_]) -> Run:
        """The run without some of its rows; what is sorted stays so."""
        rows, times = np.flatnonzero(mask), self.times[mask]
        orders = {name: order.only(mask) for name, order in self.orders.items()}
        first, last = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        whole = last - first == len(rows)
        found = self.rows.slice(first, len(rows)) if whole else self.rows.take(pa.array(rows))
        return Run(found, times, self.ids[mask], orders)


def together(first: Run, second: Run) -> Run:
    """Two neighbouring runs as one."""
    rows = pa.concat_tables([first.rows, second.rows], promote_options="permissive").combine_chunks()
    times, ids = (np.concatenate([a, b]) for a, b in ((first.times, second.times), (first.ids, second.ids)))
    both = ((n, first.orders[n], second.orders[n]) for n in first.orders.keys() & second.orders.keys())
    orders = {name: one.before(other, len(first)) for name, one, other in both if one.kinds == other.kinds}
    return Run(rows, times, ids, orders)


def with_rows(runs: Sequence[Run], delta: pa.Table) -> tuple[Run, ...]:
    """The runs of a store with further rows.

    Arguments:
        runs: in total order. delta: rows in total order.
    """
    found = list(runs)
    moved: list[pa.Table] = []
    time, number = delta["_t"][0].as_py(), delta["_id"][0].as_py()
    while found and (int(found[-1].times[-1]), int(found[-1].ids[-1])) > (time, number):
        last = found.pop()
        low, high = (int(np.searchsorted(last.times, time, side)) for side in ("left", "right"))
        cut = low + int(np.searchsorted(last.ids[low:high], number))
        moved.append(last.rows.slice(cut))
        if cut:
            found.append(last.only(np.arange(len(last)) < cut))
    found.append(Run.of(merge_rows([*moved, delta]) if moved else delta))
    total = sum(len(r) for r in found)
    while len(found) > 1 and len(found[-2]) <= 2 * len(found[-1]):
        if len(found[-2]) + len(found[-1]) > max(SMALL_RUN, total // _SHARE):
            break
        second, first = found.pop(), found.pop()
        found.append(together(first, second))
    return tuple(found)


def all_rows(runs: Sequence[Run]) -> pa.Table:
    """The rows of all runs in total order."""
    return pa.concat_tables([r.rows for r in runs], promote_options="permissive")


def only_needed(runs: Sequence[Run], mask: npt.NDArray[np.bool_]) -> tuple[Run, ...]:
    """The runs without some rows.

    Arguments:
        mask: of all rows in total order, which stay.
    """
    found, start = [], 0
    for run in runs:
        own = mask[start : start + len(run)]
        start += len(run)
        if own.all():
            found.append(run)
        elif own.any():
            found.append(run.only(own))
    return tuple(found)
