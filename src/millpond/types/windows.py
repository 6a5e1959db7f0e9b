"""Windows that have ends, and how much of the past a scan leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millpond.types.landmarks import Landmark
from millpond.types.outputs import Key


@dataclass(frozen=True)
class Window:
    """A time window `[RANGE range SLIDE slide ON attribute ORIGIN origin]`; all numbers are microseconds.

    Windows end at origin + k*slide (k any integer) and cover [end - range, end). `ALIGN START` is expressed by an
    origin moved by range mod slide, so that nothing behind the binder needs to know of it.

    landmark: windows cover everything since the last landmark before their end instead; `range` is 0 then.
    beside: of a query with several windows since landmarks behind its aggregates, the other landmarks. Its window
        begins where the first of all its windows does: since one of the landmarks, or `range` before the end.
    kind: windows of a registered kind instead (its reference, see `millpond.windows.registered`): RANGE and SLIDE are
        one window then, since ids stand in the place of times, and `length` is how long windows are.
    """

    range: int
    slide: int
    origin: int = 0
    attribute: str = "ts"
    landmark: Landmark | None = None
    kind: str | None = None
    length: int = 0
    beside: tuple[Landmark, ...] = ()

    @property
    def landmarks(self) -> tuple[Landmark, ...]:
        """All landmarks since which it grows; none: it does not grow."""
        return () if self.landmark is None else (self.landmark, *self.beside)


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


@dataclass(frozen=True)
class RowWindow:
    """A window that ends with a row: `[ROWS n SLIDE m]`, `[PARTITION BY a ROWS n SLIDE m]`, `[RANGE t SLIDE m ROWS]`.

    The rows of a stream (of each partition of it) are numbered from 1; windows end with the rows whose number is a
    multiple of `slide`. A window holds the last `rows` rows up to its end, or the rows with end - range < time <= end.
    Windows are made of all rows of the stream; the query's WHERE chooses among the rows of a window.

    rows, range: one of them is given; `range` in microseconds.
    partition: columns (DuckDB SQL); each partition is numbered by itself, and its columns are keys of the answer.
    numbered: by rank in the stream's total order (late rows move the numbers behind them), or by arrival.
    """

    rows: int | None = None
    range: int | None = None
    slide: int = 1
    partition: tuple[Key, ...] = ()
    numbered: Literal["rank", "arrival"] = "rank"
    attribute: str = "ts"


@dataclass(frozen=True)
class Reduction:
    """What `REDUCE …` behind a stream says: how much of its past a scan may leave out.

    function: 'sample', 'age', 'load', 'error', 'interval', or the name of a registered function.
    drops: fractions to drop, at least 0 and below 1: that of sample; of age one for each of `spans`; of load the most
        that it may drop.
    spans: microseconds; of age: of rows that are more than so much older than NOW, ascending; of interval: how long the
        intervals are.
    error: how narrow an interval error() asks for: half its width as a fraction of the estimate.
    arguments: constants given to a registered function: numbers and texts.
    """

    function: str
    drops: tuple[float, ...] = ()
    spans: tuple[int, ...] = ()
    error: float = 0.0
    arguments: tuple[int | float | str, ...] = ()

    @property
    def samples(self) -> bool:
        """Whether it leaves out rows, so that those read stand for others."""
        return self.function != "interval"
