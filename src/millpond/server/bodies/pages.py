"""Pages of large answers: cursors, and answers that are held until their last page was fetched.

The cursor of a standing query names query, epoch and window: the page is made again from them when the answer is not
held any more, so pages fit together whatever arrives meanwhile. Other answers live only as long as they are held.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, fields
from typing import Any

from millpond.server.failures import Failure, bad_request

_MOST = 2**62


@dataclass(frozen=True)
class PageCursor:
    """Where to go on: row `offset` of the answer held as `answer`; else that of `query` as of `epoch`, if it has one.

    begin, end: the window that the request asked for, as it asked.
    """

    answer: str
    offset: int
    query: int = 0
    epoch: int = -1
    begin: str | None = None
    end: str | None = None

    def __str__(self) -> str:
        text = json.dumps([getattr(self, f.name) for f in fields(self)], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @staticmethod
    def parse(text: str) -> PageCursor:
        """The cursor from its text.

        Raises: Failure 400 for anything that is none.

        >>> PageCursor.parse(str(PageCursor("a", 5))).offset
        5
        """
        try:
            if len(text) > 2_000:
                raise ValueError
            values = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            cursor = PageCursor(*values)
            whole = (cursor.offset, cursor.query, cursor.epoch)
            if any(type(v) is not int or abs(v) > _MOST for v in whole) or cursor.offset < 0 or cursor.query < 0:
                raise ValueError
            if type(cursor.answer) is not str or any(
                type(v) not in (str, type(None)) for v in (cursor.begin, cursor.end)
            ):
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            raise bad_request("this is not a page cursor; pass the one that the page before carried") from None
        return cursor


class HeldAnswers:
    """Answers by a name nobody can guess, for a time and within a space. Thread-safe."""

    def __init__(self, most_bytes: int, seconds: float) -> None:
        self._most, self._seconds = most_bytes, seconds
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[float, str, int, Any]] = OrderedDict()
        self._bytes = 0

    def hold(self, owner: str, answer: Any, size: int) -> str:
        """Keep an answer; what does not fit is not kept, and the oldest make room."""
        name = secrets.token_urlsafe(16)
        with self._lock:
            self._expire()
            if size <= self._most:
                self._held[name] = (time.monotonic() + self._seconds, owner, size, answer)
                self._bytes += size
                while self._bytes > self._most:
                    self._forget(next(iter(self._held)))
        return name

    def find(self, name: str, owner: str) -> Any | None:
        """The answer, when it is still held and was the same owner's."""
        with self._lock:
            self._expire()
            found = self._held.get(name)
            if found is None or found[1] != owner:
                return None
            self._held.move_to_end(name)
            self._held[name] = (time.monotonic() + self._seconds, *found[1:])
            return found[3]

    def release(self, name: str) -> None:
        """Forget an answer whose last page was fetched."""
        with self._lock:
            if name in self._held:
                self._forget(name)

    def _expire(self) -> None:
        now = time.monotonic()
        while self._held and next(iter(self._held.values()))[0] < now:
            self._forget(next(iter(self._held)))

    def _forget(self, name: str) -> None:
        self._bytes -= self._held.pop(name)[2]


def gone() -> Failure:
    """410: an answer that was not kept."""
    return Failure(410, "gone", "the rest of this answer is not kept any more; ask the question again")
