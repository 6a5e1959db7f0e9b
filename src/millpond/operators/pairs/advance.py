"""Advance a stream of pairs: what an epoch's rows add to it, and which rows are certain to be alone.

Pairs do not wait for progress; it decides what is late, what is kept, and who is alone. A row takes part unless it is
further behind its stream's progress than late rows revise (`revise_for`; under late='drop' no late row does): then it
is too late, for good, so that what had been let go by then can make no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.manifests.owed import Owed, owed_of
from millpond.operators.pairs.pairs_progress import PairsProgress, Progress
from millpond.operators.relational.readers import Given, Input
from millpond.operators.relational.relational_progress import Floor
from millpond.operators.relational.visibility import pruned, revises, with_floor
from millpond.operators.windowed.advance import Advanced
from millpond.progress import FOREVER, NEVER
from millpond.relations import numbered, numbers_of, shown
from millpond.relations.bands import Mask, Reached, Seen, marks_of, needed_from, pair_changes
from millpond.relations.spans import in_order, left_of
from millpond.support.distinct import is_among
from millpond.types import PairsQuery, QueryOptions, RelationInput

_UNKNOWN = (NEVER, NEVER)


def pair_limits(relation: PairsQuery, options: QueryOptions, lates: Sequence[str], progress: Progress) -> list[int]:
    """The least event time that a row of each input can have from now on, late rows included.

    Arguments:
        lates: what late rows of each input do.
    """
    edges = progress.own.edges or _UNKNOWN
    return [max(NEVER, edge - _spare(relation, options, late)) for edge, late in zip(edges, lates, strict=True)]


def pairs_needed(
    relation: PairsQuery, options: QueryOptions, lates: Sequence[str], progress: Progress
) -> tuple[int, int]:
    """The event times from which a stream of pairs needs the rows of its inputs; arguments as of `pair_limits`."""
    return needed_from(relation, pair_limits(relation, options, lates, progress))


def pairs_final(relation: PairsQuery, options: QueryOptions, lates: Sequence[str], progress: Progress) -> int:
    """The largest event time of a result's parts before which nothing comes or goes any more."""
    first, second = pair_limits(relation, options, lates, progress)
    return max(NEVER, progress.start, min(progress.closed, marks_of(relation, (first, second)).result))


def _spare(relation: PairsQuery, options: QueryOptions, late: str) -> int:
    return relation.revised_for(options) if revises(options, late) else 0


def advance_pairs(
    db: duckdb.DuckDBPyConnection,
    query: PairsQuery,
    options: QueryOptions,
    inputs: Sequence[Input],
    progress: Progress,
    reached: tuple[Reached, Reached],
    since: int,
    given: Given,
) -> Advanced[PairsProgress]:
    """Report what rows of the epochs from `since` on, and the bounds that are known now, make of the stream of pairs.

    Arguments:
        reached: how far the inputs are after the epoch. given: as of `relation_answers.advance_relation`.
    """
    moved_on = moved(query, options, [(i.late, i.high) for i in inputs], progress, reached)
    progress = _with_floor(query, options, inputs, pruned(progress, [i.rows for i in inputs]), since)
    seen, too_late = [], 0
    for number, (item, each) in enumerate(zip(query.inputs, inputs, strict=True)):
        spare = _spare(query, options, each.late)
        taking = _taking(each, number, progress, options, spare)
        too_late += int((~taking & _fresh(each, since)).sum())
        seen.append(_seen(db, item, each.rows.filter(pa.array(taking)), spare, since))
    names = ", ".join(f"c{n}" for n in range(len(query.select)))
    before, after = (_reached(each, reached) for each in (progress, moved_on))
    found, pending = pair_changes(db, query, names, seen, before, after)
    found = found.filter(pc.greater_equal(found["_at"], progress.start))
    # What is before the mark that was announced, or takes something back, or comes in its place, revises.
    at = found["_at"].to_numpy()
    taken_back = at[found["_n"].to_numpy() < 0]
    revising = pa.array((at < progress.closed) | is_among(at, taken_back))
    first = found.filter(pc.invert(revising))
    parts, known = [], []
    if first.num_rows:
        zeros = pa.array(np.zeros(first.num_rows, np.int64))
        parts.append(shown(db, query, first.append_column("_revision", zeros)))
    if first.num_rows < found.num_rows:
        changed = found.filter(revising)
        span = pc.min_max(changed["_at"]).as_py()
        parts.insert(0, shown(db, query, numbered(db, changed, given(span["min"], span["max"]), None, 1)))
        known.append(numbers_of(parts[0]))
    return Advanced(
        pa.concat_tables(parts, promote_options="permissive") if parts else None,
        known[0] if known else None,
        replace(
            moved_on,
            own=replace(moved_on.own, floors=progress.own.floors, pending=pending),
            windows=progress.windows + first.num_rows,
            revisions=progress.revisions + found.num_rows - first.num_rows,
            too_late=progress.too_late + (too_late if options.limited else 0),
        ),
    )


