"""What EXPLAIN says of filters and of pipelines of joins: their order, what it rests on, and how it came about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millpond.adapt.filter_plans import FilterReoptimiser
from millpond.adapt.plan_log import LogEntry
from millpond.answers.describe.explain_windows import moment
from millpond.catalog import Standing
from millpond.engine.core import Core
from millpond.operators.filters.subjects import PipelineSubject, Subject, pipelines_of, stream_subject
from millpond.types import StreamDefinition

#: Changes of an order that EXPLAIN ANALYZE shows, the last ones.
SHOWN = 5


def subjects_of(core: Core, found: Standing | StreamDefinition) -> list[str]:
    """The subjects whose orders a standing query or a derived stream has."""
    if isinstance(found, StreamDefinition):
        query = None if found.derived is None else found.derived.query
        if query is None:
            return [stream_subject(found)]
        found = core.catalog.queries[query]
    if not found.inputs:
        return [found.synopsis]
    return [*dict.fromkeys(found.inputs), *(subject.name for subject in pipelines_of(found))]


def filter_lines(core: Core, found: Standing | StreamDefinition, analyze: bool) -> list[str]:
    """The lines of EXPLAIN about the filters of a query or a derived stream; none without registered functions."""
    lines: list[str] = []
    for name in subjects_of(core, found):
        held = core.filters.of(core.catalog, name)
        if held is None:
            continue
        subject, reoptimiser, seen = held
        lines.append(f"{_titled(subject)}: {', '.join(_executed(subject, reoptimiser.order))}")
        lines.append(f"order: {_way(reoptimiser)}{_whose(subject, found, core)}")
        if not analyze:
            continue
        if seen is not None:
            for i in reoptimiser.order:
                each = seen.operators[i]
                passed = "-" if each.selectivity is None else f"{each.selectivity:.3f}"
                took = f", {each.seconds / each.rows_in * 1e6:.2f} us a row" if each.rows_in else ""
                named = f"{subject.kind} {_named(subject, i)}"
                lines.append(f"{named}: {each.rows_in:,} rows in, passes {passed}{took}")
            lines.append(
                f"profiling: {reoptimiser.profiled:.4f} of the dropped rows lately, {reoptimiser.share:.1%} of the time"
                f" of {subject.kind}s (budget {reoptimiser.options.budget:.0%})"
            )
        log = reoptimiser.log
        lines += [_change(e, subject) for e in log.entries if e.plan != e.under][-SHOWN:]
        if (static := log.best_static()) is not None:
            order, cost, ours = static
            names = ", ".join(subject.told(order))
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


def _whose(subject: Subject, found: Standing | StreamDefinition, core: Core) -> str:
    """Whose options these are, where they are not the query's own: they have been changed since it shares."""
    oldest = core.catalog.query(subject.users[0]) if subject.users and isinstance(found, Standing) else None
    if oldest is None or not isinstance(found, Standing):
        return ""
    if oldest.definition.options.ordering == found.definition.options.ordering:
        return ""
    return f"; as {oldest.definition.name} wants it, with which it shares the state: its own options do not count"


def _change(entry: LogEntry, subject: Subject) -> str:
    told = ", ".join(subject.told(entry.plan))
    return f"changed after epoch {entry.epoch} ({moment(entry.time)}) to {told}: {entry.reason}"


def _titled(subject: Subject) -> str:
    return f"pipeline of {subject.input}" if isinstance(subject, PipelineSubject) else "filters, in this order"


def _named(subject: Subject, number: int) -> str:
    name = subject.filters[number]
    return f"{subject.input} > {name}" if isinstance(subject, PipelineSubject) else name


def _executed(subject: Subject, order: Sequence[int]) -> list[str]:
    """An order, with the inputs of a join that are not only asked whether there is a partner."""
    if not isinstance(subject, PipelineSubject):
        return subject.told(order)
    pipeline = subject.pipeline(order)
    growing = subject.graph.growing(subject.number, pipeline)
    names = subject.plan.names
    return [f"{names[n]} (joined at once)" if n in growing else names[n] for n in pipeline]


def plan_table(core: Core, found: Standing | StreamDefinition) -> pa.Table:
    """The plan log of a query or a derived stream as a table; see `Pond.plans`."""
    rows: list[dict[str, Any]] = []
    for name in subjects_of(core, found):
        held = core.filters.of(core.catalog, name)
        if held is None:
            continue
        subject, filters = held[0], held[0].filters
        for entry in core.filters.log(name):
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
