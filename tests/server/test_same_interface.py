"""The same tests against an open pond and against one behind a server: nothing tells them apart."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millpond
from millpond.client.remote_pond import RemotePond
from millpond.server.serve import serving
from millpond.support.errors import MillpondError, PondError, QueryError, SourceError, StatementError
from tests.server.conftest import SCRIPT, rows


@pytest.fixture(params=["embedded", "remote"])
def pond(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A pond with stream s and query q."""
    with millpond.open(str(tmp_path / "pond"), executor="inline") as opened:
        opened.sql(SCRIPT)
        if request.param == "embedded":
            yield opened
        else:
            with serving(opened) as url, millpond.connect(url) as remote:
                yield remote


def test_scripts_give_a_result_per_statement(pond: Any) -> None:
    results = list(pond.run("SHOW STREAMS; SELECT 1 AS one; DROP QUERY q"))
    assert [r.kind for r in results] == ["rows", "rows", "message"]
    assert results[1].rows() == [(1,)] and results[1].statement == "SELECT 1 AS one"
    assert results[2].message == "query q dropped" and results[2].table is None
    assert pond.sql("").message == "nothing to do"


def test_parameters_are_values(pond: Any) -> None:
    values = {"t": "it's", "at": dt.datetime(2026, 3, 1, 8, tzinfo=dt.UTC), "d": Decimal("1.20"), "l": [1, None]}
    [row] = pond.sql("SELECT $t AS t, $at AS at, typeof($d) AS d, $l AS l, $at + INTERVAL 1 HOUR AS h", values).rows()
    at = dt.datetime(2026, 3, 1, 8)
    assert row == ("it's", at, "DECIMAL(3,2)", [1, None], at + dt.timedelta(hours=1))
    assert pond.sql("SELECT ? + ? AS n", [1, 2]).rows() == [(3,)]
    pond.sql("CREATE QUERY p AS SELECT v FROM s WHERE v > $n", {"n": 5})
    assert pond.sql("SELECT count(*) AS n FROM s WHERE v IN $vs", {"vs": [-1]}).rows() == [(0,)]
    with pytest.raises(StatementError) as caught:
        pond.sql("SELECT $t AS t, vv FROM s WHERE $t = 'x'", {"t": "a longer text"})
    assert "SELECT $t AS t, vv" in str(caught.value) and caught.value.column == 17
    with pytest.raises(StatementError, match="a name stands here"):
        pond.sql("SELECT v FROM $t", {"t": "s"})
    with pytest.raises(StatementError, match="constant"):
        pond.sql("SELECT $t", {"t": object()})


def test_what_came_before_a_wrong_statement_has_happened(pond: Any) -> None:
    seen = []
    with pytest.raises(StatementError):
        for result in pond.run("SELECT 1; SELECT nothing FROM s; SELECT 2"):
            seen.append(result.rows())
    assert seen == [[(1,)]]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("SELECT vv FROM s", "did you mean 'v'?"),
        ("SELECT v FROM\n  nothing", "line 2, column 3"),
        ("DROP QUERY p", "'p'"),
        ("SELEC 1", "did you mean 'SELECT'?"),
    ],
)
def test_errors_have_their_places(pond: Any, script: str, text: str) -> None:
    with pytest.raises(StatementError) as caught:
        pond.sql(script)
    assert text in str(caught.value) and "^" in str(caught.value)
    assert caught.value.text == script and caught.value.end > caught.value.start


def test_rows_come_back(pond: Any) -> None:
    assert pond.ingest("s", rows(0, 25)) == 0
    assert pond.ingest("s", pa.Table.from_pylist(rows(25, 30))) == 1
    assert pond.ingest("s", {"ts": [dt.datetime(2026, 1, 1, 0, 1)], "v": [7]}) == 2
    assert pond.ingest("s", []) is None
    told = pond.drain()
    assert (told.rows, told.streams[0].total_rows, told.problems) == (31, 31, [])
    assert [q.waits_for for q in told.queries if q.waits_for] == [str(told).split(" for ")[1].split("\n")[0]]
    assert pond.sql("DRAIN").report.rows == 0
    assert pond.sql("SELECT count(*) AS n, sum(v) AS v FROM s").rows() == [(31, 442)]
    assert pond.status()["streams"]["s"]["rows"] == 31


