"""GET /v1/queries/{query}/subscription: answers as server-sent events, each with a cursor to go on from.

Answers are committed on disk, so a subscriber costs one batch of memory however slow it is: the next batch is read when
the last one was taken. A subscriber that waits costs no thread.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from millpond.answers.subscription import final_cursor, wanted_of
from millpond.progress import NEVER
from millpond.server.failures import Failure, bad_request, of_exception
from millpond.server.operations import Call
from millpond.support import wire
from millpond.support.errors import QueryError
from millpond.support.texts.json_texts import plain, rows_json
from millpond.types.results import AnswerBatch, Cursor

#: A comment is sent after this many silent seconds, so that proxies keep the connection and dead ones are noticed.
_HEARTBEAT = 10.0
_MOST_ROWS = 5_000


async def subscribe(call: Call) -> EventStream:
    """Begin a subscription."""
    since = call.arguments.get("Last-Event-ID") or call.arguments.get("since")
    cursor: Cursor | None = None
    if since is not None:
        try:
            cursor = Cursor.parse(since)
        except QueryError as error:
            raise bad_request(str(error)) from None
    handle = await call.run(call.service.query, call.arguments["query"])
    final, status = call.arguments.get("final", False), call.arguments.get("status")
    batches = handle.subscribe(since=cursor, timeout=0, final=final, status=status)
    if (await call.run(handle.info))["kind"] == "windows":
        wanted = wanted_of(final, status, cursor)
        if cursor is None or cursor.wanted != wanted:
            cursor = Cursor(NEVER if wanted == "final" else 0, 0, handle.id, wanted)
    first = await call.run(next, batches, None)  # a wrong cursor fails here, with a status of its own
    slot = call.service.load.subscription(call.caller.owner)
    slot.__enter__()
    return EventStream(call, handle, cursor or Cursor(0, 0, handle.id), batches, first, slot)


class EventStream:
    """An ASGI response, until the client leaves, nothing new came for `timeout` seconds, or the query is gone."""

    def __init__(
        self,
        call: Call,
        handle: Any,
        cursor: Cursor,
        batches: Iterator[AnswerBatch],
        first: AnswerBatch | None,
        slot: Any,
    ) -> None:
        self.call, self.handle, self.cursor = call, handle, cursor
        self.batches, self.first, self.slot = batches, first, slot
        self.timeout: float = call.arguments.get("timeout", math.inf)
        self.arrow = call.arguments.get("rows", "json") == "arrow"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events while somebody listens."""
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.slot.__exit__(None, None, None)
            for task in (sending, leaving):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await leaving
            with suppress(asyncio.CancelledError, OSError, TimeoutError):
                await sending

    async def _send(self, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": millpond\n\n", "more_body": True})
        reason = "the server stops"
        try:
            async for event in self._events():
                await send({"type": "http.response.body", "body": event, "more_body": True})
            if not self.call.service.watch.stopped():
                reason = await self._reason()
        except (asyncio.CancelledError, OSError, TimeoutError):
            raise
        except Exception as error:
            failure = of_exception(error, self.call.id)
            await send({"type": "http.response.body", "body": _event("error", failure.body()), "more_body": True})
            reason = "an error"
        last = _event("end", {"reason": reason, "cursor": str(self.cursor)})
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _events(self) -> AsyncIterator[bytes]:
        watch = self.call.service.watch
        quiet_since = time.monotonic()
        while not watch.stopped():
            seen = watch.epoch
            async for batch in self._ready():
                for event, cursor in self._parts(batch):
                    yield event
                    self.cursor = cursor
                quiet_since = time.monotonic()
                if watch.stopped():
                    return
            if self.cursor.wanted != "final" and seen > self.cursor.epoch:  # nothing of these epochs is outstanding
                self.cursor = Cursor(seen, 0, self.handle.id, self.cursor.wanted)
            if not await self.call.run(self._exists):
                return
            beat = time.monotonic() + _HEARTBEAT
            while watch.epoch <= seen and not watch.stopped():
                left = min(beat, quiet_since + self.timeout) - time.monotonic()
                if left <= 0:
                    break
                await watch.wait(seen, left)
                if watch.epoch <= seen and not await self.call.run(self._exists):
                    return
            if watch.epoch <= seen:
                if time.monotonic() >= quiet_since + self.timeout:
                    return
                yield f": {self.cursor}\n\n".encode()
            self.batches = self.handle.subscribe(since=self.cursor, timeout=0)

    async def _ready(self) -> AsyncIterator[AnswerBatch]:
        batch, self.first = self.first, None
        if batch is None:
            batch = await self.call.run(next, self.batches, None)
        while batch is not None:
            yield batch
            batch = await self.call.run(next, self.batches, None)

    def _parts(self, batch: AnswerBatch) -> Iterator[tuple[bytes, Cursor]]:
        """Events of a few thousand rows each; a cursor may stand within an epoch."""
        end = batch.cursor
        before = end.ordinal - batch.rows.num_rows
        for start in range(0, max(1, batch.rows.num_rows), _MOST_ROWS):
            rows = batch.rows.slice(start, _MOST_ROWS)
            if end.wanted == "final":
                cursor = final_cursor(rows, self.cursor)
            else:
                cursor = Cursor(end.epoch, before + start + rows.num_rows, end.query, end.wanted)
            about = {
                "cursor": str(cursor),
                "epoch": batch.epoch,
                "backfilled": batch.backfilled,
                "replaced": batch.replaced,
            }
            data = json.dumps(about, separators=(",", ":"))[:-1].encode()
            if self.arrow:
                data += b',"arrow":"' + base64.b64encode(wire.ipc_bytes(rows)) + b'"}'
            else:
                data += b',"rows":' + rows_json(rows) + b"}"
            self.call.service.metrics.given.inc(rows.num_rows)
            yield b"id: " + str(cursor).encode() + b"\nevent: answers\ndata: " + data + b"\n\n", cursor

    def _exists(self) -> bool:
        try:
            return bool(self.call.service.query(str(self.handle.id)).id == self.handle.id)
        except Failure:
            return False

    async def _reason(self) -> str:
        return "nothing new came in time" if await self.call.run(self._exists) else "the query was dropped"


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(plain(data))}\n\n".encode()
