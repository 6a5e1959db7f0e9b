"""Derived streams that wait: for their past, which is made before what comes live, and for what epochs gave."""

from __future__ import annotations

from millpond.catalog.catalogs import Catalogs
from millpond.engine.intake.live_storage import LiveStorage
from millpond.manifests.epochs import Epochs
from millpond.manifests.places import derived_owner
from millpond.sources.derived_stream import DerivedSource
from millpond.sources.system import SystemSource


def waiting_histories(storage: LiveStorage, catalogs: Catalogs, epochs: Epochs) -> list[str]:
    """Operators of derived streams whose past has still to be made, and can: the epoch before is published."""
    with storage.lock:
        found = []
        for number, runtime in storage.streams.items():
            source = runtime.source
            if number not in catalogs.catalog.streams or not isinstance(source, DerivedSource) or not source.waits:
                continue
            if epochs.published.epoch >= source.derivation.first_epoch - 1:
                found.append(number)
        return [derived_owner(number) for number in sorted(found)]


def caught_up(storage: LiveStorage, catalogs: Catalogs, epochs: Epochs, now: int) -> bool:
    """Whether derived streams, and the system's, have taken all that the published epochs gave for them.

    Args:
        now: the clock, microseconds.
    """
    with storage.lock:
        for number, runtime in storage.streams.items():
            source = runtime.source
            if number not in catalogs.catalog.streams or not isinstance(source, DerivedSource | SystemSource):
                continue
            source.poll(now, settle=False)
            if (isinstance(source, DerivedSource) and source.waits) or epochs.published.intake.get(
                str(number), 0
            ) < runtime.log.length:
                return False
        return True
