"""Measure: what windows of a query look like on its stream, for the cost rule of panes."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow.compute as pc

from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.synopses import PanesSpec, connection, partial
from millpond.synopses.folds import is_exact
from millpond.tables import Segment
from millpond.types import StreamDefinition, TimeWindow, WindowQuery
from millpond.windows.costs import Decision, Measured, decide

#: Rows that are looked at.
SAMPLE = 100_000


def decision_for(
    pond: str, stream: StreamDefinition, query: WindowQuery, spec: PanesSpec, segments: Sequence[Segment]
) -> Decision | None:
    """The cost rule on the newest rows of a stream's archive; None where it does not apply: no rows, or no RANGE."""
    window = query.window
    if not isinstance(window, TimeWindow) or query.lookup is not None or not segments:
        return None
    newest = max(segments, key=lambda s: (s.high, s.path))
    # As long a stretch at the end of the file as holds about so many rows: the rest of it is not read.
    low = newest.high - (newest.high - newest.low) * min(SAMPLE, newest.rows) // max(1, newest.rows)
    rows = ArchiveReader(pond, stream, spec.columns_of(stream)).table([whole_files([newest], Range(low))])
    rows = rows.slice(max(0, rows.num_rows - SAMPLE))
    try:
        made = partial(connection(), spec, rows)
    except duckdb.Error:  # a row on which an expression fails: the query itself will say so
        return None
    if not made.num_rows:
        return None
    panes = len(pc.unique(made["pane"]))
    width, step, _ = spec.panes.shape(window)
    measured = Measured(pc.sum(made["n"]).as_py() / panes * width, width, step, made.num_rows / panes)
    return decide(measured, any(is_exact(c, made) for c in spec.components))
