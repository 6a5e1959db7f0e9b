"""Kinds of windows that somebody registered, as the engine uses them: window ids in the place of panes.

A kind is three functions (`kinds.WindowKind`); nothing is known of how its windows lie in time but that their ids are
in the order of their ends. So the engine does as Li's Bucket does (2008, section 6.1): a row is put into each window
that holds it, and from there on windows are told by their ids alone. Pane p is window p, and a window is one pane:
what works for tumbling windows works for these, once a time is translated into the number of windows that have ended.

Kinds are Python objects and known by reference (`months@1f2e3d4c.7`: name, opening, number). The process that
registered one has it; workers read it from the pond's folder, where the registering process has put it for as long as
it runs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from millpond.support.errors import QueryError
from millpond.windows.protocol import WindowKind

Ints = NDArray[np.int64]

#: Times beyond which nobody asks a kind for its windows; event times of any stream lie between them.
NEVER, FOREVER = -(2**62), 2**62

#: Windows that one time may lie in.
MOST = 10_000

_lock = threading.Lock()
_kinds: dict[str, Axis] = {}
_read: dict[str, tuple[int, int]] = {}


class Axis:
    """The windows of a kind by their ids, checked wherever they are looked at.

    >>> from millpond.types import TimeWindow
    >>> from millpond.windows.kinds import Sliding
    >>> axis = Axis("minutes", Sliding(TimeWindow(60, 60)))
    >>> axis.ended(59), axis.ended(60), axis.end_of(1), axis.start_of(1)
    (0, 1, 120, 60)
    """

    def __init__(self, name: str, kind: WindowKind) -> None:
        self.name, self.kind = name, kind
        self.grid = max(1, int(getattr(kind, "grid", 1) or 1))
        longest = getattr(kind, "longest", None)
        self.longest = None if longest is None else int(longest)
        self._extents: dict[int, tuple[int, int]] = {}
        self._held: dict[int, range] = {}
        self._ended: dict[int, int] = {}

    def extent(self, wid: int) -> tuple[int, int]:
        """(start, end) of a window, microseconds, closed-open. Raises: QueryError when it is none."""
        found = self._extents.get(wid)
        if found is None:
            try:
                start, end = self.kind.extent(wid)
                found = int(start), int(end)
            except Exception as error:
                raise QueryError(f"window kind '{self.name}': extent({wid}) fails: {error}") from error
            if found[0] >= found[1]:
                raise QueryError(f"window kind '{self.name}': window {wid} is empty, it ends before it starts")
            if found[0] % self.grid or found[1] % self.grid:
                raise QueryError(f"window kind '{self.name}': window {wid} is not on its grid of {self.grid} us")
            if self.longest is not None and found[1] - found[0] > self.longest:
                raise QueryError(
                    f"window kind '{self.name}': window {wid} is {found[1] - found[0]} us long,"
                    f" and its 'longest' says {self.longest}"
                )
            if len(self._extents) > 100_000:
                self._extents.clear()
            self._extents[wid] = found
        return found

    def end_of(self, wid: int) -> int:
        """When a window ends; `NEVER` or `FOREVER` for ids beyond all that the kind knows."""
        try:
            return self.extent(wid)[1]
        except QueryError:
            if abs(wid) < 2:
                raise
            return FOREVER if wid > 0 else NEVER

    def start_of(self, wid: int) -> int:
        """When a window starts."""
        return self.extent(wid)[0]

    def ends(self, wids: Ints) -> Ints:
        """When windows end."""
        distinct, place = np.unique(np.asarray(wids, np.int64), return_inverse=True)
        return np.array([self.extent(int(w))[1] for w in distinct], np.int64)[place]

    def starts(self, wids: Ints) -> Ints:
        """When windows start."""
        distinct, place = np.unique(np.asarray(wids, np.int64), return_inverse=True)
        return np.array([self.start_of(int(w)) for w in distinct], np.int64)[place]

    def held(self, time: int) -> range:
        """The windows that a time lies in.

        Raises: QueryError when extent() and wids() disagree, or they are too many.
        """
        found = self._held.get(time)
        if found is None:
            try:
                found = self.kind.wids(time, FOREVER)
            except Exception as error:
                raise QueryError(f"window kind '{self.name}': wids({time}) fails: {error}") from error
            if len(found) > MOST:
                raise QueryError(
                    f"window kind '{self.name}': a time lies in {len(found)} windows; at most {MOST} are allowed"
                )
            if found.step != 1:
                raise QueryError(f"window kind '{self.name}': the ids of the windows of a time are not consecutive")
            for wid in found:
                start, end = self.extent(wid)
                if not start <= time < end:
                    raise QueryError(
                        f"window kind '{self.name}': wids() says that time {time} lies in window {wid}, and extent()"
                        f" says that it covers [{start}, {end})"
                    )
            if len(self._held) > 100_000:
                self._held.clear()
            self._held[time] = found
        return found

    def bucket(self, times: Ints) -> tuple[Ints, Ints]:
        """Which row is in which window: (place of the row, window id) pairs, by row (Li's Bucket)."""
        cells, place = np.unique(np.asarray(times, np.int64) // self.grid, return_inverse=True)
        held = [self.held(int(cell) * self.grid) for cell in cells]
        first = np.array([h.start for h in held], np.int64)
        count = np.array([len(h) for h in held], np.int64)[place]
        rows = np.repeat(np.arange(len(place), dtype=np.int64), count)
        nth = np.arange(len(rows), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
        return rows, first[place][rows] + nth

    def ended(self, time: int) -> int:
        """The first window that has not ended by `time`: so all before it have.

        Found by bisection, since ids are in the order of their ends.
        """
        found = self._ended.get(time)
        if found is None:
            low, high = self._around(time)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.end_of(middle) <= time else (low, middle)
            found = high
            if len(self._ended) > 10_000:
                self._ended.clear()
            self._ended[time] = found
        return found

    def _around(self, time: int) -> tuple[int, int]:
        """A window that has ended by `time`, and one that has not."""
        anchor = next(iter(self._extents), 0)  # one that is known
        step = 1
        if self.end_of(anchor) <= time:
            while self.end_of(anchor + step) <= time:
                anchor, step = anchor + step, step * 2
            return anchor, anchor + step
        while self.end_of(anchor - step) > time:
            anchor, step = anchor - step, step * 2
        return anchor - step, anchor


def put(reference: str, kind: WindowKind) -> Axis:
    """Make a kind known in this process."""
    axis = Axis(reference.split("@")[0], kind)
    with _lock:
        _kinds[reference] = axis
    return axis


def drop(reference: str) -> None:
    """Forget a kind in this process."""
    with _lock:
        _kinds.pop(reference, None)


def axis_of(reference: str) -> Axis:
    """The windows of a kind that is known in this process. Raises: QueryError when it is not."""
    found = _kinds.get(reference)
    if found is None:
        name = reference.split("@")[0]
        raise QueryError(
            f"the window kind '{name}' is Python code that a pond does not keep: open it with"
            f" window_kinds={{'{name}': …}}, or call pond.register_window_kind('{name}', …)"
        )
    return found


def folder_of(pond: str) -> str:
    """Where the kinds of a running pond lie for its workers."""
    return os.path.join(pond, "kinds")


def share(pond: str, reference: str, kind: WindowKind) -> None:
    """Put a kind where the workers of a pond find it. Raises: QueryError when it cannot be carried to them."""
    os.makedirs(folder_of(pond), exist_ok=True)
    path = os.path.join(folder_of(pond), f"{reference}.pickle")
    try:
        payload = cloudpickle.dumps(kind)
    except Exception as error:
        raise QueryError(f"a kind of window travels to workers, and this one cannot be pickled: {error}") from error
    with open(path + ".new", "wb") as file:
        file.write(payload)
    os.replace(path + ".new", path)


def withdraw(pond: str, keep: Sequence[str] = ()) -> None:
    """Remove what an earlier process has put into the pond's folder for its workers, but for some references."""
    if os.path.isdir(folder_of(pond)):
        for name in os.listdir(folder_of(pond)):
            if name.split(".pickle")[0] not in keep:
                os.unlink(os.path.join(folder_of(pond), name))


def use(pond: str) -> None:
    """In a task: know the kinds that the pond's process has registered. Cheap for a pond without any."""
    folder = folder_of(pond)
    if not os.path.isdir(folder):
        return
    for name in os.listdir(folder):
        reference, _, rest = name.partition(".pickle")
        path = os.path.join(folder, name)
        if rest or (reference in _kinds and reference not in _read):
            continue  # half written; or registered in this very process
        status = os.stat(path)
        version = status.st_ino, status.st_mtime_ns
        if _read.get(reference) != version:
            with open(path, "rb") as file:
                put(reference, cloudpickle.load(file))
            _read[reference] = version