def test_a_key_is_taken_once(pond: Any) -> None:
    assert pond.ingest("s", rows(0, 5), key="once") == 0
    assert pond.ingest("s", rows(0, 5), key="once") == 0
    pond.drain()
    assert pond.sql("SELECT count(*) FROM s").rows() == [(5,)]


@pytest.mark.parametrize(
    ("stream", "data", "text"),
    [
        ("t", [{"v": 1}], "there is no stream 't'; CREATE STREAM t"),
        ("s", [{"w": 1}], "has no column 'w'"),
        ("s", [{"v": "many"}], "row 0, column 'v' of stream 's': 'many'"),
        ("s", {"v": [1], "k": ["a", "b"]}, "different lengths"),
        ("s", 7, "cannot ingest a int"),
    ],
)
def test_what_does_not_fit_is_refused(pond: Any, stream: str, data: Any, text: str) -> None:
    with pytest.raises(SourceError, match=text.replace("(", r"\(")):
        pond.ingest(stream, data)


def test_a_stream_may_be_made_anew(pond: Any) -> None:
    pond.ingest("s", rows(0, 5))
    pond.sql("DROP STREAM s CASCADE; CREATE STREAM s (ts TIMESTAMP, w DOUBLE) WITH (event_time='ts')")
    pond.ingest("s", [{"ts": "2026-01-01", "w": 0.5}])
    pond.drain()
    assert pond.sql("SELECT w FROM s").rows() == [(0.5,)]


def test_an_ended_stream_takes_no_rows(pond: Any) -> None:
    pond.ingest("s", rows(0, 5))
    pond.drain(final=True)
    with pytest.raises(SourceError, match="has ended"):
        pond.ingest("s", rows(5, 6))


def test_a_query_is_invoked(pond: Any) -> None:
    pond.ingest("s", rows(0, 25))
    pond.drain()
    query = pond.query("q")
    answer = query.result()
    assert query.name == "q" and answer.epoch == 1 and answer.exact
    invoked = pond.sql("INVOKE q").to_arrow()
    assert answer.to_pylist() == invoked.to_pylist() and len(answer) == invoked.num_rows > 0
    assert pa.table(answer).schema == invoked.schema
    assert dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=answer.now) == dt.datetime(2026, 1, 1, 0, 0, 24)
    for as_of in (("epoch", 1), "watermark", dt.datetime(2026, 1, 1, 0, 0, 20)):
        assert len(query.result(as_of=as_of)) > 0
    with pytest.raises(MillpondError):
        query.result(as_of=("epoch", 99))


def test_plans_are_trees(pond: Any) -> None:
    plan = pond.query("q").explain()
    assert plan == pond.explain("q") == pond.sql("EXPLAIN q").plan
    assert plan.value("window") == "range 10s, slide 10s, origin 1970-01-01 00:00:00"
    assert [child.operator for child in pond.explain("q", analyze=True).children] == ["synopsis", "epochs"]
    with pytest.raises(MillpondError, match="'nobody'"):
        pond.explain("nobody")


def test_a_query_is_found_paused_and_dropped(pond: Any) -> None:
    query = pond.query("q")
    assert pond.query(query.id).name == "q"
    query.pause()
    assert pond.query("q").info()["status"] == "paused"
    query.resume()
    assert pond.query("q").info()["status"] == "live"
    query.drop()
    with pytest.raises(QueryError, match="'q'"):
        pond.query("q")


def test_selections_are_registered(pond: Any) -> None:
    pond.ingest("s", rows(0, 30))
    pond.drain()
    one = pond.register("SELECT k, v FROM s WHERE v < 3", "one")
    many = pond.register_many([f"SELECT v FROM s WHERE v = {n}" for n in range(10)])
    assert one.name == "one" and [h.name for h in many] == [f"#{h.id}" for h in many]
    assert one.result().to_pylist() == [{"k": "c", "v": 0}, {"k": "a", "v": 1}, {"k": "b", "v": 2}]
    assert [h.result().to_pylist() for h in many] == [[{"v": n}] for n in range(10)]
    assert pond.query(many[3].id).result().to_pylist() == [{"v": 3}]
    many[3].drop()
    with pytest.raises(QueryError):
        pond.query(many[3].id)
    with pytest.raises(StatementError):
        pond.register("SELECT w FROM s WHERE v < 3")
    with pytest.raises(MillpondError):
        pond.register("SELECT v FROM s", "one")


