"""Prefixes: what all windows that can still change share of a stretch since a landmark, kept as one row per group.

A window since a landmark holds every pane row of its stretch up to its end. Rows before the first end that can still be
asked for are only ever used together, so they are put together in the stretch's first pane: the state of a group does
not grow with the stretch.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from millpond.engine.cuts import regroup_cuts
from millpond.progress import NEVER
from millpond.synopses import PanesSpec
from millpond.windows.landmarks import BEGINNING, last_before
from millpond.windows.panes import FAR


def stretch_of(spec: PanesSpec, settled: int) -> int:
    """The first pane of the stretch that pane number `settled` ends a piece of; before all panes without a landmark."""
    assert spec.landmark is not None
    if settled <= -FAR:
        return -FAR
    mark = int(last_before(spec.landmark, np.array([spec.panes.start(settled) + 1]))[0])
    return max(-FAR, spec.panes.pane(NEVER if mark <= BEGINNING else mark))


def fold_prefix(db: duckdb.DuckDBPyConnection, spec: PanesSpec, table: pa.Table, settled: int) -> pa.Table:
    """Pane rows in which those of the running stretch before pane `settled` are one per group (and cut).

    Arguments:
        settled: every window that ends at or before it is final.
    """
    if spec.landmark is None or settled <= -FAR or not table.num_rows:
        return table
    first = stretch_of(spec, settled)
    pane = table["pane"].to_numpy()
    inside = (pane >= first) & (pane < settled)
    if np.count_nonzero(inside) < 2:
        return table
    prefix = table.filter(pa.array(inside))
    at = prefix.schema.get_field_index("pane")
    prefix = prefix.set_column(at, "pane", pa.array(np.full(prefix.num_rows, first, np.int64)))
    folded = regroup_cuts(db, spec, prefix)
    return pa.concat_tables([folded, table.filter(pa.array(~inside))], promote_options="permissive")
