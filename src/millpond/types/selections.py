"""Row queries: conditions as intervals on attributes, and where their windows begin and end."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from millpond.types.durations import duration
from millpond.types.instants import FOREVER, NEVER, moment
from millpond.types.json_records import Written
from millpond.types.sql_expressions import Expression


@dataclass(frozen=True)
class Interval:
    """One factor of a conjunction: the rows whose attribute is not NULL and lies between two bounds.

    attribute: DuckDB SQL over the stream's columns that gives the value to compare as BIGINT, DOUBLE or VARCHAR
        (`kind`). Attributes with the same text are the same attribute, whatever query asks. A factor that is no
        comparison of a column with a constant is an attribute of its own that is 1 where the factor holds.
    low, high: bounds in the attribute's own kind (timestamps: microseconds); None: unbounded on that side.
    null: the factor is IS NULL; the bounds don't count.

    >>> Interval('"mph"', "float", low=None, high=20.0, high_closed=False)  # mph < 20
    Interval(attribute='"mph"', kind='float', low=None, high=20.0, low_closed=True, high_closed=False, null=False)
    """

    attribute: str
    kind: Literal["integer", "float", "text"]
    low: int | float | str | None = None
    high: int | float | str | None = None
    low_closed: bool = True
    high_closed: bool = True
    null: bool = False


@dataclass(frozen=True)
class Edge(Written, ABC):
    """One end of a BEGIN … END window.

    kind: what it is written as.
    """

    kind: ClassVar[str]

    value: int = 0

    @property
    def constant(self) -> int | None:
        """The instant that it is, whatever NOW is, microseconds; None: it moves, or there is no bound."""
        return None

    @property
    def rows(self) -> int | None:
        """How many rows it counts back; None: it is no matter of rows."""
        return None

    def begins(self, now: int) -> int | None:
        """The instant at which a window with this BEGIN begins; None: it has no bound, or one by rows."""
        return self.ends(now)

    def ends(self, now: int) -> int | None:
        """The instant at which a window with this END ends; None: rows tell."""
        return max(NEVER, min(FOREVER, self._instant(now)))

    def _instant(self, now: int) -> int:
        return now

    def is_before(self, instant: int) -> bool:
        """Whether a window with this BEGIN begins before an instant, whatever NOW is."""
        return False

    def follows(self, other: Edge) -> bool:
        """Whether it lies behind an edge that moves as it does."""
        return self.kind == other.kind and self.value > other.value

    def written(self) -> dict[str, Any]:
        """See `Written`."""
        return {"kind": self.kind, **({"value": self.value} if self.value else {})}

    @classmethod
    def read(cls, value: Any) -> Any:
        """See `Written`."""
        classes = {each.kind: each for each in (OpenEdge, ConstantEdge, NowEdge, RowsEdge)}
        return classes[value.get("kind", "open")](value.get("value", 0))


class OpenEdge(Edge):
    """No bound: the whole retained past; up to NOW."""

    kind: ClassVar[str] = "open"

    def __str__(self) -> str:
        return "-"

    def begins(self, now: int) -> int | None:
        """See `Edge`."""
        return None

    def is_before(self, instant: int) -> bool:
        """See `Edge`."""
        return True


class ConstantEdge(Edge):
    """An instant. value: microseconds since 1970."""

    kind: ClassVar[str] = "constant"

    def __str__(self) -> str:
        return f"TIMESTAMP '{moment(self.value)}'"

    @property
    def constant(self) -> int | None:
        """See `Edge`."""
        return self.value

    def _instant(self, now: int) -> int:
        return self.value

    def is_before(self, instant: int) -> bool:
        """See `Edge`."""
        return self.value < instant


class NowEdge(Edge):
    """NOW plus `value` microseconds."""

    kind: ClassVar[str] = "now"

    def __str__(self) -> str:
        return f"NOW {'-' if self.value < 0 else '+'} {duration(abs(self.value))}" if self.value else "NOW"

    def _instant(self, now: int) -> int:
        return now + self.value


class RowsEdge(Edge):
    """Before the last `value` rows of the stream up to NOW, in the stream's total order, before any condition.

    A window that begins there has these, one that ends there has not.
    """

    kind: ClassVar[str] = "rows"

    def __str__(self) -> str:
        return f"NOW - {self.value} ROWS"

    @property
    def rows(self) -> int | None:
        """See `Edge`."""
        return self.value

    def ends(self, now: int) -> int | None:
        """See `Edge`."""
        return None

    def follows(self, other: Edge) -> bool:
        """See `Edge`: the more rows, the further back."""
        return self.kind == other.kind and self.value < other.value


OPEN, NOW = OpenEdge(), NowEdge()


@dataclass(frozen=True)
class Span:
    """A BEGIN … END window, closed at both ends; applied when the query is invoked."""

    begin: Edge = OPEN
    end: Edge = NOW


@dataclass(frozen=True)
class Side:
    """One stream of a selection.

    where: over the stream's columns: all factors that concern this stream alone; None: every row.
    boxes: the same condition for the predicate index: alternatives that exclude each other, each a conjunction of
        intervals. `((),)` is every row, `()` is no row.
    """

    stream: str
    span: Span = Span()
    where: Expression | None = None
    boxes: tuple[tuple[Interval, ...], ...] = ((),)


@dataclass(frozen=True)
class JoinFactor:
    """`left op right`: expressions over columns of two sides, a constant folded into one of them.

    kind: as of `Interval`; both sides give values of that kind. A NULL joins nothing.
    first, second: the sides of `left` and `right`; rows of `first` are there when those of `second` come to them.
    where: what must hold of the rows joined then, where further sides come to them; None: nothing.
    """

    left: Expression
    operator: Literal["=", "<", "<=", ">", ">="]
    right: Expression
    kind: Literal["integer", "float", "text"]
    first: int = 0
    second: int = 1
    where: Expression | None = None
