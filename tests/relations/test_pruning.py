"""Rows that no query needs are left out of stores: the logs are what they are where every row is kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.operators.stores import state as stores
from millpond.tables.shard_cache import clear_all
from millpond.testing import VirtualClock
from tests.quick import is_deep, quick_folder
from tests.relations.setting import WINDOWS
from tests.relations.shapes import JOINED, ONE, TWO
from tests.relations.shapes import millpond as text_of
from tests.relations.test_engine import EPOCH

#: Each example runs twice.
FEW = max(6, settings.default.max_examples // 2)

Given = dict[str, list[tuple[int, int | None, int]]]

batch = st.lists(
    st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 1)), st.integers(0, 2)), min_size=1, max_size=3
)
taken = st.dictionaries(st.sampled_from("su"), batch, min_size=1, max_size=2)
steps = st.lists(
    st.one_of(taken, taken, taken, st.sampled_from(["pause", "resume", "create", "restart", 6])), max_size=9
)


@contextmanager
def pruning(always: bool) -> Iterator[None]:
    """Rows that nobody needs are left out in every epoch, or never."""
    before, stores.PRUNED = stores.PRUNED, 0 if always else 10**9
    try:
        yield
    finally:
        stores.PRUNED = before


def log_of(always: bool, queries: list[str], drawn: list[Any], options: str = "") -> dict[str, Any]:
    """What the queries report in a pond that lives through `drawn`: what epochs take, seconds that go by, events."""
    with quick_folder() as folder, pruning(always):
        clock = VirtualClock()
        (folder / "t.csv").write_text("a,name\n1,one\n2,two\n,none\n")

        def opened() -> Any:
            clear_all()
            files = 2 if always else 1000
            return millpond.open(folder / "pond", executor="inline", shards=2, compact_files=files, clock=clock)

        pond = opened()
        try:
            for name in "su":
                pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, a INTEGER, b INTEGER) WITH (event_time='ts'{options})")
            pond.sql(f"CREATE TABLE t (a INTEGER, name TEXT) WITH (path='{folder / 't.csv'}')")
            waiting, status = list(enumerate(queries)), "live"

            def create() -> None:
                n, sql = waiting.pop(0)
                pond.sql(f"CREATE QUERY q{n} AS {sql}")

            create()
            for each in drawn:
                if each == "create":
                    if waiting:
                        create()
                elif isinstance(each, int):
                    clock.advance(each * 1_000_000)
                elif each == "restart":
                    pond.close()
                    pond = opened()
                elif each in ("pause", "resume"):
                    if (each == "pause") == (status == "live"):
                        pond.sql(f"ALTER QUERY q0 {each.upper()}")
                        status = "paused" if each == "pause" else "live"
                else:
                    for name, rows in each.items():
                        shown = [{"ts": EPOCH + dt.timedelta(microseconds=t), "a": a, "b": b} for t, a, b in rows]
                        pond.ingest(name, shown)
                    pond.step()
                # What was left out is looked for again in the next epoch, however little came.
                for key, (opening, held) in stores._kept._kept.items():
                    stores._kept._kept[key] = opening, replace(held, value=replace(held.value, size=0))
            while waiting:
                create()
            if status == "paused":
                pond.sql("ALTER QUERY q0 RESUME")
            pond.drain(final=True)
            return {f"q{n}": pond.sql(f"SELECT * FROM q{n} ALL REVISIONS").rows() for n in range(len(queries))}
        finally:
            pond.close()


def same(queries: list[str], drawn: list[Any], options: str = "") -> dict[str, Any]:
    """The logs, which are the same with every row kept and with none that is not needed."""
    plain = log_of(False, queries, drawn, options)
    assert log_of(True, queries, drawn, options) == plain, queries
    return plain


def at(instant: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=instant)


@pytest.mark.parametrize(
    ("window", "times"),
    [
        ("[ROWS 1]", ([0], [0], [4], [0])),
        ("[ROWS 2]", ([0], [0, 0], [4, 5], [0, 0])),
        ("[PARTITION BY a ROWS 1]", ([0], [4], [0])),
    ],
)
def test_a_late_row_pushes_out_rows_of_its_own_instant(window: str, times: Any) -> None:
    """They were in the window before it came: to that its instant is compared."""
    drawn = [{"s": [(t, 0, 0) for t in each]} for each in times]
    found = same([f"SELECT ISTREAM(a, b) FROM s {window}"], drawn)["q0"]
    assert found and all(row[-2:] == (0, "+") for row in found)


def test_a_late_row_pushes_out_a_row_that_has_joined() -> None:
    drawn: list[Given] = [{"s": [(3, 0, 1)], "u": [(1, 0, 0), (9, 0, 0)]}, {"s": [(9, 1, 1)]}, {"s": [(3, 0, 1)]}]
    text = "SELECT ISTREAM(x.b) FROM s [ROWS 1] x JOIN u [RANGE UNBOUNDED] y ON x.a = y.a"
    assert [row[0] for row in same([text], drawn)["q0"]] == [at(3)]


def test_rows_that_a_selection_has_reported_still_push_others_out() -> None:
    """A late row that is behind `count` later ones of its partition is in the window at no instant."""
    drawn = [{"s": [(5, 0, 0)]}, {"s": [(6, 0, 1)]}, {"s": [(3, 0, 2)]}, {"s": [(9, 0, 0)]}]
    for options in ("", ", late='drop'"):
        found = same(["SELECT ISTREAM(b) FROM s [ROWS 2] WITH (beyond='drop', revise_for='0 s')"], drawn, options)["q0"]
        assert 2 not in [row[1] for row in found]


def test_rows_of_a_pause_push_out_from_the_horizon_on() -> None:
    """Rows that are on time in a stream that was idle are not seen before what the query has answered final."""
    drawn: list[Any] = [
        {"s": [(5, 0, 5), (10, 0, 10)], "u": [(20, 0, 0)]},
        6,
        {"u": [(21, 0, 0)]},
        "pause",
        {"s": [(7, 0, 7)]},
        {"s": [(12, 0, 12)]},
        "resume",
        {"u": [(22, 0, 0)]},
    ]
    text = (
        "SELECT DSTREAM(x.b) FROM s [ROWS 2] x WHERE (SELECT count(*) FROM u [ROWS 1]) < 9"
        " WITH (beyond='drop', revise_for='0 s')"
    )
    found = same([text], drawn, options=", lateness='5 us', idle='5 s'")["q0"]
    assert [row[:2] for row in found] == [(at(12), 5)]


def test_files_are_put_together_without_what_their_rows_take_back() -> None:
    """A file in which a row takes back one of another file still says so when it is one with younger files."""
    found = []
    for files in (1000, 2, 3) if is_deep() else (1000, 2):
        with quick_folder() as folder:

            def opened(folder: Path = folder, files: int = files) -> Any:
                clear_all()  # only what is in files is known
                return millpond.open(folder / "pond", executor="inline", shards=1, compact_files=files)

            pond = opened()
            pond.sql(
                "CREATE STREAM r (ts TIMESTAMP, k TEXT) WITH (event_time='ts'); CREATE STREAM x AS SELECT k,"
                " count(*) AS c FROM r [RANGE TUMBLING 2 MICROSECONDS] GROUP BY k WITH (revisions='retract')"
            )
            for name, window in (("whole", "[RANGE UNBOUNDED]"), ("three", "[ROWS 3]"), ("near", "[RANGE 9 US]")):
                pond.sql(f"CREATE QUERY {name} AS SELECT ISTREAM(count(*) AS n, sum(c) AS c) FROM x {window} y")
            for t in (0, 3, 0, 0, 5, 0, 0, 7, 0, 9, 11, 13, 0, 15, 17):
                pond.ingest("r", [{"ts": at(t), "k": "a"}])
                pond.step()
                pond.step()
                pond.close()
                pond = opened()
            pond.drain(final=True)
            found.append([pond.sql(f"SELECT * FROM {name}").rows() for name in ("whole", "three", "near")])
            pond.close()
    assert all(answers == found[0] for answers in found)
    assert [row[1:3] for row in found[0][0]] == [(n + 1, 7 + n) for n in range(9)]


@given(data=st.data())
@settings(max_examples=FEW)
def test_logs_do_not_depend_on_what_is_left_out(data: Any) -> None:
    texts = []
    for _ in range(data.draw(st.integers(1, 2))):
        shape = data.draw(st.sampled_from((*ONE, *TWO, *JOINED)))
        windows = data.draw(st.lists(st.sampled_from(sorted(w for w in WINDOWS if w)), min_size=3, max_size=3))
        operator = data.draw(st.sampled_from(["ISTREAM", "DSTREAM", ""]))
        kept = data.draw(
            st.sampled_from(["", "", " WITH (beyond='drop', revise_for='0 s')", " WITH (revise_for='2 us')"])
        )
        texts.append(text_of(shape, operator, *windows) + kept)
    options = data.draw(st.sampled_from(["", ", late='drop'", ", lateness='2 us'", ", lateness='3 us', idle='5 s'"]))
    same(texts, data.draw(steps), options)
