"""Windows of a group without a row, and what fills the columns of their answers.

A window without a row is answered from its sources: the last window before it in which the group has a row, and for
lines between two the first one behind it. Sources are folded beside the windows that are asked for, and left out of the
answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millpond.types import Expression, Output, WindowedQuery
from millpond.types.options.value_kinds import NUMBERS_ONLY, fills_of
from millpond.windows import Cover, Rows
from millpond.windows.candidates import Ints

#: Columns of folded windows that fills go by: where a window stands, where its sources do, before it and behind it,
#: whether it is empty, and whether it is asked for.
FILLING = AT, BEFORE, BEHIND, EMPTY, ASKED = "__at", "__before", "__behind", "__empty", "__asked"


_NUMBERS = {
    *(f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")),
    *("INTEGER", "UINTEGER", "FLOAT", "DOUBLE", "DECIMAL"),
}


@dataclass(frozen=True)
class Gaps:
    """How windows without a row are answered.

    reach: panes before the end of a window in which its group must have a row. rules: what fills columns of the SELECT
    list, by place: the word, and whether it was said of that column by name.
    """

    reach: int
    rules: tuple[tuple[int, str, bool], ...] = ()

    @property
    def ahead(self) -> bool:
        """Whether windows are filled from later ones: they are answered when these are."""
        return any(word == "linear" for _, word, _ in self.rules)


def rules_of(query: WindowedQuery, fill: str | None) -> tuple[tuple[int, str, bool], ...]:
    """The rules of `Gaps`, by the option `fill`."""
    if fill is None:
        return ()
    words = fills_of(fill)
    found = [(i, words.get(o.name.lower(), words.get("", "null")), o) for i, o in fill_columns(query)]
    return tuple(
        (i, word, o.name.lower() in words)
        for i, word, o in found
        if o.name.lower() in words or (word != "null" and (word not in NUMBERS_ONLY or is_number(o.type)))
    )


def fill_columns(query: WindowedQuery) -> list[tuple[int, Output]]:
    """The columns that can be filled, with their places in the SELECT list: those that aggregates are in."""
    names = {a.name for a in query.aggregates}
    return [(i, o) for i, o in enumerate(query.select) if names.intersection(o.expression.columns)]


def is_number(kind: str) -> bool:
    """Whether a DuckDB type is one of numbers.

    >>> is_number("DECIMAL(18,3)"), is_number("TIMESTAMP")
    (True, False)
    """
    return kind.partition("(")[0] in _NUMBERS


@dataclass(frozen=True)
class Pairs:
    """Windows that are folded, by group code and end: those that are asked for, and behind them their sources.

    columns: as of `AT` and the others.
    """

    group: Ints
    end: Ints
    columns: Mapping[str, pa.Array]


@dataclass(frozen=True)
class _Held:
    """The rows that lie in windows, not between them, with the first and the last end of a window that holds each.

    count: of such rows among those before each of all rows.
    """

    rows: Rows
    first: Ints
    last: Ints
    count: Ints

    @staticmethod
    def of(rows: Rows, cover: Cover) -> _Held:
        """Those among some rows."""
        _, step, offset = cover.shape
        last = offset + (cover.lasts(rows.pane) - offset) // step * step
        held = last > rows.pane
        kept = replace(rows, group=rows.group[held], pane=rows.pane[held], code=rows.code[held])
        first = offset - (offset - (kept.pane + 1)) // step * step
        return _Held(kept, first, last[held], np.r_[0, np.cumsum(held)])


def with_sources(rows: Rows, cover: Cover, group: Ints, end: Ints, gaps: Gaps) -> Pairs:
    """Windows with those that fill them.

    >>> from millpond.types import TimeWindow
    >>> from millpond.windows import Panes
    >>> cover = Cover(Panes(1), TimeWindow(range=1, slide=1))
    >>> rows = Rows.sort(np.array([0, 0]), np.array([3, 9]))[0]
    >>> found = with_sources(rows, cover, np.array([0, 0]), np.array([4, 6]), Gaps(10))
    >>> found.end.tolist(), found.columns["__before"].to_pylist(), found.columns["__asked"].to_pylist()
    ([4, 6, 4], [None, 2, None], [True, True, False])
    """
    held = _Held.of(rows, cover)
    low, high = rows.runs(group, end, end - cover.starts(end))
    empty, places = low == high, held.count[low]
    before = _sources(held, group, end, np.where(empty, places - 1, -1), gaps.reach)
    behind = _sources(held, group, end, np.where(empty & gaps.ahead, places, -1), gaps.reach)
    last, of_last = np.unique(before[before >= 0], return_inverse=True)
    first, of_first = np.unique(behind[behind >= 0], return_inverse=True)
    ends = np.r_[end, held.last[last], held.first[first]]
    columns = {
        AT: pa.array(np.arange(len(ends))),
        BEFORE: _pointing(before, len(end) + of_last, len(ends)),
        BEHIND: _pointing(behind, len(end) + len(last) + of_first, len(ends)),
        EMPTY: pa.array(np.r_[empty, np.zeros(len(ends) - len(end), bool)]),
        ASKED: pa.array(np.arange(len(ends)) < len(end)),
    }
    return Pairs(np.r_[group, held.rows.group[last], held.rows.group[first]], ends, columns)


def _pointing(found: Ints, places: Ints, size: int) -> pa.Array:
    """A column of so many rows: the places of the sources that are found; NULL for all others."""
    source = np.full(size, -1, np.int64)
    source[np.flatnonzero(found >= 0)] = places
    return pa.array(source, mask=source < 0)


def _sources(held: _Held, group: Ints, end: Ints, at: Ints, reach: int) -> Ints:
    """Of places of rows those that are rows of the groups, within `reach` of the ends; else -1."""
    if not len(held.rows.group):
        return np.full(len(at), -1, np.int64)
    place = np.clip(at, 0, len(held.rows.group) - 1)
    known = (at == place) & (held.rows.group[place] == group) & (np.abs(held.rows.pane[place] - end) <= reach)
    return np.where(known, place, -1)


def filled_ends(rows: Rows, cover: Cover, after: int | Ints, until: int | Ints, reach: int) -> tuple[Ints, Ints]:
    """All (group, end) that are known behind `after` and not behind `until`, where gaps wait for the rows behind them.

    A gap is the windows between two rows of a group that are no further apart than `reach`, and known when the first
    window is that holds the second row.

    Args:
        after, until: as of `Rows.ends`.
    """
    step = cover.shape[1]
    group, end = rows.ends(cover.shape, after, until)
    held = _Held.of(rows, cover)
    if len(held.rows.group) < 2:
        return group, end
    kept = np.diff(held.count) > 0
    after, until = (each[kept][1:] if isinstance(each, np.ndarray) else each for each in (after, until))
    known, begin = held.first[1:], held.last[:-1] + step
    waited = (held.rows.group[1:] == held.rows.group[:-1]) & (known > after) & (known <= until)
    waited &= known <= held.rows.pane[:-1] + reach
    count = np.where(waited, np.maximum(0, (known - begin) // step), 0)
    row = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return np.r_[group, held.rows.group[row]], np.r_[end, begin[row] + nth * step]


#: What fills a column (of `__v`, the windows by `AT`), by word: of the window before, or on the line between two.
_FILLS = {
    "null": "NULL::{type}",
    "0": "0::{type}",
    "previous": "__p.{name}",
    "linear": (
        "(__p.{name} + (__n.{name} - __p.{name}) * ((epoch_us(__w.window_end) - epoch_us(__p.window_end))::DOUBLE"
        " / (epoch_us(__n.window_end) - epoch_us(__p.window_end))))::{type}"
    ),
}


def fill(query: WindowedQuery, inner: str, rules: Sequence[tuple[int, str, bool]]) -> tuple[WindowedQuery, str]:
    """The query, and the SELECT of its windows, with the columns of the SELECT list filled.

    Args:
        inner: SELECT of the window's columns, keys and aggregates, and the columns of `Pairs`.
    """
    outputs, values, places, filled = list(query.select), [], [], dict[str, Expression]()
    for i, word, named in rules:
        output, name = query.select[i], f"__v{i}"
        values.append(f"({output.expression})::{output.type} AS {name}")
        other = _FILLS[word].format(type=output.type, name=name)
        other = other if named else f"coalesce(__w.{name}, {other})"
        places.append(f"CASE WHEN __w.{EMPTY} THEN {other} ELSE __w.{name} END AS __f{i}")
        filled[output.expression.sql] = Expression.column_of(f"__f{i}", output.type)
        outputs[i] = replace(output, expression=filled[output.expression.sql])
    found = (
        f"WITH __v AS MATERIALIZED (SELECT *, {', '.join(values)} FROM ({inner}))"
        f" SELECT __w.*, {', '.join(places)} FROM __v AS __w LEFT JOIN __v AS __p ON __w.{BEFORE} = __p.{AT}"
        f" LEFT JOIN __v AS __n ON __w.{BEHIND} = __n.{AT} WHERE __w.{ASKED} ORDER BY __w.{AT}"
    )
    # What rows are sorted by is what they show.
    order = tuple(replace(t, expression=filled.get(t.expression.sql, t.expression)) for t in query.order_by)
    return replace(query, select=tuple(outputs), order_by=order), found


__all__ = ["FILLING", "Gaps", "Pairs", "fill", "fill_columns", "filled_ends", "is_number", "rules_of", "with_sources"]
