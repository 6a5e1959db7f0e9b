"""Summary copies of an archive (OSCAR's windowed aggregation): for every archive file an entry with its partials.

An entry holds what a tumbling query needs of the rows of one file, as pane partials: what a standing query keeps, and
made by the same map task where one agrees with the summary. A scan takes the entry in place of the file. When retention
removes the file, its entry stays behind (it is *settled*), so that rows may go after days and their sums after years.

`s<summary>-<file>` stands for a file of the archive, and counts only while that is there; `x<summary>-<file>` for one
that is gone, and counts only then. So whatever a crash leaves between two commits, no row counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from millpond.manifests.places import summaries_folder
from millpond.tables import Chunk, Segment, read_chunks, write_chunks


def live_name(summary: int, file: str) -> str:
    """The name of the entry for a file of the archive."""
    return f"s{summary:06d}-{file}"


def settled_name(summary: int, file: str) -> str:
    """The name of the entry for a file that is gone."""
    return f"x{summary:06d}-{file}"


def write_entry(pond: str, summary: int, file: Segment, name: str, table: pa.Table) -> Segment:
    """Write an entry durably. Returns the segment to commit, with the times and epochs of the rows it stands for."""
    chunk = Chunk(f"s{summary}", "entry", file.last_epoch, file.low, file.high, table)
    written = write_chunks(summaries_folder(pond), name, [chunk], summary, file.level)
    return replace(written, rows=table.num_rows, first_epoch=file.first_epoch, last_epoch=file.last_epoch)


def entry_tables(paths: Sequence[str]) -> list[pa.Table]:
    """What entries hold, one table each."""
    found = []
    for path in paths:
        pieces = [c.table for c in read_chunks([path])]
        found.append(pa.concat_tables(pieces, promote_options="permissive") if len(pieces) > 1 else pieces[0])
    return found


def application(summary: int) -> str:
    """Under which name commits of the table of entries tell how far those of a summary are gone."""
    return f"summary {summary}"
