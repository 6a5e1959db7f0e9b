"""New data meets old queries: a map task matches its rows with every row query on their stream, ahead of any question.

What is written here (`hot/<stream>/e<epoch>-<task>.blocks`) is derived: who finds it missing makes it again from the
archive, and no answer changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millpond.catalog.shipping import BoxReader, boxes_folder
from millpond.manifests.records import Manifest
from millpond.synopses.blocks import BLOCK_ROWS, Block, Casts
from millpond.synopses.enums import query_ordered
from millpond.synopses.kernel import BROKEN, connection, reset
from millpond.synopses.partials.specs import as_declared, casts_of
from millpond.synopses.predicate_index.block_files import write_blocks
from millpond.synopses.predicate_index.boxes import BoxTable
from millpond.synopses.predicate_index.matches import Matches, affordable, match_block
from millpond.synopses.tolerance import bisect
from millpond.types import StreamDefinition

#: Rows of one task that are set aside for one factor that fails on them.
LETTERS = 1000

#: Of these, rows that are looked at one by one for the error that each of them gives.
REASONS = 64

_TOGETHER = 64

_reader = BoxReader()


def hot_folder(pond: str, stream: StreamDefinition) -> str:
    """The folder of a stream's files of matched blocks."""
    return os.path.join(pond, "hot", stream.folder)


def blocks_name(epoch: int, task: int) -> str:
    """The name of the file that a map task writes."""
    return f"e{epoch:012d}-{task:05d}.blocks"


def epoch_of(name: str) -> int | None:
    """The epoch of a file that `blocks_name` named; None for any other file.

    >>> epoch_of(blocks_name(12, 3)), epoch_of("x.tmp")
    (12, None)
    """
    stem = name.partition("-")[0]
    return int(stem[1:]) if name.endswith(".blocks") and stem[:1] == "e" and stem[1:].isdigit() else None


@dataclass(frozen=True)
class Met:
    """What became of a task's rows.

    letters: rows on which a factor fails, with `_reason`, and the query to name for each; they match nothing by that
        factor. A factor that many queries share is looked at once.
    queries: row sets that were written out, over all blocks; None: there was nothing to match.
    work: nanoseconds that finding them was said to take.
    """

    letters: tuple[tuple[pa.Table, str], ...] = ()
    queries: int | None = None
    work: float = 0.0


def meet_queries(pond: str, manifest: Manifest, stream: StreamDefinition, task: int, rows: pa.Table) -> Met:
    """Match the rows of a map task with the stream's row queries, as of the manifest's register version.

    Arguments:
        rows: engine rows of the task.
    """
    if not manifest.register or not rows.num_rows:
        return Met()
    found = _reader.at(boxes_folder(pond, stream.id), manifest.register, manifest.opening)
    if found is None:
        return Met()
    table, factors = found
    letters = tuple(failing(rows, factors, casts_of(stream)))
    if rows.num_rows < manifest.eager_rows or not len(table):
        return Met(letters)
    if not affordable(min(rows.num_rows, BLOCK_ROWS), table, manifest.matching_work):
        # Blocks without row sets would only say what the archive does; ranks are quickly made where they are used.
        return Met(letters, 0)
    matches = _match(pond, manifest, stream, task, rows, table)
    return Met(letters, sum(len(m) for m in matches) if matches else None, sum(m.work for m in matches))


def _match(
    pond: str, manifest: Manifest, stream: StreamDefinition, task: int, rows: pa.Table, table: BoxTable
) -> list[Matches]:
    blocks = Block.build(rows, stream.options.time, casts_of(stream))
    try:
        matches = [match_block(b, table, manifest.explicit_matches, manifest.matching_work) for b in blocks]
        folder = hot_folder(pond, stream)
        os.makedirs(folder, exist_ok=True)
        write_blocks(os.path.join(folder, blocks_name(manifest.epoch, task)), blocks, matches)
        return matches
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # derived data: an epoch does not fail for it
        if isinstance(error, BROKEN):
            reset()
        return []


def failing(rows: pa.Table, factors: dict[str, str], casts: Casts = ()) -> Iterator[tuple[pa.Table, str]]:
    """Rows on which a factor fails, at most `LETTERS` each, with their `_reason`, and the query that it is named by."""
    source = as_declared("__rows", casts, rows.column_names)
    pending = [list(factors.items())[at : at + _TOGETHER] for at in range(0, len(factors), _TOGETHER)]
    while pending:
        part = pending.pop(0)
        # Each value is used, or the optimiser would not compute it.
        shown = ", ".join(f"max(hash({expression})) AS f{i}" for i, (expression, _) in enumerate(part))
        try:
            query_ordered(connection(), f"SELECT {shown} FROM {source}", __rows=rows)
        except duckdb.Error as error:
            if isinstance(error, BROKEN):
                reset()
            if len(part) > 1:
                half = len(part) // 2
                pending[:0] = [part[:half], part[half:]]
            else:
                failed = _failing_rows(rows, source, part[0][0])
                if failed is not None:
                    yield failed, part[0][1]


def _failing_rows(rows: pa.Table, source: str, expression: str) -> pa.Table | None:
    try:
        # A list of a NULL is no NULL, so NULL means failure.
        text = f"SELECT TRY([{expression}]) IS NULL AS f FROM {source}"
        failed = np.asarray(query_ordered(connection(), text, __rows=rows)["f"].to_numpy(), bool)
        found = rows.filter(pa.array(failed)).slice(0, LETTERS)
        text = f"SELECT max(hash({expression})) AS f FROM {source}"
        # Each row for itself: an error over several rows names the value of one of them.
        told = bisect(lambda some: query_ordered(connection(), text, __rows=some), found.slice(0, REASONS)).failed
    except duckdb.Error as other:
        if isinstance(other, BROKEN):
            reset()
        return None
    rest = found.slice(REASONS)
    reasons = pa.repeat(pa.scalar("an expression of the query fails on this row"), rest.num_rows)
    parts = [part for part in (told, rest.append_column("_reason", reasons)) if part is not None and part.num_rows]
    return pa.concat_tables(parts) if parts else None
