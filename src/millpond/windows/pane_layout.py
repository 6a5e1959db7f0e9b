"""Panes: the disjoint pieces that every window of a query is made of (Li 2008, section on Paned-WID)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from millpond.types import CalendarWindow, KindWindow, Window
from millpond.windows.calendar_panes import CalendarPanes, calendar_panes_of
from millpond.windows.cuts import FAR, WHOLE, Cut, Ints
from millpond.windows.landmark_windows import grid
from millpond.windows.registered import FOREVER, NEVER, axis_of


@dataclass(frozen=True)
class Panes(Cut):
    """A cut of time into equal panes: pane p covers [phase + p*width, phase + (p+1)*width), microseconds."""

    width: int
    phase: int = 0

    def serves(self, window: Window) -> bool:
        """Whether every window of `window` is a run of whole panes of this cut."""
        return (
            not isinstance(window, KindWindow | CalendarWindow)
            and all(grid(window.slide, window.origin, mark) % self.width == 0 for mark in window.landmarks)
            and window.range % self.width == 0
            and window.slide % self.width == 0
            and (window.origin - self.phase) % self.width == 0
        )

    def pane(self, time: int) -> int:
        """The pane that `time` lies in."""
        return (time - self.phase) // self.width

    def start(self, pane: int) -> int:
        """The time at which `pane` starts."""
        return self.phase + pane * self.width

    def ends(self, panes: Ints) -> Ints:
        """Where windows end that end before some panes, microseconds."""
        return self.phase + panes * self.width

    def instants(self, panes: Ints) -> dict[str, Ints]:
        """See `Cut`."""
        return {"end": self.ends(panes)}

    def told(self, times: Ints) -> tuple[Ints | None, Ints]:
        """See `Cut`."""
        return None, (times - self.phase) // self.width

    def shape(self, window: Window) -> tuple[int, int, int]:
        """(panes per window, panes per slide, an end as a pane number): windows end before pane offset + k*step.

        >>> from millpond.types import TimeWindow
        >>> Panes(3).shape(TimeWindow(range=9, slide=6))
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


@dataclass(frozen=True)
class KindPanes(Cut):
    """Windows of a registered kind as panes: pane p is window p, and "starts" when window p - 1 ends."""

    is_told: ClassVar[bool] = True

    kind: str

    @property
    def width(self) -> int:
        """One window."""
        return 1

    @property
    def phase(self) -> int:
        """The first pane is window 0."""
        return 0

    @property
    def named(self) -> list[str]:
        """See `Cut`."""
        return [self.kind]

    def serves(self, window: Window) -> bool:
        """Whether every window of `window` is a pane of this cut."""
        return isinstance(window, KindWindow) and window.kind == self.kind

    def pane(self, time: int) -> int:
        """The first window that has not ended by `time`."""
        return -FAR if time <= NEVER else FAR if time >= FOREVER else axis_of(self.kind).ended(time)

    def start(self, pane: int) -> int:
        """The end of the window before."""
        return NEVER if pane <= -FAR else FOREVER if pane >= FAR else axis_of(self.kind).end_of(pane - 1)

    def ends(self, panes: Ints) -> Ints:
        """Where windows end that end before some panes, microseconds."""
        return axis_of(self.kind).ends(panes - 1)

    def instants(self, panes: Ints) -> dict[str, Ints]:
        """See `Cut`."""
        return {"end": self.ends(panes), "start": axis_of(self.kind).starts(panes - 1)}

    def told(self, times: Ints) -> tuple[Ints, Ints]:
        """See `Cut`: Li's Bucket, a row once for each window that holds it."""
        return axis_of(self.kind).bucket(times)

    def shape(self, window: Window) -> tuple[int, int, int]:
        """A pane to a window."""
        return 1, 1, 0


#: A cut of time into panes.
PaneCut = Panes | KindPanes | CalendarPanes


def panes_of(window: Window, *ranges: int) -> PaneCut:
    """The coarsest panes that compose the windows, and others of RANGE `ranges`: width = gcd(RANGE, SLIDE).

    Of windows since landmarks: gcd of SLIDE and of where landmarks lie between ends.

    >>> from millpond.types import TimeWindow
    >>> panes_of(TimeWindow(range=9, slide=6))
    Panes(width=3, phase=0)
    """
    if isinstance(window, KindWindow):
        return KindPanes(window.kind)
    if isinstance(window, CalendarWindow):
        return calendar_panes_of(window)
    grids = [grid(window.slide, window.origin, mark) for mark in window.landmarks]
    width = gcd(window.range, window.slide, *ranges, *grids)
    return Panes(width, window.origin % width)


__all__ = ["FAR", "WHOLE", "CalendarPanes", "KindPanes", "PaneCut", "Panes", "panes_of"]
