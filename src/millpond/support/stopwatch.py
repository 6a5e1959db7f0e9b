"""Seconds that something takes by itself."""

from __future__ import annotations

import time as clock

try:
    import resource
except ImportError:  # elsewhere than on Unix
    _THREAD: int | None = None
else:
    _THREAD = getattr(resource, "RUSAGE_THREAD", None)


#: Seconds passed, seconds that the thread used, and how often it has waited (None: not known).
Reading = tuple[float, float, int | None]


class Watch:
    """Seconds that something takes by itself, lap after lap.

    While the thread never waits these are of the processor, so that what runs beside it on a busy machine does not
    count; when it waits (for an answer of a server, say) they are those that pass.
    """

    def __init__(self) -> None:
        self._begin = _reading()

    def lap(self) -> float:
        """Seconds since it was made, or since the lap before."""
        before, now = self._begin, _reading()
        self._begin = now
        waited = now[2] is None or now[2] != before[2]
        return now[0] - before[0] if waited else now[1] - before[1]


def _reading() -> Reading:
    """Seconds passed and used, and how often this thread has given the processor away by itself; None: not known."""
    waits = None if _THREAD is None else resource.getrusage(_THREAD).ru_nvcsw
    return clock.perf_counter(), clock.thread_time(), waits
