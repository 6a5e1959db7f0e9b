"""What streams, operators and queries did in the last epochs: for EXPLAIN ANALYZE, `status()` and `millpond top`.

The numbers are those that `sysstream` gets; here they are of the epochs since the pond was opened, the last few.
"""

from __future__ import annotations

from typing import Any

from millpond.catalog import Standing
from millpond.engine.control.reporting import epoch_readings
from millpond.engine.control.sizes import Size
from millpond.engine.core import Core
from millpond.operators.filters.subjects import subjects

#: Changes of an order that are told, the last ones.
HISTORY = 5


def work_table(core: Core) -> dict[str, Any]:
    """How many epochs are looked at, the seconds that they took, and what each entity did in them."""
    with core.lock:
        epochs, catalog = list(core.work), core.catalog
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


def filters_table(core: Core) -> list[dict[str, Any]]:
    """The order of each condition with registered functions and of each pipeline, and the last orders before it."""
    with core.lock:
        catalog = core.catalog
    rows = []
    for subject in subjects(catalog):
        held = core.filters.of(catalog, subject.name)
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


def work_lines(core: Core, standing: Standing) -> list[str]:
    """What the operators of a query did in the last epochs, a line each; with the state that there is."""
    with core.lock:
        epochs, catalog, segments = list(core.work), core.catalog, core.state.segments
    if not epochs:
        return []
    readings = epoch_readings(catalog, *epochs)
    with core.pinned():
        sizes = core.reporter.sizes.of(segments)
    lines = [f"operators in the last {len(epochs)} epochs:"]
    for owner in dict.fromkeys(standing.inputs or (standing.synopsis,)):
        done, size = readings.get((owner, "synopsis"), {}), sizes.get(owner, Size())
        users = len(catalog.users(owner))
        lines.append(
            f"  state {owner}: {done.get('rows_in', 0):.0f} rows in, {done.get('rows_out', 0):.0f} out"
            f" (selectivity {done.get('selectivity', 0.0):.4g}), {done.get('seconds', 0.0):.3f} s;"
            f" {size.rows} rows and {size.bytes} bytes kept for {users} {'query' if users == 1 else 'queries'}"
        )
    done = readings.get((standing.definition.name, "query"), {})
    lines.append(f"  answers: {done.get('rows_out', 0):.0f} rows, {done.get('seconds', 0.0):.3f} s")
    return lines


__all__ = ["filters_table", "work_lines", "work_table"]
