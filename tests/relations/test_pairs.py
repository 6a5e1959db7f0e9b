"""PAIRS equals the oracle after every epoch, for every kind of join; the worked examples of the order-agnostic join."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.operators.stores import state as stores
from millpond.relations.bands import marks_of, needed_from
from millpond.types import PairsQuery
from tests.oracle.cql import Row
from tests.oracle.pairs import FOREVER, Item, Window, meet, pairs, takes_part
from tests.relations.setting import bound, stream

EPOCH = dt.datetime(1970, 1, 1)
FEW = max(4, settings.default.max_examples // 4)
LATENESS = 2

KINDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "semi": "SEMI JOIN",
         "anti": "ANTI JOIN", "asof": "ASOF JOIN", "asof left": "ASOF LEFT JOIN"}  # fmt: skip
WINDOWS: dict[str, Window] = {
    "[NOW]": ("closed", 0),
    "[RANGE 2 MICROSECONDS]": ("closed", 2),
    "[RANGE 3 MICROSECONDS OPEN]": ("open", 3),
}
TUMBLING: Window = ("tumbling", 4)
#: A condition, and what it says of (stamp, k) of both sides.
TESTS = {
    "a.k = b.k": lambda a, b: a[1] is not None and a[1] == b[1],
    "a.k + 1 = b.k AND a.ts < b.ts": lambda a, b: None not in (a[1], b[1]) and a[1] + 1 == b[1] and a[0] < b[0],
    "a.k <= b.k": lambda a, b: None not in (a[1], b[1]) and a[1] <= b[1],
}

batch = st.lists(st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(0, 2))), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("su"), batch),
        st.tuples(st.sampled_from("su"), batch),
        st.sampled_from([("epoch", None), ("restart", None), ("create", None), ("pause", None), ("resume", None)]),
    ),
    min_size=3,
    max_size=10,
)
sliding = st.tuples(st.sampled_from(sorted(WINDOWS)), st.sampled_from(sorted(WINDOWS)))
windows = st.one_of(sliding, st.just(("", "[RANGE TUMBLING 4 MICROSECONDS]")))


@pytest.fixture(autouse=True, scope="module")
def pruned_early() -> Iterator[None]:
    """Rows that nobody needs are left out of memory at once, not only where there are many."""
    before, stores.PRUNED = stores.PRUNED, 1
    yield
    stores.PRUNED = before


def micros(at: dt.datetime | None) -> int | None:
    return None if at is None else int((at - EPOCH) / dt.timedelta(microseconds=1))


class Story:
    """A pond with two streams and a query of pairs, and what came into the streams, epoch by epoch."""

    def __init__(self, folder: Path, sql: str, late: str, revise_for: int, own: bool) -> None:
        self.folder, self.sql, self.revise_for, self.own = folder, sql, revise_for, own
        self.pond = self._open()
        for name in "su":
            self.pond.sql(
                f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER) WITH"
                f" (event_time='ts', lateness='{LATENESS} microseconds', late='{late}')"
            )
        self.rows: dict[str, list[Item]] = {"s": [], "u": []}
        self.coming: dict[str, list[tuple[int, Any]]] = {"s": [], "u": []}
        self.bounds = {"s": -FOREVER, "u": -FOREVER}
        self.created = self.paused = False

    def _open(self) -> Any:
        return millpond.open(self.folder / "pond", executor="inline", shards=2, compact_files=3)

    def step(self, what: str, drawn: list[tuple[int, Any]] | None) -> None:
        if drawn is not None:
            self.pond.ingest(what, [{"ts": EPOCH + dt.timedelta(microseconds=t), "k": k} for t, k in drawn])
            self.coming[what] += drawn
        elif what == "epoch":
            self.epoch()
        elif what == "restart":
            self.pond.close()
            self.pond = self._open()
        elif what == "create" and not self.created:
            self.pond.sql(self.sql)
            self.created = True
        elif what in ("pause", "resume") and self.created and self.paused == (what == "resume"):
            self.epoch()
            self.pond.sql(f"ALTER QUERY q {what.upper()}")
            self.paused = what == "pause"

    def epoch(self, final: bool = False) -> None:
        """Take in what has come, in one epoch: its rows are not late for each other."""
        self.pond.drain(final=final)
        for name, drawn in self.coming.items():
            bound = self.bounds[name]
            made = [Item(t, (t, k), bound if t < bound else None) for t, k in drawn]
            self.rows[name] += [i for i in made if takes_part(i, self.revise_for)]
            self.bounds[name] = FOREVER if final else max([bound, *(t - LATENESS for t, _ in drawn)])
            drawn.clear()

    def answers(self) -> Counter[tuple[int, Row]]:
        found: Counter[tuple[int, Row]] = Counter()
        for at, *row, _ in self.pond.sql("SELECT * FROM q").rows():
            times = [micros(v) if n % 2 == 0 else v for n, v in enumerate(row)]
            found[micros(at) or 0, tuple(times)] += 1
        return found


def play(kind: str, behind: tuple[str, str], test: str, drawn: Any, late: str, own: bool) -> None:
    shown = "a.ts AS t, a.k AS k" + ("" if kind in ("semi", "anti") else ", b.ts AS u, b.k AS l")
    other = "s" if own else "u"
    condition = test
    if kind.startswith("asof"):  # looks back, from now
        behind = ("[NOW]", behind[1] if behind[1] in WINDOWS else "[RANGE 2 MICROSECONDS]")
        test = "a.k = b.k"
        condition = f"{test} AND a.ts >= b.ts"
    sql = f"SELECT PAIRS({shown}) FROM s {behind[0]} a {KINDS[kind]} {other} {behind[1]} b ON {condition}"
    revise_for = 3 if late == "revise" else 0
    forms = (TUMBLING, TUMBLING) if "TUMBLING" in behind[1] else (WINDOWS[behind[0]], WINDOWS[behind[1]])
    with tempfile.TemporaryDirectory() as folder:
        options = "since='start'" + (", beyond='drop', revise_for='3 microseconds'" if late == "revise" else "")
        story = Story(Path(folder), f"CREATE QUERY q AS {sql} WITH ({options})", late, revise_for, own)

        def check() -> None:
            if story.created and not story.paused:
                inputs = (story.rows["s"], story.rows[other])
                bounds = (story.bounds["s"], story.bounds[other])
                assert story.answers() == pairs(kind, inputs, forms, TESTS[test], bounds)

        try:
            for what, given_rows in drawn:
                story.step(what, given_rows)
                if what == "epoch":
                    check()
            for what in ("create", "resume"):
                story.step(what, None)
            story.epoch()
            check()
            story.epoch(final=True)
            check()
            if kind == "inner":
                assert not [r for r in story.pond.sql("SELECT * FROM q ALL REVISIONS").rows() if r[-1] == "-"]
            asked = Counter(tuple(r) for r in story.pond.sql(sql).rows())
            if late == "revise" and all(i.behind is None for rows in story.rows.values() for i in rows):
                assert asked == Counter(r[:-1] for r in map(tuple, story.pond.sql("SELECT * FROM q").rows()))
        finally:
            story.pond.close()


@given(st.sampled_from(sorted(KINDS)), windows, st.sampled_from(sorted(TESTS)), steps,
       st.sampled_from(["revise", "drop"]), st.booleans())  # fmt: skip
@settings(max_examples=3 * FEW, deadline=None)
def test_pairs_are_those_of_the_oracle_after_every_epoch(
    kind: str, behind: tuple[str, str], test: str, drawn: Any, late: str, own: bool
) -> None:
    play(kind, behind, test, drawn, late, own)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("test", sorted(TESTS))
def test_pairs_of_a_pause_are_there_when_the_drain_behind_resume_is_done(kind: str, test: str) -> None:
    first, second = [(0, None)], [(0, 0), (0, 0), (0, 1)]
    drawn = [("create", None), ("s", first), ("pause", None), ("s", second), ("u", [(0, 0)]), ("resume", None)]
    for own in (True, False):
        play(kind, ("[NOW]", "[NOW]"), test, drawn, "revise", own)


def query(text: str) -> PairsQuery:
    return bound(text, stream("a", k="INTEGER"), stream("b", k="INTEGER"))


def test_t14_windows_that_share_an_identifier_are_the_band_open_at_both_ends() -> None:
    rng = random.Random(14)
    for _ in range(2000):
        left, right = rng.randrange(1000), rng.randrange(1000)
        share = bool(set(range(left, left + 180)) & set(range(right, right + 180)))
        assert share == meet(left, right, (("open", 180), ("open", 180)))


def test_t15_joint_marks_come_before_individual_ones() -> None:
    found = query("SELECT PAIRS(a.ts, b.ts) FROM a [RANGE 2 MICROSECONDS], b [RANGE 2 MICROSECONDS]")
    after = [marks_of(found, bounds) for bounds in ((1, 1), (2, 1), (2, 2), (3, 2))]
    assert [m.joint for m in after] == [(1, 1), (2, 1), (2, 2), (3, 2)]
    assert [m.sides[1] for m in after] == [-1, 0, 0, 1]
    assert [m.sides[0] for m in after] == [-1, -1, 0, 0]
    apart = marks_of(found, (9, 1))
    assert (apart.joint, apart.sides, apart.result) == (None, (-1, 1), 1)
    cut = query("SELECT PAIRS(a.ts) FROM a, b [RANGE TUMBLING 4 MICROSECONDS]")
    assert marks_of(cut, (9, 8)).joint == (9, 8) and marks_of(cut, (9, 7)).joint is None
    assert marks_of(cut, (9, 7)).sides == (4, 7)


def test_t19_and_t20_what_is_kept_and_what_an_ordered_output_would_hold_back() -> None:
    minutes = query("SELECT PAIRS(a.ts) FROM a [RANGE 2 MICROSECONDS], b [RANGE 2 MICROSECONDS]")
    now = 100  # a comes up to 5 late
    assert needed_from(minutes, (now - 5, now)) == (now - 2, now - 7)
    ordered = query("SELECT PAIRS(a.ts) FROM a [RANGE 3 MICROSECONDS], b [RANGE 2 MICROSECONDS]")
    assert marks_of(ordered, (6, 6)).sides[0] == 3  # results with 3 <= a.ts <= 6 are out, and would wait in order


def test_an_idle_stream_lets_rows_be_alone_and_what_it_brings_then_counts_within_revise_for(tmp_path: Path) -> None:
    clock = [0]
    with millpond.open(tmp_path / "pond", executor="inline", clock=lambda: clock[0]) as pond:
        for name in "su":
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER) WITH (event_time='ts', idle='5 s')")
        pond.sql(
            "CREATE QUERY q AS SELECT PAIRS(a.k) FROM s [RANGE 2 MICROSECONDS] a ANTI JOIN u [NOW] b ON a.k = b.k"
            " WITH (beyond='drop', revise_for='3 microseconds')"
        )

        def bring(name: str, *rows: tuple[int, int]) -> list[int | None]:
            pond.ingest(name, [{"ts": EPOCH + dt.timedelta(microseconds=t), "k": k} for t, k in rows])
            pond.drain()
            return [micros(at) for at, *_ in pond.sql("SELECT * FROM q").rows()]

        assert bring("s", (1, 1), (9, 1)) == []
        assert bring("u", (2, 9)) == []
        clock[0] = 6_000_000
        assert bring("s", (17, 3), (20, 2)) == [1, 9, 17]  # u is as far as s, at 20
        assert bring("u", (9, 1), (18, 3)) == [1, 9]
        told = pond.sql("SHOW WATERMARKS").rows()
        assert [r[6] for r in told if r[0] == "query"] == [1]
        marks = [(r[0], r[2], r[3][-6:]) for r in told if r[0] in ("side", "joint")]
        assert marks == [("side", "s.ts", "000018"), ("side", "u.ts", "000020"), ("joint", "s.ts, u.ts", "000020")]


def test_rows_that_are_taken_back_take_their_pairs_along(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        for name in "su":
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER) WITH (event_time='ts')")
        pond.sql(
            "CREATE STREAM c AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 MICROSECONDS] GROUP BY k"
            " WITH (revisions='retract');"
            "CREATE QUERY q AS SELECT PAIRS(c.k, n) FROM u [RANGE 20 MICROSECONDS] JOIN c [NOW] ON c.k = u.k;"
            "CREATE STREAM p AS SELECT PAIRS(c.k, n) FROM u [RANGE 20 MICROSECONDS] JOIN c [NOW] ON c.k = u.k"
            " WITH (revisions='retract');"
            "CREATE QUERY total AS SELECT sum(n) AS n FROM p [RANGE TUMBLING 100 MICROSECONDS]"
        )
        for name, t in (("u", 5), ("s", 3), ("s", 12), ("s", 4)):
            pond.ingest(name, [{"ts": EPOCH + dt.timedelta(microseconds=t), "k": 1}])
            pond.drain()
        log = [(micros(at), *row) for at, *row in pond.sql("SELECT * FROM q ALL REVISIONS").rows()]
        assert log == [(10, 1, 1, 0, "+"), (10, 1, 1, 1, "-"), (10, 1, 2, 1, "+")]
        pond.drain(final=True)
        assert [(micros(at), k, n) for at, k, n, _ in pond.sql("SELECT * FROM q").rows()] == [(10, 1, 2), (20, 1, 1)]
        assert [n for *_, n, _ in pond.sql("SELECT window_end, n, revision FROM total").rows()] == [3]


def test_t12_and_t13_bands_and_no_global_order(tmp_path: Path) -> None:
    queries = {
        "q5_8": "main1 [RANGE 3 MINUTES OPEN] a, main2 [RANGE 2 MINUTES] b",
        "q5_7": "main1 a, main2 [RANGE TUMBLING 5 MINUTES] b",
        "q3_1": "main1 [RANGE 3 MINUTES OPEN] a, main2 [RANGE 2 MINUTES OPEN] b",
    }
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        for name in ("main1", "main2"):
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, ip INTEGER) WITH (event_time='ts', lateness='10 minutes')")
        for name, items in queries.items():
            pond.sql(f"CREATE QUERY {name} AS SELECT PAIRS(a.ip, a.ts AS l, b.ts AS r) FROM {items} WHERE a.ip = b.ip")

        def bring(name: str, ip: int, *times: str) -> None:
            pond.ingest(name, [{"ts": f"2026-03-01 {t}", "ip": ip} for t in times])
            pond.drain()

        def found(name: str, ip: int) -> list[str]:
            rows = pond.sql(f"SELECT l, r FROM {name} WHERE ip = {ip} ORDER BY l, r").rows()
            return [f"{left:%H:%M:%S} {right:%H:%M:%S}" for left, right in rows]

        bring("main2", 1, "10:07:59", "10:08:00", "10:12:59", "10:13:00")
        bring("main1", 1, "10:10:00")
        assert found("q5_8", 1) == ["10:10:00 10:08:00", "10:10:00 10:12:59"]
        bring("main1", 2, "11:04:59")
        bring("main2", 2, "11:00:00", "11:05:00")
        assert found("q5_7", 2) == ["11:04:59 11:00:00"]
        # main1 comes five minutes late: what an order of arrival would join lies too far apart
        bring("main2", 3, "12:09:00", "12:10:59")
        bring("main1", 3, "12:03:00", "12:05:59")
        assert found("q3_1", 3) == []
        # main2 comes a minute late: its partners are still there
        bring("main1", 4, "13:06:30")
        bring("main2", 4, "13:07:30")
        bring("main1", 4, "13:10:00")
        bring("main2", 4, "13:09:00")
        assert found("q3_1", 4) == ["13:06:30 13:07:30", "13:06:30 13:09:00", "13:10:00 13:09:00"]
