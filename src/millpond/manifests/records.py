"""Manifests and publish records: what an epoch is to do, and what it has done. Both are JSON files of the pond."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from millpond.adapt.filter_plans import FilterPlan
from millpond.adapt.matching_pace import UNLIMITED
from millpond.manifests.owed import Owed, all_owed
from millpond.progress import NEVER, StreamProgress
from millpond.tables import Segment, read_json, write_json
from millpond.tables.shard_cache import Version
from millpond.types import QueryOptions, TableStretch, from_json, to_json


@dataclass(frozen=True)
class Split:
    """What one map task reads: consecutive intake items of one stream.

    before: items of the same stream and epoch in front of this split, for the median of the cohort before it.
    """

    stream: int
    items: tuple[dict[str, Any], ...]
    before: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Held:
    """Windows with after < end <= until (microseconds) that closed at clock reading `since` and whose answers go out
    slot by slot: those of slots before `place` are out."""

    after: int
    until: int
    since: int
    place: int = 0


@dataclass(frozen=True)
class Floor:
    """Rows of the epochs from `first` to `last` are seen by a relational query from its horizon on; see `floors`.

    closed: how far it had answered when they came (microseconds); edge: what `revise_for` was measured from.
    sides: of a stream of pairs, what `revise_for` was measured from for rows of each input."""

    first: int
    last: int
    closed: int
    edge: int
    sides: tuple[int, ...] = ()


#: How a field of a record goes on: what it was before, and what each shard says that it is now.
Rule = Callable[[Any, Sequence[Any]], Any]


def largest(_before: Any, after: Sequence[Any]) -> Any:
    """What the furthest shard says; of flags, whether any shard sets it."""
    return max(after)


def smallest(_before: Any, after: Sequence[Any]) -> Any:
    """The least that a shard knows of; None when none does."""
    return min((a for a in after if a is not None), default=None)


def added_up(before: Any, after: Sequence[Any]) -> Any:
    """A count: each shard says how many there were before and in its own part."""
    return before + sum(a - before for a in after)


def all_told(_before: Any, after: Sequence[Any]) -> Any:
    """Everything that some shard names, each once."""
    return tuple(dict.fromkeys(each for a in after for each in a))


def news(before: Any, after: Sequence[Any]) -> Any:
    """What shards have changed, all alike; those for which there was nothing to do have left it as it was."""
    return next((a for a in after if a != before), before)


def as_before(before: Any, _after: Sequence[Any]) -> Any:
    """What is settled when a query is registered, and no shard changes."""
    return before


def alike(_before: Any, after: Sequence[Any]) -> Any:
    """What every shard that has something to say knows alike: a query that answers is not paused."""
    return after[0]


def by_shard(rule: Rule, default: Any) -> Any:
    """A field of a record that every shard makes its own of."""
    return field(default=default, metadata={"rule": rule})


@cache
def combining(kind: type) -> dict[str, Rule]:
    """The rule of every field of a record. Raises: KeyError for one that has none."""
    return {f.name: f.metadata["rule"] for f in fields(kind)}


@dataclass(frozen=True)
class QueryProgress:
    """How far a query has answered.

    closed: windows that end at or before it have been reported (microseconds).
    start: windows that end at or before it are not the query's business: they were closed when it was registered.
    first: end of the first window with data, from which on `empty='report'` reports.
    paused: the first epoch in which the query was paused; None while it runs.
    groups: groups whose windows are closed further than `closed`, on a stream with bounds of groups (microseconds).
    covered: retention had removed rows before this instant when the query's back-fill read the archive: windows that
        start before it are answered from what was left.
    early_at: the clock reading of its last early answers. stirred: whether rows of its stream came since; both only
        with the option `early`. held: windows whose answers are going out by and by, with the option `flush`.
    reduced: stretches of event time of which its back-fill has left out rows (REDUCE): windows that meet one are
        estimates.
    dropped: the largest fraction that was left out of them.
    scanned: what its back-fill read, in words, where that was reduced.
    coarse: (low, high, interval): where it has seen rows at the start of their interval.
    pending: of a relational query, the next instant at which something changes, if nothing comes before.
    edge: of a relational query, what `revise_for` is measured from: how far it has answered, but no further than the
        high watermark; it never goes back. floors: rows that it sees later than at their own time.
    tables: of a query that reads tables, from which instants on it has seen which versions of them, as far back as
        instants can still be revised.
    sides: of a stream of pairs, the bound of each input; side_groups: those of its groups that are further. edges: what
        `revise_for` is measured from for each of them.
    summed: of aggregates over a join, whether what is known of groups is kept (`group_sums`).
    floor: before it state is not complete, though `revise_for` reaches further: it was raised (microseconds).
    owed: what rows have come for that state no longer covers, until it is recomputed from the archive.
    missed: (low, high): windows that end, or instants that lie, in such stretches lack rows that came when retention
        had removed what they were made of.
    """

    closed: int = by_shard(largest, NEVER)
    start: int = by_shard(as_before, NEVER)
    first: int | None = by_shard(smallest, None)
    windows: int = by_shard(added_up, 0)
    revisions: int = by_shard(added_up, 0)
    too_late: int = by_shard(added_up, 0)
    paused: int | None = by_shard(alike, None)
    covered: int = by_shard(as_before, NEVER)
    groups: dict[str, int] = field(default_factory=dict, metadata={"rule": news})
    early_at: int = by_shard(largest, NEVER)
    stirred: bool = by_shard(largest, False)
    held: tuple[Held, ...] = by_shard(news, ())
    reduced: tuple[tuple[int, int], ...] = by_shard(news, ())
    dropped: float = by_shard(news, 0.0)
    scanned: str = by_shard(news, "")
    coarse: tuple[tuple[int, int, int], ...] = by_shard(news, ())
    pending: int | None = by_shard(smallest, None)
    edge: int = by_shard(largest, NEVER)
    floors: tuple[Floor, ...] = by_shard(all_told, ())
    sides: tuple[int, ...] = by_shard(news, ())
    edges: tuple[int, ...] = by_shard(news, ())
    side_groups: tuple[dict[str, int], ...] = by_shard(news, ())
    tables: tuple[TableStretch, ...] = by_shard(news, ())
    summed: bool = by_shard(largest, False)
    floor: int = by_shard(as_before, NEVER)
    owed: tuple[Owed, ...] = by_shard(all_owed, ())
    missed: tuple[tuple[int, int], ...] = by_shard(news, ())

    @property
    def answered(self) -> int:
        """Windows that end at or before it have been answered altogether."""
        return min([self.closed, *(h.after for h in self.held)])

    def after(self, shards: Sequence[QueryProgress]) -> QueryProgress:
        """The progress after an epoch or a back-fill, of what each shard made of it: every field by its own rule."""
        if not shards:
            return self
        return replace(self, **{name: rule(getattr(self, name), [getattr(s, name) for s in shards])
                                for name, rule in combining(QueryProgress).items()})  # fmt: skip


def start_of(options: QueryOptions, bound: int) -> int:
    """The event time after which a query's windows end, given the progress of its streams when it goes live."""
    if options.since is None:
        return bound
    return NEVER if options.since == "start" else options.since


