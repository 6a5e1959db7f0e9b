"""Whether the past that a new standing query wants to be back-filled from can be read as its REDUCE says."""

from __future__ import annotations

from millpond.archive.open_archives import Archives
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_plans import plan_scan
from millpond.archive.planning.scans import Scan
from millpond.catalog import Standing, Synopsis
from millpond.catalog.unions import progress_of, streams_of
from millpond.manifests.records import start_of
from millpond.operators.windowed.needs import read_since
from millpond.progress import NEVER
from millpond.support.errors import QueryError
from millpond.types import Reduction, StreamDefinition

#: Reductions whose steps are known without asking anybody or reading anything.
_FIXED = ("sample", "age")


def check_windows(archives: Archives, standing: Standing, synopsis: Synopsis) -> None:
    """Refuse a query over windows whose back-fill would find only copies that lack more than it allows.

    What only reading shows (`error`, `load`, one's own functions) is left to the back-fill, which gives up its query.

    Raises: QueryError which says what is there.
    """
    reduction = standing.windowed.reduce
    if reduction is None:
        return
    state = progress_of(archives.catalog, synopsis.spec, archives.published.progress)
    low = read_since(standing, start_of(standing.definition.options, state.bound), state.high)
    wanted = Range(low if low > NEVER else None, None, standing.first_epoch - 1)
    _check(archives, standing, reduction, streams_of(archives.catalog, synopsis.spec), wanted, state.high)


def check_relation(archives: Archives, standing: Standing) -> None:
    """As `check_windows`, for a relation that is answered from the start: all of its inputs' past is read.

    Raises: QueryError which says what is there.
    """
    relation = standing.relational
    if standing.definition.options.since != "start":
        return
    for item in relation.inputs:
        if item.reduce is None or relation.probe(item.alias) is not None:
            continue
        streams = archives.catalog.streams_named(item.names)
        progress = [archives.published.progress.get(str(s.id)) for s in streams]
        now = max((p.high for p in progress if p is not None), default=NEVER)
        _check(archives, standing, item.reduce, streams, Range(epoch=standing.first_epoch - 1), now)


def _check(
    archives: Archives,
    standing: Standing,
    reduction: Reduction,
    streams: list[StreamDefinition],
    wanted: Range,
    now: int,
) -> None:
    if reduction.function not in _FIXED:
        return
    scan = Scan(reduction, max(now, NEVER), told=False)
    try:
        with archives.pinned():
            plan_scan(archives, streams, wanted, scan)
    except QueryError as error:
        name = standing.definition.name
        raise QueryError(f"query '{name}' cannot be back-filled: {error}") from None
