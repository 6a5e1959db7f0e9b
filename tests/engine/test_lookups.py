"""Windows over a stream joined with tables in one statement: against batch SQL, over versions of tables, its errors."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.manifests.records import read_manifest
from millpond.operators.windowed.lookup_versions import with_version
from millpond.types import TableStretch

START = dt.datetime(2026, 3, 1)
STREAM = "CREATE STREAM s (ts TIMESTAMP, k INTEGER, v INTEGER) WITH (event_time='ts', lateness='20 seconds')"
#: What stands behind FROM s and its window, with what it groups by.
JOINS = {
    "JOIN t ON t.k = s.k": "c",
    "LEFT JOIN t USING (k)": "c",
    "SEMI JOIN t ON t.k = s.k AND t.c > 1": "s.k",
    "ANTI JOIN t USING (k)": "s.k",
    "JOIN t ON t.k > s.k LEFT JOIN u ON u.k = t.k AND u.d = s.v": "t.c, d",
    "ASOF LEFT JOIN t ON t.k <= s.k": "c",
    "CROSS JOIN u WHERE u.k = s.k AND v > 1": "u.d",
}


def moment(second: int) -> dt.datetime:
    return START + dt.timedelta(seconds=second)


def rows_of(found: list[tuple[int, int | None, int]]) -> list[dict[str, Any]]:
    return [{"ts": str(moment(t)), "k": k, "v": v} for t, k, v in found]


def write(path: Path, columns: str, rows: list[tuple[Any, ...]]) -> None:
    text = "".join(",".join("" if v is None else str(v) for v in r) + "\n" for r in rows)
    beside = path.with_suffix(".new")
    beside.write_text(f"{columns}\n{text}")
    os.replace(beside, path)


KEYS = st.one_of(st.none(), st.integers(0, 4))
ROWS = st.lists(st.tuples(st.integers(0, 40), KEYS, st.integers(0, 3)), min_size=1, max_size=14)
TABLE = st.lists(st.tuples(KEYS, st.integers(0, 3)), max_size=6)


@settings(max_examples=2, deadline=None)
@given(ROWS, TABLE, TABLE, st.integers(0, 14), st.sampled_from([(20, 20), (20, 5), (15, 10)]))
def test_windows_of_joined_rows_are_those_of_batch_sql(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int | None, int]],
    t: list[tuple[int | None, int]],
    u: list[tuple[int | None, int]],
    cut: int,
    window: tuple[int, int],
) -> None:
    folder = tmp_path_factory.mktemp("pond")
    t = list({k: (k, c) for k, c in t}.values())  # ASOF has no say which of two equal ones it takes
    write(folder / "t.csv", "k,c", t)
    write(folder / "u.csv", "k,d", u)
    size, slide = window
    db = duckdb.connect()
    for name, columns, found in (("t", ("k", "c"), t), ("u", ("k", "d"), u)):
        db.register(name + "_", pa.table([pa.array([r[n] for r in found], pa.int32()) for n in (0, 1)], columns))
        db.execute(f"CREATE TABLE {name} AS FROM {name}_")
    db.execute("CREATE TABLE s (ts TIMESTAMP, k INTEGER, v INTEGER)")
    db.executemany("INSERT INTO s VALUES (?, ?, ?)", [(moment(a), k, v) for a, k, v in rows])
    with millpond.open(folder / "p", executor="inline", shards=2) as pond:
        pond.sql(f"{STREAM}; CREATE TABLE t (k INTEGER, c INTEGER) WITH (path='{folder}/t.csv');")
        pond.sql(f"CREATE TABLE u (k INTEGER, d INTEGER) WITH (path='{folder}/u.csv')")
        texts = {}
        for number, (join, keys) in enumerate(JOINS.items()):
            join, where, test = join.partition(" WHERE ")
            texts[f"q{number}"] = (
                f"SELECT {keys}, count(*) AS n, sum(v) AS v FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] {join}"
                f"{where}{test} GROUP BY {keys}"
            )
        for name, text in texts.items():
            pond.sql(f"CREATE QUERY {name} AS {text}")
        for some in (rows[:cut], rows[cut:]):
            if some:
                pond.ingest("s", rows_of(some))
                pond.drain()
        filled = list(texts)[::2]  # the others are asked for ad hoc
        pond.sql("; ".join(f"CREATE QUERY late_{n} WITH (since='start') AS {texts[n]}" for n in filled))
        pond.drain(final=True)
        for (name, text), (join, keys) in zip(texts.items(), JOINS.items(), strict=True):
            join, _, test = join.partition(" WHERE ")
            names = ", ".join(k.split(".")[-1] for k in keys.split(", "))
            wanted = db.sql(
                f"""SELECT e, {keys}, count(*), sum(v) FROM (
                    SELECT s.*, unnest(generate_series(
                      time_bucket(INTERVAL '{slide} s', ts, TIMESTAMP '1970-01-01') + INTERVAL '{slide} s',
                      ts + INTERVAL '{size} s', INTERVAL '{slide} s')) AS e FROM s) s {join}
                WHERE {test or "true"} GROUP BY ALL ORDER BY ALL"""
            ).fetchall()
            for answers in (f"FROM {name}", f"FROM late_{name}" if name in filled else f"FROM ({text})"):
                if "(" in answers:
                    found = pond.sql(text).to_arrow()
                    got = db.sql(f"SELECT window_end, {names}, n, v FROM found ORDER BY ALL").fetchall()
                else:
                    got = pond.sql(f"SELECT window_end, {names}, n, v {answers} ORDER BY ALL").rows()
                assert got == wanted, (answers, join)


def test_a_row_sees_the_version_that_was_there_when_its_time_came(tmp_path: Path) -> None:
    """Also a late one, one that is back-filled, one that is invoked, after a restart, and in a repeated epoch."""
    write(tmp_path / "t.csv", "k,c", [(1, 10)])
    select = "SELECT c, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] JOIN t USING (k) GROUP BY c"
    with millpond.open(tmp_path / "p", executor="inline", shards=1) as pond:
        pond.sql(f"{STREAM}; CREATE TABLE t (k INTEGER, c INTEGER) WITH (path='{tmp_path}/t.csv')")
        pond.sql(f"CREATE QUERY q AS {select}")
        pond.ingest("s", rows_of([(1, 1, 1), (15, 1, 2)]))
        pond.drain()
        write(tmp_path / "t.csv", "k,c", [(1, 20)])
        pond.ingest("s", rows_of([(12, 1, 4), (16, 1, 8)]))  # the first is no newer than what was there before
        pond.drain()
        assert "table t: version 2, 1 rows" in str(pond.sql("EXPLAIN q").rows())
    with millpond.open(tmp_path / "p", executor="inline", shards=1) as pond:
        pond.ingest("s", rows_of([(13, 1, 16), (3, 1, 32)]))
        core = pond._core
        epoch = begin_epoch(core, settle=False)
        assert epoch is not None
        assert [s.since > 0 for s in next(iter(read_manifest(core.path, epoch).lookups.values()))] == [False, True]
        run_epoch(core, epoch)
        # INVOKE: the ten seconds up to 16, the last instant that came
        assert sorted(r[2:4] for r in pond.sql("INVOKE q").rows()) == [(10, 22), (20, 8)]
        pond.drain(final=True)
        got = [(r[0].second, *r[1:]) for r in pond.sql("SELECT window_end, c, v FROM q ORDER BY ALL").rows()]
        assert got == [(10, 10, 33), (20, 10, 22), (20, 20, 8)]
        # one that comes now knows of no other version than the last
        assert pond.sql(f"{select} ORDER BY v").rows()[0][2] == 20
        with pytest.raises(millpond.support.errors.StatementError, match="table 't' is read by q"):
            pond.sql("DROP TABLE t")


def test_stretches_of_versions() -> None:
    one, two, three = ({"1": n} for n in (1, 2, 3))
    known = with_version((), one, 5)
    assert with_version(known, one, 9) == known
    later = with_version(known, two, 9)
    assert later[1:] == (TableStretch(10, two),)
    assert with_version(later, three, 9) == (known[0], TableStretch(10, three))  # no row has seen the second


def test_rows_that_fail_go_to_the_dead_letters(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "k,c", [(1, "7"), (2, "x"), (3, "1"), (3, "2")])
    with millpond.open(tmp_path / "p", executor="inline", shards=1) as pond:
        pond.sql(f"{STREAM}; CREATE TABLE t (k INTEGER, c TEXT) WITH (path='{tmp_path}/t.csv')")
        pond.sql(
            "CREATE QUERY q AS SELECT sum(CAST(c AS INTEGER)) AS c FROM s [RANGE TUMBLING 1 HOUR] JOIN t USING (k)"
        )
        pond.sql("CREATE QUERY last AS SELECT count(*) AS n FROM s [ROWS 2 SLIDE 1] JOIN t USING (k)")
        pond.ingest("s", rows_of([(1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 5, 0)]))
        pond.drain(final=True)
        assert pond.sql("SELECT c FROM q").rows() == [(10,)]
        # rows of k 1, 2 and 5 stand in windows of two rows; that of 5 meets nothing
        assert pond.sql("SELECT n FROM last ORDER BY window_end").rows() == [(1,), (2,), (1,)]
        letters = pond.sql("SELECT source, record, reason FROM dead(s) ORDER BY source").rows()
        assert [(a, "k" in b) for a, b, _ in letters] == [("query last", True), ("query q", True)]
        assert "it meets 2 rows of t" in letters[0][2] and "c" not in letters[1][1].split('"')


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("FROM s [RANGE TUMBLING 1 HOUR] FULL JOIN t USING (k)", "FULL JOIN has rows of the table alone", "t USING"),
        ("FROM t LEFT JOIN s [RANGE TUMBLING 1 HOUR] USING (k)", "stands first in FROM", "s ["),
        ("FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] JOIN o ON o.k = s.k", "stands over one stream, and the tables", "o ON"),
        ("FROM s [RANGE TUMBLING 1 HOUR] JOIN (SELECT 1) x ON true", "by their names", "1) x"),
        ("FROM s [RANGE TUMBLING 1 HOUR] JOIN t USING (c)", "'c' is not in what stands before it", "c)"),
        ("FROM s [RANGE TUMBLING 1 HOUR] JOIN t ON t.k = s.k WHERE k > 1", "column 'k' is in s and in t", "k > 1"),
        ("FROM s [RANGE TUMBLING 1 HOUR] JOIN t ON t.k = s.k WHERE t.x > 1", "there is no column 'x' in t", "x > 1"),
        ("FROM s [RANGE TUMBLING 1 HOUR] JOIN t ON t.k = s.k WHERE s.c > 1", "there is no column 'c' in s", "c > 1"),
        ("FROM s [RANGE TUMBLING 1 HOUR] JOIN t [NOW] ON t.k = s.k", "", ""),
        ("FROM s [RANGE TUMBLING 1 HOUR] JOIN q ON q.n = s.k", "a window with SLIDE has answers where", "[RANGE"),
    ],
)
def test_what_cannot_be_joined_is_told_with_its_place(shop: Any, text: str, said: str, at: str) -> None:
    script = f"CREATE QUERY x AS SELECT count(*) {text}"
    with pytest.raises(millpond.support.errors.StatementError) as fault:
        shop.sql(script)
    assert said in fault.value.message
    assert not at or script[fault.value.start or 0 :].startswith(at)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pond")
    write(folder / "t.csv", "k,c", [])
    with millpond.open(folder / "p", executor="inline") as pond:
        pond.sql(f"{STREAM}; {STREAM.replace('STREAM s', 'STREAM o')};")
        pond.sql(f"CREATE TABLE t (k INTEGER, c INTEGER) WITH (path='{folder}/t.csv')")
        pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 HOUR]")
        yield pond


@pytest.mark.parametrize("state", ["eager", "lazy", "adaptive"])
def test_panes_of_joined_rows_in_every_form(inline_pond: Any, tmp_path: Path, state: str) -> None:
    """Keys may be columns of the table."""
    (tmp_path / "names.csv").write_text("k,name\na,A\nb,B\n")
    pond = inline_pond()
    pond.sql(
        f"CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT);"
        f"CREATE TABLE names (k TEXT, name TEXT) WITH (path='{tmp_path}/names.csv');"
        f"CREATE QUERY q WITH (state='{state}') AS SELECT lower(name) AS name, sum(v) AS total"
        f" FROM s [RANGE TUMBLING 1 HOUR] LEFT JOIN names USING (k) GROUP BY lower(name)"
    )
    for hour in range(3):
        pond.ingest("s", [{"ts": f"2026-01-01 0{hour}:{m:02}:00", "k": "abc"[m % 3], "v": m} for m in range(30)])
        pond.drain()
    pond.drain(final=True)
    assert pond.sql("EXPLAIN ANALYZE q").plan is not None
    found = pond.sql("SELECT name, total FROM q").rows()
    sums = [(None, sum(range(2, 30, 3))), ("a", sum(range(0, 30, 3))), ("b", sum(range(1, 30, 3)))]
    assert sorted(found, key=repr) == sorted(3 * sums, key=repr)
