"""Cuts: which windows a late row does not count in, kept with pane rows for queries that answer later than others.

A row counts in the windows that were open (under 'revise': not yet final) when it came. A live query sees to that by
answering at once. Who answers later, from history or after a pause, needs to know of each pane row the progress that it
was behind: its `cut`. A pane row that ends behind its cut lies in open windows only, and carries none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.progress import NEVER
from millpond.synopses import PanesSpec, merge_partials
from millpond.synopses.pane_partials import regroup
from millpond.synopses.partials.dispatch import Spec
from millpond.types import Expression

CUT = "cut"


def with_cut(spec: Spec, rows: pa.Table, bound: int, spare: int = 0) -> pa.Table:
    """Pane rows of one epoch, in which those that end at or before `bound - spare` carry the cut `bound`."""
    if not rows.num_rows or bound <= NEVER:
        return rows
    # Panes that end until t are those before the one that t lies in.
    late = pc.less(rows["pane"], spec.panes.pane(bound - spare))
    if not pc.any(late).as_py():
        return rows
    return rows.append_column(CUT, pc.if_else(late, pa.scalar(bound, pa.int64()), pa.scalar(None, pa.int64())))


def without_cut(db: duckdb.DuckDBPyConnection, spec: Spec, rows: pa.Table) -> pa.Table:
    """Stored pane rows as one per (pane, group)."""
    if spec.keeps_cuts:
        return rows
    return regroup(db, spec, rows.drop_columns([CUT])) if CUT in rows.column_names else rows


def merge_cuts(db: duckdb.DuckDBPyConnection, spec: Spec, parts: Sequence[pa.Table]) -> pa.Table:
    """As `merge_partials`, with one row per (pane, group, cut) where any part has cuts."""
    parts = [p for p in parts if p.num_rows]
    if not isinstance(spec, PanesSpec) or not any(CUT in p.column_names for p in parts):
        return merge_partials(db, spec, parts)
    wider = _wider(spec)
    return _plain(wider, merge_partials(db, wider, [_keyed(wider, part) for part in parts]))


def regroup_cuts(db: duckdb.DuckDBPyConnection, spec: PanesSpec, rows: pa.Table) -> pa.Table:
    """As `regroup`, with one row per (pane, group, cut) where rows have cuts."""
    if CUT not in rows.column_names:
        return regroup(db, spec, rows)
    wider = _wider(spec)
    return _plain(wider, regroup(db, wider, _keyed(wider, rows)))


def _wider(spec: PanesSpec) -> PanesSpec:
    """The cut as one more key of the group."""
    return replace(spec, keys=(*spec.keys, Expression(CUT, (CUT,))))


def _keyed(wider: PanesSpec, part: pa.Table) -> pa.Table:
    cut = part[CUT] if CUT in part.column_names else pa.nulls(part.num_rows, pa.int64())
    part = part.drop_columns([CUT]) if CUT in part.column_names else part
    return part.add_column(len(wider.keys), wider.key_names[-1], cut)


def _plain(wider: PanesSpec, rows: pa.Table) -> pa.Table:
    return rows.rename_columns([CUT if n == wider.key_names[-1] else n for n in rows.column_names])


def separate(parts: Sequence[pa.Table]) -> tuple[list[pa.Table], pa.Table | None]:
    """The rows without a cut, and those with one in one table (None if there are none)."""
    on_time, late = [], []
    for part in parts:
        if CUT not in part.column_names:
            on_time.append(part)
            continue
        cut = pc.is_valid(part[CUT])
        on_time.append(part.filter(pc.invert(cut)).drop_columns([CUT]))
        late.append(part.filter(cut))
    late = [t for t in late if t.num_rows]
    return [t for t in on_time if t.num_rows], pa.concat_tables(late, promote_options="permissive") if late else None
