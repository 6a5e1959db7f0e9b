"""A pond behind a server in this process, with tokens and without, and raw requests to it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import millpond
from millpond.server import Limits, Tokens
from millpond.server.serve import serving

Factory = Callable[..., Any]
SECRETS = {role: f"{role}-secret-of-the-tests" for role in ("read", "write", "admin")} | {
    "other": "other-secret-of-tests"
}
LINES = [f"{'write' if role == 'other' else role} {role} {secret}" for role, secret in SECRETS.items()]
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k TEXT, v BIGINT) WITH (event_time='ts');
CREATE QUERY q AS SELECT k, sum(v) AS v FROM s [RANGE TUMBLING 10 SECONDS] GROUP BY k
"""


@dataclass
class Reply:
    """A raw answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Raw:
    """Requests without the client's help."""

    url: str
    token: str | None = None

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **more: Any
    ) -> Reply:
        """A request: a body that is no bytes is sent as JSON. Header values go out as they are."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None and not isinstance(body, bytes):
            body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=300)
        try:
            connection.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in {**sent, **(headers or {})}.items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in (headers or {}):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@dataclass
class Served:
    """A pond and its server."""

    pond: Any
    url: str

    def raw(self, role: str | None = None) -> Raw:
        """Raw requests with a role's token."""
        return Raw(self.url, SECRETS[role] if role else None)

    def connect(self, role: str | None = None) -> Any:
        """The client with a role's token."""
        return millpond.connect(self.url, SECRETS[role] if role else None)


def _served(path: Path, tokens: Tokens | None, limits: Limits | None) -> Iterator[Served]:
    with (
        millpond.open(str(path / "pond"), executor="inline") as pond,
        serving(pond, tokens, limits) as url,
    ):
        pond.sql(SCRIPT)
        yield Served(pond, url)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server without tokens."""
    yield from _served(tmp_path, None, None)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Served]:
    """A server with a token for each role, and small limits."""
    limits = Limits(
        request_bytes=200_000,
        statement_bytes=20_000,
        queries_per_owner=3,
        subscriptions_per_owner=2,
        answer_rows=100,
        page_rows=10,
        rows_per_request=5_000,
        stall_seconds=5,
    )
    yield from _served(tmp_path, Tokens(LINES), limits)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with tokens that a whole module attacks: it must stand."""
    limits = Limits(request_bytes=200_000, statement_bytes=20_000, rows_per_request=5_000, stall_seconds=5)
    yield from _served(tmp_path_factory.mktemp("attacked"), Tokens(LINES), limits)


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    """Rows of stream s, one a second."""
    return [{"ts": f"2026-01-01 00:{t // 60:02}:{t % 60:02}", "k": "cab"[t % 3], "v": t} for t in range(start, stop)]
