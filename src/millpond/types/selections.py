"""Row queries: conditions as intervals on attributes, and where their windows begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class Edge:
    """One end of a BEGIN … END window.

    kind: 'open' (no bound: the whole retained past; up to NOW), 'constant' (`value` is an instant in microseconds),
        'now' (NOW plus `value` microseconds), 'rows' (before the last `value` rows of the stream up to NOW, in the
        stream's total order, before any condition: a window that begins there has these, one that ends there has not).
    """

    kind: Literal["open", "constant", "now", "rows"] = "open"
    value: int = 0


@dataclass(frozen=True)
class Span:
    """A BEGIN … END window, closed at both ends; applied when the query is invoked."""

    begin: Edge = Edge()
    end: Edge = Edge("now")


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
