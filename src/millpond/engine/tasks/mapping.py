"""The map step: read a split, archive it, and make the partials of every synopsis on its stream, cut by shard."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial as partial_call
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millpond.archive.copies import keeps_order, write_copies, write_section
from millpond.archive.segments import DEAD, HIDDEN, RowsWriter, archive_folder, dead_folder, row_schema, write_rows
from millpond.catalog import Catalog, Store, Synopsis
from millpond.catalog.unions import entering
from millpond.engine.intake.split_reader import Taking, row_texts
from millpond.language.duck import quote
from millpond.language.spreading import EVERYWHERE
from millpond.manifests.records import Manifest
from millpond.operators.derived.rows import pass_rows, write_passed
from millpond.operators.filters.filter_orders import Screens
from millpond.operators.panes.forms import settled, tuples_of
from millpond.operators.relation.skew import heavy
from millpond.operators.row_query.matching import meet_queries
from millpond.operators.summaries.entries import live_name, write_entry
from millpond.operators.windowed.lookups import live_lookup, of_stream, tolerant_join
from millpond.relations import rows_of
from millpond.sources.own_marks import counted
from millpond.support.errors import SourceError
from millpond.synopses import PanesSpec, connection, merge_partials, partial, query_table
from millpond.synopses.partials.late_exclusions import CUT
from millpond.synopses.partials.shards import cut
from millpond.synopses.tolerance import FAULTS, one_line, tolerant, tolerant_partial
from millpond.tables import DurableWrites, Segment
from millpond.tables.chunks import pack
from millpond.tables.executors import Parcel
from millpond.types import HOLDS, StreamDefinition, to_json


def map_split(pond: str, manifest: Manifest, catalog: Catalog, task: int) -> Iterator[Parcel]:
    """Run one map task. The files it writes are named by epoch and task, so that a repetition replaces them."""
    started = clock.perf_counter()
    spent = dict.fromkeys(("read", "archive", "partials"), 0.0)
    split = manifest.splits[task]
    stream = catalog.streams[split.stream]
    screens = Screens(manifest.filters)
    taking, partials = Taking(manifest, stream, split), Partials(manifest, catalog, stream, screens, pond)
    file = f"e{manifest.epoch:012d}-{task:05d}.parquet"
    writes, epochs = DurableWrites(), (manifest.epoch, manifest.epoch)
    archive = RowsWriter(writes, archive_folder(pond, stream), file, stream.options.time, epochs)
    in_order, whole = keeps_order(stream), _needs_whole(manifest, catalog, stream)
    held: list[pa.Table] = []
    rows = late = 0
    pieces = taking.pieces()
    while True:
        begun = clock.perf_counter()
        piece = next(pieces, None)
        read = clock.perf_counter()
        spent["read"] += read - begun
        if piece is None:
            break
        if in_order:
            archive.add(piece)
        archived = clock.perf_counter()
        partials.add(piece)
        spent["archive"] += archived - read
        spent["partials"] += clock.perf_counter() - archived
        rows += piece.num_rows
        late += piece.num_rows - piece["_bound"].null_count
        if whole:
            held.append(piece)
    files: dict[str, object] = {}
    kept: Segment | None = None
    segment = pa.concat_tables(held) if held else taking.schema.empty_table()
    begun = clock.perf_counter()
    if rows:
        kept = archive.close() if in_order else write_section(pond, stream, file, segment, epochs, writes=writes)
        copies = write_copies(pond, stream, kept, segment, manifest.copies.get(str(stream.id), {}), writes)
        files |= {"archive": to_json(kept), "copies": to_json(copies)}
    spent["archive"] += clock.perf_counter() - begun
    begun = clock.perf_counter()
    for owner, shard, table in partials.parcels():
        yield Parcel(shard, owner, task, pack(table))
    dead, failures, operators = taking.dead + partials.dead, partials.failures, partials.operators
    passed_on: dict[str, int] = {}
    entries: list[Any] = []
    frequent: dict[str, tuple[int, dict[str, tuple[int, str]]]] = {}
    counting = counted(segment, stream.options)
    for synopsis, table in partials.made():
        if kept is not None:
            entries += _entries(connection(), pond, manifest, catalog, synopsis, stream, kept, table, counting)
    for store in catalog.stores.values():
        if stream.id not in store.spec.streams or store.first_epoch > manifest.epoch or not counting.num_rows:
            continue
        first = row_schema(catalog.streams[store.spec.stream]) if store.spec.feeds else segment.schema
        begun = clock.perf_counter()
        try:
            entered = entering(counting, store.spec, stream.id, first)
            spec, failing = store.spec, None
            screen = None if spec.narrowed else screens.of(store.owner, spec.condition, spec.casts)
            if screen is not None:
                screened = screen.screen(entered, mark=spec.mark is not None)
                entered, failing, spec = screened.rows, screened.failed, replace(spec, where=None)
                if screened.marked is not None:
                    entered, spec = screened.marked, replace(spec, mark=quote(HOLDS))
            table, failed = tolerant(partial_call(rows_of, connection(), spec), entered)
            failed = _together(failing, failed)
        except duckdb.Error as error:
            failures[store.owner] = one_line(error)
            continue
        if failed is not None:
            names = ", ".join(catalog.called(catalog.users(store.owner)))
            dead.append(failed_letters(failed, names, manifest.epoch))
        operators[store.owner] = [counting.num_rows, table.num_rows, clock.perf_counter() - begun]
        there = placed(connection(), store, table, manifest.shards, manifest.hot.get(store.owner, ()))
        packed = {id(t): pack(t) for t in {id(t): t for t in there.shards.values()}.values()}  # the same one for all
        for shard, rows_there in there.shards.items():
            yield Parcel(shard, store.owner, task, packed[id(rows_there)])
        if store.deal:
            frequent[store.owner] = (there.rows, there.frequent)
    for follower in catalog.streams.values():
        begun = clock.perf_counter()
        if (passed := pass_rows(stream, follower, segment, manifest.epoch, screens)) is not None:
            write_passed(pond, follower, manifest.epoch, task, passed.rows)
            passed_on[str(follower.id)] = passed.rows.num_rows
            operators[f"s{follower.id}"] = [segment.num_rows, passed.rows.num_rows, clock.perf_counter() - begun]
            if passed.failed is not None:
                dead.append(failed_letters(passed.failed, follower.name, manifest.epoch, "stream"))
    made = clock.perf_counter()
    spent["partials"] += made - begun
    row_queries = meet_queries(pond, manifest, stream, task, segment)
    for failed, name in row_queries.letters:
        dead.append(failed_letters(failed, name, manifest.epoch))
    met = clock.perf_counter()
    letters = pa.concat_tables(dead) if dead else DEAD.empty_table()
    if letters.num_rows:
        files["dead"] = to_json(write_rows(dead_folder(pond, stream), file, letters, None, *epochs, writes=writes))
    writes.finish()
    report = {
        "stream": stream.id,
        "task": task,
        "rows": rows,
        "late": late,
        "dead": letters.num_rows,
        "unknown": taking.unknown,
        "bytes": sum(i["size"] for i in split.items),
        "summaries": [to_json(s) for s in taking.summaries],
        "files": files,
        "entries": entries,
        "failures": failures,
        "operators": operators,
        "passed": passed_on,
        "seconds": {**spent, "matching": met - made, "disk": clock.perf_counter() - met},
        "lasted": clock.perf_counter() - started,
    }
    if frequent:
        report["frequent"] = frequent
    if filters := screens.report():
        report["filters"] = filters
    if row_queries.queries is not None:
        report["matched"] = {"queries": row_queries.queries, "work": row_queries.work}
    for shard in range(manifest.shards):
        yield Parcel(shard, "", task, json.dumps(report).encode())


def _needs_whole(manifest: Manifest, catalog: Catalog, stream: StreamDefinition) -> bool:
    """Whether anything but panes is made of a task's rows, for which they must be there at once."""
    return bool(
        manifest.register
        or manifest.copies.get(str(stream.id))
        or not keeps_order(stream)
        or any(catalog.kept_by(s.owner) for s in catalog.synopses.values() if stream.id in s.spec.streams)
        or any(stream.id in s.spec.streams for s in catalog.stores.values())
        or any(f.derived is not None and stream.id in f.derived.sources for f in catalog.streams.values())
    )


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


