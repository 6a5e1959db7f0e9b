"""Relational queries over the archive: back-fill, INVOKE, ad hoc. The rows of each input, then the same functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog, Standing
from millpond.engine.backfill import RELATION, Adoption, start_of
from millpond.engine.backfill_letters import write_letters
from millpond.engine.bounds import bound_of, high_of, specs_of
from millpond.engine.core import Core
from millpond.engine.derived import announced
from millpond.engine.floors import floored, revises
from millpond.engine.history import Range, batches, segments_in
from millpond.engine.mapping import placed, tolerant
from millpond.engine.merging import query_owner, results_folder
from millpond.engine.own_marks import counted
from millpond.engine.probing import Past, marked
from millpond.engine.records import Published, QueryProgress, read_published
from millpond.engine.reducing import Scan, portion_rows, portions, resolve
from millpond.engine.relating import (
    Input,
    advance_relation,
    empty_rows,
    horizon_of,
    row_chunk,
    tables_of,
)
from millpond.engine.segments import row_schema
from millpond.engine.state import state_folder
from millpond.engine.unions import entering, late_of, own_names, progress_of, streams_of
from millpond.errors import QueryError
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.relations import Rows, kept, merge_rows, needed, rows_needed, rows_of, spare_of
from millpond.synopses import connection
from millpond.tables import Chunk, Segment, write_chunks
from millpond.types import WEIGHT, Relational, RelationInput, StreamDefinition


def archived_rows(
    core: Core,
    streams: Sequence[StreamDefinition],
    spec: Rows,
    item: RelationInput,
    wanted: Range,
    most: int | None = None,
    now: int = NEVER,
    live_from: int | None = None,
    scans: list[Scan] | None = None,
    letters: dict[int, list[pa.Table]] | None = None,
) -> pa.Table:
    """The rows of a range of the archives that a store would keep. Rows on which an expression fails are left out.

    Arguments:
        streams: that feed the store.
        now, live_from: of a reduced input, NOW of the scan, and the first epoch whose rows are whole. scans: gets it.
        letters: gets the rows on which an expression fails, with their `_reason`, by stream.
    Raises: QueryError when they are more than `most`.
    """
    db = connection()
    parts = []
    held = 0
    first = streams[0]
    schema = row_schema(first)
    with core.pinned():
        scan = None if item.reduce is None else Scan(item.reduce, now, live_from)
        if scan is not None:
            scan.steps = resolve(core, streams, scan, wanted)
            if scans is not None:
                scans.append(scan)
        for stream in streams:
            named = own_names(spec, stream, first, [c for c in spec.columns if c != WEIGHT])
            columns = [c for c in dict.fromkeys(named) if c != stream.options.time]
            if scan is not None:
                read = portion_rows(core.path, stream, portions(core, stream, scan, wanted), columns, scan.counters)
            else:
                segments = segments_in(core.streams[stream.id].archive.segments, wanted)
                read = batches(core.path, stream, segments, wanted, columns)
            for segment in read:
                rows = entering(counted(segment, stream.options), spec, stream.id, schema)
                found, failed = tolerant(partial(rows_of, db, spec), rows)
                if letters is not None and failed is not None:
                    letters.setdefault(stream.id, []).append(failed)
                if found.num_rows:
                    parts.append(found)
                    held += found.num_rows
                if most is not None and held > most:
                    raise QueryError(
                        f"the windows over {stream.name} hold more than {most} rows, which are read in this process;"
                        " a shorter window, or a filter below it, helps"
                    )
    return merge_rows(parts) if parts else empty_rows(db, item.columns)


def read_inputs(
    core: Core,
    items: Sequence[RelationInput],
    published: Published,
    since: int,
    until: int | None,
    specs: Sequence[Rows] | None = None,
    most: int | None = None,
    live_from: int | None = None,
    scans: list[Scan] | None = None,
    relation: Relational | None = None,
    letters: list[dict[int, list[pa.Table]]] | None = None,
) -> list[Input]:
    """The rows of each input that are in its window at instants from `since` on, up to event time `until`.

    Arguments:
        published: the epoch up to which rows are seen, and how far the streams were then.
        specs: of the stores to fill; None: what each input needs.
        most, live_from, scans: see `archived_rows`.
        relation: of the query; what it probes is not read yet.
        letters: of each input, gets the rows on which its expressions fail, by stream.
    """
    found = []
    catalog = core.catalog
    probes = [relation is not None and relation.probe(i.alias) is not None for i in items]
    for n, item in enumerate(items):
        failed: dict[int, list[pa.Table]] = {}
        if letters is not None:
            letters.append(failed)
        first = catalog.stream(item.stream)
        if first is None:
            raise QueryError(f"the stream '{item.stream}' was dropped")
        if probes[n]:
            spec = rows_needed(item, first) if specs is None else specs[n]
            known = published.progress.get(str(first.id), StreamProgress())
            past = Past(core.path, first, spec, core.streams[first.id].archive.segments, published.epoch, known)
            found.append(Input(empty_rows(connection(), item.columns), first.options.late, known.high, past))
            continue
        held = [i for i, probed in zip(items, probes, strict=True) if i.names == item.names and not probed]
        lows = [needed(i, since) for i in held]
        low = None if any(each is None or each <= NEVER for each in lows) else min(e for e in lows if e is not None)
        wanted = Range(low, None if until is None else until + 1, published.epoch)
        spec = rows_needed(item, first) if specs is None else specs[n]
        state, late = progress_of(catalog, spec, published.progress), late_of(catalog, spec)
        fed = streams_of(catalog, spec)
        rows = archived_rows(core, fed, spec, item, wanted, most, state.high, live_from, scans, failed)
        if spec.feeds:  # the archive says what a row was behind in its own stream only: all of them count
            rows = rows.set_column(rows.column_names.index("_cut"), "_cut", pa.nulls(rows.num_rows, pa.int64()))
        else:
            rows = marked(spec, late, state, rows)
        found.append(Input(rows, late, state.high))
    return found


def backfill_relation(core: Core, query: int) -> Adoption | None:
    """Answer the epochs before a query's first live one, and leave the rows that it goes on with."""
    with core.lock:
        catalog = core.catalog
        standing = catalog.queries.get(query)
        if standing is None:
            return None
    epoch = standing.first_epoch - 1
    published = read_published(core.path, epoch) if epoch else Published()
    definition = standing.definition
    relation = definition.query.relation
    assert relation is not None
    db = connection()
    bound = announced(definition.options, bound_of(catalog, standing, published.progress, published.clock))
    start = start_of(standing, bound)
    known = QueryProgress(closed=start, start=start)
    horizon = min(
        start,
        horizon_of(catalog, standing, replace(known, closed=max(start, bound)), _high(catalog, standing, published)),
    )
    specs = [catalog.stores[owner].spec for owner in standing.inputs]
    failed: list[dict[int, list[pa.Table]]] = []
    inputs = read_inputs(
        core, relation.inputs, published, max(NEVER, horizon - 1), None, specs, relation=relation, letters=failed
    )
    seen = [int(pc.min(i.rows["_t"]).as_py()) for i in inputs if i.rows.num_rows]
    if start > NEVER:
        known = replace(known, first=start if any(i.high > NEVER for i in inputs) else None)
    else:
        known = replace(known, first=min(seen, default=None))
    tables = tables_of(catalog, relation)
    done = advance_relation(
        db, definition.query, definition.options, inputs, tables, known, bound, FOREVER, lambda low, high: None,
        _high(catalog, standing, published),
    )  # fmt: skip
    home = max(0, catalog.stores[standing.inputs[0]].home)
    return Adoption(
        f"{RELATION}{query}",
        (query,),
        {str(query): done.progress},
        _state(core, standing, inputs, done.progress, epoch, _high(catalog, standing, published)),
        _results(core, standing, done.answers, home, epoch),
        _letters(core, standing, failed, epoch),
    )


