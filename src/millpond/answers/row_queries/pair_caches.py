"""Matching pairs of join selections, kept between invocations ('partial' materialisation) and caught up by epochs.

A pair is kept as times and ids of its constituents, never as rows. New left rows meet all right rows, old left rows
meet new right rows; an invocation is then a slice by earliest time and a filter by each side's window.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.row_queries.join_keys import key_values
from millpond.answers.row_queries.joins import Places, answer_of, join_columns, satisfying
from millpond.answers.row_queries.pairing import Index, mirrored
from millpond.answers.row_queries.stretch import Matching, Stretch
from millpond.answers.row_queries.trees import FAULTS
from millpond.synopses.blocks import event_times
from millpond.synopses.partners.keys import numbers
from millpond.synopses.partners.orders import Ints
from millpond.types import RowQuery, StreamDefinition, columns_read

#: Bytes of a kept pair, and of a kept row of a side.
PAIR, ROW = 6 * 8, 6 * 8

#: Pairs that are made at a time when the cache catches up.
_AT_ONCE = 262_144

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class SideView:
    """One side of a join in the hot store.

    blocks: those of one view; matching: the side's own matching rows of a block, of all epochs up to `epoch`.
    horizon: rows with an event time before it may be missing from the blocks; None: none are.
    """

    blocks: Sequence[Any]
    matching: Matching
    epoch: int
    horizon: int | None = None


@dataclass
class _Rows:
    """The matching rows of one side met so far: arrays by row number, and the index of their keys."""

    index: Index
    times: Ints = field(default_factory=lambda: _NONE)
    ids: Ints = field(default_factory=lambda: _NONE)
    epochs: Ints = field(default_factory=lambda: _NONE)
    words: pa.Array = field(default_factory=lambda: pa.array([], pa.large_binary()))
    epoch: int = 0
    horizon: int | None = None
    seen: dict[int, Any] = field(default_factory=dict)


@dataclass
class _Cache:
    """The pairs of one query, ordered by (earliest time, left id, right id)."""

    selection: RowQuery
    rows: tuple[_Rows, _Rows] = field(init=False)
    times: tuple[Ints, Ints] = (_NONE, _NONE)
    ids: tuple[Ints, Ints] = (_NONE, _NONE)
    epochs: Ints = field(default_factory=lambda: _NONE)
    earliest: Ints = field(default_factory=lambda: _NONE)
    lock: threading.Lock = field(default_factory=threading.Lock)
    hopeless: bool = False

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all rows and pairs."""
        nothing = Index.of(next((f.operator for f in self.selection.factors), "="), _NONE)
        self.rows = (_Rows(nothing), _Rows(nothing))
        self.times = self.ids = (_NONE, _NONE)
        self.epochs = self.earliest = _NONE

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return PAIR * len(self.earliest) + sum(ROW * len(r.times) + int(r.words.nbytes) for r in self.rows)


