"""The merge step of a shard: fold the epoch's partials into its state, answer every query, write state and results."""

from __future__ import annotations

import json
import os
import time as clock
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.catalog import Catalog, Standing, Synopsis
from millpond.catalog.unions import late_of, progress_of, with_unions
from millpond.manifests.places import query_owner, results_folder, state_folder
from millpond.manifests.records import Manifest, QueryProgress
from millpond.operators.derived.rows import announced, pass_answers
from millpond.operators.panes.adapting import MODES, choose, eager_groups, forget_modes, put_together
from millpond.operators.panes.forms import TUPLES, Forms, are_tuples, as_partials, settled
from millpond.operators.panes.prefixes import fold_prefix
from millpond.operators.panes.state import PANES, PaneState, forget, pane_chunk
from millpond.operators.relation.early import shown_early
from millpond.operators.relation.group_sums import GROUPS
from millpond.operators.relation.group_sums import put_together as added_up
from millpond.operators.relation.merge import ROWS, Shard, early_chunk, row_chunk
from millpond.operators.relation.needs import need_of, needed_rows
from millpond.operators.rows.state import forget_rows, state_of
from millpond.operators.windowed.advance import advance, revise_for, without_replaced
from millpond.operators.windowed.catching_up import catch_up
from millpond.operators.windowed.early import (
    EARLY,
    Speculation,
    latest_shown,
    open_answers,
    open_row_answers,
    opens,
    with_early,
)
from millpond.operators.windowed.group_bounds import group_bounds
from millpond.operators.windowed.needs import keep_since, needed_since, open_pane, settled_pane, summary_since
from millpond.operators.windowed.ordering import in_order
from millpond.operators.windowed.smoothing import smoothed, wait
from millpond.progress import NEVER, ItemSummary, StreamProgress, absorb, absorb_announced
from millpond.relations import merge_rows
from millpond.synopses import PanesSpec, connection, merge_partials, query_table
from millpond.synopses.partials.late_exclusions import CUT, merge_cuts, with_cut, without_cut
from millpond.synopses.partials.shards import home_shard
from millpond.synopses.rows import fold, on_time
from millpond.synopses.tolerance import FAULTS, one_line
from millpond.tables import Chunk, DurableWrites, Segment, read_chunks, write_chunks
from millpond.tables.chunks import unpack
from millpond.tables.executors import Parcel
from millpond.types import from_json, to_json

REVISIONS = "revisions"


def progress_after(
    manifest: Manifest, catalog: Catalog, reports: Iterable[dict[str, Any]]
) -> dict[str, StreamProgress]:
    """Progress of every stream, and of every union that is read, after the epoch: the same in every shard."""
    summaries: dict[int, list[ItemSummary]] = defaultdict(list)
    for report in sorted(reports, key=lambda r: r["task"]):
        summaries[report["stream"]] += [from_json(ItemSummary, s) for s in report["summaries"]]
    after = {
        str(stream.id): absorb_announced(
            manifest.progress.get(str(stream.id), StreamProgress()),
            summaries[stream.id],
            manifest.bounds.get(str(stream.id), NEVER),
        )
        if stream.derived is not None
        else absorb(
            manifest.progress.get(str(stream.id), StreamProgress()),
            stream.options,
            summaries[stream.id],
            manifest.clock,
            stream.id in manifest.ends,
            manifest.arrivals.get(str(stream.id)),
        )
        for stream in catalog.streams.values()
    }
    return with_unions(catalog, after, manifest.progress)


