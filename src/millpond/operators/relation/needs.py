"""From when on a relational query looks at instants again, and which rows of its stores it needs for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.catalog import Catalog, Standing, Store
from millpond.catalog.unions import late_of
from millpond.manifests.records import Floor, Manifest, QueryProgress
from millpond.operators.pairs.advance import pairs_final, pairs_needed
from millpond.operators.relation.bounds import high_of, is_paired, specs_of
from millpond.operators.relation.visibility import floored, revises
from millpond.progress import NEVER, StreamProgress
from millpond.relations import kept, needed, spare_of


def horizon_of(catalog: Catalog, standing: Standing, progress: QueryProgress, high: int) -> int:
    """Instants before it are final: nothing looks at them again."""
    relation = standing.definition.query.relation
    assert relation is not None
    options = standing.definition.options
    if is_paired(standing):
        return pairs_final(relation, options, _lates(catalog, standing), progress)
    revising = any(revises(options, late_of(catalog, spec)) for spec in specs_of(catalog, standing))
    spare = spare_of(relation, options) if revising else 0
    return max(NEVER, progress.start, max(progress.edge, min(progress.closed, high)) - spare)


def lows_of(catalog: Catalog, standing: Standing, progress: QueryProgress, horizon: int) -> Sequence[int | None]:
    """The event time from which each input's rows can still matter; None: whenever they were.

    Arguments:
        horizon: see `horizon_of`.
    """
    relation = standing.definition.query.relation
    assert relation is not None
    if is_paired(standing):
        return pairs_needed(relation, standing.definition.options, _lates(catalog, standing), progress)
    return [needed(item, horizon - 1) for item in relation.inputs]


def _lates(catalog: Catalog, standing: Standing) -> list[str]:
    return [late_of(catalog, spec) for spec in specs_of(catalog, standing)]


def unanswered(manifest: Manifest, standing: Standing, before: QueryProgress) -> int:
    """The first epoch whose rows a query has not answered: this one, or one of its pause or its back-fill."""
    if before.paused is not None:
        return before.paused
    return standing.first_epoch if str(standing.id) in manifest.adopt else manifest.epoch


def needed_mask(
    db: duckdb.DuckDBPyConnection,
    manifest: Manifest,
    catalog: Catalog,
    store: Store,
    rows: pa.Table,
    whole: bool = True,
) -> npt.NDArray[np.bool_]:
    """Which rows of a store any of its users can still need.

    Arguments:
        rows: of the store. whole: these are all that it has, not those of some files.
    """
    wanted = np.zeros(rows.num_rows, bool)
    for standing in catalog.users(store.owner):
        before = manifest.queries.get(str(standing.id))
        relation = standing.definition.query.relation
        if before is None or relation is None or standing.status == "backfilling":
            return np.ones(rows.num_rows, bool)
        specs, options = specs_of(catalog, standing), standing.definition.options
        since = unanswered(manifest, standing, before)
        if is_paired(standing):
            lows = pairs_needed(relation, options, _lates(catalog, standing), before)
            low = min(low for low, owner in zip(lows, standing.inputs, strict=True) if owner == store.owner)
            wanted |= (rows["_t"].to_numpy() >= low) | (rows["_epoch"].to_numpy() >= since)
            continue
        high = high_of(catalog, specs, manifest.progress)
        horizon = horizon_of(catalog, standing, before, high)
        # Rows that it has not answered yet may get a floor.
        mine = Floor(since, manifest.epoch, before.closed, max(before.edge, min(before.closed, high)))
        floors = before if len(specs) == 1 else replace(before, floors=(*before.floors, mine))
        for item, owner, spec in zip(relation.inputs, standing.inputs, specs, strict=True):
            if owner == store.owner and relation.probe(item.alias) is None:
                late = late_of(catalog, spec)
                spare = spare_of(relation, options) if revises(options, late) else 0
                seen = floored(rows, floors, options, late)
                wanted |= kept(db, relation, item, seen, spare, horizon, since, whole)
    return wanted


def needed_rows(
    db: duckdb.DuckDBPyConnection, manifest: Manifest, catalog: Catalog, store: Store, rows: pa.Table, whole: bool
) -> pa.Table:
    """The rows of a store that any of its users can still need; arguments as of `needed_mask`."""
    return rows.filter(pa.array(needed_mask(db, manifest, catalog, store, rows, whole)))


def need_of(catalog: Catalog, standing: Standing, progress: Mapping[str, StreamProgress], known: QueryProgress) -> int:
    """The event time before which a query needs no row; NEVER when that is not a matter of time."""
    relation = standing.definition.query.relation
    assert relation is not None
    horizon = horizon_of(catalog, standing, known, high_of(catalog, specs_of(catalog, standing), progress))
    lows = zip(relation.inputs, lows_of(catalog, standing, known, horizon), strict=True)
    kept = [low for item, low in lows if relation.probe(item.alias) is None]
    return min((NEVER if low is None else max(NEVER, low) for low in kept), default=NEVER)


__all__ = ["horizon_of", "lows_of", "need_of", "needed_mask", "needed_rows", "unanswered"]
