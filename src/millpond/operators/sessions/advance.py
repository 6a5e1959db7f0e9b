"""Advance sessions, from the rows that make them.

A session is over when progress is beyond its end: a row at the very end would still be in it. Late rows merge sessions,
make them longer, or, where they have a maximal length, cut them elsewhere: the sessions of their partitions that end
from the earliest one on are found without and with them, and what differs is reported. A session is told by its start
and its end, so one that has become longer ceases, and another one is there.

A row that comes later than state reaches back may join a session that state has with one that it has not. Of the run
that it is in nothing is told from state any more, it is owed: a job makes it from the archive, again and again as long
as it changes (`engine.jobs.mending`). So every session is told from one side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.evaluation import State
from millpond.operators.windowed.group_bounds import Edges
from millpond.operators.windowed.over_rows import OfRows, advance_rows, between_edges
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.progress import FOREVER
from millpond.synopses import SessionsSpec, finish_windows
from millpond.synopses.session_partials import CUT, between, torn_ends, torn_in
from millpond.types import SessionQuery


def advance(
    db: duckdb.DuckDBPyConnection, spec: SessionsSpec, state: State, closing: Closing[SessionQuery]
) -> Advanced[WindowProgress]:
    """Report sessions that are over, and revise those before that late rows of the delta change."""
    answers = partial(session_answers, db, spec, closing.query)
    return advance_rows(db, OfRows(spec.spread, answers, partial(torn_ends, db, spec)), state, closing)


def session_answers(
    db: duckdb.DuckDBPyConnection,
    spec: SessionsSpec,
    query: SessionQuery,
    rows: pa.Table,
    since: Edges,
    before: Edges,
) -> pa.Table | None:
    """The answers of the sessions that end at since <= t < before; since: its `common` is the least of its edges."""
    if not rows.num_rows:
        return None
    found = between(db, spec, rows, since.common, before.most)
    if found is None:
        return None
    found = between_edges(found, "until", since, before)
    names = {"pane": "start", "until": "end"}
    folded = found.rename_columns([names.get(n, n) for n in found.column_names])
    answers = finish_windows(db, query, spec.time, folded)
    return answers if answers.num_rows else None


def open_answers(
    db: duckdb.DuckDBPyConnection,
    spec: SessionsSpec,
    query: SessionQuery,
    state: State,
    progress: Windowed,
) -> pa.Table | None:
    """What the sessions that are not over would answer now."""
    rows = state.after(min(progress.closed, joined_from(state.delta)))
    return session_answers(db, spec, query, rows, Edges(progress.closed), Edges(FOREVER))


def joined_from(delta: pa.Table) -> int:
    """The earliest end of sessions that the rows of an epoch may join; those that are torn tell nothing."""
    if not delta.num_rows:
        return FOREVER
    low = delta["pane"]
    if CUT in delta.column_names:  # what was over at the cut of a row stays as it is
        low = pc.coalesce(delta[CUT], low)
    found: int = low.to_numpy()[torn_in(delta) == 0].min(initial=FOREVER).item()
    return found


def by_own_bound(parts: Sequence[pa.Table], behind: int) -> list[pa.Table]:
    """Rows of the past whose cuts, the stream's progress, are those of a query that answers so far behind it."""
    return [
        t.set_column(t.column_names.index(CUT), CUT, pc.subtract(t[CUT], pa.scalar(behind, pa.int64())))
        if behind and CUT in t.column_names
        else t
        for t in parts
    ]
