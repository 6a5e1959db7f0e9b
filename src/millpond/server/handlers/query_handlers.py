"""Standing queries: register, list, inspect, drop, pause, resume."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from starlette.responses import Response

from millpond.server.failures import Failure, bad_request
from millpond.server.operations import Call
from millpond.server.responses import json_response
from millpond.support.texts.json_texts import rows_json
from millpond.types import QueryOptions, to_json
from millpond.types.options import OptionFault, options_of, read

_MOST_TEXT = 1_000


async def register(call: Call) -> Response:
    """Register one query, or many at once."""
    body = await call.run(call.json, "materialize", "options")
    options = body.get("options", {})
    if not isinstance(options, dict):
        raise bad_request("field 'options' is of another type than an object")
    options = checked({"materialize": body.get("materialize"), **options})
    if "queries" in body:
        many = body["queries"], body.get("names"), options.get("materialize", "auto")
        handles = await call.run(_register_many, call, *many)
        return json_response({"queries": [{"id": h.id, "name": h.name} for h in handles]}, 201)
    handle = await call.run(_register, call, body, options)
    return json_response({"id": handle.id, "name": handle.name}, 201)


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a registration as values.

    Raises: Failure 400, as the QueryError that the embedded pond raises.
    """
    for name, value in options.items():
        if isinstance(value, str) and len(value) > _MOST_TEXT:
            raise bad_request(f"option '{name[:100]}' is longer than {_MOST_TEXT:,} characters")
    try:
        return read(options_of(QueryOptions), options)
    except OptionFault as fault:
        raise Failure(400, "QueryError", str(fault)) from None


def _register(call: Call, fields: dict[str, Any], options: dict[str, Any]) -> Any:
    service, owner = call.service, call.caller.owner
    with service.changing if call.caller.role != "admin" else nullcontext():
        service.room_for_queries(call.caller, 1)
        handle = service.pond.register(fields["query"], fields.get("name"), owner, **options)
        if owner:
            service.owners.record(owner, [handle.id])
    return handle


def _register_many(call: Call, texts: list[str], names: list[str | None] | None, materialize: str) -> list[Any]:
    service, owner = call.service, call.caller.owner
    with service.changing if call.caller.role != "admin" else nullcontext():
        service.room_for_queries(call.caller, len(texts))
        handles: list[Any] = service.pond.register_many(texts, names, owner, materialize)
        if owner:
            service.owners.record(owner, [h.id for h in handles])
    return handles


async def listing(call: Call) -> Response:
    """The standing queries in the order of their ids, a page at a time."""
    return await call.run(_listing, call)


def _listing(call: Call) -> Response:
    asked = call.arguments
    page, last = call.service.list_queries(asked.get("after", -1), asked.get("limit", 1_000), asked.get("prefix", ""))
    return Response(
        b'{"queries":' + rows_json(page) + b',"next":' + str(last if last is not None else "null").encode() + b"}",
        media_type="application/json",
    )


async def inspect(call: Call) -> Response:
    """What is known of one query."""

    def work() -> Response:
        handle = call.service.query(call.arguments["query"])
        info = to_json(handle.info())
        return json_response({**info, "id": handle.id, "name": handle.name, "owner": call.service.owner_of(handle)})

    return await call.run(work)


async def drop(call: Call) -> Response:
    """Drop a query of one's own."""

    def work() -> None:
        service = call.service
        with service.changing if call.caller.role != "admin" else nullcontext():
            handle = service.query(call.arguments["query"])
            service.own(call.caller, handle)
            handle.drop()
            service.owners.record("", dropped=[handle.id])
        service.watch.wake()

    await call.run(work)
    return Response(status_code=204)


async def pause(call: Call) -> Response:
    """Pause a query of one's own."""
    return await _change(call, "pause")


async def resume(call: Call) -> Response:
    """Resume a query of one's own."""
    return await _change(call, "resume")


async def _change(call: Call, action: str) -> Response:
    def work() -> Response:
        service = call.service
        with service.changing if call.caller.role != "admin" else nullcontext():
            handle = service.query(call.arguments["query"])
            service.own(call.caller, handle)
            getattr(handle, action)()
        service.watch.wake()
        return json_response({"id": handle.id, "name": handle.name})

    return await call.run(work)
