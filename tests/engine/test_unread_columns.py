"""Columns that a query does not read have no part in it, whatever type they have."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

Factory = Callable[..., Any]

#: Types that Arrow carries as something else, each with a value.
TYPES: dict[str, Any] = {
    "UUID": uuid.UUID(int=7),
    "HUGEINT": 2**90,
    "UHUGEINT": 2**100,
    "ENUM('x','y')": "y",
    "JSON": '{"a": [1, null]}',
    "INTEGER[]": [1, None],
    "INTEGER[2]": [1, 2],
    "STRUCT(a INTEGER, b UUID)": {"a": 1, "b": str(uuid.UUID(int=8))},
    "MAP(VARCHAR, HUGEINT)": {"k": 1},
    "UUID[]": [str(uuid.UUID(int=9))],
    "TIMESTAMP_NS": dt.datetime(2026, 1, 1),
    "TIMESTAMP_MS": dt.datetime(2026, 1, 1),
    "TIMESTAMP_S": dt.datetime(2026, 1, 1),
}

#: Standing queries and what they answer over the rows (n, k) of 0, 10, 20 and 30 seconds.
STANDING = {
    "elements": ("SELECT ISTREAM(n) FROM s [NOW] WHERE n > 1", "at, n", [(10, 2), (20, 3), (30, 4)]),
    "bare": ("SELECT n FROM s [RANGE UNBOUNDED] WHERE n > 2", "n", [(3,), (4,)]),
    "like": ("SELECT ISTREAM(n) FROM s [RANGE 1 DAY] WHERE k LIKE 'a%'", "at, n", [(0, 1), (20, 3)]),
    "checked": ("SELECT ISTREAM(n) FROM s [ROWS 2] WHERE CAST(k || n AS VARCHAR) <> 'a1'", "n", [(2,), (3,), (4,)]),
    "partitioned": ("SELECT ISTREAM(n) FROM s [PARTITION BY k ROWS 1] WHERE n > 1", "n", [(2,), (3,), (4,)]),
    "relation": ("SELECT k, sum(n) AS v FROM s [RANGE UNBOUNDED] WHERE n > 1 GROUP BY k", "k, v", [("a", 3), ("b", 6)]),
    "join": (
        "SELECT ISTREAM(a.n, b.n AS m) FROM s [RANGE 15 SECONDS] a JOIN s [RANGE 15 SECONDS] b ON a.n = b.n + 1"
        " WHERE a.n > 2",
        "at, n, m",
        [(20, 3, 2), (30, 4, 3)],
    ),
    "grouped join": (
        "SELECT a.k, sum(b.n) AS v FROM s [RANGE UNBOUNDED] a JOIN s [RANGE UNBOUNDED] b ON a.k = b.k WHERE b.n > 1"
        " GROUP BY a.k",
        "k, v",
        [("a", 6), ("b", 12)],
    ),
    "outer join": (
        "SELECT a.n, b.n AS m FROM s [RANGE UNBOUNDED] a LEFT JOIN s [RANGE UNBOUNDED] b ON a.n = b.n + 2"
        " WHERE a.n > 1",
        "n, m",
        [(2, None), (3, 1), (4, 2)],
    ),
    "probed": (
        "SELECT ISTREAM(a.n, b.n AS m) FROM s [NOW] a JOIN s [RANGE 8 DAYS] b ON a.k = b.k AND b.ts < a.ts"
        " WHERE b.n > 1",
        "n, m",
        [(4, 2)],
    ),
    "pairs": (
        "SELECT PAIRS(a.n, b.n AS m) FROM s [RANGE 15 SECONDS] a JOIN s [RANGE 15 SECONDS] b ON a.n = b.n + 1"
        " WHERE b.n > 1",
        "n, m",
        [(3, 2), (4, 3)],
    ),
    "tumbling": ("SELECT count(*) AS c FROM s [RANGE TUMBLING 20 SECONDS] WHERE n > 1", "c", [(1,), (2,)]),
    "sliding": (
        "SELECT k, max(n) AS v FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] WHERE n > 2 GROUP BY k",
        "window_end, k, v",
        [(30, "a", 3), (40, "a", 3), (40, "b", 4), (50, "b", 4)],
    ),
    "landmark": ("SELECT sum(n) AS v FROM s [RANGE ALL SLIDE 20 SECONDS] WHERE n > 1", "v", [(2,), (9,)]),
    "row window": ("SELECT sum(n) AS v FROM s [ROWS 2 SLIDE 1] WHERE n > 1", "v", [(2,), (5,), (7,)]),
    "union": ("SELECT ISTREAM(n) FROM (s UNION r) [NOW] WHERE n > 2", "n", [(3,), (4,)]),
}

#: Row queries, which have no window behind their streams.
ROWS = {
    "rows": ("SELECT n FROM s WHERE n > 1", [(2,), (3,), (4,)]),
    "groups": ("SELECT k, sum(n) AS v FROM s WHERE n > 1 GROUP BY k", [("a", 3), ("b", 6)]),
    "joined": ("SELECT a.n, b.n AS m FROM s a JOIN s b ON a.k = b.k WHERE a.n > b.n", [(3, 1), (4, 2)]),
}


def at(seconds: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1) + dt.timedelta(seconds=seconds)


def made(inline_pond: Factory, name: str = "pond", types: Sequence[str] = tuple(TYPES)) -> Any:
    """A pond with the streams s and r, whose rows have a column of each type."""
    pond = inline_pond(name)
    columns = "".join(f", c{n} {kind}" for n, kind in enumerate(types))
    for stream in "sr":
        pond.sql(f"CREATE STREAM {stream} (ts TIMESTAMP, n INTEGER, k TEXT{columns}) WITH (event_time='ts')")
    return pond


def feed(pond: Any, types: Sequence[str] = tuple(TYPES)) -> None:
    """Four rows in two epochs; every other one has NULL in the columns that nobody reads."""
    others = {f"c{n}": TYPES[kind] for n, kind in enumerate(types)}
    rows = [{"ts": at(10 * i), "n": i + 1, "k": "ab"[i % 2], **(others if i % 2 else {})} for i in range(4)]
    for part in (rows[:2], rows[2:]):
        pond.ingest("s", part)
        pond.drain()


def shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in order, instants as seconds."""
    plain = [tuple((v - at(0)).total_seconds() if isinstance(v, dt.datetime) else v for v in row) for row in rows]
    return sorted(plain, key=repr)


