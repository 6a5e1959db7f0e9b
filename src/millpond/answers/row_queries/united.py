"""Row queries over a union of streams: each stream's matching rows under the names of the first, in one total order.

Which rows match is found stream by stream, by the predicate index of each; here they are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from millpond.answers.row_queries.hot import View
from millpond.answers.row_queries.matched_rows import Wanted, archive_rows, hot_parts, hot_stretch, in_order, matcher
from millpond.answers.row_queries.moments import NOTHING, Moment, between, last_rows
from millpond.answers.row_queries.stretch import Stretch
from millpond.archive.archive_files import row_schema
from millpond.catalog.unions import Union, entering, own_names
from millpond.synopses.blocks import event_times
from millpond.types import PLACE, Edge, Feed, Side, Span, StreamDefinition, StreamQuery

if TYPE_CHECKING:
    from millpond.answers.row_queries.ready import Ready


def own_columns(query: StreamQuery, stream: StreamDefinition, columns: Sequence[str]) -> tuple[str, ...]:
    """What columns of a union, and its event time, are called in one of its streams."""
    found = own_names(Union(query.feeds[0].stream, query.feeds), stream, columns)
    return tuple(dict.fromkeys([*found, stream.options.time]))


def entered(
    query: StreamQuery,
    first: StreamDefinition,
    stream: StreamDefinition,
    rows: pa.Table,
    within: Stretch | None = None,
) -> pa.Table:
    """Rows of one stream as rows of the union; within: only those in there, ids being the union's."""
    rows = entering(rows, Union(first.id, query.feeds), stream.id, row_schema(first))
    if within is not None:
        mask = within.mask(event_times(rows, first.options.time), rows["_id"].to_numpy())
        rows = rows.filter(pa.array(mask))
    return rows


def together(parts: Sequence[pa.Table], first: StreamDefinition) -> pa.Table | None:
    """Rows of several streams in the union's total order; None when there is none."""
    parts = [p for p in parts if p.num_rows]
    if not parts:
        return None
    table = pa.concat_tables(parts).combine_chunks()
    order = np.lexsort((table["_id"].to_numpy(), event_times(table, first.options.time)))
    return table.take(pa.array(order))


def last_stretch(ready: Ready, feeds: Sequence[Feed], views: Sequence[View], span: Span, moment: Moment) -> Stretch:
    """The stretch of a union for a window with an edge by rows, which count over all streams, before any condition.

    Returns: the stretch; its ids are the union's.
    """
    if moment.now is None:
        return NOTHING
    counts = [edge.rows for edge in (span.begin, span.end) if edge.rows is not None]
    limit = moment.now if moment.seen is None else min(moment.now, moment.seen)
    times, ids = [], []
    for place, (feed, view) in enumerate(zip(feeds, views, strict=True)):
        some, own = _last(ready, feed, view, max(counts), limit, moment.epoch)
        times.append(some)
        ids.append(own + (place << PLACE))
    every, order_ids = np.concatenate(times), np.concatenate(ids)
    order = np.lexsort((order_ids, every))

    def back(edge: Edge) -> tuple[int, int] | None:
        if edge.rows is None or len(order) < edge.rows:
            return None
        at = order[len(order) - edge.rows]
        return int(every[at]), int(order_ids[at])

    return between(span, moment, back(span.begin), back(span.end))


def _last(
    ready: Ready, feed: Feed, view: View, count: int, limit: int, epoch: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Times and ids of (at least) the last `count` rows of a stream that enter the union, up to `limit`."""
    wanted = count
    everything = Wanted(0, Side(view.stream.name), 0, epoch)
    names = (view.stream.options.time, "_id", "_bound", "_epoch")
    while True:
        start = last_rows(ready.pond.archives, view, wanted, limit, epoch)
        stretch = Stretch(None, limit) if start is None else Stretch(start[0], limit, start[1])
        parts = []
        if (older := archive_rows(ready.pond.archives, view, everything, stretch, names)) is not None:
            parts.append(older.select(names))
        if found := hot_parts(view, matcher(ready.sets, view, everything), hot_stretch(view, stretch)):
            parts.append(in_order(found, names))
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        rows = pa.concat_tables(parts)
        late = rows["_bound"].is_valid().to_numpy() if feed.on_time else np.zeros(rows.num_rows, bool)
        if start is None or int(np.count_nonzero(~late)) >= count:
            rows = rows.filter(pa.array(~late))
            return event_times(rows, view.stream.options.time), rows["_id"].to_numpy()
        wanted *= 2
