"""Windows that have ends, and windows that make a stream a relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from millpond.types.columns import DAY
from millpond.types.instants import Landmark
from millpond.types.json_records import TAG, Variant
from millpond.types.outputs import Key
from millpond.types.sql_expressions import Expression


class _HasEnds(Variant):
    """What the kinds of windows that have ends have in common.

    lead: how long before its start rows may still be of the window, microseconds; -1: its start is not in it.
    first_whole: the number of the first window that is whole where numbers count from the first row that is left; 0:
        its number says nothing of that.
    """

    @property
    def lead(self) -> int:
        """None are."""
        return 0

    @property
    def first_whole(self) -> int:
        """What it lacks follows from its start."""
        return 0


class _EndsAtInstants(_HasEnds):
    """What the kinds of windows that end at instants have in common.

    landmarks: all landmarks since which it grows. reach: how long windows are at most, microseconds; 0: that is not
        known.
    """

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A window from before it said its kind by its type."""
        if value.get("kind") is not None:
            return {"type": "KindWindow", **value}
        return {"type": "TimeWindow" if value.get("landmark") is None else "LandmarkWindow", **value}

    @property
    def landmarks(self) -> tuple[Landmark, ...]:
        """None: it does not grow."""
        return ()


@dataclass(frozen=True)
class CalendarSpan:
    """A span of whole days or months of a calendar: a week is 7 days, a quarter 3 months, a year 12."""

    count: int
    unit: Literal["days", "months"]

    @property
    def longest(self) -> int:
        """No such span is longer, microseconds: a month has at most 31 days, and clocks are set by less than two."""
        return (self.count * (1 if self.unit == "days" else 31) + 2) * DAY

    def __str__(self) -> str:
        """The span in words.

        >>> str(CalendarSpan(6, "months")), str(CalendarSpan(14, "days")), str(CalendarSpan(1, "days"))
        ('2 quarters', '2 weeks', '1 day')
        """
        sizes = (("week", 7), ("day", 1)) if self.unit == "days" else (("year", 12), ("quarter", 3), ("month", 1))
        name, size = next((n, s) for n, s in sizes if self.count % s == 0)
        return f"{self.count // size} {name}{'s' if self.count != size else ''}"


@dataclass(frozen=True)
class TimeWindow(_EndsAtInstants):
    """A time window `[RANGE range SLIDE slide ON attribute ORIGIN origin]`; all numbers are microseconds.

    Windows end at origin + k*slide (k any integer) and cover [end - range, end). `ALIGN START` is expressed by an
    origin moved by range mod slide, so that nothing behind the binder needs to know of it.
    """

    range: int
    slide: int
    origin: int = 0
    attribute: str = "ts"

    @property
    def reach(self) -> int:
        """RANGE."""
        return self.range


@dataclass(frozen=True)
class LandmarkWindow(_EndsAtInstants):
    """Windows that grow: they end as those of `TimeWindow` do, and cover everything since the last landmark before.

    beside: of a query with several windows since landmarks behind its aggregates, the other landmarks; range: of one
        whose aggregates have windows of that RANGE, too, the longest. Its window begins where the first of all its
        windows does: since one of the landmarks, or `range` before the end.
    """

    slide: int
    landmark: Landmark
    origin: int = 0
    attribute: str = "ts"
    beside: tuple[Landmark, ...] = ()
    range: int = 0

    @property
    def landmarks(self) -> tuple[Landmark, ...]:
        """All landmarks since which it grows."""
        return (self.landmark, *self.beside)

    @property
    def reach(self) -> int:
        """That of the windows that do not grow."""
        return self.range


@dataclass(frozen=True)
class KindWindow(_EndsAtInstants):
    """Windows of a registered kind.

    RANGE and SLIDE are one window, since ids of windows stand in the place of times; origin is the end of window -1.

    kind: its reference, see `millpond.windows.registered`. length: how long windows are, microseconds.
    """

    range: ClassVar[int] = 1
    slide: ClassVar[int] = 1
    origin: ClassVar[int] = 0

    kind: str
    length: int = 0
    attribute: str = "ts"

    @property
    def reach(self) -> int:
        """How long windows are."""
        return self.length

    @property
    def name(self) -> str:
        """What the kind was registered as."""
        return self.kind.split("@")[0]


