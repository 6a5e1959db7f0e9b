"""Random streams: types, NULLs, NaN, ties, disorder, gaps of years; and random cuts of them into items and epochs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from tests.oracle import Epoch, Item, Row, Table

S = 1_000_000
YEAR = 365 * 86_400 * S

#: Columns of the random stream, beside `ts`.
TYPES = {
    "k": "VARCHAR",
    "g": "INTEGER",
    "v": "DOUBLE",
    "n": "BIGINT",
    "d": "DECIMAL(12,2)",
    "b": "BOOLEAN",
}
COLUMNS = "ts TIMESTAMP, " + ", ".join(f"{n} {t}" for n, t in TYPES.items())

#: Steps of event time: a µs, a ms, a s, a minute, and an odd one.
UNITS = (1, 1_000, S, 60 * S, 7_777_777)
BASES = (0, -50 * S, 1_704_067_200 * S, -30 * YEAR + 1)

floats = st.one_of(
    st.none(),
    st.integers(-100, 100).map(float),
    st.floats(-1e4, 1e4, allow_nan=False, width=32),
    st.just(-0.0),
)
floats_with_nan = st.one_of(floats, st.just(float("nan")))


def values(nan: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """The columns of one row."""
    return st.fixed_dictionaries(
        {
            "k": st.sampled_from([None, "", "a", "b", "B", "ü", "a'b"]),
            "g": st.one_of(st.none(), st.integers(-2, 2)),
            "v": floats_with_nan if nan else floats,
            "n": st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**62, -(2**62), 2**53 + 1])),
            "d": st.one_of(st.none(), st.integers(-10_000, 10_000).map(lambda c: Decimal(c) / 100)),
            "b": st.sampled_from([None, True, False]),
        }
    )


@dataclass(frozen=True)
class Drawn:
    """A stream: its rows in intake order, the unit of its event times, where they lie, their largest disorder."""

    rows: tuple[Row, ...]
    unit: int
    base: int

    @property
    def table(self) -> Table:
        """The rows as the oracle wants them."""
        return Table(self.rows, TYPES)

    @property
    def disorder(self) -> int:
        """How far a row lags at most behind the largest event time before it."""
        high, worst = None, 0
        for row in self.rows:
            worst = max(worst, 0 if high is None else high - row.time)
            high = row.time if high is None else max(high, row.time)
        return worst


@st.composite
def streams(draw: st.DrawFn, max_rows: int = 24, nan: bool = False, gaps: bool = True, min_rows: int = 1) -> Drawn:
    """A stream of a few dozen rows; disorder is whatever order they were drawn in."""
    unit, base = draw(st.sampled_from(UNITS)), draw(st.sampled_from(BASES))
    offsets = draw(st.lists(st.integers(0, 40), min_size=min_rows, max_size=max_rows))
    jumps = draw(st.sampled_from([(0,), (0,), (0, 3 * YEAR)])) if gaps else (0,)
    if draw(st.booleans()):
        offsets = sorted(offsets)
    rows = []
    for place, offset in enumerate(offsets):
        # A gap of years lies between the first and the second half, so that order is not wholly random there.
        jump = jumps[-1] if place >= len(offsets) // 2 else 0
        wobble = draw(st.sampled_from([0, 0, 0, 1, -1])) if unit > 1 else 0
        rows.append(Row(base + offset * unit + jump + wobble, place, draw(values(nan))))
    return Drawn(tuple(rows), unit, base)


@st.composite
def cuts(draw: st.DrawFn, rows: tuple[Row, ...], max_epochs: int = 5) -> tuple[Epoch, ...]:
    """The rows, in their order, as items of epochs."""
    marks = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=max_epochs - 1)))
    bounds = [0, *marks, len(rows)]
    epochs = []
    for low, high in pairwise(bounds):
        part = rows[low:high]
        if not part:
            continue
        middle = draw(st.integers(0, len(part)))
        epochs.append(Epoch(tuple(Item(p) for p in (part[:middle], part[middle:]) if p)))
    return tuple(epochs)


@st.composite
def permutations(draw: st.DrawFn, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Another order of arrival, in which rows of equal event time keep theirs (ties follow the order of intake)."""
    shuffled = draw(st.permutations(range(len(rows))))
    by_time: dict[int, list[Row]] = {}
    for row in rows:
        by_time.setdefault(row.time, []).append(row)
    queues = {time: iter(group) for time, group in by_time.items()}
    order = [next(queues[rows[i].time]) for i in shuffled]
    return tuple(Row(row.time, place, row.values) for place, row in enumerate(order))
