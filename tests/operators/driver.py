"""Runs the epochs of a pond in process: map and merge tasks over a folder in memory, and manifests in memory.

There is no intake log, no commit, no lock, and no Spark: what an epoch takes is handed to it, and what it has written
is there. All else is what a pond does: the same map and merge steps, for every operator of the registry.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import millpond
from millpond.archive.archive_files import archive_folder, dead_folder
from millpond.archive.copy_files import eager_copies
from millpond.catalog import Catalog, Standing, apply
from millpond.engine.control.committing import queries_after
from millpond.engine.control.facts import Facts, StreamFacts
from millpond.engine.control.proposal import Proposal, propose
from millpond.engine.tasks.mapping import map_split
from millpond.engine.tasks.merging import merge_shard
from millpond.manifests.adoptions import Adoption
from millpond.manifests.places import query_owner, results_folder, state_folder, summaries_folder
from millpond.manifests.quarantine import Failures
from millpond.manifests.records import Manifest, Published, Split
from millpond.manifests.task_reports import EpochReport
from millpond.operators.contract import Past, least_need
from millpond.operators.filters.filter_orders import FilterOrders
from millpond.operators.plan_facts import PlanFacts
from millpond.operators.registry import Operators, operators_of
from millpond.progress import NEVER
from millpond.sources.ingest import to_table
from millpond.sources.intake_log import Item
from millpond.sources.table_sources.versions import TableVersions
from millpond.synopses import connection
from millpond.synopses.finish import identity
from millpond.tables import Segment, read_chunks, write_chunks
from millpond.tables.executors import Parcel
from millpond.tables.shard_cache import ShardCache, forget
from millpond.types import StreamDefinition
from millpond.types.options import Settings
from millpond.types.plan_nodes import Fact
from tests.operators.pasts import archives_of, begun_at
from tests.oracle import Row
from tests.quick import quick_folder

EPOCH = dt.datetime(1970, 1, 1)

#: Rows that one epoch takes of a stream: tasks, of items, of rows.
Taken = Sequence[Sequence[Sequence[Row]]]

#: More files than any case has.
NEVER_MERGED = 1_000_000

_numbers = itertools.count()


@dataclass(frozen=True)
class Declared:
    """What a script makes.

    Attributes:
        catalog: streams and standing queries. row_queries: names of the others, by id.
        register: the version of their indexes; 0: there are none. indexes: the files of these, by path.
    """

    catalog: Catalog
    row_queries: Mapping[int, str]
    register: int
    indexes: Mapping[str, bytes]


@functools.lru_cache(maxsize=1024)
def declared(script: str, shards: int) -> Declared:
    """What a script makes in a new pond."""
    with quick_folder() as folder:
        pond = millpond.open(str(folder / "pond"), executor="inline", shards=shards)
        try:
            pond.sql(script)
            catalog, register = pond._core.catalog, pond._core.register
            names = {register.id_of(name): name for name in register.names()}
            version = register.ship(catalog.streams) if names else 0
        finally:
            pond.close()
        files = {str(f.relative_to(folder / "pond")): f.read_bytes() for f in (folder / "pond").rglob("*.boxes")}
        return Declared(catalog, names, version, files)


@dataclass(frozen=True)
class Outcome:
    """What the tasks of an epoch gave."""

    manifest: Manifest
    parcels: tuple[Parcel, ...]
    report: EpochReport

    @property
    def sent(self) -> list[tuple[int, str, int, bytes]]:
        """What map tasks sent: (shard, owner, task, bytes); reports, which tell of seconds, are left out."""
        return [(p.shard, p.owner, p.task, bytes(p.payload)) for p in self.parcels if p.owner]


class Driver:
    """A pond's catalog, state and progress, and the epochs that move them on.

    Args:
        folder: where files lie. script: what the catalog is made by. shards: how many shards there are.

    Attributes:
        pond_id: what this process keeps in memory goes by; another one is another process.
        taken: rows that epochs took, by stream, in order of intake.
    """

    def __init__(self, folder: Path, script: str, shards: int = 2) -> None:
        self.pond, self.shards, self.declared = str(folder), shards, declared(script, shards)
        self.catalog = self.declared.catalog
        self.opening = f"opening {next(_numbers)}"
        self.process = 0
        self.memories: dict[int, Mapping[ShardCache[Any], Mapping[Any, Any]]] = {}
        self.published = Published()
        self.state: list[Segment] = []
        self.results: list[Segment] = []
        self.archive: dict[int, list[Segment]] = defaultdict(list)
        self.copies: dict[tuple[int, str], list[Segment]] = defaultdict(list)
        self.entries: list[Segment] = []
        self.failures: dict[str, str] = {}
        self.adoptions: tuple[Adoption, ...] = ()
        for path in (state_folder(self.pond), results_folder(self.pond), summaries_folder(self.pond), self._landing):
            os.makedirs(path)
        for name, data in self.declared.indexes.items():
            os.makedirs(folder / os.path.dirname(name), exist_ok=True)
            (folder / name).write_bytes(data)
        for stream in self.catalog.streams.values():
            os.makedirs(archive_folder(self.pond, stream))
            os.makedirs(dead_folder(self.pond, stream))

    @property
    def _landing(self) -> str:
        return os.path.join(self.pond, "landing")

    @property
    def operators(self) -> Operators:
        """The operators of the catalog."""
        return operators_of(self.catalog)

    # -- epochs

    def step(self, taken: Mapping[str, Taken], compact: bool = False, expire: bool = False) -> Outcome:
        """One epoch; arguments as of `plan`."""
        outcome = self.run(self.plan(taken, compact=compact, expire=expire))
        self.publish(outcome)
        return outcome

    def finish(self) -> Outcome:
        """The epoch in which all streams end, so that all is answered."""
        outcome = self.run(self.plan({}, end=True))
        self.publish(outcome)
        return outcome

    def plan(
        self, taken: Mapping[str, Taken], end: bool = False, compact: bool = False, expire: bool = False
    ) -> Manifest:
        """The manifest of the next epoch.

        Args:
            taken: rows, by stream. end: all streams end. compact: the state files of each shard are put together.
            expire: state files that nobody needs are removed.
        """
        landed = {
            stream.id: self._landed(stream, taken.get(stream.name, ())) for stream in self.catalog.streams.values()
        }
        streams = {
            number: StreamFacts(
                [item for task in tasks for item in task],
                ended_at=0 if end else None,
                copies=eager_copies(self.catalog.streams[number]),
                archive=tuple(self.archive[number]),
            )
            for number, tasks in landed.items()
        }
        settings = Settings(shards=self.shards, compact_files=2 if compact else NEVER_MERGED)
        proposal = self._proposed(settings, streams)
        for event in proposal.events:
            self.catalog = apply(self.catalog, event)
        return replace(
            proposal.manifest,
            splits=tuple(split for number, tasks in landed.items() for split in _splits(number, tasks)),
            expire=proposal.manifest.expire if expire else (),
            register=self.declared.register,
            eager_rows=1,
            explicit_matches=1e9,
            opening=self.opening,
        )

    def _proposed(self, settings: Settings, streams: Mapping[int, StreamFacts]) -> Proposal:
        """The next epoch, of queries that do not fail."""
        clock, state = self.published.clock + 1, tuple(self.state)
        while True:
            failures = Failures(self.catalog, "what is to do")
            proposal = propose(
                Facts(clock, self.catalog, self.published, settings, streams, self.adoptions, state, force=True),
                failures,
            )
            if proposal is not None:
                return proposal
            assert failures.consequences(), f"there is nothing to do: {failures.reasons}"
            self._quarantine(failures.reasons)

    def _landed(self, stream: StreamDefinition, tasks: Taken) -> list[list[Item]]:
        """Rows as items of intake."""
        first = self.published.intake.get(str(stream.id), 0)
        ordinals = itertools.count(first)
        return [[self._item(stream, next(ordinals), rows) for rows in task if rows] for task in tasks]

    def _item(self, stream: StreamDefinition, ordinal: int, rows: Sequence[Row]) -> Item:
        path = os.path.join(self._landing, f"{stream.id}-{ordinal}.arrow")
        time = stream.options.time
        named = [{time: EPOCH + dt.timedelta(microseconds=row.time), **row.values} for row in rows]
        table = to_table(named, stream, connection())
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        size, changed = os.path.getsize(path), os.stat(path).st_mtime_ns
        return Item(ordinal, "landing", path, "arrow", size, changed, "", len(rows), "", self.published.clock)

    def run(self, manifest: Manifest) -> Outcome:
        """Run the tasks of an epoch; a repetition writes the same files."""
        pond, catalog, operators = self.pond, self.catalog, self.operators
        parcels = [p for t in range(len(manifest.splits)) for p in map_split(pond, manifest, catalog, operators, t)]
        merges = [
            merge_shard(pond, manifest, catalog, operators, shard, [p for p in parcels if p.shard == shard])
            for shard in range(manifest.shards)
        ]
        return Outcome(manifest, tuple(parcels), EpochReport(merges[0].maps, tuple(merges)))

    def publish(self, outcome: Outcome) -> None:
        """Take in what an epoch has given."""
        manifest, report = outcome.manifest, outcome.report
        gone = {path for paths in manifest.compact.values() for path in paths}.union(manifest.expire)
        self.state = [s for s in manifest.state if s.path not in gone]
        for merge in report.merges:
            self.state += merge.state
            self.results += merge.results
        self.results += [s for adoption in self.adoptions for s in adoption.results]
        for operator in self.operators:
            for adoption in self.adoptions:
                operator.adopt(self.pond, manifest.epoch, adoption)
        self.adoptions = ()
        for task in report.maps:
            self.archive[task.stream] += [] if task.files.archive is None else [task.files.archive]
            for copy, written in task.files.copies.items():
                self.copies[task.stream, copy].append(written)
            self.entries += task.entries.values()
        failures = Failures(self.catalog, "", dict(report.failures))
        queries = queries_after(self.operators.answering, manifest, report, failures)
        self._quarantine(failures.reasons)
        self.published = Published(
            manifest.epoch,
            manifest.clock,
            manifest.version,
            manifest.intake,
            report.progress,
            queries=queries,
            hot=manifest.hot,
            failures=failures.reasons,
        )

    def _quarantine(self, reasons: Mapping[str, str]) -> None:
        """Quarantine what fails."""
        failures = Failures(self.catalog, "", dict(reasons))
        named = {self.catalog.queries[int(q)].definition.name: r for q, r in failures.queries().items()}
        self.failures |= named
        for event in failures.consequences():
            self.catalog = apply(self.catalog, event)

    # -- what may happen to a pond

    def restart(self) -> None:
        """Go on as a process that keeps nothing in memory."""
        self.memories[self.process] = {}
        self._remember({})

    def elsewhere(self, number: int) -> None:
        """Go on as one of several processes, with what it kept when it was its turn last."""
        self.memories[self.process] = {cache: self._kept(cache) for cache in ShardCache._all}
        self.process = number
        self._remember(self.memories.get(number, {}))

    def _kept(self, cache: ShardCache[Any]) -> dict[Any, Any]:
        return {key: kept for key, kept in cache._kept.items() if key[0] == self.pond}

    def _remember(self, memory: Mapping[ShardCache[Any], Mapping[Any, Any]]) -> None:
        forget(self.pond)
        for cache, kept in memory.items():
            cache._kept.update(kept)
        self.catalog = replace(self.catalog)  # operators are made anew

    def compute_nothing(self) -> None:
        """Go on with the streams alone: nothing of what is made of them is there yet."""
        streams = {number: s for number, s in self.catalog.streams.items() if s.derived is None}
        self.catalog = replace(self.catalog, streams=streams, queries={}, synopses={}, stores={})

    def catch_up(self) -> None:
        """Make it all from now on; what came before is back-filled, and adopted by the next epoch."""
        epoch = self.published.epoch + 1
        self.catalog = begun_at(self.declared.catalog, epoch)
        failures = Failures(self.catalog, "back-fill")
        past = Past(
            archives_of(self), self.catalog, self.published, TableVersions(self.pond, tuple), {}, {},
            self.published.clock, self.shards, os.path.join(self.pond, "plan.json"), failures,
        )  # fmt: skip
        found = [operator.history(past) for operator in self.operators if operator.first_epoch == epoch]
        assert not failures.reasons
        self.adoptions = tuple(each for each in found if each is not None)

    def drop_unneeded(self) -> int:
        """Remove all chunks of state that nobody needs; how many there were."""
        needs, gone = self.needs(), 0
        kept: list[Segment] = []
        for segment in self.state:
            path = os.path.join(state_folder(self.pond), segment.path)
            chunks = list(read_chunks([path]))
            left = [c for c in chunks if c.high >= needs.get(c.owner, NEVER)]
            gone += len(chunks) - len(left)
            if len(left) == len(chunks):
                kept.append(segment)
            elif left:
                written = write_chunks(state_folder(self.pond), segment.path, left, segment.shard)
                kept.append(replace(segment, rows=written.rows, low=written.low, high=written.high))
        self.state = kept
        return gone

    def needs(self) -> dict[str, int]:
        """By owner of state, the event time before which it is needed no more, by itself or by who reads it."""
        progress, queries = self.published.progress, self.published.queries
        failures = Failures(self.catalog, "needs")
        return {
            owner: least_need(o.needs(progress, queries, failures) for o in (operator, *operator.readers))
            for owner, operator in self.operators.storing.items()
        }

    # -- what there is to see

    def plan_facts(self) -> PlanFacts:
        """What operators are told that explain themselves."""
        archives = {stream: (tuple(self.archive[stream]), None) for stream in self.catalog.streams}
        return PlanFacts(
            self.pond,
            self.catalog,
            self.published,
            FilterOrders(self.pond),
            self.state,
            self.entries,
            archives,
            lambda stream, sums, wanted: None,
            lambda name: Fact("table", name),
            lambda stream: len(self.declared.row_queries),
            {},
        )

    def written(self) -> dict[str, bytes]:
        """All files of tasks, by their names: their bytes, or what says the same.

        Under NULLs in an Arrow file lies whatever was in memory, so that its rows are compared.
        """
        found = {}
        for top in ("state", "results", "streams", "copies", "summaries", "intake", "dead", "hot"):
            for path in sorted(p for p in Path(self.pond, top).rglob("*.*") if p.is_file()):
                content = repr(arrow_rows(path)).encode() if path.suffix == ".arrow" else path.read_bytes()
                found[str(path.relative_to(self.pond))] = content
        return found

    def log(self, standing: Standing) -> list[dict[str, Any]]:
        """All answers of a query, in the order in which they were given."""
        paths = [os.path.join(results_folder(self.pond), s.path) for s in self.results]
        chunks = read_chunks(paths, {query_owner(standing.id)})
        return [row for chunk in chunks for row in chunk.table.to_pylist()]

    def latest(self, standing: Standing) -> list[tuple[Any, ...]]:
        """The last answers of a query: of windows the latest revision, of a relation what was not taken back."""
        definition, log = standing.definition, self.log(standing)
        shown = [c.name for c in definition.columns if c.name != "revision"]
        if standing.inputs:
            net: Counter[str] = Counter()
            rows = {repr(values): values for row in log for values in [tuple(row[name] for name in shown)]}
            for row in log:
                net[repr(tuple(row[name] for name in shown))] += 1 if row["op"] == "+" else -1
            assert all(count >= 0 for count in net.values()), f"taken back more often than given: {net}"
            return [rows[each] for each in net.elements()]
        keys = ["window_end", *identity(definition.query)]
        latest: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in log:
            key = tuple(str(row[name]) for name in keys)
            if key not in latest or row["revision"] > latest[key]["revision"]:
                latest[key] = row
        return [tuple(row[name] for name in shown) for row in latest.values() if row["op"] == "+"]


def _splits(stream: int, tasks: Sequence[Sequence[Item]]) -> Iterator[Split]:
    """Map tasks for items of a stream."""
    before: list[dict[str, Any]] = []
    for task in tasks:
        items = [item.to_json() for item in task]
        if items:
            yield Split(stream, tuple(items), tuple(before))
            before += items


def arrow_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of an Arrow file."""
    with pa.memory_map(str(path)) as source:
        rows: list[dict[str, Any]] = pa.ipc.open_file(source).read_all().to_pylist()
        return rows
