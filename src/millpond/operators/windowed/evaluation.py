"""A query over the pane state of one shard: the answers of windows that close, and of closed ones that rows change.

Live epochs, back-fill, RESUME and ad hoc queries differ in what they show of the state, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.owed import Owed, owed_of
from millpond.operators.windowed.advance import ranges_known
from millpond.operators.windowed.group_bounds import Edges, GroupBounds, edges_of
from millpond.operators.windowed.window_progress import Windowed
from millpond.progress import FOREVER, NEVER
from millpond.support.distinct import distinct, is_among
from millpond.support.sql import quote
from millpond.synopses import PanesSpec, finish_windows, query_ordered
from millpond.synopses.finish import fold_pairs, fold_windows, identity
from millpond.synopses.gap_filling import Gaps, filled_ends, rules_of
from millpond.synopses.pane_partials import group_codes
from millpond.types import KindWindow, QueryOptions, RowWindowQuery, Window, WindowedQuery, WindowQuery
from millpond.windows import Cover, Rows, cover_of, last_end_until, late_pairs
from millpond.windows.candidates import Ints, Reach
from millpond.windows.pane_layout import FAR

#: Windows that one ungrouped query with empty='report' may report in one epoch.
EMPTY_LIMIT = 5_000_000


class State(Protocol):
    """State of a synopsis in one shard, before and after the rows of an epoch, the delta.

    `low` is what each kind tells its rows by: a pane, of others the instant from which on windows end.
    """

    delta: pa.Table

    def before(self, low: int) -> pa.Table:
        """What windows from `low` on need, without the delta."""
        ...

    def after(self, low: int) -> pa.Table:
        """The same with the delta."""
        ...


class Shown(State, Protocol):
    """A state whose delta can be exchanged."""

    def show(self, delta: pa.Table) -> None:
        """From now on the state is that before, and `delta`."""
        ...


def end_pane(spec: PanesSpec, window: Window, bound: int) -> int:
    """The last window end at or before `bound`, as a pane number."""
    if bound <= NEVER:
        return -FAR
    if isinstance(window, KindWindow):
        return spec.panes.pane(bound)
    return max(-FAR, min(FAR, spec.panes.pane(last_end_until(window, bound))))


def first_end(spec: PanesSpec, window: Window, rows: pa.Table, after: int) -> int | None:
    """The end (microseconds) of the first window behind pane `after` that holds a pane row; None if none does."""
    if not rows.num_rows:
        return None
    cover = cover_of(spec.panes, window)
    _, step, offset = cover.shape
    pane = pc.unique(rows["pane"]).to_numpy()
    end = _end_from(np.maximum(pane, after) + 1, step, offset)
    held = end <= cover.lasts(pane)
    return spec.panes.start(int(end[held].min())) if held.any() else None


def _end_from(pane: Ints, step: int, offset: int) -> Ints:
    """The first window end at or behind each pane number."""
    return offset - ((offset - pane) // step) * step


def _ends_between(start: int, stop: int, step: int) -> Ints:
    """Window ends from `start` on, below `stop`; ValueError when they are too many to report."""
    count = max(0, -(-(stop - start) // step))
    if count > EMPTY_LIMIT:
        raise ValueError(f"empty='report' would report {count} windows in one epoch; at most {EMPTY_LIMIT} are allowed")
    return start + np.arange(count, dtype=np.int64) * step


def earliest(*times: int | None) -> int | None:
    """The smallest of times of which any may be missing."""
    return min((t for t in times if t is not None), default=None)


def below(table: pa.Table, pane: int) -> pa.Table:
    """The rows of panes before `pane`."""
    if not table.num_rows:
        return table
    panes = table["pane"]
    return table if pc.max(panes).as_py() < pane else table.filter(pc.less(panes, pane))


def no_panes() -> pa.Table:
    """Pane rows of an ungrouped synopsis without any row; without components, since it has no types for them."""
    return pa.table({"pane": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})


@dataclass(frozen=True)
class Evaluation:
    """A query over a state of its synopsis.

    revisions: (low, high) -> revision numbers given so far to windows that end in that range: columns end, _k*,
        revision.
    """

    db: duckdb.DuckDBPyConnection
    spec: PanesSpec
    query: WindowQuery
    options: QueryOptions
    state: State
    revisions: Callable[[int, int], pa.Table | None]

    @property
    def window(self) -> Window:
        """The query's window, as it lies over panes."""
        return self.spec.window_of(self.query)

    @cached_property
    def cover(self) -> Cover:
        """How its windows lie over panes."""
        return cover_of(self.spec.panes, self.window)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Panes per window, panes per slide, an end as a pane number."""
        return self.cover.shape

    def until(self, bound: int, high: int) -> int:
        """How far progress `bound` closes windows, as a pane number.

        Arguments:
            high: the largest event time of the stream. Windows that grow go on without rows; when the stream has ended
                (`bound` is FOREVER) they are reported up to the first end behind the last row, and beside windows of a
                RANGE as long as these hold that row. Groups without a row are, up to the last window that holds it.
        """
        if bound >= FOREVER and self.gaps is not None and not self.reports_all:
            last = np.array([self.spec.panes.pane(high)])
            return -FAR if high <= NEVER else int(self.cover.lasts(last)[0])
        if bound >= FOREVER and self.cover.grows:
            bound = NEVER if high <= NEVER else self.cover.last_of(high)
        return end_pane(self.spec, self.window, bound)

    @property
    def reports_all(self) -> bool:
        """Whether every window from the first with data on has an answer, empty or not."""
        return self.options.empty == "report" and not self.query.keys and not self.ahead

    @property
    def known(self) -> int:
        """Panes before an end from which a row is known: of the window, and of those that a group is known for."""
        return (1 + ranges_known(self.query, self.options)) * self.shape[0]

    @cached_property
    def gaps(self) -> Gaps | None:
        """How windows without a row are answered, of groups that have had one; None: they are not."""
        if self.options.empty != "report":
            return None
        return Gaps(self.known, rules_of(self.query, self.options.fill))

    @property
    def reach(self) -> int | None:
        """Panes before an end in which a group must have a row to be reported; None: the window itself."""
        return self.known if self.gaps is not None and not self.reports_all else None

    def edges(
        self, progress: Windowed, bound: int, groups: GroupBounds | None, high: int, reached: int
    ) -> tuple[Edges, Edges]:
        """How far windows were closed, and are now, group by group; `high` and `reached`: see `until`."""
        before, _ = edges_of(progress.closed, bound, groups, progress.own.groups, lambda b: self.until(b, high))
        _, after = edges_of(progress.closed, bound, groups, progress.own.groups, lambda b: self.until(b, reached))
        return before, after

    @property
    def reaching(self) -> Reach:
        """How far rows reach, for `Rows.ends`: windows that grow end with their stretch, others can be filled."""
        if self.fills:
            return self.known
        return self.cover.lasts if self.cover.varies else self.reach

    def last_end(self, panes: Ints) -> Ints:
        """The last window ends that panes have a say in."""
        reach = self.reaching
        return reach(panes) if callable(reach) else panes + (reach or self.shape[0])

    @property
    def ahead(self) -> int:
        """How many panes ahead windows are filled from: 0 where they are not."""
        return self.known if self.gaps is not None and self.gaps.ahead else 0

    @property
    def fills(self) -> bool:
        """Whether windows without a row are answered from others."""
        return self.gaps is not None and bool(self.gaps.rules)

    def since(self, end: int) -> int:
        """The first pane that can have a say in the answer of a window that ends behind pane number `end`."""
        if self.cover.varies and not self.fills:
            return self.cover.since(end)
        return max(-FAR, end + 1 - self.known - self.shape[0])

    def close(
        self,
        closed: int,
        until: int,
        first: int | None,
        ended: bool,
        groups: tuple[Edges, Edges] | None = None,
    ) -> pa.Table | None:
        """Answers of the windows with closed < end <= until (pane numbers).

        Arguments:
            groups: the same two bounds where groups have their own; `closed` and `until` are then the outermost.
            first: the end of the first window with data. ended: the source has ended, nothing follows.
        """
        rows = below(self.state.after(self.closing_since(closed)), until)
        return self.close_over(rows, closed, until, first, ended, groups)

    def closing_since(self, closed: int) -> int:
        """The first pane that `close` looks at."""
        if self.cover.varies and not self.fills:
            return self.cover.since(closed)
        known = self.known
        return max(-FAR, closed + 1 - known - (0 if known == self.shape[0] else self.shape[0]))

    def close_over(
        self,
        rows: pa.Table,
        closed: int,
        until: int,
        first: int | None,
        ended: bool,
        groups: tuple[Edges, Edges] | None = None,
    ) -> pa.Table | None:
        """As `close`, from these pane rows alone: panes from `closing_since(closed)` on, before `until`."""
        if self.reports_all:
            return self._close_all(rows, closed, until, first, ended)
        if not rows.num_rows:
            return None
        after, before = (closed, until) if groups is None else (groups[0].of(rows), groups[1].of(rows))
        folded = fold_windows(self.db, self.spec, self.query, rows, after, before, self.gaps)
        return finish_windows(self.db, self.query, self.spec.time, folded, self.gaps) if folded.num_rows else None

    def _close_all(self, rows: pa.Table, closed: int, until: int, first: int | None, ended: bool) -> pa.Table | None:
        """Every window from the first with data up to `until`, empty or not."""
        if first is None:
            return None
        _, step, offset = self.shape
        low = max(closed, self.spec.panes.pane(first) - 1)
        if ended:  # the source has ended: nothing is empty beyond the last window with data
            last = [] if not rows.num_rows else self.cover.lasts(np.array([pc.max(rows["pane"]).as_py()])).tolist()
            until = max(last, default=low)
        start = offset - ((offset - (low + 1)) // step) * step
        return self._listed(rows, _ends_between(start, until + 1, step))

    def owed(
        self, rows: pa.Table, start: int, horizon: int, firsts: tuple[int | None, int | None], epoch: int
    ) -> tuple[Owed, ...]:
        """The windows with start < end <= horizon (pane numbers) that rows of an epoch lie in, as they are owed.

        Arguments:
            firsts: the end of the first window with data (microseconds), without and with the rows: where every window
                is reported, those between the two are owed, too.
        """
        if not rows.num_rows or start >= horizon:
            return ()
        _, step, offset = self.shape
        pane = distinct(rows["pane"].to_numpy())
        low = _end_from(np.maximum(pane - self.ahead, start) + 1, step, offset)
        high = np.minimum(self.last_end(pane), horizon)
        known, now = firsts
        if self.reports_all and now is not None:
            low = np.r_[low, self.spec.panes.pane(now)]
            high = np.r_[high, horizon if known is None else min(horizon, self.spec.panes.pane(known) - 1)]
        some = low <= high
        if not some.any():
            return ()
        edges = [np.array([self.spec.panes.start(int(p)) for p in side[some]], np.int64) for side in (low - step, high)]
        # From the end of the window before on, so that windows next to each other are one stretch.
        return owed_of(edges[0] + 1, edges[1] + 1, epoch)

    def revise(
        self,
        late: pa.Table,
        horizon: int,
        closed: int,
        first: int | None,
        now: int | None,
        groups: Edges | None = None,
    ) -> pa.Table | None:
        """Rows of windows with horizon < end <= closed that pane rows `late` of the delta changed: revision and op.

        Arguments:
            groups: `closed` where groups have their own; `closed` is then the furthest.
            first, now: the end of the first window with data, without and with the delta.
        """
        if self.reports_all:
            return self._revise_all(late, horizon, closed, first, now)
        if not late.num_rows:
            return None
        return self._revise_ahead(late, horizon, closed) if self.ahead else self._revise(late, horizon, closed, groups)

    def _revise(self, late: pa.Table, horizon: int, closed: int, groups: Edges | None) -> pa.Table | None:
        shape, reach = self.shape, self.reaching
        low = self.since(max(horizon, pc.min(late["pane"]).as_py()))
        (before, of_before), (after, of_after), of_late = self._compared(late, low, closed)
        until = closed if groups is None else groups.of(late)
        pairs = late_pairs(of_late, late["pane"].to_numpy(), shape, horizon, until, reach)
        if not len(pairs[1]):
            return None
        ends = pairs[1]
        if self.spec.single:
            pairs = _whole_windows(after, of_after, shape, horizon, closed, ends, reach)
            of_pairs_before = _whole_windows(before, of_before, shape, horizon, closed, ends, reach)
        else:
            touched = distinct(of_late)
            before, of_before = _groups(before, of_before, touched)
            after, of_after = _groups(after, of_after, touched)
            of_pairs_before = pairs
        return self._changes(
            self._answers(before, of_before, of_pairs_before), self._answers(after, of_after, pairs), ends
        )

    def _revise_ahead(self, late: pa.Table, horizon: int, closed: int) -> pa.Table | None:
        """As `_revise`, where windows without a row are filled from later ones."""
        least = pc.min(late["pane"]).as_py()
        before, after, of_late = self._compared(late, self.since(least - 1), closed)
        touched, low = distinct(of_late), max(horizon, least - self.ahead)
        (old, old_ends), (new, new_ends) = (
            self._known(*_groups(*each, touched), low, closed) for each in (before, after)
        )
        ends = np.concatenate([old_ends, new_ends])
        return self._changes(old, new, ends) if len(ends) else None

    def _known(self, rows: pa.Table, codes: Ints, low: int, closed: int) -> tuple[pa.Table | None, Ints]:
        """The answers of windows that end behind `low` and are known at `closed`, and their ends."""
        if not rows.num_rows:
            return None, np.empty(0, np.int64)
        group, end = filled_ends(Rows.sort(codes, rows["pane"].to_numpy())[0], self.cover, -FAR, closed, self.ahead)
        pairs = group[end > low], end[end > low]
        return self._answers(rows, codes, pairs), pairs[1]

    def _compared(
        self, late: pa.Table, low: int, closed: int
    ) -> tuple[tuple[pa.Table, Ints], tuple[pa.Table, Ints], Ints]:
        """Pane rows from `low` on, without the delta and with it, and their group codes; and those of `late`."""
        before, after = below(self.state.before(low), closed), below(self.state.after(low), closed)
        columns = [*self.spec.key_names] if self.spec.keys else ["pane"]
        keys = [t.select(columns) for t in (before, after, late) if t.num_rows]
        codes = group_codes(self.db, self.spec, pa.concat_tables(keys, promote_options="permissive"))
        size = before.num_rows + after.num_rows
        return (before, codes[: before.num_rows]), (after, codes[before.num_rows : size]), codes[size:]

    def _revise_all(
        self, late: pa.Table, horizon: int, closed: int, first: int | None, now: int | None
    ) -> pa.Table | None:
        """As `_revise`, for a query that reports every window from the first with data on, empty or not."""
        if now is None:
            return None
        _, step, offset = self.shape
        pane = late["pane"].to_numpy() if late.num_rows else np.empty(0, np.int64)
        _, ends = late_pairs(np.zeros(len(pane), np.int64), pane, self.shape, horizon, closed, self.reaching)
        known = FAR if first is None else self.spec.panes.pane(first)
        # Where late rows come before all others, the windows up to these are empty ones now.
        least = self.spec.panes.pane(now)
        start = int(_end_from(np.array([max(horizon + 1, least)]), step, offset)[0])
        ends = distinct(np.concatenate([ends[ends >= least], _ends_between(start, min(known, closed + 1), step)]))
        if not len(ends):
            return None
        low = self.since(int(ends.min()) - 1)
        old = self._listed(below(self.state.before(low), closed), ends[ends >= known])
        return self._changes(old, self._listed(below(self.state.after(low), closed), ends), ends)

    def _listed(self, rows: pa.Table, ends: Ints) -> pa.Table | None:
        """Answers of an ungrouped query for exactly these windows."""
        if not len(ends):
            return None
        rows = rows if rows.num_rows else no_panes()
        codes, groups = np.zeros(rows.num_rows, np.int64), np.zeros(len(ends), np.int64)
        folded = fold_pairs(self.db, self.spec, self.query, rows, codes, (groups, ends), self.gaps or False)
        return finish_windows(self.db, self.query, self.spec.time, folded, self.gaps)

    def _answers(self, rows: pa.Table, codes: Ints, pairs: tuple[Ints, Ints]) -> pa.Table | None:
        if not rows.num_rows:
            return None
        if self.reach is not None:
            sorted_rows, _ = Rows.sort(codes, rows["pane"].to_numpy())
            low, high = sorted_rows.runs(*pairs, self.reach)
            pairs = (pairs[0][high > low], pairs[1][high > low])
        folded = fold_pairs(self.db, self.spec, self.query, rows, codes, pairs, self.gaps or False)
        return finish_windows(self.db, self.query, self.spec.time, folded, self.gaps)

    def _changes(self, old: pa.Table | None, new: pa.Table | None, ends: Ints) -> pa.Table | None:
        """What differs between the answers of some windows (ends as pane numbers), numbered behind what was given."""
        if old is None and new is None:
            return None
        given = self.revisions(self.spec.panes.start(int(ends.min())), self.spec.panes.start(int(ends.max())))
        changed = difference(self.db, self.query, old, new, given, self.options.pairs)
        return changed if changed.num_rows else None


def _whole_windows(
    rows: pa.Table, codes: Ints, shape: tuple[int, int, int], after: int, until: int, ends: Ints, reach: Reach
) -> tuple[Ints, Ints]:
    if not rows.num_rows:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    group, end = Rows.sort(codes, rows["pane"].to_numpy())[0].ends(shape, after, until, reach)
    chosen = is_among(end, ends)
    return group[chosen], end[chosen]


def _groups(table: pa.Table, codes: Ints, touched: Ints) -> tuple[pa.Table, Ints]:
    if not table.num_rows:
        return table, codes
    mask = is_among(codes, touched)
    return (table, codes) if mask.all() else (table.filter(pa.array(mask)), codes[mask])


def _differs(column: str, near: bool) -> str:
    """SQL: whether a value of `__new` is another one in `__old`."""
    differs = f"__new.{column} IS DISTINCT FROM __old.{column}"
    if not near:
        return differs
    one, other = f"__new.{column}", f"__old.{column}"
    apart = f"abs({one} - {other}) <= 1e-9 * greatest(abs({one}), abs({other}))"
    return f"({differs} AND NOT coalesce({apart}, false))"


def difference(
    db: duckdb.DuckDBPyConnection,
    query: WindowedQuery,
    old: pa.Table | None,
    new: pa.Table | None,
    given: pa.Table | None,
    pairs: bool = False,
    near: bool = False,
) -> pa.Table:
    """Changed rows as '+', vanished rows as '-', each with the next revision of its (window, group).

    Arguments:
        pairs: with a changed row the one that it replaces comes as '='. near: floating-point values that are equal to
            1e-9 of them are the same.
    """
    model = new if new is not None else old
    if model is None:
        return pa.table({})
    old, new = (old if old is not None else model.slice(0, 0)), (new if new is not None else model.slice(0, 0))
    key = ["window_end", *identity(query)]
    same = " AND ".join(f"__new.{c} IS NOT DISTINCT FROM __old.{c}" for c in key)
    values = [quote(o.name) for o in query.select]
    values += ["window_start"] if isinstance(query, RowWindowQuery) else []
    rounded = {v for v, o in zip(values, query.select, strict=False) if near and o.type in ("DOUBLE", "FLOAT")}
    differs = " OR ".join(_differs(v, v in rounded) for v in values) or "false"
    changes = (
        "SELECT __new.*, '+' AS op, __old.__there"
        f" FROM new __new LEFT JOIN (SELECT *, true AS __there FROM old) __old ON {same}"
        f" WHERE __old.__there IS NULL OR {differs}"
        " UNION ALL SELECT __old.*, '-' AS op, true AS __there FROM old __old"
        f" WHERE NOT EXISTS (SELECT 1 FROM new __new WHERE {same})"
    )
    if pairs:
        both = f"new __new JOIN old __old ON {same} WHERE {differs}"
        changes += f" UNION ALL SELECT __old.*, '=' AS op, true AS __there FROM {both}"
    tables, join = {"old": old, "new": new}, ""
    if given is None or not given.num_rows:
        # A row that was not there before is a first answer, though of a closed window: revision 0.
        number = "CASE WHEN __row.__there THEN 1 ELSE 0 END"
    else:
        before = "coalesce(__given.revision, 0) + 1"
        number = f"CASE WHEN __row.__there OR __given.revision IS NOT NULL THEN {before} ELSE 0 END"
        of_group = [f"__row.{k} IS NOT DISTINCT FROM __given.{k}" for k in identity(query)]
        matched = ['epoch_us(__row.window_end) = __given."end"', *of_group]
        join = f" LEFT JOIN given __given ON {' AND '.join(matched)}"
        tables["given"] = given
    columns = f"__row.* EXCLUDE (op, __there), ({number})::BIGINT AS revision, __row.op"
    return query_ordered(db, f"SELECT {columns} FROM ({changes}) __row{join}", **tables)
