"""Appends, scans, upkeep, altered designs and restarts beside each other: every scan gives just the rows it should.

What it should give is worked out from row ids alone, in whole numbers of Python: the rows of the epochs that are
published, whose hash lies below the fraction that is kept.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from millpond.archive import archive_files as segments
from millpond.archive.design import layout
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_tasks import ScanSplit
from millpond.archive.reading.reader import ArchiveReader
from millpond.archive.upkeep import compaction
from tests.archive.ponds import START, opened, plan, rows, scan
from tests.oracle.sampling import u

DESIGNS = (
    "plain",
    "replicate(0.5)",
    "replicate(0.2, 0.5, 0.9)",
    "modify",
    "randomize(2)",
    "randomize(7)",
)
REDUCTIONS = (0.0, 0.2, 0.3, 0.5, 0.75, 0.9, 0.97)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small row groups, blocks, and merges of two files, so that everything happens often."""
    monkeypatch.setattr(segments, "GROUP_ROWS", 16)
    monkeypatch.setattr(layout, "BLOCK_ROWS", 8)
    monkeypatch.setattr(compaction, "FAN_IN", 2)


class Oracle:
    """The rows that were ingested: a, event time, u, epoch."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, float, int]] = []
        self.batches = 0

    def take(self, table: Any, epoch: int) -> None:
        """Rows of one batch, in the order of intake."""
        for position, (instant, a) in enumerate(zip(table["ts"].cast("int64").to_pylist(), table["a"].to_pylist())):  # noqa: B905
            self.rows.append((a, instant, float(u((self.batches << 32) + position, 1)), epoch))
        self.batches += 1

    def expected(self, reduction: float, low: int | None, high: int | None, epoch: int | None = None) -> list[int]:
        """What a scan gives, sorted."""
        return sorted(
            a
            for a, instant, place, taken in self.rows
            if place < round(1 - reduction, 12)
            and (low is None or instant >= low)
            and (high is None or instant < high)
            and (epoch is None or taken <= epoch)
        )


operations = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 120)),
    st.tuples(st.just("scan"), st.sampled_from(REDUCTIONS), st.integers(0, 400), st.integers(0, 400)),
    st.tuples(st.just("whole"), st.sampled_from(REDUCTIONS)),
    st.tuples(st.just("age"), st.sampled_from(REDUCTIONS), st.integers(0, 400)),
    st.just(("maintain",)),
    st.tuples(st.just("alter"), st.sampled_from(DESIGNS)),
    st.just(("reopen",)),
)


@given(st.sampled_from(DESIGNS), st.lists(operations, min_size=4, max_size=14), st.integers(0, 2**16))
def test_any_course_of_events(tmp_path_factory: Any, design: str, course: list[Any], seed: int) -> None:
    path = tmp_path_factory.mktemp("course") / "p"
    rng = np.random.default_rng(seed)
    oracle, at = Oracle(), 0
    pond = opened(path, design)

    def check(reduction: float, low: int | None = None, high: int | None = None, function: str = "sample") -> None:
        found, _, planned = scan(pond, reduction, Range(low, high), function=function)
        assert sorted(found["a"].to_pylist()) == oracle.expected(reduction, low, high), (reduction, low, high)
        assert len({p.section for p in planned.pieces}) == len(planned.pieces)

    try:
        for name, *values in course:
            if name == "take":
                batch = rows(at, values[0], rng)
                at += values[0]
                pond.ingest("s", batch)
                pond.drain()
                oracle.take(batch, pond._core.published.epoch)
            elif name == "scan":
                check(values[0], START + values[1] * 1000, START + values[2] * 1000)
            elif name == "whole":
                check(values[0])
            elif name == "age":
                edge = START + values[1] * 1000
                drop = values[0]
                found = scan(pond, lambda s, e=edge, d=drop: 0.0 if s.high >= e else d, function="age")
                got = set(found[0]["a"].to_pylist())
                assert set(oracle.expected(drop, None, None)) <= got <= set(oracle.expected(0.0, None, None))
                assert {a for a, instant, _, _ in oracle.rows if instant >= edge} <= got
            elif name == "maintain":
                pond.maintain()
            elif name == "alter":
                pond.sql(f"ALTER STREAM s SET (archive = '{values[0]}')")
            else:
                pond.close()
                pond = opened(path, design)
        for reduction in REDUCTIONS:
            check(reduction)
        pond.maintain()
        pond.maintain()
        for reduction in REDUCTIONS:
            check(reduction)
        core = pond._core
        assert [n for t in core.storage.tables() for n in t.orphans()] == []
    finally:
        pond.close()


@pytest.mark.parametrize("design", ["replicate(0.5, 0.9)", "modify", "randomize(7)"])
def test_a6_appends_scans_and_the_vacuumer_beside_each_other(tmp_path: Path, design: str) -> None:
    oracle, faults = Oracle(), []
    done = threading.Event()
    with opened(tmp_path / "p", design) as pond:
        core = pond._core
        stream = core.catalog.stream("s")

        def upkeep() -> None:
            while not done.is_set():
                try:
                    pond.maintain()
                except Exception as error:
                    faults.append(repr(error))
                    return

        def read(mine: int) -> None:
            rng = np.random.default_rng(mine)
            while not done.is_set():
                reduction = float(rng.choice(REDUCTIONS))
                try:
                    with core.archives.pinned():
                        epoch, known = core.published.epoch, len(oracle.rows)
                        planned = plan(core.storage, stream, Range(epoch=epoch), reduction)
                        reader = ArchiveReader(core.path, stream, ["a"], weighted=True, in_order=True)
                        tables = list(reader.rows([ScanSplit(planned.wanted, 0.0, planned.pieces)]))
                except Exception as error:
                    faults.append(repr(error))
                    return
                found = sorted(a for t in tables for a in t["a"].to_pylist())
                for piece, table in zip(planned.pieces, tables, strict=False):
                    if piece.copy or piece.segment.blocks:
                        keys = list(zip(table["ts"].to_pylist(), table["_id"].to_pylist(), strict=True))
                        if keys != sorted(keys):
                            faults.append(f"{piece.copy} {piece.segment.path} is out of order")
                # Rows of an epoch are told to the oracle behind its publish record; what was known before is all there.
                if epoch <= max((r[3] for r in oracle.rows[:known]), default=0):
                    expected = oracle.expected(reduction, None, None, epoch)
                    if found != expected:
                        faults.append(f"epoch {epoch}, {reduction}: {len(found)} rows, not {len(expected)}")

        threads = [threading.Thread(target=upkeep), *(threading.Thread(target=read, args=(n,)) for n in (1, 2))]
        for thread in threads:
            thread.start()
        try:
            for epoch in range(14):
                batch = rows(epoch * 50, 50, np.random.default_rng(epoch))
                pond.ingest("s", batch)
                pond.drain()
                oracle.take(batch, core.published.epoch)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert faults == []
        pond.maintain()
        for reduction in REDUCTIONS:
            assert sorted(scan(pond, reduction)[0]["a"].to_pylist()) == oracle.expected(reduction, None, None)