class PairCaches:
    """The kept pairs of a pond's join selections. Thread-safe; bounded by dropping what was used least recently.

    Arguments:
        budget: bytes that all of them together may hold. A query whose pairs need more than half of it keeps none.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._caches: OrderedDict[Hashable, _Cache] = OrderedDict()
        self._lock = threading.Lock()

    def answer(
        self,
        key: Hashable,
        selection: RowQuery,
        streams: tuple[StreamDefinition, StreamDefinition],
        sides: tuple[SideView, SideView],
        stretches: tuple[Stretch, Stretch],
        most: int = 20_000_000,
    ) -> pa.Table | None:
        """The selection's answer over a window of each stream.

        Arguments:
            key: who asks, e.g. the query's id.
            sides: of views of one publish record. stretches: the windows.

        Returns:
            The answer, as of `joins.join_rows`; None when pairs cannot serve: a window reaches behind a horizon, there
            is no join factor, or the query has too many pairs to keep.

        Raises:
            QueryError: as of `joins.join_rows`.
        """
        if any(_behind(s, side.horizon) for s, side in zip(stretches, sides, strict=True)):
            return None
        cache = self._cache(key, selection)
        with cache.lock:
            if not self._current(cache, streams, sides):
                return None
            times, ids = _chosen(cache, sides, stretches)
        self._shrink(key)
        tables, places = [], []
        for number in (0, 1):
            found = fetch(sides[number].blocks, times[number], ids[number], join_columns(selection, streams, number))
            tables.append(found[0])
            places.append(found[1])
        return answer_of(selection, streams, tables, Places(dict(enumerate(places))), most)

    def refresh(
        self,
        key: Hashable,
        selection: RowQuery,
        streams: tuple[StreamDefinition, StreamDefinition],
        sides: tuple[SideView, SideView],
    ) -> bool:
        """Catch up without answering, e.g. after a publish. Returns whether pairs are kept."""
        cache = self._cache(key, selection)
        with cache.lock:
            kept = self._current(cache, streams, sides)
        self._shrink(key)
        return kept

    def forget(self, key: Hashable) -> None:
        """Drop what is kept for one query."""
        with self._lock:
            self._caches.pop(key, None)

    @property
    def nbytes(self) -> int:
        """Bytes that the pairs and rows hold."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[Hashable, int]:
        """Bytes by key."""
        with self._lock:
            return {k: c.nbytes for k, c in self._caches.items()}

    def pairs(self, key: Hashable) -> int | None:
        """How many pairs are kept for a query; None: nothing is."""
        with self._lock:
            cache = self._caches.get(key)
            return None if cache is None or cache.hopeless else len(cache.earliest)

    def _cache(self, key: Hashable, selection: RowQuery) -> _Cache:
        with self._lock:
            cache = self._caches.get(key)
            if cache is None or cache.selection != selection:
                cache = self._caches[key] = _Cache(selection)
            self._caches.move_to_end(key)
            return cache

    def _current(
        self, cache: _Cache, streams: tuple[StreamDefinition, StreamDefinition], sides: tuple[SideView, SideView]
    ) -> bool:
        """Catch up with the views. Returns False when pairs cannot be kept."""
        if cache.hopeless:
            return False
        try:
            if _catch_up(cache, streams, sides, self.budget // 2):
                return True
        except FAULTS:  # the rows of a window tell what is wrong, if it concerns them
            pass
        cache.clear()
        cache.hopeless = True
        return False

    def _shrink(self, key: Hashable) -> None:
        with self._lock:
            total = sum(c.nbytes for c in self._caches.values())
            for other in [k for k in self._caches if k != key]:
                if total <= self.budget:
                    break
                total -= self._caches.pop(other).nbytes


def _behind(stretch: Stretch, horizon: int | None) -> bool:
    return horizon is not None and (stretch.begin is None or stretch.begin < horizon)


def _further_back(met: int | None, horizon: int | None) -> bool:
    """Whether the blocks hold older rows than those that were met."""
    return met is not None and (horizon is None or horizon < met)


def _chosen(
    cache: _Cache, sides: tuple[SideView, SideView], stretches: tuple[Stretch, Stretch]
) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Times and ids of the pairs in both windows."""
    begins, ends = [s.begin for s in stretches], [s.end for s in stretches]
    low, high = 0, len(cache.earliest)
    if all(b is not None for b in begins):
        low = int(np.searchsorted(cache.earliest, min(b for b in begins if b is not None)))
    bounds = [e for e in ends if e is not None]
    if bounds:
        high = int(np.searchsorted(cache.earliest, min(bounds), "right"))
    part = slice(low, max(low, high))
    keep = np.ones(part.stop - part.start, bool)
    for number in (0, 1):
        keep &= stretches[number].mask(cache.times[number][part], cache.ids[number][part])
    epoch = max(s.epoch for s in sides)
    if any(r.epoch > s.epoch for r, s in zip(cache.rows, sides, strict=True)):
        keep &= cache.epochs[part] <= epoch  # an older publish record than the one that was caught up to
    times = cache.times[0][part][keep], cache.times[1][part][keep]
    return times, (cache.ids[0][part][keep], cache.ids[1][part][keep])


def _catch_up(
    cache: _Cache,
    streams: tuple[StreamDefinition, StreamDefinition],
    sides: tuple[SideView, SideView],
    budget: int,
) -> bool:
    """Meet the rows of epochs not met yet. Returns False when pairs cannot be kept."""
    if not cache.selection.factors:
        return False
    join = cache.selection.factors[0]
    if join.kind == "text" and join.operator != "=":
        return False  # ranks of words change with every new word
    if any(_further_back(r.horizon, s.horizon) for r, s in zip(cache.rows, sides, strict=True)):
        cache.clear()
    _drop_old(cache, sides)
    new = [_new_rows(cache.rows[i], streams, sides[i], cache.selection, i) for i in (0, 1)]
    tables = [t for t in new if t is not None]
    if not tables:
        return True
    if cache.nbytes + ROW * sum(t.num_rows for t in tables) > budget:
        return False
    old_left = cache.rows[0].index
    fresh = [_take_in(cache, streams[number], number, new[number]) for number in (0, 1)]
    # New left x all right, then old left x new right; by now the index of the right side holds its new rows.
    probes = [
        (fresh[0], join.operator, cache.rows[1].index, False),
        (fresh[1], mirrored(join.operator), old_left, True),
    ]
    found: list[tuple[Ints, Ints]] = []
    room = (budget - cache.nbytes) // PAIR
    for (numbers_of, own), operator, index, turned in probes:
        matches = index.partners(numbers_of, operator)
        if cache.selection.query.where is None and int(matches.counts().sum()) > room:
            return False
        for at, to in matches.pieces(_AT_ONCE):
            rows = (to, own[at]) if turned else (own[at], to)
            if cache.selection.query.where is not None:
                rows = _filtered(cache, streams, sides, rows)
            room -= len(rows[0])
            if room < 0:
                return False
            if len(rows[0]):
                found.append(rows)
    if found:
        _add(cache, np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found]))
    return True


def _new_rows(
    rows: _Rows,
    streams: tuple[StreamDefinition, StreamDefinition],
    side: SideView,
    selection: RowQuery,
    number: int,
) -> pa.Table | None:
    """The matching rows of epochs not met yet: what the join factor reads, event time, `_id`, `_epoch`."""
    if side.epoch <= rows.epoch:
        return None
    stream = streams[number]
    join = selection.factors[0]
    factor = (join.left, join.right)[number]
    names = list(dict.fromkeys([*factor.columns, stream.options.time, "_id", "_epoch"]))
    tables = []
    seen: dict[int, Any] = {}
    for block in side.blocks:
        known = rows.seen.get(id(block))
        seen[id(block)] = weakref.ref(block)
        if (known is not None and known() is block) or not len(block.times):
            continue
        epochs = np.asarray(block.rows["_epoch"].to_numpy(), np.int64)
        fresh = (epochs > rows.epoch) & (epochs <= side.epoch)
        if side.horizon is not None:
            fresh &= block.times >= side.horizon
        at = np.flatnonzero(fresh)
        if not len(at):
            continue
        found = np.asarray(side.matching(block, int(at[0]), int(at[-1]) + 1), np.int64)
        found = found[fresh[found]]
        if len(found):
            tables.append(block.rows.select(names).take(pa.array(found)))
    rows.seen, rows.epoch, rows.horizon = seen, side.epoch, side.horizon
    return pa.concat_tables(tables) if tables else None


def _take_in(cache: _Cache, stream: StreamDefinition, number: int, table: pa.Table | None) -> tuple[Ints, Ints]:
    """Add new rows to a side. Returns the numbers of their keys, ascending, and which rows these are."""
    if table is None:
        return _NONE, _NONE
    join, rows = cache.selection.factors[0], cache.rows[number]
    values = key_values(stream, table, (join.left, join.right)[number], join.kind)
    first = len(rows.times)
    rows.times = np.concatenate([rows.times, event_times(table, stream.options.time)])
    rows.ids = np.concatenate([rows.ids, np.asarray(table["_id"].to_numpy(), np.int64)])
    rows.epochs = np.concatenate([rows.epochs, np.asarray(table["_epoch"].to_numpy(), np.int64)])
    if join.kind == "text":
        keys, some = _words(cache, values)
    else:
        (keys,), (some,) = numbers(values)
    at = np.flatnonzero(some)
    at = at[np.argsort(keys[at], kind="stable")]
    rows.index = rows.index.merged(Index.of(join.operator, keys[at], at + first))
    return keys[at], at + first


def _words(cache: _Cache, values: pa.Array) -> tuple[Ints, Any]:
    """Numbers of words, the same for both sides; new words get new numbers."""
    values = values.cast(pa.large_binary())
    known = cache.rows[0].words
    strange = pc.unique(values.drop_null())
    strange = strange.filter(pc.is_null(pc.index_in(strange, value_set=known))) if len(known) else strange
    if len(strange):
        known = cache.rows[0].words = pa.concat_arrays([known, strange])
    numbers_of = pc.index_in(values, value_set=known)
    some = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)
    return np.asarray(numbers_of.fill_null(0).to_numpy(zero_copy_only=False), np.int64), some


def _filtered(
    cache: _Cache,
    streams: tuple[StreamDefinition, StreamDefinition],
    sides: tuple[SideView, SideView],
    pairs: tuple[Ints, Ints],
) -> tuple[Ints, Ints]:
    """The pairs on which the rest of the condition holds."""
    where = cache.selection.query.where
    if where is None or not len(pairs[0]):
        return pairs
    tables, places = [], []
    read = columns_read(where)
    for number in (0, 1):
        rows, time = cache.rows[number], streams[number].options.time
        columns = [c.name for c in streams[number].all_columns if f"{number}.{c.name}" in read]
        names = list(dict.fromkeys([*columns, time]))
        wanted = rows.times[pairs[number]], rows.ids[pairs[number]]
        table, at = fetch(sides[number].blocks, *wanted, names)
        tables.append(table)
        places.append(at)
    keep = satisfying(where, streams, tables, Places(dict(enumerate(places))))
    return pairs[0][keep], pairs[1][keep]


def _add(cache: _Cache, left: Ints, right: Ints) -> None:
    rows = cache.rows
    times = rows[0].times[left], rows[1].times[right]
    ids = rows[0].ids[left], rows[1].ids[right]
    earliest = np.minimum(*times)
    order = np.lexsort((ids[1], ids[0], earliest))
    all_times = [np.concatenate([cache.times[i], times[i][order]]) for i in (0, 1)]
    all_ids = [np.concatenate([cache.ids[i], ids[i][order]]) for i in (0, 1)]
    epochs = np.concatenate([cache.epochs, np.maximum(rows[0].epochs[left], rows[1].epochs[right])[order]])
    before = cache.earliest
    cache.earliest = np.concatenate([before, earliest[order]])
    # Only pairs behind the first new one can change places.
    cut = int(np.searchsorted(before, cache.earliest[len(before)]))
    if cut < len(before):
        order = cut + np.lexsort((all_ids[1][cut:], all_ids[0][cut:], cache.earliest[cut:]))
        for column in (*all_times, *all_ids, epochs, cache.earliest):
            column[cut:] = column[order]
    cache.times, cache.ids, cache.epochs = (all_times[0], all_times[1]), (all_ids[0], all_ids[1]), epochs


def _drop_old(cache: _Cache, sides: tuple[SideView, SideView]) -> None:
    """Forget rows behind the horizon, and their pairs, when they are more than an eighth of all."""
    for number in (0, 1):
        horizon, rows = sides[number].horizon, cache.rows[number]
        if horizon is None or not len(rows.times):
            continue
        keep = rows.times >= horizon
        if int(keep.sum()) * 8 > len(keep) * 7:
            continue
        rows.index = rows.index.only(keep)
        rows.times, rows.ids, rows.epochs = rows.times[keep], rows.ids[keep], rows.epochs[keep]
        kept = cache.times[number] >= horizon
        cache.times = cache.times[0][kept], cache.times[1][kept]
        cache.ids = cache.ids[0][kept], cache.ids[1][kept]
        cache.epochs, cache.earliest = cache.epochs[kept], cache.earliest[kept]


def fetch(blocks: Sequence[Any], times: Ints, ids: Ints, columns: Sequence[str]) -> tuple[pa.Table | None, Ints]:
    """Rows by (event time, id): the distinct ones as a table in total order, and the place of each wanted one in it.

    Raises:
        KeyError: a row is in none of the blocks.
    """
    if not len(times):
        return None, _NONE
    order = np.lexsort((ids, times))
    sorted_times, sorted_ids = times[order], ids[order]
    new = np.r_[True, (sorted_times[1:] != sorted_times[:-1]) | (sorted_ids[1:] != sorted_ids[:-1])]
    places = np.empty(len(times), np.int64)
    places[order] = np.cumsum(new) - 1
    times, ids = sorted_times[new], sorted_ids[new]
    source = np.full(len(times), -1, np.int64)
    tables, total = [], 0
    for block in blocks:
        if not len(block.times):
            continue
        low, high = np.searchsorted(times, block.times[0]), np.searchsorted(times, block.times[-1], "right")
        wanted = np.flatnonzero(source[low:high] < 0) + low
        if not len(wanted):
            continue
        row = _locate(block.times, block.ids, times[wanted], ids[wanted])
        hit = row >= 0
        if not hit.any():
            continue
        wanted, row = wanted[hit], row[hit]
        source[wanted] = np.arange(total, total + len(row))
        total += len(row)
        tables.append(block.rows.select(list(columns)).take(pa.array(row)))
    if total < len(times):
        raise KeyError(f"{len(times) - total} rows are in no block of the view")
    table = pa.concat_tables(tables)
    if bool(np.any(source[1:] < source[:-1])):
        table = table.take(pa.array(source))
    return table, places


def _locate(block_times: Ints, block_ids: Ints, times: Ints, ids: Ints) -> Ints:
    """The row of each (time, id) in a block, -1 where it has none."""
    low, high = np.searchsorted(block_times, times), np.searchsorted(block_times, times, "right")
    end = high.copy()
    while True:
        open_ = low < high
        if not open_.any():
            break
        middle = (low + high) // 2
        less = open_ & (block_ids[np.minimum(middle, len(block_ids) - 1)] < ids)
        low = np.where(less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    found = low < end
    found &= block_ids[np.minimum(low, len(block_ids) - 1)] == ids
    return np.where(found, low, -1)
