"""EXPLAIN as data: one tree from SQL, Python and HTTP, for whatever can be explained; and operators that fail to."""

from __future__ import annotations

import datetime as dt
import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pytest

import millpond
from millpond.operators.registry import KINDS
from millpond.server.serve import serving
from millpond.support.errors import MillpondError, QueryError
from millpond.types.plan_nodes import PlanNode

Factory = Callable[..., Any]

SCRIPT = """
    CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time = 'ts',
        archive = 'replicate(0.5) + summary(SELECT k, max(v) FROM s [RANGE 1 MINUTE TUMBLING] GROUP BY k)');
    CREATE STREAM z (ts TIMESTAMP, k TEXT, w BIGINT) WITH (event_time = 'ts');
    CREATE STREAM d AS SELECT ts, v FROM s WHERE v > 3;
    CREATE STREAM a AS SELECT sum(v) AS t FROM s [RANGE TUMBLING 10 SECONDS];
    CREATE QUERY panes AS SELECT k, avg(v) AS m FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k;
    CREATE QUERY rows AS SELECT sum(v) AS t FROM s [ROWS 3 SLIDE 1];
    CREATE QUERY sessions AS SELECT k, count(*) AS n FROM s [SESSION 5 SECONDS] GROUP BY k;
    CREATE QUERY relation AS SELECT ISTREAM(s.v) FROM s [RANGE 10 SECONDS], z [RANGE 10 SECONDS] WHERE s.k = z.k;
    CREATE QUERY pairs AS SELECT PAIRS(x.v, y.w) FROM s [RANGE 5 SECONDS] x JOIN z [NOW] y ON x.k = y.k;
    CREATE QUERY "over pairs" AS SELECT count(*) AS n FROM
        (SELECT PAIRS(x.v, y.w) FROM s [RANGE 5 SECONDS] x JOIN z [NOW] y ON x.k = y.k) [RANGE TUMBLING 10 SECONDS];
    CREATE QUERY found AS SELECT v FROM s WHERE v > 5 BEGIN NOW - INTERVAL 5 SECONDS END NOW
"""

#: What a query is answered by, by its name.
STANDING = {
    "panes": "panes",
    "rows": "rows",
    "sessions": "sessions",
    "relation": "relation",
    "pairs": "pairs",
    '"over pairs"': "panes",
    "found": "row query",
}

#: Whatever else can be explained.
OTHERS = {
    "s": "stream",
    "d": "stream",
    "a": "stream",
    "SELECT k, sum(v) FROM s [RANGE TUMBLING 5 SECONDS] GROUP BY k": "panes",
    "SELECT sum(v) FROM s [ROWS 9 SLIDE 1]": "rows",
    "SELECT ISTREAM(v) FROM s [RANGE 3 SECONDS]": "relation",
    "SELECT PAIRS(x.v) FROM s [RANGE 5 SECONDS] x JOIN z [NOW] y ON x.k = y.k": "pairs",
    "SELECT v FROM s BEGIN NOW - INTERVAL 5 SECONDS END NOW": "row query",
    "SELECT v FROM s WHERE v > 3": "scan",
    "SELECT count(*) FROM s REDUCE sample(0.5)": "scan",
    "SELECT sum(v) FROM s REDUCE sample(0.5) [RANGE TUMBLING 10 SECONDS]": "panes",
    "SELECT count(*) FROM (SELECT PAIRS(x.v) FROM s [RANGE 5 SECONDS] x JOIN z [NOW] y ON x.k = y.k)"
    " [RANGE TUMBLING 9 SECONDS]": "panes",
    "SELECT t FROM panes, (SELECT 1 AS t)": "tables",
}


@pytest.fixture
def pond(inline_pond: Factory) -> Iterator[Any]:
    """A pond with something of each kind, and rows."""
    pond = inline_pond()
    pond.sql(SCRIPT)
    at = dt.datetime(2026, 1, 1)
    for stream, column in (("s", "v"), ("z", "w")):
        rows = [{"ts": at + dt.timedelta(seconds=i), "k": "ab"[i % 2], column: i} for i in range(40)]
        pond.ingest(stream, rows)
    pond.drain()
    yield pond


def test_one_tree_whichever_way_it_is_asked_for(pond: Any) -> None:
    with serving(pond) as url, millpond.connect(url) as remote:
        for asked, operator in (STANDING | OTHERS).items():
            plan = pond.explain(asked)
            assert plan.operator == operator, asked
            result = pond.sql(f"EXPLAIN {asked}")
            assert result.plan == plan
            assert (
                [line for (line,) in result.rows()] == plan.lines() == str(plan).splitlines() == str(result).split("\n")
            )
            assert remote.explain(asked) == remote.sql(f"EXPLAIN {asked};").plan == plan
            found = _over_http(url, f"EXPLAIN {asked}")
            assert PlanNode.from_dict(found["plan"]) == plan
            assert [row["plan"] for row in found["rows"]] == plan.lines()
            assert not any(" #" in line for line in plan.lines()), "names that nobody has given"
        for name in STANDING:
            name = name.strip('"')
            assert pond.query(name).explain() == remote.query(name).explain() == pond.explain(f'"{name}"')
        assert "plan" not in _over_http(url, "SHOW STREAMS") and pond.sql("SHOW STREAMS").plan is None


