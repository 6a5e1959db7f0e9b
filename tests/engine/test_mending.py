"""Answers that state no longer covers are recomputed: what survives, what is waited for, what cannot be mended."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import millpond
from millpond.engine.control import epoch as epochs
from millpond.engine.control.loop import step
from millpond.engine.core import Core
from millpond.engine.jobs import mending
from millpond.manifests.owed import Owed, owed_of, owed_together, settled
from millpond.operators.panes.operator import PanesOperator
from millpond.testing import VirtualClock

DAYS = "SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE TUMBLING 1 DAY] GROUP BY k"
START = dt.datetime(2025, 1, 1)


class Pond:
    """A pond with the stream `s`, which can be opened again; rows are (day, k, v)."""

    def __init__(self, folder: Path, query: str = DAYS, options: str = "", more: str = "") -> None:
        self.folder, self.clock = folder, VirtualClock()
        self.pond = self._opened()
        self.pond.sql(f"CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts'{options})")
        self.pond.sql(f"CREATE QUERY q{f' WITH ({more})' if more else ''} AS {query}")

    def _opened(self) -> millpond.Pond:
        return millpond.open(str(self.folder), executor="inline", clock=self.clock)

    @property
    def core(self) -> Core:
        """Its parts."""
        return self.pond._core

    def again(self) -> None:
        """Open it again."""
        self.pond.close()
        self.pond = self._opened()

    def take(self, *rows: tuple[float, str, int]) -> None:
        """Rows, and an epoch over them."""
        self.pond.ingest("s", [{"ts": START + dt.timedelta(days=d), "k": k, "v": v} for d, k, v in rows])
        self.pond.step()

    def answers(self, name: str = "q") -> list[tuple[Any, ...]]:
        """The latest answers: (day, k, n, total)."""
        found = self.pond.sql(f"SELECT window_start, k, n, total FROM {name}").rows()
        return sorted(((row[0] - START).days, row[1], row[2], int(row[3])) for row in found)

    def row(self, name: str = "q") -> dict[str, Any]:
        """What SHOW QUERIES says of a query."""
        return next(r for r in self.pond.sql("SHOW QUERIES").table.to_pylist() if r["query"] == name)

    @property
    def owed(self) -> tuple[Owed, ...]:
        """What the query is owed."""
        [known] = self.core.published.queries.values()
        return known.owed


@pytest.fixture
def pond(tmp_path: Path) -> Iterator[Pond]:
    made = Pond(tmp_path / "pond")
    yield made
    made.pond.close()


#: Days with a row each, in order, and one that comes long after.
IN_ORDER = [(0.5, "a", 1), (1.5, "a", 2), (100.5, "a", 4)]
LATE = (0.6, "a", 8)
WHOLE = [(0, "a", 2, 9), (1, "a", 1, 2)]


def flooded(pond: Pond) -> None:
    """The rows, and the late one; what it owes is not recomputed yet."""
    for row in IN_ORDER:
        pond.take(row)
    pond.take(LATE)
    assert pond.answers() == [(0, "a", 1, 1), (1, "a", 1, 2)]
    assert len(pond.owed) == 1


def test_an_epoch_owes_and_a_drain_waits(pond: Pond) -> None:
    flooded(pond)
    assert pond.row()["coverage"] == "late rows are being counted"
    pond.pond.drain()
    assert pond.answers() == WHOLE
    assert pond.owed == () and pond.row()["coverage"] == "complete" and pond.row()["revisions"] == 1
    assert pond.core.mendings.finished() == [] == os.listdir(pond.folder / "mendings")


def test_a_flood_over_many_epochs_is_one_scan(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in IN_ORDER:
        pond.take(row)
    for place in range(6):
        pond.take((place % 2 + place / 10, "a", 1))
    scans = []
    real = PanesOperator.retell
    monkeypatch.setattr(PanesOperator, "retell", lambda *given: scans.append(1) or real(*given))
    pond.pond.drain()
    assert pond.answers() == [(0, "a", 4, 4), (1, "a", 4, 5)] and len(scans) == 1


@pytest.mark.parametrize("moment", ["owed", "recomputed", "planned", "committed"])
def test_a_stop_at_any_moment_loses_and_doubles_nothing(
    pond: Pond, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flooded(pond)
    if moment in ("recomputed", "planned", "committed"):
        [(owner, _)] = pond.core.mendings.owed().items()
        mending.attempt_mending(pond.core.view, pond.core.backfills, pond.core.mendings, owner)
        assert [a.mends for a in pond.core.mendings.finished()] == [4]
    if moment == "planned":
        assert epochs.begin_epoch(pond.core) == 5
    if moment == "committed":

        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(epochs, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            step(pond.core)
        monkeypatch.undo()
    pond.again()
    pond.pond.drain()
    assert pond.answers() == WHOLE
    log = pond.pond.sql("SELECT window_start, n, revision, op FROM q ALL REVISIONS ORDER BY ALL").rows()
    assert [row[1:] for row in log] == [(1, 0, "+"), (2, 1, "+"), (1, 0, "+")]


def test_the_job_is_repeated_for_rows_that_come_while_it_runs(pond: Pond) -> None:
    flooded(pond)
    [(owner, _)] = pond.core.mendings.owed().items()
    mending.attempt_mending(pond.core.view, pond.core.backfills, pond.core.mendings, owner)
    pond.take((0.7, "b", 3))  # the epoch adopts what was recomputed, without this row
    assert pond.answers() == WHOLE and len(pond.owed) == 1
    pond.pond.drain()
    assert pond.answers() == [(0, "a", 2, 9), (0, "b", 1, 3), (1, "a", 1, 2)]


def test_a_paused_query_is_mended_when_it_runs_again(pond: Pond) -> None:
    for row in IN_ORDER:
        pond.take(row)
    pond.pond.sql("ALTER QUERY q PAUSE")
    pond.take(LATE)
    pond.take((200.5, "a", 1))
    pond.pond.maintain()
    pond.pond.drain()
    assert pond.answers() == [(0, "a", 1, 1), (1, "a", 1, 2)]
    pond.again()
    pond.pond.sql("ALTER QUERY q RESUME")
    pond.pond.drain()
    assert pond.answers() == [*WHOLE, (100, "a", 1, 4)]


@pytest.mark.parametrize("statement", ["DROP QUERY q", f"CREATE OR REPLACE QUERY q WITH (since='start') AS {DAYS}"])
def test_what_was_recomputed_for_a_query_that_is_gone_is_forgotten(pond: Pond, statement: str) -> None:
    flooded(pond)
    [(owner, _)] = pond.core.mendings.owed().items()
    mending.attempt_mending(pond.core.view, pond.core.backfills, pond.core.mendings, owner)
    pond.pond.sql(statement)
    pond.pond.drain()
    assert pond.core.mendings.finished() == [] == os.listdir(pond.folder / "mendings")
    if "REPLACE" in statement:
        assert pond.answers() == WHOLE
        assert pond.pond.sql("SELECT max(revision) FROM q ALL REVISIONS").rows() == [(0,)]


def test_a_query_whose_stretch_fails_is_quarantined_alone(pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    pond.pond.sql("CREATE QUERY other AS SELECT count(*) AS n FROM s [ROWS 2 SLIDE 1]")
    flooded_rows = [*IN_ORDER, LATE]
    for row in flooded_rows:
        pond.take(row)

    def fails(*_: Any) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(PanesOperator, "retell", fails)
    pond.pond.drain()
    assert (
        pond.row()["status"] == "quarantined" and "cannot be recomputed for late rows: planted" in pond.row()["reason"]
    )
    assert pond.row("other")["status"] == "live"
    assert len(pond.pond.sql("SELECT n FROM other").rows()) == 3


def test_what_retention_has_cut_is_not_mended_and_marked(tmp_path: Path) -> None:
    made = Pond(tmp_path / "pond", options=", retention='20 days'")
    try:
        for row in [*IN_ORDER[:2], (90.5, "a", 1), (100.5, "a", 4)]:
            made.take(row)
        made.pond.maintain()
        made.take((0.6, "a", 8), (90.6, "a", 2))
        made.pond.drain()
        assert made.answers() == [(0, "a", 1, 1), (1, "a", 1, 2), (90, "a", 2, 3)]
        assert "after retention had removed" in made.row()["coverage"]
        marked = made.pond.sql("SELECT covered_from IS NOT NULL FROM q ORDER BY window_end").rows()
        assert marked == [(True,), (False,), (False,)]
    finally:
        made.pond.close()


def test_a_limit_is_counted_and_said(tmp_path: Path) -> None:
    made = Pond(tmp_path / "pond", more="beyond='drop'")
    try:
        for row in [*IN_ORDER, LATE]:
            made.take(row)
        assert "1 row too late for any of its answers" in str(made.pond.drain())
        assert made.answers() == [(0, "a", 1, 1), (1, "a", 1, 2)] and made.owed == ()
        assert (made.row()["too_late"], made.row()["coverage"]) == (1, "1 late row left out")
    finally:
        made.pond.close()


def test_a_longer_revise_for_leaves_older_windows_to_the_archive(pond: Pond) -> None:
    for row in IN_ORDER:
        pond.take(row)
    pond.pond.sql("ALTER QUERY q SET revise_for = '1000 days'")
    pond.take(LATE)
    pond.pond.drain()
    assert pond.answers() == WHOLE and pond.row()["too_late"] == 0


def test_drain_final_says_what_it_shuts_before_it_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, late in (("shut", "drop"), ("open", "revise")):
        folder = tmp_path / name
        (folder / "in").mkdir(parents=True)
        (folder / "in" / "1.csv").write_text("ts,v\n2025-01-01 00:00:00,1\n")
        pond = millpond.open(str(folder / "pond"), executor="inline")
        pond.sql(
            f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (source='files', path='{folder}/in/*.csv',"
            f" event_time='ts', late='{late}')"
        )
        pond.sql("CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1 DAY]")
        caplog.clear()
        told = str(pond.drain(final=True))
        assert ("DRAIN FINAL shuts all windows" in caplog.text) == (late == "drop")
        assert ("s: shut for good by DRAIN FINAL, late='drop'" in told) == (late == "drop")
        (folder / "in" / "2.csv").write_text("ts,v\n2025-01-01 00:00:01,1\n")
        pond.drain()
        assert pond.sql("SELECT n FROM q").rows() == [(1 if late == "drop" else 2,)]
        pond.close()


def _times(*pairs: tuple[int, int]) -> Callable[[int], tuple[Owed, ...]]:
    import numpy as np

    lows, highs = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    return lambda epoch: owed_of(lows, highs, epoch)


def test_stretches_are_put_together_and_settled() -> None:
    many = _times(*((100 * n, 100 * n + n + 1) for n in range(40)))(3)
    assert len(many) == 16 and many[0].low == 0 and many[-1].high == 3940
    assert all(a.high < b.low for a, b in pairwise(many))
    assert owed_together(many) == many
    whole = owed_together([*many, Owed(-5, 5000, 4, 9)])
    assert whole == (Owed(-5, 5000, 3, 9),)
    assert settled(whole, 8) == (Owed(-5, 5000, 9, 9),) and settled(whole, 9) == ()
    assert _times((5, 5), (9, 3))(1) == ()


@pytest.mark.parametrize("kept", ["0 seconds", "10 minutes"])
@pytest.mark.parametrize("flush", ["at once", "lazy", "slow"])
def test_answers_that_go_out_by_and_by_are_mended_as_others(tmp_path: Path, flush: str, kept: str) -> None:
    """Late rows that state does not cover, for windows whose answers are out, wait, and are still to come."""
    made = Pond(tmp_path / "pond", more=f"flush='{flush}', revise_for='{kept}'")
    made.take((0.5, "a", 1), (1.5, "a", 2))
    made.take((100.5, "a", 4))  # answers of the days 0 and 1 wait
    made.take((0.6, "a", 8))
    made.clock.advance(60_000_000)
    made.pond.drain()
    made.take((200.5, "a", 16), (100.6, "b", 32))
    made.take((0.7, "b", 64), (100.7, "a", 128))
    for _ in range(3):
        made.clock.advance(60_000_000)
        made.pond.drain()
    assert made.answers() == [(0, "a", 2, 9), (0, "b", 1, 64), (1, "a", 1, 2), (100, "a", 2, 132), (100, "b", 1, 32)]
    assert not made.owed
    made.pond.close()