def test_a_selection_has_a_window(pond: Any) -> None:
    pond.ingest("s", rows(0, 60))
    pond.drain()
    query = pond.register("SELECT v FROM s WHERE v >= 0 BEGIN NOW - INTERVAL 5 SECONDS END NOW")
    assert [r["v"] for r in query.result().to_pylist()] == [54, 55, 56, 57, 58, 59]
    answer = query.result(begin=dt.datetime(2026, 1, 1, 0, 0, 2), end=dt.datetime(2026, 1, 1, 0, 0, 4))
    assert [r["v"] for r in answer.to_pylist()] == [2, 3, 4]
    answer = query.result(begin="NOW - INTERVAL 1 SECONDS")
    assert [r["v"] for r in answer.to_pylist()] == [58, 59]


@pytest.mark.parametrize("materialize", ["auto", "partial", "complete", "none"])
def test_every_kind_of_selection(pond: Any, materialize: str) -> None:
    pond.sql("CREATE STREAM t (ts TIMESTAMP, k TEXT, w BIGINT) WITH (event_time='ts')")
    pond.ingest("s", rows(0, 20))
    pond.ingest("t", [{"ts": r["ts"], "k": r["k"], "w": 2 * r["v"]} for r in rows(0, 20)])
    pond.drain()
    expected: dict[str, list[tuple[Any, ...]]] = {
        "SELECT DISTINCT k FROM s ORDER BY k DESC LIMIT 2": [("c",), ("b",)],
        "SELECT v * 2 AS w FROM s WHERE k LIKE 'a%' AND (v > 15 OR v = 1)": [(2,), (32,), (38,)],
        "SELECT k, max(v) AS v FROM s WHERE v < 9 GROUP BY k ORDER BY k": [("a", 7), ("b", 8), ("c", 6)],
        "SELECT count(*) AS n FROM s BEGIN NOW - 3 ROWS END NOW": [(3,)],
        "SELECT v FROM s BEGIN '2026-01-01 00:00:02' END '2026-01-01 00:00:04'": [(2,), (3,), (4,)],
        "SELECT v, w FROM s, t WHERE v = w AND v > 15": [(16, 16), (18, 18)],
        "SELECT v, w FROM s JOIN t ON v > w + 17 BEGIN NOW - 1 SECOND END NOW FOR s BEGIN '2026-01-01' END NOW FOR t": [
            (18, 0),
            (19, 0),
        ],
    }
    for text, found in expected.items():
        query = pond.register(text, materialize=materialize)
        for _ in range(2):
            assert [tuple(row.values()) for row in query.result().to_pylist()] == found
        info = query.info()
        assert info["options"]["materialize"] == materialize and info["text"] == text and info["kind"] == "rows"
        query.pause()
        assert query.info()["status"] == "paused" and len(query.result()) == len(found)
        query.resume()
        query.drop()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"as_of": "yesterday"}, "an instant such as '2026-01-01 12:00:00'"),
        ({"as_of": ("second", 1)}, "pass 'watermark'"),
        ({"as_of": 2.5}, "pass 'watermark'"),
        ({"as_of": ("epoch", 99)}, "epoch 99 is not kept"),
        ({"begin": dt.timedelta(seconds=5)}, "begin = datetime.timedelta"),
        ({"end": 2.5}, "end = 2.5: pass an instant"),
        ({"begin": True}, "begin = True: pass an instant"),
        ({"begin": "NOW - 5"}, "A unit of time is missing"),
        ({"end": "NOW + 5 ROWS"}, "counts back from NOW"),
    ],
)
def test_wrong_moments_and_windows(pond: Any, arguments: dict[str, Any], text: str) -> None:
    pond.ingest("s", rows(0, 5))
    pond.drain()
    query = pond.register("SELECT v FROM s WHERE v >= 0")
    with pytest.raises((QueryError, StatementError), match=text):
        query.result(**arguments)


def test_a_wrong_form_is_refused(pond: Any) -> None:
    for register in (lambda: pond.register("SELECT v FROM s", materialize="some"),
                     lambda: pond.register_many(["SELECT v FROM s"], materialize="some")):  # fmt: skip
        with pytest.raises(QueryError, match="option 'materialize' cannot be 'some'; expected 'auto'"):
            register()


