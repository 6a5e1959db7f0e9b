"""Columns, spans of time, and the names that answers have by themselves."""

from __future__ import annotations

from dataclasses import dataclass

MICROSECOND = 1
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


#: Name of the implicit event time of a stream whose progress is its arrival.
ARRIVAL = "arrival_ts"


#: Name of the event time of a stream whose `event_time` is no column but something that is computed of columns.
COMPUTED = "event_ts"


#: The column that answers have beside `revision` where a stream has a retention.
COVERED = "covered_from"


#: The column that answers of a query with the option `early` have beside `revision`: 'early' or 'closed'.
STATUS = "status"


@dataclass(frozen=True)
class Column:
    """A column of a stream, table or answer. `type` is the text of a DuckDB type in canonical form."""

    name: str
    type: str


#: The column that answers of a reduced scan have: whether nothing was left out of what they are made of.
EXACT = "exact"


#: The column that rows of a reduced scan have in the engine: how many rows of the stream each one stands for.
WEIGHT = "_weight"

#: The column of a row in the engine that says whether a condition holds for it, where rows are kept for which it does
#: not.
HOLDS = "_holds"


#: The column that answers have behind `window_end` where windows end with rows.
NUMBER = Column("window_number", "BIGINT")
