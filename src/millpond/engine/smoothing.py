"""Smoothing of window ends: the answers of a window with very many groups are spread over epochs (Li 2008, 8.3).

Groups lie in slots by their hash, as in the low level's table. Windows that progress passes in one epoch wait together
as `Held`; `flush='slow'` sweeps over the slots as the clock goes on, so that the last slot is out when `flush_delay` is
over; `flush='lazy'` does not sweep. Either way nothing waits longer than `flush_delay`, nor longer than until so many
further windows have ended (`flush_windows`, the thesis's m), nor beyond the end of the stream. An answer is made when
it goes out: late rows that came meanwhile are in it, and it is revision 0.

`plan` is a function of clock readings and bounds that stand in manifests: every shard, and every replay, decides alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa

from millpond.engine.advance import Advanced, advanced, numbers
from millpond.engine.evaluation import Evaluation, State, end_pane
from millpond.engine.records import Held, QueryProgress
from millpond.progress import FOREVER, NEVER
from millpond.synopses import PanesSpec, query_table
from millpond.synopses.finish import identity
from millpond.types import BoundQuery, QueryOptions
from millpond.windows import last_end_until
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
    query: BoundQuery, options: QueryOptions, held: Sequence[Held], closed: int, bound: int, clock: int
) -> tuple[tuple[Held, ...], list[Portion]]:
    """What goes out in an epoch, and what waits after it.

    Arguments:
        held: what waited before. closed, bound: progress of the query before and after the epoch (microseconds).
        clock: the epoch's clock reading.

    >>> from millpond.types import Window
    >>> query = BoundQuery("s", Window(10, 10, 0, "ts"), ())
    >>> plan(query, QueryOptions(flush="slow", flush_delay=64), [], 0, 10, 1000)
    ((Held(after=0, until=10, since=1000, place=0),), [])
    >>> plan(query, QueryOptions(flush="slow", flush_delay=64), [Held(0, 10, 1000, 0)], 10, 10, 1032)
    ((Held(after=0, until=10, since=1000, place=16),), [Portion(after=0, until=10, low=0, high=16)])
    """
    assert query.window is not None
    # Where progress moves on within a window, nothing has closed.
    ended = bound > closed and (bound >= FOREVER or last_end_until(query.window, bound) > closed)
    waiting = [*held, *([Held(closed, bound, clock)] if ended else [])]
    left: list[Held] = []
    portions: list[Portion] = []
    for each in waiting:
        overdue = (
            bound >= FOREVER
            or clock - each.since >= options.flush_delay
            or (each.until > NEVER and bound - each.until >= options.flush_windows * query.window.slide)
        )
        swept = SLOTS * (clock - each.since) // options.flush_delay if options.flush == "slow" else 0
        place = SLOTS if overdue else max(each.place, swept)
        if place > each.place:
            portions.append(Portion(each.after, each.until, each.place, place))
        if place < SLOTS:
            left.append(replace(each, place=place))
    return tuple(left), portions


def due(query: BoundQuery, options: QueryOptions, progress: QueryProgress, clock: int) -> bool:
    """Whether an epoch at `clock` would send out something that waits."""
    if not progress.held or query.window is None:
        return False
    return bool(plan(query, options, progress.held, progress.closed, progress.closed, clock)[1])


def smoothed(
    db: duckdb.DuckDBPyConnection,
    spec: PanesSpec,
    query: BoundQuery,
    options: QueryOptions,
    state: State,
    before: QueryProgress,
    revised: Advanced,
    bound: int,
    clock: int,
) -> Advanced:
    """An epoch of a query whose answers are spread.

    Arguments:
        state: pane rows of everything that has come.
        revised: what the epoch gives for windows that had closed before it, with those that wait among them.
    """
    left, portions = plan(query, options, before.held, before.closed, bound, clock)
    changed = _without_waiting(db, query, revised.answers, before.held)
    task = Evaluation(db, spec, query, options, state, lambda low, high: None)
    fresh = []
    for portion in portions:
        sliced = replace(task, state=_Slots(db, spec, state, portion))
        fresh.append(
            sliced.close(
                end_pane(spec, task.window, portion.after), end_pane(spec, task.window, portion.until), None, False
            )
        )
    result = advanced(query, before, [changed], fresh, bound, revised.progress.first, 0)
    progress = replace(result.progress, too_late=revised.progress.too_late, held=left)
    given = None if changed is None or not changed.num_rows else numbers(query, changed)
    return replace(result, progress=progress, revisions=given)


class _Slots:
    """A state of which only the groups of some slots are seen."""

    def __init__(self, db: duckdb.DuckDBPyConnection, spec: PanesSpec, state: State, portion: Portion) -> None:
        self._db, self._spec, self._state, self._portion = db, spec, state, portion
        self.delta = state.delta  # no window that closes is looked at by what is new

    def before(self, low: int) -> pa.Table:
        """Pane rows from pane `low` on, without the delta."""
        return self._seen(self._state.before(low))

    def after(self, low: int) -> pa.Table:
        """Pane rows from pane `low` on, with the delta."""
        return self._seen(self._state.after(low))

    def _seen(self, rows: pa.Table) -> pa.Table:
        low, high = self._portion.low, self._portion.high
        if not rows.num_rows or (low, high) == (0, SLOTS):
            return rows
        slot = slots_of(self._db, rows, self._spec.key_names)
        return rows.filter(pa.array((slot >= low) & (slot < high)))


def slots_of(db: duckdb.DuckDBPyConnection, rows: pa.Table, keys: Sequence[str]) -> Ints:
    """The slot of the group of each row; by the text of its keys, which is the same in pane rows and in answers."""
    # Shards take the low bits of a hash.
    texts = ", ".join(f"CAST({k} AS VARCHAR)" for k in keys)
    sql = f"SELECT ((hash({texts}) >> 40) % {SLOTS})::BIGINT AS s FROM t"
    slots: Ints = query_table(db, sql, t=rows.select(list(keys)))["s"].to_numpy()
    return slots


def _without_waiting(
    db: duckdb.DuckDBPyConnection, query: BoundQuery, changed: pa.Table | None, held: Sequence[Held]
) -> pa.Table | None:
    """Revisions without those of answers that have not gone out yet: these will have the late rows in them."""
    if changed is None or not changed.num_rows or not held:
        return changed
    end = changed["window_end"].cast(pa.int64()).to_numpy()
    slot = slots_of(db, changed, identity(query))
    kept = np.ones(len(end), bool)
    for each in held:
        kept &= ~((end > each.after) & (end <= each.until) & (slot >= each.place))
    return changed.filter(pa.array(kept))
