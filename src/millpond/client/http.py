"""HTTP for the client: pooled connections that live on, errors as Millpond's exceptions, retries where they are safe.

The standard library's client, because an invocation takes about a millisecond and nothing larger is needed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import random
import re
import time
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from millpond.support import wire
from millpond.support.errors import PondError

#: How often something that can be repeated is repeated, and the longest pause before it.
_TRIES = 8
_LONGEST_PAUSE = 5.0
_POOL = 32


class Http:
    """Requests to one server. Safe to use from several threads."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query:
            raise PondError(f"'{url}' is not the address of a server; give http://host:port or https://…")
        if token is not None and not re.fullmatch(r"[\x21-\x7e]+", token):
            raise PondError("a token is printable ASCII without spaces")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"User-Agent": "millpond"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._free: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue(_POOL)

    def __repr__(self) -> str:
        return f"Http({self.url!r})"

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
        timeout: float | None = None,
    ) -> tuple[Message, bytes]:
        """A request and its whole answer.

        Arguments:
            repeat: doing it twice is the same as once: it is tried again when the connection breaks or the server is
                busy.
        Raises: what the embedded pond would; PondError when the server cannot be reached.
        """
        fault: PondError = PondError(f"the server {self.url} cannot be reached")
        for attempt in range(_TRIES if repeat else 1):
            if attempt:
                time.sleep(min(_LONGEST_PAUSE, 0.05 * 2**attempt) * random.uniform(0.5, 1.0))
            try:
                with self._answer(method, path, query, body, headers, timeout, method == "GET" or repeat) as answer:
                    data = answer.read()
                    if answer.status < 400:
                        return answer.headers, data
            except (OSError, http.client.HTTPException) as error:
                fault = PondError(f"the server {self.url} cannot be reached: {error or type(error).__name__}")
                continue
            raised = _error(answer.status, data)
            if not repeat or answer.status not in (429, 502, 503, 504):
                raise raised
            fault = raised if isinstance(raised, PondError) else PondError(str(raised))
        raise fault from None

    def json(self, method: str, path: str, body: Any = None, repeat: bool = False, **query: Any) -> Any:
        """A request with a JSON body, and its answer as JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": wire.JSON} if data is not None else {}
        found = self.request(method, path, query, data, {**headers, "Accept": wire.JSON}, repeat or method == "GET")[1]
        return json.loads(found) if found else None

    @contextlib.contextmanager
    def stream(
        self, method: str, path: str, query: Mapping[str, Any], body: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """A request whose answer is read as it comes. Raises: as `request`, also while it is read."""
        try:
            with self._answer(method, path, query, body, headers, None, method == "GET") as answer:
                if answer.status >= 400:
                    raise _error(answer.status, answer.read())
                yield answer
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"the connection to {self.url} broke off: {error or type(error).__name__}") from None

    @contextlib.contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
        repeat: bool,
    ) -> Iterator[http.client.HTTPResponse]:
        arguments = {k: v for k, v in (query or {}).items() if v is not None}
        target = self._prefix + path + (f"?{urlencode(arguments)}" if arguments else "")
        while True:
            connection, pooled = self._connection()
            try:
                if connection.sock is not None:
                    connection.sock.settimeout(timeout or self._timeout)
                connection.request(method, target, body, {**self._headers, **(headers or {})})
                answer = connection.getresponse()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # A pooled connection may have been closed by the server while it was idle.
                if not (pooled and (repeat or isinstance(error, BrokenPipeError))):
                    raise
        try:
            yield answer
        finally:
            kept = False
            if answer.isclosed() and not answer.will_close:
                with contextlib.suppress(queue.Full):
                    self._free.put_nowait(connection)
                    kept = True
            if not kept:
                answer.close()
                connection.close()

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait(), True
        return self._kind(self._host, self._port, timeout=self._timeout), False

    def close(self) -> None:
        """Close what is open."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()


class Broken(PondError):
    """A connection broke while an answer was read."""


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def _error(status: int, data: bytes) -> Exception:
    try:
        found = json.loads(data)
        return wire.error_of(found if isinstance(found, dict) else {})
    except ValueError:
        return PondError(f"the server answered with status {status}")
