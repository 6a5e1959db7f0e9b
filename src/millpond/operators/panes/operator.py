"""Windows that end at instants, of any kind, from pane partials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.catalog.unions import late_of, progress_of
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest
from millpond.operators.contract import CompactTask, MergeTask
from millpond.operators.panes.adapting import MODES, choose, eager_groups, put_together
from millpond.operators.panes.advance import advance, open_answers, owed
from millpond.operators.panes.catching_up import catch_up
from millpond.operators.panes.forms import TUPLES, are_tuples, as_partials, settled, tuples_of
from millpond.operators.panes.gap_checks import check_gaps
from millpond.operators.panes.measuring import decision_for
from millpond.operators.panes.pane_plans import pane_facts
from millpond.operators.panes.prefixes import fold_prefix
from millpond.operators.panes.smoothing import check_slots, smoothed, wait
from millpond.operators.panes.smoothing import due as flush_due
from millpond.operators.panes.state import PaneState, pane_chunk
from millpond.operators.panes.state_plans import state_plan
from millpond.operators.panes.window_texts import window_text
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.closing import Closing
from millpond.operators.windowed.mapper import SynopsisMapper
from millpond.operators.windowed.needs import open_pane, settled_pane
from millpond.operators.windowed.operator import WindowOperator
from millpond.operators.windowed.past_windows import HistoryState, OneWindow
from millpond.operators.windowed.stored import PANES
from millpond.operators.windowed.window_progress import Windowed, WindowProgress
from millpond.progress import NEVER
from millpond.synopses import PanesSpec, Spec
from millpond.synopses.last_window import bounded, start_of_last
from millpond.synopses.pane_partials import (
    merge_panes,
    panes_spec,
    partial_panes,
    without_panes,
)
from millpond.synopses.partials.late_exclusions import CUT, merge_cuts, with_cut, without_cut
from millpond.tables import Chunk, Segment
from millpond.types import (
    QueryOptions,
    StreamDefinition,
    TimeWindow,
    WindowedQuery,
    WindowQuery,
)
from millpond.types.durations import duration
from millpond.types.plan_nodes import Fact, PlanNode
from millpond.windows import (
    CalendarPanes,
    KindPanes,
    Panes,
    begin_of,
    cover_of,
    first_end_after,
    last_end_until,
    panes_of,
)
from millpond.windows.landmark_windows import landmark_zero
from millpond.windows.pane_layout import WHOLE


class PanesMapper(SynopsisMapper):
    """Makes pane partials, or tuples where the synopsis keeps these."""

    spec: PanesSpec

    def make(self, db: duckdb.DuckDBPyConnection, spec: Any, rows: pa.Table) -> pa.Table:
        """See `SynopsisMapper`."""
        return partial_panes(db, spec, rows) if spec.form == "eager" else tuples_of(db, spec, rows)

    def settle(self, db: duckdb.DuckDBPyConnection, made: Sequence[pa.Table]) -> tuple[pa.Table, list[pa.Table]]:
        """See `SynopsisMapper`."""
        if self.spec.form == "eager":
            whole = merge_panes(db, self.spec, list(made))
            return whole, [whole]
        whole = pa.concat_tables(made)
        return whole, settled(db, self.spec, [], [whole]).tables


def query_of(standing: Standing) -> WindowQuery:
    """A query that panes answer: one over windows that end at instants."""
    assert isinstance(standing.definition.query, WindowQuery)
    return standing.definition.query


class PanesOperator(WindowOperator):
    """Windows over the pane partials of one synopsis."""

    spec_kind, query_kind, mapper_kind = PanesSpec, WindowQuery, PanesMapper
    state_word, state_kind = "panes", PaneState
    plan_word = "panes"
    spec: PanesSpec

    @classmethod
    def own_facts(cls, facts: PlanFacts, query: Any, standing: Standing | None, spec: Any) -> Sequence[Fact]:
        """See `WindowOperator`."""
        return pane_facts(facts, query, spec, standing is not None)

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`: with the forms that its state has."""
        node = super().explain(facts, asker)
        if asker is None or not facts.analyzed:
            return node
        return node.with_more(children=(state_plan(facts, self.synopsis, self.spec, asker.definition.options.state),))

    def take(self, task: MergeTask, parts: Sequence[pa.Table]) -> tuple[PaneState, list[Chunk], pa.Table, int]:
        """See `WindowOperator`."""
        db, spec, epoch = task.db, self.spec, task.manifest.epoch
        forms = None
        if spec.form == "eager":
            delta = merge_panes(db, spec, list(parts))
        else:
            tuples = [t for t in parts if are_tuples(t)]
            forms = settled(db, spec, [t for t in parts if not are_tuples(t)], tuples)
            delta = merge_panes(db, spec, [as_partials(db, spec, t) for t in forms.tables])
        state = PaneState(task.version, task.segments, task.shard, self.owner, spec, delta, forms=forms)
        chunks = choose(db, task.manifest, self.catalog, self.synopsis, state, task.failures)
        stored = self._marked(task.manifest, delta)
        tables = [stored] if state.forms is None else [self._marked(task.manifest, t) for t in state.forms.tables]
        return state, [*chunks, *(pane_chunk(self.owner, spec, epoch, t) for t in tables if t.num_rows)], stored, 0

    def _marked(self, manifest: Manifest, delta: pa.Table) -> pa.Table:
        """Pane rows as they are stored: with late exclusions where a query will need them."""
        waiting = [q for q in self.users() if self.waits(manifest, q)]
        if not waiting:
            return delta
        known = progress_of(self.catalog, self.spec, manifest.progress)
        if late_of(self.catalog, self.spec) == "drop":
            return with_cut(self.spec, delta, known.bound)
        limited = [q for q in waiting if q.definition.options.limited]
        if not limited:
            return delta
        spare = min(q.windowed.revised_for(q.definition.options) for q in limited)
        return with_cut(self.spec, delta, min(known.bound, known.high), spare)

    @staticmethod
    def advance(
        db: duckdb.DuckDBPyConnection, spec: Any, state: Any, closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowOperator`."""
        return advance(db, spec, state, closing)

    def owed(self, db: duckdb.DuckDBPyConnection, rows: pa.Table, closing: Closing[Any]) -> Windowed:
        """See `WindowOperator`."""
        return owed(db, self.spec, rows, closing)

    @staticmethod
    def catch_up(
        db: duckdb.DuckDBPyConnection, spec: Any, state: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowOperator`."""
        return catch_up(db, spec, state, parts, closing)

    @staticmethod
    def close_past(
        db: duckdb.DuckDBPyConnection, spec: Any, parts: Sequence[pa.Table], closing: Closing[Any]
    ) -> Advanced[WindowProgress]:
        """See `WindowKind`."""
        return catch_up(db, spec, HistoryState(), parts, closing)

    @staticmethod
    def last_of_past(
        db: duckdb.DuckDBPyConnection, spec: Any, query: Any, parts: Sequence[pa.Table]
    ) -> pa.Table | None:
        """See `WindowKind`."""
        raise TypeError("windows that end at instants are those of all partitions")

    @staticmethod
    def window_at(query: Any, now: int, before: int) -> OneWindow | None:
        """See `WindowKind`."""
        start = start_of_last(query.window, now, before)
        # Before the first landmark there is no window.
        return None if start >= before else OneWindow(start, start, bounded(query, start, now, before))

    @staticmethod
    def cheapest(pond: str, stream: StreamDefinition, query: Any, spec: Any, segments: Sequence[Segment]) -> Spec:
        """See `WindowKind`: without panes where windows are cheaper to make straight from rows."""
        window, plain = query.window, panes_spec(query, stream)
        # A window that is one pane is made straight from rows anyhow.
        if not isinstance(window, TimeWindow) or window.range in (WHOLE, plain.panes.width):
            return cast(Spec, spec)
        decision = None if len(query.windows) > 1 else decision_for(pond, stream, query, plain, segments)
        return cast(Spec, spec) if decision is None or decision.plan != "direct" else without_panes(spec, window)

    @staticmethod
    def chunk_of(owner: str, spec: Any, epoch: int, rows: pa.Table) -> Chunk:
        """See `WindowKind`."""
        return pane_chunk(owner, spec, epoch, rows)

    def open_now(
        self, db: duckdb.DuckDBPyConnection, state: Any, standing: Standing, high: int, progress: Windowed
    ) -> pa.Table | None:
        """See `WindowOperator`."""
        return open_answers(db, self.spec, query_of(standing), standing.definition.options, state, high, progress)

    def smooth(
        self, task: MergeTask, state: Any, closing: Closing[Any], result: Advanced[WindowProgress], owner: str
    ) -> Advanced[WindowProgress]:
        """See `WindowOperator`."""
        return smoothed(task.db, self.spec, state, closing, result, task.manifest.clock, owner)

    def waiting(
        self, db: duckdb.DuckDBPyConnection, query: WindowedQuery, answers: pa.Table, progress: Windowed
    ) -> npt.NDArray[np.bool_]:
        """See `WindowOperator`."""
        return wait(db, query, answers, progress)

    def closes(self, standing: Standing, known: QueryProgress, reached: int, high: int) -> bool:
        """See `WindowOperator`."""
        window = query_of(standing).window
        # The first end that is not closed yet; nothing was closed while the bound was not known.
        end = first_end_after(window, known.closed if known.closed > NEVER else high)
        return end <= reached and (standing.definition.options.empty == "report" or begin_of(window, end) <= high)

    def due_by_clock(self, standing: Standing, known: QueryProgress, clock: int) -> bool:
        """See `Answering`."""
        definition = standing.definition
        return super().due_by_clock(standing, known, clock) or flush_due(
            definition.query, definition.options, known.read(self.progress_kind), clock
        )

    @classmethod
    def check(cls, query: Any, options: QueryOptions, streams: Sequence[StreamDefinition]) -> None:
        """See `Answering`."""
        check_gaps(query, options, streams, cover_of(panes_of(query.window), query.window))
        if options.flush != "at once":
            check_slots(query, options, streams)

    @classmethod
    def reads_since(cls, query: Any, start: int) -> int | None:
        """See `Answering`."""
        window = query.window
        return max(NEVER, start - window.range) if isinstance(window, TimeWindow) else None

    @classmethod
    def next_end(cls, query: Any, closed: int, high: int) -> int:
        """See `Answering`."""
        window = query.window
        if window.landmarks and not window.range:  # no window ends up to the first landmark
            closed = max(closed, min(landmark_zero(mark) for mark in window.landmarks))
        return first_end_after(window, closed)

    def uses(self, standing: Standing, known: QueryProgress | None, before: int, bound: int, high: int) -> bool:
        """See `Answering`."""
        window, delay = query_of(standing).window, standing.definition.options.delay
        return last_end_until(window, bound - delay) > before - delay

    @classmethod
    def view(cls, standing: Standing, owner: str) -> str:
        """See `Answering`."""
        query = query_of(standing)
        behind = dict.fromkeys(query.behind(a) or query.window for a in query.aggregates)
        return " and ".join(window_text(window) for window in behind or (query.window,))

    def pane_text(self) -> str:
        """See `WindowOperator`."""
        panes = self.spec.panes
        match panes:
            case Panes():
                return duration(panes.width)
            case CalendarPanes():
                return str(panes.span)
            case KindPanes():
                return panes.kind.split("@")[0]
            case _:
                assert_never(panes)

    def low_of(self, standing: Standing, answered: int) -> int:
        """See `WindowOperator`: a pane."""
        return open_pane(self.synopsis, standing, answered)

    def settle(self, task: MergeTask, state: PaneState) -> None:
        """See `WindowOperator`."""
        state.settled = self._settled(task)

    def _settled(self, task: MergeTask | CompactTask) -> int:
        manifest = task.manifest
        return settled_pane(self.catalog, self.synopsis, manifest.progress.get, manifest.queries.get, task.failures)

    def compacted_as(self, kind: str) -> str:
        """See `Operator`: both forms of pane rows together."""
        return PANES if kind == TUPLES else kind

    def compact_state(self, task: CompactTask, chunks: Sequence[Chunk]) -> list[Chunk]:
        """See `WindowOperator`."""
        if chunks[0].kind == MODES:
            return put_together(task.db, task.manifest, self.catalog, self.synopsis, chunks, task.failures)
        return self._partials(task, chunks) if self.spec.form == "eager" else self._forms(task, chunks)

    def _partials(self, task: CompactTask, chunks: Sequence[Chunk]) -> list[Chunk]:
        table = merge_cuts(task.db, self.spec, [c.table for c in chunks])
        if not any(self.waits(task.manifest, q) for q in self.users()):
            table = without_cut(task.db, self.spec, table)
        table = fold_prefix(task.db, self.spec, table, self._settled(task))
        low = self.spec.panes.pane(self.needed_since(task))
        table = table.filter(pc.greater_equal(table["pane"], low)) if table.num_rows else table
        return [pane_chunk(self.owner, self.spec, max(c.epoch for c in chunks), table)] if table.num_rows else []

    def _forms(self, task: CompactTask, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Pane rows of both forms put together, each in the form that is smaller now."""
        db, spec = task.db, self.spec
        eager = eager_groups(db, task.pond, task.manifest, self.catalog, self.synopsis, task.shard, task.failures)
        low = spec.panes.pane(self.needed_since(task))
        tables = [c.table.filter(pc.greater_equal(c.table["pane"], low)) for c in chunks]
        tuples = [t for t in tables if are_tuples(t)]
        partials = [t for t in tables if not are_tuples(t)]
        if not any(self.waits(task.manifest, q) for q in self.users()):
            tuples = [t.drop_columns([CUT]) if CUT in t.column_names else t for t in tuples]
            partials = [without_cut(db, spec, t) for t in partials]
        forms = settled(db, spec, partials, tuples, eager)
        return [pane_chunk(self.owner, spec, max(c.epoch for c in chunks), t) for t in forms.tables]
