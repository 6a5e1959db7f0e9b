"""The map step: read a split, archive it, and make the partials of every synopsis on its stream, cut by shard."""

from __future__ import annotations

import hashlib
import json
import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial as partial_call
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millpond.catalog import Catalog, Synopsis
from millpond.engine.copies import write_copies, write_section
from millpond.engine.cuts import CUT
from millpond.engine.derived import pass_rows, write_passed
from millpond.engine.entries import live_name, write_entry
from millpond.engine.forms import settled, tuples_of
from millpond.engine.own_marks import BROKEN, behind_which, counted, group_texts, known_bounds, own_bounds, said
from millpond.engine.records import Manifest, Split
from millpond.engine.segments import DEAD, HIDDEN, dead_folder, row_schema, times_of, write_rows
from millpond.engine.soup import meet_queries
from millpond.engine.tolerance import FAILING_ROWS, bisect, one_line
from millpond.engine.unions import entering
from millpond.progress import NEVER, StreamProgress, ahead_mask, summarise
from millpond.progress.generators import COHORT, cohort_median
from millpond.relations import rows_of
from millpond.sources.intake import Item
from millpond.sources.read import Read, read, tail_times
from millpond.synopses import PanesSpec, connection, partial, query_table
from millpond.synopses.kernel import reset
from millpond.tables import Segment
from millpond.tables.chunks import Payload, pack
from millpond.types import StreamDefinition, to_json


@dataclass(frozen=True)
class Parcel:
    """What a map task sends to a shard: a partial of a synopsis, or (owner '') the task's report."""

    shard: int
    owner: str
    task: int
    payload: Payload


def map_split(pond: str, manifest: Manifest, catalog: Catalog, task: int) -> Iterator[Parcel]:
    """Run one map task. The files it writes are named by epoch and task, so that a repetition replaces them."""
    started = clock.perf_counter()
    split = manifest.splits[task]
    stream = catalog.streams[split.stream]
    progress = manifest.progress.get(str(stream.id), StreamProgress())
    db = connection()
    segment, dead, summaries, unknown = _take(db, manifest, stream, split, progress)
    taken = clock.perf_counter()
    files: dict[str, object] = {}
    file = f"e{manifest.epoch:012d}-{task:05d}.parquet"
    kept: Segment | None = None
    if segment.num_rows:
        kept = write_section(pond, stream, file, segment, (manifest.epoch, manifest.epoch))
        copies = write_copies(pond, stream, kept, segment, manifest.copies.get(str(stream.id), {}))
        files |= {"archive": to_json(kept), "copies": to_json(copies)}
    archived = clock.perf_counter()
    failures: dict[str, str] = {}
    entries: list[Any] = []
    counting = counted(segment, stream.options)
    for synopsis in catalog.synopses.values():
        spec = synopsis.spec
        if stream.id not in spec.streams or synopsis.first_epoch > manifest.epoch or not counting.num_rows:
            continue
        first = row_schema(catalog.streams[spec.stream]) if spec.feeds else segment.schema
        try:
            eager = spec.form == "eager"
            make = partial_call(partial if eager else tuples_of, db, spec)
            table, failed = tolerant(make, entering(counting, spec, stream.id, first))
            tables = [table] if eager else settled(db, spec, [], [table]).tables
        except duckdb.Error as error:
            failures[synopsis.owner] = one_line(error)
            continue
        if failed is not None:
            names = ", ".join(sorted(q.definition.name for q in catalog.users(synopsis.owner)))
            dead.append(_failed_letters(failed, names, manifest.epoch))
        if kept is not None:
            entries += _entries(db, pond, manifest, catalog, synopsis, stream, kept, table, counting)
        for form in tables:
            for shard, part in cut(db, spec, synopsis.owner, form, manifest.shards):
                yield Parcel(shard, synopsis.owner, task, pack(part))
    for store in catalog.stores.values():
        if stream.id not in store.spec.streams or store.first_epoch > manifest.epoch or not counting.num_rows:
            continue
        first = row_schema(catalog.streams[store.spec.stream]) if store.spec.feeds else segment.schema
        try:
            rows = entering(counting, store.spec, stream.id, first)
            table, failed = tolerant(partial_call(rows_of, db, store.spec), rows)
        except duckdb.Error as error:
            failures[store.owner] = one_line(error)
            continue
        if failed is not None:
            names = ", ".join(sorted(q.definition.name for q in catalog.users(store.owner)))
            dead.append(_failed_letters(failed, names, manifest.epoch))
        if table.num_rows:
            yield Parcel(store.home, store.owner, task, pack(table))
    for follower in catalog.streams.values():
        if (passed := pass_rows(stream, follower, segment, manifest.epoch)) is not None:
            write_passed(pond, follower, manifest.epoch, task, passed.rows)
            if passed.failed is not None:
                dead.append(_failed_letters(passed.failed, follower.name, manifest.epoch, "stream"))
    made = clock.perf_counter()
    row_queries = meet_queries(pond, manifest, stream, task, segment)
    for failed, name in row_queries.letters:
        dead.append(_failed_letters(failed, name, manifest.epoch))
    met = clock.perf_counter()
    letters = pa.concat_tables(dead) if dead else DEAD.empty_table()
    if letters.num_rows:
        files["dead"] = to_json(
            write_rows(dead_folder(pond, stream), file, letters, None, manifest.epoch, manifest.epoch)
        )
    late = segment.num_rows - segment["_bound"].null_count
    report = {
        "stream": stream.id,
        "task": task,
        "rows": segment.num_rows,
        "late": late,
        "dead": letters.num_rows,
        "unknown": unknown,
        "bytes": sum(i["size"] for i in split.items),
        "summaries": [to_json(s) for s in summaries],
        "files": files,
        "entries": entries,
        "failures": failures,
        "seconds": {
            "read": taken - started,
            "archive": archived - taken,
            "partials": made - archived,
            "matching": met - made,
        },
    }
    if row_queries.queries is not None:
        report["matched"] = {"queries": row_queries.queries, "limited": row_queries.limited}
    for shard in range(manifest.shards):
        yield Parcel(shard, "", task, json.dumps(report).encode())


