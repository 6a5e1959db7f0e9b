"""Rows that are joined with tables before they enter a window; see `lookup_versions` for what they see of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa

from millpond.manifests.records import Manifest
from millpond.sources.table_sources.versions import table_version
from millpond.support.errors import SourceError
from millpond.synopses import connection, query_ordered
from millpond.synopses.blocks import event_times
from millpond.synopses.tolerance import tolerant
from millpond.types import Lookup


def live_lookup(lookup: Lookup, owner: str, manifest: Manifest) -> Lookup:
    """The join of a synopsis as the rows of an epoch see it. Raises: SourceError when a table was never read."""
    found = manifest.lookups.get(owner)
    if found is None:
        unread = [(t, manifest.unread.get(str(t.id))) for t in lookup.tables if not manifest.tables.get(str(t.id))]
        raise SourceError(next((why for _, why in unread if why), f"table '{lookup.tables[0].name}' was not read yet"))
    return replace(lookup, seen=found)


def joined_rows(pond: str, rows: pa.Table, lookup: Lookup, time: str) -> pa.Table:
    """Rows as they are joined with tables: theirs, in their order, with the columns of the tables.

    Arguments:
        rows: of the stream, with event times in the column `time`.
    """
    stretches = lookup.seen
    starts = np.array([s.since for s in stretches[1:]], np.int64)
    place = np.searchsorted(starts, event_times(rows, time), side="right") if len(starts) else None
    parts = []
    for number in np.unique(place).tolist() if place is not None and len(place) else [len(stretches) - 1]:
        versions = stretches[number].versions
        tables = {t.alias: table_version(pond, t, versions[str(t.id)]) for t in lookup.tables}
        own = None if place is None or not len(place) else np.flatnonzero(place == number)
        parts.append(_joined(rows if own is None else rows.take(pa.array(own)), lookup, tables))
    if len(parts) == 1:
        return parts[0]
    whole = pa.concat_tables(parts, promote_options="permissive")
    return whole.take(pa.array(np.argsort(whole["_id"].to_numpy(), kind="stable")))


def tolerant_join(pond: str, rows: pa.Table, lookup: Lookup, time: str) -> tuple[pa.Table, pa.Table | None]:
    """As `joined_rows`, and the rows on which the condition fails, with their `_reason` (None: there are none)."""
    return tolerant(lambda some: joined_rows(pond, some, lookup, time), rows)


def of_stream(failed: pa.Table | None, stream: Sequence[str]) -> pa.Table | None:
    """Rows that failed once they were joined, as rows of the stream, each once; stream: the columns that it has."""
    if failed is None or set(failed.column_names) <= {*stream, "_reason"}:
        return failed
    _, first = np.unique(failed["_id"].to_numpy(), return_index=True)
    return failed.select([*stream, "_reason"]).take(pa.array(np.sort(first)))


def _joined(rows: pa.Table, lookup: Lookup, tables: Mapping[str, pa.Table]) -> pa.Table:
    count = rows.num_rows
    asked = rows.select(list(lookup.needs)).append_column(lookup.number, pa.array(np.arange(count, dtype=np.int64)))
    found = query_ordered(connection(), lookup.sql, **{lookup.alias: asked}, **tables)
    place = found[lookup.number].to_numpy()
    rising = bool(np.all(place[1:] > place[:-1]))
    if not rising:
        met, times = np.unique(place, return_counts=True)
        if len(met) == len(place):
            found = found.take(pa.array(np.argsort(place)))
        elif lookup.one:
            raise duckdb.InvalidInputException(
                f"it meets {int(times.max())} rows of {lookup.tables[0].name}, and a window that counts rows counts"
                " each once: a row may meet one row of a table at most"
            )
        else:  # what a row meets stands in one order, however the join found it
            found = query_ordered(connection(), "SELECT * FROM found ORDER BY ALL", found=found)
        place = found[lookup.number].to_numpy()
    columns = {c.name: found[c.name] for c in lookup.columns}
    if lookup.one:
        at = np.full(count, -1, np.int64)
        at[place] = np.arange(len(place))
        taken = pa.array(at, mask=at < 0)
        columns = {name: values.take(taken) for name, values in columns.items()} | {lookup.met: pa.array(at >= 0)}
    elif len(place) != count or not rising:
        rows = rows.take(pa.array(place))
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows
