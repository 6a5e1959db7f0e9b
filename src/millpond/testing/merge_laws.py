"""Whether the states of an aggregate merge: tried with one's own rows, cut and ordered in many ways."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

from millpond.functions.mergeable_states import Mergeable, made, stored


def merge_faults(aggregate: Any, *columns: Sequence[Any] | pa.Array, tries: int = 100, seed: int = 0) -> list[str]:
    """What an aggregate gives that is not as its states merge; nothing where all ways of merging agree.

    Args:
        aggregate: a class or an object with add, merge and finish, as of `Pond.register_aggregate`.
        columns: the values of each argument, of some rows. tries: ways of cutting, ordering and bracketing them.
        seed: of these. Numbers that are equal to 1e-9 of them are the same.
    Returns: a sentence for each law that does not hold.

        >>> class Newest:
        ...     def add(self, v): return v[-1].as_py()
        ...     def merge(self, one, other): return other
        ...     def finish(self, state): return state
        >>> merge_faults(Newest, [1, 2])
        ['another order of rows or states: 1, and 2 of all rows at once']
    """
    arrays = [c if isinstance(c, pa.Array) else pa.array(c) for c in columns]
    found, chance = made(aggregate), random.Random(seed)
    rows = list(range(len(arrays[0])))
    whole = found.finish(_state(found, arrays, rows))
    faults: dict[str, str] = {}
    for _ in range(tries):
        order = chance.sample(rows, len(rows))
        cut = sorted(chance.sample(range(1, len(rows)), chance.randrange(len(rows)))) if len(rows) > 1 else []
        bounds = [0, *cut, len(rows)]
        ways = {"rows cut into states": rows, "another order of rows or states": order}
        for law, chosen in ways.items():
            states = [_state(found, arrays, chosen[a:b]) for a, b in itertools.pairwise(bounds)]
            answer = found.finish(reduce(found.merge, states))
            if not _same(answer, whole):
                faults.setdefault(law, f"{law}: {answer!r}, and {whole!r} of all rows at once")
            bracketed = found.finish(_bracketed(found, states, chance))
            if not _same(bracketed, answer):
                law = "states merged in other brackets"
                faults.setdefault(law, f"{law}: {bracketed!r}, and {answer!r} from left to right")
    return list(faults.values())


def _state(aggregate: Mergeable, arrays: Sequence[pa.Array], rows: Sequence[int]) -> Any:
    """A state as it comes back from where it was kept."""
    return stored(aggregate.add(*(a.take(pa.array(rows)) for a in arrays)))


def _bracketed(aggregate: Mergeable, states: Sequence[Any], chance: random.Random) -> Any:
    if len(states) == 1:
        return states[0]
    middle = chance.randrange(1, len(states))
    return aggregate.merge(
        stored(_bracketed(aggregate, states[:middle], chance)), stored(_bracketed(aggregate, states[middle:], chance))
    )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


__all__ = ["merge_faults"]
