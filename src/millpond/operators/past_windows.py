"""Windows of the past, whichever kind they are of: what back-fills, ad hoc SELECTs and INVOKE answer with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.records import QueryProgress
from millpond.operators.panes.catching_up import catch_up as catch_up_panes
from millpond.operators.panes.state import pane_chunk
from millpond.operators.rows.advance import catch_up as catch_up_rows
from millpond.operators.rows.state import row_chunk
from millpond.operators.windowed.closing import Closing
from millpond.synopses import PanesSpec
from millpond.synopses.partials.dispatch import Spec
from millpond.synopses.row_partials import RowsSpec
from millpond.tables import Chunk


@dataclass
class HistoryState:
    """A state that holds nothing but its delta (see `evaluation.State`). whole: rows, of which all have a say."""

    delta: pa.Table = field(default_factory=lambda: pa.table({}))
    whole: bool = False

    def show(self, delta: pa.Table) -> None:
        """Exchange the delta."""
        self.delta = delta

    def before(self, low: int) -> pa.Table:
        """Nothing was there before."""
        return pa.table({})

    def after(self, low: int) -> pa.Table:
        """Pane rows from pane `low` on."""
        if self.whole:
            return self.delta
        return self.delta.filter(pc.greater_equal(self.delta["pane"], low)) if self.delta.num_rows else self.delta


def close_history(
    db: duckdb.DuckDBPyConnection, spec: Spec, parts: Sequence[pa.Table], closing: Closing[Any]
) -> tuple[pa.Table | None, QueryProgress]:
    """Answers of the windows that end after what `closing` says was answered, and until its bound.

    A late row of a stream with late='drop' (its `cut` is the progress it was behind) counts only in windows that were
    open then, exactly as it did live. Under 'revise' all rows count.

    Args:
        parts: partials of all rows. closing: with 'drop' as what late rows do, since none comes any more.
    """
    match spec:
        case PanesSpec():
            result = catch_up_panes(db, spec, HistoryState(), parts, closing)
        case RowsSpec():
            result = catch_up_rows(db, spec, HistoryState(whole=True), parts, closing)
        case _:
            assert_never(spec)
    return result.answers, result.progress


def state_chunk(owner: str, spec: Spec, epoch: int, rows: pa.Table) -> Chunk:
    """The chunk that stores what a back-fill leaves of a synopsis."""
    match spec:
        case PanesSpec():
            return pane_chunk(owner, spec, epoch, rows)
        case RowsSpec():
            return row_chunk(owner, epoch, rows)
        case _:
            assert_never(spec)
