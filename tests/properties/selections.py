"""Random row queries: every kind of condition, window, aggregate and join."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from tests.oracle.selections import NOW, Bound, Reading, Selection
from tests.properties.queries import BOUNDED, FILTERS, HOLISTIC, KEYS, NAN_SAFE, ORDERED

S = 1_000_000
_OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
_COLUMN = re.compile(r"\b(ts|k|g|v|n|d|b)\b")

#: Rows of the random streams lie in this many seconds.
SECONDS = 40

#: Conditions over one stream that are no comparison of a column with a constant, some of which fail on some rows.
ODD = (
    "b", "NOT b", "b IS NOT TRUE", "b = true", "g < n", "g + 1 >= n", "v > g", "abs(n) > 2", "length(k) = 1",
    "upper(k) = 'B'", "g = 1 OR k = 'a'", "g > 0 OR v IS NULL", "NOT (g = 1 AND b)", "NOT (g > 0 OR n > 0)",
    "n * n > 5", "CAST(k AS INTEGER) > 0", "coalesce(g, 0) = 0", "g % 2 = 0", "d > g", "(g > 0) = b", "true",
    "false", "NULL", "g / 0 IS NULL", "CASE WHEN b THEN g > 0 ELSE n > 0 END", "k LIKE '%b'", "ts > TIMESTAMP 'epoch'",
    "g IS DISTINCT FROM 1", "k || 'x' = 'ax'", "hour(ts) = 0", "v * 2 BETWEEN -10 AND 10",
    "CAST(k AS INTEGER) IS NULL", "NOT (n * n IS NOT NULL)", "CAST(k AS INTEGER) IS NULL OR g > 0", "abs(g) IS NULL",
)  # fmt: skip

CONSTANTS = {
    "g": ("0", "1", "-2", "1.5", "3000000000", "2", "-0.5"),
    "n": ("0", "-5", "4", "4611686018427387904", "9007199254740993", "0.5", "1e3", "99999999999999999999"),
    "v": ("0", "-0.0", "1.5", "-100", "1e30", "'nan'::DOUBLE", "'infinity'::DOUBLE", "7"),
    "d": ("0", "12.34", "-0.01", "0.005", "50", "1e2"),
    "k": ("'a'", "'b'", "''", "'B'", "'ü'", "'a''b'", "'zz'"),
}

PLAIN = (
    "ts", "k", "g", "v", "n", "d", "b", "g + 1", "upper(k)", "v * 2", "n % 7", "k || '!'", "b AND g > 0",
    "CASE WHEN g > 0 THEN k END", "coalesce(v, g)", "d * 2",
)  # fmt: skip

JOINS = (
    "a.g = b.g", "a.n < b.n", "a.v >= b.v", "a.k = b.k", "a.ts <= b.ts", "a.n = b.g + 1", "a.d = b.g", "b.b = a.b",
    "a.ts > b.ts - INTERVAL 5 SECONDS", "a.g - 1 > b.g", "a.v = b.v", "b.k < a.k", "a.d <= b.d + 1", "a.ts = b.ts",
    "a.g BETWEEN b.g - 1 AND b.g", "upper(a.k) = b.k",
)  # fmt: skip
BETWEEN_SIDES = ("a.g + b.g > 0", "a.k <> b.k", "a.g = b.g OR a.b", "a.ts >= b.ts", "a.v < b.v")
EQUALITIES = ("a.g = b.g", "a.k = b.k", "a.n = b.g + 1", "a.d = b.g", "b.b = a.b AND a.g = b.g", "a.ts = b.ts")


def between(sql: str, left: str, right: str) -> str:
    """A condition over a and b about two others.

    >>> between("a.g = b.g + 1", "b", "c")
    'b.g = c.g + 1'
    """
    return re.sub(r"\b[ab]\.", lambda found: f"{left if found[0] == 'a.' else right}.", sql)


def qualified(sql: str, alias: str) -> str:
    """SQL with the alias before its columns, outside of texts.

    >>> qualified("k = 'k' AND g > 0", "a")
    "a.k = 'k' AND a.g > 0"
    """
    parts = sql.split("'")
    return "'".join(p if i % 2 else _COLUMN.sub(rf"{alias}.\1", p) for i, p in enumerate(parts))


def instant(microseconds: int) -> str:
    """An instant as a constant in SQL."""
    moment = datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
    return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"


@st.composite
def factors(draw: st.DrawFn) -> str:
    """One factor of a condition over one stream."""
    kind = draw(st.integers(0, 9))
    if kind <= 2:
        return draw(st.sampled_from(ODD))
    if kind == 3:
        at = draw(st.integers(0, SECONDS)) * S + draw(st.sampled_from([0, 0, 1, -1]))
        return f"ts {draw(st.sampled_from(_OPERATORS))} {instant(at)}"
    column = draw(st.sampled_from(sorted(CONSTANTS)))
    pool = st.sampled_from(CONSTANTS[column])
    if kind == 4:
        return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == 5:
        return f"{column} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {draw(pool)} AND {draw(pool)}"
    if kind == 6:
        items = draw(st.lists(st.one_of(pool, st.just("NULL")), min_size=1, max_size=4))
        return f"{column} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(items)})"
    if kind == 7 and column == "k":
        return f"k {draw(st.sampled_from(['', 'NOT ']))}LIKE '{draw(st.sampled_from(['a%', '%', 'b', 'ü%', '_']))}'"
    if kind == 8:
        return f"{draw(pool)} {draw(st.sampled_from(_OPERATORS))} {column}"
    return f"{column} {draw(st.sampled_from(_OPERATORS))} {draw(pool)}"


@st.composite
def begins(draw: st.DrawFn) -> Bound:
    """A BEGIN."""
    kind = draw(st.sampled_from(["now", "now", "constant", "rows"]))
    if kind == "rows":
        return Bound("rows", draw(st.integers(1, 20)))
    if kind == "constant":
        return Bound("constant", draw(st.integers(-5, SECONDS + 5)) * S)
    return Bound("now", draw(st.integers(-SECONDS - 5, 5)) * S + draw(st.sampled_from([0, 0, 1, -1])))


@st.composite
def ends(draw: st.DrawFn, begin: Bound | None = None) -> Bound:
    """An END that may stand behind that BEGIN (one that is surely before it is refused)."""
    if draw(st.integers(0, 2)):
        if begin is not None and begin.kind == "now" and begin.value > 0:
            return begin
        return NOW
    if draw(st.integers(0, 3)) == 0:
        most = 12 if begin is None or begin.kind != "rows" else begin.value
        return Bound("rows", draw(st.integers(1, most)))
    if draw(st.booleans()):
        value = draw(st.integers(-SECONDS, 5)) * S
        return Bound("now", max(value, begin.value) if begin is not None and begin.kind == "now" else value)
    value = draw(st.integers(-5, SECONDS + 5)) * S
    return Bound("constant", max(value, begin.value) if begin is not None and begin.kind == "constant" else value)


@st.composite
def edges(draw: st.DrawFn) -> tuple[Bound | None, Bound | None]:
    """Other edges for an invocation."""
    begin = draw(st.one_of(st.none(), begins()))
    return begin, draw(st.one_of(st.none(), ends(begin))) if begin is None or begin.kind != "now" else draw(ends(begin))


@st.composite
def readings(draw: st.DrawFn, stream: str, alias: str) -> Reading:
    """A stream with or without a window."""
    begin = draw(st.one_of(st.none(), begins(), begins()))
    return Reading(stream, alias, begin, NOW if begin is None else draw(ends(begin)))


@st.composite
def selections(draw: st.DrawFn, streams: tuple[str, ...] = ("s", "t"), nan: bool = False) -> Selection:
    """A row query over one stream to four. nan: the streams hold NaN, so only aggregates that bear it."""
    joined = draw(st.integers(0, 3)) == 0
    aliases = "abxy"[: draw(st.sampled_from((2, 2, 3, 4)))]
    if joined:
        sides = tuple(draw(readings(draw(st.sampled_from(streams)), alias)) for alias in aliases)
        # With an equality each after the first, so that four sides do not make millions of rows.
        conditions = [between(draw(st.sampled_from(JOINS)), "a", "b")]
        for number, alias in enumerate(aliases[2:], 2):
            before = draw(st.sampled_from(aliases[:number]))
            conditions.append(between(draw(st.sampled_from(EQUALITIES)), before, alias))
        others = st.tuples(st.sampled_from(BETWEEN_SIDES), st.permutations(aliases))
        conditions += [between(c, *two[:2]) for c, two in draw(st.lists(others, max_size=1))]
        conditions += [qualified(f, draw(st.sampled_from(aliases))) for f in draw(st.lists(factors(), max_size=2))]
        conditions = draw(st.permutations(conditions))
    else:
        sides = (draw(readings(draw(st.sampled_from(streams)), "a")),)
        conditions = draw(st.lists(factors(), max_size=3))
    where = " AND ".join(f"({c})" for c in conditions) or None

    def named(item: str) -> str:
        return qualified(item, draw(st.sampled_from(aliases))) if joined else item

    more: dict[str, Any] = {}
    if draw(st.booleans()):
        items = [named(i) for i in draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=4))]
        if draw(st.integers(0, 4)) == 0:
            more = {"distinct": True}
            if draw(st.booleans()):
                more |= {"order_by": tuple(f"c{i} DESC" for i in range(len(items))), "limit": draw(st.integers(0, 4))}
        elif draw(st.integers(0, 2)) == 0:
            terms = draw(st.lists(st.sampled_from(["g", "v DESC", "k NULLS FIRST", "n DESC", "ts DESC"]), max_size=2))
            more = {
                "order_by": tuple(map(named, terms)),
                "limit": draw(st.integers(0, 6)),
                "offset": draw(st.integers(0, 2)),
            }
    else:
        pool = NAN_SAFE if nan else BOUNDED + HOLISTIC + ORDERED
        calls = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
        calls = [named(c) + (named(draw(st.sampled_from(FILTERS)))) for c in calls]
        keys = [named(k) for k in draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))]
        items = [*keys, *calls]
        more = {"group_by": tuple(keys), "grouped": True}
        if keys and draw(st.integers(0, 3)) == 0:
            more["having"] = "count(*) > 1"
        if keys and draw(st.integers(0, 3)) == 0:
            more |= {"order_by": tuple(f"{k} DESC NULLS LAST" for k in keys), "limit": draw(st.integers(0, 3))}
    return Selection(tuple(f"{item} AS c{i}" for i, item in enumerate(items)), sides, where, **more)
