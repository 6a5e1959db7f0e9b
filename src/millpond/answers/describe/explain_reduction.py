"""What EXPLAIN says of a reduced query: how much is left out and why, what is read, and what a full scan would read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from millpond.answers.describe.explain_windows import moment
from millpond.answers.row_queries.hot import retained_from
from millpond.archive.design.reductions import END, START, Step
from millpond.archive.planning.ranges import Range
from millpond.archive.planning.scan_plans import plan_scan
from millpond.archive.planning.scan_tasks import ScanPlan
from millpond.archive.planning.scans import Scan, description
from millpond.archive.retention import floors_of
from millpond.catalog import Standing
from millpond.engine.core import Core
from millpond.manifests.records import QueryProgress
from millpond.progress import StreamProgress
from millpond.types import ScanQuery, StreamDefinition, WindowedQuery, from_json
from millpond.types.reduction_forms import interval_text, reduction_text

#: Steps that are listed one by one.
_STEPS = 8


def reduction_lines(
    core: Core, query: WindowedQuery | ScanQuery, stream: StreamDefinition, standing: Standing | None
) -> list[str]:
    """The lines about REDUCE of a query; none for one that reads everything, or summaries."""
    if query.reduce is None or not query.reduce.samples:
        return []
    lines = [f"reduce: {reduction_text(query.reduce)}"]
    if standing is not None:
        known = core.published.queries.get(str(standing.id), QueryProgress())
        lines.append(f"rows from epoch {standing.first_epoch} on are live and whole; those before are read reduced")
        lines += [f"back-fill: {known.scanned}"] if known.scanned else []
        if known.reduced:
            stretches = ", ".join(f"{moment(low)} to {moment(high)}" for low, high in known.reduced[:_STEPS])
            lines.append(f"windows that meet {stretches} are estimates (exact is false)")
        for low, high, interval in known.coarse[:_STEPS]:
            shown = interval_text(interval)
            lines.append(f"rows from {moment(low)} to {moment(high)} are seen by intervals of {shown}")
        return lines
    progress = core.published.progress.get(str(stream.id), StreamProgress())
    scan = Scan(query.reduce, progress.high, told=False)
    if isinstance(query, ScanQuery):
        scan.floors = {stream.id: floors_of(stream, retained_from(stream, core.published))}
    if query.reduce.function == "error":
        return [*lines, "a first scan reads about 1,000 rows; more are read until every interval is narrow enough"]
    if query.reduce.function in core.catalog.reductions:
        return [*lines, f"{query.reduce.function}() is called for each run of the archive when it is read"]
    with core.pinned():
        plan = plan_scan(core.archives, [stream], Range(epoch=core.published.epoch), scan)
    lines += step_lines(scan.steps)
    lines += [f"load: {scan.reason}"] if scan.reason else []
    return [*lines, *plan_lines(plan, scan)]


def step_lines(steps: tuple[Step, ...]) -> list[str]:
    """What is dropped where, a line a step."""
    lines = []
    for step in steps[:_STEPS]:
        low = "" if step.low == START else f" from {moment(step.low)}"
        high = "" if step.high == END else f" before {moment(step.high)}"
        where = f"rows{low}{high}" if low or high else "all rows"
        seen = f"seen by intervals of {interval_text(step.interval)}" if step.interval else ""
        lines.append(f"  {where}: {seen or f'{100 * step.drop:.4g} % dropped'}")
    return lines + ([f"  and {len(steps) - _STEPS} steps more"] if len(steps) > _STEPS else [])


def plan_lines(plan: ScanPlan, scan: Scan) -> list[str]:
    """Which copies are chosen, and how much of them."""
    copies: Counter[str] = Counter()
    groups = size = 0
    for piece in (p for task in plan.tasks for split in task.splits for p in split.pieces):
        copies[piece.copy or "the archive"] += 1
        groups += piece.groups or 0
        size += piece.size
    named = ", ".join(f"{count} runs of {name}" for name, count in sorted(copies.items()))
    part = f", {groups} blocks of randomized runs" if groups else ""
    return [f"reads {named or 'nothing'}{part}: about {size:,} of {scan.size:,} bytes in {scan.sections} runs"]


def analysis_lines(answer: pa.Table) -> list[str]:
    """What a reduced answer was made of, from its metadata: copies, runs, row groups, bytes, against a full scan."""
    told = description(answer)
    if told is None:
        return []
    read: dict[str, Any] = told["read"]
    lines = [f"reduce: {told['reduction']}" + (f" ({told['reason']})" if told["reason"] else "")]
    lines += step_lines(tuple(from_json(Step, s) for s in told["steps"]))
    for copy, count in sorted(read["sections"].items()):
        lines.append(f"  runs read of {copy or 'the archive'}: {count}")
    pilots = f", {told['pilots']} scans to decide included" if told["pilots"] else ""
    lines.append(f"row groups read: {read['groups']} of {read['full_groups']} of a full scan{pilots}")
    lines.append(f"bytes read: {read['bytes']:,} of {read['full_bytes']:,} of a full scan{pilots}")
    lines.append(f"rows read: {read['read']:,}, kept: {read['rows']:,} of {told['rows']:,}")
    sure = "exact: nothing was left out"
    return [*lines, sure if told["exact"] else "not exact: counts, sums and averages are estimates"]
