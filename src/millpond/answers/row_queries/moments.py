"""What NOW is when a selection is invoked, and which stretch of each of its streams its window covers then.

All of it is a function of one publish record and of the rows of the epochs up to it.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from millpond.answers.row_queries.hot import Ints, Snapshot, View, archive_segments
from millpond.answers.row_queries.stretch import Stretch
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range, segments_in
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.catalog.unions import union_key
from millpond.manifests.records import Published, published_path, read_published
from millpond.progress import FOREVER, NEVER, StreamProgress, meld
from millpond.progress import now as latest
from millpond.support.errors import QueryError
from millpond.synopses.blocks import event_times
from millpond.types import Edge, Span, StreamDefinition
from millpond.types.as_of import AsOf

#: Nothing lies in it.
NOTHING = Stretch(1, 0)


@dataclass(frozen=True)
class Moment:
    """When a query is invoked.

    now: NOW, None while there is no row. seen: the latest event time that is seen; None: all. epoch: the last epoch
    whose rows are seen. progress: no row below it is announced to come; NEVER: nothing was announced.
    """

    now: int | None
    seen: int | None
    epoch: int
    progress: int


def moment_of(pond: str, snapshot: Snapshot, streams: Inputs, as_of: AsOf = None) -> Moment:
    """The moment of an invocation.

    Arguments:
        pond: its folder.
        as_of: None: NOW is the largest event time admitted; of several streams the smallest of theirs, where streams
            without rows, idle ones and those that have ended don't count. 'watermark': NOW is the watermark, and rows
            from it on are not seen. ('timestamp', t): NOW is t, rows after t are not seen. ('epoch', n): as when epoch
            n was published.
    Raises:
        QueryError: the epoch is not kept.
    """
    published = snapshot.published
    if as_of is None:
        return Moment(now_of(published, streams), None, published.epoch, progress_of(published, streams))
    if as_of == "watermark":
        progress = progress_of(published, streams)
        if progress >= FOREVER:
            return Moment(now_of(published, streams), None, published.epoch, progress)
        return Moment(progress if progress > NEVER else None, progress - 1, published.epoch, progress)
    kind, value = as_of
    if kind == "timestamp":
        return Moment(value, value, published.epoch, progress_of(published, streams))
    record = record_of(pond, published, value)
    return Moment(now_of(record, streams), None, value, progress_of(record, streams))


def record_of(pond: str, published: Published, epoch: int) -> Published:
    """The publish record of an epoch. Raises: QueryError when it is not kept."""
    if epoch == published.epoch:
        return published
    if epoch == 0:
        return Published()
    if epoch < 0 or epoch > published.epoch or not os.path.exists(published_path(pond, epoch)):
        raise QueryError(f"epoch {epoch} is not kept; the last one is {published.epoch}")
    return read_published(pond, epoch)


#: What a query reads side by side: streams, and unions of streams.
Inputs = Sequence[StreamDefinition | Sequence[StreamDefinition]]


def _states(published: Published, inputs: Inputs) -> list[tuple[StreamProgress, bool]]:
    """Progress of the inputs that have rows, and whether they are silent or have ended; a union's high is its NOW."""
    found = []
    for each in inputs:
        streams = [each] if isinstance(each, StreamDefinition) else list(each)
        fed = [(s, published.progress.get(str(s.id), StreamProgress())) for s in streams]
        states = [replace(p, idle=p.ended or _is_silent(published, s, p)) for s, p in fed]
        heard = [p for p in states if p.high > NEVER]
        if not heard:
            continue
        if isinstance(each, StreamDefinition):
            found.append((heard[0], heard[0].idle))
            continue
        known = published.progress.get(union_key([s.id for s in streams]), StreamProgress())
        bound = max(known.bound, meld(states).bound)
        found.append((StreamProgress(bound, latest(heard)), all(p.idle for p in heard)))
    return found


def _is_silent(published: Published, stream: StreamDefinition, state: StreamProgress) -> bool:
    idle = stream.options.idle
    return idle is not None and all(published.clock - p.seen > idle for p in state.partitions.values())


def now_of(published: Published, inputs: Inputs) -> int | None:
    """The largest event time admitted; of several streams the least of those that go on; None while there is no row."""
    states = _states(published, inputs)
    awake = [p.high for p, idle in states if not idle]
    return min(awake) if awake else max((p.high for p, _ in states), default=None)


def progress_of(published: Published, inputs: Inputs) -> int:
    """The announced progress; of several streams the least of those not idle."""
    states = _states(published, inputs)
    awake = [p.bound for p, idle in states if not idle]
    return min(awake) if awake else max((p.bound for p, _ in states), default=NEVER)


def stretch_of(archives: Archives, view: View, span: Span, moment: Moment) -> Stretch:
    """The stretch of a stream that a window covers at a moment; `NOTHING` while NOW is not known."""
    if moment.now is None:
        return NOTHING
    limit = moment.now if moment.seen is None else min(moment.now, moment.seen)

    def back(edge: Edge) -> tuple[int, int] | None:
        return None if edge.rows is None else last_rows(archives, view, edge.rows, limit, moment.epoch)

    return between(span, moment, back(span.begin), back(span.end))


