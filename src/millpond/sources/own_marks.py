"""What a source says of its own progress inside the data: bounds in a column, control records; and who breaks them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.progress import FOREVER, NEVER, Partition, StreamProgress
from millpond.sources.formats.shape import FIRST_TIME, LAST_TIME
from millpond.support.sql import group_text, quote
from millpond.synopses import connection, query_table
from millpond.types import StreamDefinition, StreamOptions

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Why a row is a dead letter on a stream with guard='reject'.
BROKEN = "event time lies below a bound that the source itself had announced"


@dataclass(frozen=True)
class Said:
    """What an item says of progress: which of its rows are control records (None: none is), and the largest bounds.

    mark: for all rows. groups: for the rows of a group, by its text. count: control records.
    """

    records: Mask | None = None
    mark: int = NEVER
    groups: dict[str, int] = field(default_factory=dict)
    count: int = 0


def group_texts(rows: pa.Table, options: StreamOptions) -> pa.ChunkedArray | None:
    """The values of the columns `marks_by` of each row as text; None on a stream without them."""
    if not options.marked_by:
        return None
    return query_table(connection(), f"SELECT {group_text(options.marked_by)} AS g FROM rows", rows=rows)["g"]


def said(
    rows: pa.Table, times: Ints, stream: StreamDefinition, groups: pa.ChunkedArray | None, most: int | None
) -> Said:
    """The bounds in an item's rows.

    Arguments:
        times: event times of the rows, microseconds. groups: see `group_texts`.
        most: bounds beyond it are not believed (see the option `ahead`).
    """
    options = stream.options
    if options.marks_record is not None:
        # A condition that fails on a row does not hold for it.
        sql = f"SELECT coalesce(TRY({options.marks_record}), false) AS m FROM rows"
        mask = np.asarray(
            query_table(connection(), sql, rows=rows)["m"].combine_chunks().to_numpy(zero_copy_only=False)
        )
        chosen: Mask = mask.astype(np.bool_)
        if not chosen.any():
            return Said()
        bounds, held = times[chosen], None if groups is None else groups.filter(pa.array(chosen))
        mark, by_group = _largest(bounds, held, most, everybody=True)
        return Said(chosen, mark, by_group, int(chosen.sum()))
    if options.marks_column is None:
        return Said()
    sql = f"SELECT epoch_us({quote(options.marks_column)}) AS b FROM rows WHERE isfinite({quote(options.marks_column)})"
    if groups is not None:
        sql = sql.replace(" AS b", f" AS b, {group_text(options.marked_by)} AS g")
    found = query_table(connection(), sql, rows=rows)
    known = found["b"].to_numpy()
    mark, by_group = _largest(known, None if groups is None else found["g"], most, everybody=False)
    return Said(None, mark, by_group)


def _largest(
    bounds: Ints, groups: pa.ChunkedArray | None, most: int | None, everybody: bool
) -> tuple[int, dict[str, int]]:
    """The largest bound for all rows, and the largest of each group.

    everybody: a bound whose group is NULL is one for all rows; else it says nothing.
    """
    good = (bounds >= FIRST_TIME) & (bounds <= (LAST_TIME if most is None else min(most, LAST_TIME)))
    bounds = bounds[good]
    if groups is None:
        return (int(bounds.max()) if len(bounds) else NEVER), {}
    table = pa.table({"g": groups.filter(pa.array(good)), "b": pa.array(bounds)})
    mark, by_group = NEVER, {}
    for row in table.group_by("g").aggregate([("b", "max")]).to_pylist():
        if row["g"] is not None:
            by_group[row["g"]] = row["b_max"]
        elif everybody:
            mark = row["b_max"]
    return mark, by_group


def known_bounds(progress: StreamProgress, groups: pa.ChunkedArray | None, rows: int) -> Ints:
    """The bound that each row is measured against: the stream's, or that of the row's group if it is further."""
    return _by_group(progress.bound, progress.groups, groups, rows)


def behind_which(known: Ints, progress: StreamProgress, options: StreamOptions) -> Ints:
    """What is archived as the bound that late rows were behind, given what they are measured against.

    On a stream that drops late rows, one that is late for its group alone counts nowhere (see `counted`): queries that
    do not tell the groups apart have their windows open still, and could not agree with those that do.
    """
    if options.late != "drop" or options.marks_by is None:
        return known
    return np.where(known > progress.bound, FOREVER, known)


def counted(rows: pa.Table, options: StreamOptions) -> pa.Table:
    """The rows of a stream that can count in windows."""
    if options.late != "drop" or options.marks_by is None or not rows.num_rows:
        return rows
    return rows.filter(pc.fill_null(pc.less(rows["_bound"], FOREVER), True))


def own_bounds(partition: Partition, groups: pa.ChunkedArray | None, rows: int) -> Ints:
    """What the row's own source had announced for it."""
    return _by_group(partition.marked, partition.groups, groups, rows)


def _by_group(bound: int, further: dict[str, int], groups: pa.ChunkedArray | None, rows: int) -> Ints:
    bounds = np.full(rows, bound, np.int64)
    if groups is None or not further or not rows:
        return bounds
    names = sorted(further)
    place = pc.fill_null(pc.index_in(groups, pa.array(names, groups.type)), -1).to_numpy()
    own = np.array([further[n] for n in names], np.int64)
    return np.where(place >= 0, np.maximum(bounds, own[np.maximum(place, 0)]), bounds)