def merge_shard(
    pond: str, pond_id: str, manifest: Manifest, catalog: Catalog, shard: int, parcels: Sequence[Parcel]
) -> dict[str, Any]:
    """Run the merge task of one shard; returns its report (JSON-ready), with the segments to commit."""
    started = clock.perf_counter()
    db = connection()
    reports = [json.loads(bytes(p.payload)) for p in parcels if not p.owner]
    progress = progress_after(manifest, catalog, reports)
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    for parcel in sorted((p for p in parcels if p.owner), key=lambda p: p.task):
        parts[parcel.owner].append(unpack(parcel.payload))
    segments = [s for s in manifest.state if s.shard == shard]
    failures: dict[str, str] = {}
    for report in reports:
        for owner, reason in report["failures"].items():
            failures.update({str(q.id): reason for q in catalog.users(owner)})
    state: list[Chunk] = []
    results: list[Chunk] = []
    advanced: dict[str, Any] = {}
    spent: dict[str, float] = defaultdict(float)
    scans: dict[str, int] = {}
    observed: dict[str, Any] = {}
    merged = 0.0
    for synopsis in catalog.synopses.values():
        home = home_shard(synopsis.spec, synopsis.owner, manifest.shards)
        if synopsis.first_epoch > manifest.epoch or home not in (None, shard):
            continue
        begun = clock.perf_counter()
        try:
            delta, forms = _delta(db, synopsis.spec, parts.get(synopsis.owner, []))
            merged += clock.perf_counter() - begun
            delta, too_late = _on_time(manifest, catalog, synopsis, delta)
            panes = state_of(
                PaneState(db, pond, pond_id, segments, shard, synopsis.owner, synopsis.spec, manifest.epoch, delta,
                          forms=forms)
            )  # fmt: skip
            state += choose(db, manifest, catalog, synopsis, panes)
            forms = panes.forms
            marked = _marked(manifest, catalog, synopsis, delta)
            stored = [marked] if forms is None else [_marked(manifest, catalog, synopsis, t) for t in forms.tables]
            state += [pane_chunk(synopsis.owner, synopsis.spec, manifest.epoch, t) for t in stored if t.num_rows]
            _advance_synopsis(
                db,
                pond,
                pond_id,
                manifest,
                catalog,
                shard,
                synopsis,
                panes,
                marked,
                too_late,
                progress,
                segments,
                state,
                results,
                advanced,
                failures,
                spent,
            )
        except FAULTS as error:
            failures.update({str(q.id): one_line(error) for q in catalog.users(synopsis.owner)})
    forget(pond_id, set(catalog.synopses))
    forget_rows(pond_id, set(catalog.synopses))
    forget_modes(pond_id, set(catalog.synopses))
    if catalog.stores:
        # An instant has one number, whichever shards change it.
        looked_up = partial(partial, _given, db, pond, manifest.state)
        relational = Shard(
            db, pond, pond_id, manifest, catalog, shard, parts, progress, segments, looked_up,
            partial(_shown, pond, segments), state, results, advanced, failures, spent,
        )  # fmt: skip
        relational.run()
        observed = relational.observed
        if relational.counters is not None:
            scans = {"groups": relational.counters.groups, "bytes": relational.counters.bytes}
    given: dict[str, int] = defaultdict(int)
    for chunk in results:
        given[chunk.owner] += chunk.table.num_rows
    passed = pass_answers(pond, catalog, manifest.epoch, shard, results)
    paired = {query_owner(q.id) for q in catalog.queries.values() if q.definition.options.pairs}
    results = [replace(c, table=without_replaced(c.table)) if c.owner in paired else c for c in results]
    answered = clock.perf_counter()
    written: dict[str, Any] = {"state": [], "results": []}
    name = f"e{manifest.epoch:012d}-{shard:04d}.parquet"
    writes = DurableWrites()
    # What never expires stands in a file of its own.
    for file, chunks in ((name, [c for c in state if c.kind != GROUPS]),
                         (f"{name[:-8]}g.parquet", [c for c in state if c.kind == GROUPS])):  # fmt: skip
        if chunks:
            written["state"].append(to_json(write_chunks(state_folder(pond), file, chunks, shard, writes=writes)))
    if results:
        written["results"].append(to_json(write_chunks(results_folder(pond), name, results, shard, writes=writes)))
    compacted = _compact(db, pond, manifest, catalog, shard, writes)
    if compacted is not None:
        written["state"].append(to_json(compacted))
    writes.finish()
    return {
        "shard": shard,
        "reports": reports if shard == 0 else [],
        "progress": to_json(progress) if shard == 0 else {},
        "queries": advanced,
        "failures": failures,
        "written": written,
        "scans": scans,
        "spent": spent,
        "filters": observed,
        "given": given,
        "passed": passed,
        "seconds": {
            "merge": merged,
            "answer": answered - started - merged,
            "write": clock.perf_counter() - answered,
        },
        "lasted": clock.perf_counter() - started,
    }


def _delta(db: duckdb.DuckDBPyConnection, spec: PanesSpec, parts: Sequence[pa.Table]) -> tuple[pa.Table, Forms | None]:
    """The partials of an epoch, and the forms that they are stored in (None: as they are)."""
    if spec.form == "eager":
        return merge_partials(db, spec, list(parts)), None
    tuples = [t for t in parts if are_tuples(t)]
    forms = settled(db, spec, [t for t in parts if not are_tuples(t)], tuples)
    return merge_partials(db, spec, [as_partials(db, spec, t) for t in forms.tables]), forms