def _letters(
    core: Core, standing: Standing, failed: Sequence[dict[int, list[pa.Table]]], epoch: int
) -> dict[str, tuple[Segment, ...]]:
    """Files of dead letters, by stream; rows of stores that run already became letters when they came."""
    catalog = core.catalog
    owners: set[str] = set()
    dead: dict[str, tuple[Segment, ...]] = {}
    for place, (owner, found) in enumerate(zip(standing.inputs, failed, strict=True)):
        if owner in owners or catalog.stores[owner].first_epoch < standing.first_epoch:
            continue
        owners.add(owner)
        for number, rows in sorted(found.items()):
            stream, name = catalog.streams[number], f"{RELATION}{standing.id}"
            with core.pinned():
                segments = segments_in(core.streams[number].archive.segments, Range(epoch=epoch))
                written = write_letters(core.path, stream, name, place, rows, standing.definition.name, epoch, segments)
            if written is not None:
                dead[str(number)] = (*dead.get(str(number), ()), written)
    return dead


def _high(catalog: Catalog, standing: Standing, published: Published) -> int:
    return high_of(catalog, specs_of(catalog, standing), published.progress)


def _state(
    core: Core, standing: Standing, inputs: Sequence[Input], progress: QueryProgress, epoch: int, high: int
) -> tuple[Segment, ...]:
    """The rows that the query still needs, of stores that it does not share with queries that run already."""
    catalog = core.catalog
    relation = standing.definition.query.relation
    assert relation is not None
    db = connection()
    masks: dict[str, Any] = {}
    rows: dict[str, pa.Table] = {}
    horizon = horizon_of(catalog, standing, progress, high)
    for item, owner, each in zip(relation.inputs, standing.inputs, inputs, strict=True):
        if catalog.stores[owner].first_epoch < standing.first_epoch or relation.probe(item.alias) is not None:
            continue
        options = standing.definition.options
        spare = spare_of(relation, options) if revises(options, each.late) else 0
        rows[owner] = each.rows  # inputs with one store read the same rows
        seen = floored(each.rows, progress, options, each.late)
        masks[owner] = masks.get(owner, False) | kept(db, relation, item, seen, spare, horizon)
    chunks: dict[int, list[Chunk]] = {}
    for owner, mask in sorted(masks.items()):
        needed_still = rows[owner].filter(pa.array(mask))
        # Rows of split keys are copied where they are needed by the epoch that adopts them.
        for shard, part in placed(db, catalog.stores[owner], needed_still, core.settings.shards).shards.items():
            chunks.setdefault(shard, []).append(row_chunk(owner, epoch, part))
    return tuple(
        write_chunks(state_folder(core.path), f"b{RELATION}{standing.id}-{shard:04d}.parquet", kept_there, shard)
        for shard, kept_there in sorted(chunks.items())
    )


def _results(core: Core, standing: Standing, answers: pa.Table | None, home: int, epoch: int) -> tuple[Segment, ...]:
    if answers is None or not answers.num_rows:
        return ()
    ends = pc.min_max(answers["at"].cast(pa.int64())).as_py()
    chunk = Chunk(query_owner(standing.id), "backfilled", epoch, ends["min"], ends["max"], answers)
    name = f"b{RELATION}{standing.id}-{home:04d}.parquet"
    return (write_chunks(results_folder(core.path), name, [chunk], home),)
