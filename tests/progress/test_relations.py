"""Relations over a stream with bounds for groups: what is out of a group is what its own bound allows, and holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import Epoch, Item, Row, Script, StreamSpec, trace
from tests.oracle.cql import Query, Stamped, Windowed
from tests.oracle.progress import NEVER, Step
from tests.progress.ponds import Kind, MarkedPond, is_mark, marked_pond, rows, table_of
from tests.progress.test_stages import bound_of

#: Instants that are looked at: beyond any row and any window.
LAST = 30
COLUMNS = {"k": "VARCHAR", "n": "BIGINT"}


@dataclass(frozen=True)
class Asked:
    """A query: as a statement has it behind its window, and as SQL of one instant over `s`.

    operator: what makes a stream of it. columns: how many, the first of which is the group.
    """

    select: str
    sql: str
    operator: str
    columns: int


def asked(select: str, rest: str, columns: int) -> list[Asked]:
    """A SELECT as each kind of stream."""
    return [
        Asked(f"{word}({select}) FROM s {{window}}{rest}", f"SELECT {select} FROM s{rest}", word, columns)
        for word in ("ISTREAM", "DSTREAM", "RSTREAM")
    ]


QUERIES = [
    *asked("k, n", "", 2),
    *asked("k, n", " WHERE n > 3", 2),
    *asked("k, count(*) AS c, sum(n)::BIGINT AS t", " GROUP BY k", 3),
    *asked("k, max(n) AS c", " GROUP BY k HAVING count(*) > 1", 2),
    *[
        Asked("ISTREAM(*) FROM (SELECT DISTINCT k, n FROM s {window})", "SELECT DISTINCT k, n FROM s", "ISTREAM", 2),
        Asked(
            "DSTREAM(g, t) FROM (SELECT k AS g, sum(n)::BIGINT AS t FROM s {window} GROUP BY ALL)",
            "SELECT k, sum(n)::BIGINT FROM s GROUP BY k", "DSTREAM", 2,
        ),
    ],
]  # fmt: skip

WINDOWS = [
    ("[NOW]", ("range", 0), ()),
    ("[RANGE 3 MICROSECONDS]", ("range", 3), ()),
    ("[RANGE 8 MICROSECONDS]", ("range", 8), ()),
    ("[RANGE UNBOUNDED]", ("unbounded", 0), ()),
    ("[PARTITION BY k ROWS 2]", ("rows", 2), (0,)),
]


#: Rows within 20 microseconds.
ROWS = rows(14, 20, 1)


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    """Streams whose sources say how far groups are; late rows revise."""
    column = draw(st.booleans())
    lateness = draw(st.sampled_from([None, None, 0, 3, 12]))
    return Kind(
        StreamSpec(
            lateness=lateness, column="wm" if column else None, record=None if column else is_mark, by="k",
            only=lateness is None,
        )
    )  # fmt: skip


@st.composite
def cut(draw: st.DrawFn, taken: tuple[Row, ...]) -> tuple[Epoch, ...]:
    """The rows, in their order, in epochs."""
    found, at = [], 0
    while at < len(taken):
        size = draw(st.integers(1, 5))
        found.append(Epoch((Item(taken[at : at + size]),)))
        at += size
    return tuple(found)


def expected(query: Asked, window: Any, came: list[Row], step: Step) -> Counter[Any]:
    """What the definitions give of the instants that lie before the bound of each group, with all rows that came."""
    found: Counter[Any] = Counter()
    for group in ("a", "b", None):
        mine = [
            Stamped(r.time, n, (r.values["k"], r.values["n"])) for n, r in enumerate(came) if r.values["k"] == group
        ]
        until = max(0, min(LAST, bound_of(step, group)))
        relation = Query(query.sql, {"s": Windowed(COLUMNS, mine, *window)})
        if query.operator == "RSTREAM":
            found += relation.rstream(0, until, 4)
        else:
            found += getattr(relation, query.operator.lower())(0, until)
    return found


def reported(pond: MarkedPond, query: Asked, name: str = "q") -> Counter[Any]:
    """What is out, but for instants beyond those that are looked at."""
    found = pond.rows(f"SELECT epoch_us(at), * EXCLUDE (at, revision) FROM {name}")
    return Counter((at, row) for at, *row_ in found if at < LAST for row in [tuple(row_[: query.columns])])


@given(st.data())
def test_relations_are_released_group_by_group(data: st.DataObject) -> None:
    """After each epoch, restarts and all; what is back-filled, or was paused, is the same in the end."""
    kind, query = data.draw(kinds()), data.draw(st.sampled_from(QUERIES))
    written, *window = data.draw(st.sampled_from(WINDOWS))
    script = Script(kind.spec, data.draw(cut(data.draw(ROWS))))
    start, pause = data.draw(st.integers(0, len(script.epochs))), data.draw(st.integers(0, len(script.epochs)))
    options = "since='start', revise_for='1 hour'"
    options += ", every='4 microseconds'" if query.operator == "RSTREAM" else ""
    statement = f"AS SELECT {query.select.format(window=written)} WITH ({options})"
    came: list[Row] = []
    with marked_pond(kind.options) as pond:
        pond.sql(f"CREATE QUERY q {statement}")
        pond.sql(f"CREATE QUERY paused {statement}")
        for number, (epoch, step) in enumerate(zip(script.epochs, trace(script), strict=True)):
            if data.draw(st.integers(0, 4)) == 0:
                pond.restart()
            if number == start:
                pond.sql(f"CREATE QUERY later {statement}")
            if number == pause:
                pond.sql("ALTER QUERY paused PAUSE")
            pond.epoch(epoch)
            came += step.admitted
            wanted = expected(query, window, came, step)
            assert reported(pond, query) == wanted, f"{kind.options}: {statement}, epoch {number}"
        pond.sql("ALTER QUERY paused RESUME")
        pond.settle()
        for name in ("paused", *(["later"] if start < len(script.epochs) else [])):
            pond.epoch(Epoch(()))
            assert reported(pond, query, name) == wanted, f"{name}, {kind.options}: {statement}"


@given(st.data())
def test_early_answers_end_where_the_others_do(data: st.DataObject) -> None:
    """What counts is the same with and without early answers, all the time; nothing early is left in the end."""
    kind, query = data.draw(kinds()), data.draw(st.sampled_from(QUERIES))
    written, *_ = data.draw(st.sampled_from(WINDOWS))
    script = Script(kind.spec, data.draw(cut(data.draw(ROWS))))
    options = "since='start'" + (", every='4 microseconds'" if query.operator == "RSTREAM" else "")
    statement = f"AS SELECT {query.select.format(window=written)} WITH ({options}"
    with marked_pond(kind.options) as pond:
        pond.sql(f"CREATE QUERY q {statement})")
        pond.sql(f"CREATE QUERY eager {statement}, early='1s')")
        for number, epoch in enumerate(script.epochs):
            if data.draw(st.integers(0, 4)) == 0:
                pond.restart()
            pond.epoch(replace(epoch, clock=2_000_000 * number))
            assert reported(pond, query, "eager WHERE status = 'closed'") == reported(pond, query), statement
        pond.pond.drain(final=True)
        assert reported(pond, query, "eager") == reported(pond, query), statement
        assert not pond.rows("SELECT * FROM eager WHERE status = 'early'")


JOINS = [
    (
        "{}(a.k, a.n, b.n) FROM s {} AS a, r {} AS b WHERE a.k = b.k",
        "SELECT a.k, a.n, b.n FROM a, b WHERE a.k = b.k", 3,
    ),
    (
        "{}(a.k, a.n, b.n) FROM s {} AS a LEFT JOIN r {} AS b ON a.k = b.k AND a.n < b.n",
        "SELECT a.k, a.n, b.n FROM a LEFT JOIN b ON a.k = b.k AND a.n < b.n", 3,
    ),
    ("{}(k, n) FROM s {} AS a ANTI JOIN r {} AS b USING (k)", "SELECT k, n FROM a ANTI JOIN b USING (k)", 2),
    (
        "{}(b.k, count(*) AS c, sum(a.n)::BIGINT AS t) FROM s {} AS a JOIN r {} AS b USING (k) GROUP BY b.k",
        "SELECT b.k, count(*), sum(a.n)::BIGINT FROM a JOIN b USING (k) GROUP BY b.k", 3,
    ),
]  # fmt: skip


@given(st.data())
def test_joins_within_groups_are_released_group_by_group(data: st.DataObject) -> None:
    """A group of two streams is as far as the one that is behind."""
    written, sql, columns = data.draw(st.sampled_from(JOINS))
    query = Asked("", sql, data.draw(st.sampled_from(["ISTREAM", "DSTREAM"])), columns)
    (own, *first), (other, *second) = (data.draw(st.sampled_from(WINDOWS[:4])) for _ in range(2))
    given_kinds = {name: data.draw(kinds()) for name in "sr"}
    scripts = {name: Script(kind.spec, data.draw(cut(data.draw(ROWS)))) for name, kind in given_kinds.items()}
    left = {name: list(zip(script.epochs, trace(script), strict=True)) for name, script in scripts.items()}
    came: dict[str, list[Row]] = {"s": [], "r": []}
    steps = {name: Step(NEVER, NEVER, (), (), (), None) for name in "sr"}
    statement = f"AS SELECT {written.format(query.operator, own, other)} WITH (since='start', revise_for='1 hour')"
    with marked_pond(given_kinds["s"].options) as pond:
        pond.sql(
            "CREATE STREAM r (ts TIMESTAMP, k VARCHAR, n BIGINT, kind INTEGER, wm TIMESTAMP)"
            f" WITH ({given_kinds['r'].options})"
        )
        pond.sql(f"CREATE QUERY q {statement}")
        while any(left.values()):
            if data.draw(st.integers(0, 4)) == 0:
                pond.restart()
            name = data.draw(st.sampled_from([n for n, more in left.items() if more]))
            epoch, steps[name] = left[name].pop(0)
            pond.pond.ingest(name, table_of(epoch.rows))
            pond.pond.step()
            came[name] += steps[name].admitted
            wanted: Counter[Any] = Counter()
            for group in ("a", "b", None):
                until = max(0, min(LAST, *(bound_of(step, group) for step in steps.values())))
                mine = [
                    Windowed(
                        COLUMNS,
                        [Stamped(r.time, n, (r.values["k"], r.values["n"]))
                         for n, r in enumerate(came[each]) if r.values["k"] == group],
                        *window,
                    )
                    for each, window in (("s", first), ("r", second))
                ]  # fmt: skip
                relation = Query(query.sql, {"a": mine[0], "b": mine[1]})
                wanted += getattr(relation, query.operator.lower())(0, until)
            assert reported(pond, query) == wanted, f"{given_kinds}: {statement}"


@given(st.data())
def test_what_is_out_of_a_stream_that_drops_holds(data: st.DataObject) -> None:
    """First answers are final: rows behind the bound of their group are in `late`, and nothing that is out changes."""
    kind, query = data.draw(kinds()), data.draw(st.sampled_from(QUERIES))
    kind = replace(kind, spec=replace(kind.spec, late="drop", only=True, lateness=None))
    written, *window = data.draw(st.sampled_from(WINDOWS))
    script = Script(kind.spec, data.draw(cut(data.draw(ROWS))))
    options = "since='start'" + (", every='4 microseconds'" if query.operator == "RSTREAM" else "")
    came: list[Row] = []
    out: Counter[Any] = Counter()
    with marked_pond(kind.options) as pond:
        pond.sql(f"CREATE QUERY q AS SELECT {query.select.format(window=written)} WITH ({options})")
        for epoch, step in zip(script.epochs, trace(script), strict=True):
            if data.draw(st.integers(0, 4)) == 0:
                pond.restart()
            pond.epoch(epoch)
            came += [r for r in step.admitted if id(r) not in step.dropped]
            behind = any(id(r) not in step.dropped for r in step.late)  # these are seen later than at their time
            found = reported(pond, query)
            assert not out - found
            if behind:
                return
            assert found == expected(query, window, came, step), f"{kind.options}: {query.select} {written}"
            out = found


@pytest.mark.parametrize(
    ("select", "released"),
    [
        ("ISTREAM(k, n) FROM s [NOW]", True),
        ("ISTREAM(*) FROM s [RANGE 1 SECOND] WHERE n > 1", True),
        ("k AS g, count(*) AS c FROM s [RANGE 1 SECOND] GROUP BY k, n ORDER BY c", True),
        ("ISTREAM(k, sum(n)) FROM s [PARTITION BY k ROWS 2] GROUP BY ALL", True),
        ("ISTREAM(g) FROM (SELECT DISTINCT k AS g FROM s [RANGE 1 SECOND])", True),
        ("ISTREAM(a.k, b.n) FROM s [NOW] AS a, s [NOW] AS b WHERE a.k = b.k", True),
        ("ISTREAM(k, s2.n + s.n) FROM s [NOW] JOIN s2 [RANGE 1 SECOND] USING (k)", True),
        ("ISTREAM(s.k, s2.n) FROM s [NOW] LEFT JOIN s2 [NOW] ON s.k = s2.k", True),
        ("ISTREAM(s2.k, s.n) FROM s [NOW] RIGHT JOIN s2 [NOW] ON s.k = s2.k", True),
        ("ISTREAM(k, n) FROM s [NOW] SEMI JOIN s2 [NOW] USING (k)", True),
        ("s.k, count(*) FROM s [NOW], s2 [NOW], s AS t [NOW] WHERE s.k = s2.k AND t.k = s2.k GROUP BY s.k", True),
        ("ISTREAM(s2.k, s.n) FROM s [NOW] LEFT JOIN s2 [NOW] ON s.k = s2.k", False),
        ("ISTREAM(s.k, s2.n) FROM s [NOW] FULL JOIN s2 [NOW] ON s.k = s2.k", False),
        ("ISTREAM(s.k, s2.n) FROM s [NOW] JOIN s2 [NOW] ON s.n = s2.n", False),
        ("ISTREAM(s.k, s2.n) FROM s [NOW] JOIN s2 [NOW] ON s.k > s2.k", False),
        ("ISTREAM(s.k, s2.n) FROM s [NOW] JOIN s2 [PARTITION BY k ROWS 1] ON s.k = s2.k", False),
        ("s.n, count(*) FROM s [NOW], s2 [NOW] WHERE s.k = s2.k GROUP BY s.n", False),
        ("ISTREAM(n) FROM s [NOW]", False),
        ("ISTREAM(upper(k), n) FROM s [NOW]", False),
        ("ISTREAM(n, count(*)) FROM s [NOW] GROUP BY n", False),
        ("ISTREAM(max(k)) FROM s [NOW] GROUP BY k", False),
        ("ISTREAM(n AS k, count(*)) FROM s [NOW] GROUP BY n", False),
        ("ISTREAM(k, n) FROM s [ROWS 2]", False),
        ("ISTREAM(k, n) FROM s [PARTITION BY n ROWS 2]", False),
        ("k, n FROM s [RANGE 1 SECOND] ORDER BY n LIMIT 2", False),
        ("ISTREAM(k, count(*)) FROM s [NOW] GROUP BY ROLLUP(k)", False),
        ("ISTREAM(k, n) FROM s [RANGE 1 SECOND] WHERE n = (SELECT max(n) FROM s [NOW])", False),
        ("ISTREAM(k, sum(n) OVER () AS t) FROM s [NOW]", False),
        ("ISTREAM(k, n) FROM (s UNION ALL s2) [NOW]", False),
    ],
)
def test_who_keeps_groups_apart_is_said(inline_pond: Any, select: str, released: bool) -> None:
    pond = inline_pond()
    for name in ("s", "s2"):
        pond.sql(f"""
            CREATE STREAM {name} (ts TIMESTAMP, k TEXT, n INTEGER)
              WITH (event_time='ts', marks='record:n = 0', marks_by='k')
        """)
    pond.sql(f"CREATE QUERY q AS SELECT {select}")
    text = str(pond.sql("EXPLAIN q"))
    assert ("group by group, as the bounds by k allow" in text) == released
    assert ("groups by k are not kept apart" in text) != released