def _advance_synopsis(
    db: duckdb.DuckDBPyConnection,
    pond: str,
    pond_id: str,
    manifest: Manifest,
    catalog: Catalog,
    shard: int,
    synopsis: Synopsis,
    panes: PaneState,
    marked: pa.Table,
    too_late: int,
    progress: dict[str, StreamProgress],
    segments: Sequence[Segment],
    state: list[Chunk],
    results: list[Chunk],
    advanced: dict[str, Any],
    failures: dict[str, str],
    spent: dict[str, float],
) -> None:
    spec, stream = synopsis.spec, catalog.streams[synopsis.spec.stream]
    late, reached = late_of(catalog, spec), progress_of(catalog, spec, progress)
    bound, high, known = reached.bound, reached.high, progress_of(catalog, spec, manifest.progress)
    stirred = any(s.stream in spec.streams for s in manifest.splits)
    users = catalog.users(synopsis.owner)
    delta = panes.delta
    lowest: list[int] = []
    for standing in users:
        before = manifest.queries.get(str(standing.id), QueryProgress())
        if standing.status != "live" or str(standing.id) in failures:
            continue
        begun = clock.perf_counter()
        query, options = standing.definition.query, standing.definition.options
        until, mode = announced(options, bound), "drop" if options.delay else late
        owner = query_owner(standing.id)
        given = partial(_given, db, pond, segments, owner)
        since = _unanswered_since(manifest, synopsis, standing)
        # Windows that close are answered by and by where the query says so: at first nothing but revisions.
        closing = until if options.flush == "at once" else before.closed
        groups = None if options.delay else group_bounds(stream, query, spec, reached.groups)
        for _ in (1, 2):  # a query is given up when it fails an epoch twice
            try:
                if since is None:
                    result = advance(
                        db, spec, query, options, mode, panes, before, closing, known.high, given, groups, high
                    )
                else:
                    missed = state_of(
                        PaneState(
                            db, pond, pond_id, segments, shard, synopsis.owner, spec, manifest.epoch, delta, since
                        )
                    )
                    parts = [*missed.parts(), marked]
                    result = catch_up(
                        db, spec, query, options, mode, missed, parts, before, closing, known.high, given, groups, high
                    )
                if options.flush != "at once":
                    result = smoothed(
                        db, spec, query, options, panes, before, result, until, manifest.clock, owner, high
                    )
                if options.early is not None:
                    current = (
                        partial(open_answers, db, spec, query, options, panes, high)
                        if query.row_window is None
                        else partial(open_row_answers, db, spec, query, panes, high)
                    )
                    shown = partial(_shown, pond, segments, owner)
                    speculation = Speculation(
                        query, options, shown, current, manifest.clock, stirred, partial(wait, db, query)
                    )
                    result = with_early(db, speculation, before, result)
                break
            except FAULTS as error:
                reason = one_line(error)
        else:
            failures[str(standing.id)] = reason
            continue
        lost = result.progress.too_late + too_late
        advanced[str(standing.id)] = to_json(replace(result.progress, paused=None, too_late=lost))
        lowest.append(open_pane(synopsis, standing, result.progress.answered))
        spent[str(standing.id)] += clock.perf_counter() - begun
        if result.answers is not None and result.answers.num_rows:
            ends = pc.min_max(result.answers["window_end"].cast(pa.int64())).as_py()
            kind = "backfilled" if since is not None or before.closed < announced(options, known.bound) else "answers"
            answers = in_order(db, result.answers)
            results.append(Chunk(owner, kind, manifest.epoch, ends["min"], ends["max"], answers))
        if result.revisions is not None and result.revisions.num_rows:
            ends = pc.min_max(result.revisions["end"]).as_py()
            numbers = in_order(db, result.revisions)
            state.append(Chunk(owner, REVISIONS, manifest.epoch, ends["min"], ends["max"], numbers))
        if result.early is not None and result.early.num_rows:
            ends = pc.min_max(result.early["window_end"].cast(pa.int64())).as_py()
            state.append(Chunk(owner, EARLY, manifest.epoch, ends["min"], ends["max"], in_order(db, result.early)))
    # Without what a back-fill is going to bring, a kept table would not be the whole state.
    if lowest and not any("backfilling" in (q.status, q.reason) for q in users):
        adopting = any(str(q.id) in manifest.adopt for q in users)
        panes.settled = settled_pane(catalog, synopsis, manifest.progress.get, manifest.queries.get)
        panes.keep(min(lowest), adopting or str(shard) in manifest.compact)


def _unanswered_since(manifest: Manifest, synopsis: Synopsis, standing: Standing) -> int | None:
    """The first epoch whose rows a query has not answered, because it was paused or being back-filled; else None."""
    key = str(standing.id)
    paused = manifest.queries.get(key, QueryProgress()).paused
    return synopsis.first_epoch if paused is None and key in manifest.adopt else paused


