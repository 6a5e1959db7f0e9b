"""Dead letters of a back-fill: rows of the archive on which the new query's expressions fail.

Live such a row becomes a dead letter in the epoch that takes it in. Of rows that were taken in before, the back-fill
makes the letters: its files are committed with the epoch that adopts it, so that they stand there once however often
it ran.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive.archive_files import dead_folder, row_schema, write_rows
from millpond.archive.dead_letters import failed_letters
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import whole_files
from millpond.archive.reading.reader import ArchiveReader
from millpond.tables import Segment
from millpond.tables.executors import Parcel
from millpond.types import PLACE, StreamDefinition, from_json, to_json

#: Owner of the parcels that tell of dead letters, and their key in a report.
LETTERS = "letters"


def write_letters(
    pond: str,
    stream: StreamDefinition,
    owner: str,
    task: int,
    failed: Sequence[pa.Table],
    queries: str,
    epoch: int,
    segments: Sequence[Segment] | None,
) -> Segment | None:
    """Write the dead letters of one map task as a file that is named by back-fill and task.

    Arguments:
        owner: what the back-fill is called. queries: the names of its queries.
        failed: rows, some of their columns, with `_id` and `_reason`; tables of no row are left out.
        epoch: the last one whose rows the back-fill reads.
        segments: where the rows stand whole; None: the letters show what was read of them.
    Returns: the segment to commit; None without a failing row.
    """
    tables = [t for t in failed if t.num_rows]
    if not tables:
        return None
    own = (1 << PLACE) - 1  # above it an id tells the place of the stream in a union
    reasons = {i & own: r for t in tables for i, r in zip(t["_id"].to_pylist(), t["_reason"].to_pylist(), strict=True)}
    names = [*row_schema(stream).names, "_reason"]
    rows = [t.select([n for n in names if n in t.column_names]) for t in tables]
    if segments is not None:
        found = ArchiveReader(pond, stream).rows([whole_files(segments, Range(epoch=epoch))])
        wanted = pa.array(sorted(reasons), pa.int64())
        rows = [t for t in (r.filter(pc.is_in(r["_id"], wanted)) for r in found) if t.num_rows]
        rows = [t.append_column("_reason", pa.array([reasons[i] for i in t["_id"].to_pylist()])) for t in rows]
    letters = pa.concat_tables([failed_letters(t, queries, epoch) for t in rows])
    return write_rows(dead_folder(pond, stream), f"b{owner}-{task:05d}.parquet", letters, None, (epoch, epoch))


def letters_parcel(task: int, stream: StreamDefinition, segment: Segment) -> Parcel:
    """Tells shard 0 of a file of dead letters."""
    return Parcel(0, LETTERS, task, json.dumps([stream.id, to_json(segment)]).encode())


def take_letters(parcels: Sequence[Parcel]) -> tuple[list[Parcel], list[Any]]:
    """The other parcels, and what the others tell: [stream, segment] of each file."""
    told = sorted((p for p in parcels if p.owner == LETTERS), key=lambda p: p.task)
    return [p for p in parcels if p.owner != LETTERS], [json.loads(bytes(p.payload)) for p in told]


def letters_of(reports: Sequence[dict[str, Any]]) -> dict[str, tuple[Segment, ...]]:
    """The files that the reports of merge tasks name, by stream."""
    found: dict[str, tuple[Segment, ...]] = {}
    for report in reports:
        for stream, segment in report[LETTERS]:
            found[str(stream)] = (*found.get(str(stream), ()), from_json(Segment, segment))
    return found
