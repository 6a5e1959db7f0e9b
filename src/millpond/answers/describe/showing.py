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
from millpond.engine.core import Core
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


def show(core: Core, what: str) -> pa.Table:
    """SHOW of anything but archives; `what`: STREAMS, TABLES, QUERIES, … in small letters."""
    return _SHOWN[what](core)


def show_streams(core: Core) -> pa.Table:
    """SHOW STREAMS: where the rows of each come from, and how far it is."""
    rows = [
        {
            **s,
            "stream": stream,
            "dead_letters": s["dead"],
            "pending": s["pending_items"],
            "changed_files": len(s["changed_files"]),
        }
        for stream, s in streams_status(core).items()
    ]
    return pa.Table.from_pylist(rows, _STREAMS)


def show_load(core: Core) -> pa.Table:
    """SHOW LOAD: what `REDUCE load()` drops now, and how it came to that, the newest change first."""
    now = core.controllers.load.observe()
    rows = [
        {"since": moment(c.clock), "drop": c.drop, "before": c.before, "reason": c.reason}
        for c in reversed(core.controllers.load.changes())
    ]
    if not rows:
        rows = [{"since": "none", "drop": now.drop, "before": now.drop, "reason": now.reason}]
    return pa.Table.from_pylist(rows, _LOAD)


_SHOWN: Final[Mapping[str, Callable[[Core], pa.Table]]] = MappingProxyType(
    {
        "functions": show_functions,
        "load": show_load,
        "queries": show_queries,
        "settings": show_settings,
        "streams": show_streams,
        "synopses": show_synopses,
        "tables": show_tables,
        "watermarks": show_watermarks,
    }
)
