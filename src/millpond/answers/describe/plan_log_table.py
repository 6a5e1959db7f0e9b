"""The plan log of a query or a derived stream: which order of filters or inputs was chosen when, and why."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millpond.catalog import Catalog, Standing
from millpond.operators.filters.filter_orders import FilterOrders
from millpond.operators.filters.subjects import PipelineSubject, pipelines_of, stream_subject
from millpond.types import StreamDefinition


def subjects_of(catalog: Catalog, found: Standing | StreamDefinition) -> list[str]:
    """The subjects whose orders a standing query or a derived stream has."""
    if isinstance(found, StreamDefinition):
        if not found.queries:
            return [stream_subject(found)]
        found = catalog.queries[found.queries[0]]
    return [*found.owners, *(subject.name for subject in pipelines_of(found))]


def plan_log_table(catalog: Catalog, orders: FilterOrders, found: Standing | StreamDefinition) -> pa.Table:
    """The plan log of a query or a derived stream as a table; see `Pond.plans`."""
    rows: list[dict[str, Any]] = []
    for name in subjects_of(catalog, found):
        held = orders.of(catalog, name)
        if held is None:
            continue
        subject, filters = held[0], held[0].filters
        for entry in orders.log(name):
            if len(entry.plan) == len(filters):
                rows.append(
                    {
                        "time": entry.time,
                        "epoch": entry.epoch,
                        "pipeline": subject.input if isinstance(subject, PipelineSubject) else None,
                        "plan": subject.told(entry.plan),
                        "under": subject.told(entry.under),
                        "changed": entry.plan != entry.under,
                        "rows": entry.rows,
                        "statistics": [(filters[int(k.split()[1]) - 1], v) for k, v in entry.statistics.items()],
                        "microseconds": [(filters[i], c) for i, c in enumerate(entry.costs)],
                        "reason": entry.reason,
                    }
                )
    by_name = pa.map_(pa.string(), pa.float64())
    schema = pa.schema(
        {
            "time": pa.timestamp("us"),
            "epoch": pa.int64(),
            "pipeline": pa.string(),
            "plan": pa.list_(pa.string()),
            "under": pa.list_(pa.string()),
            "changed": pa.bool_(),
            "rows": pa.int64(),
            "statistics": by_name,
            "microseconds": by_name,
            "reason": pa.string(),
        }
    )
    return pa.Table.from_pylist(rows, schema)
