"""What the next epoch is to do follows from facts alone: a list of cases, each a few facts and what is proposed."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millpond
from millpond.catalog import Catalog, apply
from millpond.engine.control.facts import Facts, StreamFacts
from millpond.engine.control.proposal import propose
from millpond.engine.intake.admission import Pace
from millpond.manifests.adoptions import Adoption
from millpond.manifests.query_progress import QueryProgress
from millpond.manifests.records import Manifest, Published
from millpond.operators.relation.relation_progress import RelationProgress
from millpond.progress import FOREVER, NEVER, Partition, StreamProgress
from millpond.sources.intake_log import Item
from millpond.tables import Segment
from millpond.types import DAY, to_json
from millpond.types.options import Settings
from tests.quick import quick_folder

SECOND = 1_000_000

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts');
CREATE STREAM quiet (ts TIMESTAMP, v BIGINT) WITH (event_time='ts', idle='5s');
CREATE STREAM late (v BIGINT) WITH (event_time='arrival');
CREATE STREAM few AS SELECT ts, v FROM s WHERE v > 5;
CREATE QUERY q AS SELECT k, count(*) AS n FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k;
CREATE QUERY old AS SELECT sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] WITH (since='start');
CREATE QUERY arrived AS SELECT count(*) AS n FROM late [RANGE TUMBLING 10 SECONDS];
CREATE QUERY past AS SELECT ISTREAM(a.v, b.k) FROM quiet [NOW] AS a JOIN s [RANGE 2 DAYS] AS b
    ON a.v = b.v AND extract(hour FROM b.ts) = extract(hour FROM a.ts)
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    with quick_folder() as folder, millpond.open(folder / "pond", executor="inline") as pond:
        pond.sql(SCRIPT)
        return pond._core.catalog


def number(catalog: Catalog, name: str) -> int:
    """The id of a stream or a query."""
    found = catalog.lookup(name)
    assert found is not None
    return next((q.id for q in catalog.queries.values() if q.definition.name == name), getattr(found, "id", 0))


def item(ordinal: int, rows: int | None = 10, size: int = 100, arrival: int = 7, **others: Any) -> Item:
    """An item that has come."""
    return Item(ordinal, "landing", f"p{ordinal}", "arrow", size, 0, "", rows, "", arrival, **others)


def passed(ordinal: int, bound: int, parts: tuple[str, ...] = ()) -> Item:
    """An item of a derived stream."""
    rows = 10 if parts else 0
    return Item(ordinal, "derived", "p", "derived", 100, 0, "", rows, "", 7, epoch=1, bound=bound, parts=parts)


def file(path: str, epoch: int = 1, level: int = 0, shard: int = 0, high: int = FOREVER, size: int = 100) -> Segment:
    """A file of state, or of an archive."""
    return Segment(path, 10, size, 0, high, epoch, epoch, level, shard)


def arrived_until(bound: int, high: int) -> StreamProgress:
    """Progress of a stream that runs on arrival time, in seconds."""
    bound, high = bound * SECOND, high * SECOND
    return StreamProgress(bound, high, partitions={"": Partition(ready=bound, high=high, seen=bound)})


@dataclass(frozen=True)
class Case:
    """Facts, by names of streams and queries, and what is proposed: parts of the manifest, or None for nothing.

    status: of queries. published: fields of the last publish record. proposed: as JSON, with names for ids.
    """

    name: str
    proposed: Mapping[str, Any] | None
    streams: Mapping[str, StreamFacts] = field(default_factory=dict)
    status: Mapping[str, str] = field(default_factory=dict)
    intake: Mapping[str, int] = field(default_factory=dict)
    progress: Mapping[str, StreamProgress] = field(default_factory=dict)
    queries: Mapping[str, QueryProgress] = field(default_factory=dict)
    adopted: Mapping[str, QueryProgress] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)

    def facts(self, catalog: Catalog) -> Facts:
        """The facts of the case; every query that it does not speak of has answered all there was."""
        for name, status in self.status.items():
            catalog = apply(catalog, {"do": "set_status", "id": number(catalog, name), "status": status})
        known = {q.definition.name: QueryProgress(closed=FOREVER) for q in catalog.queries.values()} | self.queries
        published = Published(
            6,
            50 * SECOND,
            intake={str(number(catalog, s)): n for s, n in self.intake.items()},
            progress={str(number(catalog, s)): p for s, p in self.progress.items()},
            queries={str(number(catalog, q)): p for q, p in known.items() if p is not None and q not in self.adopted},
        )
        adoptions = tuple(
            Adoption(catalog.queries[n].synopsis, (n,), {str(n): p}, (file(f"b{n}", 3),))
            for q, p in self.adopted.items()
            for n in [number(catalog, q)]
        )
        streams = dict.fromkeys(catalog.streams, StreamFacts()) | {
            number(catalog, s): f for s, f in self.streams.items()
        }
        return Facts(60 * SECOND, catalog, published, Settings(), streams, adoptions, cores=2, **self.others)


def told(catalog: Catalog, manifest: Manifest) -> dict[str, Any]:
    """The parts of a manifest that cases speak of, with names."""
    streams = {str(s.id): s.name for s in catalog.streams.values()}
    queries = {str(q.id): q.definition.name for q in catalog.queries.values()}
    return {
        "epoch": manifest.epoch,
        "rows": [(streams[str(s.stream)], [i["ordinal"] for i in s.items]) for s in manifest.splits],
        "intake": {streams[s]: n for s, n in manifest.intake.items() if n},
        "ends": [streams[str(s)] for s in manifest.ends],
        "bounds": {streams[s]: b for s, b in manifest.bounds.items()},
        "arrivals": {streams[s]: a for s, a in manifest.arrivals.items()},
        "adopt": [queries[q] for q in manifest.adopt],
        "state": [s.path for s in manifest.state],
        "compact": {shard: list(paths) for shard, paths in manifest.compact.items()},
        "expire": list(manifest.expire),
        "copies": {streams[s]: c for s, c in manifest.copies.items()},
        "archive": {streams[s]: [f.path for f in files] for s, files in manifest.archive.items()},
        "starts": {queries[q]: p.start for q, p in manifest.queries.items()},
        "paused": {queries[q]: p.paused for q, p in manifest.queries.items() if p.paused is not None},
    }


FULL = StreamFacts([item(n) for n in range(5)])
EIGHT = tuple(file(f"f{n}", n) for n in range(8))

CASES = [
    Case("nothing to do", None),
    Case("an epoch that is wanted anyhow", {"epoch": 7, "rows": []}, others={"force": True}),
    Case("rows", {"rows": [("s", [0, 1, 2, 3, 4])], "intake": {"s": 5}}, {"s": FULL}),
    Case("rows behind those that were taken", {"intake": {"s": 9}}, {"s": StreamFacts([item(8)])}, intake={"s": 8}),
    Case(
        "no more rows than an epoch may take",
        {"rows": [("s", [0, 1])], "intake": {"s": 2}},
        {"s": FULL},
        others={"pace": Pace(rows=25)},
    ),
    Case("a stream that ends with its last item", {"ends": ["s"]}, {"s": replace(FULL, ended_at=5)}),
    Case(
        "the end waits for the last item",
        {"ends": []},
        {"s": replace(FULL, ended_at=5)},
        others={"pace": Pace(rows=25)},
    ),
    Case("an end without rows", {"rows": [], "ends": ["s"]}, {"s": StreamFacts(ended_at=0)}),
    Case("an end that is known", None, {"s": StreamFacts(ended_at=0)}, progress={"s": StreamProgress(ended=True)}),
    Case(
        "progress of a derived stream without rows",
        {"rows": [], "intake": {"few": 1}, "bounds": {"few": 40}},
        {"few": StreamFacts([passed(0, 40)])},
    ),
    Case(
        "rows of a derived stream",
        {"rows": [("few", [0])], "bounds": {"few": 40}},
        {"few": StreamFacts([passed(0, 40, ("e1",))])},
    ),
    Case(
        "nothing arrives before what waits",
        {"arrivals": {"late": 9 * SECOND}, "intake": {"late": 2}},
        {"late": StreamFacts([item(0), item(1), item(2, arrival=9 * SECOND)])},
        others={"pace": Pace(rows=25)},
    ),
    Case(
        "nothing arrives before what is being written",
        {"arrivals": {"late": 8 * SECOND}},
        {"late": StreamFacts([item(0)], arriving=(8 * SECOND, 9 * SECOND))},
    ),
    Case("what arrives comes now", {"arrivals": {"late": 60 * SECOND}}, {"late": StreamFacts([item(0)])}),
    Case(
        "the clock closes a window of arrivals",
        {"rows": [], "arrivals": {"late": 60 * SECOND}},
        progress={"late": arrived_until(45, high=45)},
        queries={"arrived": QueryProgress(closed=45 * SECOND)},
    ),
    Case(
        "the clock closes no window that has no row",
        None,
        progress={"late": arrived_until(45, high=35)},
        queries={"arrived": QueryProgress(closed=45 * SECOND)},
    ),
    Case(
        "a query that catches up",
        {"rows": [], "paused": {"q": 3}},
        queries={"q": QueryProgress(closed=FOREVER, paused=3)},
    ),
    Case("a query that is paused now", {"paused": {"q": 7}}, status={"q": "paused"}, others={"force": True}),
    Case(
        "a query that has been paused",
        {"paused": {"q": 3}},
        status={"q": "paused"},
        queries={"q": QueryProgress(closed=FOREVER, paused=3)},
        others={"force": True},
    ),
    Case(
        "new queries start where their stream is, or as they say",
        {"starts": {"q": 30, "old": NEVER, "arrived": NEVER, "past": NEVER}},
        progress={"s": StreamProgress(bound=30, high=35)},
        queries={"q": None, "old": None},  # type: ignore[dict-item]
        others={"force": True},
    ),
    Case(
        "a back-fill that is adopted",
        {"adopt": ["q"], "starts": {"old": NEVER, "arrived": NEVER, "past": NEVER, "q": 20}},
        status={"q": "backfilling"},
        adopted={"q": QueryProgress(closed=40, start=20)},
    ),
    Case(
        "a query that was paused while its back-fill ran has seen nothing live",
        {"adopt": ["q"], "paused": {"q": 1}},
        status={"q": "paused"},
        adopted={"q": QueryProgress(closed=40, start=20)},
    ),
    Case(
        "eight files of a level are merged",
        {"compact": {"0": [f"f{n}" for n in range(8)]}, "expire": []},
        others={"force": True, "state": EIGHT},
    ),
    Case("seven are not", {"compact": {}}, others={"force": True, "state": EIGHT[:7]}),
    Case(
        "files of several levels or shards are not",
        {"compact": {}},
        others={"force": True, "state": (*EIGHT[:7], file("l", 7, level=1), file("s", 7, shard=1))},
    ),
    Case(
        "large files are left alone",
        {"compact": {}},
        others={"force": True, "state": (*EIGHT[:7], file("large", 7, high=10, size=1 << 30))},
    ),
    Case(
        "files are not merged across the beginning of a pause",
        {"compact": {}},
        status={"q": "paused"},
        queries={"q": QueryProgress(closed=FOREVER, paused=4)},
        others={"force": True, "state": EIGHT},
    ),
    Case(
        "files of the past that instants to come can reach are looked up",
        {"archive": {"s": ["recent"]}},
        {"s": replace(FULL, archive=(file("gone", high=7 * DAY), file("recent", high=9 * DAY)))},
        progress={"quiet": StreamProgress(bound=30 * DAY + 1000, high=30 * DAY + 2000)},
        queries={"past": QueryProgress(closed=30 * DAY + 1000, own=RelationProgress(edge=30 * DAY + 1000))},
    ),
    Case(
        "rows enter copies",
        {"copies": {"s": {"sample-0.5": 0.5}}},
        {"s": replace(FULL, copies={"sample-0.5": 0.5})},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(catalog: Catalog, case: Case) -> None:
    facts = case.facts(catalog)
    proposal = propose(facts)
    if case.proposed is None:
        assert proposal is None
        return
    assert proposal is not None
    found = told(catalog, proposal.manifest)
    assert {name: found[name] for name in case.proposed} == case.proposed


def test_adoption_makes_queries_live(catalog: Catalog) -> None:
    """As events of the catalog that the manifest is made for; one that is paused stays so."""
    progress = {"q": QueryProgress(closed=40), "old": QueryProgress(closed=40)}
    case = Case("two", {}, status={"q": "backfilling", "old": "paused"}, adopted=progress)
    facts = case.facts(catalog)
    proposal = propose(facts)
    assert proposal is not None
    assert proposal.events == ({"do": "set_status", "id": number(catalog, "q"), "status": "live"},)
    assert proposal.manifest.version == facts.catalog.version + 1
    assert {s.path for s in proposal.manifest.state} == {f"b{number(catalog, q)}" for q in progress}


def test_state_that_nobody_needs_goes(catalog: Catalog) -> None:
    for query in list(catalog.queries):
        catalog = apply(catalog, {"do": "drop_query", "id": query})
    facts = Case("", {}, others={"force": True, "state": (file("a", high=3),)}).facts(catalog)
    proposal = propose(facts)
    assert proposal is not None and proposal.manifest.expire == ()  # without a query nothing is known to be needed
    assert proposal.manifest.queries == {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_deciding_changes_nothing(catalog: Catalog, case: Case) -> None:
    """The same facts give the same bytes, and stay as they are."""
    facts = case.facts(catalog)
    before = copy.deepcopy(facts)
    first, again = propose(facts), propose(facts)
    assert first == again and facts == before
    assert first is None or json.dumps(to_json(first.manifest)) == json.dumps(to_json(again.manifest))  # type: ignore[union-attr]


# -- from epoch to epoch -----------------------------------------------------------------------------------------------


def published_after(before: Published, manifest: Manifest) -> Published:
    """The record of an epoch in which nothing was answered; ends become known."""
    progress = {s: replace(p, ended=p.ended or int(s) in manifest.ends) for s, p in manifest.progress.items()}
    return replace(
        before, epoch=manifest.epoch, clock=manifest.clock, intake=manifest.intake, progress=progress,
        queries=manifest.queries,
    )  # fmt: skip


Arrival = tuple[str, int]


@given(
    st.lists(st.tuples(st.sampled_from(["s", "quiet"]), st.integers(1, 60)), max_size=12),
    st.integers(20, 100),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_every_item_is_taken_once_and_in_order(arrivals: list[Arrival], rows: int, epochs: list[bool]) -> None:
    """However items come and epochs are cut; and the end of a stream comes with its last item, once."""
    catalog = _catalog()
    logs: dict[str, list[Item]] = {"s": [], "quiet": []}
    published, taken, ends = Published(), dict[str, list[int]](s=[], quiet=[]), list[str]()

    def step(end: bool) -> bool:
        nonlocal published
        streams = dict.fromkeys(catalog.streams, StreamFacts())
        for name, log in logs.items():
            at = published.intake.get(str(number(catalog, name)), 0)
            streams[number(catalog, name)] = StreamFacts(log[at:], len(log) if end else None)
        proposal = propose(Facts(published.clock + 1, catalog, published, Settings(), streams, pace=Pace(rows=rows)))
        if proposal is None:
            return False
        names = {s.id: s.name for s in catalog.streams.values()}
        for split in proposal.manifest.splits:
            taken[names[split.stream]] += [i["ordinal"] for i in split.items]
        ends.extend(names[s] for s in proposal.manifest.ends)
        published = published_after(published, proposal.manifest)
        return True

    for (name, count), cut in zip(arrivals, epochs, strict=False):
        logs[name].append(item(len(logs[name]), rows=count))
        if cut:
            step(end=False)
    for _ in range(100):
        if not step(end=True):
            break
    assert taken == {name: list(range(len(log))) for name, log in logs.items()}
    assert sorted(ends) == ["few", "quiet", "s"] if "few" in ends else sorted(ends) == ["quiet", "s"]


_made: list[Catalog] = []


def _catalog() -> Catalog:
    """The catalog, made once: hypothesis shares no fixtures of a function."""
    if not _made:
        with quick_folder() as folder, millpond.open(folder / "pond", executor="inline") as pond:
            pond.sql(SCRIPT)
            _made.append(pond._core.catalog)
    return _made[0]
