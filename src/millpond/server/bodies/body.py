"""Reading a request's body within its limits of size and time, whatever its headers claim."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Receive

from millpond.server.failures import Failure, bad_request, over_limit


async def read_body(receive: Receive, headers: Headers, most: int, limit: str, seconds: float) -> bytes:
    """The whole body.

    Arguments:
        most: bytes; limit: the name of that limit. seconds: the longest pause between two pieces.
    Raises: Failure 413, 415 for compressed bodies (which could unfold without bound), 408, 400 when the client left.
    """
    if headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise Failure(415, "media_type", "compressed bodies are not accepted (Content-Encoding)")
    claimed = headers.get("content-length", "")
    if claimed and not (claimed.isascii() and claimed.isdigit()):
        raise bad_request("Content-Length is a whole number")
    if claimed and int(claimed) > most:
        raise over_limit(413, limit, f"the body is larger than {most:,} bytes")
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(seconds):  # `wait_for` would make a task of it
                message = await receive()
        except TimeoutError:
            raise Failure(408, "timeout", "the body did not come in time") from None
        if message["type"] == "http.disconnect":
            raise bad_request("the client left")
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise over_limit(413, limit, f"the body is larger than {most:,} bytes")
        if piece:
            pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
