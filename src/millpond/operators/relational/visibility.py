"""Floors: from which instant on a relational query can see rows, where their own time is too far back.

A late row of a stream carries the progress that it was behind (`_cut`), and is seen from there on, or `revise_for`
before it. That says nothing of rows that are on time in their own stream, but behind what a query over several streams
has answered: an idle stream wakes up, or one that had ended gets another file. They are seen from the query's own
horizon on, which is what its other late rows are measured by; so what is final stays as it is. A floor says this of
the rows of some epochs, and is part of the query's progress.

A query whose answers wait until they are final (`delay`) sees late rows at their own time, down to what it answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.query_progress import QueryProgress
from millpond.operators.relational.relational_progress import Floor, R, Reading
from millpond.progress import NEVER
from millpond.relations.spans import visible_from
from millpond.support.distinct import distinct
from millpond.types import QueryOptions, Relational


def revises(options: QueryOptions, late: str) -> bool:
    """Whether late rows of an input (`late`: what they do) revise what a relational query has reported."""
    return late == "revise" and not options.delay


def floor_of(progress: Reading, revising: bool, spare: int) -> int:
    """The instant before which nothing that the query has reported changes any more, by rows of an input.

    Arguments:
        progress: of the query, before the epoch. revising: whether rows of the input revise. spare: `revise_for`.
    """
    if progress.closed <= progress.start:  # it has reported nothing yet
        return NEVER
    return max(NEVER, progress.own.edge - spare) if revising else progress.closed


def covered_from(query: Relational, options: QueryOptions, progress: Reading) -> int:
    """The instant from which on state covers what rows bring; NEVER: there is nothing before it that could change.

    Where answers leave out rows that are later than `revise_for`, nothing does.
    """
    if options.limited or progress.closed <= progress.start:  # it has reported nothing yet
        return NEVER
    return max(NEVER, progress.start, progress.own.edge - query.revised_for(options))


def new_floor(
    progress: QueryProgress[R],
    options: QueryOptions,
    fresh: Sequence[tuple[str, pa.Table]],
    spares: Sequence[int],
    floors: Sequence[int],
) -> QueryProgress[R]:
    """The progress with a floor for the rows of the epoch, if any of them lies behind what can change.

    Arguments:
        fresh: what late rows do, and new rows, of each input; spares, floors: `revise_for` of each, and `floor_of`.
    """
    behind = False
    for (late, rows), spare, floor in zip(fresh, spares, floors, strict=True):
        if not rows.num_rows or floor <= NEVER:
            continue
        seen = rows["_t"].to_numpy()
        if not _ignores_cuts(options, late):
            seen = visible_from(rows, seen, spare)
        behind = behind or bool((seen < floor).any())
    if not behind:
        return progress
    spans = [pc.min_max(rows["_epoch"]).as_py() for _, rows in fresh if rows.num_rows]
    new = Floor(min(s["min"] for s in spans), max(s["max"] for s in spans), progress.closed, progress.own.edge)
    return with_floor(progress, new)


def with_floor(progress: QueryProgress[R], floor: Floor) -> QueryProgress[R]:
    """The progress with one more floor."""
    own = replace(progress.own, floors=(*progress.own.floors, floor))
    return replace(progress, own=own)


def floored(rows: pa.Table, progress: Reading, options: QueryOptions, late: str) -> pa.Table:
    """Rows of an input, with cuts that say from when on the query sees them."""
    if not rows.num_rows or not (progress.own.floors or _ignores_cuts(options, late)):
        return rows
    place = rows.column_names.index("_cut")
    cut = pa.nulls(rows.num_rows, pa.int64()) if _ignores_cuts(options, late) else rows["_cut"]
    epoch = rows["_epoch"]
    for floor in progress.own.floors:
        own = pc.and_(pc.greater_equal(epoch, floor.first), pc.less_equal(epoch, floor.last))
        limit = pa.scalar(floor.edge if revises(options, late) else floor.closed, pa.int64())
        cut = pc.if_else(own, pc.max_element_wise(cut, limit), cut)
    return rows.set_column(place, "_cut", cut)


def pruned(progress: QueryProgress[R], inputs: Sequence[pa.Table]) -> QueryProgress[R]:
    """The progress without floors of rows that are kept no more."""
    if not progress.own.floors:
        return progress
    epochs = distinct(np.concatenate([rows["_epoch"].to_numpy() for rows in inputs]))
    kept = tuple(f for f in progress.own.floors if ((epochs >= f.first) & (epochs <= f.last)).any())
    return replace(progress, own=replace(progress.own, floors=kept))


def _ignores_cuts(options: QueryOptions, late: str) -> bool:
    return bool(options.delay) and late == "revise"
