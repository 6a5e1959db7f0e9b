"""Windows that end with rows, from the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from millpond.catalog import Standing
from millpond.catalog.unions import progress_of
from millpond.manifests.owed import owed_together
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.contract import CompactTask, MergeTask
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.rows.advance import advance, catch_up, open_answers, owed
from millpond.operators.rows.row_window_plans import row_window_facts
from millpond.operators.rows.state import RowState, row_chunk
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.mapper import SynopsisMapper
from millpond.operators.windowed.operator import OF_ROWS, WindowOperator, check_marks
from millpond.operators.windowed.past_windows import EachWindow, HistoryState, OneWindow
from millpond.operators.windowed.window_plans import window_plan
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.progress import FOREVER
from millpond.synopses import finish_windows, merge_partials
from millpond.synopses.last_window import bounded
from millpond.synopses.row_answers import last_row_windows
from millpond.synopses.row_partials import RowsSpec, fold, on_time, partial_rows, together
from millpond.tables import Chunk
from millpond.types import CountWindow, Query, QueryOptions, RowWindowQuery, StreamDefinition
from millpond.types.plan_nodes import PlanNode


class RowsMapper(SynopsisMapper):
    """Keeps each row, with the components of what the queries aggregate."""

    marks = True

    def make(self, db: duckdb.DuckDBPyConnection, spec: Any, rows: pa.Table) -> pa.Table:
        """See `SynopsisMapper`."""
        return partial_rows(db, spec, rows)

    def settle(self, db: duckdb.DuckDBPyConnection, made: Sequence[pa.Table]) -> tuple[pa.Table, list[pa.Table]]:
        """See `SynopsisMapper`."""
        whole = together(list(made))
        return whole, [whole]


class RowsOperator(WindowOperator):
    """Windows that end with rows, over the rows of one synopsis."""

    spec_kind, query_kind, mapper_kind = RowsSpec, RowWindowQuery, RowsMapper
    refuses, state_word = OF_ROWS, "row window"
    ends_open = 1
    spec: RowsSpec

    @classmethod
    def explain_query(cls, facts: PlanFacts, query: Query, standing: Standing | None) -> PlanNode | None:
        """See `Operator`."""
        if not isinstance(query, RowWindowQuery):
            return None
        return window_plan("rows", facts, query, standing, partial(row_window_facts, query), cls.covered)

    def take(self, task: MergeTask, parts: Sequence[pa.Table]) -> tuple[RowState, list[Chunk], pa.Table, int]:
        """See `WindowOperator`. Rows that are late for every window do not count."""
        spec, epoch = self.spec, task.manifest.epoch
        known = progress_of(self.catalog, spec, task.manifest.progress)
        delta, too_late = on_time(spec, together(list(parts)), known.bound, known.high)
        state = self._state(task, delta, None)
        chunks = [row_chunk(self.owner, epoch, delta)] if delta.num_rows else []
        return state, chunks, delta, too_late

    def _state(self, task: MergeTask, delta: pa.Table, since: int | None) -> RowState:
        return RowState(task.version, task.segments, task.shard, self.owner, self.spec, delta, since)

    def as_of(self, task: MergeTask, state: Any, since: int) -> RowState:
        """See `WindowOperator`."""
        return self._state(task, state.delta, since)

    def advance(self, db: duckdb.DuckDBPyConnection, state: Any, closing: Closing[Any]) -> Advanced[WindowProgress]:
        """See `WindowOperator`."""
        return advance(db, self.spec, state, closing)

    def owed(self, db: duckdb.DuckDBPyConnection, rows: pa.Table, closing: Closing[Any]) -> Windowed:
        """See `WindowOperator`."""
        return replace(closing.before, owed=owed_together([*closing.before.owed, *owed(rows, closing)]))

    def catch_up(
        self, db: duckdb.DuckDBPyConnection, state: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowOperator`."""
        return catch_up(db, self.spec, state, parts, closing)

    @staticmethod
    def close_past(
        db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowKind`."""
        return catch_up(db, spec, HistoryState(whole=True), parts, closing)

    @staticmethod
    def last_of_past(
        db: duckdb.DuckDBPyConnection, spec: Any, query: Any, parts: Sequence[pa.Table]
    ) -> pa.Table | None:
        """See `WindowKind`."""
        folded = last_row_windows(db, spec, query, merge_partials(db, spec, list(parts)))
        return None if folded is None else finish_windows(db, query, spec.time, folded)

    @staticmethod
    def window_at(query: Any, now: int, before: int) -> OneWindow | EachWindow | None:
        """See `WindowKind`: a window that ends with a row is open at its start."""
        if isinstance(query.window, CountWindow):
            return EachWindow(last=True)
        start = now - query.window.range
        return None if start >= before else OneWindow(start, start + 1, bounded(query, start, now, before))

    @staticmethod
    def chunk_of(owner: str, spec: Any, epoch: int, rows: pa.Table) -> Chunk:
        """See `WindowKind`."""
        return row_chunk(owner, epoch, rows)

    def open_now(
        self, db: duckdb.DuckDBPyConnection, state: Any, standing: Standing, high: int, progress: Windowed
    ) -> pa.Table | None:
        """See `WindowOperator`."""
        query = standing.windowed
        assert isinstance(query, RowWindowQuery)
        return open_answers(db, self.spec, query, state, high, progress)

    def closes(self, standing: Standing, known: QueryProgress, reached: int, high: int) -> bool:
        """See `WindowOperator`: there may be a row to end a window with."""
        return known.closed <= high

    @classmethod
    def check(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> None:
        """See `Answering`."""
        check_marks(query, streams, "windows that end with rows")

    @classmethod
    def lasting(cls, known: int) -> str:
        """See `Answering`."""
        return f"'revise_for' of a window that ends with rows can only become shorter than {known} µs"

    def uses(self, standing: Standing, known: QueryProgress | None, before: int, bound: int, high: int) -> bool:
        """See `Answering`: the bound must pass a row."""
        return before <= high

    def open_end(self, known: QueryProgress) -> int:
        """See `WindowOperator`: progress must be beyond the end of a window, since equal times may still come."""
        return 0 if known.closed >= FOREVER else 1

    @classmethod
    def view(cls, standing: Standing, owner: str) -> str:
        """See `Answering`."""
        query = standing.windowed
        assert isinstance(query, RowWindowQuery)
        window = query.window
        extent = f"ROWS {window.rows}" if window.rows else "RANGE"
        return f"[{extent} SLIDE {window.slide}]"

    def pane_text(self) -> str:
        """See `WindowOperator`."""
        return "rows"

    def low_of(self, standing: Standing, answered: int) -> int:
        """See `WindowOperator`: an instant; rows know what windows that end from it on need."""
        return answered

    def settle(self, task: MergeTask, state: RowState) -> None:
        """See `WindowOperator`."""

    def compact_state(self, task: CompactTask, chunks: Sequence[Chunk]) -> list[Chunk]:
        """See `WindowOperator`."""
        epoch, low = max(c.epoch for c in chunks), self.spec.panes.pane(self.needed_since(task))
        table = fold(task.db, self.spec, together([c.table for c in chunks]), low)
        return [row_chunk(self.owner, epoch, table)] if table.num_rows else []
