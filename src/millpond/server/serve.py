"""Running the server: a socket, one process, until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from millpond.api.pond import Pond
from millpond.server.access.auth import Tokens
from millpond.server.access.limits import Limits
from millpond.server.asgi import App, create_app
from millpond.support.errors import EngineError, PondError

#: A request's line and headers have at most these bytes.
MOST_HEAD: Final = 64 << 10
#: Connections, with or without a request.
MOST_CONNECTIONS: Final = 10_000
_GRACE: Final = 10


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on that host.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0: any free one.

    Raises: PondError when the address cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(1024)
        return found
    except OSError as error:
        raise PondError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a bound on size and time of a request's head, which it does not have itself."""

    _head = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head += len(data)
            if self._head > MOST_HEAD + len(data):  # the end of the head may have a body behind it in the same piece
                self._refuse(b"431 Request Header Fields Too Large")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_done()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_done()
        self._head, self._in_head = 0, True
        self._timer = self.loop.call_later(_HEAD_SECONDS, self._refuse, b"408 Request Timeout")

    def _head_done(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()


_HEAD_SECONDS: Final = 30.0


class Server(uvicorn.Server):
    """uvicorn's server, which ends subscriptions before it waits for requests, and leaves signals to `serve`."""

    def __init__(self, app: App, url: str = "", ends_with_engine: bool = False) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                lifespan="on",
                log_config=None,  # its lines go where the others go
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=1024,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=_GRACE,
            )
        )
        self._app, self._ends_with_engine = app, ends_with_engine
        self.url = url
        self.ready = threading.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are `serve`'s."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Stop with the engine: a process that only says that it has stopped is not started again by anybody."""
        if self._ends_with_engine and self._app.service.pond.failure is not None:
            self.stop()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell whoever waits."""
        await super().startup(sockets)
        self.ready.set()

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Stop soon: subscriptions at once, requests when they are answered. Also from signal handlers."""
        self._app.service.watch.stop()
        self.should_exit = True


def serve(
    pond: Pond,
    host: str = "127.0.0.1",
    port: int = 7474,
    tokens: Tokens | None = None,
    limits: Limits | None = None,
    announce: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a pond until SIGTERM or SIGINT.

    Arguments:
        port: 0: any free one. tokens: who may do what; None: everybody everything, on loopback only.
        announce: called with the server's URL when it is ready.
    Raises: PondError when the address cannot be had, or would need tokens; EngineError when the engine has stopped.
    """
    if tokens is None and not is_loopback(host):
        raise PondError(
            f"on {host} others can reach this server: it needs tokens. `millpond token --owner NAME --role admin "
            "--file tokens` makes one; `millpond serve --token-file tokens` uses it"
        )
    listener = listen(host, port)
    server = Server(create_app(pond, tokens, limits), address_of(listener), ends_with_engine=True)
    before = {number: signal.signal(number, server.stop) for number in (signal.SIGTERM, signal.SIGINT)}
    # Everything made so far stays: left among the garbage collector's candidates it would be walked over and over
    # between requests (measured: more than half of the time that 200 clients got from the interpreter).
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    try:
        announcing = threading.Thread(target=_announce, args=(server, announce), daemon=True)
        announcing.start()
        server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listener.close()
    if pond.failure is not None:
        raise EngineError(f"the engine has stopped: {pond.failure}")


def _announce(server: Server, announce: Callable[[str], None]) -> None:
    server.ready.wait()
    announce(server.url)


@contextlib.contextmanager
def serving(
    pond: Pond, tokens: Tokens | None = None, limits: Limits | None = None, host: str = "127.0.0.1", port: int = 0
) -> Iterator[str]:
    """A server in a thread of this process, for tests and notebooks; gives its URL.

    with serving(pond) as url, millpond.connect(url) as remote: ...
    """
    if tokens is None and not is_loopback(host):
        raise PondError(f"on {host} others can reach this server: it needs tokens")
    listener = listen(host, port)
    server = Server(create_app(pond, tokens, limits), address_of(listener))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="millpond-server", daemon=True)
    thread.start()
    try:
        while not server.ready.wait(0.05):
            if not thread.is_alive():
                raise PondError("the server did not start; see its log")
        yield server.url
    finally:
        server.stop()
        thread.join(2 * _GRACE)
        listener.close()
