"""What a relational query sees of its inputs in an epoch, and what of that is new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millpond.operators.relation.relation_progress import Progress
from millpond.operators.relational.readers import Input
from millpond.operators.relational.visibility import covered_from, floor_of, floored, new_floor, pruned, revises
from millpond.progress import FOREVER, NEVER
from millpond.relations import (
    FOR_EVER,
    Content,
    Known,
    Probed,
    Ticks,
    content_of,
    content_of_runs,
    merge_rows,
    sight_of,
)
from millpond.relations.spans import Ints, visible_from
from millpond.synopses.parallel import side_by_side
from millpond.types import QueryOptions, RelationInput, RelationQuery


@dataclass(frozen=True)
class Seen:
    """What a query sees of its inputs in an epoch.

    progress: of the query, with a floor where rows came too far back. inputs: with the cuts that the query sees.
    revising: of each, whether its late rows revise; spares: how far back they do. fresh: the rows that came in the
    epochs from `since` on.
    """

    db: duckdb.DuckDBPyConnection
    query: RelationQuery
    options: QueryOptions
    progress: Progress
    inputs: Sequence[Input]
    revising: Sequence[bool]
    spares: Sequence[int]
    fresh: Sequence[pa.Table]
    since: int

    @staticmethod
    def of(
        db: duckdb.DuckDBPyConnection,
        query: RelationQuery,
        options: QueryOptions,
        inputs: Sequence[Input],
        progress: Progress,
        since: int,
    ) -> Seen:
        """What is seen of inputs as an epoch has them. progress: before the epoch."""
        own = [revises(options, i.late) for i in inputs]
        spares = [sight_of(query, options) if r else 0 for r in own]
        new = side_by_side(db, [partial(_fresh, i, since) for i in inputs])
        came = [(i.late, rows) for i, rows in zip(inputs, new, strict=True)]
        floors = [floor_of(progress, r, spare) for r, spare in zip(own, spares, strict=True)]
        # Of rows that are looked up nobody knows which are kept.
        progress = progress if query.probes else pruned(progress, [i.rows.slice(i.below) for i in inputs])
        progress = new_floor(progress, options, came, spares, floors)
        mended = [replace(i, rows=floored(i.rows, progress, options, i.late)) for i in inputs]
        fresh = [floored(rows, progress, options, late) for late, rows in came]
        return Seen(db, query, options, progress, mended, own, spares, fresh, since)

    def known(self, last: int | None = None) -> list[Known]:
        """The inputs. last: as of that epoch; None: of now."""

        def mended(each: Input) -> Callable[[pa.Table], pa.Table]:
            return lambda rows: floored(rows, self.progress, self.options, each.late)

        return [
            known_of(self.db, self.query, item, each, spare, mended(each), last)
            for item, each, spare in zip(self.query.inputs, self.inputs, self.spares, strict=True)
        ]

    @cached_property
    def contents(self) -> list[Known]:
        """The inputs as they are now."""
        return self.known()

    @property
    def rows(self) -> list[Content]:
        """The inputs whose rows are kept."""
        return [c for c in self.contents if isinstance(c, Content)]

    def rows_before(self) -> list[Content]:
        """The same before the epoch."""
        if not any(len(a) for a in self.arrivals):
            return self.rows
        return [c for c in self.known(self.since - 1) if isinstance(c, Content)]

    @cached_property
    def arrivals(self) -> list[Ints]:
        """When each row that came is seen, by input."""
        return [visible_from(t, t["_t"].to_numpy(), s) for t, s in zip(self.fresh, self.spares, strict=True)]

    @property
    def touched(self) -> list[Ints]:
        """The arrivals among the instants that were reported."""
        return [a[a < self.progress.closed] for a in self.arrivals]

    @cached_property
    def late(self) -> int | None:
        """The first reported instant that rows change; None: there is none."""
        return min((int(t.min()) for t in self.touched if len(t)), default=None)

    @property
    def low(self) -> int:
        """The first instant that is revised."""
        return max(NEVER if self.late is None else self.late, self.progress.start, self.horizon)

    @property
    def horizon(self) -> int:
        """The instant before which state does not cover what rows bring; NEVER where answers leave these out."""
        if not any(self.revising):
            return NEVER
        return covered_from(self.query, self.options, self.progress)

    @property
    def revised(self) -> bool:
        """Whether the epoch revises."""
        return self.late is not None and any(self.revising) and self.low <= self.progress.closed

    @cached_property
    def first(self) -> int | None:
        """The first instant at which a row is seen, of all epochs."""
        seen = [int(a.min()) for a in self.arrivals if len(a)]
        known = [] if self.progress.own.first is None else [self.progress.own.first]
        return min([*seen, *known], default=None)

    @cached_property
    def ticks(self) -> Ticks | None:
        """The instants that the query reports; None: all."""
        highs = [(item, i.high) for item, i in zip(self.query.inputs, self.inputs, strict=True) if i.high > NEVER]
        return _ticks(self.options, self.first, max((_last(item, high) for item, high in highs), default=NEVER))

    @property
    def ticks_before(self) -> Ticks | None:
        """The same before the epoch."""
        pairs = zip(self.query.inputs, self.inputs, strict=True)
        last = max((_last(item, _high(i.rows, self.since)) for item, i in pairs), default=NEVER)
        return _ticks(self.options, self.progress.own.first, last)

    @property
    def too_late(self) -> int:
        """How many rows are seen behind their own time."""
        arrived = zip(self.inputs, self.arrivals, self.fresh, strict=True)
        return sum(int((a > rows["_t"].to_numpy()).sum()) for i, a, rows in arrived if i.counted)


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


def _last(item: RelationInput, high: int) -> int:
    """The last instant at which something happens, when nothing follows."""
    reach = item.window.reach
    return high if reach is None else high + reach + 1


def _high(rows: pa.Table, since: int) -> int:
    times = rows.filter(pc.less(rows["_epoch"], since))["_t"]
    return pc.max(times).as_py() if len(times) else NEVER


def _ticks(options: QueryOptions, first: int | None, last: int) -> Ticks | None:
    if options.every is None:
        return None
    return Ticks(options.every, FOREVER if first is None else first, last)
