"""`REDUCE error(e)`: which fraction of the rows to read so that every interval of an answer is narrow enough.

A first scan reads about a thousand rows. From the intervals of its answer follows which fraction makes them as narrow
as wanted (their width goes with sqrt((1 - p) / p)). The next scan reads that, and so on, until they are narrow enough,
or everything has been read. Samples are nested, so a later scan reads what an earlier one did, and more.

What no scan drew asks for nothing: a group, or a window, of which none of the rows was read is not in the answer.

    >>> narrowing = Narrowing(0.01, rows=1_000_000)
    >>> narrowing.fraction
    0.001
    >>> narrowing.done(needed=0.3), round(narrowing.fraction, 2)
    (False, 0.33)
    >>> narrowing.done(needed=0.31)
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.synopses.aggregates.estimates import fraction_for
from millpond.types import Aggregation, RowScan
from millpond.types.reduction_forms import SMALL

#: Rows that the first scan should read, about.
PILOT_ROWS = 1_000

#: Scans at most; the last one reads everything.
MOST_SCANS = 5

#: How much more than computed is read, so that the next scan is the last one.
MARGIN = 1.1

#: A fraction above which everything is read.
ALMOST = 0.9


@dataclass
class Narrowing:
    """See the module. error: half the width wanted, as a fraction of the estimate. rows: of the stream."""

    error: float
    rows: int
    scans: int = 1
    fraction: float = field(init=False)

    def __post_init__(self) -> None:
        self.fraction = self._usable(max(PILOT_ROWS / max(self.rows, 1), 1e-3))

    @property
    def drop(self) -> float:
        """The fraction to drop now."""
        return round(1 - self.fraction, 12)

    def done(self, needed: float) -> bool:
        """Whether the scan of the current fraction was enough, given what its answer needs; else there is a new one."""
        if self.fraction >= 1 or needed <= self.fraction:
            return True
        self.scans += 1
        more = max(needed * MARGIN, 2 * self.fraction)
        self.fraction = 1.0 if self.scans >= MOST_SCANS else self._usable(more)
        return False

    @staticmethod
    def _usable(fraction: float) -> float:
        return 1.0 if fraction > ALMOST else fraction


def interval_columns(query: Aggregation | RowScan) -> list[tuple[str, str, str]]:
    """(estimate, low, high): the names of the answer's columns that belong together."""
    measures = {a.name: a for a in query.aggregates}
    shown = [(o.name, a) for o in query.select if (a := measures.get(o.expression.column or "")) is not None]
    ends = [(name, a) for name, a in shown if a.measure in ("low", "high")]
    estimates = [(name, replace(a, name="")) for name, a in shown if a.measure == "estimate"]
    found, used = [], set()
    for (low, end), (high, _) in zip(ends[::2], ends[1::2], strict=True):
        # They come in the order of the estimates; equal aggregates may stand in the list twice.
        same = replace(end, name="", measure="estimate", type="")
        for name, aggregate in estimates:
            if replace(aggregate, type="") == same and name not in used:
                used.add(name)
                found.append((name, low, high))
                break
    return found


def needed_fraction(table: pa.Table, pairs: Sequence[tuple[str, str, str]], error: float, fraction: float) -> float:
    """The fraction to read for intervals of +- `error` in every row of an answer that was made of `fraction`.

    An answer without rows says nothing: all are needed. Where an estimate has no interval, more rows are: so many that
    about `SMALL` of them would be read in place of one.
    """
    if not table.num_rows:
        return 1.0
    needed = 0.0
    for estimate, low, high in pairs:
        if pc.any(pc.and_(pc.is_valid(table[estimate]), pc.is_null(table[low]))).as_py():
            needed = max(needed, min(1.0, SMALL * fraction))
        middle, half = (
            np.asarray(c.cast(pa.float64()).fill_null(0).to_numpy(), np.float64)
            for c in (table[estimate], pc.divide(pc.subtract(table[high], table[low]), 2.0))
        )
        wide = half > error * np.abs(middle)
        if (wide & (middle == 0)).any():
            return 1.0
        if wide.any():
            worst = int(np.argmax(half[wide] / np.abs(middle[wide])))
            asked = fraction_for(error, float(half[wide][worst]), float(middle[wide][worst]), fraction)
            needed = max(needed, asked)
    return needed