def _entries(
    db: duckdb.DuckDBPyConnection,
    pond: str,
    manifest: Manifest,
    catalog: Catalog,
    synopsis: Synopsis,
    stream: StreamDefinition,
    file: Segment,
    table: pa.Table,
    rows: pa.Table,
) -> list[Any]:
    """Write what the summaries that share a synopsis keep of the epoch's file. Returns the segments to commit."""
    found = [s for s in catalog.kept_by(synopsis.owner) if s.first_epoch <= manifest.epoch]
    if found and stream.options.late == "drop":
        table = tolerant_partial(db, synopsis.spec, rows, f"_bound AS {CUT}")[0]
    return [to_json(write_entry(pond, s.id, file, live_name(s.id, file.path), table)) for s in found]


def _take(
    db: duckdb.DuckDBPyConnection, manifest: Manifest, stream: StreamDefinition, split: Split, progress: StreamProgress
) -> tuple[pa.Table, list[pa.Table], list[object], int]:
    """Rows of a split with their hidden columns, dead letters, summaries of the items, unknown columns met."""
    schema = row_schema(stream)
    time = stream.options.time
    median = progress.median
    if stream.options.ahead is not None:
        for record in split.before:
            times = tail_times(Item.from_json(record), stream, db, rows=2**31)
            if len(times):
                median = cohort_median(times[((len(times) - 1) // COHORT) * COHORT :])
    highs = _highs(db, stream, split, progress)
    tables: list[pa.Table] = []
    dead: list[pa.Table] = []
    summaries: list[object] = []
    unknown = 0
    for record in split.items:
        item = Item.from_json(record)
        result = _read(item, stream)
        db = connection()
        rows = result.rows
        unknown += result.unknown
        source = _place(item)
        if result.rejected.num_rows:
            dead.append(_letters(result.rejected, source, manifest.epoch))
        positions = np.arange(rows.num_rows) if result.positions is None else result.positions.to_numpy()
        times = times_of(rows, time)
        reference = median
        ahead, median = ahead_mask(times, stream.options, median)
        if ahead is not None:
            reason = (
                f"event time runs ahead of the rows before it by more than ahead = {stream.options.ahead} microseconds"
            )
            dead.append(_refused(rows.filter(pa.array(ahead)), positions[ahead], source, reason, manifest.epoch))
            rows, positions, times = rows.filter(pa.array(~ahead)), positions[~ahead], times[~ahead]
        groups = group_texts(rows, stream.options)
        last = median if reference is None else reference
        most = None if stream.options.ahead is None or last is None else last + stream.options.ahead
        marks = said(rows, times, stream, groups, most)
        broken = np.zeros(len(times), np.bool_)
        partition = progress.partitions.get(item.partition)
        if partition is not None and (stream.options.marks_column or stream.options.marks_record):
            broken = times < own_bounds(partition, groups, len(times))
        if marks.records is not None:
            broken &= ~marks.records
        out = np.zeros(len(times), np.bool_) if marks.records is None else marks.records
        if stream.options.guard == "reject" and broken.any():
            dead.append(_refused(rows.filter(pa.array(broken)), positions[broken], source, BROKEN, manifest.epoch))
            out = out | broken
        if out.any():
            rows, positions, times = rows.filter(pa.array(~out)), positions[~out], times[~out]
            groups = None if groups is None else groups.filter(pa.array(~out))
        known = known_bounds(progress, groups, len(times))
        summary = summarise(
            times,
            stream.options,
            item.partition,
            median if stream.options.ahead is not None else None,
            highs.get(item.partition, NEVER),
        )
        summary = replace(
            summary,
            mark=marks.mark,
            groups=marks.groups,
            late=int((times < known).sum()),
            broken=int(broken.sum()),
            marks=marks.count,
        )
        summaries.append(summary)
        highs[item.partition] = max(highs.get(item.partition, NEVER), summary.high)
        hidden = [
            pa.array(positions.astype(np.int64) + (item.ordinal << 32)),
            pa.array(np.full(len(times), manifest.epoch, np.int64)),
            pa.array(behind_which(known, progress, stream.options), mask=times >= known),
        ]
        tables.append(pa.table([*rows.columns, *hidden], schema=schema))
    segment = pa.concat_tables(tables) if tables else schema.empty_table()
    return segment, dead, summaries, unknown


def _highs(
    db: duckdb.DuckDBPyConnection, stream: StreamDefinition, split: Split, progress: StreamProgress
) -> dict[str, int]:
    """The largest event time of each source partition before a split, where delays are measured against it."""
    highs = {name: p.high for name, p in progress.partitions.items()}
    if stream.options.lateness_share is None:
        return highs
    for record in split.before:
        item = Item.from_json(record)
        times = tail_times(item, stream, db, rows=2**31)
        if len(times):
            highs[item.partition] = max(highs.get(item.partition, NEVER), int(times.max()))
    return highs


def _place(item: Item) -> str:
    """Where an item came from, for dead letters."""
    if item.kind == "file":
        return item.path
    return f"ingest {item.ordinal}" if item.kind == "landing" else f"epoch {item.epoch}"


def _read(item: Item, stream: StreamDefinition) -> Read:
    """The rows of an item; one that cannot be read at all becomes a dead letter and does not stop the stream.

    Raises: SourceError when it vanished or changed: then the epoch waits until it is there again.
    """
    try:
        return read(item, stream, None, connection())
    except (duckdb.Error, pa.ArrowException, ValueError, OverflowError) as error:
        if isinstance(error, duckdb.FatalException):
            reset()
        schema = row_schema(stream)
        rows = pa.schema([f for f in schema if f.name not in dict(HIDDEN)]).empty_table()
        reason = f"the item cannot be read: {one_line(error)}"
        record = {"reason": [reason], "position": pa.array([None], pa.int64()), "record": pa.array([None], pa.string())}
        return Read(rows, None, pa.table(record))


def tolerant_partial(
    db: duckdb.DuckDBPyConnection, spec: PanesSpec, segment: pa.Table, extra: str = ""
) -> tuple[pa.Table, pa.Table | None]:
    """The partial of a segment; rows on which an expression fails are found by bisection and left out.

    Returns: the partial of the good rows, and the failing rows with their `_reason` (None if there are none).
    Raises: duckdb.Error when more than FAILING_ROWS rows fail.
    """
    return tolerant(lambda rows: partial(db, spec, rows, extra), segment)


def tolerant(make: Callable[[pa.Table], pa.Table], segment: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """What `make` makes of a segment, without the rows that it fails on; see `tolerant_partial`."""
    try:
        return make(segment), None
    except duckdb.Error as error:
        if segment.num_rows == 0:
            raise
        first = error
    parted = bisect(make, segment)
    # Where each half works and the whole does not, the fault is in the aggregate, not in a row.
    if parted.failed is None or parted.failed.num_rows > FAILING_ROWS:
        raise first
    kept = pa.concat_tables(parted.good) if parted.good else segment.slice(0, 0)
    return make(kept), parted.failed


def home_shard(spec: PanesSpec, owner: str, shards: int) -> int | None:
    """The shard that has all rows of a synopsis, or None when they are spread by group."""
    spread = spec.keys if spec.rows is None else spec.keys[: spec.rows.partition]
    if shards > 1 and not spec.single and spread:
        return None
    return int.from_bytes(hashlib.blake2b(owner.encode(), digest_size=4).digest(), "big") % shards


def cut(
    db: duckdb.DuckDBPyConnection, spec: PanesSpec, owner: str, table: pa.Table, shards: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a partial by the shard that keeps their group."""
    if not table.num_rows:
        return
    home = home_shard(spec, owner, shards)
    if home is not None:
        yield home, table
        return
    names = spec.key_names if spec.rows is None else spec.key_names[: spec.rows.partition]
    shard = query_table(db, f"SELECT (hash({', '.join(names)}) % {shards})::INTEGER AS s FROM p", p=table)[
        "s"
    ].to_numpy()
    for number in range(shards):
        part = table.filter(pa.array(shard == number))
        if part.num_rows:
            yield number, part


def _letters(rejected: pa.Table, source: str, epoch: int) -> pa.Table:
    n = rejected.num_rows
    return pa.table(
        [
            rejected["reason"],
            pa.array([source] * n),
            rejected["position"],
            rejected["record"],
            pa.array(np.full(n, epoch, np.int64)),
        ],
        schema=DEAD,
    )


def _texts(rows: pa.Table) -> pa.Array:
    """Rows as JSON texts, so that a dead letter can be mended and replayed."""
    shown = query_table(connection(), "SELECT left(to_json(r)::VARCHAR, 1000) AS t FROM rows r", rows=rows)
    return shown["t"]


def _refused(
    rows: pa.Table, positions: np.ndarray[tuple[int], np.dtype[np.int64]], source: str, reason: str, epoch: int
) -> pa.Table:
    """Dead letters of rows that can be read and are not taken."""
    n = rows.num_rows
    return pa.table(
        [
            pa.array([reason] * n),
            pa.array([source] * n),
            pa.array(positions),
            _texts(rows),
            pa.array(np.full(n, epoch, np.int64)),
        ],
        schema=DEAD,
    )


def _failed_letters(rows: pa.Table, queries: str, epoch: int, kind: str = "query") -> pa.Table:
    n = rows.num_rows
    positions = pa.array(rows["_id"].to_numpy() & 0xFFFFFFFF)
    texts = _texts(rows.drop_columns(["_reason", *(name for name, _ in HIDDEN)]))
    return pa.table(
        [rows["_reason"], pa.array([f"{kind} {queries}"] * n), positions, texts, pa.array(np.full(n, epoch, np.int64))],
        schema=DEAD,
    )
