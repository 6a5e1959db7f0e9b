"""The `system` source: what epochs report about themselves becomes the rows of the stream `sysstream`.

The driver writes the report of an epoch as a file before the epoch is published, and the source takes it in once it
is: with the next epoch that has something to do, or in one of its own after a second of quiet. An epoch that takes
nothing but such rows, and what follows from them, writes no report, so that a pond at rest stays at rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa

from millpond.sources.derived_stream import Parts, epoch_of, file_name, rows_of, write_part
from millpond.sources.intake_log import IntakeLog, Item
from millpond.tables import remove_file

#: Microseconds of clock time for which reports are gathered before they are taken in, while nothing waits for them.
PERIOD = 1_000_000


def write_report(folder: str, epoch: int, rows: pa.Table) -> None:
    """Write the report of an epoch, durably; one that a killed attempt left is replaced."""
    if os.path.isdir(folder):
        name = file_name(epoch, 0, rows.num_rows)
        for other in os.listdir(folder):
            if other.startswith(name[:14]) and other != name:
                remove_file(os.path.join(folder, other))
    write_part(folder, epoch, 0, rows)


class SystemSource(Parts):
    """What `sysstream` has to take in; lives in the driver. The caller holds the pond's lock.

    Arguments:
        log: the stream's intake log. folder: where reports are put. published: the last published epoch.
    """

    changed: tuple[str, ...] = ()

    def __init__(self, log: IntakeLog, folder: str, published: Callable[[], int]) -> None:
        super().__init__(log, folder)
        self._published, self._looked, self._taken = published, self.epoch, 0

    def poll(self, clock_us: int, settle: bool = True) -> list[Item]:
        """Record what published epochs have reported since; the items, with their ordinals.

        Arguments:
            settle: False takes reports at once (DRAIN).
        """
        published = self._published()
        if published <= self._looked or (settle and clock_us < self._taken + PERIOD):
            return []
        files = sorted(n for n in self.files() if self.epoch < epoch_of(n) <= published)
        self._looked = published
        if not files:
            return []
        self._taken = clock_us
        size = sum(os.path.getsize(os.path.join(self.folder, f)) for f in files)
        path = os.path.join(self.folder, files[0])
        item = Item(
            0, "derived", path, "derived", size, 0, "", sum(rows_of(f) for f in files), "", clock_us,
            epoch=published, parts=tuple(files),
        )  # fmt: skip
        taken = self.log.append([item])
        self.epoch = published
        return taken
