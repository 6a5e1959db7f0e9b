"""Rows of the archive on which a new query's expressions fail become dead letters as they do live, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.engine.jobs import backfill

Factory = Callable[..., Any]

#: Queries of which a cast fails on every seventh row, and the value that counts the rows that are left.
QUERIES = {
    "window": "SELECT count(*) AS c, sum(t::INTEGER) AS s FROM x [RANGE TUMBLING 60 MINUTES]",
    "keys": "SELECT t::INTEGER % 2 AS m, count(*) AS c FROM x [RANGE TUMBLING 60 MINUTES] GROUP BY m",
    "of_rows": "SELECT sum(t::INTEGER) AS c FROM x [ROWS 5 SLIDE 5]",
    "relation": "SELECT ISTREAM(k, count(*) AS c) FROM x [RANGE 60 MINUTES] WHERE t::INTEGER > 3 GROUP BY k",
    "both": "SELECT count(*) AS c, sum(t::INTEGER) AS s FROM (x UNION ALL y) [RANGE TUMBLING 60 MINUTES]",
}


def streams(pond: Any) -> None:
    for name in "xy":
        pond.sql(f"CREATE STREAM {name} (ts TIMESTAMP, t TEXT, k INTEGER) WITH (event_time='ts')")


def fill(pond: Any, rows: int = 301) -> None:
    given = [
        {"ts": f"2026-01-01 {i // 60:02d}:{i % 60:02d}:00", "t": str(i) if i % 7 else "zz", "k": i % 3}
        for i in range(rows)
    ]
    pond.ingest("x", given[: rows // 2])
    pond.ingest("x", given[rows // 2 :])
    pond.ingest("y", given[:20])


def letters(pond: Any) -> list[Any]:
    return [
        r
        for s in "xy"
        for r in pond.sql(f"SELECT reason, source, position, record FROM dead({s}) ORDER BY record").rows()
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_as_live(inline_pond: Factory, name: str) -> None:
    live, later = inline_pond("live"), inline_pond("later")
    for pond in (live, later):
        streams(pond)
    live.sql(f"CREATE QUERY q WITH (since='start') AS {QUERIES[name]}")
    fill(later)
    later.drain(final=False)
    later.sql(f"CREATE QUERY q WITH (since='start') AS {QUERIES[name]}")
    later.drain(final=True)
    fill(live)
    live.drain(final=True)
    assert letters(later) == letters(live)
    assert len(letters(later)) == 43 + 3 * (name == "both")
    assert {source for _, source, _, _ in letters(later)} == {"query q"}
    assert sorted(later.sql("SELECT * FROM q").rows()) == sorted(live.sql("SELECT * FROM q").rows())
    assert sum(s["dead"] for s in later.status()["streams"].values()) == len(letters(later))


@pytest.mark.parametrize("name", ["window", "relation"])
def test_once_whatever_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A pond whose back-fill runs twice, that is closed before an epoch adopts it and killed when that is committed."""

    class KilledError(Exception):
        pass

    def killed(*_: Any) -> None:
        raise KilledError

    with millpond.open(tmp_path, executor="inline") as pond:
        streams(pond)
        fill(pond)
        pond.drain(final=False)
        pond.sql(f"CREATE QUERY q WITH (since='start') AS {QUERIES[name]}")
        core = pond._core
        (owner,) = core.backfills.waiting()
        backfill.run_backfill(core.view, core.backfills, owner)
        backfill.run_backfill(core.view, core.backfills, owner)  # again: it had joined late, say
        assert letters(pond) == []
    with millpond.open(tmp_path, executor="inline") as pond:  # the sweep of orphans has left the files
        assert letters(pond) == []
        monkeypatch.setattr("millpond.manifests.epochs.write_published", killed)
        with pytest.raises(KilledError):
            pond.step()
        assert letters(pond) == []
        monkeypatch.undo()
    with millpond.open(tmp_path, executor="inline") as pond:
        pond.drain(final=True)
        assert len(letters(pond)) == 43
        assert pond.status()["streams"]["x"]["dead"] == 43
        assert json.loads(letters(pond)[0][3])["k"] == 0  # the whole row, not the columns of the query alone


def test_a_sample_tells_of_the_rows_that_it_read(inline_pond: Factory) -> None:
    pond = inline_pond()
    streams(pond)
    fill(pond)
    pond.drain(final=False)
    pond.sql(
        "CREATE QUERY q WITH (since='start') AS SELECT count(*) AS c, sum(t::INTEGER) AS s FROM x REDUCE sample(0.5)"
        " [RANGE TUMBLING 60 MINUTES]"
    )
    pond.drain(final=True)
    assert 5 < len(letters(pond)) <= 43
