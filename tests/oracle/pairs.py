"""The stream of pairs from its definition: every pair of rows is looked at, and who is alone follows from bounds.

Written from windows.md 1.5 (definitions A and B, with the band as corrected) and SEMANTICS.md; it shares no code with
the engine. Stamps are whole numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.oracle.cql import Row

#: A window behind a stream: how long its rows may be joined, whether that end is open; or the intervals it is cut into.
Window = tuple[str, int]

FOREVER = 1 << 60


@dataclass(frozen=True)
class Item:
    """A row of a stream: its stamp, its values, and the progress that it was behind when it came (None: none)."""

    stamp: int
    values: Row
    behind: int | None = None


def takes_part(item: Item, revise_for: int) -> bool:
    """Whether a row is in time, or late by no more than is revised."""
    return item.behind is None or item.stamp >= item.behind - revise_for


def meet(left: int, right: int, windows: tuple[Window, Window]) -> bool:
    """Definition A: left - W_R <= right <= left + W_L, either end open if said so; or both in the same interval."""
    (kind, ahead), (other, back) = windows
    if kind == "tumbling":
        return left // ahead == right // back
    late = right - left < ahead if kind == "open" else right - left <= ahead
    early = left - right < back if other == "open" else left - right <= back
    return late and early


def passed(stamp: int, window: Window, bound: int) -> bool:
    """Whether no row of the other stream from `bound` on can meet a row."""
    kind, length = window
    if kind == "tumbling":
        return bound >= (stamp // length + 1) * length
    return bound >= stamp + length if kind == "open" else bound > stamp + length


def pairs(
    kind: str,
    inputs: tuple[Sequence[Item], Sequence[Item]],
    windows: tuple[Window, Window],
    test: Callable[[Row, Row], bool],
    bounds: tuple[int, int] = (FOREVER, FOREVER),
) -> Counter[tuple[int, Row]]:
    """(largest stamp, values) of every row of the stream that is certain.

    Arguments:
        test: whether two rows satisfy the join's condition. bounds: what the streams bring no more of.
    """
    found: Counter[tuple[int, Row]] = Counter()
    left, right = inputs
    both = [(a, b) for a in left for b in right if meet(a.stamp, b.stamp, windows) and test(a.values, b.values)]
    width = max((len(i.values) for own in inputs for i in own), default=0)
    nothing: Row = (None,) * width
    if kind in ("asof", "asof left"):
        for item in left:
            near = [b for a, b in both if a is item]
            if not passed(item.stamp, windows[0], bounds[1]) or (not near and kind == "asof"):
                continue
            latest = max(near, key=lambda b: (b.stamp, right.index(b)), default=None)
            found[item.stamp, (*item.values, *(nothing if latest is None else latest.values))] += 1
        return found
    if kind not in ("semi", "anti"):
        found.update((max(a.stamp, b.stamp), (*a.values, *b.values)) for a, b in both)
    for number, own in enumerate(inputs):
        met = {id(pair[number]) for pair in both}
        if kind == "semi" and number == 0:
            found.update((a.stamp, a.values) for a in own if id(a) in met)
        if kind not in (("left", "full", "anti") if number == 0 else ("right", "full")):
            continue
        for item in own:
            if id(item) in met or not passed(item.stamp, windows[number], bounds[1 - number]):
                continue
            row = (*item.values, *nothing) if number == 0 else (*nothing, *item.values)
            row = item.values if kind == "anti" else row
            found[item.stamp, row] += 1
    return found
