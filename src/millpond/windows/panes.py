"""Panes: the disjoint pieces that every window of a query is made of (Li 2008, section on Paned-WID)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from millpond.types import Window
from millpond.windows.landmarks import grid
from millpond.windows.registered import FOREVER, NEVER, axis_of

#: A width that holds all of time in pane 0: how a query without a window is evaluated.
WHOLE = 2**62

#: Bounds of pane numbers: beyond any event time, within int64.
FAR = 2**61


@dataclass(frozen=True)
class Panes:
    """A cut of time into panes: pane p covers [phase + p*width, phase + (p+1)*width), microseconds.

    kind: of windows of a registered kind; pane p is window p, and "starts" when window p - 1 ends.

    >>> Panes.of(Window(range=9, slide=6)).width
    3
    """

    width: int
    phase: int = 0
    kind: str | None = None

    @staticmethod
    def of(window: Window, *ranges: int) -> Panes:
        """The coarsest panes that compose the windows, and others of RANGE `ranges`: width = gcd(RANGE, SLIDE).

        Of windows since landmarks: gcd of SLIDE and of where landmarks lie between ends.
        """
        if window.kind is not None:
            return Panes(1, 0, window.kind)
        grids = [grid(window.slide, window.origin, mark) for mark in window.landmarks]
        width = gcd(window.range, window.slide, *ranges, *grids)
        return Panes(width, window.origin % width)

    def serves(self, window: Window) -> bool:
        """Whether every window of `window` is a run of whole panes of this cut."""
        return (
            window.kind == self.kind
            and all(grid(window.slide, window.origin, mark) % self.width == 0 for mark in window.landmarks)
            and window.range % self.width == 0
            and window.slide % self.width == 0
            and (window.origin - self.phase) % self.width == 0
        )

    def pane(self, time: int) -> int:
        """The pane that `time` lies in."""
        if self.kind is not None:
            return -FAR if time <= NEVER else FAR if time >= FOREVER else axis_of(self.kind).ended(time)
        return (time - self.phase) // self.width

    def start(self, pane: int) -> int:
        """The time at which `pane` starts."""
        if self.kind is not None:
            return NEVER if pane <= -FAR else FOREVER if pane >= FAR else axis_of(self.kind).end_of(pane - 1)
        return self.phase + pane * self.width

    def shape(self, window: Window) -> tuple[int, int, int]:
        """(panes per window, panes per slide, an end as a pane number): windows end before pane offset + k*step.

        >>> Panes(3).shape(Window(range=9, slide=6))
        (3, 2, 0)
        """
        step = window.slide // self.width
        return window.range // self.width, step, ((window.origin - self.phase) // self.width) % step

    def sql(self, time: str) -> str:
        """DuckDB SQL for the pane of a BIGINT expression in microseconds; floors also before 1970."""
        if self.width >= WHOLE:
            return "0"
        x = f"({time} - {self.phase})" if self.phase else time
        if self.width == 1:
            return x
        return f"(CASE WHEN {x} < 0 THEN {x} - {self.width - 1} ELSE {x} END // {self.width})"
