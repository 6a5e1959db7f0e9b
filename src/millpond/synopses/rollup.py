"""Coarser pane partials from finer ones: what a summary keeps, as the partials that a query needs.

A partial of panes of an hour by airport and carrier gives those of a day by airport: panes are put into the pane that
holds them, keys that are not wanted are folded away, and components combine as they do when partials are merged
(Li 2008, 4.2, sub- and super-aggregates; a cube's roll-up, Gray 1997).
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.synopses.pane_partials import PanesSpec, regroup
from millpond.windows.pane_layout import WHOLE

#: A column of partials on streams that drop late rows: the progress that a late row was behind.
CUT = "cut"


def rolled_up(db: duckdb.DuckDBPyConnection, have: PanesSpec, needed: PanesSpec, table: pa.Table) -> pa.Table:
    """Partials of `have` as partials of `needed`; see `PanesSpec.rolls_up`. Cuts stay as they are."""
    if not table.num_rows:
        return table
    columns = {"pane": pa.array(_panes(have, needed, table["pane"].to_numpy()))}
    for name, key in zip(needed.key_names, needed.keys, strict=True):
        columns[name] = table[have.key_names[have.keys.index(key)]]
    if CUT in table.column_names:
        columns[CUT] = table[CUT]
    columns["n"] = table["n"]
    for component in needed.components:
        columns |= {name: table[name] for name in component.names}
    coarser = pa.table(columns)
    if have.panes == needed.panes and have.keys == needed.keys:
        return coarser
    return _regrouped(db, needed, coarser)


def _panes(
    have: PanesSpec, needed: PanesSpec, pane: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The pane of `needed` that each pane of `have` lies in."""
    if needed.panes.width >= WHOLE:
        return np.zeros(len(pane), np.int64)
    start = have.panes.phase + pane * have.panes.width
    if needed.interval is not None:
        start = start // needed.interval * needed.interval
    return np.asarray((start - needed.panes.phase) // needed.panes.width, np.int64)


def _regrouped(db: duckdb.DuckDBPyConnection, spec: PanesSpec, table: pa.Table) -> pa.Table:
    """One row per (pane, group), and cut where there are cuts."""
    if CUT not in table.column_names:
        return regroup(db, spec, table)
    late = pc.is_valid(table[CUT])
    parts = [regroup(db, spec, table.filter(pc.invert(late)).drop_columns([CUT]))]
    parts[0] = parts[0].append_column(CUT, pa.nulls(parts[0].num_rows, pa.int64()))
    marked = table.filter(late)
    return pa.concat_tables([*parts, marked], promote_options="permissive") if marked.num_rows else parts[0]