@dataclass(frozen=True)
class Manifest:
    """Everything that an epoch depends on; replaying it gives the same bytes.

    clock: the clock reading of the epoch (microseconds). arrivals: per stream that runs on arrival time, the time
    before which nothing can arrive any more. version: of the catalog. intake: per stream, the first item
    not yet taken after this epoch. ends: streams whose source has announced its end. adopt: back-fills whose results
    become visible with this epoch. compact: per shard, state files to merge. expire: state files to remove.
    register: version of the register of row queries that new rows are matched with, by tasks of at least `eager_rows`
    rows; about `explicit_matches` matches per row are written out, as far as they are found within `matching_work`
    nanoseconds per row, by estimate. bounds: per derived stream, the progress that its source announces with the items
    that are taken. filters: per condition with registered functions, the order of its filters and what is profiled
    (`filter_orders`). copies: per stream, the reduced copies of its archive that new rows enter, with the fraction that
    each keeps. archive: per stream that queries probe, the archive's files that their windows can reach.
    hot: per store, the keys that are split, by hash, and what they are called (`engine.skew`). moved: per store, keys
    whose rows of earlier epochs every shard takes over. tables: versions of the tables that queries read, by id;
    unread: of those that never could be read, why. lookups: per synopsis whose rows are joined with tables, which
    versions rows see, by their event time. opening: which opening of the pond wrote it, so that what processes keep is
    told from what they kept of another history; '': it was not said yet. mended: queries, as their state is owned, for
    which recomputed answers become visible with this epoch.
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
    manifest = from_json(Manifest, read_json(manifest_path(pond, epoch)))
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
    return from_json(Published, read_json(published_path(pond, epoch)))


def recorded(pond: str, kind: str) -> list[int]:
    """The epochs with a record of that kind ('manifests' or 'published'), in any order."""
    return [int(n[:-5]) for n in os.listdir(os.path.join(pond, kind)) if n.endswith(".json")]


def last_record(pond: str, kind: str) -> int:
    """The largest epoch with a record of that kind, 0 if there is none."""
    return max(recorded(pond, kind), default=0)
