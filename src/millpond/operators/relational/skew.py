"""Keys that a great part of the rows have, and how their rows are salted over the shards: a decider without effects.

Rows of a join are spread by the hash of their key, so a key with half of the rows would give one shard most of the
work. Such a key is split: of one input its rows are salted over all shards by another column of the answer, and of the
others every shard gets them (fragment and replicate: Epstein, Stonebraker and Wong 1978; for skew: DeWitt et al. 1992).
Every joined row is still made once, and equal rows of the answer in one shard. What was decided travels in the
manifest, so that an epoch that is repeated does the same again, and is never taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from millpond.catalog import Catalog
from millpond.manifests.task_reports import Frequent
from millpond.types import Expression, JoinPlan
from millpond.types.relation_queries import EVERYWHERE, are_together

#: A key is split when it has this share of the rows of a store.
SHARE = 0.2

#: Rows by which that is judged, and how many of a task are looked at.
ROWS, SAMPLE = 5_000, 4_096

#: What the busiest shard may still have to do where rows are salted that could be together, as a share of all of it.
WORTH = 0.75

#: Keys of a store that are split: their hashes as texts, with what they are called.
Hot = dict[str, dict[str, str]]


def heavy(hashes: npt.NDArray[np.uint64]) -> dict[str, tuple[int, int]]:
    """Keys that many rows of a task have: by hash, about how many rows, and the number of one of them.

    >>> heavy(np.array([7, 7, 7, 1, 2], np.uint64))
    {'7': (3, 0)}
    """
    step = max(1, len(hashes) // SAMPLE)
    some = hashes[::step]
    values, first, counts = np.unique(some, return_index=True, return_counts=True)
    often = np.flatnonzero(counts >= max(2, SHARE / 2 * len(some)))
    return {str(values[n]): (int(counts[n] * step), int(first[n] * step)) for n in often.tolist()}


@dataclass
class Skew:
    """How many rows of each store were seen lately, and how many of them have which key.

    >>> skew = Skew()
    >>> skew.learn("a", Frequent(10_000, {"7": Heavy(6_000, "seven")}))
    >>> skew.hot("a")
    {'7': 'seven'}
    """

    rows: dict[str, float] = field(default_factory=dict)
    counts: dict[str, dict[str, tuple[float, str]]] = field(default_factory=dict)

    def learn(self, owner: str, seen: Frequent) -> None:
        """Take in what a task saw of a store."""
        fade = 0.5 if self.rows.get(owner, 0.0) > 10 * ROWS else 1.0
        self.rows[owner] = fade * self.rows.get(owner, 0.0) + seen.rows
        known = {k: (fade * n, text) for k, (n, text) in self.counts.get(owner, {}).items()}
        for key, heavy in seen.keys.items():
            known[key] = (known.get(key, (0.0, ""))[0] + heavy.rows, heavy.name)
        self.counts[owner] = {k: v for k, v in known.items() if v[0] >= 1}

    def hot(self, owner: str) -> dict[str, str]:
        """The keys of a store that are to be split."""
        total = self.rows.get(owner, 0.0)
        if total < ROWS:
            return {}
        return {k: text for k, (n, text) in self.counts.get(owner, {}).items() if n >= SHARE * total}


def decided(catalog: Catalog, skew: Skew, before: Hot, shards: int) -> Hot:
    """The keys that are split from now on: those that were, and those that have become heavy.

    Stores whose rows meet split the same keys. Rows that are together for want of a common column are salted, and the
    others copied, where that pays.
    """
    found: Hot = {}
    for group in groups(catalog):
        keys: dict[str, str] = {}
        pays = not any(are_together(catalog.stores[o].spread) for o in group) or salting_pays(
            catalog, skew, group, shards
        )
        for owner in group:
            keys |= (skew.hot(owner) if pays else {}) | _inherited(catalog, owner, before)
        if keys:
            found |= dict.fromkeys(group, keys)
    return found


def salting_pays(catalog: Catalog, skew: Skew, group: Sequence[str], shards: int) -> bool:
    """Whether a shard has so much less to do that every one may have a copy of what is not salted.

    Judged by the rows that came lately: one shard takes all of them, or a share of those that are salted and the rest.
    """
    copied = sum(skew.rows.get(o, 0.0) for o in group if catalog.stores[o].salting.copied)
    salted = sum(skew.rows.get(o, 0.0) for o in group) - copied
    return salted / shards + copied <= WORTH * (salted + copied)


def hashed(plan: JoinPlan, rates: Sequence[float], shards: int) -> tuple[Expression | None, ...]:
    """By what the rows of each input of a join without a common key are spread from its first epoch on.

    Of the keys that some inputs share it is the one with most rows, if a shard then has as much less to do as salting
    must bring (`salting_pays`), and less than when rows of the largest input are salted. The others are everywhere.

    Arguments:
        rates: about how many rows come of each FROM item, in any unit of time; 0 for tables.

    Returns: as `JoinPlan.spread`; nothing where no key is worth it.
    """
    share = 1 - 1 / shards
    best: tuple[Expression | None, ...] = ()
    covered = share * max(rates, default=0.0)
    for each in plan.hashes:
        own = share * sum(rate for rate, sql in zip(rates, each, strict=True) if sql)
        if own > covered and sum(rates) - own <= WORTH * sum(rates):
            best, covered = each, own
    return tuple(sql or (EVERYWHERE if rate else None) for sql, rate in zip(best, rates, strict=True)) if best else ()


def _inherited(catalog: Catalog, owner: str, before: Hot) -> dict[str, str]:
    """The keys of a store that were split; one that is new may be a copy of another with the same definition."""
    stores = catalog.stores
    if owner in before:
        return before[owner]
    alike = [
        keys
        for other, keys in before.items()
        if other.split(".")[0] == owner.split(".")[0]
        and (other not in stores or stores[other].spread == stores[owner].spread)
    ]
    return {k: text for keys in alike for k, text in keys.items()}


def moved(catalog: Catalog, hot: Hot, before: Hot, adopting: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Keys whose rows of earlier epochs every shard needs from now on, by store."""
    adopted = {o for q in catalog.queries.values() if str(q.id) in adopting for o in q.inputs}
    found: dict[str, tuple[str, ...]] = {}
    for owner, keys in hot.items():
        if catalog.stores[owner].salting.copied:
            new = tuple(sorted(k for k in keys if owner in adopted or k not in before.get(owner, {})))
            found |= {owner: new} if new else {}
    return found


def groups(catalog: Catalog) -> list[tuple[str, ...]]:
    """Stores whose keys may be split, those together whose rows meet in some query."""
    found: list[set[str]] = []
    for standing in catalog.queries.values():
        owners = {o for o in standing.inputs if catalog.stores[o].salting.splits}
        if owners:
            met = [g for g in found if g & owners]
            found = [g for g in found if not g & owners] + [owners.union(*met)]
    return [tuple(sorted(g)) for g in found]
