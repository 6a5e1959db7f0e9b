"""One request under way: who asks, with which arguments, and what is asked of the service on their behalf."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.datastructures import Headers
from starlette.responses import Response

from millpond.server.auth import Caller
from millpond.server.decoding import parse_json
from millpond.server.failures import Failure
from millpond.server.operations import Operation
from millpond.server.service import Service
from millpond.support import wire

T = TypeVar("T")

FORMATS = {"json": wire.JSON, "csv": wire.CSV, "arrow": wire.ARROW}


@dataclass
class Call:
    """A request after its arguments, its role and the size of its body were checked."""

    service: Service
    operation: Operation
    caller: Caller
    arguments: Mapping[str, Any]
    headers: Headers
    media: str
    body: bytes
    id: str

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something that blocks, in a thread."""
        run = self.service.run_long if self.operation.long else self.service.run
        return await run(function, *arguments)

    def json(self) -> Any:
        """The body as JSON; an empty one, where that is allowed, is {}."""
        return parse_json(self.body) if self.body else {}

    def accepted(self, offered: tuple[str, ...]) -> str:
        """The media type to answer in: `format=`, else the Accept header's best, else the first that is offered.

        Raises: Failure 406.
        """
        if "format" in self.arguments:
            return FORMATS[self.arguments["format"]]
        header = self.headers.get("accept", "")
        if not header or header == "*/*":
            return offered[0]
        best: tuple[float, str] = (0.0, "")
        for part in header.split(","):
            media, _, rest = part.strip().lower().partition(";")
            weight = _weight(rest)
            for offer in offered:
                fits = media.strip() in (offer, "*/*", offer.split("/")[0] + "/*")
                if fits and weight > best[0]:
                    best = (weight, offer)
                    break
        if not best[1]:
            raise Failure(406, "not_acceptable", f"this is answered as {', '.join(offered)}")
        return best[1]


def _weight(rest: str) -> float:
    for option in rest.split(";"):
        name, _, value = option.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def json_bytes(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace")


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with a value as JSON."""
    return Response(json_bytes(value), status, headers, wire.JSON)


__all__ = ["FORMATS", "Call", "json_bytes", "json_response"]
