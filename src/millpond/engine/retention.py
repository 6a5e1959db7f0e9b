"""How long a stream's rows and their copies stay: the option `retention`, and what its design says behind `keep`."""

from __future__ import annotations

from millpond.archive import Keep, parse_design
from millpond.archive.sampling import kept_fraction
from millpond.engine.copies import level_name
from millpond.progress import NEVER
from millpond.types import StreamDefinition


def keep_of_rows(stream: StreamDefinition) -> Keep:
    """How much of the rows themselves stays."""
    keep, retention = parse_design(stream.options.archive).keep, stream.options.retention
    spans = [t for t in (keep.time, retention) if t is not None]
    return Keep(min(spans, default=None), keep.size)


def keep_of_copies(stream: StreamDefinition) -> dict[str, Keep]:
    """What is said of the copies of a design, by name; a copy of which nothing is said goes with the rows."""
    levels = parse_design(stream.options.archive).levels
    return {level_name(kept_fraction(level.reduction)): level.keep for level in levels if level.keep != Keep()}


def row_retention(stream: StreamDefinition) -> int | None:
    """How long rows are seen, microseconds of event time behind progress; None: as long as they are there."""
    return keep_of_rows(stream).time


def reduced_from(stream: StreamDefinition, retained: int) -> int:
    """The event time below which neither rows nor copies are seen: reduced scans reach as far back as a copy does.

    Arguments:
        retained: the event time below which rows are not seen, microseconds; NEVER: they are not cut.
    """
    own = row_retention(stream)
    if own is None or retained <= NEVER:
        return NEVER
    times = [keep.time for keep in keep_of_copies(stream).values()]
    longest = max((time for time in times if time is not None), default=own)
    return NEVER if None in times else max(NEVER, retained + own - max(own, longest))


def is_cut(stream: StreamDefinition) -> bool:
    """Whether rows of a stream are removed some time, so that windows can lack some."""
    return keep_of_rows(stream) != Keep()