class Partials:
    """The partials of every synopsis on a stream, made piece by piece.

    dead: letters of rows on which a query's expressions fail. failures: by synopsis, why it fails altogether.
    operators: by synopsis, rows that came in, rows of partials made of them, seconds.
    """

    def __init__(
        self, manifest: Manifest, catalog: Catalog, stream: StreamDefinition, screens: Screens, pond: str
    ) -> None:
        self.manifest, self.catalog, self.stream, self.screens, self.pond = manifest, catalog, stream, screens, pond
        self.dead: list[pa.Table] = []
        self.failures: dict[str, str] = {}
        self.operators: dict[str, list[float]] = {}
        self._made: dict[str, list[pa.Table]] = {}
        self._together: dict[str, pa.Table] = {}
        self._synopses = [
            s for s in catalog.synopses.values() if stream.id in s.spec.streams and s.first_epoch <= manifest.epoch
        ]

    def add(self, piece: pa.Table) -> None:
        """Take in rows."""
        counting = counted(piece, self.stream.options)
        if not counting.num_rows:
            return
        for synopsis in self._synopses:
            spec, owner = synopsis.spec, synopsis.owner
            if owner in self.failures:
                continue
            first = row_schema(self.catalog.streams[spec.stream]) if spec.feeds else piece.schema
            begun = clock.perf_counter()
            try:
                entered = own = entering(counting, spec, self.stream.id, first)
                failing: pa.Table | None = None
                if spec.lookup is not None:
                    lookup = live_lookup(spec.lookup, owner, self.manifest)
                    entered, failing = tolerant_join(self.pond, entered, lookup, spec.time)
                screen = self.screens.of(owner, spec.where, casts(spec))
                if screen is not None:
                    # Windows that end with rows are of all rows: their condition chooses among these, and not before.
                    screened = screen.screen(entered, mark=spec.rows is not None)
                    entered, failing = screened.rows, _together(failing, of_stream(screened.failed, own.column_names))
                    if screened.marked is not None:
                        entered = screened.marked
                    spec = replace(spec, where=None if screened.marked is None else quote(HOLDS))
                make = partial_call(partial if spec.form == "eager" else tuples_of, connection(), spec)
                table, failed = tolerant(make, entered)
                failed = _together(failing, of_stream(failed, own.column_names))
            except (duckdb.Error, SourceError) as error:
                self.failures[owner] = one_line(error)
                continue
            self._made.setdefault(owner, []).append(table)
            seen = self.operators.setdefault(owner, [0, 0, 0.0])
            seen[0] += counting.num_rows
            seen[1] += table.num_rows
            seen[2] += clock.perf_counter() - begun
            if failed is not None:
                names = ", ".join(self.catalog.called(self.catalog.users(owner)))
                self.dead.append(failed_letters(failed, names, self.manifest.epoch))

    def parcels(self) -> Iterator[tuple[str, int, pa.Table]]:
        """(synopsis, shard, rows) of what was made."""
        for synopsis in self._synopses:
            spec, owner, made = synopsis.spec, synopsis.owner, self._made.pop(synopsis.owner, [])
            if owner in self.failures or not made:
                continue
            db = connection()
            try:
                eager = spec.form == "eager"
                together = merge_partials(db, spec, made) if eager else pa.concat_tables(made)
                tables = [together] if eager else settled(db, spec, [], [together]).tables
                cuts = [part for table in tables for part in cut(db, spec, owner, table, self.manifest.shards)]
            except FAULTS as error:
                self.failures[owner] = one_line(error)
                continue
            self._together[owner] = together
            for shard, table in cuts:
                yield owner, shard, table

    def made(self) -> Iterator[tuple[Synopsis, pa.Table]]:
        """The partials (or tuples, as a synopsis keeps them) of all rows, once `parcels` has ended."""
        yield from ((s, self._together[s.owner]) for s in self._synopses if s.owner in self._together)


