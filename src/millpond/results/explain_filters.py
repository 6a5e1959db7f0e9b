"""What EXPLAIN says of filters with registered functions: their order, what it rests on, and how it came about."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millpond.adapt.filter_plans import FilterReoptimiser
from millpond.adapt.plan_log import LogEntry
from millpond.catalog import Standing
from millpond.engine.core import Core
from millpond.engine.filter_orders import stream_subject
from millpond.results.explain_windows import moment
from millpond.types import StreamDefinition

#: Changes of an order that EXPLAIN ANALYZE shows, the last ones.
SHOWN = 5


def subjects_of(core: Core, found: Standing | StreamDefinition) -> list[str]:
    """The subjects whose filters a standing query or a derived stream has."""
    if isinstance(found, StreamDefinition):
        query = None if found.derived is None else found.derived.query
        if query is None:
            return [stream_subject(found)]
        found = core.catalog.queries[query]
    return list(dict.fromkeys(found.inputs)) if found.inputs else [found.synopsis]


def filter_lines(core: Core, found: Standing | StreamDefinition, analyze: bool) -> list[str]:
    """The lines of EXPLAIN about the filters of a query or a derived stream; none without registered functions."""
    lines: list[str] = []
    for name in subjects_of(core, found):
        held = core.filters.of(core.catalog, name)
        if held is None:
            continue
        subject, reoptimiser, seen = held
        lines.append(f"filters, in this order: {', '.join(subject.filters[i] for i in reoptimiser.order)}")
        lines.append(f"order: {_way(reoptimiser)}")
        if not analyze:
            continue
        if seen is not None:
            for i in reoptimiser.order:
                each = seen.operators[i]
                passed = "-" if each.selectivity is None else f"{each.selectivity:.3f}"
                took = f", {each.seconds / each.rows_in * 1e6:.2f} us a row" if each.rows_in else ""
                lines.append(f"filter {subject.filters[i]}: {each.rows_in:,} rows in, passes {passed}{took}")
            lines.append(
                f"profiling: {reoptimiser.profiled:.4f} of the dropped rows lately, {reoptimiser.share:.1%} of the time"
                f" of filters (budget {reoptimiser.options.budget:.0%})"
            )
        log = reoptimiser.log
        lines += [_change(e, subject.filters) for e in log.entries if e.plan != e.under][-SHOWN:]
        if (static := log.best_static()) is not None:
            order, cost, ours = static
            names = ", ".join(subject.filters[i] for i in order)
            lines.append(f"best order that never changes: {names}: {cost:.2f} us a row; the orders used: {ours:.2f}")
    return lines


def _way(reoptimiser: FilterReoptimiser) -> str:
    if reoptimiser.way == "off":
        return "as written (adapt='off')"
    if reoptimiser.orderer is None:
        return "there is one filter"
    settings = reoptimiser.orderer.settings
    return (
        f"kept by {reoptimiser.way}: p = {settings.probability:g}, window {settings.window} profile tuples,"
        f" alpha = {settings.alpha:g}"
    )


def _change(entry: LogEntry, filters: tuple[str, ...]) -> str:
    return (
        f"changed after epoch {entry.epoch} ({moment(entry.time)}) to {', '.join(filters[i] for i in entry.plan)}:"
        f" {entry.reason}"
    )


def plan_table(core: Core, found: Standing | StreamDefinition) -> pa.Table:
    """The plan log of a query or a derived stream as a table; see `Pond.plans`."""
    rows: list[dict[str, Any]] = []
    for name in subjects_of(core, found):
        held = core.filters.of(core.catalog, name)
        filters = held[0].filters if held is not None else ()
        for entry in core.filters.log(name):
            if len(entry.plan) == len(filters):
                rows.append(
                    {
                        "time": entry.time,
                        "epoch": entry.epoch,
                        "plan": [filters[i] for i in entry.plan],
                        "under": [filters[i] for i in entry.under],
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