@dataclass(frozen=True)
class CalendarWindow(_EndsAtInstants):
    """Windows whose edges are readings of a time zone's clock: `[RANGE TUMBLING 1 MONTH ZONE 'Europe/Berlin']`.

    Windows end so many `step` before or behind the reading `anchor`. They begin `length` before their end; those that
    grow (`RANGE ALL EVERY length`) begin with the stretch of `length` that their last instant lies in, of which
    `anchor` is an edge.

    anchor: microseconds since 1970 as the zone's clock shows them; it places the windows, and no origin does.
    """

    origin: ClassVar[int] = 0

    length: CalendarSpan
    step: CalendarSpan
    zone: str
    anchor: int = 0
    grows: bool = False
    attribute: str = "ts"

    @property
    def range(self) -> int:
        """At most so long, microseconds."""
        return self.length.longest

    @property
    def slide(self) -> int:
        """At most so far apart, microseconds."""
        return self.step.longest

    @property
    def reach(self) -> int:
        """The longest."""
        return self.length.longest


#: Windows that end at instants.
Window = TimeWindow | LandmarkWindow | KindWindow | CalendarWindow


@dataclass(frozen=True)
class KindDefinition:
    """A kind of windows that was registered. reference: what the engine calls it.

    fingerprint: which windows it gave for some times: another kind under its name is noticed. length: microseconds
        of the longest window that it gave, or of the longest there is where the kind says that.
    """

    name: str
    reference: str
    fingerprint: str
    length: int = 0
    id: int = 0


class _EndsWithRows(_HasEnds):
    """What the kinds of windows that end with rows have in common."""

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A window from before it said its kind by its type."""
        return {"type": "SpanWindow" if value.get("rows") is None else "CountWindow", **value}


@dataclass(frozen=True)
class CountWindow(_EndsWithRows):
    """The last `rows` rows up to a row: `[ROWS n SLIDE m]`, `[PARTITION BY a ROWS n SLIDE m]`.

    The rows of a stream (of each partition of it) are numbered from 1; windows end with the rows whose number is a
    multiple of `slide`. Windows are made of all rows of the stream; the query's WHERE chooses among the rows of a
    window.

    partition: columns (DuckDB SQL); each partition is numbered by itself, and its columns are keys of the answer.
    numbered: by rank in the stream's total order (late rows move the numbers behind them), or by arrival.
    """

    rows: int
    slide: int = 1
    partition: tuple[Key, ...] = ()
    numbered: Literal["rank", "arrival"] = "rank"
    attribute: str = "ts"

    @property
    def reach(self) -> int:
        """How far before its end the window may begin, microseconds; 0: that is not a matter of time."""
        return 0

    @property
    def first_whole(self) -> int:
        """The first that ends with so many rows."""
        return -(-self.rows // self.slide)


@dataclass(frozen=True)
class SpanWindow(_EndsWithRows):
    """The rows with end - range < time <= end (microseconds) up to a row: `[RANGE t SLIDE m ROWS]`.

    The other fields are those of `CountWindow`; it is made of no number of rows.
    """

    rows: ClassVar[int] = 0

    range: int
    slide: int = 1
    partition: tuple[Key, ...] = ()
    numbered: Literal["rank", "arrival"] = "rank"
    attribute: str = "ts"

    @property
    def reach(self) -> int:
        """How far before its end the window begins, microseconds."""
        return self.range

    @property
    def lead(self) -> int:
        """It begins behind its start."""
        return -1


#: Windows that end with a row.
RowWindow = CountWindow | SpanWindow


@dataclass(frozen=True)
class SessionWindow(_HasEnds):
    """Sessions: maximal runs of rows, `[SESSION gap MAX longest]`, `[PARTITION BY a SESSION gap]`; microseconds.

    A row at t reaches to t + its gap, both included; rows that reach one another, also by way of others, are a session.
    It covers [first row, the furthest that its rows reach).

    gap: how far rows reach; 0: `spans` says it of each row.
    spans: over the stream's columns, an INTERVAL; None: all rows reach as far.
    longest: a row that comes this long after the first one of its session, or later, begins another; None: none does.
    partition: columns (DuckDB SQL) each of whose values has sessions of its own; they are keys of the answer. Empty:
        the keys of GROUP BY are.
    """

    gap: int
    spans: Expression | None = None
    longest: int | None = None
    partition: tuple[Key, ...] = ()
    attribute: str = "ts"

    @property
    def lead(self) -> int:
        """A row that is gone may have reached its first one."""
        return self.gap

    @property
    def reach(self) -> int:
        """How long a session that is like others may be, as far as that is known: the longest, or else its gap."""
        return self.longest or self.gap


#: Windows that have ends.
EndedWindow = Window | RowWindow | SessionWindow


class _OfRelation(Variant):
    """What windows without SLIDE have in common: each makes a stream a relation, defined at every instant (CQL).

    `since` and `reach` are None where a row's age says nothing.
    leaves: rows leave it. pushes: rows leave it because of others that come.
    """

    leaves: ClassVar[bool] = True
    pushes: ClassVar[bool] = False

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A window from before it said its kind by its type."""
        kinds = {
            "range": "RangeWindow",
            "rows": "LatestRowsWindow",
            "unbounded": "UnboundedWindow",
            "tumbling": "TumblingWindow",
        }
        return {**value, TAG: kinds[value["kind"]]}

    @property
    def reach(self) -> int | None:
        """How far before an instant its rows may lie, microseconds."""
        return None

    def since(self, instant: int) -> int | None:
        """The least event time of its rows at an instant."""
        return None

    def holds(self, other: RelationWindow) -> bool:
        """Whether every row of another window over the same rows is certainly in this one, too."""
        return False


