"""What groups ahead of the watermark get is a function of the manifest: a repeated epoch writes the same bytes."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import millpond
from millpond.engine.control.epoch import begin_epoch
from millpond.testing import VirtualClock

STREAM = "(ts TIMESTAMP, k TEXT, kind TEXT) WITH (event_time='ts', marks='record:kind = ''end''', marks_by='k')"
MADE = f"""
    CREATE STREAM s {STREAM}; CREATE STREAM r {STREAM};
    CREATE QUERY a AS SELECT ISTREAM(k, count(*) AS n) FROM s [RANGE UNBOUNDED] GROUP BY k;
    CREATE QUERY j AS
      SELECT DSTREAM(s.k, count(*) AS n) FROM s [RANGE 4 SECONDS] JOIN r [RANGE 9 SECONDS] USING (k) GROUP BY s.k;
    CREATE STREAM d AS SELECT ISTREAM(k, kind) FROM s [RANGE 5 SECONDS];
    CREATE STREAM f AS SELECT ts, k AS g FROM s;
    CREATE QUERY over_d AS SELECT k, count(*) AS n FROM d [RANGE TUMBLING 5 SECONDS] GROUP BY k;
    CREATE QUERY over_f AS SELECT g, count(*) AS n FROM f [RANGE TUMBLING 5 SECONDS] GROUP BY g
"""
BATCHES = [
    [(1, "a", "row"), (2, "b", "row"), (23, "b", "row")],
    [(20, "a", "end")],
    [(3, "a", "row")],
    [(21, "a", "row"), (25, "a", "end"), (9, "b", "end")],
    [(26, None, "end")],
]


def life(folder: Path, stops: bool) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """The answers of a pond, and its files of state and answers. stops: it closes between a manifest and its epoch."""
    clock = VirtualClock(start=0)
    pond: Any = millpond.open(folder, executor="inline", clock=clock)
    try:
        pond.sql(MADE)
        for batch in BATCHES:
            for name in "sr":
                times = [f"1970-01-01 00:00:{second:02}" for second, _, _ in batch]
                pond.ingest(name, {"ts": times, "k": [k for _, k, _ in batch], "kind": [kind for *_, kind in batch]})
            while True:
                if stops and begin_epoch(pond._core) is not None:
                    pond.close()
                    pond = millpond.open(folder, executor="inline", clock=clock)
                if not pond.step():
                    break
        answers = {
            name: sorted(pond.sql(f"SELECT * FROM {name} ALL REVISIONS").rows(), key=str)
            for name in ("a", "j", "over_d", "over_f")
        }
    finally:
        pond.close()
    files = [*folder.glob("state/*.parquet"), *folder.glob("results/*.parquet")]
    return answers, {str(f.relative_to(folder)): sha256(f.read_bytes()).hexdigest() for f in files}


def test_a_repeated_epoch_writes_the_same_bytes(tmp_path: Path) -> None:
    (answers, files), again = life(tmp_path / "straight", False), life(tmp_path / "stopped", True)
    assert all(len(rows) > 2 for rows in answers.values()) and len(files) > 5
    assert (answers, files) == again
