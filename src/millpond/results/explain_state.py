"""What EXPLAIN ANALYZE says of state: which groups are kept in which form, and what the other form would take."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Standing
from millpond.distinct import distinct
from millpond.engine.core import Core
from millpond.engine.cuts import CUT
from millpond.engine.forms import TUPLES, are_tuples, as_partials, row_bytes
from millpond.engine.segments import row_schema
from millpond.engine.state import PANES, state_folder
from millpond.synopses import PanesSpec, connection, merge_partials
from millpond.synopses.panes import carried_by, group_codes
from millpond.tables import read_chunks
from millpond.types import StreamDefinition


def state_lines(core: Core, standing: Standing) -> list[str]:
    """Groups and bytes of each form of the query's synopsis, as the state files hold them now."""
    synopsis = core.catalog.synopses[standing.synopsis]
    spec, stream = synopsis.spec, core.catalog.stream_of(standing)
    if spec.rows is not None:
        return []
    asked = standing.definition.options.state
    head = f"state: {spec.form}"
    if asked != spec.form:
        head += f" ('{asked}' is for windows of a fixed RANGE and aggregates of bare columns)"
    with core.pinned():
        paths = [os.path.join(state_folder(core.path), s.path) for s in core.state.segments]
        tables = [
            c.table.drop_columns([CUT]) if CUT in c.table.column_names else c.table
            for c in read_chunks(paths, {synopsis.owner}, lambda _o, kind, _e, _l, _h: kind in (PANES, TUPLES))
        ]
    tables = [t for t in tables if t.num_rows]
    if not tables:
        return [f"{head}; nothing is kept"]
    db = connection()
    partials, tuples = [t for t in tables if not are_tuples(t)], [t for t in tables if are_tuples(t)]
    whole = merge_partials(db, spec, [as_partials(db, spec, t) for t in tables])
    lazy, eager = _groups(spec, tuples, partials)
    held = [sum(t.nbytes for t in part) for part in (partials, tuples)]
    lines = [
        f"{head}; groups: {len(eager - lazy)} as partials, {len(lazy - eager)} as tuples,"
        f" {len(eager & lazy)} in transition (both)",
        f"  bytes: {sum(held)} (partials {held[0]}, tuples {held[1]})",
        f"  all as partials: {whole.nbytes} bytes",
    ]
    width = _tuple_bytes(spec, stream, whole)
    if width is not None:
        lines.append(f"  all as tuples: about {width * pc.sum(whole['n']).as_py()} bytes")
    return lines


def _groups(spec: PanesSpec, tuples: list[pa.Table], partials: list[pa.Table]) -> tuple[set[int], set[int]]:
    """The groups that have tuples, and those that have partials, as codes."""
    names = list(spec.key_names) or ["pane"]
    keys = pa.concat_tables([t.select(names) for t in (*tuples, *partials)], promote_options="permissive")
    codes = group_codes(connection(), spec, keys)
    at = sum(t.num_rows for t in tuples)
    return set(distinct(codes[:at]).tolist()), set(distinct(codes[at:]).tolist())


def _tuple_bytes(spec: PanesSpec, stream: StreamDefinition, partials: pa.Table) -> int | None:
    """Bytes of a tuple of the synopsis; None when none could stand for a partial."""
    carried = carried_by(spec, stream)
    if carried is None:
        return None
    schema = row_schema(stream)
    kinds = {'"' + f.name.replace('"', '""') + '"': f for f in schema}
    fields = [partials.schema.field(n) for n in ("pane", *spec.key_names)]
    fields += [kinds.get(c, pa.field(f"x{i}", pa.int64())).with_name(f"x{i}") for i, c in enumerate(carried)]
    return row_bytes(pa.schema(fields))
