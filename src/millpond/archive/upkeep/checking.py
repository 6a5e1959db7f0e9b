"""Whether what archives say of their files is true: every file readable, counted, in order, statistics as written.

It looks at files only, beside whatever runs: a file that upkeep has replaced since the table was read is no fault.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from millpond.archive import fractions, seed_of
from millpond.archive.archive_files import HIDDEN
from millpond.archive.copy_files import copies_on_disk, copy_folder, eager_copies, section_of
from millpond.archive.design.sampling import PLACES
from millpond.catalog import Catalog
from millpond.catalog.events import apply
from millpond.manifests.records import Manifest, Published, read_manifest, read_published
from millpond.sources.table_sources.versions import TableState, table_folder, version_path
from millpond.support.errors import PondError
from millpond.synopses.blocks import event_times
from millpond.tables import Segment, read_json
from millpond.tables.locations import folder_names, reason_of, size_of
from millpond.tables.segments import live_segments
from millpond.tables.stored_files import open_parquet, read_arrow, read_parquet
from millpond.types import StreamDefinition, TableDefinition, from_json, micros_of


@dataclass
class Checked:
    """What was found of one table. copy: '' is the archive itself. faults: one sentence each, with the file.

    kind: 'archive' (of a stream, or a copy of one), or 'table': the versions of the table that is called `stream`.
    """

    stream: str
    copy: str
    files: int = 0
    rows: int = 0
    bytes: int = 0
    faults: list[str] = field(default_factory=list)
    kind: Literal["archive", "table"] = "archive"


def catalog_on_disk(pond: str) -> Catalog:
    """The catalog of a pond from its log, whoever has the pond open.

    Raises: PondError when there is no pond.
    """
    path = os.path.join(pond, "catalog", "events.jsonl")
    if not os.path.exists(os.path.join(pond, "pond.json")) or not os.path.exists(path):
        raise PondError(f"there is no pond in {pond}")
    catalog = Catalog()
    with open(path, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                catalog = apply(catalog, json.loads(line))
    return catalog


def first_columns(pond: str) -> dict[int, frozenset[str]]:
    """The columns that streams had when they were created, by id: every file has them. Later ones may be missing."""
    found: dict[int, frozenset[str]] = {}
    with open(os.path.join(pond, "catalog", "events.jsonl"), "rb") as file:
        for line in file:
            if line.endswith(b"\n") and (event := json.loads(line))["do"] == "create_stream":
                made = from_json(StreamDefinition, event["definition"])
                found[made.id] = frozenset(c.name for c in made.all_columns)
    return found


def check_archives(pond: str, streams: Iterable[str] = ()) -> Iterator[Checked]:
    """Check the archives of a pond with their copies, and the versions of its tables that epochs name.

    Arguments:
        streams: names of streams and tables; none: all of them.
    Raises: PondError when there is no pond, or no such stream or table.
    """
    catalog = catalog_on_disk(pond)
    chosen, tables = list(catalog.streams.values()), list(catalog.tables.values())
    if streams:
        wanted = {name.lower(): name for name in streams}
        known: list[StreamDefinition | TableDefinition] = [*chosen, *tables]
        missing = next((n for low, n in wanted.items() if all(low != k.name.lower() for k in known)), None)
        if missing is not None:
            there = ", ".join(sorted(k.name for k in known)) or "none"
            raise PondError(f"there is no stream or table '{missing}' in {pond}; there are {there}")
        chosen = [s for s in chosen if s.name.lower() in wanted]
        tables = [t for t in tables if t.name.lower() in wanted]
    columns = first_columns(pond)
    for stream in chosen:
        for copy in ("", *copies_on_disk(pond, stream)):
            yield check_table(pond, stream, copy, columns[stream.id])
    for table in tables:
        yield check_versions(pond, table)


def check_versions(pond: str, table: TableDefinition) -> Checked:
    """Check the versions of a table that manifests and publish records name: there, readable, with its columns."""
    found = Checked(table.name, "", kind="table")
    folder = table_folder(pond, table)
    state = os.path.join(folder, "state.json")
    last = from_json(TableState, read_json(state)) if os.path.exists(state) else TableState()
    named = versions_named(pond, table)
    for version in sorted(named | ({last.version} - {0})):
        path = version_path(folder, version)
        found.files += 1
        try:
            rows = read_arrow(path)
            rows.validate(full=True)
        except FileNotFoundError:
            # An epoch that has ended meanwhile may have been the last to name it.
            if version in versions_named(pond, table) or version == last.version:
                found.faults.append(f"version {version}: the file is missing")
            continue
        except (PondError, pa.ArrowException, OSError) as error:
            found.faults.append(f"version {version}: it cannot be read: {reason_of(error)}")
            continue
        found.rows, found.bytes = found.rows + rows.num_rows, found.bytes + os.path.getsize(path)
        if rows.column_names != [c.name for c in table.columns]:
            found.faults.append(f"version {version}: its columns are {', '.join(rows.column_names)}")
        if version == last.version and rows.num_rows != last.rows:
            found.faults.append(f"version {version}: it has {rows.num_rows} rows, not {last.rows}")
    return found


def versions_named(pond: str, table: TableDefinition) -> set[int]:
    """The versions of a table that an epoch, a query or a reader can still ask for."""
    key, found = str(table.id), set()
    records: list[Manifest | Published] = []
    for kind, read in (("published", read_published), ("manifests", read_manifest)):
        epochs = sorted(int(n[:-5]) for n in os.listdir(os.path.join(pond, kind)) if n.endswith(".json"))
        kept = []
        for epoch in epochs if kind == "published" else epochs[-1:]:
            with contextlib.suppress(FileNotFoundError):  # one that was pruned meanwhile
                kept.append(read(pond, epoch))
        found |= {v for r in kept if (v := (r.versions if isinstance(r, Published) else r.tables).get(key))}
        records += kept[-1:]
    for record in records:
        stretches = [s for q in record.queries.values() for s in q.tables]
        stretches += [s for each in record.lookups.values() for s in each]
        found |= {s.versions[key] for s in stretches if key in s.versions}
    return found


def check_table(pond: str, stream: StreamDefinition, copy: str, columns: frozenset[str] = frozenset()) -> Checked:
    """Check one table: the rows of a stream, or a copy of them. columns: that every file must have."""
    found = Checked(stream.name, copy)
    folder = copy_folder(pond, stream, copy)
    if "_delta_log" not in folder_names(folder):
        found.faults.append(f"{folder} is no Delta table")
        return found
    segments = _live(folder)
    whole = {section_of(s.path): s for s in _live(copy_folder(pond, stream, ""))} if copy else {}
    for segment in segments:
        found.files, found.rows, found.bytes = found.files + 1, found.rows + segment.rows, found.bytes + segment.size
        faults = list(_faults(folder, stream, segment, columns))
        section = whole.get(section_of(segment.path))
        if copy and not faults and section is not None:
            faults = list(_against(pond, stream, copy, segment, section))
        if faults and segment.path in {s.path for s in _live(folder)}:
            found.faults += [f"{segment.path}: {fault}" for fault in faults]
    wanted = eager_copies(stream).get(copy) if copy else None
    if wanted is not None and any(s.kept != wanted for s in segments):
        found.faults.append(f"not every file has the fraction {wanted} of the rows")
    return found


def _live(folder: str) -> tuple[Segment, ...]:
    """The live files of a table; again when the log was cleaned up while it was read."""
    for _ in range(5):
        try:
            return live_segments(folder)
        except FileNotFoundError:
            continue
    return live_segments(folder)


def _faults(folder: str, stream: StreamDefinition, segment: Segment, columns: frozenset[str]) -> Iterator[str]:
    """What is wrong with a file by itself. It is read row group by row group."""
    path, time = os.path.join(folder, segment.path), stream.options.time
    size = size_of(path)
    if size is None:
        yield "the file is missing"
        return
    if size != segment.size:
        yield f"it has {size} bytes, not {segment.size}"
    try:
        with open_parquet(path) as file:
            if segment.blocks and file.metadata.num_row_groups != segment.blocks:
                yield f"it has {file.metadata.num_row_groups} blocks, not {segment.blocks}"
            yield from _of_rows(file, stream, segment, time, columns)
    except (PondError, OSError, ValueError) as error:
        yield f"it cannot be read: {reason_of(error)}"


def _of_rows(
    file: pq.ParquetFile, stream: StreamDefinition, segment: Segment, time: str, columns: frozenset[str]
) -> Iterator[str]:
    rows, low, high, last = 0, None, None, None
    names = {n for n, _ in HIDDEN} | {time} | columns
    if not names <= set(file.schema_arrow.names):
        yield f"column {sorted(names - set(file.schema_arrow.names))[0]} is missing"
        return
    at = file.schema_arrow.get_field_index(time)
    # Files of one epoch have their rows as they came; merged ones, copies and blocks are in order.
    ordered = bool(segment.level or segment.kept < 1 or segment.blocks)
    seen: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for group in range(file.metadata.num_row_groups):
        table = file.read_row_group(group, use_threads=False)
        rows += table.num_rows
        if not table.num_rows:
            continue
        times, ids = event_times(table, time), table["_id"].to_numpy()
        seen.append(ids)
        epochs = table["_epoch"].to_numpy()
        least, most = int(times.min()), int(times.max())
        low, high = least if low is None else min(low, least), most if high is None else max(high, most)
        statistics = file.metadata.row_group(group).column(at).statistics
        if statistics is None or not statistics.has_min_max:
            yield f"row group {group} has no statistics of {time}"
        elif (micros_of(statistics.min), micros_of(statistics.max)) != (least, most):
            yield f"the statistics of row group {group} are not those of its rows"
        if epochs.min() < segment.first_epoch or epochs.max() > segment.last_epoch:
            yield f"row group {group} has rows of other epochs than {segment.first_epoch} to {segment.last_epoch}"
        if ordered:
            later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (ids[1:] > ids[:-1]))
            first = (int(times[0]), int(ids[0]))
            if not later.all() or (last is not None and not segment.blocks and first <= last):
                yield f"the rows of row group {group} are not in the stream's order"
            last = int(times[-1]), int(ids[-1])
        if segment.blocks:
            u = fractions(ids, seed_of(stream))
            bounds = round(group / segment.blocks, PLACES), round((group + 1) / segment.blocks, PLACES)
            if u.min() < bounds[0] or u.max() >= bounds[1]:
                yield f"block {group} has rows of other blocks"
    if rows != segment.rows:
        yield f"it has {rows} rows, not {segment.rows}"
    if seen and len(np.unique(np.concatenate(seen))) != rows:
        yield "a row is in it twice"
    if low is not None and high is not None:
        exact = segment.kept == 1
        if (exact and (low, high) != (segment.low, segment.high)) or low < segment.low or high > segment.high:
            yield "its rows are of other event times than the table says"


def _against(pond: str, stream: StreamDefinition, copy: str, segment: Segment, whole: Segment) -> Iterator[str]:
    """What a copy's file has that its section does not say."""
    try:
        ids = [
            read_parquet(os.path.join(copy_folder(pond, stream, name), file.path), ["_id"])["_id"]
            for name, file in ((copy, segment), ("", whole))
        ]
    except (PondError, OSError):
        return  # the section's own fault, told where it belongs
    mine, rows = (np.sort(each.to_numpy()) for each in ids)
    if not np.array_equal(mine, rows[fractions(rows, seed_of(stream)) < segment.kept]):
        yield f"it has other rows than the fraction {segment.kept} of its section"
