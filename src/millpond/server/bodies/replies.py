"""Encoded answers that are asked for again before anything new was published.

An answer is a function of the published prefix, the query and the window: until the next epoch it is the same bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from starlette.responses import Response

_LARGEST = 256 << 10


class Replies:
    """Replies by question, each for one epoch, least recently used ones forgotten first. Thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[int, Response]] = OrderedDict()
        self._bytes = 0

    def find(self, question: Hashable, epoch: int) -> Response | None:
        """The reply of that epoch, if it is kept."""
        with self._lock:
            found = self._kept.get(question)
            if found is None or found[0] != epoch:
                return None
            self._kept.move_to_end(question)
            return found[1]

    def keep(self, question: Hashable, epoch: int, reply: Response) -> None:
        """Keep a reply, in place of one of an earlier epoch."""
        size = len(reply.body)
        if size > _LARGEST:
            return
        with self._lock:
            self._forget(question)
            self._kept[question] = (epoch, reply)
            self._bytes += size
            while self._bytes > self._most:
                self._forget(next(iter(self._kept)))

    def _forget(self, question: Hashable) -> None:
        found = self._kept.pop(question, None)
        if found is not None:
            self._bytes -= len(found[1].body)
