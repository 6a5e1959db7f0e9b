"""Row queries by definition: rows of a prefix, cut by BEGIN … END, filtered, joined, grouped, ordered.

Everything is evaluated from scratch by plain SQL over exactly the rows that an invocation may see. `Selection` says a
query once, as Millpond's text and as that SQL; `Prefix` is what one publish record knows of one stream.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tests.oracle.case import ordered, span
from tests.oracle.progress import FOREVER, NEVER
from tests.oracle.rows import ORDER, TIME, Row, Table, connect

#: The intake order of a row, which is the order of ids.
INTAKE = "__intake"


@dataclass(frozen=True)
class Bound:
    """One end of BEGIN … END: 'constant' (an instant, µs), 'now' (NOW plus so many µs), 'rows' (the last so many)."""

    kind: str
    value: int = 0

    @property
    def text(self) -> str:
        """The bound as Millpond's text.

        >>> Bound("now", -5_000_000).text, Bound("rows", 7).text, Bound("constant", 1_000_000).text
        ("NOW - INTERVAL '5 seconds'", 'NOW - 7 ROWS', "TIMESTAMP '1970-01-01 00:00:01'")
        """
        if self.kind == "constant":
            moment = datetime(1970, 1, 1) + timedelta(microseconds=self.value)
            return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
        if self.kind == "rows":
            return f"NOW - {self.value} ROWS"
        if self.value == 0:
            return "NOW"
        return f"NOW {'-' if self.value < 0 else '+'} INTERVAL '{span(abs(self.value)).lower()}'"


NOW = Bound("now")


@dataclass(frozen=True)
class Reading:
    """One stream of a query's FROM list, with its own window; begin None: all that is retained."""

    stream: str
    alias: str
    begin: Bound | None = None
    end: Bound = NOW


@dataclass(frozen=True)
class Prefix:
    """What a publish record knows of a stream. bound: announced progress; high: the largest event time admitted."""

    table: Table
    bound: int = NEVER
    high: int | None = None


