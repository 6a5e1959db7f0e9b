"""Waiting for what takes long so that Ctrl-C ends the wait at once, whatever is waited for."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

#: Seconds after which a wait looks whether there was a Ctrl-C that it missed.
_LOOK: Final = 0.2


class Worker:
    """A thread that does one thing after the other; when the wait for one is given up, the next gets a new thread.

    Nothing in Python or DuckDB can be stopped from outside in a safe way: what is given up goes on in its thread until
    it notices (before its next result) or has ended, and nobody hears of it again.
    """

    def __init__(self) -> None:
        self._jobs: _Jobs | None = None
        self._threads: list[threading.Thread] = []

    def close(self, patience: float = 2.0) -> bool:
        """End the thread; whether nothing that was given up runs any more, after so many seconds at most."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None
        deadline = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def results(self, produce: Callable[[], Iterator[T]]) -> Iterator[T]:
        """What `produce` gives, one by one.

        Raises: what `produce` raises; KeyboardInterrupt when the user does not want to wait any longer.
        """
        if self._jobs is None:
            self._jobs = _Jobs()
            thread = threading.Thread(target=_work, args=(self._jobs,), name="millpond-statement", daemon=True)
            thread.start()
            self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        job = _Job(produce)
        self._jobs.put(job)
        over = False
        try:
            while True:
                kind, value = job.take()
                over = kind != "result"
                if kind == "error":
                    raise value
                if over:
                    return
                yield value
        finally:
            if not over:
                job.abandoned = True
                self._jobs = None


class _Job(Generic[T]):
    """One thing to do. Only queues of C code are waited at: Ctrl-C within a lock of Python's would leave it locked."""

    def __init__(self, produce: Callable[[], Iterator[T]]) -> None:
        self.produce = produce
        self.abandoned = False
        self._given: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        #: A token for each result that is asked for: they are not made faster than they are shown.
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()

    def take(self) -> tuple[str, Any]:
        """What it gives next: ('result', it), ('error', the exception) or ('end', None)."""
        self._asked.put(None)
        while True:
            try:
                # Not for ever: a signal that comes just before the wait begins does not end it, only its next look.
                return self._given.get(timeout=_LOOK)
            except queue.Empty:
                continue

    def do(self) -> None:
        """Do it."""
        try:
            for result in self.produce():
                if not self._wanted():
                    return
                self._given.put(("result", result))
        except BaseException as error:
            self._given.put(("error", error))
            return
        self._given.put(("end", None))

    def _wanted(self) -> bool:
        """Wait until a result is asked for; False when nobody waits any longer."""
        while not self.abandoned:
            try:
                self._asked.get(timeout=0.1)
                return True
            except queue.Empty:
                continue
        return False


_Jobs = queue.SimpleQueue[_Job[Any] | None]


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        job.do()
        if job.abandoned:
            return
