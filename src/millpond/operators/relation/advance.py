"""Advance a relational query: what it reports of the instants up to a bound, and how late rows revise reported ones.

A query's answer up to an instant is a function of the rows of its inputs; an epoch reports how it differs from before.
Late rows within the horizon give the touched instants a second time, and the difference is reported as a revision.
Pure functions of rows and bounds; live epochs and back-fill use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.records import QueryProgress
from millpond.operators.relation.early import Report, Speculation, with_early
from millpond.operators.relation.group_sums import Stored, Sums
from millpond.operators.relation.table_use import TableUse
from millpond.operators.relational.readers import Given, Input
from millpond.operators.relational.visibility import floor_of, floored, new_floor, pruned, revises
from millpond.operators.windowed.advance import Advanced
from millpond.operators.windowed.early import CLOSED
from millpond.progress import FOREVER, NEVER
from millpond.relations import (
    FOR_EVER,
    Content,
    Known,
    Probed,
    Ticks,
    answers,
    content_of,
    content_of_runs,
    difference,
    merge_rows,
    numbered,
    numbers_of,
    pending,
    shown,
    spare_of,
)
from millpond.relations.pipelines import Observer
from millpond.relations.spans import visible_from
from millpond.synopses.parallel import side_by_side
from millpond.types import Grouped, QueryOptions, RelationInput, RelationQuery


def advance_relation(
    db: duckdb.DuckDBPyConnection,
    query: RelationQuery,
    options: QueryOptions,
    inputs: Sequence[Input],
    use: TableUse,
    progress: QueryProgress,
    bound: int,
    since: int,
    given: Given,
    high: int,
    speculation: Speculation | None = None,
    observer: Observer | None = None,
    stored: Stored = tuple,
) -> Advanced:
    """Report the instants up to `bound`, and revise reported ones that rows of the epochs from `since` on change.

    Arguments:
        use: the tables that it reads.
        given: (low, high) -> revision numbers given so far to instants in that range: columns end, revision.
        high: the least high watermark of the streams that have rows, before the epoch.
        speculation: what early answers are made of; None: the query has none. observer: of the pipelines of a join.
        stored: gives what is kept of the groups of aggregates over a join.
    """
    progress = replace(progress, edge=max(progress.edge, min(progress.closed, high)))
    stretches = use.stretches(progress)
    tables = use.in_time(stretches)
    own = [revises(options, i.late) for i in inputs]
    spares = [spare_of(query, options) if r else 0 for r in own]
    new = side_by_side(db, [partial(_fresh, i, since) for i in inputs])
    came = [(i.late, rows) for i, rows in zip(inputs, new, strict=True)]
    floors = [floor_of(progress, r, spare) for r, spare in zip(own, spares, strict=True)]
    # Of rows that are looked up nobody knows which are kept.
    progress = progress if query.probes else pruned(progress, [i.rows.slice(i.below) for i in inputs])
    progress = new_floor(progress, options, came, spares, floors)
    inputs = [replace(i, rows=floored(i.rows, progress, options, i.late)) for i in inputs]
    fresh_rows = [floored(rows, progress, options, late) for late, rows in came]
    items = list(zip(query.inputs, inputs, spares, strict=True))

    def mended(each: Input) -> Callable[[pa.Table], pa.Table]:
        return lambda rows: floored(rows, progress, options, each.late)

    contents = [known_of(db, query, item, i, spare, mended(i)) for item, i, spare in items]
    arrivals = [
        visible_from(rows, rows["_t"].to_numpy(), spare) for rows, spare in zip(fresh_rows, spares, strict=True)
    ]
    touched = [a[a < progress.closed] for a in arrivals]
    first_seen = [int(a.min()) for a in arrivals if len(a)]
    first = min([*first_seen, *([progress.first] if progress.first is not None else [])], default=None)
    last = max((_last(item, i.high) for item, i, _ in items if i.high > NEVER), default=NEVER)
    status = CLOSED if options.early is not None else None
    revised = None
    late = [int(t.min()) for t in touched if len(t)]
    grid = _ticks(options, first, last)
    kept = [c for c in contents if isinstance(c, Content)]

    def as_before() -> list[Content]:
        if not any(len(a) for a in arrivals):
            return kept
        known = [known_of(db, query, item, i, spare, mended(i), since - 1) for item, i, spare in items]
        return [c for c in known if isinstance(c, Content)]

    sums = None
    if isinstance(query.plan, Grouped):
        sums = Sums.of(db, query, tables, observer, grid, progress, stored, as_before)
    if late and any(own) and sums is not None:
        old_last = max((_last(item, _high(i.rows, since)) for item, i, _ in items), default=NEVER)
        low, ticks_then = max(min(late), progress.start), _ticks(options, progress.first, old_last)
        earlier = min(late) < low
        changed = sums.revised(as_before(), kept, low, progress.closed, (ticks_then, grid), earlier)
        revised = _revisions(db, query, changed, given, status)
    elif late and any(own):
        low, until = max(min(late), progress.start), progress.closed
        if until < FOREVER and all(item.window.kind == "range" for item in query.inputs):
            highs = [
                int(t.max()) + item.window.range + 2 for t, (item, _, _) in zip(touched, items, strict=True) if len(t)
            ]
            until = min(until, max(highs)) if query.operator != "rstream" else until
        before = [known_of(db, query, item, i, spare, mended(i), since - 1) for item, i, spare in items]
        old_last = max((_last(item, _high(i.rows, since)) for item, i, _ in items), default=NEVER)
        old = answers(db, query, before, tables, low, until, _ticks(options, progress.first, old_last), observer)
        new = answers(db, query, contents, tables, low, until, _ticks(options, first, last), observer)
        revised = _revisions(db, query, difference(db, query, old, new), given, status)
    low = max(progress.closed, progress.start)

    def between(since: int, until: int) -> pa.Table:
        if sums is not None:
            return sums.ahead(kept, since, min(until, FOR_EVER), grid)
        return answers(db, query, contents, tables, since, min(until, FOR_EVER), grid, observer)

    closed = max(progress.closed, bound)
    passes = between if sums is None else partial(sums.passed, kept, ticks=grid)
    found = passes(low, min(bound, FOR_EVER)) if bound > low else None
    report = Report(bound, found, pending=pending(contents, closed))
    if speculation is not None:
        top = max((i.high for i in inputs), default=NEVER)
        report = with_early(db, query, options, speculation, progress, report, between, top, given)
    elif found is not None:
        zeros = pa.array(np.zeros(found.num_rows, np.int64))
        report = replace(report, answers=shown(db, query, found.append_column("_revision", zeros)))
    arrived = zip(inputs, arrivals, fresh_rows, strict=True)
    too_late = sum(int((a > rows["_t"].to_numpy()).sum()) for i, a, rows in arrived if i.counted)
    parts = [t for t in (revised, report.answers) if t is not None and t.num_rows]
    known = [*([numbers_of(revised)] if revised is not None and revised.num_rows else []), *report.numbers]
    progress = progress if speculation is None else replace(progress, early_at=report.early_at, stirred=report.stirred)
    return Advanced(
        pa.concat_tables(parts, promote_options="permissive") if parts else None,
        pa.concat_tables(known) if known else None,
        replace(
            progress,
            closed=closed,
            first=first,
            pending=report.pending,
            windows=progress.windows + (0 if found is None else found.num_rows),
            revisions=progress.revisions + (revised.num_rows if revised is not None else 0),
            too_late=progress.too_late + too_late,
            tables=stretches if closed > progress.closed else progress.tables,
            summed=sums is not None,
        ),
        report.early,
        None if sums is None else sums.stored(),
    )


def known_of(
    db: duckdb.DuckDBPyConnection,
    relation: RelationQuery,
    item: RelationInput,
    each: Input,
    spare: int,
    mended: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    last: int | None = None,
) -> Known:
    """What evaluation knows of an input.

    Arguments:
        mended: gives rows of the past the cuts that the query sees. last: as of that epoch; None: of now.
    """
    if each.runs and not item.signed:
        return content_of_runs(db, item, each.runs, spare, each.rows, last)
    rows = each.rows if last is None else each.rows.filter(pc.less_equal(each.rows["_epoch"], last))
    probe, past = relation.probe(item.alias), each.past
    if probe is None or past is None:
        return content_of(db, item, rows, spare)
    driver = next(i for i in relation.inputs if i.alias == relation.driver)
    oldest = min([past.oldest, *([int(pc.min(rows["_t"]).as_py())] if rows.num_rows else [])])
    empty = each.rows.slice(0, 0)
    return Probed(
        item, probe, driver, spare, lambda where: map(mended, past.read(where, None, rows, last)), empty, oldest
    )


def _fresh(each: Input, since: int, _db: duckdb.DuckDBPyConnection) -> pa.Table:
    """The rows of an input that came in the epochs from `since` on."""
    rows = each.rows.slice(each.below)
    rows = rows.filter(pc.greater_equal(rows["_epoch"], since))
    if each.past is None or since > each.past.epoch:
        return rows
    everywhere = [(-FOR_EVER, FOR_EVER)]
    return merge_rows([rows, *(t for t in each.past.read(everywhere, first=since) if t.num_rows)])


def _last(item: Any, high: int) -> int:
    """The last instant at which something happens, when nothing follows."""
    return high + (item.window.range + 1 if item.window.kind == "range" else 0)


def _high(rows: pa.Table, since: int) -> int:
    times = rows.filter(pc.less(rows["_epoch"], since))["_t"]
    return pc.max(times).as_py() if len(times) else NEVER


def _ticks(options: QueryOptions, first: int | None, last: int) -> Ticks | None:
    if options.every is None:
        return None
    return Ticks(options.every, FOREVER if first is None else first, last)


def _revisions(
    db: duckdb.DuckDBPyConnection, query: RelationQuery, changed: pa.Table, given: Given, status: str | None
) -> pa.Table | None:
    """Changes of instants that were reported before, numbered behind what was given for the instant."""
    if not changed.num_rows:
        return None
    span = pc.min_max(changed["_at"]).as_py()
    return shown(db, query, numbered(db, changed, given(span["min"], span["max"]), status, 1))


__all__ = ["advance_relation", "known_of"]
