"""SHOW FUNCTIONS: the Python functions that queries may call, and who does."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from millpond.engine.core import Core
from millpond.types import to_json


def show_functions(core: Core) -> pa.Table:
    """The registered functions, a row each.

    `cost`: microseconds that a row was said to take; NULL: nothing was said, and it is measured. `vectorised`: it takes
    columns, else it is called row by row. `queries`: what calls it.
    """
    catalog = core.catalog
    found = sorted(catalog.functions.values(), key=lambda f: f.name)
    users = [", ".join(each) for each in users_of(core, [f.reference for f in found])]
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


def users_of(core: Core, references: Sequence[str]) -> list[list[str]]:
    """Of each function the names of the queries, streams and summaries whose text calls it, in order.

    Arguments:
        references: what the functions are called in bound text.
    """
    catalog, register = core.catalog, core.register
    texts = [(n, json.dumps(to_json(q))) for q in catalog.queries.values() for n in catalog.known_as(q)]
    texts += [(s.name, json.dumps(to_json(s))) for s in catalog.shown_streams()]
    summaries = catalog.summaries.values()
    texts += [(f"a summary of {catalog.streams[s.stream].name}", json.dumps(to_json(s))) for s in summaries]
    found = [{name for name, text in texts if reference in text} for reference in references]
    for number in register.listing()["id"].to_pylist() if len(register) and references else ():
        registered = register.get(number)
        text = repr(registered.selection)
        for names, reference in zip(found, references, strict=True):
            if reference in text:
                names.add(registered.name)
    return [sorted(names) for names in found]


__all__ = ["show_functions", "users_of"]
