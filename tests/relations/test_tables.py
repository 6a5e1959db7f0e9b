"""Streams with tables, against definitions: rows that hold for a time, semi joins, ASOF, tables that change."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millpond.progress import NEVER
from millpond.relations import TablesInTime, answers, content_of, snapshot
from millpond.support.errors import StatementError
from millpond.synopses import connection
from millpond.types import Column, Elements, Joined, TableDefinition
from tests.oracle.cql import Stamped
from tests.relations.setting import Evaluated, bound, stored, stream

END = 12
S, U = stream("s", a="INTEGER"), stream("u", a="INTEGER")
COLUMNS = tuple(
    Column(n, t) for n, t in (("a", "INTEGER"), ("v", "INTEGER"), ("since", "TIMESTAMP"), ("until", "TIMESTAMP"))
)
H = TableDefinition("h", COLUMNS, "h.csv", "csv", valid_from="since", valid_to="until")  # with both ends
F = TableDefinition("f", COLUMNS, "f.csv", "csv", valid_from="since")
T = TableDefinition("t", COLUMNS, "t.csv", "csv")

Row = tuple[int | None, int, int | None, int | None]
instants = st.one_of(st.none(), st.integers(0, 8))
keys = st.one_of(st.none(), st.integers(0, 2))
tables = st.lists(st.tuples(keys, st.integers(0, 3), instants, instants), max_size=6)
streams = st.lists(st.tuples(st.integers(0, 8), keys), max_size=6)


def arrow(rows: Sequence[Row]) -> pa.Table:
    kinds = (pa.int32(), pa.int32(), pa.timestamp("us"), pa.timestamp("us"))
    return pa.table({c.name: pa.array([r[n] for r in rows], kinds[n]) for n, c in enumerate(COLUMNS)})


def near(name: str, t: int, a: int | None, rows: Sequence[Row]) -> list[int]:
    """`v` of the rows of a table that a row of the stream meets."""
    same = [r for r in rows if a is not None and r[0] == a]
    if name in ("h", "f"):
        same = [r for r in same if r[2] is None or r[2] <= t]
    return [r[1] for r in same if name != "h" or r[3] is None or t < r[3]]


def inner(t: int, a: int | None, found: list[int]) -> list[Any]:
    return [(a, v) for v in found]


def left(t: int, a: int | None, found: list[int]) -> list[Any]:
    return [(a, v) for v in found] or [(a, None)]


def semi(t: int, a: int | None, found: list[int]) -> list[Any]:
    return [(a,)] if found else []


def anti(t: int, a: int | None, found: list[int]) -> list[Any]:
    return [] if found else [(a,)]


Image = Callable[[int, "int | None", list[int]], list[Any]]
SHAPES: list[tuple[str, Image]] = [
    ("SELECT ISTREAM(x.a, v) FROM s {w} x JOIN {t} ON {t}.a = x.a", inner),
    ("SELECT ISTREAM(x.a, y.v) FROM s {w} x, {t} y WHERE y.a = x.a", inner),
    ("SELECT ISTREAM(a, v) FROM s {w} JOIN {t} USING (a)", inner),
    ("SELECT ISTREAM(x.a, v) FROM {t} JOIN s {w} x ON {t}.a = x.a", inner),
    ("SELECT ISTREAM(x.a, v) FROM s {w} x LEFT JOIN {t} y ON y.a = x.a", left),
    ("SELECT ISTREAM(x.a, v) FROM {t} RIGHT JOIN s {w} x ON {t}.a = x.a", left),
    ("SELECT ISTREAM(x.a) FROM s {w} x SEMI JOIN {t} ON {t}.a = x.a", semi),
    ("SELECT ISTREAM(x.a) FROM s {w} x LEFT SEMI JOIN {t} ON {t}.a = x.a", semi),
    ("SELECT ISTREAM(x.a) FROM s {w} x WHERE a IN (SELECT a FROM {t})", semi),
    ("SELECT ISTREAM(a) FROM s {w} WHERE EXISTS (SELECT 1 FROM {t} y WHERE y.a = s.a)", semi),
    ("SELECT ISTREAM(x.a) FROM s {w} x ANTI JOIN {t} ON {t}.a = x.a", anti),
    ("SELECT ISTREAM(x.a) FROM s {w} x LEFT ANTI JOIN {t} y ON y.a = x.a", anti),
    ("SELECT ISTREAM(a) FROM s {w} WHERE NOT EXISTS (SELECT 1 FROM {t} y WHERE y.a = s.a)", anti),
]  # fmt: skip


def entering(images: Sequence[tuple[int, list[Any]]], length: int) -> Counter[tuple[int, Any]]:
    """What ISTREAM reports of rows that are in the answer from their stamp on, for `length` more instants."""
    found: Counter[tuple[int, Any]] = Counter()
    before: Counter[Any] = Counter()
    for now in range(END):
        held = Counter(i for t, rows in images if t <= now <= t + length for i in rows)
        found.update({(now, row): n for row, n in (held - before).items()})
        before = held
    return found


@pytest.mark.parametrize(("shape", "image"), SHAPES, ids=[s for s, _ in SHAPES])
@given(rows=streams, table=tables, name=st.sampled_from("hft"), length=st.sampled_from([0, 3]))
@settings(max_examples=max(8, settings.default.max_examples // 4), deadline=None)
def test_rows_hold_as_of_event_time(
    shape: str, image: Image, rows: list[tuple[int, int | None]], table: list[Row], name: str, length: int
) -> None:
    window = f"[RANGE {length} MICROSECONDS]" if length else "[NOW]"
    query = bound(shape.format(w=window, t=name), S, H, F, T)
    assert isinstance(query.plan, Joined)
    given_rows = stored(S, [Stamped(t, n, (a,)) for n, (t, a) in enumerate(rows)])
    found = Evaluated(query, {"s": given_rows}, {name: arrow(table)}).stream(0, END)
    images = [(t, image(t, a, near(name, t, a, table))) for t, a in rows]
    assert found == entering(images, length)


@pytest.mark.parametrize("outer", ["", "LEFT "])
@given(
    rows=streams, table=tables, written=st.booleans(), name=st.sampled_from("hft"),
    old=st.sampled_from(["", "[RANGE 2 MICROSECONDS]", "[RANGE 2 MICROSECONDS OPEN]", "[NOW]"]),
)  # fmt: skip
@settings(max_examples=max(15, settings.default.max_examples // 2), deadline=None)
def test_asof_finds_the_latest_row_of_a_table(
    outer: str, rows: list[tuple[int, int | None]], table: list[Row], written: bool, name: str, old: str
) -> None:
    # one row for each key and instant: of several any is the latest
    table = [(a, v, since, until) for (a, since), (v, until) in {(r[0], r[2]): (r[1], r[3]) for r in table}.items()]
    said = "AND x.ts >= y.since" if written or name == "t" else ""
    text = f"SELECT ISTREAM(x.a, v) FROM s [NOW] x ASOF {outer}JOIN {name} {old} y ON y.a = x.a {said}"
    query = bound(text, S, H, F, T)
    assert isinstance(query.plan, Elements)
    oldest = {"": 99, "[NOW]": 0, "[RANGE 2 MICROSECONDS]": 2}.get(old, 1)  # whole microseconds
    given_rows = stored(S, [Stamped(t, n, (a,)) for n, (t, a) in enumerate(rows)])
    found = Evaluated(query, {"s": given_rows}, {name: arrow(table)}).stream(0, END)
    images = []
    for t, a in rows:
        past = [r for r in table if a is not None and r[0] == a and r[2] is not None and r[2] <= t]
        latest = max(past, key=lambda r: r[2] or 0, default=None)
        if latest is not None and name == "h" and latest[3] is not None and latest[3] <= t:
            latest = None
        if latest is not None and t - (latest[2] or 0) > oldest:
            latest = None
        images.append((t, [(a, latest[1])] if latest else [(a, None)] if outer else []))
    assert found == entering(images, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT ISTREAM(*) FROM s [NOW] JOIN (SELECT * FROM h) y ON y.a = s.a", "a subquery in FROM knows none"),
        (
            "WITH y AS (SELECT * FROM h) SELECT ISTREAM(*) FROM s [NOW] JOIN y ON y.a = s.a",
            "a subquery in FROM knows none",
        ),
        ("SELECT s.a FROM s [NOW], u [NOW], h WHERE s.a = u.a", "as of which stream's"),
        ("SELECT s.a FROM s [NOW], u [NOW], h WHERE h.a = u.a AND h.a = s.a", "compared with 2 of s, u"),
        ("SELECT a, v FROM s [NOW] LEFT JOIN h USING (a)", "the join says ON"),
    ],
)
def test_joins_that_do_not_say_as_of_when(text: str, told: str) -> None:
    with pytest.raises(StatementError, match=told):
        bound(text, S, U, H)


def test_who_speaks_of_the_times_is_left_alone_and_of_several_streams_the_one_that_is_compared_counts() -> None:
    rows = {"s": stored(S, [Stamped(2, 0, (1,))]), "u": stored(U, [Stamped(5, 0, (1,))])}
    table = {"h": arrow([(1, 7, 0, 4), (1, 8, 4, 9)])}
    window = "[RANGE 5 MICROSECONDS]"

    def values(condition: str) -> set[int]:
        query = bound(f"SELECT ISTREAM(v) FROM s {window}, u {window}, h WHERE s.a = u.a AND {condition}", S, U, H)
        return {row[0] for _, row in Evaluated(query, rows, table).stream(0, END)}

    assert values("h.a = s.a") == {7} and values("u.a = h.a") == {8}
    assert values("h.a = s.a AND h.since IS NOT NULL") == {7, 8}
    moment = dt.datetime(1970, 1, 1)
    assert values(f"h.a = s.a AND since > TIMESTAMP '{moment}'") == {8}


CHANGING = [
    "SELECT {op}(s.a, v) FROM s {w} JOIN t ON t.a = s.a",
    "SELECT {op}(s.a, v) FROM s {w} LEFT JOIN t ON t.a = s.a AND v > 1",
    "SELECT {op}(a) FROM s {w} WHERE a NOT IN (SELECT a FROM t WHERE a IS NOT NULL)",
    "SELECT {op}(v, count(*)) FROM s {w} JOIN t ON t.a = s.a GROUP BY v",
]


@pytest.mark.parametrize("text", CHANGING)
@given(
    rows=streams, first=tables, later=st.dictionaries(st.integers(1, 9), tables, max_size=2),
    cuts=st.sets(st.integers(1, END - 1), max_size=3),
    window=st.sampled_from(["[NOW]", "[RANGE 3 MICROSECONDS]", "[ROWS 2]"]),
)  # fmt: skip
@example(rows=[(6, 0)], first=[], later={7: [(0, 0, None, None)]}, cuts=set(), window="[NOW]")
@example(rows=[(6, 0)], first=[(0, 0, None, None)], later={6: []}, cuts={6}, window="[NOW]")
@settings(max_examples=max(5, settings.default.max_examples // 12), deadline=None)
def test_tables_that_change_change_relations(
    text: str, rows: list[Any], first: list[Row], later: dict[int, list[Row]], cuts: set[int], window: str
) -> None:
    """However instants are cut into epochs: at each one R(τ) has the tables of τ, and changes are its differences."""
    given_rows = stored(S, [Stamped(t, n, (a,)) for n, (t, a) in enumerate(rows)])
    for op, sign in (("ISTREAM", 1), ("DSTREAM", -1)):
        query = bound(text.format(op=op, w=window), S, T)
        alias = query.tables[0].alias
        held = [(NEVER, first), *sorted(later.items())]
        in_time = TablesInTime(tuple((since, {alias: arrow(t)}) for since, t in held))
        contents = [content_of(connection(), query.inputs[0], given_rows, 0)]
        found: Counter[Any] = Counter()
        for low, high in zip([0, *sorted(cuts)], [*sorted(cuts), END], strict=True):
            answer = answers(connection(), query, contents, in_time, low, high)
            for at, _, *values, n in zip(*(c.to_pylist() for c in answer.columns), strict=True):
                found[at, tuple(values)] += n
        expected: Counter[Any] = Counter()
        before: Counter[Any] = Counter()
        for now in range(END):
            there = next(t for since, t in reversed(held) if since <= now)
            table = snapshot(connection(), query, contents, {alias: arrow(there)}, now)
            held_now = Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))
            changed = held_now - before if sign > 0 else before - held_now
            expected.update({(now, row): n for row, n in changed.items()})
            before = held_now
        assert found == expected
