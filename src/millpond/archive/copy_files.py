"""Reduced copies of a stream's archive: where they lie, and how their files are named.

A copy is a Delta table of its own, with the columns of the archive. A file `e…-00000.parquet` of the archive is a
*section*; a copy with the fraction .5 of its rows has them in `e…-00000~0.5.parquet`. Names tie the versions of a
section together, so that no commit has to span tables: a section that a copy lacks is read from a finer one, and a file
of a copy whose section the archive does not name any more counts only when it is marked as the sole one left.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.archive import fractions, kept_fraction, parse_design, seed_of
from millpond.archive.archive_files import archive_folder, archive_home, write_rows
from millpond.archive.design.layout import blocks_for, moved, places_of
from millpond.synopses.blocks import event_times
from millpond.tables import DurableWrites, Segment
from millpond.tables.locations import file_names, folder_names, is_remote, make_folder, remove, remove_tree, write_bytes
from millpond.types import StreamDefinition

#: How a copy is called while it is deleted.
GONE = ".gone-"


def copies_folder(pond: str, stream: StreamDefinition) -> str:
    """The folder of a stream's copies."""
    return os.path.join(archive_home(pond, stream), "copies", stream.folder)


def copy_folder(pond: str, stream: StreamDefinition, copy: str) -> str:
    """The folder of a copy's table; of the archive itself for ''."""
    return os.path.join(copies_folder(pond, stream), copy) if copy else archive_folder(pond, stream)


def file_path(pond: str, stream: StreamDefinition, copy: str, segment: Segment) -> str:
    """The path of a file of a copy, or ('') of the archive."""
    return os.path.join(copy_folder(pond, stream, copy), segment.path)


def section_of(path: str) -> str:
    """The section that a file holds rows of.

    >>> section_of("e000000000007-00000.parquet"), section_of("e000000000007-00000~0.25.parquet")
    ('e000000000007-00000', 'e000000000007-00000')
    """
    return path.removesuffix(".parquet").split("~", 1)[0]


def copy_file(section: str, kept: float) -> str:
    """The name of the file of a copy that holds the fraction `kept` of a section.

    >>> copy_file("e000000000007-00000", 0.25)
    'e000000000007-00000~0.25.parquet'
    """
    return f"{section}~{kept!r}.parquet"


def level_name(kept: float) -> str:
    """The name of the copy that an eager level keeps.

    >>> level_name(0.75)
    'sample-0.25'
    """
    return f"sample-{round(1 - kept, 12)!r}"  # all digits: two levels are two copies, however close they are


def keeps_order(stream: StreamDefinition) -> bool:
    """Whether rows lie in the archive as they came: `write_section` would write them as `write_rows` does."""
    return parse_design(stream.options.archive).kind != "randomize"


def write_section(
    pond: str,
    stream: StreamDefinition,
    name: str,
    rows: pa.Table,
    epochs: tuple[int, int],
    level: int = 0,
    writes: DurableWrites | None = None,
) -> Segment:
    """Write rows as a file of the archive, as the stream's design has it. Returns the segment to commit.

    Arguments:
        name: of the file. rows: in the order in which they came, or of (event time, `_id`). epochs: first and last.
        writes: what the file is written with, finished by whoever gives it; None: it is in place on return.
    """
    design, time = parse_design(stream.options.archive), stream.options.time
    folder = archive_folder(pond, stream)
    blocks = blocks_for(rows.num_rows, design.run)
    if not blocks:
        return write_rows(folder, name, rows, time, epochs, level, writes=writes)
    places, sizes = places_of(event_times(rows, time), rows["_id"].to_numpy(), seed_of(stream), blocks)
    # Columns that are the same in all rows stay as they are.
    epoch = pc.min_max(rows["_epoch"])
    same = {n for n, c in zip(rows.column_names, rows.columns, strict=True) if c.null_count == rows.num_rows}
    same |= {"_epoch"} if epoch["min"] == epoch["max"] else set()
    spread = moved(rows.drop_columns(sorted(same)), places)
    run = pa.table([(rows if n in same else spread)[n] for n in rows.column_names], schema=rows.schema)
    return write_rows(folder, name, run, time, epochs, level, sizes, writes)


def write_copies(
    pond: str,
    stream: StreamDefinition,
    section: Segment,
    rows: pa.Table,
    copies: Mapping[str, float],
    writes: DurableWrites | None = None,
) -> dict[str, Segment]:
    """Write a section's file of every copy. Returns the segments to commit, by copy.

    Arguments:
        section: the archive's own file. rows: its rows, in any order. copies: the fraction that each copy keeps.
        writes: see `write_section`.
    """
    written: dict[str, Segment] = {}
    own = writes or DurableWrites()
    numbers = fractions(rows["_id"].to_numpy(), seed_of(stream)) if copies else None
    for copy, kept in sorted(copies.items(), key=lambda each: (-each[1], each[0])):
        assert numbers is not None
        mask = numbers < kept
        # What has more dropped is part of what has less.
        rows, numbers = rows.filter(pa.array(mask)), numbers[mask]
        folder = copy_folder(pond, stream, copy)
        make_folder(folder)
        name = copy_file(section_of(section.path), kept)
        ordered, time = in_time_order(rows, stream.options.time), stream.options.time
        file = write_rows(folder, name, ordered, time, (0, 0), writes=own)
        written[copy] = replace(section, path=name, rows=file.rows, size=file.size, kept=kept, blocks=0)
    if writes is None:
        own.finish()
    return written


def in_time_order(rows: pa.Table, time: str) -> pa.Table:
    """Rows in the stream's total order; those that are already are not moved."""
    times, ids = event_times(rows, time), rows["_id"].to_numpy()
    later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (ids[1:] > ids[:-1]))
    return rows if later.all() else rows.take(pa.array(np.lexsort((ids, times))))


def copies_on_disk(pond: str, stream: StreamDefinition) -> list[str]:
    """The names of the copies that have a table."""
    folder = copies_folder(pond, stream)
    doomed = {n.removeprefix(GONE) for n in file_names(folder) if n.startswith(GONE)}
    names = [n for n in folder_names(folder) if n[0] != "." and n not in doomed]
    return [n for n in names if "_delta_log" in folder_names(os.path.join(folder, n))]


def doom_copy(pond: str, stream: StreamDefinition, copy: str) -> None:
    """Take a copy away in one step; `remove_doomed` deletes it. An object store has no step but a mark."""
    folder = copies_folder(pond, stream)
    if is_remote(folder):
        write_bytes(os.path.join(folder, GONE + copy), b"gone")
        return
    gone = os.path.join(folder, GONE + copy)
    remove_tree(gone)
    os.replace(copy_folder(pond, stream, copy), gone)


def remove_doomed(pond: str, stream: StreamDefinition, copy: str | None = None) -> None:
    """Delete copies that were taken away: all of them, or the one whose name is wanted again."""
    folder = copies_folder(pond, stream)
    if is_remote(folder):
        for name in file_names(folder):
            if name.startswith(GONE) and copy in (None, name.removeprefix(GONE)):
                remove_tree(os.path.join(folder, name.removeprefix(GONE)))
                remove(os.path.join(folder, name))
    elif copy is None:
        for name in folder_names(folder):
            if name.startswith(GONE):
                remove_tree(os.path.join(folder, name))


def eager_copies(stream: StreamDefinition) -> dict[str, float]:
    """The copies that a stream's design wants of every row, and the fraction that each keeps."""
    return {
        level_name(k): k
        for level in parse_design(stream.options.archive).levels
        for k in [kept_fraction(level.reduction)]
    }
