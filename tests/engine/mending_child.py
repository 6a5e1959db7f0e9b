"""The process that the crash tests of mending kill; see `tests/engine/crash_child.py`, whose moments it has."""

from __future__ import annotations

import json
import os
from typing import Any

import millpond.api.pond
import millpond.engine.control.epoch as epoch
import millpond.engine.jobs.mending as mending
import millpond.engine.jobs.mending_queue as mending_queue
from millpond.tables import SegmentTable
from tests.engine.crash_child import BASE, MOMENTS, Moment, arm, log_hashes, serve
from tests.engine.mending_scenario import ASKED, STAGES, feed, setup
from tests.oracle.compare import normal
from tests.properties.harness import table_rows


def _mended(storage: Any, operators: Any, manifest: Any, *others: Any) -> bool:
    return bool(manifest.mended)


def _of_mending(table: Any, add: Any, *others: Any, **named: Any) -> bool:
    return any(segment.path.startswith("bm") for segment in add)


MORE = {
    "before": Moment(mending, "run_mending", "before"),
    "told": Moment(mending, "_Comparing", "before"),
    "written": Moment(mending, "write_chunks", "after"),
    "unrecorded": Moment(mending_queue, "write_json", "before"),
    "recorded": Moment(mending_queue, "write_json", "after"),
    "swept": Moment(mending, "remove_file", "after"),
    "after": Moment(mending, "run_mending", "after"),
    "planned": Moment(epoch, "write_manifest", "after", lambda path, manifest: bool(manifest.mended)),
    "run": Moment(epoch, "commit", "before", _mended),
    "committing": Moment(SegmentTable, "commit", "before", _of_mending),
    "results": Moment(SegmentTable, "commit", "after", _of_mending),
    "committed": Moment(epoch, "commit", "after", _mended),
    "forgotten": Moment(mending_queue, "remove_file", "after"),
}


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
            os.path.join(work, "pond"), "inline", clock=lambda: BASE + self.stage * 1_000_000, compact_files=3, shards=2
        )

    def run(self) -> None:
        """All stages from the one reached on, then the outcome."""
        stages: list[Any] = [lambda: self.pond.sql(setup())]
        stages += [lambda n=n: feed(self.pond, n) for n in range(STAGES)]
        stages += [self.pond.maintain, lambda: self.pond.drain(final=True)]
        for number, stage in enumerate(stages):
            if number >= self.stage:
                self.stage = number
                with open(os.path.join(self.work, "stage.tmp"), "w", encoding="utf-8") as file:
                    file.write(str(number))
                os.rename(file.name, os.path.join(self.work, "stage"))
                stage()
        self.pond.maintain()
        with open(os.path.join(self.work, "outcome.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(self.outcome()))

    def outcome(self) -> dict[str, Any]:
        """Everything that must be the same whatever crashed."""
        names = [*ASKED, "over_x"]
        found: dict[str, Any] = {name: self._rows(f"SELECT * EXCLUDE (revision) FROM {name}") for name in names}
        found |= {f"log of {name}": self._rows(f"SELECT * FROM {name} ALL REVISIONS") for name in names}
        found["revised"] = {n: self._rows(f"SELECT max(revision) FROM {n} ALL REVISIONS")[0][0] for n in names}
        found["x"] = self._rows("SELECT * FROM x")
        core = self.pond._core
        found["waiting"] = [adoption.owner for adoption in core.mendings.finished()]
        found["left"] = [name for table in core.storage.tables() for name in table.orphans()]
        return found

    def _rows(self, sql: str) -> list[Any]:
        return [normal(row) for row in table_rows(self.pond.sql(sql).table)]


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
