"""Cuts of time into panes: what all of them have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from millpond.types import Variant, Window

Ints = NDArray[np.int64]

#: A width that holds all of time in pane 0: how a query without a window is evaluated.
WHOLE = 2**62

#: Bounds of pane numbers: beyond any event time, within int64.
FAR = 2**61

#: The column of rows that tells their pane, where `Cut.told` gives it.
TOLD = "__pane"


class Cut(Variant):
    """A cut of time into numbered panes. A window ends before a pane, and is told by that pane's number."""

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A cut from before it said its kind by its type."""
        return {"type": "Panes" if value.get("kind") is None else "KindPanes", **value}

    #: Whether `told` gives the panes of rows, and not SQL.
    is_told: ClassVar[bool] = False

    @property
    def named(self) -> list[str]:
        """What tells it from others of its width and phase."""
        return []

    @abstractmethod
    def serves(self, window: Window) -> bool:
        """Whether every window of `window` is a run of whole panes of this cut."""

    @abstractmethod
    def pane(self, time: int) -> int:
        """The pane that `time` lies in."""

    @abstractmethod
    def start(self, pane: int) -> int:
        """The time at which `pane` starts."""

    @abstractmethod
    def ends(self, panes: Ints) -> Ints:
        """Where windows end that end before some panes, microseconds."""

    @abstractmethod
    def instants(self, panes: Ints) -> dict[str, Ints]:
        """`end` of windows of one pane that end before some panes, and `start` where that does not follow from it."""

    def sql(self, time: str) -> str:
        """DuckDB SQL for the pane of a BIGINT expression in microseconds; the column `TOLD` where `told` gives it."""
        return TOLD

    @abstractmethod
    def told(self, times: Ints) -> tuple[Ints | None, Ints]:
        """The panes of rows as (places of the rows, panes); places None: each row is in one pane."""
