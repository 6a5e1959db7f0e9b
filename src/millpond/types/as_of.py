"""Moments and edges of windows as callers pass them, whether the pond is here or behind a server."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, TypeAlias

from millpond.support.errors import QueryError
from millpond.types.durations import parse_timestamp
from millpond.types.instants import micros_of

#: What AS OF says: now, from final data only, an instant in microseconds, or an epoch.
AsOf: TypeAlias = "Literal['watermark'] | tuple[Literal['timestamp', 'epoch'], int] | None"


def as_of_moment(value: Any) -> AsOf:
    """AS OF from what a caller passes; see `QueryHandle.result`.

    >>> as_of_moment(7), as_of_moment("1970-01-01 00:00:01")
    (('epoch', 7), ('timestamp', 1000000))
    """
    if value is None:
        return None
    if isinstance(value, str) and value.lower() in ("watermark", "progress"):
        if value.lower() == "progress":
            raise QueryError("as_of = 'progress' is called 'watermark' now")
        return "watermark"
    if isinstance(value, tuple) and len(value) == 2 and value[0] in ("timestamp", "epoch"):
        return value[0], int(value[1])
    if isinstance(value, dt.datetime):
        return "timestamp", micros_of(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return "epoch", value
    if isinstance(value, str):
        return "timestamp", timestamp_of(value)
    raise QueryError(f"as_of = {value!r}: pass 'watermark', an instant, or ('epoch', n)")


def not_an_edge(value: Any, which: str) -> QueryError:
    """The error for a value that is no edge of a window."""
    return QueryError(f"{which.lower()} = {value!r}: pass an instant, or a text such as 'NOW - INTERVAL 5 MINUTES'")


def timestamp_of(text: str) -> int:
    """An instant as text in microseconds. Raises: QueryError for what is none."""
    try:
        return parse_timestamp(text)
    except ValueError as error:
        raise QueryError(f"{error}; write an instant as '2026-01-01 12:00:00', UTC unless it has an offset") from None
