"""The limits of a server: how much one owner, one request and all of them together may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millpond.types.options.declared import option, options_of, read
from millpond.types.options.value_kinds import Whole


def _limit(default: int, about: str) -> int:
    return option(default, Whole("a whole number from 1 on"), about, word="limit")


@dataclass(frozen=True)
class Limits:
    """The limits of a server; each can be set by `millpond serve --limit NAME=VALUE`."""

    request_bytes: int = _limit(64 << 20, "bytes of the body of an ingest request")
    statement_bytes: int = _limit(1 << 20, "bytes of any other body")
    rows_per_request: int = _limit(5_000_000, "rows of an ingest request")
    requests: int = _limit(512, "requests in flight")
    requests_per_owner: int = _limit(256, "requests in flight of one owner")
    threads: int = _limit(8, "requests that work at the same time")
    subscriptions: int = _limit(2_000, "open event streams")
    subscriptions_per_owner: int = _limit(500, "open event streams of one owner")
    queries_per_owner: int = _limit(200_000, "standing queries of one owner")
    page_rows: int = _limit(10_000, "rows of a JSON page when the request names no number")
    answer_rows: int = _limit(1_000_000, "most rows of a page in any format")
    held_bytes: int = _limit(256 << 20, "bytes of pages that are held of answers that cannot be made again")
    held_seconds: int = _limit(300, "for how many seconds they are held")
    reply_bytes: int = _limit(64 << 20, "bytes of encoded answers that are kept until the next epoch")
    stall_seconds: int = _limit(60, "for how many seconds a client may neither send nor take anything in a request")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Limits:
        """The limits with those that are given. Raises: OptionFault."""
        owner: type = cls  # mypy takes the hash of a frozen dataclass's values for that of the class
        return cls(**read(options_of(owner), given))
