"""Manifests and publish records: what an epoch is to do, and what it has done. Both are JSON files of the pond."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from millpond.adapt.filter_plans import FilterPlan
from millpond.adapt.matching_pace import UNLIMITED
from millpond.manifests.query_progress import QueryProgress
from millpond.progress import NEVER, StreamProgress
from millpond.tables import Segment, read_record, write_json
from millpond.tables.shard_cache import Version
from millpond.types import QueryOptions, TableStretch, to_json


@dataclass(frozen=True)
class Split:
    """What one map task reads: consecutive intake items of one stream.

    before: items of the same stream and epoch in front of this split, for the median of the cohort before it.
    """

    stream: int
    items: tuple[dict[str, Any], ...]
    before: tuple[dict[str, Any], ...] = ()


def start_of(options: QueryOptions, bound: int) -> int:
    """The event time after which a query's windows end, given the progress of its streams when it goes live."""
    if options.since is None:
        return bound
    return NEVER if options.since == "start" else options.since


@dataclass(frozen=True)
class Manifest:
    """Everything that an epoch depends on; replaying it gives the same bytes.

    clock: the clock reading of the epoch (microseconds). arrivals: per stream that runs on arrival time, the time
    before which nothing can arrive any more. version: of the catalog. intake: per stream, the first item not yet taken
    after this epoch. ends: streams whose source has announced its end. adopt: back-fills whose results become visible
    with this epoch. compact: per shard, state files to merge. expire: state files to remove. register: version of the
    register of row queries that new rows are matched with, by tasks of at least `eager_rows` rows; about
    `explicit_matches` matches per row are written out, as far as they are found within `matching_work` nanoseconds per
    row, by estimate. bounds: per derived stream, the progress that its source announces with the items that are taken;
    group_bounds: the same of groups that are further. filters: per condition with registered functions, the order of
    its filters and what is profiled (`filter_orders`). copies: per stream, the reduced copies of its archive that new
    rows enter, with the fraction that each keeps. archive: per stream that queries probe, the archive's files that
    their windows can reach. hot: per store, the keys that are split, by hash, and what they are called (`engine.skew`).
    moved: per store, keys whose rows of earlier epochs every shard takes over. tables: versions of the tables that
    queries read, by id; unread: of those that never could be read, why. lookups: per synopsis whose rows are joined
    with tables, which versions rows see, by their event time. opening: which opening of the pond wrote it, so that what
    processes keep is told from what they kept of another history; '': it was not said yet. mended: queries, as their
    state is owned, for which recomputed answers become visible with this epoch.
    """

    epoch: int
    clock: int
    version: int
    shards: int
    splits: tuple[Split, ...] = ()
    intake: dict[str, int] = field(default_factory=dict)
    ends: tuple[int, ...] = ()
    progress: dict[str, StreamProgress] = field(default_factory=dict)
    queries: dict[str, QueryProgress] = field(default_factory=dict)
    state: tuple[Segment, ...] = ()
    adopt: tuple[str, ...] = ()
    compact: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)
    expire: tuple[str, ...] = ()
    register: int = 0
    eager_rows: int = 16_384
    explicit_matches: float = 24.0
    matching_work: float = UNLIMITED
    bounds: dict[str, int] = field(default_factory=dict)
    group_bounds: dict[str, dict[str, int]] = field(default_factory=dict)
    copies: dict[str, dict[str, float]] = field(default_factory=dict)
    archive: dict[str, tuple[Segment, ...]] = field(default_factory=dict)
    hot: dict[str, dict[str, str]] = field(default_factory=dict)
    moved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    filters: dict[str, FilterPlan] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    lookups: dict[str, tuple[TableStretch, ...]] = field(default_factory=dict)
    opening: str = ""
    mended: tuple[str, ...] = ()

    def state_version(self, pond: str) -> Version:
        """The version that it makes of the state of the pond in a folder."""
        return Version(pond, self.opening, self.epoch)


@dataclass(frozen=True)
class StreamCounts:
    """Counters of a stream since its creation."""

    rows: int = 0
    late: int = 0
    dead: int = 0
    unknown: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Published:
    """What readers see: written when all tables of the epoch are committed.

    tables: versions of Delta tables. versions: of the tables that queries read, by id. lookups: see `Manifest`.
    failures: what failed in the epoch, by owner, and why: queries are quarantined for it (`quarantine`).
    """

    epoch: int = 0
    clock: int = 0
    version: int = 0
    intake: dict[str, int] = field(default_factory=dict)
    progress: dict[str, StreamProgress] = field(default_factory=dict)
    counts: dict[str, StreamCounts] = field(default_factory=dict)
    queries: dict[str, QueryProgress] = field(default_factory=dict)
    complete: dict[str, int] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    hot: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    lookups: dict[str, tuple[TableStretch, ...]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def record_path(pond: str, kind: str, epoch: int) -> str:
    """Where the record of an epoch of that kind lies: 'manifests' or 'published'."""
    return os.path.join(pond, kind, f"{epoch:012d}.json")


def manifest_path(pond: str, epoch: int) -> str:
    """Where the manifest of an epoch lies."""
    return record_path(pond, "manifests", epoch)


def published_path(pond: str, epoch: int) -> str:
    """Where the publish record of an epoch lies."""
    return record_path(pond, "published", epoch)


def write_manifest(pond: str, manifest: Manifest) -> None:
    """Write a manifest durably; from then on its epoch will happen, whatever crashes."""
    write_json(manifest_path(pond, manifest.epoch), to_json(manifest))


def read_manifest(pond: str, epoch: int) -> Manifest:
    """The manifest of an epoch. Landed batches are looked for in this pond, wherever it lay when it was written."""
    manifest = read_record(Manifest, manifest_path(pond, epoch))
    splits = [
        replace(s, items=tuple(_here(pond, i) for i in s.items), before=tuple(_here(pond, i) for i in s.before))
        for s in manifest.splits
    ]
    return replace(manifest, splits=tuple(splits))


def _here(pond: str, item: dict[str, Any]) -> dict[str, Any]:
    """An item with the path that it has in `pond`: a landing lies at intake/<stream>/landing/<file>, and so on."""
    if item["kind"] == "file":
        return item
    return {**item, "path": os.path.join(pond, *item["path"].split(os.sep)[-4:])}


def write_published(pond: str, published: Published) -> None:
    """Write a publish record durably."""
    write_json(published_path(pond, published.epoch), to_json(published))


def read_published(pond: str, epoch: int) -> Published:
    """The publish record of an epoch."""
    return read_record(Published, published_path(pond, epoch))


def recorded(pond: str, kind: str) -> list[int]:
    """The epochs with a record of that kind ('manifests' or 'published'), in any order."""
    return [int(n[:-5]) for n in os.listdir(os.path.join(pond, kind)) if n.endswith(".json")]


def last_record(pond: str, kind: str) -> int:
    """The largest epoch with a record of that kind, 0 if there is none."""
    return max(recorded(pond, kind), default=0)