@dataclass(frozen=True)
class Selection:
    """A row query over one or two streams.

    select: items of the SELECT list with aliases; group_by, order_by: expressions. grouped: whether the list holds
    aggregates without GROUP BY.
    """

    select: tuple[str, ...]
    readings: tuple[Reading, ...]
    where: str | None = None
    group_by: tuple[str, ...] = ()
    having: str | None = None
    grouped: bool = False
    distinct: bool = False
    order_by: tuple[str, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def in_order(self) -> bool:
        """Whether the order of the answer's rows is defined."""
        return bool(self.order_by) or not (self.grouped or self.group_by or self.distinct)

    def text(self, windows: bool = True) -> str:
        """The SELECT as Millpond's text.

        >>> Selection(("a",), (Reading("r", "r", Bound("rows", 2)),), "a > 1").text()
        'SELECT a FROM r AS r WHERE a > 1 BEGIN NOW - 2 ROWS END NOW FOR r'
        """
        tail = ""
        for reading in self.readings if windows else ():
            if reading.begin is not None:
                tail += f" BEGIN {reading.begin.text} END {reading.end.text} FOR {reading.alias}"
        return self._sql([f"{r.stream} AS {r.alias}" for r in self.readings], self.where) + tail

    def _sql(self, sources: Sequence[str], where: str | None, last: Sequence[str] = ()) -> str:
        parts = [f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(self.select)} FROM {', '.join(sources)}"]
        parts += [f"WHERE {where}"] if where else []
        parts += [f"GROUP BY {', '.join(self.group_by)}"] if self.group_by else []
        parts += [f"HAVING {self.having}"] if self.having else []
        terms = [*self.order_by, *last]
        parts += [f"ORDER BY {', '.join(terms)}"] if terms else []
        parts += [f"LIMIT {self.limit}"] if self.limit is not None else []
        parts += [f"OFFSET {self.offset}"] if self.offset else []
        return " ".join(parts)

    def at(self, begin: Bound | None, end: Bound | None) -> Selection:
        """The same query at other edges, as INVOKE … BEGIN b END e has it: on every stream."""
        new = [replace(r, begin=begin or r.begin, end=end or r.end) for r in self.readings]
        return replace(self, readings=tuple(new))

    def answer(self, prefixes: dict[str, Prefix], as_of: Any = None) -> list[tuple[Any, ...]]:
        """The answer over exactly these prefixes.

        Arguments:
            prefixes: per stream; for AS OF EPOCH n those of epoch n.
            as_of: None, 'watermark', or an instant in microseconds.
        """
        seen, now = moment([prefixes[r.stream] for r in self.readings], as_of)
        connection = connect()
        order = []
        for number, reading in enumerate(self.readings):
            rows = window(prefixes[reading.stream].table.rows, reading, seen, now)
            self._load(prefixes[reading.stream].table.only(rows), f"side{number}")
            order.append(reading.alias)
        if len(order) == 1:
            place = [f"{order[0]}.{TIME}", f"{order[0]}.{INTAKE}"]
        else:
            place = [f"least({', '.join(f'{a}.{TIME}' for a in order)})", *(f"{a}.{INTAKE}" for a in order)]
        total = f"ROW({', '.join(place)})"
        # A row on which the condition fails does not match, like one of which it is not known.
        where = f"coalesce(TRY(({self.where})), false)" if self.where else None
        sources = [f"side{n} AS {a}" for n, a in enumerate(order)]
        plain = not (self.grouped or self.group_by or self.distinct)
        sql = replace(self, select=tuple(re.sub(ORDER, total, ordered(s)) for s in self.select))._sql(
            sources, where, place if plain else ()
        )
        return connection.execute(sql).fetchall()

    def _load(self, table: Table, name: str) -> None:
        connection = connect()
        columns = "".join(f', "{n}" {t}' for n, t in table.types.items())
        connection.execute(
            f'CREATE OR REPLACE TEMP TABLE {name} ({TIME} BIGINT, {INTAKE} BIGINT, "{table.time_column}" TIMESTAMP'
            f"{columns})"
        )
        if not table.rows:
            return
        one = "(?, ?, make_timestamp(?)" + ", ?" * len(table.types) + ")"
        values = [[r.time, r.intake, r.time, *(r.values.get(n) for n in table.types)] for r in table.rows]
        connection.execute(
            f"INSERT INTO {name} VALUES {', '.join([one] * len(table.rows))}", [v for row in values for v in row]
        )


def moment(prefixes: Sequence[Prefix], as_of: Any = None) -> tuple[int, int | None]:
    """(the latest event time that is seen, NOW) of an invocation; NOW is None while there is no row."""
    there = [p for p in prefixes if p.high is not None]
    highest = min((p.high for p in there if p.high is not None), default=None)
    if as_of is None:
        return FOREVER, highest
    if as_of == "watermark":
        bound = min((p.bound for p in there), default=NEVER)
        if bound >= FOREVER:
            return FOREVER, highest
        return (bound - 1, bound) if bound > NEVER else (NEVER, None)
    return as_of, as_of


def window(rows: Sequence[Row], reading: Reading, seen: int, now: int | None) -> list[Row]:
    """The rows of one stream that its window covers, closed at both ends, in total order."""
    if now is None:
        return []
    known = sorted((r for r in rows if r.time <= seen), key=lambda r: (r.time, r.intake))
    begin, end = reading.begin, reading.end
    if end.kind == "rows":  # all that lie before the last so many up to NOW
        before = replace(reading, end=Bound("constant", FOREVER))
        last = [r for r in known if r.time <= now][-end.value :]
        left = [r for r in known if r.time <= now][: -end.value] if len(last) == end.value else []
        return [r for r in window(rows, before, seen, now) if r in left]
    until = end.value if end.kind == "constant" else now + end.value
    if begin is not None and begin.kind == "rows":
        known = [r for r in known if r.time <= now][-begin.value :] + [r for r in known if r.time > now]
        return [r for r in known if r.time <= until]
    since = NEVER if begin is None else begin.value if begin.kind == "constant" else now + begin.value
    return [r for r in known if since <= r.time <= until]