def owed_pairs(
    query: PairsQuery,
    options: QueryOptions,
    inputs: Sequence[Input],
    before: Progress,
    progress: Progress,
    since: int,
    epoch: int,
) -> tuple[Owed, ...]:
    """The instants of which pairs are owed for rows of the epochs from `since` on.

    Rows that take no part have partners that are not at hand any more. What is reported of their neighbours may be
    wrong, and so may be what the epoch has taken back of it: that is owed for every row that is at most two steps from
    one that takes no part. And nobody but the archive tells that such a row is alone, once that is certain.

    Arguments:
        before, progress: of the query, before the epoch, and after it, with its floors.
    """
    if options.limited:
        return ()
    reach = query.longest
    came, apart, alone_now = [], [], []
    for number, each in enumerate(inputs):
        if not each.rows.num_rows or not revises(options, each.late):
            continue
        taking = _taking(each, number, progress, options, _spare(query, options, each.late))
        times = each.rows["_t"].to_numpy()
        came.append(times[_fresh(each, since)])
        apart.append(times[~taking])
        alone_now.append(times[~taking & _decided(query, number, times, before, progress)])
    if not any(map(len, apart)):
        return ()
    alone, fresh, sure = np.sort(np.concatenate(apart)), np.concatenate(came), np.concatenate(alone_now)
    near = np.searchsorted(alone, fresh - 2 * reach) < np.searchsorted(alone, fresh + 2 * reach, side="right")
    lows, highs = np.concatenate([fresh[near] - reach, sure]), np.concatenate([fresh[near] + reach, sure])
    return owed_of(np.maximum(lows, progress.start), highs + 1, epoch)


def _decided(query: PairsQuery, number: int, times: npt.NDArray[np.int64], before: Progress, after: Progress) -> Mask:
    """Which rows of an input may have become certain to be alone: the other one's bound came by where they reach."""
    none = np.zeros(len(times), bool)
    if number not in query.join.kind.alone or (before.own.sides, before.own.side_groups) == (
        after.own.sides,
        after.own.side_groups,
    ):
        return none
    was, groups = (before.own.sides or _UNKNOWN)[1 - number], after.own.side_groups or ({}, {})
    now = max([after.own.sides[1 - number], *groups[1 - number].values()])
    found: Mask = (times + query.longest + 1 >= was) & (times <= now)
    return found


def all_pairs(
    db: duckdb.DuckDBPyConnection, query: PairsQuery, inputs: Sequence[Input], bounds: tuple[int, int]
) -> pa.Table:
    """The whole stream of pairs of some rows, as `relations.answers` gives changes: whatever is late takes part."""
    seen = [_seen(db, item, each.rows, FOREVER, 0) for item, each in zip(query.inputs, inputs, strict=True)]
    names = ", ".join(f"c{n}" for n in range(len(query.select)))
    return pair_changes(db, query, names, seen, (Reached(), Reached()), (Reached(bounds[0]), Reached(bounds[1])))[0]


