"""Windows over windows, first rows per group, and grouping sets: what DuckDB says of each window, whatever the order.

Lives have late rows, cuts, restarts, a query that comes later and is back-filled, and little state that is kept ready.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
from tests.quick import quick_folder

START = dt.datetime(2024, 1, 1)

#: (event time in seconds, k, g, v); k and g are groups, whose NULL is a group of its own.
Taken = tuple[int, str | None, int | None, int | None]

rows = st.tuples(
    st.integers(0, 90),
    st.sampled_from(["a", "b", None]),
    st.sampled_from([1, 2, None]),
    st.sampled_from([0, 1, 5, None]),
)

GROUPS = {
    "LIMIT PER": (
        "k, g, sum(v)::BIGINT AS t, count(*) AS n",
        "GROUP BY k, g ORDER BY n DESC, t NULLS LAST, g NULLS FIRST LIMIT 2 PER k",
        "GROUP BY k, g QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC, t NULLS LAST, g NULLS FIRST) <= 2",
    ),
    "QUALIFY": (
        "k, g, sum(v)::BIGINT AS t, count(*) AS n",
        "GROUP BY k, g QUALIFY row_number() OVER (PARTITION BY g ORDER BY count(*), k NULLS LAST) <= 1",
        "GROUP BY k, g QUALIFY row_number() OVER (PARTITION BY g ORDER BY count(*), k NULLS LAST) <= 1",
    ),
    "ROLLUP": ("k, g, sum(v)::BIGINT AS t, grouping(k, g)::BIGINT AS n", *["GROUP BY ROLLUP (k, g)"] * 2),
    "CUBE": ("k, g, max(v) AS t, grouping(g)::BIGINT AS n", *["GROUP BY CUBE (k, g)"] * 2),
    "GROUPING SETS": ("k, g, sum(v)::BIGINT AS t, count(*) AS n", *["GROUP BY GROUPING SETS ((k), (g), ())"] * 2),
}


class Life:
    """A pond with one query, asked from the beginning and again later."""

    def __init__(self, data: st.DataObject, text: str) -> None:
        self.data, self.text, self.taken = data, text, list[Taken]()
        self.kept = data.draw(st.sampled_from(["", ", revise_for='0 s'", ", revise_for='20 s'"]))

    def live(self) -> list[list[tuple[Any, ...]]]:
        """The answers at the end: of both queries, and of who asks once."""
        draw = self.data.draw
        epochs = draw(st.lists(st.lists(rows, max_size=5), min_size=1, max_size=5))
        begin, shards = draw(st.integers(0, len(epochs) - 1)), draw(st.sampled_from([1, 2]))
        with quick_folder() as folder:
            pond = millpond.open(str(folder / "p"), executor="inline", shards=shards)
            pond.sql(
                "CREATE STREAM s (ts TIMESTAMP, k TEXT, g BIGINT, v BIGINT)"
                f" WITH (lateness='{draw(st.integers(0, 30))} s')"
            )
            pond.sql(f"CREATE QUERY q WITH (since='start'{self.kept}) AS {self.text}")
            for number, epoch in enumerate(epochs):
                if number == begin:
                    pond.sql(f"CREATE QUERY later WITH (since='start'{self.kept}) AS {self.text}")
                if epoch:
                    names = ("ts", "k", "g", "v")
                    pond.ingest("s", [dict(zip(names, (_time(r[0]), *r[1:]), strict=True)) for r in epoch])
                    self.taken += epoch
                pond.step()
                if draw(st.integers(0, 3)) == 0:
                    pond.close()
                    pond = millpond.open(str(folder / "p"), executor="inline", shards=shards)
            pond.drain(final=True)
            found = [
                _sorted(pond.sql(f"SELECT * EXCLUDE (window_start, revision) FROM {q}").rows()) for q in ("q", "later")
            ]
            found.append(_sorted(row[1:] for row in pond.sql(self.text).rows()))  # asked once
            pond.close()
        return found


def _time(second: int) -> dt.datetime:
    return START + dt.timedelta(seconds=second)


def _sorted(found: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, found), key=repr)


def _ask(sql: str, found: Sequence[Sequence[Any]], columns: str) -> list[tuple[Any, ...]]:
    """What DuckDB makes of rows."""
    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE s ({columns})")
        if found:
            db.executemany(f"INSERT INTO s VALUES ({', '.join('?' * len(found[0]))})", found)
        return db.execute(sql).fetchall()


@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_each_window(name: str) -> None:
    items, millponds, duckdbs = GROUPS[name]

    @given(st.data())
    def check(data: st.DataObject) -> None:
        size, slide = data.draw(st.sampled_from([(20, 20), (30, 10)]))
        text = f"SELECT {items} FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] {millponds}"
        life = Life(data, text)
        answers, expected = life.live(), []
        for end in range(slide, 90 + size + 1, slide):
            inside = [r for r in life.taken if end - size <= r[0] < end]
            if inside:
                found = _ask(f"SELECT {items} FROM s {duckdbs}", inside, "ts BIGINT, k TEXT, g BIGINT, v BIGINT")
                expected += [(_time(end), *row) for row in found]
        for each in answers:
            assert each == _sorted(expected)

    check()


@given(st.data())
def test_windows_over_windows(data: st.DataObject) -> None:
    size, slide = data.draw(st.sampled_from([(10, 10), (20, 10)]))
    wide, step = data.draw(st.sampled_from([(30, 30), (40, 20)]))
    inner = (
        f"SELECT k, count(*) AS n, sum(v)::BIGINT AS t FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] GROUP BY k"
    )
    items = "k, max(n) AS most, count(*) AS c, sum(t)::BIGINT AS t"
    life = Life(data, f"SELECT {items} FROM ({inner}) [RANGE {wide} SECONDS SLIDE {step} SECONDS] AS m GROUP BY k")
    answers, first, expected = life.live(), [], []
    for end in range(slide, 90 + size + 1, slide):
        inside = [r for r in life.taken if end - size <= r[0] < end]
        sql = "SELECT k, count(*) AS n, sum(v)::BIGINT AS t FROM s GROUP BY k"
        first += [(end, *row) for row in _ask(sql, inside, "ts BIGINT, k TEXT, g BIGINT, v BIGINT")]
    for end in range(step, 90 + size + wide + 1, step):
        within = [r for r in first if end - wide <= r[0] < end]
        found = _ask(f"SELECT {items} FROM s GROUP BY k", within, "ts BIGINT, k TEXT, n BIGINT, t BIGINT")
        expected += [(_time(end), *row) for row in found]
    for each in answers:
        assert each == _sorted(expected)