def _over_http(url: str, statement: str) -> Any:
    request = urllib.request.Request(
        f"{url}/v1/statements", statement.encode(), {"Content-Type": "application/sql", "Accept": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["results"][0]


def test_what_was_done_stands_with_who_did_it(pond: Any) -> None:
    for name in ("panes", "rows", "relation", "pairs", '"over pairs"'):
        before, plan = pond.explain(name), pond.explain(name, analyze=True)
        assert pond.query(name.strip('"')).explain(analyze=True).operator == plan.operator
        states = [node for node in plan.nodes() if node.operator in ("synopsis", "store")]
        assert states and all(node.value("work") for node in states)
        assert plan.value("answers") and before.value("answers") is None
        assert [node.operator for node in plan.nodes() if node.operator == "epochs"] == ["epochs"]
        assert not any(node.value("work") for node in before.nodes())
    counted = pond.explain("SELECT count(*) FROM s REDUCE sample(0.5)", analyze=True)
    assert [node.value("exact") for node in counted.children] == ["not exact: counts, sums and averages are estimates"]


def test_a_stream_tells_who_takes_its_rows(pond: Any) -> None:
    kinds = [node.operator for node in pond.explain("s").children]
    assert set(kinds) == {"copies", "synopsis", "store", "summary", "row queries"}
    assert pond.explain("d").children[0].value("filter") == '"v" > 3'
    assert pond.explain("a").children[0].operator == "panes"


def test_one_query_is_explained_at_a_time(pond: Any) -> None:
    with serving(pond) as url, millpond.connect(url) as remote:
        for asked in (pond, remote):
            assert asked.explain("SELECT v FROM s WHERE k = ';' ; ").operator == "scan"
            with pytest.raises(QueryError, match="one query is explained at a time"):
                asked.explain("s; DROP QUERY panes")
            with pytest.raises(MillpondError, match="nobody"):
                asked.explain("nobody")
    assert pond.query("panes").info()["status"] == "live"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_who_cannot_explain_itself_spoils_nothing_else(pond: Any, kind: type[Any]) -> None:
    names = ["s", "d", *STANDING]
    before = {name: pond.explain(name) for name in names}
    with ExitStack() as stack:
        for method in ("explain", "explain_stream"):
            stack.enter_context(mock.patch.object(kind, method, _fail))
        stack.enter_context(mock.patch.object(kind, "explain_query", classmethod(_fail)))
        found = {name: pond.explain(name) for name in names}
    for name in names:
        told = {fact for node in found[name].nodes() for fact in node.facts}
        failed = [node for node in found[name].nodes() if node.operator == "failed"]
        assert all("cannot be explained: planted" in str(node) for node in failed)
        assert failed or found[name] == before[name]
        # What its neighbours say, and whether it lives, is there all the same.
        assert name in ("s", "d") or {f for f in before[name].facts if f.name == "status"} <= told
    assert any(found[name] != before[name] for name in names)
    pond.step(force=True)
    assert {q["status"] for q in pond.status()["queries"].values()} == {"live"}


def _fail(*_: Any) -> Any:
    raise RuntimeError("planted")


def test_a_quarantined_query_says_why(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("""
        CREATE STREAM s (ts TIMESTAMP, v TEXT) WITH (event_time = 'ts');
        CREATE QUERY r AS SELECT ISTREAM(sum(CAST(v AS INTEGER)) AS t) FROM s [RANGE UNBOUNDED]
    """)
    pond.ingest("s", [{"ts": "2026-01-01", "v": "many"}, {"ts": "2026-01-02", "v": "1"}])
    pond.drain(final=True)
    plan = pond.explain("r")
    assert (plan.operator, plan.children) == ("relation", ())
    assert (plan.value("status") or "").startswith("quarantined: ")


def test_a_relation_that_is_recomputed_says_at_which_cost_before_it_is_registered(inline_pond: Factory) -> None:
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, v INT); CREATE STREAM z (ts TIMESTAMP, k TEXT, v INT)")
    tops = "SELECT max(v) AS m FROM s [RANGE 9 SECONDS]"
    assert pond.explain(tops).value("cost") == "nothing can be said before there are rows"
    start = dt.datetime(2026, 3, 1, 8)
    for minute in range(2):
        rows = [{"ts": start + dt.timedelta(minutes=minute, seconds=i), "k": "a", "v": i} for i in range(60)]
        pond.ingest("s", rows)
        pond.drain()
    pond.ingest("z", rows[:6])
    pond.drain()
    both = "FROM s [ROWS 7] JOIN z [RANGE UNBOUNDED] ON s.k = z.k GROUP BY s.k"
    # nine seconds of the fifty-nine of a file; epochs of sixty rows
    assert pond.explain(tops).value("cost").startswith("about 9 rows at each instant (9 of s; ")
    assert "an epoch brings about 60 rows, which is up to 120 instants and 1,0" in pond.explain(tops).value("cost")
    counted = pond.explain(f"SELECT s.k, count(DISTINCT z.v) AS n {both}").value("cost")
    assert counted.startswith("about 13 rows at each instant (7 of s, 6 of z; ")
    assert pond.explain(f"SELECT s.k, count(z.v) AS n {both}").value("cost") is None
    pond.register(tops, name="tops")
    assert pond.explain("tops").value("cost") is None
