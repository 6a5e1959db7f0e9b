"""Stages as the engine has them: a stream's rows are taken by an epoch, and what it gives waits at derived streams.

Their order is the business of `millpond.adapt.scheduling`; here is what it is told, and what is done with what it says.
What an epoch takes stands in its manifest, so a repeated one asks nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from millpond.adapt.scheduling import StageProfile, order
from millpond.catalog import Catalog
from millpond.engine.intake.admission import Pace, admit, admit_in_order
from millpond.manifests.task_reports import EpochReport
from millpond.sources.intake_log import Item
from millpond.types.options import Settings


def depths(catalog: Catalog) -> dict[int, int]:
    """How many stages a row of each stream has gone through before it is there."""
    found: dict[int, int] = {}
    for number in sorted(catalog.streams):  # a stream is younger than what it is made of
        derived = catalog.streams[number].derived
        found[number] = 0 if derived is None else 1 + max((found.get(s, 0) for s in derived.sources), default=0)
    return found


def choose(
    catalog: Catalog, settings: Settings, profile: StageProfile, pending: dict[int, list[Item]], pace: Pace, cores: int
) -> dict[int, list[Item]]:
    """What an epoch takes of what waits.

    FIFO lets what earlier epochs gave for derived streams go first, and streams from outside share what is left.
    """
    if settings.scheduling == "fifo":
        inner = {s: items for s, items in pending.items() if catalog.streams[s].options.source in ("derived", "system")}
        taken = admit(inner, pace) if inner else {}
        others = {s: items for s, items in pending.items() if s not in inner}
        return taken | (admit(others, _left(pace, taken), cores) if others else {})
    known = depths(catalog)
    stages = {s: profile.stage(s, known[s]) for s in catalog.streams}
    oldest = sorted(pending, key=lambda s: (pending[s][0].arrival, s))
    return admit_in_order(pending, order(settings.scheduling, stages, oldest, profile.last), pace, cores)


def _left(pace: Pace, taken: Mapping[int, Sequence[Item]]) -> Pace:
    rows = sum(i.rows or 0 for items in taken.values() for i in items)
    size = sum(i.size for items in taken.values() for i in items)
    return pace.without(size, rows)


def learn(catalog: Catalog, profile: StageProfile, report: EpochReport) -> None:
    """Tell the profile what an epoch's stages took, cost and gave."""
    rows: dict[int, int] = defaultdict(int)
    seconds: dict[int, float] = defaultdict(float)
    given: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for of in report.maps:
        rows[of.stream] += of.rows
        seconds[of.stream] += of.lasted
        for target, passed in of.passed.items():
            given[of.stream][int(target)] += passed
    for merge in report.merges:
        for number, spent in merge.spent.items():
            standing = catalog.queries.get(int(number))
            for stream in catalog.streams_of(standing) if standing is not None else ():
                seconds[stream.id] += spent
        for target, passed in merge.passed.items():
            for source in catalog.streams[int(target)].sources if int(target) in catalog.streams else ():
                given[source][int(target)] += passed
    for stage in sorted(rows):
        profile.learn(stage, rows[stage], seconds[stage], given[stage])
    profile.forget(catalog.streams)
