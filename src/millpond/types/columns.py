"""Columns, spans of time, and the names that answers have by themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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


#: Names of columns that the engine has beside those of users, in rows that it keeps and in SQL of its own; others begin
#: with two underscores. `tests/types/test_own_names.py` finds those that are missing here.
OWN_NAMES: Final = frozenset(
    [
        "_at",
        "_b",
        "_backfilled",
        "_begin",
        "_block",
        "_bound",
        "_c",
        "_copy",
        "_cut",
        "_e",
        "_earliest",
        "_end",
        "_epoch",
        "_f",
        "_fresh",
        "_gone",
        "_hi",
        "_holds",
        "_id",
        "_instant",
        "_k",
        "_l",
        "_latest",
        "_lo",
        "_m",
        "_met",
        "_n",
        "_net",
        "_next",
        "_nth",
        "_o",
        "_p",
        "_pane",
        "_piece_of",
        "_r",
        "_ready",
        "_reason",
        "_revision",
        "_row",
        "_s",
        "_sign",
        "_status",
        "_t",
        "_u0",
        "_weight",
    ]
)

_NUMBERED: Final = re.compile(r"_[a-z]\d+")


def is_own(name: str) -> bool:
    """Whether a column of that name is the engine's own, so that no user's may be called so.

    >>> is_own("_N"), is_own("_k0"), is_own("__typename"), is_own("_source"), is_own("n")
    (True, True, True, False, False)
    """
    low = name.lower()
    return low.startswith("__") or low in OWN_NAMES or _NUMBERED.fullmatch(low) is not None


def own_name_refused(name: str) -> tuple[str, str]:
    """What is wrong with a name that is the engine's own, and what would work instead."""
    other = name.lstrip("_") or "another name"
    return f"the engine has a column '{name}' of its own beside those of users", f"another name, such as {other}"
