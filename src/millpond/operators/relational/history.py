"""Relational queries over the archive: the rows of each input, for back-fill, INVOKE and ad hoc SELECTs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from millpond.archive.reading.history import Range, batches, segments_in
from millpond.archive.reading.reducing import Scan, portions, resolve
from millpond.archive.reading.splits import AtHand, portion_rows
from millpond.archive.segments import row_schema
from millpond.catalog.unions import entering, late_of, own_names, progress_of, streams_of
from millpond.manifests.records import Published
from millpond.operators.relational.probing import Past, marked
from millpond.operators.relational.reading import Input, empty_rows
from millpond.progress import NEVER, StreamProgress
from millpond.relations import Rows, merge_rows, needed, rows_needed, rows_of
from millpond.sources.own_marks import counted
from millpond.support.errors import QueryError
from millpond.synopses import connection
from millpond.synopses.tolerance import tolerant
from millpond.types import HOLDS, WEIGHT, Relational, RelationInput, StreamDefinition

if TYPE_CHECKING:
    from millpond.engine.core import Core


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
            named = own_names(spec, stream, [c for c in spec.columns if c not in (WEIGHT, HOLDS)])
            columns = [c for c in dict.fromkeys(named) if c != stream.options.time]
            if scan is not None:
                found_by = portions(core, stream, scan, wanted)
                read = portion_rows(core.path, stream, found_by, columns, scan.counters, AtHand(scan.held))
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
    letters: Sequence[dict[int, list[pa.Table]]] | None = None,
    after: int | None = None,
) -> list[Input]:
    """The rows of each input that are in its window at instants from `since` on, up to event time `until`.

    Arguments:
        published: the epoch up to which rows are seen, and how far the streams were then.
        specs: of the stores to fill; None: what each input needs.
        most, live_from, scans: see `archived_rows`.
        relation: of the query; what it probes is not read yet.
        letters: of each input, gets the rows on which its expressions fail, by stream.
        after: only rows behind this event time; None: whatever is in a window.
    """
    found = []
    catalog = core.catalog
    probes = [relation is not None and relation.probe(i.alias) is not None for i in items]
    for n, item in enumerate(items):
        failed = None if letters is None else letters[n]
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
        low = low if after is None else after + 1 if low is None else max(low, after + 1)
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
