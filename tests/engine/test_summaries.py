"""Summary copies of an archive: their lives, their retention, what a crash leaves, and what is said of them."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.archive.summed import summary_upkeep
from millpond.archive.summed.entry_files import live_name, settled_name
from millpond.archive.upkeep.expiry import expire
from millpond.commands.execution.sight import facts_of
from millpond.commands.planned import Ids
from millpond.commands.summary_copies import set_summaries
from millpond.engine.control.epoch import begin_epoch, run_epoch
from millpond.support.errors import QueryError, StatementError
from millpond.types.archive_design import parse_design

BASE = dt.datetime(2026, 3, 1)
COUNTS = "SELECT airport, count(*) AS n FROM flight [RANGE 1 DAY TUMBLING] GROUP BY airport"
HOURLY = "summary(SELECT airport, count(*), sum(delay) FROM flight [RANGE 1 HOUR TUMBLING] GROUP BY airport)"


def make(folder: Path, archive: str, more: str = "retention='2 days'") -> Any:
    pond = millpond.open(str(folder), executor="inline")
    pond.sql(
        "CREATE STREAM flight (ts TIMESTAMP, airport TEXT, delay INTEGER)"
        f" WITH (event_time='ts', {more}, archive='{archive}')"
    )
    return pond


def days(first: int, last: int) -> list[dict[str, Any]]:
    """Rows of some days: as many as the number of the day and of the airport say."""
    return [
        {"ts": BASE + dt.timedelta(days=day, hours=hour), "airport": airport, "delay": day}
        for day in range(first, last)
        for hour in range(24)
        for airport, each in (("AMS", 1), ("BRU", 2))
        for _ in range(each)
    ]


def feed(pond: Any, first: int, last: int, upkeep: bool = True) -> None:
    for day in range(first, last):
        pond.ingest("flight", days(day, day + 1))
        pond.step()
        if upkeep:
            pond.maintain()


def counted(pond: Any) -> dict[tuple[int, str], int]:
    return {((r[0] - BASE).days, r[2]): r[3] for r in pond.sql(COUNTS).rows()}


def expected(first: int, last: int) -> dict[tuple[int, str], int]:
    return dict(Counter(((r["ts"] - BASE).days, r["airport"]) for r in days(first, last)))


@pytest.mark.parametrize("archive", [f"plain + {HOURLY}", f"plain + lazy {HOURLY}"])
def test_sums_stay_when_rows_go(tmp_path: Path, archive: str) -> None:
    with make(tmp_path / "p", archive) as pond:
        feed(pond, 0, 12)
        removed = pond._core.streams[1].archive.snapshot[1]
        assert removed is not None and removed > 0
        assert counted(pond) == expected(0, 11)
        assert "are gone: answered from summary(" in pond.sql(COUNTS).message
        plan = [line for (line,) in pond.sql(f"EXPLAIN {COUNTS}").rows()]
        assert any(
            line.startswith("history from summary(") and "in place of rows that are gone" in line for line in plan
        )
        # What the summary does not have is answered from the rows that are left.
        table = pond.sql(COUNTS.replace("count(*)", "max(delay)")).table
        assert min((t - BASE).days for t in table["window_start"].to_pylist()) > 5


def test_summaries_have_a_retention_of_their_own(tmp_path: Path) -> None:
    with make(tmp_path / "p", f"plain + {HOURLY} keep 5d") as pond:
        feed(pond, 0, 12)
        table = pond.sql(COUNTS).table
        whole = {
            ((r["window_start"] - BASE).days, r["airport"]): r["n"]
            for r in table.to_pylist()
            if r["covered_from"] is None
        }
        assert whole and whole == {k: n for k, n in expected(0, 11).items() if k[0] >= min(d for d, _ in whole)}
        assert 11 - min(d for d, _ in whole) >= 5
        assert min(d for d, _ in whole) > 1
        plan = " ".join(line for (line,) in pond.sql(f"EXPLAIN {COUNTS}").rows())
        assert "nothing is left before 2026-03-" in plan


def test_a_summary_by_size(tmp_path: Path) -> None:
    with make(tmp_path / "p", f"plain + {HOURLY} keep 20 KB") as pond:
        feed(pond, 0, 14)
        settled = [s for s in pond._core.storage.summaries.segments if s.path.startswith("x")]
        assert settled and sum(s.size for s in settled) <= 20_000
        assert min(d for d, _ in counted(pond)) > 0


def test_added_and_removed_on_a_live_stream(tmp_path: Path) -> None:
    with make(tmp_path / "p", "plain", "retention='90 days'") as pond:
        feed(pond, 0, 3, upkeep=False)
        core = pond._core
        stream = core.catalog.stream("flight")

        def declared(design: str) -> dict[str, Any]:
            facts = facts_of(core)
            return set_summaries(facts, Ids(facts), stream, parse_design(design).summaries)

        event = declared(f"plain + {HOURLY}")
        core.catalogs.log.record(event)
        feed(pond, 3, 5, upkeep=False)
        there = {s.path for s in core.storage.summaries.segments}
        assert len(there) == 2, "those that came since, by the epochs"
        assert counted(pond) == expected(0, 4)
        pond.maintain()
        assert len(core.storage.summaries.segments) == 5, "those before, by upkeep"
        assert counted(pond) == expected(0, 4)
        # The same again changes nothing, another retention is only that.
        core.catalogs.log.record(declared(f"plain + {HOURLY} keep 9d"))
        [summary] = core.catalog.summaries_of(stream.id)
        assert (
            summary.id == json.loads(json.dumps(event))["summaries"][0]["id"]
            and summary.retention == 9 * 86_400 * 10**6
        )
        core.catalogs.log.record(declared("plain"))
        assert not core.catalog.synopses
        pond.maintain()
        assert not core.storage.summaries.segments
        assert counted(pond) == expected(0, 4)


def test_a_query_shares_the_synopsis_at_once(tmp_path: Path) -> None:
    with make(tmp_path / "p", f"plain + {HOURLY}", "retention='90 days'") as pond:
        feed(pond, 0, 3)
        message = pond.sql(
            "CREATE QUERY q AS SELECT airport, sum(delay) AS d FROM flight [RANGE 6 HOURS SLIDE 3 HOURS]"
            " GROUP BY airport"
        ).message
        assert "back-filling" not in message
        [row] = pond.sql("SHOW SYNOPSES").to_arrow().to_pylist()
        assert row["users"] == "q, a summary of flight"
        feed(pond, 3, 4)
        answers = pond.sql("SELECT window_end, airport, d FROM q ORDER BY 1, 2").rows()
        assert answers[0] == (BASE + dt.timedelta(days=3), "AMS", 6 * 2)
        pond.sql("DROP QUERY q")
        assert pond.sql("SHOW SYNOPSES").to_arrow().num_rows == 1


def test_between_two_commits_no_row_counts_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep that stops anywhere: settled entries count only when their file is gone, others only while it is there."""
    with make(tmp_path / "p", f"plain + {HOURLY}") as pond:
        feed(pond, 0, 4, upkeep=False)
        core = pond._core
        stream = core.catalog.stream("flight")
        [summary] = core.catalog.summaries_of(stream.id)
        archive = core.streams[stream.id].archive
        monkeypatch.setattr(archive, "commit", lambda *a, **k: (_ for _ in ()).throw(OSError("stopped")))
        with pytest.raises(OSError, match="stopped"):
            expire(core.archives, core.streams[stream.id])
        first = min(archive.segments, key=lambda s: s.low).path
        names = {s.path for s in core.storage.summaries.segments}
        assert settled_name(summary.id, first) in names and live_name(summary.id, first) not in names
        assert counted(pond) == expected(0, 3)
        monkeypatch.undo()
        # The retention is longer now: the file stays, and the entry that was settled is of no use.
        summary_upkeep.maintain_summaries(core.archives)
        assert counted(pond) == expected(0, 3)
        pond.maintain()
        assert counted(pond) == expected(0, 3)


