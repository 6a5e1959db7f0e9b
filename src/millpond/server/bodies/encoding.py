"""What an answer says about itself in JSON: its columns, and instants that are not values of it."""

from __future__ import annotations

import pyarrow as pa

from millpond.progress import FOREVER, NEVER
from millpond.types import moment_of


def instant(micros: int | None) -> str | None:
    """An instant as ISO 8601 in UTC; None for none, 'end' for the end of time.

    >>> instant(0), instant(FOREVER), instant(NEVER)
    ('1970-01-01T00:00:00.000000Z', 'end', None)
    """
    if micros is None or micros <= NEVER:
        return None
    if micros >= FOREVER:
        return "end"
    try:
        return moment_of(micros).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        return str(micros)


def columns_json(schema: pa.Schema) -> list[dict[str, str]]:
    """Names and Arrow types of the columns."""
    return [{"name": field.name, "type": str(field.type)} for field in schema]