def test_rows_of_a_selection_are_followed(pond: Any) -> None:
    query = pond.register("SELECT v FROM s WHERE v % 2 = 0", "even")
    pond.ingest("s", rows(0, 5))
    pond.drain()
    batches = list(query.subscribe(since=f"{query.id}:0:0", timeout=0.2))
    assert [r["v"] for b in batches for r in b.rows.to_pylist()] == [0, 2, 4]
    pond.ingest("s", rows(5, 9))
    pond.drain()
    rest = [r["v"] for b in query.subscribe(since=batches[-1].cursor, timeout=0.2) for r in b.rows.to_pylist()]
    assert rest == [6, 8]
    replaced = pond.sql("CREATE OR REPLACE QUERY even AS SELECT v FROM s WHERE v > 100")
    assert replaced.message.endswith("version 2") and len(pond.query(query.name).result()) == 0


def test_subscriptions_go_on_from_a_cursor(pond: Any) -> None:
    pond.ingest("s", rows(0, 25))
    pond.drain()
    batches = list(pond.subscribe("q", timeout=0.2))
    pond.ingest("s", rows(25, 45))
    pond.drain()
    rest = list(pond.subscribe("q", batches[-1].cursor, timeout=0.2))
    whole = list(pond.query("q").subscribe(timeout=0.2))
    parts = [r for b in batches + rest for r in b.rows.to_pylist()]
    assert parts == [r for b in whole for r in b.rows.to_pylist()] and len(parts) > 3
    assert [b.cursor for b in batches + rest] == [b.cursor for b in whole]
    middle = f"{pond.query('q').id}:{whole[0].epoch}:1"
    assert next(pond.subscribe("q", middle)).rows.num_rows == whole[0].rows.num_rows - 1


def test_wrong_subscriptions(pond: Any) -> None:
    with pytest.raises(QueryError, match="nothing"):
        next(pond.subscribe("nothing"))
    with pytest.raises(MillpondError, match="cursor"):
        next(pond.subscribe("q", "1:2"))
    with pytest.raises(QueryError, match="is of query 99"):
        next(pond.subscribe("q", "99:1:0"))


def test_definitions(pond: Any) -> None:
    assert [c["name"] for c in pond.describe("s")["columns"]] == ["ts", "k", "v"]
    with pytest.raises(QueryError, match="there is no 'p'"):
        pond.describe("p")


def test_a_closed_pond_says_so(pond: Any) -> None:
    pond.close()
    with pytest.raises(PondError, match="closed"):
        pond.sql("SHOW STREAMS")


def test_times_from_the_first_year_to_the_last(pond: Any) -> None:
    pond.sql("CREATE STREAM far (ts TIMESTAMP, v BIGINT) WITH (event_time='ts')")
    texts = ["SELECT v FROM far", "SELECT count(*) AS v FROM far [RANGE TUMBLING 5 SECONDS]"]
    handles = [pond.register(text) for text in texts]
    pond.ingest("far", [{"ts": dt.datetime(1, 1, 1), "v": 1}])
    pond.drain()
    for handle in handles:  # the window begins before the year 1
        assert (
            handle.result().table["v"].to_pylist() == [1] and len(pond.sql(f'INVOKE "{handle.name}"').to_arrow()) == 1
        )
    pond.ingest("far", [{"ts": dt.datetime.max, "v": 1}])
    pond.drain()
    assert len(handles[0].result(begin=dt.datetime.min, end=dt.datetime.max)) == 2
    assert [len(h.result(as_of=1)) for h in handles] == [1, 1] and [len(h.result()) for h in handles] == [2, 1]
    assert handles[0].result(begin="NOW - INTERVAL 10000000 DAYS").to_pylist() == [{"v": 1}] * 2


def test_a_client_brings_no_code() -> None:
    pond = RemotePond("http://127.0.0.1:9")
    with pytest.raises(PondError, match=r"millpond.open\(folder\).register_function"):
        pond.register_function("f", len, arguments=["TEXT"])
    with pytest.raises(PondError, match="window_kinds="):
        pond.register_window_kind("months", object())
