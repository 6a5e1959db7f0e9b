"""SHOW WATERMARKS: how far streams, their source partitions and queries are, and who holds them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog, Standing
from millpond.engine.intake.live_storage import StreamRuntime
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Published
from millpond.operators.contract import Mark
from millpond.operators.registry import answering_kind, operators_of
from millpond.progress import FOREVER, NEVER, Partition, StreamProgress, now, silent
from millpond.progress.delays import estimate
from millpond.sources.derived_stream import DerivedSource
from millpond.types import ARRIVAL, StreamDefinition, StreamOptions
from millpond.types.durations import duration
from millpond.types.instants import moment

#: Streams and how far they are.
States: TypeAlias = "Sequence[tuple[StreamDefinition, StreamProgress]]"

_COLUMNS = {
    "kind": pa.string(),
    "name": pa.string(),
    "source": pa.string(),
    "watermark": pa.string(),
    "high_watermark": pa.string(),
    "lag": pa.string(),
    "late": pa.int64(),
    "broke_marks": pa.int64(),
    "groups": pa.int64(),
    "idle": pa.bool_(),
    "generator": pa.string(),
    "waiting_for": pa.string(),
}


def show_watermarks(archives: Archives, streams: Mapping[int, StreamRuntime]) -> pa.Table:
    """One row per stream, source partition and window query; for pairs also what is known of results to come.

    Columns: kind ('stream', 'partition', 'query'; of pairs 'side': no result to come has a smaller event time of that
    input; 'joint': none has smaller ones of both), name, source (the partition), bound (a query: closed until),
    high_watermark, lag (event time between the two), late (rows behind progress), broke_marks (rows that broke marks of
    their own source), groups (that are ahead by marks of their own), idle, generator, waiting_for.
    """
    with archives.lock:
        published, catalog = archives.published, archives.catalog
    rows: list[dict[str, Any]] = []
    for stream in catalog.shown_streams():
        state = published.progress.get(str(stream.id), StreamProgress())
        rows += _stream_rows(stream, state, published.clock)
        source = streams[stream.id].source if stream.id in streams else None
        if isinstance(source, DerivedSource) and source.withheld:
            handed = f"{source.withheld} announcements rolled up, {source.handed_on} handed on"
            rows[-1 - len(state.partitions)]["generator"] += f"; to what its readers need: {handed}"

    answering = operators_of(catalog).answering

    def of_query(standing: Standing) -> list[dict[str, Any]]:
        known = published.queries.get(str(standing.id), QueryProgress())
        states = [(s, published.progress.get(str(s.id), StreamProgress())) for s in catalog.streams_of(standing)]
        operator = answering.get(standing.id)
        marks = () if operator is None else operator.marks(standing, known)
        sources = states_of_sources(catalog, standing, published)
        row = _query_row(standing, known, states, published.clock, sources)
        return [row, *(_mark_row(standing, mark) for mark in marks)]

    none: list[dict[str, Any]] = []
    for found in Failures(catalog, "SHOW WATERMARKS").each(catalog.shown_queries(), of_query, none):
        rows += found
    return pa.table({name: pa.array([r.get(name) for r in rows], kind) for name, kind in _COLUMNS.items()})


def _stream_rows(stream: StreamDefinition, state: StreamProgress, clock: int) -> list[dict[str, Any]]:
    options, parts = stream.options, state.partitions
    ahead = len(state.groups)
    first = {
        "kind": "stream",
        "name": stream.name,
        "watermark": moment(state.bound),
        "high_watermark": moment(state.high),
        "lag": _lag(state.bound, state.high),
        "late": sum(p.late for p in parts.values()),
        "broke_marks": sum(p.broken for p in parts.values()),
        "groups": ahead,
        "idle": state.idle,
        "generator": generator(options),
        "waiting_for": "" if state.ended else ", ".join(holders(stream, state, clock)),
    }
    return [
        first,
        *(
            {
                "kind": "partition",
                "name": stream.name,
                "source": name,
                "watermark": moment(p.bound),
                "high_watermark": moment(p.high),
                "lag": _lag(p.bound, p.high),
                "late": p.late,
                "broke_marks": p.broken,
                "groups": len(p.groups),
                "idle": silent(p, options, clock),
                "generator": _promise(p, options),
            }
            for name, p in sorted(parts.items())
        ),
    ]


def holders(stream: StreamDefinition, state: StreamProgress, clock: int) -> list[str]:
    """Who holds a stream up: the partitions that are furthest behind of several; before any row, that row.

    A source that has announced nothing yet is waited for by what it has to bring.
    """
    if not state.partitions:
        return ["the first row"]
    options = stream.options
    if len(state.partitions) == 1 and state.bound <= NEVER:
        estimated = options.lateness_share is not None
        marked = bool(options.marks_column or options.marks_record)
        mark = "the first mark" + (" about all rows" if options.marks_by else "")
        return ["rows to estimate by"] if estimated else [mark] if marked else []
    awake = {n: p for n, p in state.partitions.items() if not silent(p, stream.options, clock)}
    if len(state.partitions) < 2 or not awake:
        return []
    least = min(p.bound for p in awake.values())
    if least == max(p.bound for p in awake.values()):
        return []
    return [f"partition {n}" for n, p in sorted(awake.items()) if p.bound == least]


def states_of_sources(catalog: Catalog, standing: Standing, published: Published) -> States:
    """The declared streams that a query is made of, and how far they are."""
    found: dict[int, StreamDefinition] = {}
    waiting = list(catalog.streams_of(standing))
    for stream in waiting:
        if stream.is_inner and stream.derived is not None:
            waiting += [catalog.streams[s] for s in stream.derived.sources if s not in found]
        else:
            found[stream.id] = stream
    return [(s, published.progress.get(str(number), StreamProgress())) for number, s in found.items()]


def _query_row(
    standing: Standing, known: QueryProgress, streams: States, clock: int, sources: States
) -> dict[str, Any]:
    high = now([s for _, s in streams])
    waiting = standing.status if standing.status != "live" else waits_for(standing, known, streams, clock, sources)
    return {
        "kind": "query",
        "name": standing.definition.name,
        "watermark": moment(known.closed),
        "high_watermark": moment(high),
        "lag": _lag(known.closed, high),
        "late": known.too_late,
        "waiting_for": waiting,
    }


def waits_for(
    standing: Standing, known: QueryProgress, streams: States, clock: int, sources: States | None = None
) -> str:
    """The streams that hold a query up and, of windows that end at instants, what they must reach; '': nothing is.

    Args:
        sources: the streams that were declared, if it reads streams that are made for it alone.
    """
    if known.closed >= FOREVER:
        return ""
    end = next_end(standing, known, streams) if known.closed > NEVER else None
    awaited = streams if sources is None else sources
    awaited = [(s, p) for s, p in awaited if not p.idle] or awaited
    least = min(p.bound for _, p in awaited)
    slowest = [(s, p) for s, p in awaited if p.bound == least]
    held = ", ".join(" ".join([s.label, *(f"({h})" for h in holders(s, p, clock))]) for s, p in slowest)
    if end is None:
        return held
    rows = {row_for(s.options, end) for s, _ in slowest} - {None}
    brought = f" (a row at {moment(max(r for r in rows if r is not None))} or later)" if rows else ""
    return f"{held} to {'pass' if standing.definition.query.holds_end else 'reach'} {moment(end)}{brought}"


def row_for(options: StreamOptions, end: int) -> int | None:
    """The event time of a row that brings a stream's watermark to an instant; None: that instant, or others say.

    >>> row_for(StreamOptions(time="ts", lateness=5, step=60), 100)
    125
    """
    if not options.lateness or options.marks_only or options.source == "derived":
        return None
    step = options.step or 1
    return -(-end // step) * step + options.lateness


def next_end(standing: Standing, known: QueryProgress, streams: States) -> int | None:
    """The instant at which the windows that the newest row tells of are closed, and those before; None: none is open,
    or rows yet to come say when. Which earlier ends have rows before them is not known here."""
    query, high = standing.definition.query, now([s for _, s in streams])
    return answering_kind(query).next_end(query, max(known.closed, high), high)


def _mark_row(standing: Standing, mark: Mark) -> dict[str, Any]:
    """What its operator says of a query's watermark beside how far it has answered."""
    until, sources = ", ".join(map(moment, mark.until)), ", ".join(mark.sources)
    return {"kind": mark.kind, "name": standing.definition.name, "source": sources, "watermark": until}


