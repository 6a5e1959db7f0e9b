"""Prefixes: what all windows that can still change share of a stretch since a landmark, kept as one row per group.

A window since a landmark holds every pane row of its stretch up to its end. Rows before the first end that can still be
asked for are only ever used together, so they are put together in the stretch's first pane: the state of a group does
not grow with the stretch. Of several windows in one SELECT each has such a stretch; what lies between the beginnings of
two is put together, and what windows of a RANGE beside them can still take off stays as it is.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from millpond.progress import NEVER
from millpond.synopses import PanesSpec
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.partials.late_exclusions import regroup_cuts
from millpond.windows.candidates import Ints
from millpond.windows.landmark_windows import BEGINNING, last_before
from millpond.windows.pane_layout import FAR


def stretches_of(spec: PanesSpec, settled: int) -> Ints:
    """The first panes, ascending, of the stretches that pane number `settled` ends a piece of; -FAR: all panes."""
    behind = np.array([spec.panes.start(settled) + 1])
    marks = {int(last_before(mark, behind)[0]) for mark in spec.landmarks}
    return np.array(sorted(max(-FAR, spec.panes.pane(NEVER if m <= BEGINNING else m)) for m in marks), np.int64)


def fold_prefix(db: duckdb.DuckDBPyConnection, spec: Spec, table: pa.Table, settled: int) -> pa.Table:
    """Pane rows in which those of the running stretch before pane `settled` are one per group (and cut).

    Arguments:
        settled: every window that ends at or before it is final.
    """
    if not isinstance(spec, PanesSpec) or not spec.landmarks or settled <= -FAR or not table.num_rows:
        return table
    firsts = stretches_of(spec, settled)
    pane = table["pane"].to_numpy()
    inside = (pane >= firsts[0]) & (pane < settled - spec.tail // spec.panes.width)
    if np.count_nonzero(inside) < 2:
        return table
    prefix = table.filter(pa.array(inside))
    at = prefix.schema.get_field_index("pane")
    stretch = firsts[np.searchsorted(firsts, pane[inside], "right") - 1]
    prefix = prefix.set_column(at, "pane", pa.array(stretch))
    folded = regroup_cuts(db, spec, prefix)
    return pa.concat_tables([folded, table.filter(pa.array(~inside))], promote_options="permissive")
