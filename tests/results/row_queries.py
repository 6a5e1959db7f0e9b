"""Row queries and their naive answers: what the definitions say, over exactly the rows of a prefix of epochs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

BASE = dt.datetime(2026, 1, 1)
COLUMNS = "ts TIMESTAMP, n BIGINT, a INTEGER, s TEXT, x DOUBLE"


@dataclass(frozen=True)
class Row:
    """time: seconds behind BASE; n: its place in the order of arrival; epoch: the one that took it in."""

    time: int
    n: int
    epoch: int
    a: int | None
    s: str | None
    x: float | None

    def record(self) -> dict[str, Any]:
        """What is ingested."""
        return {"ts": BASE + dt.timedelta(seconds=self.time), "n": self.n, "a": self.a, "s": self.s, "x": self.x}


def _known(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is not None and check(value)


#: SQL and what it means.
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "": lambda r: True,
    "a = 2": lambda r: r.a == 2,
    "a > 0 AND a <= 3": lambda r: _known(lambda a: 0 < a <= 3)(r.a),
    "a <> 1": lambda r: _known(lambda a: a != 1)(r.a),
    "a IN (0, 3, 5)": lambda r: r.a in (0, 3, 5),
    "a IS NULL": lambda r: r.a is None,
    "s LIKE 'b%' AND x < 0.5": lambda r: _known(lambda s: s.startswith("b"))(r.s) and _known(lambda x: x < 0.5)(r.x),
    "a + n > 12": lambda r: _known(lambda a: a + r.n > 12)(r.a),
    "a = 1 OR s = 'ba'": lambda r: r.a == 1 or r.s == "ba",
    "10 // a = 5": lambda r: _known(lambda a: a != 0 and 10 // a == 5)(r.a),
    "a > 9": lambda r: False,
}

#: SQL of an edge, and the instant that it names given NOW.
Edge = tuple[str, Callable[[int], int]]


@dataclass(frozen=True)
class Bounds:
    """BEGIN … END: SQL, and what it means given NOW and the visible rows in total order."""

    sql: str
    begin: Callable[[int], int] | None
    end: Callable[[int], int] | None
    rows: int | None = None

    def apply(self, visible: Sequence[Row], now: int) -> list[Row]:
        """The rows of the window, from all visible ones."""
        chosen = list(visible)
        if self.rows is not None:
            chosen = [r for r in chosen if r.time <= now][-self.rows :]
        end = now if self.end is None else self.end(now)
        return [r for r in chosen if (self.begin is None or r.time >= self.begin(now)) and r.time <= end]


def stamp(seconds: int) -> str:
    """An instant as a SQL literal."""
    return f"TIMESTAMP '{BASE + dt.timedelta(seconds=seconds)}'"


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    """Snapshot, landmark, sliding, row-count windows, and none."""
    kind = draw(st.sampled_from(["none", "snapshot", "landmark", "sliding", "rows", "past"]))
    low, width = draw(st.integers(-3, 40)), draw(st.integers(0, 30))
    if kind == "none":
        return Bounds("", None, None)
    if kind == "snapshot":
        high = low + width
        return Bounds(f"BEGIN {stamp(low)} END {stamp(high)}", lambda now: low, lambda now: high)
    if kind == "landmark":
        return Bounds(f"BEGIN {stamp(low)} END NOW", lambda now: low, None)
    if kind == "sliding":
        return Bounds(f"BEGIN NOW - INTERVAL {width} SECONDS END NOW", lambda now: now - width, None)
    if kind == "past":
        sql = f"BEGIN NOW - INTERVAL {width + 5} SECONDS END NOW - INTERVAL 5 SECONDS"
        return Bounds(sql, lambda now: now - width - 5, lambda now: now - 5)
    count = draw(st.integers(1, 30))
    return Bounds(f"BEGIN NOW - {count} ROWS END NOW", None, None, count)


@st.composite
def traces(draw: st.DrawFn, most: int = 40) -> list[list[Row]]:
    """Rows with disorder, ties and NULLs, in epochs."""
    count = draw(st.integers(0, most))
    rows: list[list[Row]] = [[]]
    for n in range(count):
        if rows[-1] and draw(st.integers(0, 4)) == 0:
            rows.append([])
        late = draw(st.sampled_from([0, 0, 0, 1, 2, 15]))
        row = Row(
            max(0, n - late),
            n,
            len(rows),
            draw(st.sampled_from([None, 0, 1, 2, 3, 5])),
            draw(st.sampled_from([None, "", "a", "b", "ba", "é"])),
            draw(st.sampled_from([None, 0.0, 0.25, 0.5, 7.5])),
        )
        rows[-1].append(row)
    return [epoch for epoch in rows if epoch]


LATENESS = 4


def naive(
    rows: Sequence[Row],
    condition: str,
    window: Bounds,
    as_of: Any = None,
    order: str = "",
) -> list[int]:
    """`n` of the answer's rows in order, over all of `rows`.

    as_of: None, 'watermark', ('timestamp', seconds), ('epoch', number).
    """
    seen = list(rows)
    if isinstance(as_of, tuple) and as_of[0] == "epoch":
        seen = [r for r in rows if r.epoch <= as_of[1]]
    now = max((r.time for r in seen), default=None)
    if as_of == "watermark":
        now = None if now is None else now - LATENESS
        seen = [r for r in seen if now is not None and r.time < now]
    if isinstance(as_of, tuple) and as_of[0] == "timestamp":
        now = as_of[1]
        seen = [r for r in seen if r.time <= as_of[1]]
    if now is None:
        return []
    seen.sort(key=lambda r: (r.time, r.n))
    found = [r.n for r in window.apply(seen, now) if CONDITIONS[condition](r)]
    return sorted(found, reverse=True)[:5] if order else found
