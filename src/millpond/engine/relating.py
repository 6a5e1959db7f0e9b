"""The merge step of relational queries: rows into their stores, answers of the instants that progress has passed.

A query's answer up to an instant is a function of the rows of its stores; an epoch reports how it differs from before.
Late rows within the horizon give the touched instants a second time, and the difference is reported as a revision.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog, Standing, Store
from millpond.engine.advance import Advanced
from millpond.engine.bounds import bound_of, high_of
from millpond.engine.records import Manifest, QueryProgress
from millpond.engine.state import state_folder
from millpond.engine.tolerance import one_line
from millpond.errors import SourceError
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import (
    FOR_EVER,
    Content,
    Ticks,
    answers,
    content_of,
    difference,
    kept,
    merge_rows,
    needed,
    pending,
    spare_of,
)
from millpond.sources.tables import read_table
from millpond.synopses import query_table
from millpond.tables import Chunk, Segment, read_chunks
from millpond.types import BoundQuery, QueryOptions, Relational, StreamDefinition, to_json

#: Chunks of state that are rows of stores.
ROWS = "rows"

#: What a query's own data can raise: it fails the query, not the epoch.
FAULTS = (duckdb.Error, ValueError, pa.ArrowException, OverflowError, SourceError)

Given = Callable[[int, int], pa.Table | None]

#: Rows of a store that are kept in memory without asking whether anybody needs them.
PRUNED = 20_000


@dataclass(frozen=True)
class _Kept:
    """Rows of a store after an epoch; size: how many there were when those that nobody needs were last left out."""

    epoch: int
    rows: pa.Table
    size: int


_kept: dict[tuple[str, str], _Kept] = {}


@dataclass(frozen=True)
class Input:
    """What an epoch has for one input of a query.

    rows: of its store, this epoch's included. stream: what they are of. high: its high watermark after the epoch.
    """

    rows: pa.Table
    stream: StreamDefinition
    high: int


def advance_relation(
    db: duckdb.DuckDBPyConnection,
    query: BoundQuery,
    options: QueryOptions,
    inputs: Sequence[Input],
    tables: Mapping[str, pa.Table],
    progress: QueryProgress,
    bound: int,
    since: int,
    given: Given,
) -> Advanced:
    """Report the instants up to `bound`, and revise reported ones that rows of the epochs from `since` on change.

    Arguments:
        given: (low, high) -> revision numbers given so far to instants in that range: columns end, revision.
    """
    relation = query.relation
    assert relation is not None
    spares = [spare_of(relation, options) if i.stream.options.late == "revise" else 0 for i in inputs]
    items = list(zip(relation.inputs, inputs, spares, strict=True))
    contents = [content_of(db, item, i.rows, spare) for item, i, spare in items]
    fresh_rows = [i.rows.filter(pc.greater_equal(i.rows["_epoch"], since)) for i in inputs]
    arrivals = [_visible(rows, spare) for rows, spare in zip(fresh_rows, spares, strict=True)]
    touched = [a[a < progress.closed] for a in arrivals]
    first_seen = [int(a.min()) for a in arrivals if len(a)]
    first = min([*first_seen, *([progress.first] if progress.first is not None else [])], default=None)
    last = max((_last(item, i.high) for item, i, _ in items if i.high > NEVER), default=NEVER)
    old_last = max((_last(item, _high(i.rows, since)) for item, i, _ in items), default=NEVER)
    revised = None
    late = [int(t.min()) for t in touched if len(t)]
    if late and any(i.stream.options.late == "revise" for i in inputs):
        low, high = max(min(late), progress.start), progress.closed
        if high < FOREVER and all(item.window.kind == "range" for item in relation.inputs):
            highs = [
                int(t.max()) + item.window.range + 2 for t, (item, _, _) in zip(touched, items, strict=True) if len(t)
            ]
            high = min(high, max(highs)) if relation.operator != "rstream" else high
        before = [
            content_of(db, item, i.rows.filter(pc.less(i.rows["_epoch"], since)), spare) for item, i, spare in items
        ]
        old = answers(db, query, before, tables, low, high, _ticks(options, progress.first, old_last))
        new = answers(db, query, contents, tables, low, high, _ticks(options, first, last))
        revised = _revisions(db, query, difference(db, query, old, new), given)
    reported = None
    low = max(progress.closed, progress.start)
    if bound > low:
        found = answers(db, query, contents, tables, low, min(bound, FOR_EVER), _ticks(options, first, last))
        reported = shown(db, query, found.append_column("_revision", pa.array(np.zeros(found.num_rows, np.int64))))
    closed = max(progress.closed, bound)
    too_late = sum(int((a > rows["_t"].to_numpy()).sum()) for a, rows in zip(arrivals, fresh_rows, strict=True))
    parts = [t for t in (revised, reported) if t is not None and t.num_rows]
    return Advanced(
        pa.concat_tables(parts, promote_options="permissive") if parts else None,
        _numbers(revised) if revised is not None and revised.num_rows else None,
        replace(
            progress,
            closed=closed,
            first=first,
            pending=pending(contents, closed),
            windows=progress.windows + (reported.num_rows if reported is not None else 0),
            revisions=progress.revisions + (revised.num_rows if revised is not None else 0),
            too_late=progress.too_late + too_late,
        ),
    )


def _visible(rows: pa.Table, spare: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times = rows["_t"].to_numpy()
    limits = pc.fill_null(rows["_cut"], NEVER).to_numpy() - spare
    visible: np.ndarray[tuple[int], np.dtype[np.int64]] = np.maximum(times, limits)
    return visible


def _last(item: Any, high: int) -> int:
    """The last instant at which something happens, when nothing follows."""
    return high + (item.window.range + 1 if item.window.kind == "range" else 0)


def _high(rows: pa.Table, since: int) -> int:
    times = rows.filter(pc.less(rows["_epoch"], since))["_t"]
    return pc.max(times).as_py() if len(times) else NEVER


def _ticks(options: QueryOptions, first: int | None, last: int) -> Ticks | None:
    if options.every is None:
        return None
    return Ticks(options.every, FOREVER if first is None else first, last)


def shown(db: duckdb.DuckDBPyConnection, query: BoundQuery, found: pa.Table) -> pa.Table:
    """Answers as they are stored: at, the select list, change (of relations), revision, op.

    Arguments:
        found: `_at`, `_sign`, c0, …, `_n`, `_revision`; a negative `_n` takes rows back. Its order is kept.
    """
    outputs = [f'CAST(c{n} AS {o.type}) AS "{_doubled(o.name)}"' for n, o in enumerate(query.select)]
    assert query.relation is not None
    if query.relation.operator is None:
        outputs.append("CASE WHEN _sign > 0 THEN '+' ELSE '-' END AS change")
    sql = (
        f'SELECT make_timestamp(_at) AS "at", {", ".join(outputs)}, _revision AS revision,'
        " CASE WHEN _n > 0 THEN '+' ELSE '-' END AS op"
    )
    if pc.all(pc.equal(pc.abs(found["_n"]), 1)).as_py() is False:
        return query_table(db, f"{sql} FROM (SELECT *, unnest(range(abs(_n))) AS _copy FROM found)", found=found)
    return query_table(db, f"{sql} FROM found", found=found)


def _doubled(name: str) -> str:
    return name.replace('"', '""')


def _revisions(db: duckdb.DuckDBPyConnection, query: BoundQuery, changed: pa.Table, given: Given) -> pa.Table | None:
    """Changes of instants that were reported before, numbered behind what was given for the instant."""
    if not changed.num_rows:
        return None
    span = pc.min_max(changed["_at"]).as_py()
    numbers = given(span["min"], span["max"])
    if numbers is None:
        numbers = pa.table({"end": pa.array([], pa.int64()), "revision": pa.array([], pa.int64())})
    sql = (
        "SELECT c.*, (coalesce(g.revision, 0) + 1)::BIGINT AS _revision FROM changed c LEFT JOIN"
        ' (SELECT "end", max(revision) AS revision FROM numbers GROUP BY "end") g ON g."end" = c._at ORDER BY ALL'
    )
    return shown(db, query, query_table(db, sql, changed=changed, numbers=numbers))


def _numbers(revised: pa.Table) -> pa.Table:
    table = pa.table({"end": revised["at"].cast(pa.int64()), "revision": revised["revision"]})
    return table.group_by(["end", "revision"], use_threads=False).aggregate([])


# --- an epoch ---------------------------------------------------------------------------------------------------------


def store_rows(
    db: duckdb.DuckDBPyConnection,
    pond: str,
    pond_id: str,
    manifest: Manifest,
    catalog: Catalog,
    store: Store,
    delta: pa.Table | None,
    segments: Sequence[Segment],
) -> pa.Table | None:
    """All rows of a store with those of the epoch, in total order; None while there is none."""
    key = pond_id, store.owner
    held = _kept.get(key)
    adopted = any(str(q.id) in manifest.adopt for q in catalog.users(store.owner))
    # What is kept is good for the next epoch, and for a repetition of this one if that brought nothing.
    fits = held is not None and held.epoch == manifest.epoch - (0 if delta is None and not adopted else 1)
    if held is not None and fits and not adopted:
        parts, size = [held.rows], held.size
    else:
        paths = [os.path.join(state_folder(pond), s.path) for s in segments]
        parts = [c.table for c in read_chunks(paths, {store.owner}, lambda _o, kind, *_: kind == ROWS)]
        size = 0
    parts = [p for p in (*parts, *([delta] if delta is not None else [])) if p.num_rows]
    if not parts:
        return None
    rows = merge_rows(parts) if len(parts) > 1 else parts[0]
    if rows.num_rows > max(PRUNED, 2 * size):
        rows = needed_rows(db, manifest, catalog, store, rows)
        size = rows.num_rows
    _kept[key] = _Kept(manifest.epoch, rows, size)
    return rows


def keep_silent(pond_id: str, manifest: Manifest, owner: str) -> None:
    """What is kept of a store that an epoch brought nothing for is as good after it."""
    held = _kept.get((pond_id, owner))
    if held is not None and held.epoch == manifest.epoch - 1:
        _kept[pond_id, owner] = replace(held, epoch=manifest.epoch)


def marked(stream: StreamDefinition, known: StreamProgress, delta: pa.Table) -> pa.Table:
    """An epoch's rows as they are stored: a late row can revise what lies behind the largest event time at most."""
    if stream.options.late == "drop" or delta["_cut"].null_count == delta.num_rows or known.bound <= known.high:
        return delta
    cut = pc.min_element_wise(delta["_cut"], known.high, skip_nulls=False)
    return delta.set_column(delta.column_names.index("_cut"), "_cut", cut)


