"""Tables of immutable segments: Delta tables for archives (any reader opens them), state and results; files on disk.

Nothing here knows queries. `durable_files` writes, `locations` knows object stores, `delta_log` reads and commits,
`segments` lists, `chunks` packs many small Arrow tables into one Parquet file.
"""

from millpond.tables.chunks import Chunk, read_chunks, write_chunks
from millpond.tables.durable_files import (
    append_durably,
    read_json,
    read_record,
    remove_file,
    sync_folder,
    write_durably,
    write_json,
)
from millpond.tables.segments import Segment, SegmentTable
from millpond.tables.writes import DurableWrites

__all__ = [
    "Chunk",
    "DurableWrites",
    "Segment",
    "SegmentTable",
    "append_durably",
    "read_chunks",
    "read_json",
    "read_record",
    "remove_file",
    "sync_folder",
    "write_chunks",
    "write_durably",
    "write_json",
]
