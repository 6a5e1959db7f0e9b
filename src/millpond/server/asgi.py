"""The ASGI application: the gate that every request passes (host, token, load, arguments, body), and its answer."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from millpond.api.pond import Pond
from millpond.server.access.auth import LOCAL, Caller, Tokens
from millpond.server.access.limits import Limits
from millpond.server.bodies.body import read_body
from millpond.server.failures import Failure, of_exception
from millpond.server.openapi import openapi
from millpond.server.operations import Call, Operation
from millpond.server.responses import json_response
from millpond.server.routes import OPERATIONS
from millpond.server.service import Service

_LOOPBACK: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_OPEN: Final = {o.path for o in OPERATIONS if o.role is None}
#: Headers of every answer that has not its own.
_SAFE_HEADERS: Final = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class App:
    """The server as an ASGI application.

    Without tokens everybody is admin: only for servers that listen on loopback, so the Host header must be loopback's
    (else a web page could reach the server under a name of its own), and no page of another origin is served.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        routes = [Route(o.path, _Endpoint(self, o), methods=[o.method], name=o.name) for o in OPERATIONS]
        self.router = Router(routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._request(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.service.watch.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await asyncio.get_running_loop().run_in_executor(None, self.service.close)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = secrets.token_hex(8)
        answer = _Answer(send, self.service.limits.stall_seconds, request_id)
        scope = {**scope, "app": self, "request_id": request_id}
        # The encoded path is matched, so that an encoded slash belongs to a name.
        scope["path"] = scope.get("raw_path", scope["path"].encode()).decode("ascii", "replace")
        scope["root_path"] = ""
        operation = "none"
        try:
            headers = Headers(scope=scope)
            scope["caller"] = self._caller(scope, headers)
            with self.service.load.request(scope["caller"].owner):
                await self.router(scope, receive, answer)
        except HTTPException as error:
            word = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
            text = {404: "there is no such path; GET /v1/openapi.json lists them", 405: "this path has other methods"}
            failure = Failure(
                error.status_code, word, text.get(error.status_code, "refused"), dict(error.headers or {})
            )
            await answer.fail(failure, scope, receive)
        except Exception as error:
            if isinstance(error, (OSError, TimeoutError)) and answer.status:
                return  # the client left
            failure = of_exception(error, request_id)
            if answer.status:
                raise
            await answer.fail(failure, scope, receive)
        finally:
            operation = scope.get("operation", operation)
            self.service.metrics.answered(operation, answer.status, time.perf_counter() - started)

    def _caller(self, scope: Scope, headers: Headers) -> Caller:
        if self.service.tokens is None:
            hosts = headers.getlist("host")
            if len(hosts) != 1 or not _LOOPBACK.fullmatch(hosts[0]):
                raise Failure(403, "host", "without tokens this server answers to localhost only (Host header)")
            origin = headers.get("origin")
            if origin is not None and origin.partition("://")[2] != hosts[0]:
                raise Failure(403, "origin", "without tokens this server answers to no page of another origin")
            return LOCAL
        if scope["path"] in _OPEN:
            return Caller("", "read")
        found = headers.getlist("authorization")
        return self.service.tokens.find(found[0] if len(found) == 1 else None)


class _Answer:
    """`send` of a request: notes the status, adds the headers of every answer, gives up on stalled clients."""

    def __init__(self, send: Send, seconds: float, request_id: str) -> None:
        self._send, self._seconds, self._id = send, seconds, request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", []), (b"x-request-id", self._id.encode())]
            present = {name for name, _ in headers}
            message = {**message, "headers": headers + [h for h in _SAFE_HEADERS if h[0] not in present]}
        if message.get("more_body"):
            await asyncio.wait_for(self._send(message), self._seconds)
        else:
            await self._send(message)

    async def fail(self, failure: Failure, scope: Scope, receive: Receive) -> None:
        """Answer with a failure; the connection ends when the body was not read."""
        headers = dict(failure.headers)
        if failure.status in (401, 403, 408, 413, 415):  # do not wait for a body that nobody reads
            headers["Connection"] = "close"
        with suppress(OSError):
            await json_response(failure.body(), failure.status, headers)(scope, receive, self)


class _Endpoint:
    """One operation as an ASGI application."""

    def __init__(self, app: App, operation: Operation) -> None:
        self.app, self.operation = app, operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation, service = self.operation, self.app.service
        scope["operation"] = operation.name
        caller: Caller = scope["caller"]
        if operation.role is not None:
            caller.require(operation.role, operation.summary.lower())
        headers = Headers(scope=scope)
        try:
            query = QueryParams(scope["query_string"])
        except ValueError:
            raise Failure(400, "bad_request", "the query string is not UTF-8") from None
        limits = service.limits
        arguments = operation.arguments(query, scope["path_params"], headers, limits)
        most, name = (
            (limits.request_bytes, "request_bytes") if operation.big else (limits.statement_bytes, "statement_bytes")
        )
        body = await read_body(receive, headers, most, name, limits.stall_seconds)
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        if operation.bodies and (body or not operation.optional_body) and media not in operation.bodies:
            raise Failure(415, "media_type", f"the body comes as {', '.join(operation.bodies)} (Content-Type)")
        call = Call(service, operation, caller, arguments, headers, media, body, scope["request_id"])
        response: Any = await operation.handler(call)
        await response(scope, receive, send)


def create_app(pond: Pond, tokens: Tokens | None = None, limits: Limits | None = None) -> App:
    """The ASGI application that serves a pond; the caller opens and closes the pond.

    Arguments:
        tokens: who may do what; None: everybody everything, for servers on loopback only.
        limits: None: the defaults.

        uvicorn.run(create_app(millpond.open("my-pond")), host="127.0.0.1", port=7474)
    """
    limits = limits or Limits()
    return App(Service(pond, tokens, limits, partial(_document, limits)))


@cache
def _document(limits: Limits) -> dict[str, Any]:
    try:
        installed = version("millpond")
    except PackageNotFoundError:
        installed = "0"
    return openapi(OPERATIONS, installed, limits)
