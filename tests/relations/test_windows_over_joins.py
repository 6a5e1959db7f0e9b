"""Windows over joins of streams equal windows over the oracle's pairs, for every kind of join and every life."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millpond
from tests.oracle.pairs import Window, pairs
from tests.relations.test_pairs import KINDS, TESTS, TUMBLING, WINDOWS, Story, batch, micros

FEW = max(4, settings.default.max_examples // 4)
RANGE, SLIDE = 4, 2

steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("su"), batch),
        st.tuples(st.sampled_from("su"), batch),
        st.sampled_from([("epoch", None), ("restart", None), ("create", None), ("pause", None), ("resume", None)]),
    ),
    min_size=3,
    max_size=10,
)  # fmt: skip
sliding = st.tuples(st.sampled_from(sorted(WINDOWS)), st.sampled_from(sorted(WINDOWS)))
windows = st.one_of(sliding, st.just(("", "[RANGE TUMBLING 4 MICROSECONDS]")))
Answer = dict[tuple[int, Any], tuple[int, int | None]]


def windowed(found: Any) -> Answer:
    """(end of the window, key of the first side) -> (pairs, sum of the other side's keys) of every window."""
    groups: dict[tuple[int, Any], list[Any]] = defaultdict(list)
    for (at, row), count in found.items():
        end = (at // SLIDE + 1) * SLIDE
        while end - RANGE <= at:
            groups[end, row[1]] += [row[3] if len(row) > 3 else None] * count
            end += SLIDE
    return {k: (len(v), sum(x for x in v if x is not None) if any(x is not None for x in v) else None)
            for k, v in groups.items()}  # fmt: skip


def answers(pond: Any, name: str = "q") -> Answer:
    rows = pond.sql(f"SELECT window_end, k, n, total FROM {name}").rows()
    return {(micros(end) or 0, k): (n, total) for end, k, n, total in rows}


@settings(max_examples=FEW, deadline=None)
@given(st.sampled_from(sorted(KINDS)), windows, st.sampled_from(sorted(TESTS)), steps,
       st.sampled_from(["revise", "drop"]), st.booleans())  # fmt: skip
def test_windows_over_a_join_are_windows_over_its_pairs(
    kind: str, behind: tuple[str, str], test: str, drawn: Any, late: str, own: bool
) -> None:
    other, condition = "s" if own else "u", test
    if kind.startswith("asof"):
        behind = ("[NOW]", behind[1] if behind[1] in WINDOWS else "[RANGE 2 MICROSECONDS]")
        test = "a.k = b.k"
        condition = f"{test} AND a.ts >= b.ts"
    total = "CAST(NULL AS BIGINT)" if kind in ("semi", "anti") else "sum(b.k)"
    sql = (
        f"SELECT a.k, count(*) AS n, {total} AS total FROM (s {behind[0]} a {KINDS[kind]} {other} {behind[1]} b"
        f" ON {condition}) [RANGE {RANGE} MICROSECONDS SLIDE {SLIDE} MICROSECONDS] GROUP BY a.k"
    )
    options = "since='start'" + (", beyond='drop', revise_for='3 microseconds'" if late == "revise" else "")
    forms: tuple[Window, Window]
    forms = (TUMBLING, TUMBLING) if "TUMBLING" in behind[1] else (WINDOWS[behind[0]], WINDOWS[behind[1]])
    with tempfile.TemporaryDirectory() as folder:
        story = Story(
            Path(folder), f"CREATE QUERY q AS {sql} WITH ({options})", late, 3 if late == "revise" else 0, own
        )
        for what, given_rows in drawn:
            story.step(what, given_rows)
        story.step("create", None)
        story.step("resume", None)
        story.epoch(final=True)
        inputs = (story.rows["s"], story.rows[other])
        expected = windowed(pairs(kind, inputs, forms, TESTS[test]))
        assert answers(story.pond) == expected
        story.pond.close()


# -- lives -------------------------------------------------------------------------------------------------------------

MINUTE = dt.timedelta(minutes=1)
START = dt.datetime(2026, 3, 1, 8)
JOIN = '("order" [RANGE 30 MINUTES] o JOIN payment [NOW] p ON p.id = o.id)'
STREAMS = """
    CREATE STREAM "order" (ts TIMESTAMP, id INTEGER, item TEXT) WITH (event_time='ts', lateness='10 minutes');
    CREATE STREAM payment (ts TIMESTAMP, id INTEGER, amount INTEGER) WITH (event_time='ts', lateness='10 minutes');
    CREATE STREAM visit (ts TIMESTAMP, id INTEGER) WITH (event_time='ts', lateness='10 minutes');
"""
ITEMS = ["tea", "rice", "salt"]


def rows_of(seed: int, count: int = 120) -> dict[str, list[dict[str, Any]]]:
    """Orders, payments and visits of six hours, none of them later than is announced."""
    random = Random(seed)
    times = sorted(random.randrange(360) for _ in range(count))
    found: dict[str, list[dict[str, Any]]] = {"order": [], "payment": [], "visit": []}
    for number, minute in enumerate(times):
        found["order"].append({"ts": START + minute * MINUTE, "id": number, "item": random.choice(ITEMS)})
        for name in ("payment", "visit"):
            if random.random() < 0.7:
                ts = START + (minute + random.randrange(45)) * MINUTE
                found[name].append({"ts": ts, "id": number} | ({"amount": number} if name == "payment" else {}))
    for rows in found.values():
        rows.sort(key=lambda r: r["ts"] + random.randrange(10) * MINUTE)
    return found


def feed(pond: Any, rows: dict[str, list[dict[str, Any]]], start: int, end: int) -> None:
    """Ingest what happens in some minutes, an epoch for each half hour."""
    for minute in range(start, end, 30):
        low, high = START + minute * MINUTE, START + (minute + 30) * MINUTE
        for name, each in rows.items():
            some = [r for r in each if low <= r["ts"] < high]
            if some:
                pond.ingest(name, some)
        pond.drain()


def batch_sql(rows: dict[str, list[dict[str, Any]]], sql: str) -> list[tuple[Any, ...]]:
    """What DuckDB answers over all rows."""
    db = duckdb.connect()
    for name, each in rows.items():
        db.register(name, pa.Table.from_pylist(each))
    return sorted(db.execute(sql).fetchall(), key=str)


#: Pairs of orders and payments, and the hour that each counts in.
HOURS = """
    SELECT time_bucket(INTERVAL 1 HOUR, p.ts) + INTERVAL 1 HOUR AS hour, item, count(*), sum(amount)
    FROM "order" o JOIN payment p ON p.id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 30 MINUTE
    GROUP BY ALL
"""


def hourly(pond: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(pond.sql(f"SELECT window_end, item, n, total FROM {name}").rows(), key=str)


def inner_names(pond: Any) -> list[str]:
    return [s.name for s in pond._core.catalog.streams.values() if s.is_inner]


def test_registered_late_it_answers_what_it_would_have_answered(inline_pond: Any) -> None:
    pond, rows = inline_pond(), rows_of(1)
    pond.sql(STREAMS)
    feed(pond, rows, 0, 180)
    text = f"SELECT item, count(*) AS n, sum(amount) AS total FROM {JOIN} [RANGE TUMBLING 1 HOUR] GROUP BY item"
    said = pond.sql(f"CREATE QUERY open AS {text}")
    assert "back-filling" in repr(said)
    pond.sql(f"CREATE QUERY two AS {text} WITH (since='2026-03-01 10:00:00')")
    pond.sql(f"CREATE QUERY whole AS {text} WITH (since='start')")
    feed(pond, rows, 180, 240)
    pond.sql(f"CREATE QUERY later AS {text}")  # what it needs is there
    assert len(inner_names(pond)) == 3
    feed(pond, rows, 240, 420)
    pond.drain(final=True)
    expected = batch_sql(rows, HOURS)
    assert hourly(pond, "whole") == expected
    assert hourly(pond, "two") == [r for r in expected if r[0] > dt.datetime(2026, 3, 1, 10)]
    # Progress was at least 40 minutes behind the last row: the hour that was open then is the first.
    assert hourly(pond, "open") == [r for r in expected if r[0] > dt.datetime(2026, 3, 1, 10)]
    assert hourly(pond, "later") == [r for r in expected if r[0] > dt.datetime(2026, 3, 1, 11)]


def test_late_rows_revise_windows_and_take_back_who_was_alone(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(STREAMS)
    left = JOIN.replace("JOIN", "LEFT JOIN")
    pond.sql(f"""
        CREATE QUERY q AS SELECT count(*) AS n, count(amount) AS paid FROM {left} [RANGE TUMBLING 1 HOUR]
          WITH (beyond='drop', revise_for='3 hours');
    """)
    pond.ingest("order", [{"ts": START + m * MINUTE, "id": m, "item": "tea"} for m in (0, 10, 200)])
    pond.ingest("payment", [{"ts": START + m * MINUTE, "id": i, "amount": None} for m, i in ((5, 0), (200, 9))])
    pond.drain()
    assert pond.sql("SELECT n, paid, revision FROM q").rows() == [(2, 0, 0)]
    pond.ingest("payment", [{"ts": START + 30 * MINUTE, "id": 10, "amount": 1}])
    pond.drain()
    assert pond.sql("SELECT n, paid, revision FROM q").rows() == [(2, 1, 1)]
    pond.ingest("payment", [{"ts": START + 31 * MINUTE, "id": 10, "amount": 1}])
    pond.drain()
    assert pond.sql("SELECT n, paid, revision FROM q").rows() == [(3, 2, 2)]
    assert pond.sql("INVOKE q AS OF TIMESTAMP '2026-03-01 08:30:00'").rows()[0][2:4] == (2, 1)
    with pytest.raises(millpond.StatementError, match="can only become shorter"):
        pond.sql("ALTER QUERY q SET revise_for = '2 days'")


def test_queries_share_a_join_and_it_goes_with_the_last_of_them(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(STREAMS)
    text = f"SELECT item, sum(amount) AS total, count(*) AS n FROM {JOIN} [RANGE TUMBLING 1 HOUR] GROUP BY item"
    pond.sql(f"CREATE QUERY one AS {text}; CREATE QUERY two AS {text.replace('1 HOUR', '2 HOURS')};")
    assert inner_names(pond) == ["pairs of order and payment #4"]
    assert "shared with two" in repr(pond.sql("EXPLAIN one"))
    shown = "".join(str(pond.sql(f"SHOW {what}").rows()) for what in ("STREAMS", "QUERIES", "WATERMARKS", "ARCHIVE"))
    assert "#4" not in shown and "one" in shown
    with pytest.raises(millpond.StatementError, match="stream 'payment' is read by one, two"):
        pond.sql("DROP STREAM payment")
    for statement in ('DROP STREAM "{}"', 'SELECT * FROM "{}"', 'EXPLAIN "{}"', 'ALTER QUERY "{}" PAUSE'):
        with pytest.raises(millpond.StatementError, match="there is no"):
            pond.sql(statement.format("pairs of order and payment #4"))
    with pytest.raises(millpond.StatementError, match="is taken"):
        pond.sql(f"CREATE QUERY one AS {text.replace('30 MINUTES', '20 MINUTES')}")
    with pytest.raises(millpond.support.errors.QueryError, match="is taken"):
        pond.register(text.replace("30 MINUTES", "20 MINUTES"), name="one")
    assert len(inner_names(pond)) == 1, "what failed leaves nothing"
    pond.sql(f"CREATE OR REPLACE QUERY one AS {text.replace('30 MINUTES', '20 MINUTES')}")
    assert len(inner_names(pond)) == 2
    pond.sql("DROP QUERY two")
    assert len(inner_names(pond)) == 1
    pond.sql(f"CREATE STREAM hours AS {text}; DROP STREAM hours")
    assert len(inner_names(pond)) == 1
    handle = pond.register(text.replace("1 HOUR", "3 HOURS"))
    assert handle.info()["streams"] == ["order", "payment"]
    assert repr(pond.sql("DROP STREAM payment CASCADE")) == "stream payment dropped, with 2 queries"
    assert inner_names(pond) == [] and not pond._core.catalog.queries and not pond._core.catalog.stores


@pytest.mark.parametrize("seed", [3, 4])
def test_tables_three_streams_and_intervals(inline_pond: Any, tmp_path: Path, seed: int) -> None:
    rows = rows_of(seed)
    (tmp_path / "items.csv").write_text("item,kind\ntea,drink\nrice,food\n")
    pond = inline_pond()
    pond.sql(
        STREAMS
        + f"""
        CREATE TABLE item (item TEXT, kind TEXT) WITH (path='{tmp_path}/items.csv');
        CREATE QUERY kinds AS
          SELECT kind, count(*) AS n, sum(amount) AS total
          FROM ("order" [RANGE 30 MINUTES] o JOIN payment [NOW] p ON p.id = o.id LEFT JOIN item i ON i.item = o.item)
               [RANGE 2 HOURS SLIDE 1 HOUR]
          WHERE amount > 5 GROUP BY kind;
        CREATE QUERY seen AS
          SELECT o.item, count(*) AS n, sum(amount) AS total
          FROM ({JOIN} [RANGE 10 MINUTES] JOIN visit [RANGE 5 MINUTES] v ON v.id = o.id) [RANGE TUMBLING 1 HOUR]
          GROUP BY o.item;
        CREATE QUERY together AS
          SELECT item, count(*) AS n, sum(amount) AS total
          FROM "order" o JOIN payment [RANGE TUMBLING 1 HOUR] p USING (id) GROUP BY item;
    """
    )
    feed(pond, rows, 0, 420)
    pond.drain(final=True)
    pairs_of = """SELECT o.id, o.item, amount, p.ts AS tp FROM "order" o JOIN payment p
                  ON p.id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 30 MINUTE"""
    assert hourly(pond, "seen") == batch_sql(rows, f"""
        SELECT time_bucket(INTERVAL 1 HOUR, greatest(tp, ts)) + INTERVAL 1 HOUR, item, count(*), sum(amount)
        FROM ({pairs_of}) q
        JOIN visit v ON v.id = q.id AND v.ts BETWEEN tp - INTERVAL 5 MINUTE AND tp + INTERVAL 10 MINUTE
        GROUP BY ALL""")  # fmt: skip
    assert hourly(pond, "together") == batch_sql(rows, """
        SELECT time_bucket(INTERVAL 1 HOUR, p.ts) + INTERVAL 1 HOUR, item, count(*), sum(amount)
        FROM "order" o JOIN payment p ON p.id = o.id AND date_trunc('hour', p.ts) = date_trunc('hour', o.ts)
        GROUP BY ALL""")  # fmt: skip
    found = sorted(pond.sql("SELECT window_end, kind, n, total FROM kinds").rows(), key=str)
    assert found == batch_sql(rows, f"""
        SELECT time_bucket(INTERVAL 1 HOUR, tp) + INTERVAL 1 HOUR * (1 + later), kind, count(*), sum(amount)
        FROM ({pairs_of} WHERE amount > 5) q
        LEFT JOIN (VALUES ('tea', 'drink'), ('rice', 'food')) i(item, kind) ON i.item = q.item, range(2) r(later)
        GROUP BY ALL""")  # fmt: skip


def test_pairs_of_pairs_stand_on_either_side_and_nest(inline_pond: Any) -> None:
    """Four streams; a stream joined with pairs; pairs joined with pairs."""
    rng, start, pond = Random(3), dt.datetime(2026, 1, 1), inline_pond()
    rows: dict[str, list[dict[str, Any]]] = {n: [] for n in "abcd"}
    ab = "(a [RANGE 60 SECONDS] JOIN b [RANGE 30 SECONDS] ON a.k = b.k) [RANGE 60 SECONDS]"
    for name in rows:
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, k INTEGER, v INTEGER) WITH (event_time='ts', lateness='1 hour')")
    pond.sql(f"""
        CREATE QUERY four AS SELECT a.k, count(*) AS n, sum(d.v) AS total
          FROM (({ab} JOIN c [RANGE 20 SECONDS] ON c.k = a.k) [RANGE 45 SECONDS] JOIN d [NOW] ON d.k = a.k)
               [RANGE TUMBLING 5 MINUTES] GROUP BY a.k;
        CREATE QUERY behind AS SELECT c.k, count(*) AS n, sum(b.v) AS total
          FROM (c [RANGE 20 SECONDS] JOIN {ab} ON c.k = b.k) [RANGE TUMBLING 5 MINUTES] GROUP BY c.k;
        CREATE QUERY pairwise AS SELECT p.k, count(*) AS n, sum(q.v) AS total
          FROM ((SELECT PAIRS(a.k) FROM a [RANGE 1 MINUTE] JOIN b [RANGE 30 SECONDS] ON a.k = b.k) [RANGE 1 MINUTE] p
                JOIN (SELECT PAIRS(c.k, d.v) FROM c [RANGE 20 SECONDS] JOIN d [NOW] ON c.k = d.k) [RANGE 45 SECONDS] q
                  ON p.k = q.k) [RANGE TUMBLING 5 MINUTES] GROUP BY p.k;
    """)
    for _ in range(4):
        for name, seen in rows.items():
            new = [
                {"ts": start + dt.timedelta(seconds=rng.randrange(600)), "k": rng.randrange(4), "v": rng.randrange(9)}
                for _ in range(15)
            ]
            seen += new
            pond.ingest(name, new)
        pond.step()
    pond.drain(final=True)
    with duckdb.connect() as db:
        for name, seen in rows.items():
            db.register(name, pa.Table.from_pylist(seen))
        db.execute("""
            CREATE VIEW ab AS SELECT a.k, b.v, greatest(a.ts, b.ts) AS t FROM a JOIN b
              ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 30 SECOND AND a.ts + INTERVAL 60 SECOND;
            CREATE VIEW cd AS SELECT c.k, d.v, greatest(c.ts, d.ts) AS t FROM c JOIN d
              ON c.k = d.k AND d.ts BETWEEN c.ts AND c.ts + INTERVAL 20 SECOND;
            CREATE VIEW abc AS SELECT ab.k, ab.v, greatest(ab.t, c.ts) AS t FROM ab JOIN c
              ON ab.k = c.k AND c.ts BETWEEN ab.t - INTERVAL 20 SECOND AND ab.t + INTERVAL 60 SECOND;
            CREATE VIEW four AS SELECT abc.k, d.v, d.ts AS t FROM abc JOIN d
              ON abc.k = d.k AND d.ts BETWEEN abc.t AND abc.t + INTERVAL 45 SECOND;
            CREATE VIEW behind AS FROM abc;
            CREATE VIEW pairwise AS SELECT ab.k, cd.v, greatest(ab.t, cd.t) AS t FROM ab JOIN cd
              ON ab.k = cd.k AND cd.t BETWEEN ab.t - INTERVAL 45 SECOND AND ab.t + INTERVAL 60 SECOND;
        """)
        for name in ("four", "behind", "pairwise"):
            bucket = "time_bucket(INTERVAL 5 MINUTE, t) + INTERVAL 5 MINUTE"
            expected = db.execute(f'SELECT {bucket}, k, count(*), sum(v) FROM "{name}" GROUP BY ALL').fetchall()
            found = pond.sql(f'SELECT window_end, k, n, total FROM "{name}"').rows()
            assert sorted(found) == sorted(expected) and len(found) > 4, name


def test_a_crash_before_the_query_is_registered_leaves_nothing(tmp_path: Path) -> None:
    """A stream without a name is recorded with the query that it is for; if only its line got to disk, it goes."""
    with millpond.open(tmp_path / "pond", executor="inline") as pond:
        pond.sql(STREAMS)
        pond.sql(f"CREATE QUERY q AS SELECT count(*) FROM {JOIN} [RANGE TUMBLING 1 HOUR]")
        assert len(inner_names(pond)) == 1
    log = tmp_path / "pond" / "catalog" / "events.jsonl"
    *lines, last = log.read_bytes().splitlines(keepends=True)
    assert json.loads(last)["do"] == "create_query"
    log.write_bytes(b"".join(lines) + last[:20])
    with millpond.open(tmp_path / "pond", executor="inline") as again:
        assert inner_names(again) == [] and not again._core.catalog.queries


def test_pairs_that_fail_stop_the_query_that_asks_for_them(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(STREAMS)
    failing = JOIN.replace("(", "(SELECT PAIRS(CAST(item || amount AS INTEGER) AS v) FROM ")
    pond.sql(f"CREATE QUERY q AS SELECT sum(v) AS s FROM {failing} [RANGE TUMBLING 1 HOUR] AS x")
    pond.ingest("order", [{"ts": START, "id": 1, "item": "tea"}])
    pond.ingest("payment", [{"ts": START, "id": 1, "amount": 1}])
    pond.drain()
    [shown] = [r for r in pond.sql("SHOW QUERIES").to_arrow().to_pylist()]
    assert (shown["query"], shown["status"], shown["stream"]) == ("q", "quarantined", "order, payment")
    assert "tea1" in shown["reason"]
    pond.sql(
        f"CREATE OR REPLACE QUERY q AS SELECT count(*) AS s FROM {JOIN} [RANGE TUMBLING 1 HOUR] WITH (since='start')"
    )
    pond.drain(final=True)
    assert pond.sql("SELECT s FROM q").rows() == [(1,)]


def test_what_happens_below_the_window_is_told_by_the_names_of_queries(inline_pond: Any) -> None:
    """Nobody can look up, drop or replace a name that a query's own stream has."""
    pond = inline_pond()
    pond.sql(STREAMS)
    pond.sql(f"CREATE QUERY q AS SELECT sum(amount) AS total FROM {JOIN} [RANGE TUMBLING 1 HOUR]")
    said = repr(pond.sql("ALTER STREAM payment ALTER COLUMN amount TYPE BIGINT"))
    assert "; q goes on with INTEGER" in said and "pairs of" not in said
    with pytest.raises(
        millpond.StatementError,
        match="kept its rows for ever",
    ):
        pond.sql("ALTER STREAM payment SET (retention='1 day')")
    pond.ingest("order", [{"ts": START, "id": 1, "item": "tea"}])
    pond.ingest("payment", [{"ts": START, "id": 1, "amount": 5_000_000_000}])
    pond.drain()
    text = f"CREATE QUERY r AS SELECT sum(amount % 7) AS total FROM {JOIN} [RANGE TUMBLING 1 HOUR] WITH (since='start')"
    pond.sql(text)
    pond.drain(final=True)
    assert [r[1] for r in pond.sql("SELECT * FROM dead(payment)").rows()] == ["query q"]
    assert pond.sql("SELECT total FROM r").rows() == [(5_000_000_000 % 7,)]


@pytest.mark.parametrize("second", ["JOIN", "LEFT JOIN"])
def test_who_was_alone_is_taken_back_through_two_joins(inline_pond: Any, second: str) -> None:
    """Such rows are half an hour older than the late one, which is as late as may be: the join over them takes them."""
    pond, random = inline_pond(), Random(0)
    pond.sql(f"""
        CREATE STREAM a (ts TIMESTAMP, k INTEGER) WITH (event_time='ts');
        CREATE STREAM b (ts TIMESTAMP, k INTEGER, y INTEGER) WITH (event_time='ts');
        CREATE STREAM c (ts TIMESTAMP, k INTEGER, z INTEGER) WITH (event_time='ts');
        CREATE QUERY q AS
          SELECT count(*) AS n, count(y) AS ys, count(z) AS zs
          FROM ((a [RANGE 30 MINUTES] LEFT JOIN b [NOW] ON a.k = b.k) [RANGE 20 MINUTES]
                {second} c [RANGE 10 MINUTES] ON c.k = a.k) [RANGE TUMBLING 30 MINUTES]
          WITH (since='start', beyond='drop', revise_for='20 minutes');
        CREATE QUERY r AS
          SELECT ISTREAM(a.k, y) FROM (a [RANGE 30 MINUTES] LEFT JOIN b [NOW] ON a.k = b.k) [RANGE 15 MINUTES]
          WITH (since='start', beyond='drop', revise_for='20 minutes');
    """)
    rows: dict[str, list[dict[str, Any]]] = {"a": [], "b": [], "c": []}
    for end in range(15, 165, 15):  # each ends with a row that says how far its stream is
        for name, value in (("a", {}), ("b", {"y": 1}), ("c", {"z": 1})):
            minutes = [end - 15 + random.randrange(-19, 15) for _ in range(random.randrange(1, 4))]
            some = [{"ts": START + m * MINUTE, "k": random.randrange(2)} | value for m in minutes]
            pond.ingest(name, [*some, {"ts": START + end * MINUTE, "k": 7} | value])
            rows[name] += [*some, {"ts": START + end * MINUTE, "k": 7} | value]
        pond.drain()
    pond.drain(final=True)
    met = """SELECT a.k, y, coalesce(b.ts, a.ts) AS t FROM a
             LEFT JOIN b ON b.k = a.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 30 MINUTE"""
    assert sorted(pond.sql("SELECT window_end, n, ys, zs FROM q").rows(), key=str) == batch_sql(rows, f"""
        SELECT time_bucket(INTERVAL 30 MINUTE, greatest(t, c.ts)) + INTERVAL 30 MINUTE, count(*), count(y), count(z)
        FROM ({met}) p {second} c
        ON c.k = p.k AND c.ts BETWEEN t - INTERVAL 10 MINUTE AND t + INTERVAL 20 MINUTE GROUP BY ALL""")  # fmt: skip
    assert sorted(pond.sql("SELECT at, k, y FROM r").rows(), key=str) == batch_sql(rows, f"SELECT t, k, y FROM ({met})")


def test_a_stream_without_a_name_takes_nobodys(inline_pond: Any) -> None:
    pond = inline_pond()
    pond.sql(STREAMS)
    taken = [f"pairs of order and payment #{n}" for n in range(1, 12)]
    for name in taken[:6]:
        pond.sql(f"CREATE STREAM \"{name}\" (ts TIMESTAMP, item TEXT, amount INTEGER) WITH (event_time='ts')")
    for name in taken[6:]:
        pond.sql(f'CREATE QUERY "{name}" AS SELECT id FROM payment BEGIN NOW - INTERVAL 1 HOUR END NOW')
    pond.sql(f"CREATE QUERY q AS SELECT sum(amount) AS total FROM {JOIN} [RANGE TUMBLING 1 HOUR]")
    assert not {*inner_names(pond)} & {*taken}
    pond.ingest("order", [{"ts": START, "id": 1, "item": "tea"}])
    pond.ingest("payment", [{"ts": START, "id": 1, "amount": 5}])
    pond.drain(final=True)
    assert pond.sql("SELECT total FROM q").rows() == [(5,)]


WRONG = {
    'SELECT count(*) FROM ("order" o JOIN payment [NOW] p ON p.id = o.id) [RANGE TUMBLING 1 HOUR]': '"order" o',
    f"SELECT o.itm, count(*) FROM {JOIN} [RANGE TUMBLING 1 HOUR] GROUP BY 1": "itm",
    f"SELECT id, count(*) FROM {JOIN} [RANGE TUMBLING 1 HOUR] GROUP BY 1": "id",
    f"SELECT nosuch, count(*) FROM {JOIN} [RANGE TUMBLING 1 HOUR] GROUP BY 1": "nosuch",
    f"SELECT sum(item) FROM {JOIN} [RANGE TUMBLING 1 HOUR]": "sum",
    f"SELECT count(*) FROM {JOIN}": JOIN[1:-1].replace(" [RANGE 30 MINUTES]", ""),
    'SELECT count(*) FROM (SELECT item FROM "order") [RANGE TUMBLING 1 HOUR]': "item",
    'SELECT item FROM "order" WHERE id IN (SELECT id FROM (payment) [RANGE TUMBLING 1 HOUR])': "[RANGE",
    "SELECT count(*) FROM visit [RANGE TUMBLING 1 HOUR] v JOIN payment [RANGE TUMBLING 2 HOURS] p ON true": "paym",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_stand_at_what_is_wrong(inline_pond: Any, text: str) -> None:
    pond = inline_pond()
    pond.sql(STREAMS)
    with pytest.raises(millpond.StatementError) as found:
        pond.sql(f"CREATE QUERY q AS {text}")
    error = found.value
    assert error.text[error.start :].startswith(WRONG[text][:4]), error
    assert inner_names(pond) == []


ORDERS = 'SELECT PAIRS(o.id) FROM "order" [NOW] o'
HOURLY = ORDERS.replace("NOW", "RANGE TUMBLING 1 HOUR")
PAIRS_ERRORS = {
    f"{ORDERS} JOIN payment [NOW] p ON o.item = p.id": ("is a text and", "o.item = p.id"),
    f"{ORDERS}, payment [NOW] p WHERE p.id = item": ("is a text and", "p.id = item"),
    f"{ORDERS} JOIN payment [NOW] p USING (id) JOIN visit [NOW] v ON v.id = o.id": ("here are 3", "v ON"),
    f"{HOURLY} JOIN payment [RANGE TUMBLING 2 HOURS] p USING (id)": ("cut differently", "p USING"),
    f"{ORDERS} JOIN payment [NOW] p ON o.id IN (SELECT 1)": ("PAIRS joins two", "1)"),
    f"{ORDERS} JOIN payment [NOW] p USING (id) GROUP BY o.id": ("needs many", "o.id"),
}  # fmt: skip


@pytest.mark.parametrize("text", PAIRS_ERRORS)
def test_errors_of_pairs_stand_at_the_part_that_is_wrong(inline_pond: Any, text: str) -> None:
    pond = inline_pond()
    pond.sql(STREAMS)
    message, place = PAIRS_ERRORS[text]
    with pytest.raises(millpond.StatementError, match=message) as found:
        pond.sql(f"CREATE QUERY q AS {text}")
    assert found.value.text[found.value.start :].startswith(place), found.value
    assert found.value.expected