def test_a_repeated_epoch_writes_the_same_entry(tmp_path: Path) -> None:
    with make(tmp_path / "p", f"plain + {HOURLY}", "retention='90 days'") as pond:
        pond.ingest("flight", days(0, 2))
        epoch = begin_epoch(pond._core)
        assert epoch is not None
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "p", copy)
    found = []
    for folder in (tmp_path / "p", copy):
        with millpond.open(str(folder), executor="inline") as pond:
            run_epoch(pond._core, epoch)
            pond.step()
            assert counted(pond) == expected(0, 1)
        found.append({f.name: f.read_bytes() for f in (folder / "summaries").glob("*.parquet")})
    assert found[0] == found[1] and len(found[0]) == 1


def test_dropped_with_its_stream(tmp_path: Path) -> None:
    with make(tmp_path / "p", f"plain + {HOURLY}") as pond:
        feed(pond, 0, 3)
        pond.sql("DROP STREAM flight")
        assert not pond._core.catalog.summaries and not pond._core.catalog.synopses
        pond.maintain()
        assert not pond._core.storage.summaries.segments


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT airport FROM flight", "needs one behind its stream"),
        ("SELECT count(*) FROM flight", "needs one behind its stream"),
        ("SELECT count(*) FROM flight [RANGE 1 HOUR SLIDE 1 MINUTE]", "lie side by side"),
        ("SELECT count(*) FROM flight [RANGE 1 HOUR TUMBLING] HAVING count(*) > 1", "keeps every group"),
        ("SELECT count(*) FROM other [RANGE 1 HOUR TUMBLING]", "reads flight and nothing else"),
    ],
)
def test_what_is_no_summary(tmp_path: Path, query: str, message: str) -> None:
    with millpond.open(str(tmp_path / "p"), executor="inline") as pond:
        pond.sql("CREATE STREAM other (ts TIMESTAMP) WITH (event_time='ts')")
        with pytest.raises((QueryError, StatementError), match=message):
            pond.sql(f"CREATE STREAM flight (ts TIMESTAMP, airport TEXT) WITH (archive='plain + summary({query})')")
        assert pond._core.catalog.stream("flight") is None
