"""The cost rule of panes: whether a window aggregate is made from panes, from differences of panes, or directly.

Li 2008, section 6.2.3, costs (6.1) to (6.3) per answer of a window; (6.4) needs the rows themselves in order, which no
plan here keeps. A decider: numbers in, a choice out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Plan = Literal["panes", "differential", "direct"]


@dataclass(frozen=True)
class Weights:
    """What steps cost, relative to each other (measured on DuckDB's hash aggregation and on array folds).

    row: a row that is put into its pane (a). group: a group that a pane gives (b). pane: a pane's group that is
    combined into a window (c). direct: a row that is put into a window without panes (a').
    """

    row: float = 1.0
    group: float = 4.0
    pane: float = 1.0
    direct: float = 1.0


@dataclass(frozen=True)
class Measured:
    """What a window looks like.

    tuples: rows per window (T). panes: panes per window (P). step: panes per slide. groups: groups per pane (G).
    """

    tuples: float
    panes: float
    step: float
    groups: float


@dataclass(frozen=True)
class Decision:
    """A plan and the cost of each; `differential` is None for aggregates that have no difference."""

    plan: Plan
    measured: Measured
    panes: float
    differential: float | None
    direct: float

    @property
    def text(self) -> str:
        """The choice and its numbers, for EXPLAIN."""
        m = self.measured
        parts = [f"panes {self.panes:,.0f}"]
        parts += [] if self.differential is None else [f"differences of panes {self.differential:,.0f}"]
        parts.append(f"without panes {self.direct:,.0f}")
        measured = f"{m.tuples:,.0f} rows and {m.panes:,.0f} panes per window, {m.groups:,.0f} groups per pane"
        return f"cost per window: {', '.join(parts)} ({measured}): {_NAMES[self.plan]}"


_NAMES = {"panes": "panes", "differential": "differences of panes", "direct": "without panes"}


def decide(measured: Measured, differential: bool, weights: Weights | None = None) -> Decision:
    """Choose the cheapest plan; equal costs go to panes, which can be shared.

    Arguments:
        differential: whether what leaves a window can be taken off its aggregate, exactly.

    >>> decide(Measured(tuples=100_000, panes=60, step=1, groups=10), differential=True).plan
    'differential'
    >>> decide(Measured(tuples=100_000, panes=60, step=1, groups=10), differential=False).plan
    'panes'
    >>> decide(Measured(tuples=60, panes=60, step=1, groups=1), differential=False).plan  # a row per pane
    'direct'
    """
    w, m = weights or Weights(), measured
    panes = max(1.0, m.panes)
    made = w.row * m.tuples / panes + w.group * m.groups
    whole = made + w.pane * panes * m.groups
    changed = made + 2 * w.pane * m.groups * m.step if differential else None
    direct = w.direct * m.tuples
    plan: Plan = "panes"
    if changed is not None and changed < whole:
        plan = "differential"
    if direct < (whole if changed is None else min(whole, changed)):
        plan = "direct"
    return Decision(plan, measured, whole, changed, direct)
