"""Back-fill: a new query over old data. Covers exactly the epochs before the query's first live one, then is adopted.

The job reads a pinned archive, answers the windows closed by then, and leaves pane state for the open ones. Its files
become visible with the epoch that adopts them; a crash before only repeats the job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond import functions
from millpond.archive.design.narrowing import Narrowing, interval_columns, needed_fraction
from millpond.archive.design.reductions import sample_steps
from millpond.archive.reading.history import Range, close_history, fed_tasks, map_history, merge_history, tasks_of
from millpond.archive.reading.reducing import Scan, Sums, count, reduced_tasks, resolve, sums_of
from millpond.archive.reading.scan import Counters
from millpond.archive.reading.splits import SCAN, Portion, map_portions, take_counters
from millpond.catalog import Catalog, Standing
from millpond.catalog.unions import progress_of, streams_of
from millpond.engine.core import Core
from millpond.engine.jobs.backfill_dead_letters import LETTERS, letters_of, letters_parcel, take_letters, write_letters
from millpond.manifests.adoptions import Adoption
from millpond.manifests.places import query_owner, results_folder, state_folder
from millpond.manifests.records import Published, QueryProgress, read_published
from millpond.operators.announcing import announced
from millpond.operators.panes.state import pane_chunk
from millpond.operators.summaries.maintenance import map_entries, served
from millpond.operators.windowed.group_bounds import group_bounds
from millpond.operators.windowed.lookup_versions import seen_by
from millpond.operators.windowed.needs import keep_since, read_since
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.synopses import PanesSpec, connection
from millpond.synopses.panes import by_interval
from millpond.synopses.partials.shards import home_shard
from millpond.synopses.rows import fold
from millpond.synopses.tolerance import one_line
from millpond.tables import Chunk, Segment, read_json, remove_file, write_chunks, write_json
from millpond.tables.chunks import Payload, unpack
from millpond.tables.executors import Parcel
from millpond.types import StreamDefinition, from_json, to_json
from millpond.windows import registered

#: Back-fills of relational queries are called by this and the query's id.
RELATION = "relation"


def _record(core: Core, owner: str) -> str:
    return os.path.join(core.path, "backfills", f"{owner}.json")


def ready_backfills(core: Core, published: bool = True) -> list[Adoption]:
    """Finished back-fills that no published epoch has adopted; `published`: only those that the next epoch can adopt.

    A query that joined the synopsis while its back-fill ran is not covered by it: the back-fill is repeated first.
    """
    folder = os.path.join(core.path, "backfills")
    found = []
    with core.lock:
        for name in sorted(n for n in os.listdir(folder) if n.endswith(".json")):
            adoption = from_json(Adoption, read_json(os.path.join(folder, name)))
            adopted = any(str(q) in core.published.queries for q in adoption.queries)
            if adopted or not _is_known(core.catalog, adoption):
                remove_file(os.path.join(folder, name))
            elif not published or _covers(core, adoption):
                found.append(adoption)
    return found


def _is_known(catalog: Catalog, adoption: Adoption) -> bool:
    """Whether what a back-fill was for is still there."""
    if adoption.owner.startswith(RELATION):
        return any(q in catalog.queries for q in adoption.queries)
    return adoption.owner in catalog.synopses


def backfill_owner(standing: Standing) -> str:
    """What the back-fill of a query is called: its synopsis, which it may share; a relational one has its own."""
    return f"{RELATION}{standing.id}" if standing.inputs else standing.synopsis


def _covers(core: Core, adoption: Adoption) -> bool:
    waiting = {q.id for q in core.catalog.users(adoption.owner) if "backfilling" in (q.status, q.reason)}
    return waiting <= set(adoption.queries)


def waiting_owners(core: Core) -> list[str]:
    """Synopses whose back-fill has still to run and can: the epoch before their first one is published."""
    done = {a.owner for a in ready_backfills(core)}
    owners = {
        backfill_owner(q): q.first_epoch
        for q in core.catalog.queries.values()
        if q.status in ("backfilling", "paused") and str(q.id) not in core.published.queries
    }
    return sorted(
        owner
        for owner, first in owners.items()
        if core.published.epoch >= first - 1 and needs_backfill(core, owner) and owner not in done
    )


def needs_backfill(core: Core, owner: str) -> bool:
    """Whether any query of the synopsis was registered on a stream with history."""
    users = [q for q in core.catalog.queries.values() if backfill_owner(q) == owner]
    return any(q.status == "backfilling" or q.reason == "backfilling" for q in users)


def attempt_backfill(core: Core, owner: str) -> None:
    """As `run_backfill`; a back-fill that cannot be answered gives up its queries, and keeps nobody else waiting.

    Whatever else goes wrong is raised: it may go well another time.
    """
    try:
        run_backfill(core, owner)
    except QueryError as error:
        with core.lock:
            users = [q for q in core.catalog.queries.values() if backfill_owner(q) == owner]
            waiting = [q.id for q in users if "backfilling" in (q.status, q.reason)]
            reason = f"it cannot be back-filled: {one_line(error)}"
            core.catalog_log.record(*(event for q in waiting for event in core.catalog.quarantined(q, reason)))
            core.notify()


def run_backfill(core: Core, owner: str) -> None:
    """Run the back-fill of one synopsis and record it as finished."""
    with core.pinned():
        if owner.startswith(RELATION):
            from millpond.engine.jobs.relation_backfill import backfill_relation

            adoption = backfill_relation(core, int(owner[len(RELATION) :]))
            if adoption is not None:
                with core.lock:
                    write_json(_record(core, owner), to_json(adoption))
                    core.notify()
            return
        _run(core, owner)


def _run(core: Core, owner: str) -> None:
    with core.lock:
        catalog = core.catalog
        if owner not in catalog.synopses:
            return
        synopsis = catalog.synopses[owner]
        users = catalog.users(owner)
        stream = catalog.streams[synopsis.spec.stream]
        before = read_published(core.path, synopsis.first_epoch - 1) if synopsis.first_epoch > 1 else Published()
        streams = streams_of(catalog, synopsis.spec)
        snapshots = [core.streams[s.id].archive.snapshot[1] for s in streams]
        removed = max((gone for gone in snapshots if gone is not None), default=None)
    queries = [q.definition.query for q in users]
    lookup = seen_by(core, queries[0], owner).lookup
    synopsis = replace(synopsis, spec=replace(synopsis.spec, lookup=lookup))
    state = progress_of(catalog, synopsis.spec, before.progress)
    low = min(read_since(q, start_of(q, state.bound), state.high) for q in users)
    wanted = Range(low if low > NEVER else None, None, synopsis.first_epoch - 1)
    tasks, _, _ = fed_tasks(core, streams, wanted)
    found = None
    if not synopsis.spec.weighted:
        found = served(core, stream, by_interval(synopsis.spec), queries, wanted, hard=False)
    if found is not None:
        tasks = [(0, t) for t in tasks_of(found.left, max(1, core.executor.cores - 1))]
        removed = found.removed
    covered = NEVER if removed is None else removed
    starts = {
        str(q.id): QueryProgress(closed=s, start=s, covered=covered) for q in users for s in [start_of(q, state.bound)]
    }
    plan: dict[str, Any] = {
        "stream": to_json(stream),
        "streams": to_json(streams),
        "wanted": to_json(wanted),
        "bound": state.bound,
        "high": state.high,
        "groups": state.groups,
    }
    plan |= {} if found is None else found.job
    plan |= {
        "users": to_json(users),
        "starts": to_json(starts),
        "synopsis": to_json(synopsis),
        "shards": core.settings.shards,
    }
    remove_file(_record(core, owner))  # of an earlier run, which did not cover every user
    path = _record(core, owner) + ".plan"
    if synopsis.spec.weighted:
        sums = sums_of(queries[0], stream) if len(queries) == 1 else None
        reports = _reduced(core, plan, path, synopsis.spec, streams, wanted, state.high, sums)
    else:
        reports = _job(core, plan | {"tasks": to_json(tasks)}, path, found is not None)
    adoption = Adoption(
        owner,
        tuple(q.id for q in users),
        {
            q: start.after([from_json(QueryProgress, r["progress"][q]) for r in reports if q in r["progress"]])
            for q, start in starts.items()
        },
        tuple(from_json(Segment, s) for r in reports for s in r["state"]),
        tuple(from_json(Segment, s) for r in reports for s in r["results"]),
        letters_of(reports),
    )
    with core.lock:
        if owner in core.catalog.synopses:
            write_json(_record(core, owner), to_json(adoption))
        os.unlink(path)
        core.notify()


def _job(core: Core, plan: dict[str, Any], path: str, entries: bool = False) -> list[dict[str, Any]]:
    """Run a plan; the reports of its merge tasks. `entries`: a further task reads the entries of a summary."""
    write_json(path, plan)
    outcomes = core.executor.run(
        partial(_map, core.path, path),
        len(plan["tasks"]) + entries,
        partial(_merge, core.path, path),
        core.settings.shards,
        background=True,
    )
    return [r for r, _ in outcomes]


def _reduced(
    core: Core,
    plan: dict[str, Any],
    path: str,
    spec: PanesSpec,
    streams: Sequence[StreamDefinition],
    wanted: Range,
    now: int,
    sums: Sums | None,
) -> list[dict[str, Any]]:
    """Run a plan over part of the rows; under `error`, over more of them until the answers are good enough."""
    reduction = spec.reduce
    assert reduction is not None
    narrowing = Narrowing(reduction.error, sum(s.rows for f in streams for s in core.streams[f.id].archive.segments))
    counters = Counters()
    while True:
        counters.full_groups = counters.full_bytes = 0  # a full scan would be one
        scan = Scan(reduction, now, counters=counters, sums=sums)
        error = reduction.function == "error"
        scan.steps = sample_steps(narrowing.drop) if error else resolve(core, streams, scan, wanted)
        tasks, _, _ = reduced_tasks(core, streams, scan, wanted)
        scan.held.forget()
        known = {"reduced": to_json(scan.stretches), "dropped": scan.most, "scanned": scan.summary()}
        known["coarse"] = to_json(scan.coarse)
        starts = {q: p | known for q, p in plan["starts"].items()}
        tried = plan | {"tasks": to_json(tasks), "starts": starts, "fraction": narrowing.fraction if error else None}
        reports = _job(core, tried, path)
        count(scan, reports)
        # A shard without answers says nothing, unless none has any.
        needed = [r["needed"] for r in reports if r["needed"] is not None] or [1.0]
        if not error or narrowing.done(max(needed)):
            return reports


def start_of(standing: Standing, bound: int) -> int:
    """The event time after which a query's windows end, given the progress when it went live."""
    since = standing.definition.options.since
    if since is None:
        return bound
    return NEVER if since == "start" else since


