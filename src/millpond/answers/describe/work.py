"""What streams, operators and queries did in the last epochs: for EXPLAIN ANALYZE, `status()` and `millpond top`.

The numbers are those that `sysstream` gets; here they are of the epochs since the pond was opened, the last few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.archive.open_archives import Archives
from millpond.catalog import Catalog
from millpond.engine.control.reporting import epoch_readings, operator_name
from millpond.engine.control.sizes import Size
from millpond.engine.control.telemetry import Telemetry
from millpond.manifests.places import query_owner
from millpond.operators.filters.filter_orders import FilterOrders
from millpond.operators.filters.subjects import subjects
from millpond.operators.plan_facts import Done
from millpond.operators.registry import operators_of
from millpond.types.plan_nodes import Fact, PlanNode

#: Changes of an order that are told, the last ones.
HISTORY = 5


def work_table(archives: Archives, telemetry: Telemetry) -> dict[str, Any]:
    """How many epochs are looked at, the seconds that they took, and what each entity did in them."""
    with archives.lock:
        epochs, catalog = list(telemetry.work), archives.catalog
    readings = epoch_readings(catalog, *epochs)
    pond = readings.pop(("pond", "pond"))
    span = (epochs[-1].clock - epochs[0].clock) / 1e6 if len(epochs) > 1 else 0.0
    return {
        "epochs": len(epochs),
        "span": span,
        "seconds": round(pond.get("epoch_seconds", 0.0), 6),
        "rows": int(pond.get("rows", 0)),
        "entities": [
            {"entity": entity, "kind": kind, **{name: round(value, 6) for name, value in sorted(values.items())}}
            for (entity, kind), values in sorted(readings.items(), key=lambda r: (r[0][1], r[0][0]))
        ],
    }


def filters_table(catalog: Catalog, filters: FilterOrders) -> list[dict[str, Any]]:
    """The order of each condition with registered functions and of each pipeline, and the last orders before it."""
    rows = []
    for subject in subjects(catalog):
        held = filters.of(catalog, subject.name)
        if held is None:
            continue
        _, reoptimiser, _ = held
        changes = [e for e in reoptimiser.log.entries if e.plan != e.under]
        rows.append(
            {
                "queries": ", ".join(subject.users),
                "order": " > ".join(subject.told(reoptimiser.order)),
                "way": reoptimiser.way,
                "changes": len(changes),
                "history": [
                    {"epoch": e.epoch, "order": subject.told(e.plan), "reason": e.reason} for e in changes[-HISTORY:]
                ],
            }
        )
    return rows


def work_done(archives: Archives, telemetry: Telemetry) -> dict[str, Done]:
    """What operators and queries did in the last epochs, by owner of state, and the state that there is of each."""
    with archives.lock:
        epochs, catalog, segments = list(telemetry.work), archives.catalog, archives.storage.state.segments
    readings, sizes = epoch_readings(catalog, *epochs), telemetry.reporter.sizes.of(segments)
    entities = {owner: operator_name(catalog, owner) for owner in operators_of(catalog).storing}
    entities |= {query_owner(q.id): (q.definition.name, "query") for q in catalog.queries.values()}
    return {owner: _done(readings.get(entity, {}), sizes.get(owner, Size())) for owner, entity in entities.items()}


def _done(read: Mapping[str, float], size: Size) -> Done:
    rows_in, rows_out = int(read.get("rows_in", 0)), int(read.get("rows_out", 0))
    return Done(rows_in, rows_out, read.get("selectivity", 0.0), read.get("seconds", 0.0), size.rows, size.bytes)


def epochs_node(telemetry: Telemetry) -> PlanNode:
    """What the last epochs took, stage by stage."""
    recent = [e for e in telemetry.recent if e["rows"]] or list(telemetry.recent)
    if not recent:
        return PlanNode("epochs", "no epoch has run since the pond was opened")
    rows, seconds = sum(e["rows"] for e in recent), sum(e["seconds"] for e in recent)
    names = sorted({name for e in recent for name in e["stages"]})
    stages = tuple(Fact(name, f"{sum(e['stages'].get(name, 0.0) for e in recent):.3f} s") for name in names)
    return PlanNode("epochs", f"last {len(recent)} epochs: {rows} rows, {seconds:.3f} s", stages)