def casts(spec: PanesSpec) -> tuple[tuple[str, str], ...]:
    """(quoted column, type) of the columns that a synopsis reads as another type than Arrow carries."""
    return tuple((dict(spec.casts) | dict(spec.narrowed)).items())


def _together(one: pa.Table | None, other: pa.Table | None) -> pa.Table | None:
    """Failing rows of two steps."""
    found = [t for t in (one, other) if t is not None]
    return pa.concat_tables(found) if found else None


@dataclass(frozen=True)
class Placed:
    """Rows of a store by shard, and what of them is about keys that many have: rows in all, and by hash how many."""

    shards: dict[int, pa.Table]
    rows: int
    frequent: dict[str, tuple[int, str]]


def placed(db: duckdb.DuckDBPyConnection, store: Store, rows: pa.Table, shards: int, hot: Iterable[str] = ()) -> Placed:
    """The rows of a store by the shard that keeps them.

    Arguments:
        hot: the hashes of keys that are split.
    """
    count = rows.num_rows
    if not store.spread or shards == 1 or not count:
        return Placed({max(0, store.home): rows} if count else {}, count, {})
    if store.spread == EVERYWHERE:
        return Placed(dict.fromkeys(range(shards), rows), count, {})
    dealt = f", hash({store.deal}) AS d" if hot and store.deal not in ("", "copies") else ""
    found = query_table(db, f"SELECT hash({store.spread}) AS h{dealt} FROM r", r=rows)
    hashes = found["h"].to_numpy()
    shard = hashes % np.uint64(shards)
    everywhere = np.zeros(count, bool)
    if hot:
        split = np.isin(hashes, np.array([int(h) for h in hot], np.uint64))
        if dealt:
            shard = np.where(split, found["d"].to_numpy() % np.uint64(shards), shard)
        else:
            everywhere = split
    parts = {n: rows.filter(pa.array((shard == n) | everywhere)) for n in range(shards)}
    frequent: dict[str, tuple[int, str]] = {}
    if store.deal:
        for key, (times, row) in heavy(hashes).items():
            name = query_table(db, f"SELECT ({store.spread})::VARCHAR AS k FROM r", r=rows.slice(row, 1))["k"][0]
            frequent[key] = (times, str(name.as_py()))
    return Placed({n: part for n, part in parts.items() if part.num_rows}, count, frequent)


def failed_letters(rows: pa.Table, queries: str, epoch: int, kind: str = "query") -> pa.Table:
    """Dead letters of rows, with their `_reason`, on which expressions of queries fail."""
    n = rows.num_rows
    positions = pa.array(rows["_id"].to_numpy() & 0xFFFFFFFF)
    texts = row_texts(rows.drop_columns(["_reason", *(name for name, _ in HIDDEN)]))
    return pa.table(
        [rows["_reason"], pa.array([f"{kind} {queries}"] * n), positions, texts, pa.array(np.full(n, epoch, np.int64))],
        schema=DEAD,
    )
