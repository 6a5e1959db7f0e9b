"""Hot rows: the newest part of each stream's archive in memory, as immutable blocks that know their epochs.

Everything here is a cache of the archive. A reader takes a `Snapshot`: the views of all hot streams as of one publish
record, immutable, so that whatever epochs, compaction or eviction do meanwhile, it reads the rows of exactly the epochs
up to that record. A view's blocks hold every such row with event time >= its horizon; older ones are in the archive.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.archive.archive_files import row_schema
from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.retention import retained_from
from millpond.archive.storage import Storage
from millpond.manifests.records import Published, StreamCounts
from millpond.progress import NEVER, StreamProgress
from millpond.support.errors import MillpondError, QueryError
from millpond.synopses.blocks import Block
from millpond.synopses.partials.specs import casts_of
from millpond.synopses.predicate_index.block_files import read_blocks
from millpond.synopses.predicate_index.matches import Matches
from millpond.tables import Segment
from millpond.types import StreamDefinition

Ints = npt.NDArray[np.int64]

#: Rows from which a block stays as it is; smaller ones are merged with their neighbours in the order of arrival.
FULL_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class HotBlock:
    """A block in the store. `key` is never used twice in a process.

    epochs: the epoch that took each row in. matches: row sets that the map task made, or None. It may hold rows below
    the horizon of its view, which do not count: readers clip to it.
    """

    key: int
    block: Block
    epochs: Ints
    first_epoch: int
    last_epoch: int
    low: int
    high: int
    matches: Matches | None = None

    @property
    def rows(self) -> pa.Table:
        """The rows: the stream's columns, _id, _epoch, _bound; sorted by (event time, _id)."""
        return self.block.rows

    @property
    def times(self) -> Ints:
        """Event times, microseconds, ascending."""
        return self.block.times

    @property
    def ids(self) -> Ints:
        """Row ids, ascending among equal times."""
        return self.block.ids

    def __len__(self) -> int:
        return len(self.epochs)


@dataclass(frozen=True, eq=False)
class View:
    """One stream as of one publish record.

    blocks: in the order of their least time; they may overlap. rows: how many the stream has had. retained: rows below
    it are past the stream's retention and not seen. memo: what readers found out about this view.
    """

    stream: StreamDefinition
    epoch: int
    progress: StreamProgress
    horizon: int
    retained: int
    blocks: tuple[HotBlock, ...]
    rows: int = 0
    memo: dict[Any, Any] = field(default_factory=dict)

    @property
    def high(self) -> int:
        """The largest event time admitted; NEVER while there is none."""
        return self.progress.high


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Hot streams by id, all as of one publish record."""

    published: Published
    views: dict[int, View]


@dataclass
class _Hot:
    """The store's own state of one stream: blocks in the order of arrival."""

    stream: StreamDefinition
    epoch: int = 0
    rows: int = 0
    horizon: int = NEVER
    blocks: list[HotBlock] = field(default_factory=list)
    view: View | None = None

    @property
    def nbytes(self) -> int:
        return sum(b.block.nbytes for b in self.blocks)


