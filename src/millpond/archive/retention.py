"""How long a stream's rows and their copies stay: the option `retention`, and what its design says behind `keep`."""

from __future__ import annotations

from millpond.archive import Keep, parse_design
from millpond.archive.copy_files import level_name
from millpond.archive.design.sampling import kept_fraction
from millpond.catalog import Catalog
from millpond.manifests.records import Published
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.tables.segments import Snapshot
from millpond.types import StreamDefinition, StreamQuery


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


def retained_from(stream: StreamDefinition, published: Published) -> int:
    """The event time below which rows are past the stream's retention as of a publish record; NEVER without one."""
    retention = row_retention(stream)
    progress = published.progress.get(str(stream.id), StreamProgress())
    if retention is None or progress.high <= NEVER:
        return NEVER
    return max(NEVER, min(progress.bound, progress.high, FOREVER) - retention)


def gone_before(snapshot: Snapshot, retained: int) -> int:
    """The event time before which retention has taken rows of a stream (microseconds); NEVER: it has taken none.

    Whether upkeep has removed their files yet makes no difference.

    Arguments:
        snapshot: of its archive. retained: the event time below which rows are past its retention; NEVER without one.
    """
    segments, removed = snapshot
    taken = removed is not None or any(s.low < retained for s in segments)
    return max(NEVER if removed is None else removed, retained if taken else NEVER)


def floors_of(stream: StreamDefinition, retained: int) -> dict[str, int] | None:
    """From which event time on the rows ('') and each copy with a retention of its own are seen; None: all of time.

    Arguments:
        retained: the event time below which rows are past the stream's retention; NEVER without one.
    """
    span = row_retention(stream)
    if span is None or retained <= NEVER:
        return None
    found = {"": retained}
    for name, keep in keep_of_copies(stream).items():
        found[name] = NEVER if keep.time is None else max(NEVER, retained + span - keep.time)
    return found


def is_cut(stream: StreamDefinition) -> bool:
    """Whether rows of a stream are removed some time, so that windows can lack some."""
    return keep_of_rows(stream) != Keep()


def is_retained(catalog: Catalog, query: StreamQuery) -> bool:
    """Whether a stream that a query reads has a retention, so that windows can be cut by it."""
    return any((s := catalog.stream(n)) is not None and is_cut(s) for n in query.stream_names)
