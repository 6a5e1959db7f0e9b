"""Ad hoc SELECTs of CQL: a relation as it is now, or a stream of changes up to now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from millpond.answers.constant_relations import relation_of
from millpond.answers.relation_answers import INPUT_ROWS, answered, in_order, inputs_of, outputs_of, relation_at, told
from millpond.answers.row_queries.moments import now_of
from millpond.catalog import Catalog
from millpond.engine.pond_view import PondView
from millpond.manifests.records import Published
from millpond.operators.registry import relations_over
from millpond.operators.relational.history import HeldStream, InputReader
from millpond.progress import FOREVER, StreamProgress
from millpond.relations import shown
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers
from millpond.types import Column, RelationalQuery


def select_relational(
    pond: PondView, query: RelationalQuery, held: Mapping[int, HeldStream] = MappingProxyType({})
) -> pa.Table:
    """An ad hoc SELECT of CQL: the relation as it is NOW, or its stream of changes up to NOW.

    Args:
        held: streams that are rows in memory, by id.
    Raises: QueryError when it cannot be evaluated.
    """
    with pond.pinned():  # what it probes is read while it is evaluated
        return _select(pond, query, held)


def _select(pond: PondView, query: RelationalQuery, held: Mapping[int, HeldStream]) -> pa.Table:
    published = pond.published
    further = {str(number): each.progress for number, each in held.items()}
    published = replace(published, progress={**published.progress, **further})
    reader = InputReader(pond.archives, query, published, most=INPUT_ROWS, held=held)
    now = now_of(published, inputs_of(reader.catalog, query))
    outputs = [Column(o.name, o.type) for o in query.select]

    def tables() -> dict[str, pa.Table]:
        return {each.alias: relation_of(pond, each) for each in query.tables}

    if not query.makes_stream:
        now = -FOREVER if now is None else now  # the relation over nothing
        found = relation_at(reader, query, now, tables)
        sql = f"SELECT {outputs_of(query)} FROM f{in_order(query)}"
        return told(query_table(connection(), sql, f=found), reader.scans)

    def changes() -> pa.Table | None:
        bounds = _bounds(reader.catalog, published, query)
        found = relations_over(query).past_changes(reader, query, now, bounds, tables)
        if found is None:
            return None
        zeros = pa.array(np.zeros(found.num_rows, np.int64))
        return shown(connection(), query, found.append_column("_revision", zeros))

    table = answered(changes)
    if table is None:
        return empty_answers(connection(), [Column("at", "TIMESTAMP"), *outputs])
    return told(table.drop_columns(["revision", "op"]), reader.scans)


def _bounds(catalog: Catalog, published: Published, query: RelationalQuery) -> list[int]:
    """How far inputs are, each by itself; an idle one is as far as the others."""
    found = []
    for item in query.inputs:
        streams = catalog.streams_named(item.names)
        states = [published.progress.get(str(s.id), StreamProgress()) for s in streams]
        awake = [s.bound for s in states if not s.idle]
        found.append((min(awake) if awake else max(s.bound for s in states), not awake))
    other = min((bound for bound, idle in found if not idle), default=max(bound for bound, _ in found))
    return [max(bound, other) if idle else bound for bound, idle in found]
