"""Which rows a reduction keeps, and what estimates follow, from the definitions; shares no code with millpond.

u(id) is SplitMix64's finaliser of id + (seed + 1) * 2^64 / golden ratio, over 2^64, in plain integers. A reduction d
keeps a row when u < 1 - d; the row then stands for 1 / (1 - d) rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

_MASK = 2**64 - 1
Z = 1.959963984540054


def u(row_id: int, seed: int) -> Fraction:
    """The number of a row in [0, 1)."""
    x = (row_id + (seed + 1) * 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    x ^= x >> 31
    return Fraction(x >> 11, 2**53)


@dataclass(frozen=True)
class Kept:
    """A row that a scan gives. time: microseconds. weight: how many rows it stands for."""

    time: int
    value: float | None
    weight: float
    key: str | None = None


def scanned(
    rows: Iterable[tuple[int, int, float | None, str | None]], seed: int, steps: Sequence[tuple[int, float]]
) -> list[Kept]:
    """The rows (id, time, value, key) that a scan keeps.

    steps: (from, fraction to drop), in order of time; the fraction holds up to the next step.
    """
    found = []
    for row_id, time, value, key in rows:
        drop = [d for start, d in steps if start <= time][-1]
        kept = round(1 - drop, 12)
        if u(row_id, seed) < Fraction(kept) or drop == 0:
            found.append(Kept(time, value, 1 / kept if drop else 1.0, key))
    return found


@dataclass(frozen=True)
class Estimate:
    """What is said of a set of rows. low, high: of count, sum and avg, in this order."""

    rows: int
    count: float
    sum: float | None
    average: float | None
    fraction: float | None
    ends: tuple[tuple[float, float], tuple[float, float] | None, tuple[float, float] | None]

    @property
    def unsaid(self) -> bool:
        """Whether a sum or an average has no interval."""
        return self.sum is not None and None in self.ends


def estimate(rows: Sequence[Kept], lost: float = 0.0) -> Estimate:
    """Horvitz-Thompson count and sum, Hajek's mean, with their 95 % intervals.

    lost: the largest fraction that was dropped where these rows come from; 0: nothing was.
    """
    sure = [r for r in rows if r.weight == 1]
    more = [r for r in rows if r.weight > 1]
    count = math.fsum(r.weight for r in rows)
    given = [r for r in rows if r.value is not None]
    ends_count = _score(len(sure), more)
    if not more and 0 < lost < 1:  # all that were left out may have been in this group: the score interval of none
        ends_count = ends_count[0], ends_count[1] + Z * Z * (1 / round(1 - lost, 12) - 1)
    if not given:
        return Estimate(len(rows), count, None, None, len(rows) / count if count else None, (ends_count, None, None))
    total = math.fsum(r.weight * r.value for r in given)
    size = math.fsum(r.weight for r in given)
    mean = total / size
    drawn = [r for r in given if r.weight > 1]
    spread = math.fsum(r.weight * (r.weight - 1) * r.value**2 for r in drawn)
    around = math.fsum(r.weight * (r.weight - 1) * (r.value - mean) ** 2 for r in drawn)
    t = student(len(drawn))
    half_sum, half_mean = t * math.sqrt(spread), t * math.sqrt(around) / size
    # One row shows no deviation from others; of rows of which none was drawn nothing is known.
    unknown = not more and 0 < lost < 1
    return Estimate(
        len(rows), count, total, mean, len(rows) / count,
        (
            ends_count,
            None if unknown else (total - half_sum, total + half_sum),
            None if unknown or len(drawn) == 1 else (mean - half_mean, mean + half_mean),
        ),
    )  # fmt: skip


def _score(sure: int, more: Sequence[Kept]) -> tuple[float, float]:
    """All N with (N - total)^2 <= z^2 c N, c the variance of a row that is there, found from the quadratic's roots."""
    if not more:
        return float(sure), float(sure)
    total = math.fsum(r.weight for r in more)
    c = math.fsum(r.weight * (r.weight - 1) for r in more) / total
    b = 2 * total + Z * Z * c
    root = math.sqrt(b * b - 4 * total * total)
    return sure + (b - root) / 2, sure + (b + root) / 2


def student(rows: int) -> float:
    """Student's two-sided 95 % quantile for so many rows, at least three degrees of freedom, by four terms of z."""
    d, z = max(rows - 1, 3), Z
    return (
        z
        + (z**3 + z) / (4 * d)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3)
    )
