"""CQL in a pond equals the oracle, however rows are cut into epochs, disordered, late, back-filled, restarted."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.answers import adhoc_relations
from millpond.answers import relation_answers as relational
from millpond.operators.relational import relation_backfill
from millpond.operators.stores import state as stores
from tests.oracle.cql import Query, Row, Stamped, Windowed
from tests.quick import many, quick_folder
from tests.relations.setting import WINDOWS
from tests.relations.shapes import GROUPED, ONE, TWO, naive
from tests.relations.shapes import millpond as text_of

#: Each example looks at every instant.
FEW = max(4, settings.default.max_examples // 4)

AB = {"a": "INTEGER", "b": "INTEGER"}
EPOCH = dt.datetime(1970, 1, 1)
NAMED = [(1, "one"), (2, "two"), (None, "none")]
END = 18

values = st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.integers(0, 2))
batch = st.lists(st.tuples(st.integers(0, 9), values), min_size=1, max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["s", "u"]), batch),
        st.sampled_from([("epoch", None), ("restart", None), ("create", None), ("pause", None), ("resume", None)]),
    ),
    min_size=2,
    max_size=9,
)


@pytest.fixture(autouse=True, scope="module")
def pruned_early() -> Iterator[None]:
    """Rows that nobody needs are left out of memory at once, and back-fills read a few at a time, not only many."""
    before = stores.PRUNED, relation_backfill.PIECE
    stores.PRUNED, relation_backfill.PIECE = 2, 3
    yield
    stores.PRUNED, relation_backfill.PIECE = before


class Story:
    """A pond that lives through steps, and what came into its streams."""

    def __init__(self, folder: Path, texts: list[str], options: str) -> None:
        self.folder, self.count = folder, len(texts)
        self.sql = ";".join(f"CREATE QUERY q{n} AS {text} WITH ({options})" for n, text in enumerate(texts))
        (folder / "t.csv").write_text("a,name\n1,one\n2,two\n,none\n")
        self.pond = self._open()
        for name in "su":
            self.pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER, b INTEGER) WITH (event_time='ts')")
        self.pond.sql(f"CREATE TABLE t (a INTEGER, name TEXT) WITH (path='{folder / 't.csv'}')")
        self.rows: dict[str, list[Stamped]] = {"s": [], "u": []}
        self.created = self.paused = False

    def _open(self) -> Any:
        return millpond.open(self.folder / "pond", executor="inline", shards=2, compact_files=3)

    def step(self, what: str, given: list[tuple[int, Row]] | None) -> None:
        if given is not None:
            rows = [{"ts": EPOCH + dt.timedelta(microseconds=t), "a": a, "b": b} for t, (a, b) in given]
            self.pond.ingest(what, rows)
            held = self.rows[what]
            held += [Stamped(t, len(held) + n, v) for n, (t, v) in enumerate(given)]
        elif what == "epoch":
            self.pond.step()
        elif what == "restart":
            self.pond.close()
            self.pond = self._open()
        elif what == "create" and not self.created:
            self.pond.sql(self.sql)
            self.created = True
        elif what in ("pause", "resume") and self.created and self.paused == (what == "resume"):
            self.pond.sql(";".join(f"ALTER QUERY q{n} {what.upper()}" for n in range(self.count)))
            self.paused = what == "pause"

    def end(self) -> None:
        for what in ("create", "resume"):
            self.step(what, None)
        self.pond.drain(final=True)

    def answers(self, number: int = 0) -> Counter[tuple[int, Row]]:
        found: Counter[tuple[int, Row]] = Counter()
        for at, *row, _ in self.pond.sql(f"SELECT * FROM q{number}").rows():
            found[int((at - EPOCH) / dt.timedelta(microseconds=1)), tuple(row)] += 1
        return found

    def invoked(self, instant: int, number: int = 0) -> Counter[Row]:
        at = EPOCH + dt.timedelta(microseconds=instant)
        found = self.pond.sql(f"INVOKE q{number} AS OF TIMESTAMP '{at}'").rows()
        return Counter(tuple(row) for _, *row, _ in found)


def play(shape: str, operator: str, windows: list[list[str]], drawn: Any, options: str = "since='start'") -> None:
    """Queries of one shape over different windows live through the same steps; each answers what the oracle says."""
    with quick_folder() as folder:
        story = Story(folder, [text_of(shape, operator, *each) for each in windows], options)
        try:
            for what, given in drawn:
                story.step(what, given)
            story.end()
            for number, each in enumerate(windows):
                inputs = {}
                for n, (name, window) in enumerate(zip("su", each, strict=False)):
                    form, partition = WINDOWS[window]
                    inputs[f"w{n}"] = Windowed(AB, story.rows[name], form, (0,) if partition else ())
                query = Query(naive(shape), inputs, {"t": ({"a": "INTEGER", "name": "VARCHAR"}, NAMED)})
                expected = getattr(query, operator.lower())(-1, END)
                found = story.answers(number)
                if operator == "RSTREAM":  # it begins with the first row, and ends when everything has happened
                    stamps = [r.stamp for rows in story.rows.values() for r in rows]
                    seen = range(min(stamps), max(stamps) + 1) if stamps else range(0)
                    expected, found = (
                        Counter({(at, row): n for (at, row), n in all_.items() if at in seen})
                        for all_ in (expected, found)
                    )
                assert found == expected, each
                assert story.invoked(5, number) == query.at(5), each
        finally:
            story.pond.close()


#: The windows by their kinds.
KINDS = [[w for w in WINDOWS if w.startswith(start)] for start in ("[NOW", "[RANGE 2", "[ROWS 2", "[PART")]
KINDS += [[w for w in WINDOWS if "UNBOUNDED" in w], [w for w in WINDOWS if w != "[NOW]"]]


@pytest.mark.parametrize("shape", [ONE[1], ONE[2], ONE[4], ONE[9]])
@many(0.25, 0.25, 2)
@given(data=st.data())
def test_one_stream(shape: str, data: Any) -> None:
    """Over a window of each kind at once, and over whatever window."""
    windows = [data.draw(st.sampled_from(kind)) for kind in KINDS]
    operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM"]))
    play(shape, operator, [[window] for window in windows], data.draw(steps))


@pytest.mark.parametrize("shape", [TWO[0], TWO[3], TWO[5], TWO[9]])
@given(data=st.data())
@settings(max_examples=FEW, deadline=None)
def test_two_streams(shape: str, data: Any) -> None:
    windows = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=2, max_size=2))
    operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM"]))
    play(shape, operator, [windows], data.draw(steps))


@pytest.mark.parametrize("shape", GROUPED)
@given(data=st.data())
@settings(max_examples=max(3, FEW // 3), deadline=None)
def test_sums_over_joins(shape: str, data: Any) -> None:
    windows = data.draw(st.lists(st.sampled_from(sorted(WINDOWS)), min_size=2, max_size=2))
    operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM", "RSTREAM"]))
    options = data.draw(st.sampled_from(["since='start'", "since='start', beyond='drop', revise_for='9us'"]))
    play(shape, operator, [windows], data.draw(steps), options + (", every='1us'" if operator == "RSTREAM" else ""))


def test_a_subscription_carries_the_changes_of_a_relation(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a INTEGER) WITH (event_time='ts')")
        pond.sql("CREATE QUERY q AS SELECT a FROM s [RANGE 2 MICROSECONDS]")
        for t in (1, 2, 9):
            pond.ingest("s", [{"ts": EPOCH + dt.timedelta(microseconds=t), "a": t}])
            pond.drain()
        seen = [tuple(row.values()) for b in pond.subscribe("q", timeout=0.01) for row in b.rows.to_pylist()]
    at = [EPOCH + dt.timedelta(microseconds=t) for t in range(10)]
    assert seen == [(at[1], 1, "+", 0, "+"), (at[2], 2, "+", 0, "+"), (at[4], 1, "-", 0, "+"), (at[5], 2, "-", 0, "+")]


def test_stores_are_shared_and_go_with_their_last_user(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a INTEGER) WITH (event_time='ts')")
        pond.sql("CREATE QUERY wide AS SELECT ISTREAM(count(a) AS n) FROM s [RANGE 9 MICROSECONDS]")
        pond.sql("CREATE QUERY narrow AS SELECT ISTREAM(max(a) AS m) FROM s [ROWS 3]")
        assert len(pond.sql("SHOW SYNOPSES").rows()) == 1
        pond.ingest("s", [{"ts": EPOCH + dt.timedelta(microseconds=t), "a": t} for t in (1, 2, 9)])
        pond.drain()
        # in the wide window lies what the narrow one needs: nothing is read again; the other needs rows of before
        message = pond.sql("CREATE QUERY narrower AS SELECT ISTREAM(sum(a) AS n) FROM s [RANGE 5 MICROSECONDS]").message
        assert "back-filling" not in message
        message = pond.sql("CREATE QUERY older AS SELECT ISTREAM(sum(a) AS n) FROM s [RANGE UNBOUNDED]").message
        assert "back-filling" in message
        pond.ingest("s", [{"ts": EPOCH + dt.timedelta(microseconds=12), "a": 4}])
        pond.drain()
        rows = pond.sql("SELECT n FROM narrower").rows()
        assert rows == [(9,)]  # 9 is in since instant 9, which progress passed after the registration
        assert pond.sql("SELECT n FROM older").rows() == [(12,)]
        with pytest.raises(millpond.StatementError, match="is read by"):
            pond.sql("DROP STREAM s")
        for name in ("wide", "narrow", "narrower", "older"):
            pond.sql(f"DROP QUERY {name}")
        assert pond.sql("SHOW SYNOPSES").rows() == []


def test_idle_streams_do_not_hold_a_query_up(tmp_path: Path) -> None:
    clock = [0]
    with millpond.open(tmp_path / "pond", executor="inline", clock=lambda: clock[0]) as pond:
        for name in "su":
            pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER) WITH (event_time='ts', idle='5 s')")
        pond.sql("CREATE QUERY q AS SELECT ISTREAM(s.a) FROM s [RANGE UNBOUNDED], u [RANGE UNBOUNDED] WHERE s.a = u.a")
        for name, t in (("s", 1), ("u", 2), ("s", 9)):
            pond.ingest(name, [{"ts": EPOCH + dt.timedelta(microseconds=t), "a": 1}])
        pond.drain()
        assert pond.sql("SELECT * FROM q").rows() == []  # progress is 2, of u
        clock[0] = 6_000_000
        pond.ingest("s", [{"ts": EPOCH + dt.timedelta(microseconds=12), "a": 2}])
        pond.drain()
        assert len(pond.sql("SELECT * FROM q").rows()) == 2


def test_a_handle_asks_a_relation(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, a INTEGER) WITH (event_time='ts', lateness='5 us')")
        handle = pond.register("SELECT sum(a) AS total FROM s [RANGE 2 MICROSECONDS]", name="q")
        assert handle.info()["streams"] == ["s"]
        assert handle.info()["columns"][-2:] == [
            {"name": "change", "type": "VARCHAR"},
            {"name": "revision", "type": "BIGINT"},
        ]
        pond.ingest("s", [{"ts": EPOCH + dt.timedelta(microseconds=t), "a": t} for t in (1, 2, 9)])
        pond.drain()
        answer = handle.result()
        assert (answer.now, answer.watermark, answer.final) == (9, 4, False)
        assert answer.table["total"].to_pylist() == [9]
        assert handle.result(as_of="watermark").table["total"].to_pylist() == [3]  # at 3, the last final instant
        assert handle.result(as_of=1).table["total"].to_pylist() == [9]  # epoch 1
        assert pond.sql("SELECT total FROM q").rows() == [(3,)]


def test_rstream_is_registered_from_python_with_its_pace(tmp_path: Path) -> None:
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, x INTEGER) WITH (event_time='ts')")
        with pytest.raises(millpond.StatementError, match="say how often"):
            pond.register("SELECT RSTREAM(x) FROM s [NOW]")
        handle = pond.register("SELECT RSTREAM(x) FROM s [ROWS 1]", every=1_000_000)
        pond.ingest("s", [{"ts": "2026-01-01 00:00:00", "x": 1}, {"ts": "2026-01-01 00:00:02", "x": 2}])
        pond.drain(final=True)
        rows = pond.sql(f'SELECT x FROM "{handle.name}" ORDER BY 1').rows()
    assert rows == [(1,), (1,), (2,)]


def test_a_window_that_holds_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (relational, adhoc_relations):
        monkeypatch.setattr(module, "INPUT_ROWS", 2)
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql("CREATE STREAM s (ts TIMESTAMP, x INTEGER) WITH (event_time='ts')")
        pond.ingest("s", [{"ts": f"2026-01-01 00:00:0{n}", "x": n} for n in range(5)])
        pond.drain()
        assert pond.sql("SELECT count(*) AS n FROM s [RANGE 1 SECOND]").rows() == [(2,)]
        with pytest.raises(millpond.QueryError, match="hold more than 2 rows"):
            pond.sql("SELECT count(*) AS n FROM s [RANGE UNBOUNDED]")
