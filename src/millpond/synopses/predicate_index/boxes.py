"""The predicate index of one stream (PSoup's Query SteM): the boxes of all standing queries as growing arrays.

Constants are kept once per attribute. Per block of rows each constant becomes a rank among the block's values, and a
factor becomes two comparisons of ranks: see `matches.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.types import Interval

#: One conjunction of factors; a query's condition is a set of boxes that exclude each other.
Box = Sequence[Interval]
Kind = Literal["integer", "float", "text"]

LOW_CLOSED, HIGH_CLOSED, NULL, NEVER = 1, 2, 4, 8

_NAN = float("nan")
_LEAST, _MOST = -(2**63), 2**63 - 1


class _Growing:
    """A numpy array that grows at its end; views of what is there stay valid and unchanged."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._data: npt.NDArray[Any] = np.empty(64, dtype)
        self.size = 0

    def extend(self, values: Any) -> None:
        end = self.size + len(values)
        if end > len(self._data):
            data = np.empty(max(end, len(self._data) * 3 // 2), self._data.dtype)
            data[: self.size] = self._data[: self.size]
            self._data = data
        self._data[self.size : end] = values
        self.size = end

    @property
    def view(self) -> npt.NDArray[Any]:
        return self._data[: self.size]

    @property
    def nbytes(self) -> int:
        return self._data.nbytes


class _Attribute:
    """An attribute's distinct constants: a constant's id is its place of arrival."""

    def __init__(self, expression: str, kind: Kind) -> None:
        self.expression = expression
        self.kind = kind
        self.uses = 0
        self.ids: dict[Any, int] = {}
        self._listed: list[Any] = []
        self._values: npt.NDArray[Any] = np.empty(0, self.dtype)
        self._places: npt.NDArray[np.int32] = np.empty(0, np.int32)

    @property
    def dtype(self) -> npt.DTypeLike:
        return object if self.kind == "text" else np.int64 if self.kind == "integer" else np.float64

    def array(self, values: Sequence[Any]) -> npt.NDArray[Any]:
        made: npt.NDArray[Any] = np.empty(len(values), self.dtype)
        made[:] = values
        return made

    def value(self, constant: int) -> Any:
        """The constant of that id; None for -1."""
        if len(self._listed) < len(self.ids):
            self._listed = list(self.ids)
        return None if constant < 0 else self._listed[constant]

    def sorted(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Constants ascending, and their ids; new ones are merged into what was sorted before."""
        known = len(self._values)
        if known < len(self.ids):
            fresh = self.array(list(self.ids)[known:])
            order = np.argsort(fresh, kind="stable")
            at = np.searchsorted(self._values, fresh[order])
            self._values = np.insert(self._values, at, fresh[order])
            self._places = np.insert(self._places, at, (order + known).astype(np.int32))
        return self._values, self._places


@dataclass(frozen=True)
class Compiled:
    """A snapshot of a table as arrays: what the matching kernels read.

    queries: ids of the live queries, ascending. slot_first, slot_count: their boxes. box_first, box_end: a box's
    intervals. iv_attribute, iv_low, iv_high (constant ids, -1: unbounded), iv_flags. attributes: (expression, kind).
    constants: per attribute its constants ascending and their ids. constant_at: where an attribute's ids begin when
    all constants are laid out in one row. uses: intervals per attribute.
    """

    version: int
    queries: npt.NDArray[np.int64]
    slot_first: npt.NDArray[np.int32]
    slot_count: npt.NDArray[np.int32]
    box_first: npt.NDArray[np.int32]
    box_end: npt.NDArray[np.int32]
    iv_attribute: npt.NDArray[np.int32]
    iv_low: npt.NDArray[np.int32]
    iv_high: npt.NDArray[np.int32]
    iv_flags: npt.NDArray[np.uint8]
    attributes: tuple[tuple[str, str], ...]
    constants: tuple[tuple[npt.NDArray[Any], npt.NDArray[np.int32]], ...]
    constant_at: npt.NDArray[np.int64]
    uses: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Added:
    """Queries that are added as one change, as columns.

    attribute, lows, highs, flags: of their intervals. firsts, ends: which intervals each box has. slot_firsts, counts:
    which boxes each query of `ids` has. last: by query, its last place in `ids`.
    """

    attribute: Any
    lows: Any
    highs: Any
    flags: Any
    firsts: Any
    ends: Any
    ids: Any
    slot_firsts: Any
    counts: Any
    last: dict[int, int]


class BoxTable:
    """Boxes by query, incremental and vectorised. All methods may be called from any thread.

    `version` counts the changes; an owner with numbers of its own may set it after a change.

        >>> table = BoxTable()
        >>> table.add(7, [(Interval('"a"', "integer", 1, 5),)])
        >>> table.attributes(), len(table)
        ({'"a"': 'integer'}, 1)
    """

    def __init__(self) -> None:
        self.version = 0
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self._attributes: list[_Attribute] = []
        self._attribute_ids: dict[tuple[str, str], int] = {}
        self._iv_attribute, self._iv_low, self._iv_high = _Growing(np.int32), _Growing(np.int32), _Growing(np.int32)
        self._iv_flags = _Growing(np.uint8)
        self._box_first, self._box_end = _Growing(np.int32), _Growing(np.int32)
        self._slot_query = _Growing(np.int64)
        self._slot_first, self._slot_count = _Growing(np.int32), _Growing(np.int32)
        self._alive = _Growing(bool)
        self._slots: dict[int, int] = {}
        self._compiled: Compiled | None = None

    def __len__(self) -> int:
        """Number of queries."""
        return len(self._slots)

    def __contains__(self, query: int) -> bool:
        return query in self._slots

    def add(self, query: int, boxes: Sequence[Box]) -> None:
        """Add one query (replaces a query of the same id)."""
        self.add_many([(query, boxes)])

    def add_many(self, queries: Iterable[tuple[int, Sequence[Box]]]) -> None:
        """Add many queries as one change.

        Args:
            queries: ids with their boxes; `((),)` is every row, `()` is no row.
        """
        with self._lock:
            attribute: list[int] = []
            lows: list[int] = []
            highs: list[int] = []
            flags: list[int] = []
            firsts: list[int] = []
            ends: list[int] = []
            ids: list[int] = []
            slot_firsts: list[int] = []
            counts: list[int] = []
            numbers = self._attribute_ids
            closed = {(x, y): LOW_CLOSED * x + HIGH_CLOSED * y for x in (False, True) for y in (False, True)}
            at_interval, at_box = self._iv_attribute.size, self._box_first.size
            last: dict[int, int] = {}
            for query, boxes in queries:
                last[query] = len(ids)
                ids.append(query)
                slot_firsts.append(at_box + len(firsts))
                counts.append(len(boxes))
                for box in boxes:
                    firsts.append(at_interval + len(attribute))
                    for interval in box:
                        number = numbers.get((interval.attribute, interval.kind))
                        if number is None:
                            number = self._attribute(interval.attribute, interval.kind)
                        attribute.append(number)
                        low, high = interval.low, interval.high
                        if interval.null:
                            lows.append(-1)
                            highs.append(-1)
                            flags.append(NULL)
                            continue
                        if type(low) is not int or type(high) is not int or not _LEAST <= low <= high <= _MOST:
                            low, high, never = _bounds(interval)
                            if never:
                                lows.append(-1)
                                highs.append(-1)
                                flags.append(NEVER)
                                continue
                        elif interval.kind == "float":
                            low, high = float(low), float(high)
                        constants = self._attributes[number].ids
                        lows.append(-1 if low is None else constants.setdefault(low, len(constants)))
                        highs.append(-1 if high is None else constants.setdefault(high, len(constants)))
                        flags.append(closed[interval.low_closed, interval.high_closed])
                    ends.append(at_interval + len(attribute))
            self._append(_Added(attribute, lows, highs, flags, firsts, ends, ids, slot_firsts, counts, last))

    def _append(self, added: _Added) -> None:
        last, ids = added.last, added.ids
        for query in last.keys() & self._slots.keys():
            self._kill(query)
        at_slot = self._slot_query.size
        self._iv_attribute.extend(added.attribute)
        self._iv_low.extend(added.lows)
        self._iv_high.extend(added.highs)
        self._iv_flags.extend(added.flags)
        self._box_first.extend(added.firsts)
        self._box_end.extend(added.ends)
        self._slot_query.extend(ids)
        self._slot_first.extend(added.slot_firsts)
        self._slot_count.extend(added.counts)
        alive = np.ones(len(ids), bool)
        if len(last) < len(ids):  # an id given twice: the last one counts
            alive[:] = False
            alive[list(last.values())] = True
        self._alive.extend(alive)
        self._slots.update((q, at_slot + i) for q, i in last.items())
        for number, count in enumerate(np.bincount(np.asarray(added.attribute, np.int64), minlength=1)):
            if count:
                self._attributes[number].uses += int(count)
        if len(last) < len(ids):
            for i in np.flatnonzero(~alive):
                self._release(at_slot + int(i))
        self._changed()

    def _attribute(self, expression: str, kind: Kind) -> int:
        number = self._attribute_ids.setdefault((expression, kind), len(self._attributes))
        if number == len(self._attributes):
            self._attributes.append(_Attribute(expression, kind))
        return number

    def remove(self, query: int) -> bool:
        """Take a query out; False when it is not there."""
        return self.remove_many([query]) == 1

    def remove_many(self, queries: Iterable[int]) -> int:
        """Take queries out as one change; how many were there."""
        with self._lock:
            gone = sum(self._kill(query) for query in queries)
            if gone:
                if self._alive.size > 1024 and len(self._slots) * 2 < self._alive.size:
                    self._compact()
                self._changed()
            return gone

    def _kill(self, query: int) -> bool:
        slot = self._slots.pop(query, None)
        if slot is None:
            return False
        self._alive.view[slot] = False
        self._release(slot)
        return True

    def _release(self, slot: int) -> None:
        first = int(self._slot_first.view[slot])
        for box in range(first, first + int(self._slot_count.view[slot])):
            for number in self._iv_attribute.view[self._box_first.view[box] : self._box_end.view[box]].tolist():
                self._attributes[number].uses -= 1

    def _compact(self) -> None:
        """Rebuild without the dead queries, their constants and their attributes."""
        kept = [(query, self.boxes(query)) for query in self._slots]
        version = self.version
        self._clear()
        self.add_many(kept)
        self.version = version

    def _changed(self) -> None:
        self.version += 1
        self._compiled = None

    def merge(self, other: BoxTable) -> None:
        """Add all queries of another table as one change, without looking at their intervals one by one."""
        with other._lock:
            snapshot = other.compile()
            constants = [list(a.ids) for a in other._attributes]
        with self._lock:
            numbers = np.zeros(len(snapshot.attributes) + 1, np.int32)
            ids = np.full(int(snapshot.constant_at[-1]) + 1, -1, np.int32)
            for i, (expression, kind) in enumerate(snapshot.attributes):
                numbers[i] = self._attribute(expression, cast(Kind, kind))
                known = self._attributes[numbers[i]].ids
                at = int(snapshot.constant_at[i])
                ids[at : at + len(constants[i])] = [known.setdefault(v, len(known)) for v in constants[i]]
            base = snapshot.constant_at[snapshot.iv_attribute]
            # Intervals of dead queries come along and go with the next compaction.
            low = np.where(snapshot.iv_low < 0, -1, ids[base + snapshot.iv_low])
            high = np.where(snapshot.iv_high < 0, -1, ids[base + snapshot.iv_high])
            at_interval, at_box = self._iv_attribute.size, self._box_first.size
            queries = snapshot.queries.tolist()
            attribute = numbers[snapshot.iv_attribute]
            self._append(
                _Added(
                    attribute,
                    low,
                    high,
                    snapshot.iv_flags,
                    snapshot.box_first + at_interval,
                    snapshot.box_end + at_interval,
                    queries,
                    snapshot.slot_first + at_box,
                    snapshot.slot_count,
                    {q: i for i, q in enumerate(queries)},
                )
            )
            surplus = np.bincount(attribute, minlength=len(self._attributes))
            for i, uses in enumerate(snapshot.uses):
                self._attributes[numbers[i]].uses -= int(surplus[numbers[i]]) - int(uses)

    def queries(self) -> list[int]:
        """Ids of all queries."""
        with self._lock:
            return list(self._slots)

    def boxes(self, query: int) -> tuple[tuple[Interval, ...], ...]:
        """The boxes of a query. Raises KeyError."""
        with self._lock:
            slot = self._slots[query]
            first = int(self._slot_first.view[slot])
            spans = [
                range(int(self._box_first.view[b]), int(self._box_end.view[b]))
                for b in range(first, first + int(self._slot_count.view[slot]))
            ]
            return tuple(tuple(self._interval(i) for i in span) for span in spans)

    def _interval(self, i: int) -> Interval:
        attribute = self._attributes[int(self._iv_attribute.view[i])]
        flags = int(self._iv_flags.view[i])
        if flags & NULL:
            return Interval(attribute.expression, attribute.kind, null=True)
        if flags & NEVER:  # beyond all 64-bit integers
            return Interval(attribute.expression, attribute.kind, low=2**63)
        low, high = (attribute.value(int(ends.view[i])) for ends in (self._iv_low, self._iv_high))
        return Interval(
            attribute.expression, attribute.kind, low, high, bool(flags & LOW_CLOSED), bool(flags & HIGH_CLOSED)
        )

    def attributes(self) -> dict[str, str]:
        """Attributes that live queries use: expression to kind."""
        with self._lock:
            return {a.expression: a.kind for a in self._attributes if a.uses > 0}

    @property
    def intervals(self) -> int:
        """How many intervals a plan would look at: those of all boxes, and of some that are gone."""
        return self._iv_attribute.size

    def most_used(self, most: int) -> list[tuple[str, str]]:
        """The attributes that live queries use, as (expression, kind); of more than `most` those of most use."""
        with self._lock:
            used = [a for a in self._attributes if a.uses > 0]
            if len(used) > most:
                used = sorted(used, key=lambda a: -a.uses)[:most]
            return [(a.expression, a.kind) for a in used]

    @property
    def nbytes(self) -> int:
        """Memory of the arrays and dictionaries, about."""
        with self._lock:
            arrays = (self._iv_attribute, self._iv_low, self._iv_high, self._iv_flags, self._box_first, self._box_end)
            slots = (self._slot_query, self._slot_first, self._slot_count, self._alive)
            constants = sum(len(a.ids) for a in self._attributes)
            return sum(a.nbytes for a in arrays + slots) + 110 * (len(self._slots) + constants)

    def compile(self) -> Compiled:
        """A snapshot for matching, kept until the next change."""
        with self._lock:
            if self._compiled is None or self._compiled.version != self.version:
                live = np.flatnonzero(self._alive.view)
                queries = self._slot_query.view[live]
                if len(queries) > 1 and not bool(np.all(queries[1:] > queries[:-1])):
                    order = np.argsort(queries, kind="stable")
                    live, queries = live[order], queries[order]
                self._compiled = Compiled(
                    self.version,
                    queries,
                    self._slot_first.view[live],
                    self._slot_count.view[live],
                    self._box_first.view,
                    self._box_end.view,
                    self._iv_attribute.view,
                    self._iv_low.view,
                    self._iv_high.view,
                    self._iv_flags.view,
                    tuple((a.expression, a.kind) for a in self._attributes),
                    tuple(a.sorted() for a in self._attributes),
                    np.concatenate(([0], np.cumsum([len(a.ids) for a in self._attributes]))).astype(np.int64),
                    np.array([a.uses for a in self._attributes], np.int64),
                )
            return self._compiled

    def to_tables(self) -> dict[str, pa.Table]:
        """Everything as Arrow tables: queries, boxes, intervals, attributes, integers, floats, texts.

        `from_tables` reads them back; the order of constants is what the intervals' numbers mean.
        """
        with self._lock:
            if self._alive.size != len(self._slots):
                self._compact()
            c = self.compile()
            tables = {
                "queries": pa.table({"query": c.queries, "first": c.slot_first, "count": c.slot_count}),
                "boxes": pa.table({"first": c.box_first, "end": c.box_end}),
                "intervals": pa.table(
                    {"attribute": c.iv_attribute, "low": c.iv_low, "high": c.iv_high, "flags": c.iv_flags}
                ),
                "attributes": pa.table(
                    {
                        "expression": pa.array([a.expression for a in self._attributes], pa.string()),
                        "kind": pa.array([a.kind for a in self._attributes], pa.string()),
                    }
                ).replace_schema_metadata({"version": str(self.version)}),
            }
            for name, kind, dtype in _CONSTANTS:
                owners = [(i, v) for i, a in enumerate(self._attributes) if a.kind == kind for v in a.ids]
                tables[name] = pa.table(
                    {
                        "attribute": pa.array([i for i, _ in owners], pa.int32()),
                        "value": pa.array([v for _, v in owners], dtype, from_pandas=False),
                    }
                )
            return tables

    @staticmethod
    def from_tables(tables: dict[str, pa.Table]) -> BoxTable:
        """The table that `to_tables` wrote."""
        table = BoxTable()
        for row in tables["attributes"].to_pylist():
            table._attribute(row["expression"], row["kind"])
        for name, _, _ in _CONSTANTS:
            constants = tables[name]
            pairs = zip(constants["attribute"].to_pylist(), constants["value"].to_pylist(), strict=True)
            for number, value in pairs:
                ids = table._attributes[number].ids
                ids[_NAN if value != value else value] = len(ids)
        intervals, boxes, queries = tables["intervals"], tables["boxes"], tables["queries"]
        ids = queries["query"].to_pylist()
        attribute, low, high, flags = (intervals[n].to_numpy() for n in ("attribute", "low", "high", "flags"))
        first, end = (boxes[n].to_numpy() for n in ("first", "end"))
        slot_first, count = (queries[n].to_numpy() for n in ("first", "count"))
        last = {q: i for i, q in enumerate(ids)}
        table._append(_Added(attribute, low, high, flags, first, end, ids, slot_first, count, last))
        # Intervals of dead queries were written, too.
        slots, size = np.flatnonzero(count), len(attribute) + 1
        starts, stops = first[slot_first[slots]], end[slot_first[slots] + count[slots] - 1]
        live = np.cumsum(np.bincount(starts, minlength=size) - np.bincount(stops, minlength=size))[:-1] > 0
        for number, surplus in enumerate(np.bincount(attribute[~live], minlength=len(table._attributes)).tolist()):
            table._attributes[number].uses -= surplus
        table.version = int(tables["attributes"].schema.metadata[b"version"])
        return table


_CONSTANTS = (("integers", "integer", pa.int64()), ("floats", "float", pa.float64()), ("texts", "text", pa.string()))


def _bounds(interval: Interval) -> tuple[Any, Any, bool]:
    """Bounds as constants of the interval's kind (None: unbounded), and whether no value can lie between them."""
    low: Any = interval.low
    high: Any = interval.high
    if interval.kind == "float":
        return _float(low), _float(high), False
    if interval.kind == "text":
        return low, high, False
    if (low is not None and low > _MOST) or (high is not None and high < _LEAST):
        return None, None, True
    return (
        None if low is None or low < _LEAST else int(low),
        None if high is None or high > _MOST else int(high),
        False,
    )


def _float(value: Any) -> float | None:
    if value is None:
        return None
    try:
        made = float(value)
    except OverflowError:
        made = float("inf") if value > 0 else float("-inf")
    return _NAN if made != made else made  # one NaN, so that a dictionary finds it again
