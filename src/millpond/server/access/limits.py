"""How much one owner, one request and all of them together may have; a refusal names the limit that it met."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from millpond.server.failures import Failure, over_limit
from millpond.types.options.server_limits import Limits as Limits


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