def ended(pond: Any) -> None:
    """No stream brings any more: everything is answered, and nothing has failed."""
    pond.drain(final=True)
    statuses = {r[0]: (r[3], r[4]) for r in pond.sql("SHOW QUERIES").rows()}
    assert set(statuses.values()) == {("live", "")}, statuses
    assert pond.sql("SELECT count(*) FROM dead(s)").rows() == [(0,)]


@pytest.mark.parametrize("way", ["live", "back-filled", "half and half"])
def test_standing_queries(inline_pond: Factory, way: str) -> None:
    pond = made(inline_pond)
    if way == "back-filled":
        feed(pond)
    elif way == "half and half":
        pond.ingest("s", [{"ts": at(0), "n": 1, "k": "a", "c0": TYPES["UUID"]}])
        pond.drain()
    for name, (select, _, _) in STANDING.items():
        pond.sql(f"""CREATE QUERY "{name}" WITH (since='start') AS {select}""")
    pond.sql("CREATE STREAM passed WITH (since='start') AS SELECT ts, n FROM s WHERE n > 1")
    pond.sql("CREATE STREAM entered WITH (since='start') AS SELECT ISTREAM(n) FROM s [NOW] WHERE n > 1")
    if way == "live":
        feed(pond)
    elif way == "half and half":
        pond.ingest("s", [{"ts": at(10 * i), "n": i + 1, "k": "ab"[i % 2]} for i in range(1, 4)])
        pond.drain()
    ended(pond)
    for name, (_, columns, right) in STANDING.items():
        assert shown(pond.sql(f"""SELECT {columns} FROM "{name}" """).rows()) == shown(right), name
    for stream in ("passed", "entered"):
        assert shown(pond.sql(f"SELECT n FROM {stream}").rows()) == [(2,), (3,), (4,)]


def test_questions(inline_pond: Factory) -> None:
    """INVOKE and SELECT give the same as over streams without such columns."""
    found: list[dict[tuple[str, str], Any]] = []
    for name, types in (("with", tuple(TYPES)), ("without", ())):
        pond = made(inline_pond, name, types)
        for query, (select, *_) in (STANDING | ROWS).items():
            pond.sql(f"""CREATE QUERY "{query}" AS {select}""")
        feed(pond, types)
        found.append({})
        for query, (select, *_) in (STANDING | ROWS).items():
            found[-1][query, "invoke"] = shown(pond.sql(f"""INVOKE "{query}" """).rows())
            found[-1][query, "select"] = shown(pond.sql(select).rows())
    assert found[0] == found[1]
    for query, (_, right) in ROWS.items():
        assert found[0][query, "invoke"] == found[0][query, "select"] == shown(right)
    for query in ("bare", "relation", "grouped join", "outer join"):
        assert found[0][query, "select"] == shown(STANDING[query][2])
