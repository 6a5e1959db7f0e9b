"""SysStream: what an epoch reports about streams, queries, operators and itself, as rows of the stream `sysstream`.

A row says that a property of an entity had a value (Babu 2005, section 2.7): `(entity, kind, property, value, ts)`.
What an epoch did (rows, seconds) is told when it did something; what is (bytes, progress) when it has changed. `ts` is
the clock reading in the epoch's manifest, so rows of an epoch have one time, and come in order.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from millpond.adapt.filter_plans import FilterPlan
from millpond.catalog import Catalog, Standing
from millpond.engine.control.sizes import StateSizes
from millpond.engine.intake.live_storage import LiveStorage, StreamRuntime
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest, Published
from millpond.manifests.task_reports import EpochReport
from millpond.operators.filters.filter_readings import filter_readings
from millpond.progress import FOREVER, NEVER, StreamProgress
from millpond.sources.derived_stream import derived_folder
from millpond.sources.system import write_report
from millpond.types import DAY, Column, StreamDefinition, StreamOptions

SYSSTREAM: Final = "sysstream"
COLUMNS: Final = (
    Column("entity", "VARCHAR"),
    Column("kind", "VARCHAR"),
    Column("property", "VARCHAR"),
    Column("value", "DOUBLE"),
    Column("ts", "TIMESTAMP"),
)
SCHEMA: Final = pa.schema(
    [
        ("entity", pa.string()),
        ("kind", pa.string()),
        ("property", pa.string()),
        ("value", pa.float64()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)

#: (entity, kind) -> property -> value.
Readings: TypeAlias = dict[tuple[str, str], dict[str, float]]


def definition_of(number: int) -> StreamDefinition:
    """The stream as it is declared; a day of it is kept unless ALTER STREAM says otherwise."""
    return StreamDefinition(SYSSTREAM, COLUMNS, StreamOptions(source="system", time="ts", retention=DAY), number)


def system_stream(catalog: Catalog) -> StreamDefinition | None:
    """The stream `sysstream`, where it has begun."""
    found = catalog.stream(SYSSTREAM)
    return found if found is not None and found.options.source == "system" else None


@dataclass
class Reporter:
    """Makes the reports of a pond's epochs; remembers what it said last, so that only changes are told."""

    sizes: StateSizes
    _said: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def forget(self) -> None:
        """Tell everything anew."""
        self._said = {}

    def table(self, happened: Readings, states: Readings, clock: int) -> pa.Table:
        """The rows of a report: what happened, and what has changed."""
        rows = [(e, k, p, v) for (e, k), values in happened.items() for p, v in values.items() if v]
        # What is gone is not remembered: one of its name that comes later is told whole.
        said = {(e, k, p): v for (e, k), values in states.items() for p, v in values.items()}
        rows += [(*key, value) for key, value in said.items() if self._said.get(key) != value]
        self._said = said
        rows.sort()
        columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
        return pa.table([*columns[:3], pa.array(columns[3], pa.float64()), [clock] * len(rows)], schema=SCHEMA)


def own_streams(catalog: Catalog) -> set[int]:
    """`sysstream`, and what is derived from it."""
    system = system_stream(catalog)
    return set() if system is None else {system.id, *(s.id for s in catalog.derived_from(system.id))}


def takes_others(manifest: Manifest, catalog: Catalog) -> bool:
    """Whether an epoch takes anything but reports, and what was derived from them."""
    own = own_streams(catalog)
    return any(s.stream not in own for s in manifest.splits)


def is_of_interest(manifest: Manifest, catalog: Catalog, before: Published, after: Mapping[str, QueryProgress]) -> bool:
    """Whether an epoch did anything that does not come of `sysstream` itself: only then it reports."""
    own = own_streams(catalog)
    if manifest.adopt or manifest.ends or takes_others(manifest, catalog):
        return True
    for standing in catalog.queries.values():
        if own.issuperset(s.id for s in catalog.streams_of(standing)):
            continue
        old = before.queries.get(str(standing.id), QueryProgress())
        new = after.get(str(standing.id), old)
        if (old.windows, old.revisions) != (new.windows, new.revisions):
            return True
    return False


@dataclass(frozen=True)
class Work:
    """What an epoch did, as its tasks told. stages: seconds by stage. filters: orders of dear filters."""

    epoch: int
    clock: int
    stages: Mapping[str, float]
    report: EpochReport
    filters: Mapping[str, FilterPlan] = field(default_factory=dict)


@dataclass(frozen=True)
class Reached:
    """How far an epoch has come.

    queries, progress: of queries and streams after the epoch. catalog: as it is. limit: bytes that an epoch may take.
    """

    manifest: Manifest
    catalog: Catalog
    queries: Mapping[str, QueryProgress]
    progress: Mapping[str, StreamProgress]
    limit: int


def report_epoch(reporter: Reporter, storage: LiveStorage, work: Work, before: Published, reached: Reached) -> None:
    """Write the report of an epoch that is committed and not published yet.

    Args:
        before: the last publish record.
    """
    catalog, manifest = reached.catalog, reached.manifest
    system = system_stream(catalog)
    if system is None or not is_of_interest(manifest, catalog, before, reached.queries):
        return
    states = state_readings(reporter, storage, reached)
    states |= filter_readings(catalog, work.filters, work.report.tasks, work.epoch, work.clock)[1]
    table = reporter.table(epoch_readings(catalog, work), states, manifest.clock)
    if table.num_rows:
        write_report(derived_folder(storage.path, system), manifest.epoch, table)


