"""What EXPLAIN says of windows that end with rows: which they are, and what is kept for them."""

from __future__ import annotations

from millpond.synopses.row_partials import RowsSpec
from millpond.types import CountWindow, RowWindowQuery
from millpond.types.durations import duration
from millpond.types.plan_nodes import Fact, said


def row_window_facts(query: RowWindowQuery, spec: RowsSpec) -> list[Fact]:
    """What there is to say of a query over windows that end with rows, by the rows that it needs."""
    window = query.window
    extent = (
        f"the last {window.rows} rows"
        if isinstance(window, CountWindow)
        else f"the rows of the last {duration(window.range)}"
    )
    of = f" of each {', '.join(str(k.expression) for k in window.partition)}" if window.partition else ""
    every = "each row" if window.slide == 1 else f"every {window.slide}th row"
    found = [Fact("window", f"{extent}{of}, ending with {every} by {window.numbered}")]
    if query.where:
        found.append(Fact("filter", f"{query.where}; it chooses among the rows of a window and cannot go below it"))
    if query.keys:
        found.append(Fact("keys", ", ".join(str(k.expression) for k in query.keys)))
    kept, each = spec.rows, " of each partition" if window.partition else ""
    tail = f"the last {kept.rows} rows" if kept.rows else f"the rows of the last {duration(kept.range)}"
    behind = f"kept behind {duration(kept.behind)} before the watermark: {tail}{each}, and a number{each}"
    return [
        *found,
        Fact("kept", "every row, with the components of its own, as long as late rows can revise windows"),
        said("kept", behind),
        Fact("shards", "by partition" if kept.partition else "one has all rows, since numbers run through them"),
    ]
