"""Real disorder: ships with clocks a day ahead, and a folder of jumbled files read in parallel."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SHIPS = Path(__file__).parent.parent / "data" / "ais_first_20000.parquet"
TEN_MINUTES = 600_000_000


def _ships(folder: Path, rows: int = 1000) -> int:
    """The ships cut into files, in order; returns how many rows run ahead of all others."""
    folder.mkdir()
    table = pq.read_table(SHIPS)
    for number, at in enumerate(range(0, table.num_rows, rows)):
        pq.write_table(table.slice(at, rows), folder / f"{number:04d}.parquet")
    times = table["BaseDateTime"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    return int((times > np.median(times) + 3600 * 1_000_000).sum())


def _stream(pond: Any, folder: Path, options: str) -> None:
    pond.sql(f"""
        CREATE STREAM ship (MMSI BIGINT, BaseDateTime TIMESTAMP, SOG DOUBLE)
          WITH (path='{folder}', event_time='BaseDateTime', lateness='20 minutes'{options});
        CREATE QUERY moving AS
          SELECT count(*) AS n, avg(SOG) AS knots FROM ship [RANGE TUMBLING 1 MINUTE] WHERE SOG > 1;
    """)


def test_a_clock_that_runs_ahead_does_not_move_progress(inline_pond: Any, tmp_path: Path) -> None:
    runaway = _ships(tmp_path / "in")
    assert runaway > 0
    pond = inline_pond(rows_per_epoch=2000)
    _stream(pond, tmp_path / "in", ", ahead='30 minutes'")
    pond.drain()
    ship = pond.status()["streams"]["ship"]
    assert (ship["dead"], ship["late"], ship["rows"]) == (runaway, 0, 20_000 - runaway)
    assert ship["watermark"] < "2022-01-03 00:30:00"
    reasons = pond.sql("SELECT DISTINCT reason FROM dead(ship)").rows()
    assert len(reasons) == 1 and "ahead" in reasons[0][0]


def test_without_the_guard_one_row_makes_the_others_late(inline_pond: Any, tmp_path: Path) -> None:
    _ships(tmp_path / "in")
    pond = inline_pond(rows_per_epoch=2000)
    _stream(pond, tmp_path / "in", "")
    pond.drain()
    assert pond.status()["streams"]["ship"]["late"] > 15_000


def test_the_guard_does_not_depend_on_epoch_cuts(inline_pond: Any, tmp_path: Path) -> None:
    _ships(tmp_path / "in")
    dead = []
    for name, rows in (("small", 1000), ("middle", 7000), ("large", 100_000)):
        pond = inline_pond(name, rows_per_epoch=rows)
        _stream(pond, tmp_path / "in", ", ahead='30 minutes'")
        pond.drain(final=True)
        dead.append(sorted(pond.sql("SELECT source, position FROM dead(ship)").rows()))
    assert dead[0] and dead[0] == dead[1] == dead[2]


def test_files_of_one_epoch_read_in_parallel_are_never_late(inline_pond: Any, tmp_path: Path) -> None:
    """Readers that follow a watermark while they read a folder in parallel lose 20 to 50 % of such rows."""
    folder = tmp_path / "in"
    folder.mkdir()
    numbers = list(range(40))
    random.Random(7).shuffle(numbers)
    for name, number in enumerate(numbers):
        times = pa.array(np.arange(number * 1000, (number + 1) * 1000) * 1_000_000, pa.timestamp("us"))
        pq.write_table(pa.table({"ts": times}), folder / f"{name:04d}.parquet")
    pond = inline_pond()
    pond.sql(f"""
        CREATE STREAM s (ts TIMESTAMP) WITH (path='{folder}', event_time='ts');
        CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE TUMBLING 1000 SECONDS];
        DRAIN FINAL;
    """)
    assert pond.status()["streams"]["s"]["late"] == 0
    assert pond.sql("SELECT count(*), min(n), max(n), max(revision) FROM q").rows() == [(40, 1000, 1000, 0)]
