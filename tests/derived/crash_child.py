"""The process that the crash tests of derived streams kill; see `tests/engine/crash_child.py`, whose moments it has."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from typing import Any

import millpond.api.pond
import millpond.operators.derived.operator as operator
import millpond.operators.derived.past_rows as past_rows
import millpond.sources.derived_stream as derived
from millpond.sources.derived_stream import DerivedSource
from millpond.sources.intake_log import IntakeLog
from tests.engine.crash_child import BASE, MOMENTS, Moment, arm, log_hashes, serve

STREAMS = ("x", "f", "y", "z", "late_x", "late_f")
QUERIES = ("q", "over_f")

MORE = {
    "part-before": Moment(derived, "write_durably", "before"),
    "part-after": Moment(derived, "write_durably", "after"),
    "history-before": Moment(operator, "make_past", "before"),
    "history-unrecorded": Moment(past_rows, "write_history", "before"),
    "history-recorded": Moment(past_rows, "write_history", "after"),
    "taken-before": Moment(IntakeLog, "append", "before", lambda log, items: items and items[0].kind == "derived"),
    "taken-after": Moment(IntakeLog, "append", "after", lambda log, items: items and items[0].kind == "derived"),
    "release-before": Moment(DerivedSource, "release", "before"),
    "release-after": Moment(derived, "remove_file", "after"),
}

SETUP = """
CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts', lateness='3s');
CREATE STREAM IF NOT EXISTS x AS SELECT k, sum(v) AS v, count(*) AS n FROM s [RANGE TUMBLING 5 SECONDS] GROUP BY k;
CREATE STREAM IF NOT EXISTS f AS SELECT ts, k, v * 2 AS w FROM s WHERE v > 20;
CREATE STREAM IF NOT EXISTS y AS SELECT * FROM x WHERE n > 1;
CREATE STREAM IF NOT EXISTS z AS SELECT count(*) AS n FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]
    WITH (revisions='final', revise_for='20s');
CREATE QUERY IF NOT EXISTS q AS SELECT k, sum(v) AS v, list(n) AS ns FROM y [RANGE TUMBLING 20 SECONDS] GROUP BY k;
CREATE QUERY IF NOT EXISTS over_f AS SELECT k, sum(w) AS w FROM f [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k
"""
LATER = """
CREATE STREAM IF NOT EXISTS late_x AS SELECT k, max(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k
    WITH (since='start');
CREATE STREAM IF NOT EXISTS late_f AS SELECT window_end, v FROM x WHERE k = 'a' WITH (since='start')
"""


def batch(number: int) -> list[dict[str, Any]]:
    """Rows of a stage: disorder within the lateness, and from the third on late ones."""
    rng = random.Random(number)
    start = dt.datetime(2026, 1, 1)
    times = [20 * number + i / 2 + rng.uniform(-2, 2) for i in range(40)]
    times += [3.0 + 7 * number, 20 * number - 12] if number > 1 else []
    return [
        {"ts": start + dt.timedelta(seconds=max(0, t)), "k": rng.choice("abc"), "v": rng.randrange(100)} for t in times
    ]


class Scenario:
    """Stages that can be repeated: a later life goes on with the stage in which the earlier one died."""

    def __init__(self, work: str) -> None:
        self.work = work
        marker = os.path.join(work, "stage")
        self.stage = 0
        if os.path.exists(marker):
            with open(marker, encoding="utf-8") as file:
                self.stage = int(file.read() or 0)
        self.pond = millpond.api.pond.open(
            os.path.join(work, "pond"), "inline", clock=lambda: BASE + self.stage * 1_000_000, compact_files=3
        )

    def run(self) -> None:
        """All stages from the one reached on, then the outcome."""
        stages: list[Any] = [lambda: self.pond.sql(SETUP)]
        stages += [lambda n=n: self._feed(n) for n in range(3)]
        stages += [lambda: self._sql(LATER), *(lambda n=n: self._feed(n) for n in range(3, 5)), self.pond.maintain]
        stages += [lambda: self.pond.drain(final=True)]
        for number, stage in enumerate(stages):
            if number >= self.stage:
                self.stage = number
                with open(os.path.join(self.work, "stage.tmp"), "w", encoding="utf-8") as file:
                    file.write(str(number))
                os.rename(file.name, os.path.join(self.work, "stage"))
                stage()
        with open(os.path.join(self.work, "outcome.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(self.outcome(), default=str))

    def _feed(self, number: int) -> None:
        self.pond.ingest("s", batch(number), key=str(number))
        self.pond.drain()

    def _sql(self, text: str) -> None:
        self.pond.sql(text)
        self.pond.drain()

    def outcome(self) -> dict[str, Any]:
        """Everything that must be the same whatever crashed."""
        pond = self.pond
        found = {s: pond.sql(f"SELECT * FROM {s}").rows() for s in STREAMS}
        found |= {f"late({s})": pond.sql(f"SELECT * FROM late({s})").rows() for s in STREAMS}
        found |= {q: pond.sql(f"SELECT * FROM {q} ALL REVISIONS").rows() for q in QUERIES}
        found["progress"] = {s: pond.status()["streams"][s]["watermark"] for s in STREAMS}
        folder = os.path.join(self.work, "pond", "intake")
        found["left"] = [n for path, _, names in os.walk(folder) if path.endswith("derived") for n in names
                         if n.endswith((".arrow", ".tmp"))]  # fmt: skip
        return found


def main(arguments: list[str]) -> None:
    """Run once in the folder that is named, dying at the moment that is."""
    log_hashes(arguments[0])
    if "--die" in arguments:
        name, nth = arguments[arguments.index("--die") + 1].rsplit(":", 1)
        arm((MOMENTS | MORE)[name], int(nth))
    scenario = Scenario(arguments[0])
    scenario.run()
    scenario.pond.close()


if __name__ == "__main__":
    serve(main)
