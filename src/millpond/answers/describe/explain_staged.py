"""EXPLAIN of a SELECT over streams without a name that nobody has registered."""

from __future__ import annotations

import pyarrow as pa

from millpond.answers.describe.explain_windows import window_line
from millpond.answers.relational import explain_relational
from millpond.engine.core import Core
from millpond.functions import display
from millpond.types import RelationalQuery, Staged, WindowedQuery, WindowQuery


def explain_staged(core: Core, staged: Staged) -> pa.Table:
    """How it would be answered, a line a row."""
    lines = []
    for each in staged.inner:
        lines.append(f"query over {each.name}, an epoch after they form")
        assert isinstance(each.query, RelationalQuery)  # else it is no stream
        lines += [f"  {line}" for line in explain_relational(core, each.query, None)["plan"].to_pylist()]
    query = staged.query
    if isinstance(query, WindowQuery):
        lines.append(window_line(query.window))
    if isinstance(query, WindowedQuery):
        lines += [f"filter: {query.where}"] if query.where else []
        lines += [f"keys: {', '.join(k.expression for k in query.keys)}"] if query.keys else []
    lines.append("it would be a standing query: CREATE QUERY q AS SELECT …")
    return pa.table({"plan": pa.array([display(line) for line in lines])})
