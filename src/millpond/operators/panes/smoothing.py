"""Smoothing of window ends: the answers of a window with very many groups are spread over epochs (Li 2008, 8.3).

Groups lie in slots by their hash, as in the low level's table. Windows that progress passes in one epoch wait together
as `Held`; `flush='slow'` sweeps over the slots as the clock goes on, so that the last slot is out when `flush_delay` is
over; `flush='lazy'` does not sweep. Either way nothing waits longer than `flush_delay`, nor longer than until so many
further windows have ended (`flush_windows`, the thesis's m), nor beyond the end of the stream. An answer is made when
it goes out: late rows that came meanwhile are in it, and it is revision 0.

`plan` is a function of clock readings and bounds that stand in manifests: every shard, and every replay, decides alike.

While a window waits, its pane rows are kept in the order of their slots, so that what goes out in an epoch is a slice.
Such an index is a cache: it is good for the next epoch if nothing came late, and is made again from the state if not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millpond.operators.panes.state import PaneState
from millpond.operators.windowed.advance import Advanced, advanced, numbers
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import Evaluation, below
from millpond.operators.windowed.window_progress import Held, Windowed, WindowProgress
from millpond.progress import FOREVER, NEVER
from millpond.support.errors import Refusal
from millpond.synopses import PanesSpec, query_table
from millpond.synopses.finish import identity
from millpond.tables.shard_cache import Kept, ShardCache
from millpond.types import QueryOptions, StandingQuery, StreamDefinition, WindowedQuery, WindowQuery
from millpond.windows import have_ended, last_end_until
from millpond.windows.candidates import Ints

#: Slots that groups are spread over: a sweep takes so many epochs at most.
SLOTS = 32


@dataclass(frozen=True)
class Portion:
    """Answers that go out now: of the windows with after < end <= until, the groups in slots low <= slot < high."""

    after: int
    until: int
    low: int
    high: int


def plan(
    query: WindowQuery, options: QueryOptions, held: Sequence[Held], closed: int, bound: int, clock: int
) -> tuple[tuple[Held, ...], list[Portion]]:
    """What goes out in an epoch, and what waits after it.

    Arguments:
        held: what waited before. closed, bound: progress of the query before and after the epoch (microseconds).
        clock: the epoch's clock reading.

    >>> from millpond.types import Window
    >>> query = WindowQuery(stream="s", window=TimeWindow(10, 10), select=())
    >>> plan(query, QueryOptions(flush="slow", flush_delay=64), [], 0, 10, 1000)
    ((Held(after=0, until=10, since=1000, place=0),), [])
    >>> plan(query, QueryOptions(flush="slow", flush_delay=64), [Held(0, 10, 1000, 0)], 10, 10, 1032)
    ((Held(after=0, until=10, since=1000, place=16),), [Portion(after=0, until=10, low=0, high=16)])
    """
    # Where progress moves on within a window, nothing has closed.
    ended = bound > closed and (bound >= FOREVER or last_end_until(query.window, bound) > closed)
    waiting = [*held, *([Held(closed, bound, clock)] if ended else [])]
    left: list[Held] = []
    portions: list[Portion] = []
    for each in waiting:
        overdue = (
            bound >= FOREVER
            or clock - each.since >= options.flush_delay
            or (each.until > NEVER and have_ended(query.window, each.until, bound, options.flush_windows))
        )
        swept = SLOTS * (clock - each.since) // options.flush_delay if options.flush == "slow" else 0
        place = SLOTS if overdue else max(each.place, swept)
        if place > each.place:
            portions.append(Portion(each.after, each.until, each.place, place))
        if place < SLOTS:
            left.append(replace(each, place=place))
    return tuple(left), portions


def check_slots(query: WindowQuery, options: QueryOptions, streams: Sequence[StreamDefinition]) -> None:
    """Raises: Refusal for a window whose answers cannot go out one by one."""
    whole = query.distinct or query.limit is not None or bool(query.offset)
    marks = any(s.options.marks_by is not None for s in streams)
    reasons = {
        "spreads groups, and there is no GROUP BY": not query.keys,
        "does not go with LIMIT or DISTINCT, which need all groups of a window at once": whole,
        "does not go with the bounds of groups that marks_by gives": marks,
    }
    for reason, holds in reasons.items():
        if holds:
            raise Refusal(f"flush='{options.flush}' {reason}", "flush")


def due(query: StandingQuery, options: QueryOptions, progress: Windowed, clock: int) -> bool:
    """Whether an epoch at `clock` would send out something that waits."""
    if not progress.own.held or not isinstance(query, WindowQuery):
        return False
    return bool(plan(query, options, progress.own.held, progress.closed, progress.closed, clock)[1])


def smoothed(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    state: PaneState,
    closing: Closing[WindowQuery],
    revised: Advanced[WindowProgress],
    clock: int,
    user: str,
) -> Advanced[WindowProgress]:
    """An epoch of a query, `user`, whose answers are spread.

    Args:
        state: pane rows of everything that has come. revised: what the epoch gives for windows that had closed before
            it, with those that wait among them. clock: the epoch's clock reading.
    """
    query, before, high = closing.query, closing.before, closing.reached
    left, portions = plan(query, closing.options, before.own.held, before.closed, closing.until, clock)
    task = Evaluation(db, spec, query, closing.options, state, _none)
    ends = {task.until(h.until, high) for h in before.own.held}
    _keep_up(state, user, ends)
    changed = _without_waiting(db, query, revised.answers, before)
    fresh = []
    for portion in portions:
        closed, until = (task.until(end, high) for end in (portion.after, portion.until))
        rows = _rows_of(portion, state, user, task.closing_since(closed), until)
        fresh.append(task.close_over(rows, closed, until, None, False))
    result = advanced(replace(closing, groups=None), [changed], fresh, revised.progress.own.first)
    own = replace(result.progress.own, held=left)
    progress = replace(result.progress, too_late=revised.progress.too_late, owed=revised.progress.owed, own=own)
    given = None if changed is None or not changed.num_rows else numbers(query, changed)
    return replace(result, progress=progress, revisions=given)


@dataclass
class _Index:
    """Pane rows in the order of their slots; those of slot s lie from starts[s] to starts[s + 1].

    files: the state files that they are of.
    """

    rows: pa.Table
    starts: Ints
    files: dict[str, int]


#: By query, first pane and pane behind the last one.
_indexes: ShardCache[_Index] = ShardCache()


def _rows_of(portion: Portion, state: PaneState, user: str, low: int, until: int) -> pa.Table:
    """The pane rows low <= pane < until of the groups in a portion's slots, with this epoch's delta."""
    if (portion.low, portion.high) == (0, SLOTS):
        return below(state.after(low), until)
    index = _index_of(state, user, low, until)
    start, stop = int(index.starts[portion.low]), int(index.starts[portion.high])
    return index.rows.slice(start, stop - start)


def _index_of(state: PaneState, user: str, low: int, until: int) -> _Index:
    """The pane rows low <= pane < until with this epoch's delta, by slot."""
    kept = _indexes.get(state.version, state.owner, state.shard, user, low, until)
    if kept is not None and kept.epoch == state.version.epoch:
        return kept.value
    rows = below(state.after(low), until)
    slot = slots_of(state.db, rows, state.spec.key_names) if rows.num_rows else np.empty(0, np.int64)
    order = np.argsort(slot, kind="stable")
    starts = np.searchsorted(slot[order], np.arange(SLOTS + 1))
    index = _Index(rows.take(pa.array(order)), starts, state.files_named())
    _indexes.put(state.version, state.owner, state.shard, index, user, low, until)
    return index


