"""Whatever a query's own part of the work raises is that query's failure: it is quarantined, and the pond goes on."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from millpond.catalog import Catalog
from millpond.engine.control import epoch, loop
from millpond.manifests.quarantine import Failures
from millpond.operators.panes.operator import PanesOperator
from millpond.operators.windowed import needs
from millpond.support.errors import EngineError, QueryError
from millpond.synopses import connection
from millpond.types import to_json
from tests.engine.lives_of_two import KINDS, PLANTED, Life, entries, planted

Factory = Callable[..., Any]


def at(seconds: float) -> dt.datetime:
    return dt.datetime(2026, 1, 1) + dt.timedelta(seconds=seconds)


def made(inline_pond: Factory, name: str = "pond", **settings: Any) -> Any:
    """A pond with a stream `t` and the query `good` over it."""
    pond = inline_pond(name, **settings)
    pond.sql("CREATE STREAM t (ts TIMESTAMP, k INTEGER, x TEXT, big BIGINT) WITH (event_time='ts')")
    pond.sql("CREATE QUERY good AS SELECT count(*) AS n FROM t [RANGE TUMBLING 5 SECONDS]")
    return pond


def take(pond: Any, *rows: tuple[float, str]) -> None:
    """Rows (seconds, x) as one epoch."""
    values = [{"ts": at(t), "k": int(t) % 3, "x": x, "big": 2**62 if x == "two" else int(t)} for t, x in rows]
    pond.ingest("t", values)
    pond.drain()


def statuses(pond: Any) -> dict[str, tuple[str, str]]:
    """Status and reason of every query."""
    return {row["query"]: (row["status"], row["reason"]) for row in pond.sql("SHOW QUERIES").table.to_pylist()}


def goods(pond: Any) -> list[tuple[Any, ...]]:
    return sorted(pond.sql("SELECT window_end, n FROM good").rows())


# -- back-fills --------------------------------------------------------------------------------------------------------

#: Queries that cannot be back-filled over a row with x = 'two'.
FAILING = {
    "unbounded sum": "SELECT sum(CAST(x AS INTEGER)) AS v FROM t [RANGE UNBOUNDED]",
    "nested": "SELECT v + 1 AS w FROM (SELECT CAST(x AS INTEGER) AS v FROM t [ROWS 3]) u",
    "min": "SELECT min(CAST(x AS INTEGER)) AS v FROM t [RANGE 1 HOUR]",
    "join": ("SELECT ISTREAM(a.x) FROM t [RANGE UNBOUNDED] a JOIN t [RANGE UNBOUNDED] b ON CAST(a.x AS INTEGER) = b.k"),
    "grouped join": (
        "SELECT a.k, sum(CAST(b.x AS INTEGER)) AS s FROM t [RANGE UNBOUNDED] a JOIN t [RANGE UNBOUNDED] b ON a.k = b.k"
        " GROUP BY a.k"
    ),
    "pairs of both": (
        "SELECT PAIRS(CAST(a.x || b.x AS INTEGER) AS y) FROM t [RANGE 1 HOUR] a JOIN t [RANGE 1 HOUR] b ON a.k = b.k"
    ),
    "window": "SELECT CAST('no ' || max(x) AS INTEGER) AS v FROM t [RANGE TUMBLING 5 SECONDS]",
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_back_fill_that_fails_is_its_querys_failure(inline_pond: Factory, tmp_path: Path, kind: str) -> None:
    pond = made(inline_pond)
    take(pond, (1, "1"), (2, "two"), (20, "3"))
    pond.sql(f"CREATE QUERY bad WITH (since='start') AS {FAILING[kind]}")
    pond.drain()
    status, reason = statuses(pond)["bad"]
    assert status == "quarantined" and reason.startswith("it cannot be back-filled: ")
    take(pond, (30, "30"), (31, "31"), (40, "40"))
    assert [n for _, n in goods(pond)] == [2, 1, 2]
    pond.close()
    pond = inline_pond("pond")
    pond.drain()
    with pytest.raises(QueryError, match="quarantined: it cannot be back-filled"):
        pond.sql("INVOKE bad")
    pond.sql("DROP QUERY bad")
    take(pond, (50, "50"))
    assert [n for _, n in goods(pond)] == [2, 1, 2, 1]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT PAIRS(a.x, CAST(b.x AS INTEGER) AS y) FROM t [RANGE 1 HOUR] a JOIN t [RANGE 1 HOUR] b ON a.k = b.k",
        "SELECT sum(CAST(x AS INTEGER)) AS y FROM t [ROWS 2 SLIDE 1]",
        "SELECT sum(CAST(x AS INTEGER)) AS y FROM t [RANGE TUMBLING 5 SECONDS]",
    ],
)
def test_rows_on_which_an_expression_fails_are_dead_letters_of_a_back_fill(inline_pond: Factory, select: str) -> None:
    """As they are of a query that was there when they came."""
    found = []
    for way in ("live", "past"):
        pond = made(inline_pond, way)
        if way == "live":
            pond.sql(f"CREATE QUERY bad AS {select}")
        take(pond, (1, "1"), (2, "two"), (20, "3"))
        if way == "past":
            pond.sql(f"CREATE QUERY bad WITH (since='start') AS {select}")
        pond.drain(final=True)
        assert statuses(pond)["bad"] == ("live", "")
        letters = pond.sql("SELECT source, record FROM dead(t)").rows()
        found.append((sorted(pond.sql("SELECT y FROM bad").rows(), key=repr), letters))
    assert found[0] == found[1]
    assert len(found[0][1]) == 1 and '"two"' in found[0][1][0][1]


# -- ponds that were poisoned ------------------------------------------------------------------------------------------


def test_a_pond_with_an_option_that_makes_no_sense_opens(inline_pond: Factory) -> None:
    """Ways in that did not check recorded such options; each epoch failed, after reopening too."""
    pond = made(inline_pond)
    take(pond, (1, "1"))
    pond.sql("CREATE QUERY bad AS SELECT sum(k) AS v FROM t [RANGE TUMBLING 5 SECONDS]")
    core = pond._core
    standing = core.catalog.query("bad")
    options = to_json(standing.definition.options) | {"since": "2024-05-01"}
    core.catalogs.log.record({"do": "set_options", "id": standing.id, "options": options})
    pond.close()
    pond = inline_pond("pond")
    take(pond, (20, "2"))
    status, reason = statuses(pond)["bad"]
    assert status == "quarantined" and "'str'" in reason
    assert [n for _, n in goods(pond)] == [1]
    pond.sql("DROP QUERY bad")


def test_a_failure_is_remembered_when_a_crash_comes_before_the_quarantine(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pond = made(inline_pond)
    pond.sql("CREATE QUERY bad AS SELECT sum(CAST(x AS INTEGER)) AS v FROM t [RANGE UNBOUNDED]")
    with monkeypatch.context() as patch:
        patch.setattr(epoch, "quarantine", crash)
        with pytest.raises(KeyboardInterrupt):
            take(pond, (1, "1"), (2, "two"), (20, "3"))
    assert statuses(pond)["bad"][0] == "live"
    pond.close()
    pond = inline_pond("pond")
    take(pond, (30, "4"))
    assert statuses(pond)["bad"][0] == "quarantined"


def crash(_log: Any, reasons: dict[str, str], where: str = "") -> bool:
    """Die as soon as there is something to be recorded."""
    if reasons:
        raise KeyboardInterrupt
    return False


# -- whose failure it is -----------------------------------------------------------------------------------------------


def test_what_no_query_is_to_blame_for_fails_the_epoch(inline_pond: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    pond = made(inline_pond)

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    pond.ingest("t", [{"ts": at(1), "k": 1}, {"ts": at(9), "k": 1}])
    with monkeypatch.context() as patch:
        patch.setattr(PanesOperator, "merge", full)
        with pytest.raises(EngineError, match="No space left"):
            pond.step()
    pond.drain(final=True)
    assert statuses(pond)["good"] == ("live", "") and [n for _, n in goods(pond)] == [1, 1]


def test_one_of_two_queries_that_share_state_fails_alone(inline_pond: Factory) -> None:
    pond = made(inline_pond)
    failing = "count(*) AS n, CAST('no' || count(*) AS INTEGER) AS e"
    pond.sql(f"CREATE QUERY bad AS SELECT {failing} FROM t [RANGE TUMBLING 5 SECONDS]")
    catalog = pond._core.catalog
    assert catalog.query("good").synopsis == catalog.query("bad").synopsis
    take(pond, (1, "1"), (20, "3"))
    assert statuses(pond) == {"good": ("live", ""), "bad": ("quarantined", statuses(pond)["bad"][1])}
    assert "'no1'" in statuses(pond)["bad"][1] and [n for _, n in goods(pond)] == [1]


def test_needs_of_one_query_do_not_fail_those_that_share_its_state(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pond = made(inline_pond, compact_files=2)
    good = "SELECT count(*) AS n FROM t [RANGE TUMBLING 5 SECONDS]"
    pond.sql(f"CREATE QUERY bad WITH (revise_for='77 seconds') AS {good}")
    real = needs.spans_of

    def fake(query: Any, options: Any, least: int) -> int:
        if options.revise_for == 77_000_000:
            raise RuntimeError(PLANTED)
        return real(query, options, least)

    take(pond, (1, "1"), (20, "3"))
    monkeypatch.setattr(needs, "spans_of", fake)
    take(pond, (30, "3"), (2, "3"))
    take(pond, (40, "3"))
    assert statuses(pond) == {"good": ("live", ""), "bad": ("quarantined", PLANTED)}
    pond.drain(final=True)
    assert [n for _, n in goods(pond)] == [2, 1, 1, 1]


def test_an_error_that_breaks_a_connection_is_met_by_nobody_else(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB refuses everything after it: who asks for the connection gets another one."""
    pond = made(inline_pond)
    pond.sql("CREATE QUERY bad AS SELECT k, max(x) AS n FROM t [RANGE TUMBLING 5 SECONDS] GROUP BY k")
    pond.sql("CREATE QUERY also AS SELECT ISTREAM(x) FROM t [NOW]")
    real = PanesOperator.advance

    def breaks(db: Any, spec: Any, state: Any, closing: Any) -> Any:
        if closing.query.keys:  # the query `bad`
            connection().close()
            raise duckdb.FatalException("FATAL Error: planted")
        return real(db, spec, state, closing)

    monkeypatch.setattr(PanesOperator, "advance", staticmethod(breaks))
    take(pond, (1, "1"), (20, "3"))
    assert {q: s for q, (s, _) in statuses(pond).items()} == {"good": "live", "bad": "quarantined", "also": "live"}
    assert [n for _, n in goods(pond)] == [1] and pond.sql("SELECT x FROM also").rows() == [("1",)]


