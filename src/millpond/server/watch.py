"""One thread that waits for new epochs on behalf of every subscriber, so that a waiting subscriber costs no thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from millpond.api.pond import Pond


class Watch:
    """Wakes the coroutines of an event loop whenever the pond publishes an epoch."""

    def __init__(self, pond: Pond) -> None:
        self._core = pond._core
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.stopping = False

    @property
    def epoch(self) -> int:
        """The last published epoch."""
        return self._core.published.epoch

    def start(self) -> None:
        """Begin to watch, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="millpond-server-watch", daemon=True)
        self._thread.start()

    def stopped(self) -> bool:
        """Whether the server stops."""
        return self.stopping

    def stop(self) -> None:
        """Wake everybody for the last time. Callable from any thread and from signal handlers."""
        self.stopping = True
        self.wake()

    def wake(self) -> None:
        """Wake all that wait, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, seen: int, seconds: float) -> None:
        """Until an epoch behind `seen` is published, `wake` is called, or the time is over."""
        event = self._event
        if self.epoch > seen or self.stopping:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)

    def _run(self) -> None:
        epochs, seen = self._core.epochs, self.epoch
        while not self.stopping and not epochs.closing:
            with epochs.lock:
                epochs.changed.wait_for(lambda: epochs.published.epoch > seen or self.stopping or epochs.closing, 1.0)  # noqa: B023 - waited for at once
                now = epochs.published.epoch
            if now > seen:
                seen = now
                self.wake()