def _lag(bound: int, high: int) -> str | None:
    if high <= NEVER or bound <= NEVER:
        return None
    return duration(max(0, high - bound))


def generator(options: StreamOptions) -> str:
    """Where a stream's progress comes from, in words.

    >>> generator(StreamOptions(time="ts", lateness=5_000_000, step=60_000_000))
    'lateness 5s, in steps of 1m'
    """
    parts: list[str] = []
    if options.source == "derived" and options.lateness is None and options.lateness_rows is None:
        groups = f", by {', '.join(options.marked_by)} for groups" if options.marked_by else ""
        parts.append(f"as far as what it is derived from{groups}")
    elif options.time == ARRIVAL:
        parts.append("arrival")
    elif options.lateness_share is not None:
        parts.append("lateness estimated " + _share(options.lateness_share))
    elif options.lateness_rows is not None:
        parts.append(f"lateness {options.lateness_rows} rows")
    elif options.lateness is not None:
        parts.append(f"lateness {duration(options.lateness)}")
    elif not options.marks_only:
        parts.append("ordered")
    by = f" by {', '.join(options.marked_by)}" if options.marked_by else ""
    if options.marks_column:
        parts.append(f"marks in column {options.marks_column}{by}")
    if options.marks_record:
        parts.append(f"marks in records{by}")
    if options.timer is not None:
        lull = f", in a lull {duration(options.lull)} behind the clock" if options.lull is not None else ""
        parts.append(f"every {duration(options.timer)}{lull}")
    if options.step is not None:
        parts.append(f"in steps of {duration(options.step)}")
    return ", ".join(parts)


def _share(share: float) -> str:
    return "auto" if share >= 1 else f"p{share * 100:.10g}"


def _promise(partition: Partition, options: StreamOptions) -> str | None:
    """What a partition's estimate promises at the moment."""
    if options.lateness_share is None:
        return None
    delay = estimate(partition.delays, options.lateness_share)
    return "nothing is promised yet" if delay is None else f"no row later than {duration(delay)}"
