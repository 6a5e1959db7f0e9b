"""What `sysstream` is told of filters with registered functions and of pipelines: rows, seconds, place in the order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from millpond.adapt.filter_plans import FilterPlan, FilterProfiler
from millpond.catalog import Catalog
from millpond.manifests.task_reports import MapReport, MergeReport
from millpond.operators.filters.subjects import subjects


def filter_readings(
    catalog: Catalog, plans: Mapping[str, FilterPlan], tasks: Sequence[MapReport | MergeReport], epoch: int, clock: int
) -> tuple[dict[tuple[str, str], dict[str, float]], dict[tuple[str, str], dict[str, float]]]:
    """What the filters of an epoch did, and the place of each (1: the first), by (entity, kind).

    Arguments:
        plans: of the epoch's manifest. tasks: reports of its tasks.
    An entity is called `query: filter`, after the oldest query that has it; of a pipeline `query: input > other`.
    """
    if not plans:
        return {}, {}
    by_name = {s.name: s for s in subjects(catalog)}
    reports: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for report in tasks:
        for name, each in report.filters.items():
            reports[name].append(each)
    done: dict[tuple[str, str], dict[str, float]] = {}
    places: dict[tuple[str, str], dict[str, float]] = {}
    for name, plan in plans.items():
        subject = by_name.get(name)
        if subject is None or len(subject.filters) != len(plan.order):
            continue
        entities = subject.entities
        for place, number in enumerate(plan.order, 1):
            places[entities[number], subject.kind] = {"position": float(place)}
        if name in reports:
            names = [str(n + 1) for n in range(len(entities))]
            seen = FilterProfiler(names).observation(epoch, clock, reports[name])
            for entity, operator in zip(entities, seen.operators, strict=True):
                done[entity, subject.kind] = {
                    "rows_in": float(operator.rows_in),
                    "rows_out": float(operator.rows_out),
                    "seconds": operator.seconds,
                }
    return done, places