def _keep_up(state: PaneState, user: str, waiting: Collection[int]) -> None:
    """Take the indexes of a query along into this epoch: those of windows that wait, and that nothing has touched.

    Arguments:
        waiting: behind which panes the windows end that wait.
    """
    here = state.version, state.owner, state.shard
    for part, kept in _indexes.parts(*here):
        whose, low, until = part
        if whose != user or (kept is not None and kept.epoch == state.version.epoch):
            continue  # an epoch that is repeated finds it as it was: it was not touched
        if kept is not None and until in waiting and _is_good(kept, state, low, until):
            _indexes.put(*here, replace(kept.value, files=state.files_named()), *part)
        else:
            _indexes.drop(*here, *part)


def _is_good(kept: Kept[_Index], state: PaneState, low: int, until: int) -> bool:
    """Whether an index of the epoch before holds what the state has now."""
    if kept.epoch != state.version.epoch - 1:
        return False
    if state.delta.num_rows:
        pane = state.delta["pane"].to_numpy()
        if ((pane >= low) & (pane < until)).any():
            return False
    return not state.rewrites(kept.value.files, low, kept.value.rows.schema)


def _none(low: int, high: int) -> None:
    """No revision number: first answers have none before them."""


def slots_of(db: duckdb.DuckDBPyConnection, rows: pa.Table, keys: Sequence[str]) -> Ints:
    """The slot of the group of each row; by the text of its keys, which is the same in pane rows and in answers."""
    # Shards take the low bits of a hash.
    texts = ", ".join(f"CAST({k} AS VARCHAR)" for k in keys)
    sql = f"SELECT ((hash({texts}) >> 40) % {SLOTS})::BIGINT AS s FROM t"
    slots: Ints = query_table(db, sql, t=rows.select(list(keys)))["s"].to_numpy()
    return slots


def _without_waiting(
    db: duckdb.DuckDBPyConnection, query: WindowedQuery, changed: pa.Table | None, before: Windowed
) -> pa.Table | None:
    """Revisions without those of answers that have not gone out yet: these will have the late rows in them."""
    if changed is None or not changed.num_rows or not before.own.held:
        return changed
    return changed.filter(pa.array(~wait(db, query, changed, before)))


def wait(
    db: duckdb.DuckDBPyConnection, query: WindowedQuery, answers: pa.Table, progress: Windowed
) -> NDArray[np.bool_]:
    """Which of some answers of windows that progress has passed have not gone out, when a query is so far."""
    end = answers["window_end"].cast(pa.int64()).to_numpy()
    slot = slots_of(db, answers, identity(query))
    waiting = np.zeros(len(end), bool)
    for each in progress.own.held:
        waiting |= (end > each.after) & (end <= each.until) & (slot >= each.place)
    return waiting
