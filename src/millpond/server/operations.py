"""Operations of the server as values, which `app` dispatches to and `openapi` documents; and a request for one of them.

A request under way says who asks, with which arguments, and what is asked of the service on their behalf.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

from starlette.datastructures import Headers, QueryParams

from millpond.server.access.auth import Caller, Role
from millpond.server.access.limits import Limits
from millpond.server.bodies.decoding import parse_json
from millpond.server.bodies.schema_check import check
from millpond.server.failures import Failure, bad_request
from millpond.server.parameters import Parameter
from millpond.server.service import Service
from millpond.support import wire

T = TypeVar("T")

FORMATS = {"json": wire.JSON, "csv": wire.CSV, "arrow": wire.ARROW}

#: A handler gives an ASGI response.
Handler = Callable[["Call"], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """One method on one path.

    bodies: media type → JSON schema of the body (None: not JSON). answers: status → (summary, media types → schema).
    role: the least role; None: no token needed. long: it may wait for the engine, in threads of its own.
    big: its body may be as large as an ingest. optional_body: it may be empty.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    name: str
    summary: str
    handler: Handler
    role: Role | None = "read"
    parameters: tuple[Parameter, ...] = ()
    bodies: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[int, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    long: bool = False
    big: bool = False
    optional_body: bool = False

    def arguments(
        self, query: QueryParams, path: Mapping[str, str], headers: Headers, limits: Limits
    ) -> dict[str, Any]:
        """All parameters, checked.

        Raises: Failure 400 for one that is unknown, given twice or wrong.
        """
        known = {p.name: p for p in self.parameters if p.place == "query"}
        found: dict[str, Any] = {}
        for name, text in query.multi_items():
            if name not in known:
                raise bad_request(f"there is no parameter '{name[:100]}'; known: {', '.join(known) or 'none'}")
            if name in found:
                raise bad_request(f"'{name}' is given twice")
            found[name] = known[name].read(text, limits)
        for parameter in self.parameters:
            if parameter.place == "header" and parameter.name in headers:
                found[parameter.name] = parameter.read(headers[parameter.name], limits)
            if parameter.place == "path":
                # The router matched the encoded path, so that a name may have a slash.
                try:
                    found[parameter.name] = parameter.read(unquote(path[parameter.name], errors="strict"), limits)
                except UnicodeDecodeError:
                    raise bad_request(f"'{parameter.name}' is not UTF-8") from None
        return found


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

    def json(self, *apart: str) -> Any:
        """The body as JSON that the operation's schema allows; an empty one, where that is allowed, is {}.

        Args:
            apart: fields that the caller checks.

        Raises:
            Failure: 400, or 413 beyond a limit of the server.
        """
        found = parse_json(self.body) if self.body else {}
        check(self.operation.bodies[wire.JSON], found, self.service.limits, apart)
        return found

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
