"""The OpenAPI document, made from the list of operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from millpond.server.access.limits import Limits
from millpond.server.operations import Operation
from millpond.server.parameters import Parameter
from millpond.server.schemas import ERROR, PLAN, REPORT
from millpond.support import wire

_ALWAYS: Final = {
    400: "The request is wrong",
    401: "A token is needed",
    403: "The token may not do this",
    408: "The request did not come in time",
    413: "A limit of size",
    429: "A limit of the owner",
    503: "The engine has stopped, or a limit of the server",
}
_RAW: Final = {"type": "string", "format": "binary"}


def openapi(operations: Iterable[Operation], version: str, limits: Limits) -> dict[str, Any]:
    """The document as JSON-ready values, with the limits of a server."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, limits)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millpond",
            "version": version,
            "description": "Live streams and their whole past behind one SQL. In JSON, timestamps are ISO 8601 in UTC; "
            "whole numbers beyond 2^53 and decimals with a fraction are strings; intervals are as DuckDB has them; "
            "binary values are base64; NaN, Infinity and -Infinity are strings.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR, "Plan": PLAN, "Report": REPORT},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, limits: Limits) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"{(operation.handler.__doc__ or '').strip()} Role: {operation.role or 'none'}.".strip(),
        "parameters": [_parameter(p, limits) for p in operation.parameters],
        "responses": {},
    }
    if operation.role is not None:
        found["security"] = [{"token": []}]
    if operation.bodies:
        content = {media: {"schema": _bounded(schema or _RAW, limits)} for media, schema in operation.bodies.items()}
        found["requestBody"] = {"required": not operation.optional_body, "content": content}
    for status, (summary, media_types) in operation.answers.items():
        content = {media: {"schema": schema or _RAW} for media, schema in media_types.items()}
        found["responses"][str(status)] = {"description": summary} | ({"content": content} if content else {})
    always = dict(_ALWAYS)
    if operation.bodies:
        always[415] = "A body of another type"
    if any(media != wire.JSON for _, types in operation.answers.values() for media in types):
        always[406] = "No such format"
    for status, summary in always.items():
        reference = {wire.JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
        found["responses"].setdefault(str(status), {"description": summary, "content": reference})
    return found


def _bounded(schema: Any, limits: Limits) -> Any:
    """A schema with what the limits of the server are."""
    if isinstance(schema, list):
        return [_bounded(part, limits) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {word: _bounded(part, limits) for word, part in schema.items()}
    return found | ({"maximum": getattr(limits, schema["x-limit"])} if "x-limit" in schema else {})


def _parameter(parameter: Parameter, limits: Limits) -> dict[str, Any]:
    found = {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.summary,
        "schema": parameter.schema(limits),
    }
    return found | ({"example": parameter.example} if parameter.example is not None else {})
