"""What all requests share: the pond, its threads, limits, owners, held answers, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from millpond.answers.describe.query_listing import list_queries
from millpond.api.pond import Pond
from millpond.server.access.auth import Caller, Tokens
from millpond.server.access.limits import Limits, Load
from millpond.server.access.owners import Owners
from millpond.server.bodies.pages import HeldAnswers
from millpond.server.bodies.replies import Replies
from millpond.server.failures import forbidden, not_found, over_limit
from millpond.server.metrics import Metrics
from millpond.server.watch import Watch
from millpond.support.errors import QueryError
from millpond.support.texts.json_texts import prepare

T = TypeVar("T")

#: Threads for operations that wait for the engine, which must not take those of the others.
_WAITING = 16

#: Seconds that a call works before the next one begins beside it.
_TURN = 0.01


class Service:
    """A pond as the server offers it. Calls into the pond block, so they run in threads: `run`, `run_long`.

    document: the OpenAPI document.
    """

    def __init__(
        self, pond: Pond, tokens: Tokens | None, limits: Limits, document: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.pond, self.tokens, self.limits, self.document = pond, tokens, limits, document
        self.load = Load(limits)
        self.owners = Owners(pond.path)
        self.held = HeldAnswers(limits.held_bytes, limits.held_seconds)
        self.replies = Replies(limits.reply_bytes)
        self.watch = Watch(pond)
        self.metrics = Metrics(pond, self.load)
        #: Held while somebody changes queries, so that who may do it cannot change in between.
        self.changing = threading.Lock()
        self._threads = ThreadPoolExecutor(limits.threads, "millpond-server")
        self._turn = asyncio.Semaphore()
        self._waiting = ThreadPoolExecutor(_WAITING, "millpond-server-wait")
        self._waiting.submit(prepare)

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something that blocks for a short while.

        One call after the other, since what takes a millisecond is mostly the interpreter's, and threads that all want
        it get half as much done together; beside a call that takes longer the next one begins.
        """
        loop = asyncio.get_running_loop()
        await self._turn.acquire()
        passed_on = loop.call_later(_TURN, self._turn.release)
        try:
            return await loop.run_in_executor(self._threads, function, *arguments)
        finally:
            if loop.time() < passed_on.when():
                passed_on.cancel()
                self._turn.release()

    async def run_long(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits for the engine."""
        return await asyncio.get_running_loop().run_in_executor(self._waiting, function, *arguments)

    def close(self) -> None:
        """Stop the threads; the pond stays open."""
        self.watch.stop()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._waiting.shutdown(wait=False, cancel_futures=True)

    def query(self, reference: str) -> Any:
        """The handle of a query by name, by id, or by '#id'.

        Raises: Failure 404.
        """
        number = reference.removeprefix("#")
        try:
            if number.isascii() and number.isdigit() and len(number) < 19:
                return self.pond.query(int(number))
            return self.pond.query(reference)
        except QueryError as error:
            raise not_found(str(error)) from None

    def owner_of(self, handle: Any) -> str:
        """Who registered a query over HTTP; '' for nobody."""
        return self.owners.of(handle.id) or str(handle.info().get("owner", ""))

    def owner_of_name(self, name: str) -> str | None:
        """The owner of the query of that name; None when there is none."""
        with contextlib.suppress(QueryError):
            return self.owner_of(self.pond.query(name))
        return None

    def own(self, caller: Caller, handle: Any) -> None:
        """Raises: Failure 403 when the query is not the caller's, who is no admin."""
        if caller.role != "admin" and self.owner_of(handle) != caller.owner:
            raise forbidden(f"query '{handle.name}' belongs to somebody else")

    def room_for_queries(self, caller: Caller, count: int) -> None:
        """Raises: Failure 403 when the caller would have too many standing queries."""
        most = self.limits.queries_per_owner
        if self.owners.count(caller.owner) + count > most:
            self.owners.keep(set(self.query_ids()))  # some may have gone with their stream
            have = self.owners.count(caller.owner)
            if have + count > most:
                raise over_limit(403, "queries_per_owner", f"you have {have:,} of at most {most:,} queries")

    def list_queries(self, after: int, most: int, prefix: str = "") -> tuple[pa.Table, int | None]:
        """A page of the standing queries, and where the next one goes on; see `query_listing`."""
        return list_queries(self.pond._core.view, after, most, prefix)

    def query_ids(self) -> list[int]:
        """The ids of all standing queries."""
        table, _ = self.list_queries(-1, 2**53)
        ids: list[int] = table.column("id").to_pylist()
        return ids
