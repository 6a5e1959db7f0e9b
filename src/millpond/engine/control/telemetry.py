"""What the last epochs did, for those who look: rows and seconds of each, and operator by operator."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from millpond.engine.control.notices import Notices
from millpond.engine.control.reporting import Reporter, Work
from millpond.manifests.task_reports import longest


@dataclass
class Stopwatch:
    """Seconds of the parts of an epoch, by name. A lap begins where the last one ended."""

    laps: dict[str, float] = field(default_factory=dict)
    _started: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """End a part."""
        self.laps[name] = self.total - sum(self.laps.values())

    @property
    def total(self) -> float:
        """Seconds since it was started."""
        return time.perf_counter() - self._started


@dataclass
class Telemetry:
    """What the last epochs did.

    recent: rows and seconds of each. work: operator by operator. reporter: says what has changed. notices: what goes
    to the log.
    """

    reporter: Reporter
    notices: Notices = field(default_factory=Notices)
    recent: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=64))
    work: deque[Work] = field(default_factory=lambda: deque(maxlen=8))

    def add(self, work: Work, watch: Stopwatch, of_interest: bool) -> None:
        """Take in an epoch that is published; of_interest: it took more than reports about epochs."""
        report, scanned = work.report, work.report.scanned
        self.recent.append(
            {
                "epoch": work.epoch,
                "rows": report.rows,
                "streams": report.stream_rows,
                "seconds": watch.total,
                "stages": report.seconds | watch.laps,
                "longest": {"map": longest(report.maps), "merge": longest(report.merges)},
                "clock": work.clock,
            }
            | ({} if scanned is None else {"scans": asdict(scanned)})
        )
        if of_interest:
            self.work.append(work)
