"""SHOW: tables of what there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from millpond.answers.describe.function_listing import show_functions
from millpond.answers.describe.pond_status import streams_status
from millpond.answers.describe.query_listing import show_queries
from millpond.answers.describe.settings import show_settings
from millpond.answers.describe.synopsis_listing import show_synopses
from millpond.answers.describe.table_listing import show_tables
from millpond.answers.describe.watermarks import show_watermarks
from millpond.archive.observed_load import Load
from millpond.archive.open_archives import Archives
from millpond.engine.control.telemetry import Telemetry
from millpond.engine.instruments import Instruments
from millpond.engine.intake.live_storage import StreamRuntime
from millpond.engine.pond_view import PondView
from millpond.types.instants import moment

_STREAMS = pa.schema(
    [
        ("stream", pa.string()),
        ("source", pa.string()),
        ("rows", pa.int64()),
        ("rate", pa.float64()),
        ("watermark", pa.string()),
        ("high_watermark", pa.string()),
        ("late", pa.int64()),
        ("dead_letters", pa.int64()),
        ("pending", pa.int64()),
        ("changed_files", pa.int64()),
    ]
)
_LOAD = pa.schema([("since", pa.string()), ("drop", pa.float64()), ("before", pa.float64()), ("reason", pa.string())])


def show(pond: PondView, instruments: Instruments, what: str) -> pa.Table:
    """SHOW of anything but archives; `what`: STREAMS, TABLES, QUERIES, … in small letters."""
    return _SHOWN[what](pond, instruments)


def show_streams(archives: Archives, streams: Mapping[int, StreamRuntime], telemetry: Telemetry) -> pa.Table:
    """SHOW STREAMS: where the rows of each come from, and how far it is."""
    rows = [
        {
            **s,
            "stream": stream,
            "dead_letters": s["dead"],
            "pending": s["pending_items"],
            "changed_files": len(s["changed_files"]),
        }
        for stream, s in streams_status(archives, streams, telemetry).items()
    ]
    return pa.Table.from_pylist(rows, _STREAMS)


def show_load(load: Load) -> pa.Table:
    """SHOW LOAD: what `REDUCE load()` drops now, and how it came to that, the newest change first."""
    now = load.observe()
    rows = [
        {"since": moment(c.clock), "drop": c.drop, "before": c.before, "reason": c.reason}
        for c in reversed(load.changes())
    ]
    if not rows:
        rows = [{"since": "none", "drop": now.drop, "before": now.drop, "reason": now.reason}]
    return pa.Table.from_pylist(rows, _LOAD)


_SHOWN: Final[Mapping[str, Callable[[PondView, Instruments], pa.Table]]] = MappingProxyType(
    {
        "functions": lambda pond, _: show_functions(pond.archives.catalogs),
        "load": lambda pond, _: show_load(pond.archives.load),
        "queries": lambda pond, _: show_queries(pond),
        "settings": lambda pond, seen: show_settings(pond.settings, seen.opened_with, pond.catalog),
        "streams": lambda pond, seen: show_streams(pond.archives, seen.storage.streams, seen.telemetry),
        "synopses": lambda pond, seen: show_synopses(pond.archives, seen.telemetry.reporter.sizes),
        "tables": lambda pond, _: show_tables(pond),
        "watermarks": lambda pond, seen: show_watermarks(pond.archives, seen.storage.streams),
    }
)
