"""SHOW FUNCTIONS: the Python functions that queries may call, and who does."""

from __future__ import annotations

import pyarrow as pa

from millpond.engine.core import Core
from millpond.types import to_json


def show_functions(core: Core) -> pa.Table:
    """The registered functions, a row each.

    `cost`: microseconds that a row was said to take; NULL: nothing was said, and it is measured. `vectorised`: it takes
    columns, else it is called row by row. `queries`: the standing queries that call it.
    """
    catalog = core.catalog
    found = sorted(catalog.functions.values(), key=lambda f: f.name)
    texts = [(n, str(to_json(q.definition.query))) for q in catalog.queries.values() for n in catalog.known_as(q)]
    texts += [(s.name, str(to_json(s.derived))) for s in catalog.shown_streams() if s.derived is not None]
    users = [", ".join(sorted({n for n, text in texts if f.reference in text})) for f in found]
    return pa.table(
        {
            "function": pa.array([f.name for f in found], pa.string()),
            "arguments": pa.array([", ".join(f.arguments) for f in found], pa.string()),
            "returns": pa.array([f.returns for f in found], pa.string()),
            "cost": pa.array([f.cost for f in found], pa.float64()),
            "vectorised": pa.array([f.vectorised for f in found], pa.bool_()),
            "queries": pa.array([u or None for u in users], pa.string()),
        }
    )


__all__ = ["show_functions"]
