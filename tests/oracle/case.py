"""A query said once: as the text that Millpond gets, and as plain SQL over the rows of one window."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tests.oracle.calendars import Dated
from tests.oracle.landmarks import Since
from tests.oracle.rows import ORDER

_SPANS = (
    ("WEEK", 604_800_000_000),
    ("DAY", 86_400_000_000),
    ("HOUR", 3_600_000_000),
    ("MINUTE", 60_000_000),
    ("SECOND", 1_000_000),
    ("MILLISECOND", 1_000),
    ("MICROSECOND", 1),
)

#: Aggregates whose answer depends on the order of rows.
_ORDERED = re.compile(r"\b(first|last|list|array_agg|string_agg|any_value)\s*\(", re.I)


@dataclass(frozen=True)
class Case:
    """A window query over one stream.

    select: items of the SELECT list, SQL text with optional alias. group_by: expressions. order_by: terms.
    range_us, slide_us, origin_us: the window; range None: no window (ad hoc over everything).
    align_start: windows start, not end, at origin + k·slide.
    since: windows grow from a landmark instead; range_us is 0 then.
    ranges: the window behind each item of `select` (0: the item is no aggregate); range_us is the largest then.
    dated: windows of a calendar instead; range_us is 0 then.
    sinces: beside `ranges`, for items whose window grows from a landmark instead (and has 0 there).
    """

    select: tuple[str, ...]
    range_us: int | None = None
    slide_us: int = 0
    origin_us: int = 0
    align_start: bool = False
    stream: str = "s"
    where: str | None = None
    group_by: tuple[str, ...] = ()
    having: str | None = None
    order_by: tuple[str, ...] = ()
    limit: int | None = None
    empty: str = "skip"
    since: Since | None = None
    ranges: tuple[int, ...] = ()
    sinces: tuple[Since | None, ...] = ()
    dated: Dated | None = None

    @property
    def beside(self) -> tuple[tuple[int, Since | None], ...]:
        """The window behind each item: its RANGE, or its landmark."""
        return tuple(zip(self.ranges, self.sinces or (None,) * len(self.ranges), strict=True))

    @property
    def effective_origin(self) -> int:
        """The origin of the ends: windows end at this + k·slide."""
        return self.origin_us + (self.range_us or 0) if self.align_start else self.origin_us

    @property
    def slide(self) -> int:
        """SLIDE in microseconds; tumbling if not given."""
        return self.slide_us or (self.range_us or 0)

    # --- what Millpond is told ------------------------------------------------------------------------------------

    def query(self) -> str:
        """The SELECT as Millpond's text.

        >>> Case(("count(*) AS n",), 60_000_000, 1_000_000).query()
        'SELECT count(*) AS n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND]'
        """
        items = [self._windowed(i, *w) for i, w in zip(self.select, self.beside, strict=bool(self.ranges))]
        behind = "" if self.ranges else self._window()
        parts = [f"SELECT {', '.join(items or self.select)} FROM {self.stream}{behind}"]
        parts += [f"WHERE {self.where}"] if self.where else []
        parts += [f"GROUP BY {', '.join(self.group_by)}"] if self.group_by else []
        parts += [f"HAVING {self.having}"] if self.having else []
        parts += [f"ORDER BY {', '.join(self.order_by)}"] if self.order_by else []
        parts += [f"LIMIT {self.limit}"] if self.limit is not None else []
        return " ".join(parts)

    def statement(self, name: str = "q", since: str | None = None, replace_it: bool = False) -> str:
        """The CREATE QUERY statement."""
        options = [f"since='{since}'"] if since else []
        options += [f"empty='{self.empty}'"] if self.empty != "skip" else []
        tail = f" WITH ({', '.join(options)})" if options else ""
        return f"CREATE {'OR REPLACE ' if replace_it else ''}QUERY {name} AS {self.query()}{tail}"

    def _windowed(self, item: str, size: int, since: Since | None) -> str:
        call, alias = item.rsplit(" AS ", 1)
        own = replace(self, range_us=size, since=since)._window() if size or since is not None else ""
        return f"{call}{own} AS {alias}"

    def _window(self) -> str:
        if self.range_us is None:
            return ""
        if self.dated is not None:
            return f" [{self.dated.text()}]"
        if self.since is not None:
            return f" [RANGE ALL{self.since.text()} SLIDE {span(self.slide)}]"
        parts = [f"RANGE {span(self.range_us)}", f"SLIDE {span(self.slide)}"]
        if self.origin_us:
            moment = datetime(1970, 1, 1) + timedelta(microseconds=self.origin_us)
            parts.append(f"ORIGIN TIMESTAMP '{moment.isoformat(sep=' ')}'")
        parts += ["ALIGN START"] if self.align_start else []
        return f" [{' '.join(parts)}]"

    # --- what it means --------------------------------------------------------------------------------------------

    def extent_sql(self, start: int, end: int, rows: str) -> str:
        """Plain SQL over `rows`, a relation that holds the rows of the window's extent in total order.

        Its columns are the SELECT list, then the grouping keys as __k0, __k1, … (who a row of the answer is).
        """
        times = {"window_start": f"make_timestamp({start}::BIGINT)", "window_end": f"make_timestamp({end}::BIGINT)"}

        def bound(sql: str) -> str:
            for name, value in times.items():
                sql = re.sub(rf"\b{name}\b", value, sql, flags=re.I)
            return ordered(sql)

        keys = [f"{k} AS __k{i}" for i, k in enumerate(self.group_by)]
        parts = [f"SELECT {', '.join([*map(bound, self.select), *keys])} FROM {rows} AS {self.stream}"]
        parts += [f"WHERE {self.where}"] if self.where else []
        parts += [f"GROUP BY {', '.join(self.group_by)}"] if self.group_by else []
        parts += [f"HAVING {bound(self.having)}"] if self.having else []
        parts += [f"ORDER BY {', '.join(map(bound, self.order_by))}"] if self.order_by else []
        parts += [f"LIMIT {self.limit}"] if self.limit is not None else []
        return " ".join(parts)

    def without_window(self) -> Case:
        """The same SELECT over everything."""
        return replace(
            self,
            range_us=None,
            slide_us=0,
            origin_us=0,
            align_start=False,
            since=None,
            ranges=(),
            sinces=(),
            dated=None,
        )


def span(microseconds: int) -> str:
    """A length of time as SQL writes it in brackets, exactly.

    >>> span(90_000_000), span(1), span(5_400_000_000)
    ('90 SECONDS', '1 MICROSECOND', '90 MINUTES')
    """
    for unit, size in _SPANS:
        if microseconds % size == 0:
            count = microseconds // size
            return f"{count} {unit}{'' if count == 1 else 'S'}"
    raise ValueError(microseconds)


def ordered(sql: str) -> str:
    """SQL in which order-dependent aggregates say the total order explicitly.

    >>> ordered("first(v), list(v ORDER BY w), count(*)")
    'first(v ORDER BY __order), list(v ORDER BY w, __order), count(*)'
    """
    out, at = "", 0
    while match := _ORDERED.search(sql, at):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        inner = sql[match.end() : end - 1]
        if re.search(r"\bdistinct\b", inner, re.I):
            said = inner  # the order of a DISTINCT list is the one it names itself
        elif re.search(r"\border\s+by\b", inner, re.I):
            said = f"{inner}, {ORDER}"
        else:
            said = f"{inner} ORDER BY {ORDER}"
        out += sql[at : match.end()] + said + ")"
        at = end
    return out + sql[at:]
