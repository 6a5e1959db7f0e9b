"""What an operator is told of the engine: what failed, what is slow, what was not taken in. A line an event."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from millpond.manifests.task_reports import EpochReport
from millpond.support.errors import MillpondError
from millpond.support.event_log import EventLog, Seldom, event_log, is_disk_full
from millpond.synopses.tolerance import one_line

LOG = event_log(__name__)

#: An epoch that lasts so many times its target is slow.
SLOW = 5

#: Seconds between lines that say the same of a stream, or of epochs.
SELDOM = 60.0


def failed(log: EventLog, event: str, error: Exception, path: str, **fields: Any) -> None:
    """Tell that something failed and is tried again, or waits for somebody. A full disk has a line of its own.

    Args:
        path: the pond's folder.
    """
    if is_disk_full(error):
        space = os.statvfs(path)
        free = space.f_bavail * space.f_frsize
        log.error("the disk is full", path=path, free_bytes=free, during=event, **fields)
        return
    known = isinstance(error, MillpondError | OSError)
    log.warning(event, None if known else error, error=one_line(error) or type(error).__name__, **fields)


class Notices:
    """Looks at epochs that are published, and says what is amiss, each thing seldom."""

    def __init__(self) -> None:
        self._dead, self._slow = Seldom(SELDOM), Seldom(SELDOM)

    def epoch(self, epoch: int, report: EpochReport, seconds: float, target: float, names: Mapping[int, str]) -> None:
        """Take in an epoch.

        Args:
            seconds: that it lasted. target: that epochs should last at most. names: of the streams, by id.
        """
        LOG.debug("epoch published", epoch=epoch, rows=report.rows, seconds=seconds)
        for stream in sorted({m.stream for m in report.maps if m.dead}):
            name = names.get(stream, str(stream))
            rows = self._dead.due(name, sum(m.dead for m in report.maps if m.stream == stream))
            if rows:
                LOG.warning("rows became dead letters", stream=name, rows=rows, epoch=epoch, see=f"dead({name})")
        if seconds > SLOW * target and (times := self._slow.due("", 1)):
            longest = sorted(report.seconds.items(), key=lambda stage: -stage[1])[:3]
            LOG.warning(
                "slow epoch", epoch=epoch, seconds=seconds, target=target, rows=report.rows, slow_epochs=times,
                longest={name: round(spent, 3) for name, spent in longest},
            )  # fmt: skip
