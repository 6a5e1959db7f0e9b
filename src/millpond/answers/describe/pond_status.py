"""`pond.status()`: a snapshot of everything that moves, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.answers.describe.query_listing import window_queries
from millpond.answers.describe.work import filters_table, work_table
from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog
from millpond.engine.control.reporting import memory_bytes
from millpond.engine.control.telemetry import Telemetry
from millpond.engine.instruments import Instruments
from millpond.engine.intake.live_storage import StreamRuntime
from millpond.engine.pond_view import PondView
from millpond.manifests.records import StreamCounts
from millpond.progress import NEVER, StreamProgress
from millpond.types import StreamDefinition
from millpond.types.instants import moment


def status(pond: PondView, instruments: Instruments) -> dict[str, Any]:
    """A snapshot of everything that moves: streams, queries, epochs."""
    telemetry, controllers = instruments.telemetry, instruments.controllers
    with pond.lock:
        published, catalog, recent = pond.published, pond.catalog, list(telemetry.recent)
    return {
        "path": pond.path,
        "epochs": published.epoch,
        "streams": streams_status(pond.archives, instruments.storage.streams, telemetry),
        "queries": window_queries(pond),
        "row_queries": pond.register.statistics(),
        "synopses": len(catalog.synopses),
        "last_epochs": recent,
        "work": work_table(pond.archives, telemetry),
        "filters": filters_table(catalog, controllers.filters),
        "load": {"drop": controllers.load.decider.drop, "reason": controllers.load.decider.reason},
        "epoch_limit_bytes": controllers.pace.limit,
        "memory_bytes": memory_bytes(),
        "statistics": pond.settings.statistics,
        "scheduling": pond.settings.scheduling,
        "state_files": len(pond.storage.state.segments),
        "state_bytes": sum(s.size for s in pond.storage.state.segments),
        "result_files": len(pond.storage.results.segments),
    }


def streams_status(
    archives: Archives, live: Mapping[int, StreamRuntime], telemetry: Telemetry
) -> dict[str, dict[str, Any]]:
    """What is known of each stream, by name. bytes: of its archive, as they lie on disk; bytes_in: read of sources.

    Args:
        live: the streams with where their rows come in, by id.
    """
    with archives.lock:
        published, catalog, recent = archives.published, archives.catalog, list(telemetry.recent)
    streams = {}
    for definition in catalog.shown_streams():
        counts = published.counts.get(str(definition.id), StreamCounts())
        progress = published.progress.get(str(definition.id), StreamProgress())
        runtime = live[definition.id]
        streams[definition.name] = {
            "rows": counts.rows,
            "rate": _rate(recent, str(definition.id)),
            "watermark": moment(progress.bound),
            "high_watermark": moment(progress.high),
            "late": counts.late,
            "dead": counts.dead,
            "unknown_columns": counts.unknown,
            "bytes": sum(s.size for s in runtime.archive.segments),
            "bytes_in": counts.bytes,
            "pending_items": runtime.log.length - published.intake.get(str(definition.id), 0),
            "pending_rows": sum(
                i.rows or 0 for i in runtime.log.items(published.intake.get(str(definition.id), 0), None)
            ),
            "changed_files": list(runtime.source.changed) if runtime.source is not None else [],
            "archive_files": len(runtime.archive.segments),
            "source": source_of(catalog, definition),
            "removed_before": moment(NEVER if (gone := runtime.archive.snapshot[1]) is None else gone),
        }
    return streams


def source_of(catalog: Catalog, stream: StreamDefinition) -> str:
    """Where a stream's rows come from: 'ingest', a path, or what it is derived from."""
    if stream.derived is None:
        return stream.options.path or stream.options.source
    names = sorted(catalog.shown_names([catalog.streams[s] for s in stream.derived.sources]))
    return f"{stream.derived.word} of {', '.join(names)}"


def _rate(recent: list[dict[str, Any]], stream: str) -> float:
    """Rows of a stream per second of the last epochs that took any of it."""
    busy = [e for e in recent if e["streams"].get(stream)][-8:]
    seconds = sum(e["seconds"] for e in busy)
    return round(sum(e["streams"][stream] for e in busy) / seconds, 1) if seconds else 0.0
