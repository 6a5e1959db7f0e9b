"""SHOW FUNCTIONS: the Python functions that queries may call, and who does."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millpond.catalog.catalogs import Catalogs
from millpond.types.sql_expressions import registered_in


def show_functions(catalogs: Catalogs) -> pa.Table:
    """The registered functions, a row each.

    `cost`: microseconds that a row was said to take; NULL: nothing was said, and it is measured. `vectorised`: it takes
    columns, else it is called row by row. `queries`: what calls it.
    """
    catalog = catalogs.catalog
    found = sorted(catalog.functions.values(), key=lambda f: f.name)
    users = [", ".join(each) for each in users_of(catalogs, [f.reference for f in found])]
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


def users_of(catalogs: Catalogs, references: Sequence[str]) -> list[list[str]]:
    """Of each function the names of the queries, streams and summaries that call it, in order.

    Arguments:
        references: of the functions.
    """
    catalog, register = catalogs.catalog, catalogs.register
    users = [(n, q.definition.query.registered) for q in catalog.queries.values() for n in catalog.known_as(q)]
    users += [(s.name, registered_in(s.derived)) for s in catalog.shown_streams()]
    users += [
        (f"a summary of {catalog.streams[s.stream].name}", registered_in(s.spec)) for s in catalog.summaries.values()
    ]
    for number in register.listing()["id"].to_pylist() if len(register) and references else ():
        registered = register.get(number)
        users.append((registered.name, registered_in(registered.selection)))
    return [sorted({name for name, called in users if reference in called}) for reference in references]
