"""Columns that are computed of others as rows are read: `ts TIMESTAMP AS (epoch_ms(t))`, or of `event_time`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.sources.formats.carriers import Carrier, carriers, typed_select
from millpond.sources.formats.convert import Mask
from millpond.synopses.tolerance import bisect
from millpond.types import Generated, StreamDefinition

Failed = Callable[[Mask, str], None]


def generate(
    columns: Mapping[str, pa.ChunkedArray], definition: StreamDefinition, db: duckdb.DuckDBPyConnection, failed: Failed
) -> dict[str, pa.ChunkedArray]:
    """The generated columns of a stream, by name in small letters, in their carried types.

    Arguments:
        columns: the others, by name in small letters, in their carried types.
        failed: is told which rows an expression fails on, and why.
    """
    known = {c.name.lower(): c for c in carriers(definition)}
    read = [c for name, c in known.items() if name in columns]
    rows = pa.table([columns[c.name.lower()] for c in read], names=[c.name for c in read])
    inner = f"SELECT {typed_select(definition, rows.column_names)} FROM millpond_rows"
    made = {}
    for each in definition.options.generated:
        carrier = known[each.column.lower()]
        made[carrier.name.lower()] = _column(each, carrier, inner, rows, db, failed)
    return made


def _column(
    each: Generated, carrier: Carrier, inner: str, rows: pa.Table, db: duckdb.DuckDBPyConnection, failed: Failed
) -> pa.ChunkedArray:
    value = f"CAST({each.sql} AS {carrier.declared})"
    make = partial(_query, db, f"SELECT CAST({value} AS {carrier.carried}) AS c FROM ({inner})")
    try:
        return make(rows)["c"].cast(carrier.arrow)
    except duckdb.Error:
        found = _query(db, f"SELECT TRY(CAST({value} AS {carrier.carried})) AS c FROM ({inner})", rows)["c"]
    # what fails is NULL, as may be what does not: these rows are tried one by one
    places, place = pa.array(np.flatnonzero(found.is_null().to_numpy())), "__place"
    while place in rows.column_names:
        place += "_"
    parted = bisect(lambda some: make(some.drop_columns(place)), rows.take(places).append_column(place, places))
    if parted.failed is not None:
        for reason in pc.unique(parted.failed["_reason"]).to_pylist():
            of_it = parted.failed.filter(pc.equal(parted.failed["_reason"], reason))
            mask = np.zeros(rows.num_rows, np.bool_)
            mask[of_it[place].to_numpy()] = True
            failed(mask, f"column '{carrier.name}': {reason}")
    return found.cast(carrier.arrow)


def _query(db: duckdb.DuckDBPyConnection, sql: str, rows: pa.Table) -> pa.Table:
    db.register("millpond_rows", rows)
    try:
        return db.sql(sql).to_arrow_table()
    finally:
        db.unregister("millpond_rows")


__all__ = ["generate"]
