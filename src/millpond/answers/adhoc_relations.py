"""Ad hoc SELECTs of CQL: a relation as it is now, or a stream of changes up to now."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millpond.answers.relational import INPUT_ROWS, contents_of, inputs_of, outputs_of, relation_at, told
from millpond.answers.row_queries.moments import now_of
from millpond.answers.table_selects import relation_of
from millpond.engine.core import Core
from millpond.manifests.records import Published
from millpond.operators.pairs.advance import all_pairs
from millpond.operators.relational.history import InputReader
from millpond.operators.relational.readers import FAULTS
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import answers, shown
from millpond.support.errors import QueryError
from millpond.synopses import connection, query_table
from millpond.synopses.finish import empty_answers
from millpond.synopses.tolerance import one_line
from millpond.types import Column, PairsQuery, RelationalQuery, RelationQuery


def select_relational(core: Core, query: RelationalQuery) -> pa.Table:
    """An ad hoc SELECT of CQL: the relation as it is NOW, or its stream of changes up to NOW.

    Raises: QueryError when it cannot be evaluated.
    """
    with core.pinned():  # what it probes is read while it is evaluated
        return _select(core, query)


def _select(core: Core, query: RelationalQuery) -> pa.Table:
    published = core.published
    now = now_of(published, inputs_of(core, query))
    outputs = [Column(o.name, o.type) for o in query.select]
    reader = InputReader(core.archives, query, published, most=INPUT_ROWS)

    def tables() -> dict[str, pa.Table]:
        return {each.alias: relation_of(core, each) for each in query.tables}

    if isinstance(query, RelationQuery) and not query.makes_stream:
        if now is None:
            now = -FOREVER  # the relation over nothing
        found = relation_at(reader, query, now, tables)
        sql = f"SELECT {outputs_of(query)} FROM f ORDER BY ALL"
        return told(query_table(connection(), sql, f=found), reader.scans)
    paired = isinstance(query, PairsQuery)  # pairs do not wait for the stream that is behind
    if now is None and not paired:
        return empty_answers(connection(), [Column("at", "TIMESTAMP"), *outputs])
    inputs = reader.read(NEVER, None if paired else now)
    try:
        if isinstance(query, PairsQuery) or now is None:
            assert isinstance(query, PairsQuery)
            found = all_pairs(connection(), query, inputs, _bounds(core, published, query))
        else:
            found = answers(connection(), query, contents_of(query, inputs, None), tables(), NEVER, now + 1)
        zeros = pa.array(np.zeros(found.num_rows, np.int64))
        table = shown(connection(), query, found.append_column("_revision", zeros))
    except FAULTS as error:
        raise QueryError(f"the query cannot be answered: {one_line(error)}") from error
    return told(table.drop_columns(["revision", "op"]), reader.scans)


def _bounds(core: Core, published: Published, query: RelationalQuery) -> tuple[int, int]:
    """How far the two inputs of pairs are, each by itself; an idle one is as far as the other."""
    found = []
    for item in query.inputs:
        streams = [s for name in item.names if (s := core.catalog.stream(name)) is not None]
        states = [published.progress.get(str(s.id), StreamProgress()) for s in streams]
        awake = [s.bound for s in states if not s.idle]
        found.append((min(awake) if awake else max(s.bound for s in states), not awake))
    other = min((bound for bound, idle in found if not idle), default=max(bound for bound, _ in found))
    first, second = (max(bound, other) if idle else bound for bound, idle in found)
    return first, second


__all__ = ["select_relational"]
