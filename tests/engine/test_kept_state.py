"""What a worker keeps of the state: however old it is, an epoch writes the bytes that reading files would give."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millpond
from millpond.operators.panes import state
from millpond.operators.rows import state as row_state
from millpond.tables.shard_cache import ShardCache
from millpond.testing import VirtualClock
from tests.quick import quick_folder

START = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000

EXACT = "SELECT k, count(*) AS n, median(n) AS m FROM s [RANGE 60 SECONDS SLIDE 10 SECONDS] GROUP BY k"
ROUNDED = "SELECT k, sum(v) AS v, var_pop(v) AS x FROM s [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY k"
LAST = "SELECT k, count(*) AS n, sum(v) AS v FROM s [PARTITION BY k ROWS 5 SLIDE 2]"
RECENT = "SELECT sum(n) AS n FROM s [RANGE 40 SECONDS SLIDE 3 ROWS]"
RARE = "SELECT sum(v) AS v FROM s [RANGE 300 SECONDS SLIDE 60 SECONDS] WHERE k = 'q'"


def batch(rng: np.random.Generator, epoch: int) -> pa.Table:
    """Rows of ten seconds, some of them up to 200 seconds late; floats whose sums depend on the order of adding."""
    n = int(rng.integers(5, 40))
    seconds = epoch * 10 + rng.uniform(0, 10, n) - np.where(rng.random(n) < 0.3, rng.uniform(0, 200, n), 0)
    return pa.table(
        {
            "ts": pa.array(START + (seconds * 1e6).astype(np.int64), pa.timestamp("us")),
            "k": pa.array(rng.choice(list("abcdefghij"), n)),
            "n": pa.array(rng.integers(0, 9, n), pa.int64()),
            "v": pa.array(rng.choice([0.1, 0.7, 1e15, -1e15, 1e-9, 3.3], n)),
        }
    )


class Life:
    """A pond whose epochs run in one of several workers, each with what it has kept; every file written is noted."""

    def __init__(self, pond: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pond, self.monkeypatch = pond, monkeypatch
        self.kept: dict[tuple[int, str], ShardCache[Any]] = {}
        self.files: dict[str, str] = {}
        self.loads = self.readings = 0
        pond.sql("CREATE STREAM s (ts TIMESTAMP, k TEXT, n BIGINT, v DOUBLE) WITH (event_time='ts', lateness='20 s')")
        for name, text in (("exact", EXACT), ("rounded", ROUNDED), ("last", LAST), ("recent", RECENT)):
            pond.sql(f"CREATE QUERY {name} WITH (revise_for='2 minutes') AS {text}")

    def epoch(self, worker: int, table: pa.Table | None) -> None:
        for module in (state, row_state):
            self.monkeypatch.setattr(module, "_kept", self.kept.setdefault((worker, module.__name__), ShardCache()))
        if table is not None:
            self.pond.ingest("s", table)
        self.pond.step()
        for kind in ("state", "results"):
            folder = os.path.join(self.pond.path, kind)
            for name in os.listdir(folder):
                if name.endswith(".parquet") and f"{kind}/{name}" not in self.files:
                    with open(os.path.join(folder, name), "rb") as file:
                        self.files[f"{kind}/{name}"] = hashlib.sha256(file.read()).hexdigest()


def opened(folder: Path, files: int = 4) -> Any:
    return millpond.open(str(folder), executor="inline", clock=VirtualClock(), compact_files=files)


def live(monkeypatch: pytest.MonkeyPatch, seed: int, workers: Callable[[int], int], epochs: int = 20) -> Life:
    loads = state.PaneState._load

    def counted(self: Any, *arguments: Any) -> Any:
        life.loads += 1
        return loads(self, *arguments)

    source = row_state.RowState._source

    def read(self: Any, low: int) -> Any:
        if self._rows is None:
            life.readings += 1
        return source(self, low)

    with monkeypatch.context() as patch, quick_folder() as folder:
        life = Life(opened(folder / "pond"), monkeypatch)
        patch.setattr(state.PaneState, "_load", counted)
        patch.setattr(row_state.RowState, "_source", read)
        rng = np.random.default_rng(seed)
        for epoch in range(epochs):
            if epoch == epochs // 3:
                life.pond.sql(f"CREATE QUERY rare WITH (since='start') AS {RARE}")
            life.epoch(workers(epoch), batch(rng, epoch))
        life.pond.close()
    return life


@pytest.mark.parametrize("seed", [1])
def test_any_worker_writes_the_same_bytes(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    forgetful = live(monkeypatch, seed, lambda epoch: epoch)
    assert len(forgetful.files) > 60
    alone = live(monkeypatch, seed, lambda epoch: 0)
    chance = random.Random(seed)
    several = live(monkeypatch, seed, lambda epoch: chance.randrange(2))
    assert alone.files == forgetful.files
    assert several.files == forgetful.files
    assert alone.loads <= several.loads < 0.7 * forgetful.loads
    assert alone.readings <= several.readings < 0.7 * forgetful.readings


def test_a_pond_put_back_to_an_earlier_state_is_another_pond(monkeypatch: pytest.MonkeyPatch) -> None:
    with quick_folder() as folder:
        place, copy = folder / "pond", folder / "copy"
        life = Life(opened(place, 50), monkeypatch)
        rng = np.random.default_rng(1)
        for epoch in range(4):
            life.epoch(0, batch(rng, epoch))
        life.pond.close()
        shutil.copytree(place, copy)
        outcomes = []
        for seed, worker in ((2, 0), (3, 1), (3, 2)):  # worker 0 keeps an epoch 5 that the others' ponds never had
            shutil.rmtree(place)
            shutil.copytree(copy, place)
            life.pond = opened(place, 50)
            rng = np.random.default_rng(seed)
            life.epoch(worker, batch(rng, 4))
            for epoch in range(5, 9) if worker else ():
                life.epoch(0 if worker == 1 else worker, batch(rng, epoch))
            outcomes.append(life.pond.sql("SELECT * FROM rounded ALL REVISIONS").table)
            life.pond.close()
    assert outcomes[0] != outcomes[1]
    assert outcomes[1].num_rows and outcomes[1] == outcomes[2]
