"""How much one owner, one request and all of them together may have; a refusal names the limit that it met."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from millpond.server.failures import Failure, over_limit


@dataclass(frozen=True)
class Limits:
    """The limits of a server; each can be set by `millpond serve --limit NAME=VALUE`.

    request_bytes: the body of an ingest request. statement_bytes: any other body. rows_per_request: rows of an ingest.
    requests, requests_per_owner: requests in flight. threads: requests that work at the same time.
    subscriptions, subscriptions_per_owner: open event streams.
    queries_per_owner: standing queries that an owner may have.
    page_rows: rows of a JSON page when the request names no number. answer_rows: most rows of a page in any format.
    held_bytes, held_seconds: pages of answers that cannot be made again are kept this long, within this space.
    reply_bytes: encoded answers that are kept until the next epoch.
    stall_seconds: a client that neither sends nor takes anything for this long in the middle of a request is cut off.
    """

    request_bytes: int = 64 << 20
    statement_bytes: int = 1 << 20
    rows_per_request: int = 5_000_000
    requests: int = 512
    requests_per_owner: int = 256
    threads: int = 8
    subscriptions: int = 2_000
    subscriptions_per_owner: int = 500
    queries_per_owner: int = 200_000
    page_rows: int = 10_000
    answer_rows: int = 1_000_000
    held_bytes: int = 256 << 20
    held_seconds: int = 300
    reply_bytes: int = 64 << 20
    stall_seconds: int = 60

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"limit '{field.name}' is a whole number from 1 on, not {value!r}")


class Load:
    """Counts what is in flight, in all and per owner. Thread-safe.

    >>> load = Load(Limits(requests_per_owner=1))
    >>> with load.request("alice"):
    ...     load.requests
    1
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._subscriptions: Counter[str] = Counter()

    @property
    def requests(self) -> int:
        """Requests in flight."""
        return self._requests.total()

    @property
    def subscriptions(self) -> int:
        """Open subscriptions."""
        return self._subscriptions.total()

    @contextmanager
    def request(self, owner: str) -> Iterator[None]:
        """Count a request while it lasts.

        Raises: Failure, 429 for an owner's limit, 503 for the server's.
        """
        limits = self._limits
        with self._held(self._requests, owner, "requests", limits.requests, limits.requests_per_owner):
            yield

    @contextmanager
    def subscription(self, owner: str) -> Iterator[None]:
        """Count a subscription while it lasts; raises as `request` does."""
        limits = self._limits
        total, each = limits.subscriptions, limits.subscriptions_per_owner
        with self._held(self._subscriptions, owner, "subscriptions", total, each):
            yield

    @contextmanager
    def _held(self, counts: Counter[str], owner: str, name: str, total: int, each: int) -> Iterator[None]:
        with self._lock:
            if counts[owner] >= each:
                limit = f"{name}_per_owner"
                raise over_limit(429, limit, f"you have {each:,} {name} in flight", **{"Retry-After": "1"})
            if counts.total() >= total:
                text = f"the server has {total:,} {name} in flight (limit '{name}')"
                raise Failure(503, "limit", text, {"Retry-After": "1"}, limit=name)
            counts[owner] += 1
        try:
            yield
        finally:
            with self._lock:
                counts[owner] -= 1
                if not counts[owner]:
                    del counts[owner]


__all__ = ["Limits", "Load"]
