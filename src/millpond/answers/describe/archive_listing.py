"""SHOW ARCHIVE: how the past of streams lies on disk, copy by copy, and what upkeep has still to do."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millpond.archive import Keep, parse_design
from millpond.archive.copy_files import eager_copies, section_of
from millpond.archive.open_archives import Archives
from millpond.archive.retention import keep_of_copies, keep_of_rows
from millpond.archive.storage import StreamTables
from millpond.archive.summed.making import missing
from millpond.archive.upkeep.compaction import chosen_for_layout
from millpond.archive.upkeep.copy_maintenance import unwanted, wanted_sections
from millpond.catalog import Summary
from millpond.progress import NEVER
from millpond.tables import Segment
from millpond.types import StreamDefinition
from millpond.types.instants import moment

_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("copy", pa.string()),
        ("design", pa.string()),
        ("kept", pa.float64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("files", pa.int64()),
        ("runs", pa.int64()),
        ("first", pa.string()),
        ("last", pa.string()),
        ("keep", pa.string()),
        ("state", pa.string()),
    ]
)


def show_archive(archives: Archives, streams: Sequence[StreamDefinition]) -> pa.Table:
    """One row for the rows of each stream, and one for each copy and each summary of them.

    Columns: kept: the fraction of rows that a copy holds (smallest, where files differ). runs: files whose rows are
    spread over blocks. first, last: event times. keep: what its retention says. state: what upkeep has still to do.
    """
    rows = [
        row
        for stream in streams
        if stream.id in archives.streams
        for row in _of_stream(archives, archives.streams[stream.id])
    ]
    return pa.Table.from_pylist(rows, _SCHEMA)


def _of_stream(archives: Archives, runtime: StreamTables) -> list[dict[str, object]]:
    stream = runtime.definition
    design = parse_design(stream.options.archive)
    segments = runtime.archive.segments
    sections = {section_of(s.path): s for s in segments}
    waiting = len(chosen_for_layout(stream, segments))
    state = f"{waiting} files to be laid out anew" if waiting else "ready"
    found = [_row(stream, "", design.layout, segments, keep_of_rows(stream), state)]
    keeps, doomed = keep_of_copies(stream), unwanted(runtime)
    for name, kept in eager_copies(stream).items():
        table = runtime.copies.get(name)
        there = {section_of(s.path) for s in table.segments} if table is not None else set()
        missing = len([s for s in wanted_sections(runtime, name, sections) if s not in there])
        state = f"{missing} of {len(sections)} sections to be made" if missing else "ready"
        own = () if table is None else table.segments
        found.append(_row(stream, name, "eager", own, keeps.get(name, Keep()), state, kept))
    for name, table in sorted(runtime.copies.items()):
        if name in doomed:
            found.append(_row(stream, name, "dropped", table.segments, Keep(), "to be deleted"))
        elif runtime.is_lazy:
            pending = len(runtime.lazy.pending(name))
            state = f"{pending} sections to be copied" if pending else "ready"
            found.append(_row(stream, name, "lazy", table.segments, Keep(), state))
    if runtime.is_lazy:
        for name in runtime.lazy.copies:
            if name not in runtime.copies:
                state = f"{len(runtime.lazy.pending(name))} sections to be copied"
                found.append(_row(stream, name, "lazy", (), Keep(), state))
    return found + [
        _summary(archives, stream, n, each) for n, each in enumerate(archives.catalog.summaries_of(stream.id), 1)
    ]


def _summary(archives: Archives, stream: StreamDefinition, number: int, summary: Summary) -> dict[str, object]:
    """The line of a summary: its entries stand for all rows of files; their rows are partial aggregates."""
    entries = [s for s in archives.storage.summaries.segments if s.shard == summary.id]
    segments = archives.streams[stream.id].archive.segments
    waiting = 0 if summary.lazy else len(missing(archives.storage, summary, segments))
    state = f"{waiting} of {len(segments)} sections to be made" if waiting else "ready"
    design = f"{'lazy ' if summary.lazy else ''}summary({summary.query})"
    shown = _row(stream, f"summary-{number}", design, entries, Keep(summary.retention, summary.size), state, 1.0)
    return shown | ({"keep": "for ever"} if (summary.retention, summary.size) == (None, None) else {})


def _row(
    stream: StreamDefinition,
    copy: str,
    design: str,
    segments: Sequence[Segment],
    keep: Keep,
    state: str,
    kept: float | None = None,
) -> dict[str, object]:
    holding = [s for s in segments if s.rows]
    return {
        "stream": stream.name,
        "copy": copy,
        "design": design,
        "kept": min((s.kept for s in segments), default=1.0) if kept is None else kept,
        "rows": sum(s.rows for s in segments),
        "bytes": sum(s.size for s in segments),
        "files": len(segments),
        "runs": sum(1 for s in segments if s.blocks),
        "first": moment(min((s.low for s in holding), default=NEVER)),
        "last": moment(max((s.high for s in holding), default=NEVER)),
        "keep": str(keep).removeprefix(" keep ") or ("with the rows" if copy else "for ever"),
        "state": state,
    }
