"""Streams: list, inspect, take rows in, drain."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from starlette.responses import Response

from millpond.server.bodies.decoding import rows_of
from millpond.server.failures import Failure, not_found
from millpond.server.operations import Call
from millpond.server.responses import json_response
from millpond.sources.formats.carriers import carriers
from millpond.sources.ingest import unknown_stream
from millpond.support import wire
from millpond.support.errors import KeyReused, QueryError, SourceError
from millpond.types import StreamDefinition, from_json


async def listing(call: Call) -> Response:
    """All streams with their statistics."""
    status = await call.run(call.service.pond.status)
    return json_response({"streams": [{"name": name, **s} for name, s in status["streams"].items()]})


async def inspect(call: Call) -> Response:
    """One stream: its definition and its statistics."""

    def work() -> Response:
        name = call.arguments["stream"]
        definition = _definition(call, name)
        if definition is None:
            raise not_found(f"there is no stream '{name}'")
        statistics = call.service.pond.status()["streams"].get(definition["name"], {})
        return json_response({**definition, "statistics": statistics})

    return await call.run(work)


async def schema(call: Call) -> Response:
    """What rows of a stream have to look like: an Arrow stream without rows; fields say how they were declared."""

    def work() -> Response:
        name = call.arguments["stream"]
        definition = _definition(call, name)
        if definition is None:
            raise Failure(404, "SourceError", str(unknown_stream(name, _is_taken(call, name))))
        fields = [
            pa.field(c.name, c.arrow, metadata={wire.DECLARED: c.declared})
            for c in carriers(from_json(StreamDefinition, definition))
        ]
        return Response(wire.ipc_bytes(pa.schema(fields).empty_table()), 200, media_type=wire.ARROW)

    return await call.run(work)


async def ingest(call: Call) -> Response:
    """Take rows in; they are durable when this is answered."""
    key = call.arguments.get("Idempotency-Key")
    if key is not None and call.caller.owner:
        key = f"{call.caller.owner}/{key}"  # owners do not know each other's keys

    def work() -> Response:
        name = call.arguments["stream"]
        definition = _definition(call, name)
        columns = {c["name"].lower(): c["type"] for c in definition["columns"]} if definition else {}
        rows = rows_of(call.media, call.body, columns, call.service.limits.rows_per_request)
        try:
            ordinal = call.service.pond.ingest(name, rows, key, call.arguments.get("partition", ""))
        except KeyReused as error:
            raise Failure(409, "SourceError", str(error)) from None
        except SourceError as error:
            raise Failure(400 if definition else 404, "SourceError", str(error)) from None
        call.service.metrics.taken.inc(len(rows))
        return json_response({"ordinal": ordinal, "rows": len(rows)})

    return await call.run(work)


async def drain(call: Call) -> Response:
    """Wait until everything that was taken in is committed."""
    final = call.json().get("final", False)
    if final:
        call.caller.require("admin", "DRAIN FINAL")
    report = await call.run(call.service.pond.drain, final)
    return json_response({"drained": True, "final": final, "report": report.to_dict()})


async def describe(call: Call) -> Response:
    """The definition of a stream, table or query."""

    def work() -> Response:
        try:
            return json_response(call.service.pond.describe(call.arguments["name"]))
        except QueryError as error:
            raise not_found(str(error)) from None

    return await call.run(work)


def _is_taken(call: Call, name: str) -> bool:
    try:
        return bool(call.service.pond.describe(name))
    except QueryError:
        return False


def _definition(call: Call, name: str) -> dict[str, Any] | None:
    try:
        found = call.service.pond.describe(name)
    except QueryError:
        return None
    return found if "source" in (found.get("options") or {}) else None
