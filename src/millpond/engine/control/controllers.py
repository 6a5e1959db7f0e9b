"""What learns from epochs and has a say in the next ones: state machines that facts are told to, one for each subject.

What they decide stands in manifests, so that a repeated epoch asks none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millpond.adapt.matching_pace import MatchingPace
from millpond.adapt.scheduling import StageProfile
from millpond.archive.observed_load import Load
from millpond.catalog import Catalog
from millpond.engine.intake.admission import Pace
from millpond.engine.intake.stages import learn as learn_stages
from millpond.manifests.records import Manifest
from millpond.manifests.task_reports import EpochReport
from millpond.operators.filters.filter_orders import FilterOrders
from millpond.operators.relational.skew import Skew
from millpond.types.options import Settings


@dataclass
class Controllers:
    """The deciders of an open pond.

    pace: how much an epoch takes. matching_pace: how much matching with row queries may do. stages: what streams cost
    and give. skew: frequent keys of joins. filters: orders of dear filters. load: how much reduced scans leave out.
    """

    pace: Pace
    matching_pace: MatchingPace
    stages: StageProfile
    skew: Skew
    filters: FilterOrders
    load: Load

    @classmethod
    def of(cls, path: str, settings: Settings, load: Load) -> Controllers:
        """Those of a pond that was opened just now and has learnt nothing yet; `path`: its folder."""
        return cls(
            Pace(target=settings.target, rows=settings.rows_per_epoch),
            MatchingPace(share=settings.matching_share),
            StageProfile(),
            Skew(),
            FilterOrders(path),
            load,
        )

    def learn(self, catalog: Catalog, manifest: Manifest, report: EpochReport, seconds: float, waiting: int) -> None:
        """Take in what a published epoch was like.

        Args:
            seconds: that it lasted. waiting: bytes that have come and that it did not take.
        """
        self.filters.learn(catalog, manifest.filters, manifest.epoch, manifest.clock, report.tasks)
        self.pace.learn(report.bytes, seconds, waiting)
        self._learn_matching(report, seconds)
        for task in report.maps:
            for owner, seen in task.frequent.items():
                self.skew.learn(owner, seen)
        learn_stages(catalog, self.stages, report)
        self.load.observe()

    def _learn_matching(self, report: EpochReport, seconds: float) -> None:
        """Tell the pace of matching what the task took that was longest at it: the others ran beside it."""
        found = [(r.seconds["matching"], r.rows, r.matched) for r in report.maps if r.matched is not None]
        if found:
            took, rows, matched = max(found, key=lambda each: each[0])
            self.matching_pace.learn(rows, took, seconds - took, matched.work)

    def follow(self, name: str, value: Any) -> None:
        """Go by another value of a setting, if it is the business of any."""
        if name == "target":
            self.pace.target = value
            self.load.target = self.load.decider.target = 2 * value
        elif name == "rows_per_epoch":
            self.pace.rows = value
        elif name == "matching_share":
            self.matching_pace.share = value
