"""Early answers: what windows that are still open would answer now, and how the answer that counts follows it.

An answer with `status = 'early'` is speculative: it is that of a window as though it closed now. Windows that end up to
the first end behind the high watermark are looked at: those behind it hold little more than their beginning. Of windows
that end with rows these are all whose last row has come. Only what differs from what was shown last is reported, with
the next revision. When progress passes the window, its answers are reported once more with `status = 'closed'`, behind
the revisions of the early ones. A row that was shown early and is not in the answer is taken back by a row with op '-'
that is 'early' too, since it never counted. Relations are in `early_relations`.

Where answers go out by and by (`flush`), a window that progress has passed is not speculated about any more, and what
was shown of a group stays as it is until the group's slot goes out: then it is confirmed, or taken back.

Everything here is about tables of answers, whatever kind of window they are of (windows.md has speculation as future
work, [L2029]; the model of revisions is SEMANTICS, late rows). When early answers are due is decided by clock readings
that stand in manifests, so that replaying gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millpond.operators.windowed.advance import Advanced, numbers
from millpond.operators.windowed.evaluation import difference
from millpond.operators.windowed.window_progress import Windowed, WindowProgress, answered
from millpond.progress import FOREVER, NEVER
from millpond.synopses import query_ordered
from millpond.synopses.enums import put_together
from millpond.synopses.finish import identity
from millpond.types import STATUS, QueryOptions, WindowedQuery, WindowQuery

#: Kind of the state chunks that hold what was shown early: answers with revision and op.
EARLY = "early"

#: Values of the column `status`: of a window that was open; of one that progress has passed.
OPEN, CLOSED = "early", "closed"


@dataclass(frozen=True)
class Speculation:
    """What an epoch needs for the early answers of one query.

    query, options: the query's.
    shown: instant -> answers shown early of windows that end from it on, any revision (chunks of kind `EARLY`).
    current: what the open windows would answer now.
    clock: the clock reading of the epoch. stirred: whether the epoch took rows of the query's stream.
    waiting: which answers, of windows that progress has passed, have not gone out when a query is so far.
    """

    query: WindowedQuery
    options: QueryOptions
    shown: Callable[[int], Sequence[pa.Table]]
    current: Callable[[Windowed], pa.Table | None]
    clock: int
    stirred: bool
    waiting: Callable[[pa.Table, Windowed], NDArray[np.bool_]] | None = None

    def unsettled(self, shown: pa.Table, progress: Windowed) -> NDArray[np.bool_]:
        """What was shown of windows that are open, or whose answers have not gone out, when the query is so far."""
        ends = shown["window_end"].cast(pa.int64()).to_numpy()
        still: NDArray[np.bool_] = ends >= opens(self.query, progress.closed)
        if self.waiting is not None and progress.own.held:
            still = still | self.waiting(shown, progress)
        return still


def due(options: QueryOptions, last: int, clock: int) -> bool:
    """Whether early answers are to be made at `clock`, provided that rows came since the last ones.

    Arguments:
        last: the clock reading of these; NEVER: there were none.
    """
    return options.early is not None and (last <= NEVER or clock - last >= options.early)


def opens(query: WindowedQuery, closed: int) -> int:
    """The instant from which on windows are open, when those up to `closed` are answered.

    A window that ends with a row is closed when progress is beyond its end: rows of equal time may still come.
    """
    return closed + 1 if isinstance(query, WindowQuery) and NEVER < closed < FOREVER else closed


def with_early(
    db: duckdb.DuckDBPyConnection, task: Speculation, before: Windowed, result: Advanced[WindowProgress]
) -> Advanced[WindowProgress]:
    """The epoch's result for a query, with early answers, and with those that count numbered behind them.

    Arguments:
        before: how far the query had answered before the epoch. result: what it answered of closed windows.
    """
    query, after = task.query, result.progress
    was, now = opens(query, answered(before)), opens(query, after.closed)
    shown = latest_shown(db, query, task.shown(was), was)
    answers, given = result.answers, result.revisions
    if shown is not None:
        shown = shown.filter(pa.array(task.unsettled(shown, before)))
        ended = shown.filter(pa.array(~task.unsettled(shown, after)))
        answers, behind = settle(db, query, answers, shown, ended)
        parts = [t for t in (given, behind) if t is not None and t.num_rows]
        given = _largest(db, _together(parts)) if parts else None
    at, stirred = before.own.early_at, before.own.stirred or task.stirred
    # Where groups have bounds of their own, an answer may count although other groups' windows are open yet.
    ahead = None if answers is None else _from(answers, now)
    early: pa.Table | None = None
    if ahead is not None and ahead.num_rows:
        ahead = ahead if STATUS in ahead.column_names else _marked(ahead, CLOSED)
        shown = latest_shown(db, query, [ahead, *([shown] if shown is not None else [])], NEVER)
    if stirred and after.closed < FOREVER and due(task.options, at, task.clock):
        still = None if shown is None else _from(shown, now)
        early = speculate(db, query, task.current(after), still)
        at, stirred = task.clock, False
    if early is not None:
        parts = [early, *([answers] if answers is not None else [])]
        answers = _together(parts)
    if ahead is not None and ahead.num_rows:
        early = _together([ahead, *([early] if early is not None else [])])
    after = replace(after, own=replace(after.own, early_at=at, stirred=stirred))
    return replace(result, answers=answers, revisions=given, progress=after, early=early)


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    """Tables of answers one behind the other. An ENUM that one has as a dictionary and another as text is text."""
    names = {f.name for t in parts for f in t.schema if pa.types.is_dictionary(f.type)}
    mixed = names & {f.name for t in parts for f in t.schema if pa.types.is_string(f.type)}
    plain = [
        t.cast(pa.schema([f.with_type(pa.string()) if f.name in mixed else f for f in t.schema])) if mixed else t
        for t in parts
    ]
    return put_together(plain)


def latest_shown(
    db: duckdb.DuckDBPyConnection, query: WindowedQuery, parts: Sequence[pa.Table], since: int
) -> pa.Table | None:
    """The last of what was shown early of each (window, group) whose window ends from `since` on; None if nothing."""
    parts = [t for t in (_from(t, since) for t in parts) if t.num_rows]
    if not parts:
        return None
    table = _together(parts)
    if len(parts) == 1:
        return table  # one epoch shows a row once
    key = ", ".join(["window_end", *identity(query)])
    return query_ordered(
        db, f"SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY revision DESC) = 1", t=table
    )


def speculate(
    db: duckdb.DuckDBPyConnection, query: WindowedQuery, current: pa.Table | None, shown: pa.Table | None
) -> pa.Table | None:
    """What differs between the answers that open windows have now and those shown last; None if nothing does.

    Arguments:
        current: the answers of open windows, without revision. shown: of `latest_shown`.
    """
    if current is None and shown is None:
        return None
    old = given = None
    if shown is not None:
        counting = shown.filter(pc.equal(shown[STATUS], CLOSED))
        if counting.num_rows and current is not None:
            same = " AND ".join(f"__new.{k} IS NOT DISTINCT FROM __old.{k}" for k in ["window_end", *identity(query)])
            sql = f"SELECT * FROM __new WHERE NOT EXISTS (SELECT 1 FROM __old WHERE {same})"
            current = query_ordered(db, sql, __new=current, __old=counting)
        still = shown.filter(pc.equal(shown[STATUS], OPEN))
        old = still.filter(pc.equal(still["op"], "+")).drop_columns(["revision", "op", STATUS])
        given = numbers(query, still)
    changed = difference(db, query, old, current, given)
    return _marked(changed, OPEN) if changed.num_rows else None


def settle(
    db: duckdb.DuckDBPyConnection, query: WindowedQuery, answers: pa.Table | None, shown: pa.Table, ended: pa.Table
) -> tuple[pa.Table | None, pa.Table | None]:
    """Answers of closed windows, numbered behind what was shown early, and the revision numbers to remember.

    A row that was shown early of a window that has closed and does not answer it is taken back.

    Arguments:
        answers: of closed windows, with revision and op. shown: of `latest_shown`, of windows that were open before.
        ended: those of them whose answers are out now.
    """
    shown, ended = (t.filter(pc.equal(t[STATUS], OPEN)) for t in (shown, ended))
    key = ["window_end", *identity(query)]
    same = " AND ".join(f"__new.{c} IS NOT DISTINCT FROM __old.{c}" for c in key)
    gone = "SELECT __old.* REPLACE (__old.revision + 1 AS revision, '-' AS op) FROM shown __old WHERE __old.op = '+'"
    parts: list[pa.Table] = []
    # What was shown and taken back before the window closed has used up numbers, too.
    known: list[pa.Table] = [ended.filter(pc.equal(ended["op"], "-"))]
    if answers is None or not answers.num_rows:
        taken_back = query_ordered(db, gone, shown=ended)
    else:
        sql = (
            "SELECT __new.* REPLACE ((__new.revision + coalesce(__old.revision + 1, 0))::BIGINT AS revision),"
            f" '{CLOSED}' AS {STATUS} FROM answers __new LEFT JOIN shown __old ON {same}"
        )
        numbered = query_ordered(db, sql, answers=answers, shown=shown)
        parts.append(numbered)
        known.append(numbered.filter(pc.greater(numbered["revision"], 0)))
        taken_back = query_ordered(
            db, f"{gone} AND NOT EXISTS (SELECT 1 FROM answers __new WHERE {same})", answers=answers, shown=ended
        )
    if taken_back.num_rows:
        parts.append(taken_back)
        known.append(taken_back)
    known = [numbers(query, t) for t in known if t.num_rows]
    return (
        _together(parts) if parts else None,
        _together(known) if known else None,
    )


def _from(table: pa.Table, since: int) -> pa.Table:
    """The answers of windows that end from `since` on."""
    if since <= NEVER or not table.num_rows:
        return table
    return table.filter(pc.greater_equal(table["window_end"].cast(pa.int64()), since))


def _largest(db: duckdb.DuckDBPyConnection, given: pa.Table) -> pa.Table:
    """Revision numbers, the largest of each (window, group)."""
    return query_ordered(
        db, "SELECT * EXCLUDE (revision), max(revision)::BIGINT AS revision FROM t GROUP BY ALL", t=given
    )


def _marked(table: pa.Table, status: str) -> pa.Table:
    return table.append_column(STATUS, pa.array([status] * table.num_rows, pa.string()))