@dataclass(frozen=True)
class RangeWindow(_OfRelation):
    """The rows with τ - range <= event time <= τ: `[RANGE 5 MINUTES]`; `[NOW]` has range 0. Microseconds.

    >>> RangeWindow(3).since(10)
    7
    """

    range: int = 0

    @property
    def reach(self) -> int:
        """The range."""
        return self.range

    def since(self, instant: int) -> int:
        """The range before."""
        return instant - self.range

    def holds(self, other: RelationWindow) -> bool:
        """See `_OfRelation`."""
        return isinstance(other, RangeWindow) and self.range >= other.range


@dataclass(frozen=True)
class TumblingWindow(_OfRelation):
    """The rows of the interval that τ lies in, of PAIRS alone: intervals of `range` begin at `origin` + k * `range`.

    >>> TumblingWindow(4).since(10)
    8
    """

    range: int
    origin: int = 0

    @property
    def reach(self) -> int:
        """The range."""
        return self.range

    def since(self, instant: int) -> int:
        """The begin of the interval."""
        return instant - (instant - self.origin) % self.range


@dataclass(frozen=True)
class LatestRowsWindow(_OfRelation):
    """The last `rows` rows up to τ in total order: `[ROWS 5]`, `[PARTITION BY a ROWS 5]`.

    partition: columns, as declared; the last rows are those of each partition.
    """

    pushes: ClassVar[bool] = True

    rows: int
    partition: tuple[str, ...] = ()

    def holds(self, other: RelationWindow) -> bool:
        """See `_OfRelation`."""
        return isinstance(other, LatestRowsWindow) and (self.partition == other.partition and self.rows >= other.rows)


@dataclass(frozen=True)
class UnboundedWindow(_OfRelation):
    """All rows up to τ: `[RANGE UNBOUNDED]`."""

    leaves: ClassVar[bool] = False

    def holds(self, other: RelationWindow) -> bool:
        """See `_OfRelation`."""
        return True


#: A window whose rows leave as time goes on.
TimedWindow = RangeWindow | TumblingWindow

#: A window without SLIDE.
RelationWindow = RangeWindow | TumblingWindow | LatestRowsWindow | UnboundedWindow