def between(span: Span, moment: Moment, first: tuple[int, int] | None, until: tuple[int, int] | None) -> Stretch:
    """The stretch of a window at a moment where NOW is known.

    Arguments:
        first, until: of an edge by rows, the (event time, id) of the first of so many last rows; None: there are not
            so many.
    """
    assert moment.now is not None
    first_id = until_id = None
    begin, end = span.begin.begins(moment.now), span.end.ends(moment.now)
    if end is None and until is None:
        return NOTHING
    if until is not None:
        end, until_id = until
    elif moment.seen is not None:
        end = moment.seen if end is None else min(end, moment.seen)
    if first is not None:
        begin, first_id = first
    empty = begin is not None and end is not None and begin > end
    return NOTHING if empty else Stretch(begin, end, first_id, until_id)


def last_rows(archives: Archives, view: View, count: int, limit: int, epoch: int) -> tuple[int, int] | None:
    """(event time, _id) of the first of the last `count` rows of a stream up to event time `limit`, in total order.

    Only rows of epochs up to `epoch` count. None: there are not so many, so that all belong.
    """
    if count <= 0:
        return FOREVER, 0
    key = ("rows", count, limit, epoch)
    if key not in view.memo:
        if len(view.memo) > 1000:
            view.memo.clear()
        view.memo[key] = _last_rows(archives, view, count, limit, epoch)
    found: tuple[int, int] | None = view.memo[key]
    return found


def _last_rows(archives: Archives, view: View, count: int, limit: int, epoch: int) -> tuple[int, int] | None:
    parts: list[tuple[Ints, Ints]] = []
    floor = max(view.horizon, view.retained)
    for block in view.blocks:
        if block.low > limit or block.high < floor:
            continue
        times, ids = block.times, block.ids
        low, high = np.searchsorted(times, floor, "left"), np.searchsorted(times, limit, "right")
        times, ids = times[low:high], ids[low:high]
        if block.last_epoch > epoch:
            seen = block.epochs[low:high] <= epoch
            times, ids = times[seen], ids[seen]
        if len(times):
            parts.append((times, ids))
    held = sum(len(t) for t, _ in parts)
    if held >= count:
        return _from_end(parts, count)
    if view.horizon <= NEVER:
        return None
    return _archived(archives, view, count - held, min(limit, view.horizon - 1), epoch)


def _from_end(parts: list[tuple[Ints, Ints]], count: int) -> tuple[int, int]:
    """(time, id) of the row with exactly `count` rows from it to the end; there are so many."""
    # Rows from `whole` on certainly belong: they are counted and not looked at.
    starts = sorted({int(t[0]) for t, _ in parts})
    at = bisect_left(starts, True, key=lambda s: _count_from(parts, s) < count)
    if at < len(starts):
        count -= _count_from(parts, starts[at])
        cuts = [int(np.searchsorted(t, starts[at])) for t, _ in parts]
        parts = [(t[:c], i[:c]) for (t, i), c in zip(parts, cuts, strict=True) if c]
    # Of any part only the last `count` rows can belong, and none below the `count`-th last of another part.
    least = max((int(t[-count]) for t, _ in parts if len(t) >= count), default=NEVER)
    cuts = [max(len(t) - count, int(np.searchsorted(t, least))) for t, _ in parts]
    parts = [(t[c:], i[c:]) for (t, i), c in zip(parts, cuts, strict=True)]
    times, ids = np.concatenate([t for t, _ in parts]), np.concatenate([i for _, i in parts])
    time = int(np.partition(times, len(times) - count)[len(times) - count])
    later = int(np.count_nonzero(times > time))
    ties = np.sort(ids[times == time])
    return time, int(ties[len(ties) - (count - later)])


def _count_from(parts: Sequence[tuple[Ints, Ints]], time: int) -> int:
    return sum(len(t) - int(np.searchsorted(t, time)) for t, _ in parts)


def _archived(archives: Archives, view: View, count: int, limit: int, epoch: int) -> tuple[int, int] | None:
    """As `last_rows`, among the rows behind the horizon."""
    stream = view.stream
    time = stream.options.time
    low = None if view.retained <= NEVER else view.retained
    times, ids = np.empty(0, np.int64), np.empty(0, np.int64)
    with archives.pinned():
        reader = ArchiveReader(archives.path, stream, ())
        segments = segments_in(archive_segments(archives.storage, view), Range(low, limit + 1, epoch))
        for segment in sorted(segments, key=lambda s: -s.high):
            if low is not None and segment.high < low:
                break
            rows = reader.table([whole_files([segment], Range(low, limit + 1, epoch))])
            times = np.concatenate([times, event_times(rows, time)])
            ids = np.concatenate([ids, rows["_id"].to_numpy()])
            if len(times) >= count:
                # What lies below the `count`-th last so far cannot belong any more.
                low = int(np.partition(times, len(times) - count)[len(times) - count])
                kept = times >= low
                times, ids = times[kept], ids[kept]
    if len(times) < count:
        return None
    order = np.lexsort((ids, times))
    first = order[len(order) - count]
    return int(times[first]), int(ids[first])
