"""What EXPLAIN and SHOW QUERIES say of row queries."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.describe.describe import show_windows
from millpond.answers.describe.explain_reduction import analysis_lines, reduction_lines
from millpond.answers.describe.explain_windows import duration, moment
from millpond.answers.row_queries.ready import ready_of
from millpond.answers.row_queries.selection import evaluate, select_once
from millpond.catalog import Registered
from millpond.engine.core import Core
from millpond.functions import display
from millpond.types import Edge, GroupScan, RowQuery, Side
from millpond.types.reduction_forms import reduction_text


def explain_selection(
    core: Core, selection: RowQuery, registered: Registered | None, analyze: bool = False
) -> pa.Table:
    """How a row query is answered, a line a row. analyze: where it is reduced it is answered, to tell what is read."""
    names = ", ".join(side.stream for side in selection.sides)
    kind = "the union of streams" if selection.query.feeds else "stream" if len(selection.sides) == 1 else "streams"
    lines = [f"row query over {kind} {names}"]
    for side in selection.sides:
        lines += _side(side, len(selection.sides) > 1)
    if selection.join is not None:
        lines.append(f"join: {selection.join.left} {selection.join.operator} {selection.join.right}")
    if selection.query.where:
        lines.append(f"on joined rows: {selection.query.where}")
    if isinstance(selection.query, GroupScan):
        keys = ", ".join(k.expression for k in selection.query.keys)
        lines.append(f"aggregates at invocation, any window{f'; keys: {keys}' if keys else ''}")
    stream = core.catalog.stream(selection.sides[0].stream)
    if selection.query.reduce is not None and stream is not None:
        if registered is None and not analyze:
            lines += reduction_lines(core, selection.query, stream, None)
        if registered is not None:
            lines.append(f"reduce: {reduction_text(selection.query.reduce)}")
            lines.append(f"rows behind epoch {registered.registered_epoch} are whole; those before are read reduced")
        if analyze:
            answer = select_once(core, selection) if registered is None else evaluate(core, registered)
            lines += analysis_lines(answer.table)
    if registered is None:
        lines.append("ad hoc: nothing is kept")
        return pa.table({"plan": pa.array([display(line) for line in lines])})
    form, reason = ready_of(core).keeper.form(registered.id, registered.options.materialize)
    lines.append(f"materialize: {registered.options.materialize}; now {form}: {reason}")
    last, calls = core.register.usage(registered.id)
    lines.append(f"invoked {calls} times since the pond was opened" + (f", last at {moment(last)}" if calls else ""))
    lines.append(f"status: {registered.status}; registered behind epoch {registered.registered_epoch}")
    others = [len(core.register.table(stream)) for stream in dict.fromkeys(registered.streams)]
    lines.append(f"the predicate index holds {' and '.join(map(str, others))} queries of the stream")
    return pa.table({"plan": pa.array([display(line) for line in lines])})


def _side(side: Side, named: bool) -> list[str]:
    prefix = f"{side.stream}: " if named else ""
    lines = [f"{prefix}window: BEGIN {_edge(side.span.begin)} END {_edge(side.span.end)}"]
    if side.where:
        lines.append(f"{prefix}condition: {side.where}")
    attributes = sorted({i.attribute for box in side.boxes for i in box})
    indexed = [a for a in attributes if a.startswith('"')]
    listed = [a for a in attributes if not a.startswith('"')]
    if indexed:
        lines.append(f"{prefix}predicate index on {', '.join(indexed)}; {len(side.boxes)} alternatives")
    if listed:
        lines.append(f"{prefix}predicate list: {', '.join(listed)}")
    return lines


def _edge(edge: Edge) -> str:
    if edge.kind == "open":
        return "-"
    if edge.kind == "constant":
        return f"TIMESTAMP '{moment(edge.value)}'"
    if edge.kind == "rows":
        return f"NOW - {edge.value} ROWS"
    if edge.value == 0:
        return "NOW"
    return f"NOW {'-' if edge.value < 0 else '+'} {duration(abs(edge.value))}"


def list_queries(core: Core, after: int = -1, most: int = 1000, prefix: str = "") -> tuple[pa.Table, int | None]:
    """A page of SHOW QUERIES, by ascending id; only the register's entries of that page are looked at.

    Arguments:
        after: only larger ids. most: at most so many. prefix: only names that begin so.
    Returns: the page, and where the next one goes on; None: there is none.
    """
    parts = [_chosen(show_windows(core), after, prefix)]
    schema, found, at = parts[0].schema, 0, max(after, 0)
    step = most + 1 if not prefix else max(most + 1, 10_000)
    while found <= most:
        listed = show_selections(core, schema, at, step)
        if not listed.num_rows:
            break
        at = listed["id"][-1].as_py()
        parts.append(_chosen(listed, after, prefix))
        found += parts[-1].num_rows
        if listed.num_rows < step:
            break
    table = pa.concat_tables(parts).sort_by("id")
    page = table.slice(0, most)
    return page, page["id"][-1].as_py() if page.num_rows < table.num_rows else None


def _chosen(listed: pa.Table, after: int, prefix: str) -> pa.Table:
    return listed.filter(pc.and_(pc.greater(listed["id"], after), pc.starts_with(listed["query"], prefix)))


def show_selections(core: Core, schema: pa.Schema, after: int = 0, most: int | None = None) -> pa.Table:
    """The row queries as rows of SHOW QUERIES, whose schema is given; what windows have and they do not is NULL.

    Arguments:
        after: only larger ids. most: at most so many.
    """
    listed = core.register.listing(after=after, most=most)
    ids = pa.array([s.id for s in core.catalog.streams.values()], pa.int64())
    streams = pa.array([s.name for s in core.catalog.streams.values()], pa.string())
    first = streams.take(pc.index_in(listed["stream"].cast(pa.int64()), ids).combine_chunks())
    second = streams.take(pc.index_in(listed["second"].cast(pa.int64()), ids).combine_chunks())
    known_names = {s.id: s.name for s in core.catalog.streams.values()}
    rest = [None if o is None else ", ".join(known_names.get(s, "") for s in o) for o in listed["others"].to_pylist()]
    both = pc.binary_join_element_wise(first, second, pa.array(rest, pa.string()), ", ", null_handling="skip")
    known = {"query": listed["name"], "id": listed["id"], "status": listed["status"], "stream": both}
    columns = [known[f.name] if f.name in known else pa.nulls(listed.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)