def _waits(manifest: Manifest, synopsis: Synopsis, standing: Standing) -> bool:
    """Whether a query answers the rows of this epoch later, or with those of others."""
    return standing.status in ("paused", "backfilling") or _unanswered_since(manifest, synopsis, standing) is not None


def _on_time(manifest: Manifest, catalog: Catalog, synopsis: Synopsis, delta: pa.Table) -> tuple[pa.Table, int]:
    """The rows of a delta that count for windows that end with rows, and how many come too late; panes as they are."""
    if synopsis.spec.rows is None:
        return delta, 0
    known = progress_of(catalog, synopsis.spec, manifest.progress)
    return on_time(synopsis.spec, delta, known.bound, known.high)


def _marked(manifest: Manifest, catalog: Catalog, synopsis: Synopsis, delta: pa.Table) -> pa.Table:
    """The delta as it is stored: with cuts where a query will need them."""
    waiting = [q for q in catalog.users(synopsis.owner) if _waits(manifest, synopsis, q)]
    if not waiting or synopsis.spec.rows is not None:
        return delta
    known = progress_of(catalog, synopsis.spec, manifest.progress)
    if late_of(catalog, synopsis.spec) == "drop":
        return with_cut(synopsis.spec, delta, known.bound)
    spare = min(revise_for(q.definition.query, q.definition.options) for q in waiting)
    return with_cut(synopsis.spec, delta, min(known.bound, known.high), spare)


def _given(
    db: duckdb.DuckDBPyConnection, pond: str, segments: Sequence[Segment], owner: str, low: int, high: int
) -> pa.Table | None:
    paths = [os.path.join(state_folder(pond), s.path) for s in segments if s.high >= low and s.low <= high]
    parts = [
        c.table
        for c in read_chunks(
            paths, {owner}, lambda _o, kind, _e, first, last: kind == REVISIONS and last >= low and first <= high
        )
    ]
    return _latest_numbers(db, pa.concat_tables(parts, promote_options="permissive")) if parts else None


def _shown(pond: str, segments: Sequence[Segment], owner: str, since: int) -> list[pa.Table]:
    """What was shown early of windows of a query that end from `since` on."""
    paths = [os.path.join(state_folder(pond), s.path) for s in segments if s.high >= since]
    chunks = read_chunks(paths, {owner}, lambda _o, kind, _e, _l, high: kind == EARLY and high >= since)
    return [c.table for c in chunks]


def _latest_numbers(db: duckdb.DuckDBPyConnection, table: pa.Table) -> pa.Table:
    return query_table(
        db, "SELECT * EXCLUDE (revision), max(revision)::BIGINT AS revision FROM t GROUP BY ALL", t=table
    )


