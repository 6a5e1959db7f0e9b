"""Files of summary copies: an entry holds the partials of the rows of one archive file; see `engine.summaries`."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from millpond.manifests.places import summaries_folder
from millpond.tables import Chunk, Segment, write_chunks


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