class HotStore:
    """The hot rows of a pond's streams.

    Arguments:
        archives: of the open pond.
        hot_bytes: what blocks and their indexes may take together; older rows are read from the archive.
        dropped: told the keys of blocks that no new view has.
    """

    def __init__(self, archives: Archives, hot_bytes: int, dropped: Callable[[set[int]], None] | None = None) -> None:
        self.archives, self.hot_bytes = archives, hot_bytes
        self._dropped = dropped
        self._lock = threading.Lock()
        self._streams: dict[int, _Hot] = {}
        self._keys = itertools.count(1)
        self._snapshot = Snapshot(Published(epoch=-1), {})
        self._thread: threading.Thread | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks with their indexes, about."""
        return sum(b.block.nbytes for v in self._snapshot.views.values() for b in v.blocks)

    def snapshot(self, streams: Iterable[int] = ()) -> Snapshot:
        """The newest publish record with the views of `streams` (and of all that were asked for before).

        Rows that are not loaded yet are loaded now, so that whoever has seen an epoch published sees its rows.
        Streams that do not exist any more have no view.
        """
        current = self._snapshot
        wanted = [s for s in streams if s not in current.views]
        if not wanted and current.published is self.archives.published:
            return current
        return self.refresh(wanted)

    def refresh(self, streams: Iterable[int] = ()) -> Snapshot:
        """Bring all views to the newest publish record; `streams` become hot with it."""
        with self._lock:
            for stream in streams:
                definition = self.archives.catalog.streams.get(stream)
                if definition is not None and stream not in self._streams:
                    self._streams[stream] = _Hot(definition)
            return self._advance()

    def forget(self, stream: int) -> None:
        """Let go of a stream's rows, whose columns have changed; who asks next has them read again."""
        with self._lock:
            hot = self._streams.pop(stream, None)
            if hot is None:
                return
            views = {s: v for s, v in self._snapshot.views.items() if s != stream}
            self._snapshot = Snapshot(self._snapshot.published, views)
            if self._dropped is not None:
                self._dropped({b.key for b in hot.blocks})

    def start(self, then: Callable[[Snapshot], None] = lambda snapshot: None, streams: Collection[int] = ()) -> None:
        """Load `streams`, then refresh after every publish, in a thread of its own that ends with the pond.

        Arguments:
            then: called after each refresh.
        """
        self._thread = threading.Thread(target=self._follow, args=(then, streams), name="millpond-hot", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for the thread, after the pond has begun to close."""
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _follow(self, then: Callable[[Snapshot], None], streams: Collection[int]) -> None:
        with contextlib.suppress(MillpondError):  # the pond closes, or the engine has failed
            if streams:
                then(self.refresh(streams))
            while True:
                self.archives.epochs.wait(lambda: self.archives.published is not self._snapshot.published)
                then(self.refresh())

    def _advance(self) -> Snapshot:
        archives = self.archives
        before = {b.key for hot in self._streams.values() for b in hot.blocks}
        with archives.pinned():
            for stream in [s for s in self._streams if s not in archives.catalog.streams or s not in archives.streams]:
                del self._streams[stream]
            while True:
                published = archives.published
                segments = {s: archives.streams[s].archive.segments for s in self._streams if s in archives.streams}
                # The same record before and after: the files hold all its epochs, and retention took nothing that it
                # still retains.
                if archives.published is published:
                    break
            for stream, hot in self._streams.items():
                rows = published.counts.get(str(stream), StreamCounts()).rows
                if rows != hot.rows and stream in segments:
                    self._load(hot, published.epoch, segments[stream])
                hot.epoch, hot.rows = published.epoch, rows
        retained = {s: retained_from(h.stream, published) for s, h in self._streams.items()}
        for stream, hot in self._streams.items():
            if retained[stream] > NEVER:
                hot.blocks = [b for b in hot.blocks if b.high >= retained[stream]]
        self._shrink()
        views = {s: self._view(h, published, retained[s]) for s, h in self._streams.items()}
        self._snapshot = Snapshot(published, views)
        gone = before - {b.key for hot in self._streams.values() for b in hot.blocks}
        if gone and self._dropped is not None:
            self._dropped(gone)
        return self._snapshot

    def _view(self, hot: _Hot, published: Published, retained: int) -> View:
        progress = published.progress.get(str(hot.stream.id), StreamProgress())
        blocks = tuple(sorted(hot.blocks, key=lambda b: (b.low, b.key)))
        last = hot.view
        same = last is not None and last.blocks == blocks and (last.horizon, last.retained) == (hot.horizon, retained)
        memo = last.memo if same and last is not None and last.progress == progress else {}
        hot.view = View(hot.stream, published.epoch, progress, hot.horizon, retained, blocks, hot.rows, memo)
        return hot.view

    def _load(self, hot: _Hot, until: int, segments: Sequence[Segment]) -> None:
        """Add the rows of epochs hot.epoch < e <= until that are not behind the horizon."""
        new = [s for s in segments if s.last_epoch > hot.epoch and s.first_epoch <= until]
        # Newest first: what does not fit any more raises the horizon, and the rest is not read.
        for segment in sorted(new, key=lambda s: (-s.high, s.path)):
            if segment.high < hot.horizon:
                break
            for block, matches in self._read(hot, segment, until):
                self._add(hot, block, matches)
            if len(new) > 1:
                self._shrink()

    def _read(self, hot: _Hot, segment: Segment, until: int) -> list[tuple[Block, Matches | None]]:
        archives, stream = self.archives, hot.stream
        if segment.level == 0 and hot.epoch < segment.first_epoch and segment.last_epoch <= until:
            made = read_blocks(blocks_path(archives.path, stream, segment), casts_of(stream))
            whole = made is not None and sum(len(b) for b, _ in made) == segment.rows
            # A task that ran when the stream had other columns wrote those.
            if made and whole and made[0][0].rows.schema.equals(row_schema(stream)):
                return made
        low = None if hot.horizon <= NEVER else hot.horizon
        split = whole_files([segment], Range(low, None, until, hot.epoch + 1))
        rows = ArchiveReader(archives.path, stream).table([split])
        return [(b, None) for b in Block.build(rows, stream.options.time, casts_of(stream))]

    def _add(self, hot: _Hot, block: Block, matches: Matches | None) -> None:
        """Add a block; small ones are put together so that each is less than half the one before it."""
        if not len(block):
            return
        hot.blocks.append(self._hot_block(block, matches))
        if len(block) >= FULL_ROWS:
            return
        small = [b for b in hot.blocks if len(b) < FULL_ROWS]
        at, total = len(small) - 1, len(small[-1])
        while at > 0 and len(small[at - 1]) <= 2 * total:
            at -= 1
            total += len(small[at])
        merged = small[at:]
        if len(merged) < 2:
            return
        keys = {b.key for b in merged}
        tables = [b.rows for b in merged]
        hot.blocks = [b for b in hot.blocks if b.key not in keys]
        for built in Block.build(pa.concat_tables(tables), hot.stream.options.time, casts_of(hot.stream)):
            hot.blocks.append(self._hot_block(built, None))

    def _hot_block(self, block: Block, matches: Matches | None) -> HotBlock:
        epochs = np.asarray(block.rows["_epoch"].to_numpy(), np.int64)
        low, high = int(block.times[0]), int(block.times[-1])
        return HotBlock(next(self._keys), block, epochs, int(epochs.min()), int(epochs.max()), low, high, matches)

    def _shrink(self) -> None:
        """Raise horizons until the blocks fit; the stream that takes most gives first."""
        for attempt in itertools.count():
            sizes = {s: h.nbytes for s, h in self._streams.items()}
            total = sum(sizes.values())
            if total <= self.hot_bytes or not sizes:
                return
            hot = self._streams[max(sizes, key=lambda s: sizes[s])]
            # A little more than needed, so that the next epochs find room.
            excess = total - self.hot_bytes + self.hot_bytes // 8
            share = min(1.0, excess / max(1, sizes[hot.stream.id]))
            self._cut(hot, 1.0 if attempt >= 8 else share, attempt >= 2)

    def _cut(self, hot: _Hot, share: float, sharp: bool) -> None:
        """Raise the horizon of a stream above the oldest `share` of its rows.

        sharp: also blocks of which little is behind the horizon are cut.
        """
        times = np.sort(np.concatenate([b.times for b in hot.blocks]))
        at = min(len(times) - 1, int(len(times) * share))
        horizon = int(times[-1]) + 1 if share >= 1.0 else int(times[at])
        if horizon <= max(hot.horizon, int(times[0])):  # many rows of one instant: all of them go
            horizon = int(times[at]) + 1
        hot.horizon = max(hot.horizon, horizon)
        kept: list[HotBlock] = []
        for b in hot.blocks:
            if b.high < hot.horizon:
                continue
            dead = int(np.searchsorted(b.times, hot.horizon))
            if dead and (sharp or 4 * dead >= len(b)):
                for built in Block.build(b.rows.slice(dead), hot.stream.options.time, b.block.casts):
                    kept.append(self._hot_block(built, None))
            else:
                kept.append(b)
        hot.blocks = kept


def blocks_path(pond: str, stream: StreamDefinition, segment: Segment) -> str:
    """Where the map task that wrote a segment put its blocks."""
    name = os.path.splitext(segment.path)[0] + ".blocks"
    return os.path.join(pond, "hot", stream.folder, name)


class Outdated(Exception):
    """Retention has removed rows that a view still has: take a newer view."""


def archive_segments(storage: Storage, view: View) -> tuple[Segment, ...]:
    """The files of a view's stream, which hold all its rows; to be called and read inside of `storage.pinned()`.

    Raises:
        QueryError: the stream was dropped. Outdated: see there.
    """
    runtime = storage.streams.get(view.stream.id)
    if runtime is None:
        raise QueryError(f"stream '{view.stream.name}' was dropped")
    segments, removed = runtime.archive.snapshot
    if removed is not None and removed > view.retained:
        raise Outdated
    return segments
