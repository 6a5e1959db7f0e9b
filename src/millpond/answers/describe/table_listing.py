"""SHOW TABLES: where each table is, what was read of it and when, and what went wrong."""

from __future__ import annotations

import pyarrow as pa

from millpond.engine.pond_view import PondView
from millpond.sources.table_sources.versions import TableState
from millpond.types import TableDefinition
from millpond.types.durations import duration
from millpond.types.instants import moment
from millpond.types.plan_nodes import Fact, said


def show_tables(pond: PondView) -> pa.Table:
    """The tables, a row each; `problem` says why the last reading failed, NULL where it did not."""
    found = [(t, pond.tables.state(t)) for t in pond.catalog.tables.values()]
    return pa.table(
        {
            "table": pa.array([t.name for t, _ in found], pa.string()),
            "path": pa.array([t.path for t, _ in found], pa.string()),
            "format": pa.array([t.format or t.driver for t, _ in found], pa.string()),
            "reload": pa.array([_reload(t) for t, _ in found], pa.string()),
            "version": pa.array([s.version or None for _, s in found], pa.int64()),
            "rows": pa.array([s.rows if s.version else None for _, s in found], pa.int64()),
            "read_at": pa.array([None if s.read_at is None else moment(s.read_at) for _, s in found], pa.string()),
            "problem": pa.array([_problem(pond, t, s) or None for t, s in found], pa.string()),
        }
    )


def table_fact(pond: PondView, name: str) -> Fact:
    """What EXPLAIN says of a table (or of whatever else is constant) that a relation reads."""
    table = pond.catalog.lookup(name)
    if not isinstance(table, TableDefinition):
        return Fact("constant", name)
    state = pond.tables.state(table)
    read = f"version {state.version}, {state.rows} rows" if state.version else "not read yet"
    holds = f"; rows hold from {table.valid_from}" if table.valid_from is not None else ""
    holds += f" until {table.valid_to}" if table.valid_to is not None else ""
    told = _problem(pond, table, state)
    problem = f"; cannot be read now: {told}" if told else ""
    return said("table", f"table {name}: {read}{holds}{problem}")


def _problem(pond: PondView, table: TableDefinition, state: TableState) -> str:
    """Why the last reading failed; of one that its database has not answered, for how long by now."""
    waits, most = pond.tables.waits(table), pond.settings.table_timeout
    if waits is None or waits < most:
        return state.problem
    return f"table '{table.name}': its database has not answered for {waits:.0f} s (table_timeout is {most:g} s)"


def _reload(table: TableDefinition) -> str:
    return duration(table.reload) if isinstance(table.reload, int) else table.reload
