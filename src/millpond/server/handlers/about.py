"""The server about itself: health, status, metrics, its OpenAPI document."""

from __future__ import annotations

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from millpond.server.operations import Call
from millpond.server.responses import json_response
from millpond.support.errors import MillpondError


async def health(call: Call) -> Response:
    """Whether the pond works; 503 when its engine has stopped. Tells nothing else, since it asks for no token."""

    def work() -> bool:
        try:
            call.service.pond.status()
        except (MillpondError, RuntimeError):
            return False
        return True

    healthy = await call.run(work)
    return json_response({"status": "ok" if healthy else "failed"}, 200 if healthy else 503)


async def status(call: Call) -> Response:
    """What `Pond.status()` says."""
    return json_response(await call.run(call.service.pond.status))


async def metrics(call: Call) -> Response:
    """Everything that Prometheus scrapes."""
    return Response(await call.run(call.service.metrics.text), media_type=CONTENT_TYPE_LATEST)


async def document(call: Call) -> Response:
    """The OpenAPI document."""
    return json_response(call.service.document())