_plans: dict[tuple[str, int, int], Any] = {}


def _plan(path: str) -> Any:
    status = os.stat(path)
    key = path, status.st_ino, status.st_mtime_ns  # a repeated back-fill has a new plan under the same name
    if key not in _plans:
        _plans.clear()
        _plans[key] = read_json(path)
    return _plans[key]


def _map(pond: str, path: str, task: int) -> Iterator[Parcel]:
    from millpond.catalog.state import Synopsis

    registered.use(pond)
    functions.use(pond)
    plan = _plan(path)
    synopsis = from_json(Synopsis, plan["synopsis"])
    spec = by_interval(synopsis.spec)
    if task == len(plan["tasks"]):
        low = from_json(Range, plan["wanted"]).low
        yield from map_entries(pond, plan, spec, synopsis.owner, plan["shards"], task, low)
        return
    place, listed = plan["tasks"][task]
    stream, first = from_json(StreamDefinition, plan["streams"][place]), from_json(StreamDefinition, plan["stream"])
    wanted, shards = from_json(Range, plan["wanted"]), plan["shards"]
    failed: list[pa.Table] = []
    segments: list[Segment] | None = None
    if not spec.weighted:
        segments = [from_json(Segment, s) for s in listed]
        yield from map_history(
            pond, stream, segments, wanted, spec, synopsis.owner, shards, task, first=first, letters=failed
        )
    else:
        portions = [from_json(Portion, p) for p in listed]
        query = from_json(Standing, plan["users"][0]).definition.query
        yield from map_portions(
            pond, stream, portions, wanted, spec, query, synopsis.owner, shards, task, first, letters=failed
        )
    names = ", ".join(sorted(from_json(Standing, user).definition.name for user in plan["users"]))
    epoch = synopsis.first_epoch - 1
    written = write_letters(pond, stream, synopsis.owner, task, failed, names, epoch, segments)
    if written is not None:
        yield letters_parcel(task, stream, written)