def epoch_readings(catalog: Catalog, *epochs: Work) -> Readings:
    """What one epoch did, or several together."""
    found: Readings = {("pond", "pond"): defaultdict(float)}
    pond = found["pond", "pond"]
    for work in epochs:
        pond["epochs"] += 1
        for name, seconds in work.stages.items():
            pond[f"{name}_seconds"] += seconds
        pond["rows"] += work.report.rows
        pond["bytes"] += work.report.bytes
        _add(catalog, work, found)
    for (_, kind), of in found.items():
        if kind != "pond" and of.get("rows_in") and "rows_out" in of:
            of["selectivity"] = of["rows_out"] / of["rows_in"]
    return found


def _add(catalog: Catalog, work: Work, found: Readings) -> None:
    for report in work.report.maps:
        stream = catalog.streams.get(report.stream)
        if stream is None:
            continue
        _sum(found, stream.name, "stream", rows_in=report.rows, late=report.late, dead=report.dead,
             bytes_in=report.bytes, seconds=report.lasted)  # fmt: skip
        for owner, did in report.operators.items():
            entity, kind = operator_name(catalog, owner)
            _sum(found, entity, kind, rows_in=did.rows_in, rows_out=did.rows_out, seconds=did.seconds)
    for merge in work.report.merges:
        for owner, rows in merge.given.items():
            if (standing := catalog.queries.get(int(owner[1:]))) is not None:
                _sum(found, standing.definition.name, "query", rows_out=rows)
        for number, seconds in merge.spent.items():
            if (standing := catalog.queries.get(int(number))) is not None:
                _sum(found, standing.definition.name, "query", seconds=seconds)
    done, _ = filter_readings(catalog, work.filters, work.report.tasks, work.epoch, work.clock)
    for (entity, kind), values in done.items():
        _sum(found, entity, kind, **values)


def _sum(found: Readings, entity: str, kind: str, **values: float) -> None:
    of = found.setdefault((entity, kind), {})
    for name, value in values.items():
        of[name] = of.get(name, 0.0) + value


def state_readings(reporter: Reporter, storage: LiveStorage, reached: Reached) -> Readings:
    """What is so after an epoch: progress, lag, what waits, sizes."""
    catalog, state = reached.catalog, storage.state.segments
    found = {(s.name, "stream"): _of_stream(storage.streams[s.id], reached) for s in catalog.streams.values()}
    waiting = sum((of["waiting_rows"] for of in found.values()), 0.0)
    for standing in catalog.queries.values():
        if (of := _of_query(standing, reached)) is not None:
            found[standing.definition.name, "query"] = of
    for owner, size in reporter.sizes.of(state).items():
        if owner in catalog.synopses or owner in catalog.stores:
            found[owner, "synopsis"] = {
                "state_rows": float(size.rows),
                "state_bytes": float(size.bytes),
                "users": float(len(catalog.users(owner))),
            }
    found["pond", "pond"] = {
        "waiting_rows": waiting,
        "state_files": float(len(state)),
        "state_bytes": float(sum(s.size for s in state)),
        "memory_bytes": float(memory_bytes()),
        "epoch_limit_bytes": float(reached.limit),
    }
    return found


def _of_stream(runtime: StreamRuntime, reached: Reached) -> dict[str, float]:
    number = str(runtime.definition.id)
    known = reached.progress.get(number, StreamProgress())
    left = runtime.log.items(reached.manifest.intake.get(number, 0), None)
    segments = runtime.archive.segments
    found = {
        "waiting_rows": float(sum(i.rows or 0 for i in left)),
        "waiting_bytes": float(sum(i.size for i in left)),
        "archive_bytes": float(sum(s.size for s in segments)),
        "archive_files": float(len(segments)),
    }
    if NEVER < known.bound < FOREVER:
        found["watermark"] = known.bound / 1e6
    if NEVER < known.high < FOREVER:
        found["behind_clock"] = (reached.manifest.clock - known.high) / 1e6
    return found


def _of_query(standing: Standing, reached: Reached) -> dict[str, float] | None:
    known, progress = reached.queries.get(str(standing.id)), reached.progress
    if known is None:
        return None
    found = {"revisions": float(known.revisions), "too_late": float(known.too_late)}
    if NEVER < known.closed < FOREVER:
        found["answered_until"] = known.closed / 1e6
        streams = [str(s.id) for s in reached.catalog.streams_of(standing)]
        high = max((progress[s].high for s in streams if s in progress), default=NEVER)
        if NEVER < high < FOREVER:
            found["behind_stream"] = max(0.0, (high - known.closed) / 1e6)
    return found


def operator_name(catalog: Catalog, owner: str) -> tuple[str, str]:
    """(entity, kind) of what a map task made: the rows of a derived stream, or the partials of a synopsis."""
    if owner.startswith("s") and owner[1:].isdigit() and int(owner[1:]) in catalog.streams:
        return catalog.streams[int(owner[1:])].name, "stage"
    return owner, "synopsis"


def memory_bytes() -> int:
    """Resident memory of this process, without Spark's; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
