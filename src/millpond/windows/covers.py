"""Covers: how the windows of a query lie over its panes: where each window begins, and how far each pane counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from millpond.types import LandmarkWindow, Window
from millpond.windows.landmark_windows import BEGINNING, END, begin, first_after, holds_none
from millpond.windows.pane_layout import FAR, PaneCut

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cover:
    """The windows of `window` over `panes`; windows are named by their ends, as pane numbers.

    >>> Cover(Panes(3), TimeWindow(range=9, slide=6)).starts(np.array([6])).tolist()
    [3]
    """

    panes: PaneCut
    window: Window

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(panes per window, panes per slide, an end); 0 panes per window where they grow."""
        width, step, offset = self.panes.shape(self.window)
        return (0 if self.grows else width), step, offset

    @property
    def grows(self) -> bool:
        """Whether windows grow from landmarks."""
        return isinstance(self.window, LandmarkWindow)

    def starts(self, ends: Ints) -> Ints:
        """The first pane of the window that ends before each pane number."""
        ends = np.asarray(ends, np.int64)
        if not self.grows:
            return np.maximum(ends - self.shape[0], -FAR)
        distinct, place = np.unique(ends, return_inverse=True)
        inside = np.clip(distinct, self._low, self._high)
        marks = begin(self.window, self.panes.phase + inside * self.panes.width)
        found = np.where(marks <= BEGINNING, -FAR, (marks - self.panes.phase) // self.panes.width)
        return found[place]

    def lasts(self, panes: Ints) -> Ints:
        """The last pane number before which a window with each pane can end; below pane + 1 where no window has it."""
        panes = np.asarray(panes, np.int64)
        if not self.grows:
            return panes + self.shape[0]
        distinct, place = np.unique(panes, return_inverse=True)
        times = self.panes.phase + np.clip(distinct, self._low, self._high) * self.panes.width
        found = distinct + self.window.range // self.panes.width
        for landmark in self.window.landmarks:
            marks = first_after(landmark, times)
            last = np.where(marks >= END, FAR, (marks - self.panes.phase) // self.panes.width)
            found = np.maximum(found, np.where(holds_none(landmark, times), distinct, last))
        return found[place]

    def first_end(self, pane: int) -> int:
        """The first window end at or behind a pane number."""
        _, step, offset = self.shape
        return offset - ((offset - pane) // step) * step

    def since(self, pane: int) -> int:
        """The first pane that any window which ends behind pane number `pane` can have."""
        return int(self.starts(np.array([self.first_end(pane + 1)]))[0])

    @cached_property
    def _low(self) -> int:
        return (-(2**61)) // self.panes.width

    @cached_property
    def _high(self) -> int:
        return 2**61 // self.panes.width