def test_rows_of_a_derived_stream_that_fails_are_put_aside(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millpond.operators.derived import operator

    pond = made(inline_pond)
    pond.sql("CREATE STREAM passed AS SELECT ts, x FROM t WHERE k < 9")
    take(pond, (1, "1"))

    def fails(*_: Any) -> Any:
        raise RuntimeError(PLANTED)

    with monkeypatch.context() as patch:
        patch.setattr(operator, "pass_rows", fails)
        take(pond, (20, "2"))
    take(pond, (30, "3"))
    assert pond.sql("SELECT x FROM passed ORDER BY ts").rows() == [("1",), ("3",)]
    assert pond.sql("SELECT reason, source FROM dead(t)").rows() == [(PLANTED, "stream passed")]
    assert [n for _, n in goods(pond)] == [1, 1]


def test_a_summary_whose_synopsis_fails_is_made_by_upkeep(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pond = inline_pond("pond")
    design = "plain + summary(SELECT k, count(*) FROM t [RANGE 5 SECONDS TUMBLING] GROUP BY k)"
    pond.sql(
        f"CREATE STREAM t (ts TIMESTAMP, k INTEGER, x TEXT, big BIGINT) WITH (event_time='ts', archive='{design}')"
    )
    with monkeypatch.context() as patch:
        patch.setattr(PanesOperator, "mapper", crash_when_asked)
        take(pond, (1, "1"), (2, "2"))
    summary = next(iter(pond._core.catalog.summaries.values()))
    assert summary.owner == "" and not pond._core.catalog.synopses
    take(pond, (3, "2"))
    pond.maintain()
    assert len(pond._core.storage.summaries.segments) == 2
    counted = "SELECT k, count(*) AS n FROM t [RANGE 5 SECONDS TUMBLING] GROUP BY k"
    pond.sql(f"CREATE QUERY q WITH (since='start') AS {counted}")
    pond.drain(final=True)
    assert sorted(pond.sql("SELECT k, n FROM q").rows()) == [(0, 1), (1, 1), (2, 1)]


def crash_when_asked(*_: Any) -> Any:
    raise RuntimeError(PLANTED)


# -- afterwards --------------------------------------------------------------------------------------------------------


def test_a_quarantined_query_is_not_paused_and_made_anew_by_create_or_replace(inline_pond: Factory) -> None:
    pond = made(inline_pond)
    pond.sql("CREATE QUERY bad AS SELECT sum(CAST(x AS INTEGER)) AS v FROM t [RANGE UNBOUNDED]")
    take(pond, (1, "1"), (2, "two"), (20, "3"))
    take(pond, (30, "5"))
    assert statuses(pond)["bad"][0] == "quarantined"
    for action in ("PAUSE", "RESUME"):
        with pytest.raises(QueryError, match="is quarantined"):
            pond.sql(f"ALTER QUERY bad {action}")
    mended = "SELECT sum(TRY_CAST(x AS INTEGER)) AS v FROM t [RANGE UNBOUNDED]"
    pond.sql(f"CREATE OR REPLACE QUERY bad WITH (since='start') AS {mended}")
    pond.drain(final=True)
    assert statuses(pond)["bad"] == ("live", "") and pond.sql("SELECT v FROM bad").rows() == [(9,)]


def test_a_quarantined_query_keeps_no_state(inline_pond: Factory) -> None:
    pond = made(inline_pond, compact_files=2)
    failing = "k, max(x) AS n, CAST('no' || count(*) AS INTEGER) AS e"
    pond.sql(f"CREATE QUERY bad AS SELECT {failing} FROM t [RANGE TUMBLING 1 DAY] GROUP BY k")
    owner = pond._core.catalog.query("bad").synopsis
    take(pond, (1, "1"), (90_000, "3"))
    assert statuses(pond)["bad"][0] == "quarantined"
    for t in range(3, 9):
        take(pond, (90_000 + t, "3"))
    assert owner not in pond._core.telemetry.reporter.sizes.of(pond._core.storage.state.segments)


def test_upkeep_that_fails_for_one_part_goes_on_with_the_others(
    inline_pond: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millpond.engine.jobs import maintenance
    from millpond.manifests.epochs import Epochs

    pond, done = made(inline_pond), []

    def fails(*_: Any) -> None:
        raise RuntimeError(PLANTED)

    monkeypatch.setattr(maintenance, "maintain_summaries", fails)
    monkeypatch.setattr(Epochs, "prune", lambda *_: done.append("pruned"))
    with pytest.raises(RuntimeError, match=PLANTED):
        pond.maintain()
    assert done == ["pruned"]


def test_a_background_job_that_fails_waits_longer_and_longer_and_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now, tried, given_up = [0.0], [], []
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    jobs = loop._Jobs("", lambda: False)

    def fails() -> None:
        tried.append(now[0])
        raise OSError("disk")

    while not given_up:
        jobs.run("job", fails, given_up.append)
        now[0] += 0.05
    waits = [later - before for before, later in itertools.pairwise(tried)]
    assert len(tried) == loop.TRIES and waits == sorted(waits) and waits[-1] > 5 and given_up == ["disk"]


# -- the law -----------------------------------------------------------------------------------------------------------

#: What reads fields of definitions only, and cannot fail.
READERS = {"users"}

#: Entries that were made to fail, by any kind: one is enough.
_tried: set[tuple[str, str]] = set()

_right: dict[bool, list[tuple[Any, ...]]] = {}


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_raised_about_one_query_is_met_by_no_other(tmp_path: Path, kind: str, past: bool) -> None:
    life = Life(str(tmp_path / "whole"), kind, past)
    found = entries(life.lead, "millpond.engine.")
    status = life.status()
    right = life.end()
    life.pond.close()
    assert status == ("live", "") and _right.setdefault(past, right) == right
    own = [e for e in found if e[0].startswith("millpond.operators.") and e[1].split(".")[-1] not in READERS]
    assert own
    for number, (module, name) in enumerate(e for e in own if e not in _tried):
        _tried.add((module, name))
        raised: list[bool] = []
        life = Life(str(tmp_path / str(number)), kind, past)
        with planted(module, name, lambda life=life, raised=raised: raised.append(life.asked)):
            life.lead()
            status, answers = life.status(), life.end()
        life.pond.close()
        assert raised and answers == right, name
        if not all(raised):
            assert status is not None and status[0] == "quarantined" and PLANTED in status[1], name


def test_a_part_is_tried_twice_and_what_nobody_is_to_blame_for_is_raised() -> None:
    failures = Failures(Catalog(), "here")
    assert failures.attempt("x", lambda: 1) == 1 and not failures.reasons

    def fails() -> int:
        raise KeyError("x")

    assert failures.attempt("x", fails) is None and failures.reasons == {"x": "'x'"} and not failures.queries()
    with pytest.raises(OSError, match="disk"):
        failures.attempt("y", lambda: (_ for _ in ()).throw(OSError("disk")))


WINDOWS = "SELECT k % 2 AS g, {} AS y FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY g"
CHANGES = "SELECT ISTREAM(a.k AS g, {} AS y) FROM s [RANGE 10 SECONDS] a JOIN s [NOW] b ON a.ts = b.ts"


@pytest.mark.parametrize(
    ("failing", "mended", "answer"),
    [
        (
            WINDOWS.format("list(t ORDER BY k)[1]::INTEGER"),
            WINDOWS.format("try_cast(list(t ORDER BY k)[1] AS INTEGER)"),
            [(0, 1), (1, 2), (0, None), (1, 3), (1, 4), (1, 5)],
        ),
        (
            CHANGES.format("(a.t || b.t)::INTEGER"),
            CHANGES.format("try_cast(a.t AS INTEGER)"),
            [(0, 1), (1, 2), (2, None), (3, 3), (5, 4), (7, 5)],
        ),
    ],
    ids=["windows", "a relation"],
)
def test_a_query_that_replaces_a_quarantined_one_resumes_from_the_archive(
    inline_pond: Factory, failing: str, mended: str, answer: list[tuple[int, int | None]]
) -> None:
    """Nothing that came while it was quarantined, or that it had answered before, is missing."""
    pond = inline_pond()
    pond.sql("CREATE STREAM s (ts TIMESTAMP, t TEXT, k INTEGER) WITH (event_time='ts')")
    pond.sql(f"CREATE QUERY q AS {failing}")
    rows = [(1, "1", 0), (12, "2", 1), (25, "zz", 2), (26, "3", 3), (37, "4", 5), (50, "5", 7)]
    for number, (second, text, k) in enumerate(rows):
        pond.ingest("s", [{"ts": f"2026-01-01 00:00:{second:02}", "t": text, "k": k}])
        pond.step()
        if number == 4:
            assert [row["status"] for row in pond.sql("SHOW QUERIES").to_arrow().to_pylist()] == ["quarantined"]
            pond.sql(f"CREATE OR REPLACE QUERY q AS {mended}")
            pond.drain()
    pond.drain(final=True)
    assert [row["status"] for row in pond.sql("SHOW QUERIES").to_arrow().to_pylist()] == ["live"]
    assert sorted(pond.sql("SELECT g, y FROM q").rows(), key=str) == sorted(answer, key=str)
