"""What an epoch's tasks tell becomes counters, publish records and what deciders learn: values in, values out."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.archive.observed_load import Load
from millpond.catalog import Catalog
from millpond.engine.control.committing import counts_after, published_after, queries_after
from millpond.engine.control.controllers import Controllers
from millpond.engine.control.reporting import Reporter, Work
from millpond.engine.control.sizes import StateSizes
from millpond.engine.control.telemetry import Stopwatch, Telemetry
from millpond.manifests.adoptions import Adoption
from millpond.manifests.quarantine import Failures
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest, Published, StreamCounts
from millpond.manifests.task_reports import (
    EpochReport,
    Frequent,
    Heavy,
    MapReport,
    Matched,
    MergeReport,
    Operated,
    Scanned,
)
from millpond.operators.panes.operator import PanesOperator
from millpond.operators.windowed.window_progress import WindowProgress
from millpond.progress import StreamProgress
from millpond.tables import Segment
from millpond.types.options import Settings


def report(maps: list[MapReport], *merges: MergeReport) -> EpochReport:
    return EpochReport(tuple(maps), merges or (MergeReport(0),))


def test_counters_add_up_what_tasks_and_back_fills_tell() -> None:
    before = {"1": StreamCounts(100, 10, 1, 0, 1000)}
    maps = [MapReport(1, 0, rows=5, late=2, dead=1, bytes=50), MapReport(2, 1, rows=7, unknown=3)]
    letters = Segment("b", 4, 10, 0, 0, 1, 1)
    adoption = Adoption("s", (3,), dead={"1": (letters,), "3": (letters,)})
    assert counts_after(before, report(maps), [adoption]) == {
        "1": StreamCounts(105, 12, 6, 0, 1050),
        "2": StreamCounts(7, unknown=3),
        "3": StreamCounts(dead=4),
    }


def test_progress_is_the_manifests_and_what_each_shard_made_of_it() -> None:
    manifest = Manifest(3, 9, 1, 2, queries={"1": QueryProgress(closed=10, windows=4), "2": QueryProgress(closed=7)})
    shards = [
        MergeReport(0, queries={"1": QueryProgress(closed=20, windows=6)}, progress={"1": StreamProgress(bound=20)}),
        MergeReport(1, queries={"1": QueryProgress(closed=20, windows=5)}),
    ]
    found = report([], *shards)
    failures = Failures(Catalog(), "epoch 3", {"x": "fails"})
    answering = {1: PanesOperator.__new__(PanesOperator)}  # the other one was dropped meanwhile
    queries = queries_after(answering, manifest, found, failures)
    assert queries == {"1": QueryProgress(closed=20, windows=7, own=WindowProgress()), "2": QueryProgress(closed=7)}
    record = published_after(Published(2), manifest, found, [], queries, failures)
    assert (record.epoch, record.clock, record.queries, record.failures) == (3, 9, queries, {"x": "fails"})
    assert record.progress == {"1": StreamProgress(bound=20)}


def test_seconds_and_scans_are_of_all_tasks_together() -> None:
    maps = [MapReport(1, 0, seconds={"read": 1.0}), MapReport(1, 1, seconds={"read": 2.0, "archive": 0.5})]
    merges = [MergeReport(0, seconds={"merge": 1.0}, scans={"q1": Scanned(2, 20)}), MergeReport(1)]
    found = report(maps, *merges)
    assert found.seconds == {"merge": 1.0, "read": 3.0, "archive": 0.5}
    assert found.scanned == Scanned(2, 20)
    assert report([]).scanned is None
    assert Operated(3, 2, 0.5) + Operated(1, 1, 0.25) == Operated(4, 3, 0.75)


@pytest.fixture
def controllers(tmp_path: Path) -> Controllers:
    return Controllers.of(str(tmp_path), Settings(), Load(str(tmp_path), 4.0, lambda: 0, lambda: None))


def test_deciders_learn_what_concerns_them(controllers: Controllers) -> None:
    manifest, limit = Manifest(3, 9, 1, 1), controllers.pace.limit
    frequent = {"store": Frequent(9_000, {"7": Heavy(8_000, "k")})}
    maps = [
        MapReport(1, 0, rows=9_000, bytes=limit, lasted=2.0, frequent=frequent,
                  seconds={"matching": 0.25}, matched=Matched(4, 1e3)),
        MapReport(1, 1, rows=10, seconds={"matching": 0.125}, matched=Matched(4, 1e9)),
    ]  # fmt: skip
    controllers.pace.cold = False
    told = controllers.matching_pace.told
    controllers.learn(Catalog(), manifest, report(maps), seconds=60.0, waiting=0)
    assert controllers.pace.limit < limit  # it took longer than an epoch should
    assert controllers.skew.hot("store") == {"7": "k"}
    assert controllers.matching_pace.told != told


def test_epochs_without_matching_say_nothing_of_it(controllers: Controllers) -> None:
    told = controllers.matching_pace.told
    controllers.learn(Catalog(), Manifest(1, 1, 1, 1), report([MapReport(1, 0, rows=5)]), seconds=9.0, waiting=0)
    assert controllers.matching_pace.told == told


def test_telemetry_keeps_the_last_epochs(tmp_path: Path) -> None:
    telemetry, watch = Telemetry(Reporter(StateSizes(str(tmp_path)))), Stopwatch()
    watch.lap("job")
    watch.lap("commit")
    found = report([MapReport(1, 0, rows=5, seconds={"read": 1.0}, lasted=3.0)], MergeReport(0, lasted=2.0))
    for epoch in range(100):
        telemetry.add(Work(epoch, 7, {}, found), watch, of_interest=epoch < 50)
    last = telemetry.recent[-1]
    assert (len(telemetry.recent), last["epoch"], last["rows"]) == (64, 99, 5)
    assert set(last["stages"]) == {"read", "job", "commit"} and last["longest"] == {"map": 3.0, "merge": 2.0}
    assert [w.epoch for w in telemetry.work] == list(range(42, 50))
    assert sum(watch.laps.values()) <= watch.total
