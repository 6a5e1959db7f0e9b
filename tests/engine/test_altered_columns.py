"""ALTER STREAM: columns that come later, types that become wider, with everything that reads the stream running."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from millpond.commands.execution import performing
from millpond.support.errors import StatementError

Factory = Callable[..., Any]

WIDE = 5_000_000_000

#: Every way in which a standing query keeps what it has seen of column n.
QUERIES = {
    "plain": "SELECT k, sum(n) AS a, max(n) AS b FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k",
    "by_n": "SELECT n, count(*) AS a, 0 AS b FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY n",
    "lists": "SELECT k, list(n) AS a, median(n) AS b FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "grows": "SELECT k, sum(n) AS a, last(n) AS b FROM s [RANGE ALL SLIDE 10 SECONDS] GROUP BY k",
    "of_rows": "SELECT k, sum(n) AS a, min(n) AS b FROM s [PARTITION BY k ROWS 2 SLIDE 1]",
    "lazy": "SELECT k, sum(n) AS a, stddev(n) AS b FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k WITH (state='lazy')",
    "relation": "SELECT ISTREAM(k, n) FROM s [RANGE 10 SECONDS] WHERE n > 0",
    "both": "SELECT sum(n) AS a, count(*) AS b FROM (s UNION ALL t) [RANGE TUMBLING 10 SECONDS]",
}


def rows(*given: tuple[Any, ...], names: tuple[str, ...] = ("ts", "k", "n")) -> list[dict[str, Any]]:
    """Rows with times in seconds."""
    return [dict(zip(names, (f"1970-01-01 00:00:{r[0]:02d}", *r[1:]), strict=True)) for r in given]


def streams(pond: Any) -> None:
    for name in "st":
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k TEXT, n INTEGER) WITH (event_time='ts', lateness='30s')")
    for name, text in QUERIES.items():
        pond.sql(f"CREATE QUERY {name} AS {text}")


def answers(pond: Any) -> dict[str, list[Any]]:
    pond.drain(final=True)
    return {q: pond.sql(f"SELECT * FROM {q}").rows() for q in QUERIES}


def feed(pond: Any, first: bool, stray: bool = False) -> None:
    if first:
        pond.ingest("s", rows((1, "a", 1), (2, "b", -2), (12, "a", 3)))
        pond.ingest("t", rows((1, "a", 10)))
    else:
        pond.ingest("s", rows((3, "a", 5), *([(4, "a", WIDE)] if stray else []), (13, "b", 7), (25, "a", 9)))
        pond.ingest("t", rows((14, "b", 20)))
    pond.step()


@pytest.mark.parametrize("column", ["ADD COLUMN x DOUBLE", "ALTER COLUMN n SET TYPE BIGINT"])
def test_queries_that_run_do_not_notice(inline_pond: Factory, column: str) -> None:
    with inline_pond("same") as pond:
        streams(pond)
        feed(pond, True)
        feed(pond, False)
        expected = answers(pond)
    assert all(expected.values())
    for way in ("before", "behind a restart"):
        pond = inline_pond(way)
        streams(pond)
        feed(pond, True)
        for name in "st":
            pond.sql(f"ALTER STREAM {name} {column}")
        if way != "before":
            pond.close()
            pond = inline_pond(way)
        feed(pond, False, stray="TYPE" in column)
        assert answers(pond) == expected
        if "TYPE" in column:  # the row that only the new type holds: a dead letter of every query that knows the old
            letters = pond.sql("SELECT source, record FROM dead(s)").rows()
            named = {name for source, record in letters if str(WIDE) in record for name in source[6:].split(", ")}
            assert named == set(QUERIES)
            assert pond.sql("SELECT max(n) FROM s").rows() == [(WIDE,)]
        pond.close()


def test_only_one_side_of_a_union_is_wider(inline_pond: Factory) -> None:
    pond = inline_pond()
    streams(pond)
    feed(pond, True)
    pond.sql("ALTER STREAM t ADD COLUMN x TEXT; ALTER STREAM t ALTER COLUMN n SET TYPE HUGEINT")
    pond.ingest("t", [{"ts": "1970-01-01 00:00:05", "k": "c", "n": WIDE}, {"ts": "1970-01-01 00:00:06", "n": 4}])
    assert answers(pond)["both"][0][2:4] == (13, 4)


def test_a_replaced_query_takes_the_new_type_up(inline_pond: Factory) -> None:
    pond = inline_pond()
    streams(pond)
    feed(pond, True)
    said = pond.sql("ALTER STREAM s ALTER COLUMN n SET TYPE BIGINT").message
    assert "plain" in said and "CREATE OR REPLACE QUERY" in said
    pond.sql(f"CREATE QUERY anew WITH (since='start') AS {QUERIES['plain']}")
    feed(pond, False, stray=True)
    pond.sql(f"CREATE OR REPLACE QUERY plain WITH (since='start') AS {QUERIES['plain']}")
    found = answers(pond)
    assert found["plain"][0][2:5] == ("a", WIDE + 6, WIDE)
    assert pond.sql("SELECT * FROM anew").rows() == found["plain"]


def test_row_queries_see_what_was_and_what_is(inline_pond: Factory) -> None:
    pond = inline_pond(eager_rows=1)
    streams(pond)
    pond.sql("CREATE QUERY r AS SELECT k, n FROM s WHERE n > 0")
    feed(pond, True)
    pond.sql("ALTER STREAM s ADD COLUMN x BIGINT")
    new = pond.register("SELECT k, x FROM s WHERE x IS NULL OR x > 2 AND k = 'a'")
    assert len(new.result()) == 3
    pond.ingest("s", rows((4, "a", 1, 3), (5, "a", 1, 2), names=("ts", "k", "n", "x")))
    pond.step()
    assert sorted((r["x"] for r in new.result()), key=str) == [3, None, None, None]
    assert len(pond.sql("INVOKE r").rows()) == 4
    pond.sql("ALTER STREAM s ALTER COLUMN n SET TYPE BIGINT; ALTER STREAM s ALTER COLUMN x SET TYPE DECIMAL(21, 2)")
    pond.ingest("s", rows((6, "c", WIDE, "2.25"), names=("ts", "k", "n", "x")))
    pond.step()
    assert pond.register("SELECT n, x FROM s WHERE n > 3").result().to_pylist() == [{"n": WIDE, "x": pond_decimal()}]
    assert pond.sql("INVOKE r").to_arrow()["n"].to_pylist() == [1, 1, 1, WIDE, 3]
    assert new.result().table.schema.field("x").type == pa.decimal128(21, 2)


def row_queries(pond: Any) -> dict[str, Any]:
    """Row queries that read column n in every way: what they ask for decides differently for the wider type."""
    texts = {
        "all": "SELECT * FROM s",
        "far": f"SELECT n FROM s WHERE n = {WIDE} OR n BETWEEN {WIDE - 1} AND {WIDE + 1}",
        "near": f"SELECT k FROM s WHERE n < {WIDE} AND k = 'a'",
        "what": "SELECT typeof(n) AS t, n FROM s WHERE typeof(n) = 'BIGINT'",
        "sums": "SELECT k, sum(n) AS n FROM s WHERE n <> 2 GROUP BY k ORDER BY k",
        "pairs": "SELECT s.n, t.n AS m FROM s, t WHERE s.n = t.n - 7",
        "either": "SELECT n FROM (s UNION ALL t) WHERE n > 5",
        "paused": "SELECT n FROM s WHERE n > 4",
        "none": "SELECT n FROM s WHERE n > 4",
        "other": "SELECT k FROM s WHERE k = 'a'",
    }
    form = {"all": "complete", "none": "none"}
    return {n: pond.register(t, n if n != "near" else None, materialize=form.get(n, "auto")) for n, t in texts.items()}


def test_row_queries_take_a_wider_type_up(inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their ids, over old rows and new, matched ahead or not, over restarts and a kill in the middle."""
    pond = inline_pond(eager_rows=1)
    streams(pond)
    handles = row_queries(pond)
    handles["paused"].pause()
    feed(pond, True)
    assert all(len(h.result()) < 9 for h in handles.values())  # whatever is kept ready is there
    pond.sql("ALTER STREAM s ADD COLUMN late TEXT")  # in no `*` of before
    register = type(pond._core.register)

    def killed(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:  # the catalog has the new type, the register not yet
        patch.setattr(register, "fit", killed)
        with pytest.raises(MemoryError):
            pond.sql("ALTER STREAM s ALTER COLUMN n SET TYPE BIGINT")
    pond.close()
    pond = inline_pond(eager_rows=1)
    handles = {n: pond.query(h.id) for n, h in handles.items()}
    for name in handles:
        handles[name].info()
    feed(pond, False, stray=True)

    def check() -> None:
        found = {n: h.result().to_pylist() for n, h in handles.items()}
        everything = [1, -2, 5, WIDE, 3, 7, 9]
        assert found["all"] == pond.sql("SELECT ts, k, n FROM s").to_arrow().to_pylist()
        assert sorted(r["n"] for r in found["all"]) == sorted(everything)
        assert found["far"] == [{"n": WIDE}]
        assert len(found["near"]) == 4 == len(found["other"]) - 1
        assert found["what"] == [{"t": "BIGINT", "n": r["n"]} for r in found["all"]]
        assert found["sums"] == [{"k": "a", "n": 18 + WIDE}, {"k": "b", "n": 5}]
        assert found["pairs"] == [{"n": 3, "m": 10}]
        assert sorted(r["n"] for r in found["either"]) == [7, 10, 20, WIDE]  # NOW is that of t
        for name in ("paused", "none"):
            assert sorted(r["n"] for r in found[name]) == [5, 7, 9, WIDE]
        assert handles["paused"].info()["status"] == "paused"
        assert handles["all"].result().table.schema.field("n").type == pa.int64()

    check()
    pond.sql("ALTER STREAM t ALTER COLUMN n SET TYPE BIGINT")  # the pairs and the union once more
    check()
    pond._core.register._compact()
    check()
    pond.close()
    pond = inline_pond(eager_rows=1)
    handles = {n: pond.query(h.id) for n, h in handles.items()}
    check()
    with pytest.raises(StatementError, match=r"row query .sums. cannot be bound .*: no"):
        refuse_sums(pond, monkeypatch)


def refuse_sums(pond: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widen while a query cannot be bound: nothing changes."""
    from millpond.commands.execution import refitting as module

    bind = module._bind

    def fails(binder: Any, text: str) -> Any:
        if "sum(n)" in text:
            raise StatementError("no", text)
        return bind(binder, text)

    monkeypatch.setattr(module, "_bind", fails)
    pond.sql("ALTER STREAM s ALTER COLUMN n SET TYPE HUGEINT")


def pond_decimal() -> Any:
    import decimal

    return decimal.Decimal("2.25")


def test_derived_streams_keep_their_columns(inline_pond: Factory) -> None:
    pond = inline_pond()
    streams(pond)
    pond.sql("CREATE STREAM d AS SELECT * FROM s WHERE k = 'a'")
    feed(pond, True)
    pond.sql("ALTER STREAM s ADD COLUMN x TEXT; ALTER STREAM s ALTER COLUMN n SET TYPE BIGINT")
    feed(pond, False, stray=True)
    pond.drain(final=True)
    found = pond.sql("SELECT * FROM d").to_arrow()
    assert found.column_names == ["ts", "k", "n"] and found["n"].to_pylist() == [1, 5, 3, 9]
    assert ("stream d",) in pond.sql("SELECT source FROM dead(s)").rows()
    with pytest.raises(StatementError, match="derived"):
        pond.sql("ALTER STREAM d ADD COLUMN x TEXT")


def test_files_of_before_and_after(inline_pond: Factory, tmp_path: Path) -> None:
    """What lay in the intake when the column came, archived files, and their compaction."""
    folder = tmp_path / "in"
    folder.mkdir()
    pond = inline_pond(compact_files=2)
    pond.sql(f"CREATE STREAM f (ts TIMESTAMP, n INTEGER) WITH (path='{folder}/*.parquet', event_time='ts')")
    for number in range(4):
        table = pa.table({"ts": pa.array([number], pa.timestamp("s")), "n": [number], "x": [f"x{number}"]})
        pq.write_table(table, folder / f"{number}.parquet")
        if number == 2:
            pond.sql("ALTER STREAM f ADD COLUMN x TEXT; ALTER STREAM f ALTER COLUMN n SET TYPE BIGINT")
        pond.drain()
    expected = [(0, None), (1, None), (2, "x2"), (3, "x3")]
    assert pond.sql("SELECT n, x FROM f ORDER BY ts").rows() == expected
    pond.maintain()
    assert pond.sql("SELECT n, x FROM f ORDER BY ts").rows() == expected
    [archive] = (Path(pond.path) / "streams").iterdir()
    seen = DeltaTable(archive).to_pyarrow_table().sort_by("n").select(["n", "x"]).to_pylist()  # any Delta reader
    assert [(r["n"], r["x"]) for r in seen] == expected
    assert pond.sql("SELECT count(*) FROM f").rows() == [(4,)]


def test_a_kill_between_catalog_and_archive(inline_pond: Factory) -> None:
    """The catalog decides; the table follows when the pond is opened."""
    pond = inline_pond()
    streams(pond)
    feed(pond, True)
    pond.sql("ALTER STREAM s ADD COLUMN x TEXT")
    pond.close()
    archive = next(p for p in (Path(pond.path) / "streams").iterdir() if p.name.startswith("s-"))
    log = sorted((archive / "_delta_log").glob("*.json"))
    assert '"x\\"' in log[-1].read_text() or "metaData" in log[-1].read_text()
    os.unlink(log[-1])
    pond = inline_pond()
    assert "x" in [f.name for f in DeltaTable(archive).schema().fields]
    pond.ingest("s", rows((4, "a", 1, "new"), names=("ts", "k", "n", "x")))
    pond.step()
    assert pond.sql("SELECT x FROM s WHERE x IS NOT NULL").rows() == [("new",)]


def test_checkpoints_of_the_log_know_the_columns(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts')")
    for number in range(52):
        pond.ingest("s", [{"ts": f"1970-01-01 00:01:{number:02d}", "n": number}])
        pond.step()
        if number == 20:
            pond.sql("ALTER STREAM s ADD COLUMN x TEXT")
    pond.close()
    [archive] = (Path(pond.path) / "streams").iterdir()
    assert list((archive / "_delta_log").glob("*.checkpoint.parquet"))
    pond = inline_pond()
    assert pond.sql("SELECT count(*), count(x) FROM s").rows() == [(52, 0)]


def test_a_row_query_that_comes_while_a_column_is_widened(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is bound to the old type, and comes too late for those that the statement binds anew."""
    pond = inline_pond(eager_rows=1)
    streams(pond)
    fitted = performing.fitted
    with ThreadPoolExecutor(1) as other:
        came = []

        def beside(catalogs: Any, queries: Any, stream: Any) -> Any:
            found = fitted(catalogs, queries, stream)
            came.append(other.submit(pond.register, f"SELECT n FROM s WHERE n >= {WIDE}"))
            wait_until(lambda: len(catalogs.register) == 1)
            time.sleep(0.05)  # for it to look whether a column was altered
            return found

        monkeypatch.setattr(performing, "fitted", beside)
        pond.sql("ALTER STREAM s ALTER COLUMN n SET TYPE BIGINT")
        query = came[0].result(timeout=300)
    feed(pond, False, stray=True)
    assert query.result().to_pylist() == [{"n": WIDE}]
    assert query.result().table.schema.field("n").type == pa.int64()


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_query_whose_text_no_longer_fits_says_so(inline_pond: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,w\n1,2\n")
    pond = inline_pond()
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP, n INTEGER) WITH (event_time='ts');
        CREATE TABLE t (n INTEGER, w INTEGER) WITH (path='{tmp_path}/t.csv');
        CREATE QUERY q AS SELECT w, count(*) AS c FROM s [RANGE TUMBLING 1 MINUTE] JOIN t ON s.n = t.n GROUP BY w;
        ALTER STREAM s ADD COLUMN w INTEGER
    """)
    with pytest.raises(
        StatementError, match=r"the text of 'q' does not fit .* now: column 'w' is in s and in t"
    ) as told:
        pond.sql("ALTER QUERY q SET WINDOW [RANGE TUMBLING 2 MINUTES]")
    assert told.value.expected == "s.w or t.w; CREATE OR REPLACE QUERY q says it anew"
    with pytest.raises(StatementError, match="fortnight"):
        pond.sql("ALTER QUERY q SET WINDOW [RANGE TUMBLING 2 fortnights]")