def moved(
    relation: PairsQuery,
    options: QueryOptions,
    inputs: Sequence[tuple[str, int]],
    progress: Progress,
    reached: tuple[Reached, Reached],
) -> Progress:
    """The progress when it is known how far the inputs are.

    Arguments:
        inputs: of each, what late rows do, and the high watermark.
    """
    before, edges = progress.own.sides or _UNKNOWN, progress.own.edges or _UNKNOWN
    after = (max(before[0], reached[0].bound), max(before[1], reached[1].bound))
    groups = []
    for bound, known, each in zip(after, progress.own.side_groups or ({}, {}), reached, strict=True):
        further = {g: max(known.get(g, NEVER), each.groups.get(g, NEVER)) for g in sorted({*known, *each.groups})}
        groups.append({g: b for g, b in further.items() if b > bound})
    high = max(high for _, high in inputs)  # an idle stream is as far as the other, one that has ended no further
    own = [min(b, high) if revises(options, late) else b for b, (late, _) in zip(after, inputs, strict=True)]
    return replace(
        progress,
        closed=max(progress.closed, marks_of(relation, after).result),
        own=replace(
            progress.own,
            sides=after,
            edges=tuple(map(max, edges, own)),
            side_groups=tuple(groups) if any(groups) else (),
        ),
    )


def _reached(progress: Progress, like: tuple[Reached, Reached]) -> tuple[Reached, Reached]:
    """How far the inputs were as a progress has it."""
    sides, groups = progress.own.sides or _UNKNOWN, progress.own.side_groups or ({}, {})
    return Reached(sides[0], groups[0], like[0].by), Reached(sides[1], groups[1], like[1].by)


def _taking(each: Input, number: int, progress: Progress, options: QueryOptions, spare: int) -> Mask:
    """Which rows take part: those that are not further behind than late ones revise."""
    rows = each.rows
    times, epochs = rows["_t"].to_numpy(), rows["_epoch"].to_numpy()
    limit = np.full(len(times), NEVER)
    if not (options.delay and each.late == "revise"):
        limit = pc.fill_null(rows["_cut"], NEVER).to_numpy()
    for floor in progress.own.floors:
        inside = (epochs >= floor.first) & (epochs <= floor.last)
        limit = np.where(inside, np.maximum(limit, floor.sides[number]), limit)
    taking: Mask = times >= np.maximum(limit, NEVER + spare) - spare
    return taking


def _with_floor(
    relation: PairsQuery, options: QueryOptions, inputs: Sequence[Input], progress: Progress, since: int
) -> Progress:
    """The progress with a floor for rows that are on time in their stream, but not for the query: it was idle."""
    limits = pair_limits(relation, options, [i.late for i in inputs], progress)
    epochs: list[int] = []
    for number, (each, limit) in enumerate(zip(inputs, limits, strict=True)):
        spare = _spare(relation, options, each.late)
        behind = _fresh(each, since) & (each.rows["_t"].to_numpy() < limit)
        if (behind & _taking(each, number, progress, options, spare)).any():
            epochs += each.rows["_epoch"].to_numpy()[behind].tolist()
    if not epochs:
        return progress
    floor = Floor(min(epochs), max(epochs), progress.closed, progress.own.edge, progress.own.edges)
    return with_floor(progress, floor)


def _fresh(each: Input, since: int) -> Mask:
    fresh: Mask = each.rows["_epoch"].to_numpy() >= since
    return fresh


def _seen(db: duckdb.DuckDBPyConnection, item: RelationInput, rows: pa.Table, spare: int, since: int) -> Seen:
    """The rows of an input, with which of them take part before the epoch `since` and now."""
    rows = in_order(rows)
    before: Mask = rows["_epoch"].to_numpy() < since
    after = np.ones(rows.num_rows, bool)
    if item.signed:
        ids, old = rows["_id"].to_numpy(), rows.filter(pa.array(before))
        before = is_among(ids, left_of(db, old, spare)["_id"].to_numpy())
        after = is_among(ids, left_of(db, rows, spare)["_id"].to_numpy())
        used = before | after
        rows, before, after = rows.filter(pa.array(used)), before[used], after[used]
    return Seen(rows.select([c.name for c in item.columns]), rows["_t"].to_numpy(), before, after)