def _compact(
    db: duckdb.DuckDBPyConnection,
    pond: str,
    manifest: Manifest,
    catalog: Catalog,
    shard: int,
    writes: DurableWrites,
) -> Segment | None:
    """Merge the state files that the manifest names into one, without what nobody can need any more."""
    names = manifest.compact.get(str(shard), ())
    if not names:
        return None
    chosen = [s for s in manifest.state if s.path in names]
    whole = len(chosen) == sum(s.shard == shard for s in manifest.state)
    by_owner: dict[tuple[str, str], list[Chunk]] = defaultdict(list)
    for chunk in read_chunks([os.path.join(state_folder(pond), s.path) for s in chosen]):
        by_owner[chunk.owner, PANES if chunk.kind == TUPLES else chunk.kind].append(chunk)
    chunks: list[Chunk] = []
    for (owner, kind), group in sorted(by_owner.items()):
        epoch = max(c.epoch for c in group)
        if kind == PANES and owner in catalog.synopses and catalog.synopses[owner].spec.form != "eager":
            eager = eager_groups(db, pond, manifest, catalog, catalog.synopses[owner], shard)
            chunks += _compact_forms(db, manifest, catalog, owner, group, eager)
        elif kind == PANES and owner in catalog.synopses:
            synopsis = catalog.synopses[owner]
            try:
                table = merge_cuts(db, synopsis.spec, [c.table for c in group])
                if not any(_waits(manifest, synopsis, q) for q in catalog.users(owner)):
                    table = without_cut(db, synopsis.spec, table)
                settled = settled_pane(catalog, synopsis, manifest.progress.get, manifest.queries.get)
                table = fold_prefix(db, synopsis.spec, table, settled)
            except FAULTS:  # its queries fail for that; their state stays as it is until they are dropped
                chunks += group
                continue
            low = synopsis.spec.panes.pane(needed_since(manifest, catalog, synopsis))
            if synopsis.spec.rows is not None:
                table = fold(db, synopsis.spec, table, low)
            else:
                table = table.filter(pc.greater_equal(table["pane"], low)) if table.num_rows else table
            if table.num_rows:
                chunks.append(pane_chunk(owner, synopsis.spec, epoch, table))
        elif kind == MODES and owner in catalog.synopses:
            chunks += put_together(db, manifest, catalog, catalog.synopses[owner], group)
        elif kind == ROWS and owner in catalog.stores:
            held = merge_rows([c.table for c in group])
            rows = needed_rows(db, manifest, catalog, catalog.stores[owner], held, whole)
            if rows.num_rows:
                chunks.append(row_chunk(owner, epoch, rows))
        elif kind == GROUPS and int(owner[1:]) in catalog.queries:
            chunks += added_up(db, catalog.queries[int(owner[1:])].definition.query, owner, group)
        elif kind == REVISIONS and int(owner[1:]) in catalog.queries:
            table = _latest_numbers(db, pa.concat_tables([c.table for c in group], promote_options="permissive"))
            ends = pc.min_max(table["end"]).as_py()
            chunks.append(Chunk(owner, kind, epoch, ends["min"], ends["max"], table))
        elif kind == EARLY and int(owner[1:]) in catalog.queries:
            standing = catalog.queries[int(owner[1:])]
            known = manifest.queries.get(owner[1:], QueryProgress())
            query = standing.definition.query
            if query.relation is not None:
                left = shown_early(db, query, [c.table for c in group], known.closed)
                chunks += [early_chunk(owner, epoch, left)] if left is not None else []
                continue
            shown = latest_shown(db, query, [c.table for c in group], opens(query, known.answered))
            if shown is not None:
                ends = pc.min_max(shown["window_end"].cast(pa.int64())).as_py()
                chunks.append(Chunk(owner, kind, epoch, ends["min"], ends["max"], shown))
    level = 1 + max(s.level for s in chosen)
    return write_chunks(
        state_folder(pond),
        f"c{manifest.epoch:012d}-{shard:04d}.parquet",
        chunks,
        shard,
        level,
        max(s.last_epoch for s in chosen),
        writes,
    )


def _compact_forms(
    db: duckdb.DuckDBPyConnection,
    manifest: Manifest,
    catalog: Catalog,
    owner: str,
    group: Sequence[Chunk],
    eager: pa.Table | None,
) -> list[Chunk]:
    """Pane rows of both forms put together, each in the form that is smaller now."""
    synopsis = catalog.synopses[owner]
    spec, epoch = synopsis.spec, max(c.epoch for c in group)
    low = spec.panes.pane(needed_since(manifest, catalog, synopsis))
    waits = any(_waits(manifest, synopsis, q) for q in catalog.users(owner))
    try:
        tables = [c.table.filter(pc.greater_equal(c.table["pane"], low)) for c in group]
        tuples = [t for t in tables if are_tuples(t)]
        partials = [t for t in tables if not are_tuples(t)]
        if not waits:
            tuples = [t.drop_columns([CUT]) if CUT in t.column_names else t for t in tuples]
            partials = [without_cut(db, spec, t) for t in partials]
        forms = settled(db, spec, partials, tuples, eager)
    except FAULTS:  # as in `_compact`
        return list(group)
    return [pane_chunk(owner, spec, epoch, t) for t in forms.tables]


def end_of_need(catalog: Catalog, progress: dict[str, StreamProgress], queries: dict[str, QueryProgress]) -> int:
    """The event time before which no query needs any state; NEVER while that is not known."""
    needs = [NEVER] if not catalog.queries and not catalog.summaries else []
    for synopsis in catalog.synopses.values():
        if catalog.kept_by(synopsis.owner):
            known = progress_of(catalog, synopsis.spec, progress)
            needs.append(summary_since(synopsis, known.bound, known.high))
    for standing in catalog.queries.values():
        if standing.inputs:
            needs.append(need_of(catalog, standing, progress, queries.get(str(standing.id), QueryProgress())))
            continue
        stream = catalog.stream_of(standing)
        high = progress_of(catalog, catalog.synopses[standing.synopsis].spec, progress).high
        closed = queries.get(str(standing.id), QueryProgress()).answered
        needs.append(keep_since(catalog.synopses[standing.synopsis], standing, stream, closed, high))
    return min(needs, default=NEVER)
