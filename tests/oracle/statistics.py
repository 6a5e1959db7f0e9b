"""Statistics of a window by definition, over plain Python values; nothing here knows how the engine keeps them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any


def heavy_hitters(values: Sequence[Any], share: Fraction) -> list[tuple[Any, int]] | None:
    """(value, count) of the values that at least `share` of the rows have, most frequent first, then by value.

    NULLs are no rows; None when there are no others.
    """
    known = Counter(v for v in values if v is not None)
    total = sum(known.values())
    found = [(v, n) for v, n in known.items() if n >= share * total]
    return sorted(found, key=lambda each: (-each[1], each[0])) if total else None


def entropy(values: Sequence[Any]) -> float:
    """Shannon's entropy of the values in bits; 0 when there are none."""
    known = Counter(v for v in values if v is not None)
    total = sum(known.values())
    return -sum(n / total * math.log2(n / total) for n in known.values())


def mode(values: Sequence[Any]) -> Any:
    """The most frequent value, of equally frequent ones the smallest."""
    known = Counter(v for v in values if v is not None)
    return min(known, key=lambda v: (-known[v], v)) if known else None


def rank_error(values: Sequence[Any], fraction: float, answer: Any) -> float:
    """How far the answer is from the place `fraction` in the sorted values, as a share of them."""
    known = sorted(v for v in values if v is not None)
    below, upto = sum(v < answer for v in known), sum(v <= answer for v in known)
    wanted = fraction * len(known)
    return max(0.0, below - wanted, wanted - upto) / len(known)


def series_corr(
    rows: Sequence[tuple[int, Hashable, float | None]], step: int, one: Hashable | None = None
) -> list[tuple[Any, Any, float | None, int]] | None:
    """(a, b, correlation, steps) of all pairs of series with a < b, or of `one` with each other.

    rows: (time, series, value). A series has at each step (times of equal time // step) the average of its values
    there; a pair is correlated over the steps that both have. No correlation (None) where one of them does not vary.
    None when no row has both a series and a value.
    """
    at: dict[Any, dict[int, list[float]]] = {}
    for time, series, value in rows:
        if series is not None and value is not None:
            at.setdefault(series, {}).setdefault(time // step, []).append(value)
    if not at:
        return None
    means = {s: {b: math.fsum(v) / len(v) for b, v in steps.items()} for s, steps in at.items()}
    pairs = (
        [(a, b) for a in sorted(means) for b in sorted(means) if a < b]
        if one is None
        else [(one, b) for b in sorted(means) if one in means and b != one]
    )
    found = []
    for a, b in pairs:
        common = sorted(means[a].keys() & means[b].keys())
        if common:
            found.append((a, b, _pearson([means[a][t] for t in common], [means[b][t] for t in common]), len(common)))
    return found


def _pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    n = len(x)
    mx, my = math.fsum(x) / n, math.fsum(y) / n
    sxx = math.fsum((a - mx) ** 2 for a in x)
    syy = math.fsum((b - my) ** 2 for b in y)
    if sxx <= 1e-24 * math.fsum(a * a for a in x) or syy <= 1e-24 * math.fsum(b * b for b in y):
        return None
    return math.fsum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / math.sqrt(sxx * syy)