def _merge(pond: str, path: str, shard: int, parcels: Sequence[Parcel]) -> tuple[dict[str, Any], Payload]:
    from millpond.catalog.state import Synopsis

    registered.use(pond)
    functions.use(pond)
    plan = _plan(path)
    synopsis = from_json(Synopsis, plan["synopsis"])
    stream = from_json(StreamDefinition, plan["stream"])
    parcels, read = take_counters(parcels)
    parcels, dead = take_letters(parcels)
    if home_shard(synopsis.spec, synopsis.owner, plan["shards"]) not in (None, shard):
        return {"progress": {}, "state": [], "results": [], "needed": None, SCAN: read, LETTERS: dead}, b""
    db = connection()
    parts = [unpack(p.payload) for p in sorted(parcels, key=lambda p: p.task)]
    results: list[Chunk] = []
    progress: dict[str, Any] = {}
    keep = []
    needed: float | None = None
    epoch = synopsis.first_epoch - 1
    for value in plan["users"]:
        standing = from_json(Standing, value)
        query, options = standing.definition.query, standing.definition.options
        start = from_json(QueryProgress, plan["starts"][str(standing.id)])
        until = announced(options, plan["bound"])
        groups = None if options.delay else group_bounds(stream, query, synopsis.spec, plan["groups"])
        answers, after = close_history(db, synopsis.spec, query, options, parts, start, until, groups, plan["high"])
        progress[str(standing.id)] = to_json(after)
        if plan.get("fraction") is not None and answers is not None and answers.num_rows and query.reduce is not None:
            pairs = interval_columns(query)
            asked = needed_fraction(answers, pairs, query.reduce.error, plan["fraction"])
            needed = asked if needed is None else max(needed, asked)
        keep.append(keep_since(synopsis, standing, stream, after.closed, plan["high"]))
        if answers is not None and answers.num_rows:
            ends = pc.min_max(answers["window_end"].cast("int64")).as_py()
            results.append(Chunk(query_owner(standing.id), "backfilled", epoch, ends["min"], ends["max"], answers))
    state = []
    panes = merge_history(db, synopsis.spec, parts)
    if panes.num_rows:
        low = synopsis.spec.panes.pane(min(keep))
        if synopsis.spec.rows is not None:
            kept = fold(db, synopsis.spec, panes, low)
        else:
            kept = panes.filter(pc.greater_equal(panes["pane"], low))
        if kept.num_rows:
            state = [pane_chunk(synopsis.owner, synopsis.spec, epoch, kept)]
    name = f"b{synopsis.owner}-{shard:04d}.parquet"
    written = {
        "progress": progress,
        "state": [to_json(write_chunks(state_folder(pond), name, state, shard))] if state else [],
        "results": [to_json(write_chunks(results_folder(pond), name, results, shard))] if results else [],
        "needed": needed,
        SCAN: read,
        LETTERS: dead,
    }
    return written, b""
