"""What `pond.status()` says, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from millpond.types import EPOCH


def draw(state: Mapping[str, Any], console: Console) -> None:
    """Print streams, queries and the rest of a status."""
    for title, fields in (("streams", _STREAM_FIELDS), ("queries", _QUERY_FIELDS)):
        entries = by_name(state.get(title))
        if entries:
            console.print(entries_table(title, entries, fields))
    for name in ("path", "epochs", "synopses"):
        if name in state:
            console.print(f"{name}: {text(state[name])}", soft_wrap=True)


def entries_table(title: str, entries: Mapping[str, Mapping[str, Any]], fields: tuple[str, ...]) -> Table:
    """A table of named entries: one row each, one column for each field that any of them has something in."""
    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    fields = tuple(field for field in fields if any(entry.get(field) for entry in entries.values()))
    numeric = {f for f in fields if all(isinstance(e.get(f), (int, float, type(None))) for e in entries.values())}
    drawn.add_column("name")
    for field in fields:
        drawn.add_column(
            _TITLES.get(field, field.replace("_", " ")),
            justify="right" if field in numeric else "left",
            overflow="fold",
        )
    for name, entry in entries.items():
        drawn.add_row(Text(name), *(Text((moment if f in _MOMENTS else text)(entry.get(f))) for f in fields))
    return drawn


def by_name(entries: Any) -> dict[str, dict[str, Any]]:
    """The entries of one kind as {name: fields}; none where the status has none."""
    if isinstance(entries, Mapping):
        return {str(name): dict(entry) for name, entry in entries.items() if isinstance(entry, Mapping)}
    return {}


def moment(value: Any) -> str:
    """An event time (microseconds, a datetime, or text already) to the second; `-` for none, `end` past any clock."""
    if value is None:
        return "-"
    if isinstance(value, (int, float)):
        try:
            value = EPOCH + timedelta(microseconds=value)
        except OverflowError:
            return "end" if value > 0 else "-"
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def text(value: Any) -> str:
    """A value of a status in few characters."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return moment(value) if isinstance(value, datetime) else str(value)


_MOMENTS = {"watermark", "high_watermark", "closed"}
_TITLES = {"rate": "rows/s", "high_watermark": "newest", "dead": "dead letters", "pending_items": "pending"}
_STREAM_FIELDS = ("rows", "rate", "watermark", "high_watermark", "late", "dead", "pending_items", "archive_files")
_QUERY_FIELDS = ("stream", "status", "reason", "rows", "revisions", "too_late", "closed")
