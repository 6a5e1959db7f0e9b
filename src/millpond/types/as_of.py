"""Moments and edges of windows as callers pass them, whether the pond is here or behind a server."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from millpond.support.errors import QueryError
from millpond.types.durations import parse_timestamp
from millpond.types.instants import micros_of

#: What an instant looks like, for people.
INSTANT = "an instant such as '2026-01-01 12:00:00' (UTC unless it has an offset)"

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
    with suppress(ValueError):
        if isinstance(value, str):
            return "timestamp", parse_timestamp(value)
    raise QueryError(f"as_of = {value!r}: pass 'watermark', {INSTANT}, or ('epoch', n)")


def not_an_edge(value: Any, which: str, why: str = "") -> QueryError:
    """The error for a value that is no edge of a window. why: what is wrong with it, where that is known."""
    told = f"{why}; " if why else ""
    would = f"pass {INSTANT}, or a text such as 'NOW - INTERVAL 5 MINUTES'"
    return QueryError(f"{which.lower()} = {value!r}: {told}{would}")
