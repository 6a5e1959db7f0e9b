"""What has happened since somebody last asked: what DRAIN tells, and the prompt after every statement."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millpond.answers.describe.watermarks import next_end, states_of_sources, waits_for
from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Standing
from millpond.engine.intake.live_storage import StreamRuntime
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Published, StreamCounts
from millpond.progress import NEVER, StreamProgress, now
from millpond.sources.files import FileSource
from millpond.tables.storage_types import from_storage
from millpond.tables.stored_files import read_parquet
from millpond.types import StreamDefinition, WindowQuery
from millpond.types.instants import moment
from millpond.types.results import DeadCause, DrainReport, QueryReport, StreamReport

#: What is a value in the reason of a dead letter, and what stands in its place: causes are told, not values.
_VALUES = (
    (r"^(column '[^']*': )'.*'( does not fit )", r"\1a value\2"),
    (r"^line [0-9]+: ", ""),
    (r"( Error: .*?(?:string|value|format:) )(?:'.*'|\".*?\"|\S+)( to |, expected | according )", r"\1…\2"),
    (r"( according to format specifier \".*?\").*", r"\1"),
    (r"( Error: .*)\([-+*/%0-9. eE]+\)", r"\1(…)"),
)


@dataclass
class Told:
    """What was told last: what is new is measured against it. letters: files of dead letters, by stream."""

    published: Published
    letters: dict[int, frozenset[str]] = field(default_factory=dict)
    skipped: dict[int, int] = field(default_factory=dict)
    changed: dict[int, frozenset[str]] = field(default_factory=dict)
    quarantined: frozenset[int] = frozenset()


def told_nothing(archives: Archives) -> Told:
    """Of a pond that was opened just now: nothing that was there before is news."""
    with archives.lock:
        letters = {s: frozenset(f.path for f in r.dead.segments) for s, r in archives.streams.items()}
        quarantined = frozenset(q.id for q in archives.catalog.queries.values() if q.status == "quarantined")
        return Told(archives.published, letters, quarantined=quarantined)


def report(archives: Archives, streams: Mapping[int, StreamRuntime], told: Told, final: bool = False) -> DrainReport:
    """What is new since `told`, which is brought up to date.

    Arguments:
        streams: with where their rows come in, by id. final: every source has ended.
    """
    with archives.lock:
        published, catalog = archives.published, archives.catalog
    shown = [s for s in catalog.shown_streams() if s.options.source != "system"]
    found = tuple(_stream(streams[s.id], s, told, published) for s in shown if s.id in streams)

    def of_query(standing: Standing) -> QueryReport:
        return _query(catalog, standing, told, published, final)

    none = QueryReport("")
    queries = Failures(catalog, "what is told of queries").each(catalog.shown_queries(), of_query, none)
    told.published = published
    told.quarantined = frozenset(q.id for q in catalog.queries.values() if q.status == "quarantined")
    return DrainReport(final, found, tuple(q for q in queries if q != QueryReport(q.query)))


def _has_ended(published: Published, stream: StreamDefinition) -> bool:
    return published.progress.get(str(stream.id), StreamProgress()).ended


def _stream(runtime: StreamRuntime, stream: StreamDefinition, told: Told, published: Published) -> StreamReport:
    number = str(stream.id)
    before, now = (p.counts.get(number, StreamCounts()) for p in (told.published, published))
    taken = published.intake.get(number, 0)
    items = runtime.log.items(told.published.intake.get(number, 0), taken)
    source, skipped, changed = runtime.source, 0, frozenset[str]()
    nothing_at = ""
    if isinstance(source, FileSource):
        skipped = source.unrecognised
        changed = frozenset(source.changed)
        nothing_at = "" if taken or skipped else stream.options.path or ""
    known = told.letters.get(stream.id, frozenset())
    causes = dead_causes(runtime, known, told.published.epoch, published.epoch) if now.dead > before.dead else ()
    found = StreamReport(
        stream.label,
        now.rows - before.rows,
        now.rows,
        now.late - before.late,
        now.dead - before.dead,
        causes,
        sum(i.kind == "file" for i in items),
        max(0, skipped - told.skipped.get(stream.id, 0)),
        tuple(sorted(changed - told.changed.get(stream.id, frozenset()))),
        nothing_at,
        isinstance(source, FileSource) and stream.options.late == "drop" and _has_ended(published, stream),
    )
    told.letters[stream.id] = frozenset(f.path for f in runtime.dead.segments if f.first_epoch <= published.epoch)
    told.skipped[stream.id], told.changed[stream.id] = skipped, changed
    return found


def dead_causes(runtime: StreamRuntime, known: frozenset[str], after: int, until: int) -> tuple[DeadCause, ...]:
    """The causes of a stream's new dead letters, most letters first.

    Arguments:
        known: files that hold no new ones. after, until: epochs; of files that were merged since only letters behind
            the one are new; letters behind the other are not published yet.
    """
    tables = []
    for file in sorted(runtime.dead.segments, key=lambda s: s.path):
        if file.path not in known and file.first_epoch <= until:
            path = os.path.join(runtime.dead.folder, file.path)
            found = from_storage(read_parquet(path), runtime.dead.schema).drop_columns("record")
            # letters of a back-fill are of earlier epochs than the one that brings them
            new = pc.greater(found["epoch"], after) if file.level else pc.less_equal(found["epoch"], until)
            tables.append(found.filter(new))
    if not tables:
        return ()
    table = pa.concat_tables(tables)
    table = table.set_column(0, "reason", causes(table["reason"]))
    keys = [("reason", "ascending"), ("source", "ascending"), ("position", "ascending")]
    first = [("reason", "count"), ("source", "first"), ("position", "first")]
    grouped = table.sort_by(keys).group_by("reason", use_threads=False).aggregate(first)
    ordered = grouped.sort_by([("reason_count", "descending"), ("reason", "ascending")]).to_pylist()
    return tuple(
        DeadCause(r["reason"], r["reason_count"], os.path.basename(r["source_first"]), r["position_first"])
        for r in ordered
    )


def causes(reasons: pa.ChunkedArray) -> pa.ChunkedArray:
    """Reasons without the values that they were found with.

    >>> found = pa.chunked_array([["column 'n': '7x' does not fit INTEGER", "line 8: not JSON"]])
    >>> causes(found).to_pylist()
    ["column 'n': a value does not fit INTEGER", 'not JSON']
    """
    for pattern, cause in _VALUES:
        reasons = pc.replace_substring_regex(reasons, pattern, cause)
    return reasons


def open_note(archives: Archives, queries: Sequence[Standing]) -> str:
    """What is to be said where the answers of queries have no row: that windows with rows are open still.

    '': there is no row in them either.
    """
    with archives.lock:
        published, catalog = archives.published, archives.catalog
    told = Told(published)
    waiting = [_query(catalog, q, told, published, final=False) for q in queries if q.status == "live"]
    notes = [
        f"{w.query} waits for {w.waits_for}; INVOKE {w.query} answers what is open" for w in waiting if w.waits_for
    ]
    return f"windows are open: {'; '.join(notes)}" if notes else ""


def not_ended_note(archives: Archives, query: WindowQuery) -> str:
    """What is to be said where an ad hoc window has no row: that none has ended. '': its stream has no row either."""
    names = [f.name for f in query.feeds] or [query.stream]
    streams = archives.catalog.streams_named(names)
    high = now([archives.published.progress.get(str(s.id), StreamProgress()) for s in streams])
    return f"no window with a row has ended by {moment(high)}, the newest row" if high > NEVER else ""


def _query(catalog: Catalog, standing: Standing, told: Told, published: Published, final: bool) -> QueryReport:
    number, name = str(standing.id), standing.definition.name
    now = published.queries.get(number, QueryProgress())
    before = told.published.queries.get(number, QueryProgress())
    if standing.status == "quarantined":
        return QueryReport(name, quarantined="" if standing.id in told.quarantined else standing.reason)
    known: Mapping[str, StreamProgress] = published.progress
    states = [(s, known.get(str(s.id), StreamProgress())) for s in catalog.streams_of(standing)]
    rows = any(p.high > NEVER for _, p in states)
    waiting = rows and not final and standing.status == "live" and next_end(standing, now, states) is not None
    sources = states_of_sources(catalog, standing, published)
    what = waits_for(standing, now, states, published.clock, sources) if waiting else ""
    return QueryReport(name, max(0, now.too_late - before.too_late), waits_for=what)


__all__ = ["Told", "causes", "dead_causes", "not_ended_note", "open_note", "report", "told_nothing"]