def row_chunk(owner: str, epoch: int, rows: pa.Table) -> Chunk:
    """The chunk that stores rows."""
    span = pc.min_max(rows["_t"]).as_py()
    return Chunk(owner, ROWS, epoch, span["min"], span["max"], rows)


def horizon_of(catalog: Catalog, standing: Standing, progress: QueryProgress, high: int) -> int:
    """Instants before it are final: nothing looks at them again."""
    relation = standing.definition.query.relation
    assert relation is not None
    revises = any(s.options.late == "revise" for s in catalog.streams_of(standing))
    spare = spare_of(relation, standing.definition.options) if revises else 0
    return max(NEVER, progress.start, min(progress.closed, high) - spare)


def needed_rows(
    db: duckdb.DuckDBPyConnection, manifest: Manifest, catalog: Catalog, store: Store, rows: pa.Table
) -> pa.Table:
    """The rows of a store that any of its users can still need."""
    wanted = np.zeros(rows.num_rows, bool)
    for standing in catalog.users(store.owner):
        before = manifest.queries.get(str(standing.id))
        relation = standing.definition.query.relation
        if before is None or relation is None or standing.status == "backfilling":
            return rows
        streams = catalog.streams_of(standing)
        horizon = horizon_of(catalog, standing, before, high_of(streams, manifest.progress))
        for item, owner, stream in zip(relation.inputs, standing.inputs, streams, strict=True):
            if owner == store.owner:
                late = stream.options.late == "revise"
                spare = spare_of(relation, standing.definition.options) if late else 0
                wanted |= kept(db, relation, item, rows, spare, horizon)
    return rows.filter(pa.array(wanted))


