"""What `sysstream` is told of filters with registered functions: rows, seconds, and their place in the order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from millpond.adapt.filter_plans import FilterPlan, FilterProfiler
from millpond.catalog import Catalog
from millpond.engine.filter_orders import Subject, subjects


def filter_readings(
    catalog: Catalog, plans: Mapping[str, FilterPlan], maps: Sequence[Mapping[str, Any]], epoch: int, clock: int
) -> tuple[dict[tuple[str, str], dict[str, float]], dict[tuple[str, str], dict[str, float]]]:
    """What the filters of an epoch did, and the place of each (1: the first), by (entity, 'filter').

    Arguments:
        plans: of the epoch's manifest. maps: reports of its map tasks.
    An entity is called `query: filter`, after the oldest query that has it.
    """
    if not plans:
        return {}, {}
    by_name = {s.name: s for s in subjects(catalog)}
    reports: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for report in maps:
        for name, each in report.get("filters", {}).items():
            reports[name].append(each)
    done: dict[tuple[str, str], dict[str, float]] = {}
    places: dict[tuple[str, str], dict[str, float]] = {}
    for name, plan in plans.items():
        subject = by_name.get(name)
        if subject is None or len(subject.filters) != len(plan.order):
            continue
        entities = _entities(subject)
        for place, number in enumerate(plan.order, 1):
            places[entities[number], "filter"] = {"position": float(place)}
        if name in reports:
            names = [str(n + 1) for n in range(len(entities))]
            seen = FilterProfiler(names).observation(epoch, clock, reports[name])
            for entity, operator in zip(entities, seen.operators, strict=True):
                done[entity, "filter"] = {
                    "rows_in": float(operator.rows_in),
                    "rows_out": float(operator.rows_out),
                    "seconds": operator.seconds,
                }
    return done, places


def _entities(subject: Subject) -> list[str]:
    owner = subject.users[0] if subject.users else subject.name
    return [f"{owner}: {text}" for text in subject.filters]


__all__ = ["filter_readings"]
