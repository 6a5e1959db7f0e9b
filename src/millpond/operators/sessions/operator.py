"""Sessions, from the rows that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.catalog.unions import progress_of
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.contract import CompactTask, MergeTask
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.sessions.advance import advance, by_own_bound, open_answers
from millpond.operators.sessions.session_plans import session_facts, session_text
from millpond.operators.sessions.state import WHOLE, SessionState, living, session_chunk
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.mapper import SynopsisMapper
from millpond.operators.windowed.operator import check_marks
from millpond.operators.windowed.over_rows import OF_ROWS, OverRows
from millpond.operators.windowed.past_windows import EachWindow
from millpond.operators.windowed.stored import PANES
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.support.errors import Refusal
from millpond.synopses.session_partials import (
    SessionsSpec,
    floor_of,
    merge_sessions,
    on_time,
    partial_sessions,
    stack,
    still_open,
    together,
)
from millpond.tables import Chunk, Segment
from millpond.types import QueryOptions, SessionQuery, StreamDefinition
from millpond.types.plan_nodes import Fact


class SessionsMapper(SynopsisMapper):
    """Puts the rows of a split together to the sessions that they make."""

    def make(self, db: duckdb.DuckDBPyConnection, spec: Any, rows: pa.Table) -> pa.Table:
        """See `SynopsisMapper`."""
        return partial_sessions(db, spec, rows)

    def settle(self, db: duckdb.DuckDBPyConnection, made: Sequence[pa.Table]) -> tuple[pa.Table, list[pa.Table]]:
        """See `SynopsisMapper`. Rows are not put together across the bound below which they are late."""
        assert isinstance(self.spec, SessionsSpec)
        known = progress_of(self.task.catalog, self.spec, self.task.manifest.progress)
        floor, whole = floor_of(self.spec, known.bound, known.high), stack(list(made))
        if floor is None or not whole.num_rows:
            late, others = whole.slice(0, 0), whole
        else:
            behind = pc.less(whole["pane"], floor)
            late, others = whole.filter(behind), whole.filter(pc.invert(behind))
        whole = stack([late, together(db, self.spec, others)])
        return whole, [whole]


class SessionsOperator(OverRows):
    """Sessions over the rows of one synopsis."""

    spec_kind, query_kind, mapper_kind = SessionsSpec, SessionQuery, SessionsMapper
    state_word = plan_word = "sessions"
    refuses: ClassVar[Mapping[str, str]] = {
        **OF_ROWS,
        "state": "state='{value}' is for windows of time with a SLIDE; rows of sessions are put together in one way",
        "flush": "flush='{value}' spreads what windows answer that end together; sessions end one by one",
        "empty": "empty='report' is for windows that end at instants; sessions are made of rows",
    }
    state_kind = SessionState
    spec: SessionsSpec

    @classmethod
    def own_facts(cls, facts: PlanFacts, query: Any, standing: Standing | None, spec: Any) -> Sequence[Fact]:
        """See `WindowOperator`."""
        return session_facts(query, spec)

    def take(self, task: MergeTask, parts: Sequence[pa.Table]) -> tuple[SessionState, list[Chunk], pa.Table, int]:
        """See `WindowOperator`."""
        spec, epoch = self.spec, task.manifest.epoch
        known = progress_of(self.catalog, spec, task.manifest.progress)
        delta, too_late = on_time(spec, stack(list(parts)), epoch, known.bound, known.high)
        delta = merge_sessions(task.db, spec, [delta])
        chunks = [session_chunk(self.owner, epoch, delta)] if delta.num_rows else []
        return self.state(task, delta), chunks, delta, too_late

    @staticmethod
    def advance(
        db: duckdb.DuckDBPyConnection, spec: Any, state: Any, closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowOperator`."""
        return advance(db, spec, state, closing)

    @staticmethod
    def stacked(db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table]) -> pa.Table:
        """See `OverRows`."""
        return stack(list(parts))

    @classmethod
    def close_past(
        cls, db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowKind`."""
        return super().close_past(db, spec, by_own_bound(parts, spec.sessions.behind), closing)

    @staticmethod
    def last_of_past(
        db: duckdb.DuckDBPyConnection, spec: Any, query: Any, parts: Sequence[pa.Table]
    ) -> pa.Table | None:
        """See `WindowKind`."""
        raise TypeError("sessions end with no certain row")

    @staticmethod
    def window_at(query: Any, now: int, before: int) -> EachWindow:
        """See `WindowKind`: the sessions that a row at NOW would be in."""
        return EachWindow(since=now)

    @staticmethod
    def chunk_of(owner: str, spec: Any, epoch: int, rows: pa.Table) -> Chunk:
        """See `WindowKind`."""
        return session_chunk(owner, epoch, rows)

    def open_now(
        self, db: duckdb.DuckDBPyConnection, state: Any, standing: Standing, high: int, progress: Windowed
    ) -> pa.Table | None:
        """See `WindowOperator`."""
        query = standing.windowed
        assert isinstance(query, SessionQuery)
        return open_answers(db, self.spec, query, state, progress)

    def closes(self, standing: Standing, known: QueryProgress, reached: int, high: int) -> bool:
        """See `WindowOperator`: a session may end up to the gap of its last row after that."""
        return True

    @classmethod
    def next_end(cls, query: Any, closed: int, high: int) -> int | None:
        """See `Answering`: when the last of those that are open is over."""
        last = high + query.window.gap
        return last if query.window.gap and closed < last else None

    @classmethod
    def check(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> None:
        """See `Answering`."""
        if query.reduced:
            raise Refusal(
                "REDUCE leaves rows out, and sessions end where there are none: fewer rows would make other sessions",
                words=("REDUCE",),
                expected="the query without REDUCE",
            )
        check_marks(query, streams, "sessions")

    @classmethod
    def lasting(cls, known: int) -> str:
        """See `Answering`."""
        return f"'revise_for' of a session can only become shorter than {known} µs"

    def uses(self, standing: Standing, known: QueryProgress | None, before: int, bound: int, high: int) -> bool:
        """See `Answering`."""
        return True

    @classmethod
    def view(cls, standing: Standing, owner: str) -> str:
        """See `Answering`."""
        query = standing.windowed
        assert isinstance(query, SessionQuery)
        return session_text(query.window)

    def pane_text(self) -> str:
        """See `WindowOperator`."""
        return "sessions"

    def compacted_as(self, kind: str) -> str:
        """See `Operator`: what epochs brought beside a whole."""
        return PANES if kind == WHOLE else kind

    def settle(self, task: MergeTask, state: SessionState) -> None:
        """See `WindowOperator`."""
        state.floor = self.needed_since(task)

    def compact_state(self, task: CompactTask, chunks: Sequence[Chunk]) -> list[Chunk]:
        """See `WindowOperator`."""
        chosen = task.manifest.compact[str(task.shard)]
        segments = [s for s in task.manifest.state if s.shard == task.shard]
        # A query that has not answered for a while needs what came since told from what was there before.
        waiting = any(self.waits(task.manifest, q) for q in self.users())
        if not waiting and (task.whole or any(s.level for s in segments if s.path in chosen)):
            return self._whole(task, segments)
        wholes = self._stored(task, segments, (WHOLE,))  # in whatever file
        kept = [c for c in living([*wholes, *(c for c in chunks if c.kind == PANES)])]
        brought = [c for c in kept if c.kind == PANES]
        table = merge_sessions(task.db, self.spec, [c.table for c in brought])
        merged = [c for c in chunks if c.kind == WHOLE and c.epoch == kept[0].epoch]
        if table.num_rows:
            merged.append(session_chunk(self.owner, max(c.epoch for c in brought), table))
        return merged

    def _stored(self, task: CompactTask, segments: Sequence[Segment], kinds: tuple[str, ...]) -> list[Chunk]:
        """What some files hold."""
        version = task.manifest.state_version(task.pond)
        state = SessionState(version, segments, task.shard, self.owner, self.spec, pa.table({}), 0)
        return state.chunks(segments, kinds=kinds)

    def _whole(self, task: CompactTask, segments: Sequence[Segment]) -> list[Chunk]:
        """All that is not final of what these files hold."""
        stored = living(self._stored(task, segments, (PANES, WHOLE)))
        table = still_open(task.db, self.spec, stack([c.table for c in stored]), self.needed_since(task))
        if not table.num_rows:  # that nothing is left has to be said, too
            table = stack([c.table for c in stored]).slice(0, 1)
        return [session_chunk(self.owner, max(c.epoch for c in stored), table, WHOLE)]