def need_of(catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], known: QueryProgress) -> int:
    """The event time before which a query needs no row; NEVER when that is not a matter of time."""
    relation = standing.definition.query.relation
    assert relation is not None
    horizon = horizon_of(catalog, standing, known, high_of(catalog.streams_of(standing), progress))
    return min(_reach(relation, horizon), default=NEVER)


def _reach(relation: Relational, horizon: int) -> list[int]:
    lows = [needed(item, horizon - 1) for item in relation.inputs]
    return [NEVER if low is None else max(NEVER, low) for low in lows]


def tables_of(catalog: Catalog, relation: Relational) -> dict[str, pa.Table]:
    """The tables that a query reads, as they are now."""
    found = {}
    for each in relation.tables:
        definition = next((t for t in catalog.tables.values() if t.name == each.name), None)
        if definition is None:
            raise ValueError(f"the table '{each.name}' was dropped")
        found[each.alias] = read_table(definition)
    return found


@dataclass
class Shard:
    """The relational queries of one shard in one epoch; `run` gives state, results and progress.

    parts: what the map tasks sent, by store.
    """

    db: duckdb.DuckDBPyConnection
    pond: str
    pond_id: str
    manifest: Manifest
    catalog: Catalog
    number: int
    parts: Mapping[str, Sequence[pa.Table]]
    progress: Mapping[str, StreamProgress]
    segments: Sequence[Segment]
    given: Callable[[str], Given]
    state: list[Chunk]
    results: list[Chunk]
    advanced: dict[str, Any]
    failures: dict[str, str]

    def run(self) -> None:
        """Store the epoch's rows, and answer every query."""
        manifest = self.manifest
        rows: dict[str, pa.Table | None] = {}
        deltas: dict[str, pa.Table | None] = {}
        for store in self.catalog.stores.values():
            if store.home != self.number or store.first_epoch > manifest.epoch:
                continue
            stream = self.catalog.streams[store.spec.stream]
            known = manifest.progress.get(str(stream.id), StreamProgress())
            parts = [p for p in self.parts.get(store.owner, ()) if p.num_rows]
            delta = marked(stream, known, merge_rows(parts)) if parts else None
            if delta is not None:
                self.state.append(row_chunk(store.owner, manifest.epoch, delta))
            else:
                keep_silent(self.pond_id, manifest, store.owner)
            deltas[store.owner] = delta
        for standing in self.catalog.queries.values():
            if not standing.inputs or standing.inputs[0] not in deltas or standing.status != "live":
                continue
            if str(standing.id) not in self.failures:
                self._answer(standing, deltas, rows)
        for key in [k for k in _kept if k[0] == self.pond_id and k[1] not in self.catalog.stores]:
            del _kept[key]

    def _answer(
        self, standing: Standing, deltas: Mapping[str, pa.Table | None], rows: dict[str, pa.Table | None]
    ) -> None:
        key, manifest = str(standing.id), self.manifest
        before = manifest.queries.get(key, QueryProgress())
        bound = bound_of(self.catalog, standing, self.progress, manifest.clock)
        since = before.paused
        if since is None:
            since = standing.first_epoch if key in manifest.adopt else manifest.epoch
        owners = standing.inputs
        silent = all(deltas[o] is None for o in owners) and (before.pending is None or before.pending >= bound)
        if silent and since == manifest.epoch and standing.definition.options.every is None:
            self.advanced[key] = to_json(replace(before, closed=max(before.closed, bound), paused=None))
            return
        owner = f"q{standing.id}"
        for _ in (1, 2):  # a query is given up when it fails an epoch twice
            try:
                result = self._advance(standing, deltas, rows, before, bound, since, self.given(owner))
                break
            except FAULTS as error:
                reason = one_line(error)
        else:
            self.failures[key] = reason
            return
        self.advanced[key] = to_json(replace(result.progress, paused=None))
        if result.answers is not None and result.answers.num_rows:
            ends = pc.min_max(result.answers["at"].cast(pa.int64())).as_py()
            kind = "backfilled" if since != manifest.epoch else "answers"
            self.results.append(Chunk(owner, kind, manifest.epoch, ends["min"], ends["max"], result.answers))
        if result.revisions is not None and result.revisions.num_rows:
            ends = pc.min_max(result.revisions["end"]).as_py()
            self.state.append(Chunk(owner, "revisions", manifest.epoch, ends["min"], ends["max"], result.revisions))

    def _advance(
        self,
        standing: Standing,
        deltas: Mapping[str, pa.Table | None],
        rows: dict[str, pa.Table | None],
        before: QueryProgress,
        bound: int,
        since: int,
        given: Given,
    ) -> Advanced:
        query, options = standing.definition.query, standing.definition.options
        assert query.relation is not None
        inputs = []
        horizon = horizon_of(self.catalog, standing, before, high_of(self.catalog.streams_of(standing), self.progress))
        for item, owner in zip(query.relation.inputs, standing.inputs, strict=True):
            store = self.catalog.stores[owner]
            stream = self.catalog.streams[store.spec.stream]
            if owner not in rows:
                rows[owner] = store_rows(
                    self.db, self.pond, self.pond_id, self.manifest, self.catalog, store, deltas[owner], self.segments
                )
            held = rows[owner]
            if held is None:
                held = empty_rows(self.db, item.columns)
            elif (low := needed(item, horizon - 1)) is not None and low > NEVER:
                held = held.filter(pc.greater_equal(held["_t"], low))
            high = self.progress.get(str(stream.id), StreamProgress()).high
            inputs.append(Input(held, stream, high))
        tables = tables_of(self.catalog, query.relation)
        return advance_relation(self.db, query, options, inputs, tables, before, bound, since, given)


def empty_rows(db: duckdb.DuckDBPyConnection, columns: Sequence[Any]) -> pa.Table:
    """A store without rows."""
    own = ["NULL::BIGINT AS _t", "NULL::BIGINT AS _id", "NULL::BIGINT AS _epoch", "NULL::BIGINT AS _cut"]
    fields = [*own, *(f'NULL::{c.type} AS "{_doubled(c.name)}"' for c in columns)]
    return query_table(db, f"SELECT {', '.join(fields)} LIMIT 0")


def forget_contents() -> None:
    """Drop what is kept of all stores (tests)."""
    _kept.clear()


__all__ = [
    "FAULTS",
    "ROWS",
    "Content",
    "Input",
    "Shard",
    "advance_relation",
    "empty_rows",
    "forget_contents",
    "horizon_of",
    "marked",
    "need_of",
    "needed_rows",
    "row_chunk",
    "shown",
    "tables_of",
]
