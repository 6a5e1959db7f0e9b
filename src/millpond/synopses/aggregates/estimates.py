"""How good an estimate from a sample is: Horvitz-Thompson estimates, their variances and 95 % intervals.

A row that is kept with the probability p stands for w = 1 / p rows. Rows are kept independently of each other (each by
the hash of its own id), so that with y a row's value (1 for a count)

    total     Y = sum of w y                               Horvitz, Thompson 1952
    variance  V = sum of w (w - 1) y^2                     its unbiased estimator under independent (Poisson) sampling
    average   R = (sum of w y) / (sum of w)                Hajek 1971
    variance  V = sum of w (w - 1) (y - R)^2 / (sum of w)^2   linearised: Sarndal, Swensson, Wretman 1992, 5.5

All of these are sums over rows, so they add up over panes, shards and files like any other aggregate. Rows of weight 1
add nothing to a variance: an answer made of them alone has an interval of no width.

The interval of a count is the score interval (Wilson 1927): the numbers N for which what was seen lies within 1.96
standard deviations, the deviation being that of N itself. It is never below what was seen, and holds for few rows, too.
Those of sums and averages are the estimate +- t sqrt(V), t Student's quantile for the number of rows read (by its
expansion around the normal one, Abramowitz and Stegun 26.7.5). One row shows no deviation from an average: that of a
single row that stands for others has no interval.
"""

from __future__ import annotations

import math

#: The two-sided 95 % quantile of the normal distribution.
Z = 1.959963984540054

#: Degrees of freedom from which on Student's quantile is taken from its expansion as it is; fewer count as so many.
FEWEST = 3


def quantile_sql(rows: str) -> str:
    """Student's two-sided 95 % quantile as DuckDB SQL. rows: how many rows were read, as SQL."""
    degrees = f"greatest({rows} - 1, {FEWEST})::DOUBLE"
    return (
        f"({Z} + {(Z**3 + Z) / 4} / {degrees} + {(5 * Z**5 + 16 * Z**3 + 3 * Z) / 96} / ({degrees} * {degrees})"
        f" + {(3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384} / ({degrees} * {degrees} * {degrees}))"
    )


def quantile(rows: int) -> float:
    """Student's two-sided 95 % quantile for an estimate from so many rows.

    >>> round(quantile(31), 3), round(quantile(10**9), 3)
    (2.042, 1.96)
    """
    d = max(rows - 1, FEWEST)
    z = Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / float(d) ** (n + 1) for n, term in enumerate(terms))


def count_interval_sql(total: str, variance: str, low: bool) -> str:
    """The lower or upper end of a count's interval as DuckDB SQL.

    Arguments:
        total, variance: sum of w, and of w (w - 1), over the rows that stand for others; SQL.
    """
    spread = f"({variance} / {total})"
    middle = f"({total} + {Z * Z / 2} * {spread})"
    half = f"{Z} * sqrt({spread} * {total} + {Z * Z / 4} * {spread} * {spread})"
    return f"({middle} {'-' if low else '+'} {half})"


def fraction_for(error: float, half: float, estimate: float, fraction: float) -> float:
    """Which fraction of the rows to read for an interval that is narrow enough, from one that was seen.

    The half width is proportional to sqrt((1 - p) / p).

    Arguments:
        error: half the width wanted, as a fraction of the estimate. half, estimate: seen when `fraction` was read.

    >>> round(fraction_for(0.01, 5.0, 100.0, 0.1), 3)
    0.735
    """
    if half <= 0 or fraction >= 1:
        return fraction
    wanted = error * abs(estimate)
    if wanted <= 0:
        return 1.0
    unit = half * half * fraction / (1 - fraction)
    return 1 / (1 + wanted * wanted / unit)
