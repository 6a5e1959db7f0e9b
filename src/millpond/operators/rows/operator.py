"""Windows that end with rows, from the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from millpond.catalog import Standing
from millpond.catalog.unions import progress_of
from millpond.manifests.query_progress import QueryProgress
from millpond.operators.contract import CompactTask, MergeTask
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.rows.advance import advance, open_answers
from millpond.operators.rows.row_window_plans import row_window_facts
from millpond.operators.rows.state import RowState, row_chunk
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.mapper import SynopsisMapper
from millpond.operators.windowed.operator import check_marks
from millpond.operators.windowed.over_rows import OverRows
from millpond.operators.windowed.past_windows import EachWindow, OneWindow
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.synopses import finish_windows, merge_partials
from millpond.synopses.last_window import bounded
from millpond.synopses.row_answers import last_row_windows
from millpond.synopses.row_partials import RowsSpec, fold, on_time, partial_rows, together
from millpond.tables import Chunk
from millpond.types import CountWindow, QueryOptions, RowWindowQuery, StreamDefinition
from millpond.types.plan_nodes import Fact


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


class RowsOperator(OverRows):
    """Windows that end with rows, over the rows of one synopsis."""

    spec_kind, query_kind, mapper_kind = RowsSpec, RowWindowQuery, RowsMapper
    state_word, plan_word = "row window", "rows"
    state_kind = RowState
    spec: RowsSpec

    @classmethod
    def own_facts(cls, facts: PlanFacts, query: Any, standing: Standing | None, spec: Any) -> Sequence[Fact]:
        """See `WindowOperator`."""
        return row_window_facts(query, spec)

    def take(self, task: MergeTask, parts: Sequence[pa.Table]) -> tuple[RowState, list[Chunk], pa.Table, int]:
        """See `WindowOperator`. Rows that are late for every window do not count."""
        spec, epoch = self.spec, task.manifest.epoch
        known = progress_of(self.catalog, spec, task.manifest.progress)
        delta, too_late = on_time(spec, together(list(parts)), known.bound, known.high)
        state = self.state(task, delta)
        chunks = [row_chunk(self.owner, epoch, delta)] if delta.num_rows else []
        return state, chunks, delta, too_late

    @staticmethod
    def advance(
        db: duckdb.DuckDBPyConnection, spec: Any, state: Any, closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowOperator`."""
        return advance(db, spec, state, closing)

    @staticmethod
    def stacked(db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table]) -> pa.Table:
        """See `OverRows`."""
        return merge_partials(db, spec, list(parts))

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

    def settle(self, task: MergeTask, state: RowState) -> None:
        """See `WindowOperator`."""

    def compact_state(self, task: CompactTask, chunks: Sequence[Chunk]) -> list[Chunk]:
        """See `WindowOperator`."""
        epoch, low = max(c.epoch for c in chunks), self.spec.panes.pane(self.needed_since(task))
        table = fold(task.db, self.spec, together([c.table for c in chunks]), low)
        return [row_chunk(self.owner, epoch, table)] if table.num_rows else []
