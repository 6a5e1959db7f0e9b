"""GET /v1/queries/{query}/answer: invoke a standing query, by pages that all see the same prefix of the streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.responses import Response

from millpond.api.handle import as_edge
from millpond.server.bodies.encoding import columns_json, instant
from millpond.server.bodies.pages import PageCursor, gone
from millpond.server.failures import Failure, bad_request
from millpond.server.operations import Call
from millpond.server.responses import json_bytes
from millpond.support import wire
from millpond.support.errors import QueryError
from millpond.support.texts.json_texts import csv_bytes, rows_json
from millpond.types.as_of import INSTANT, as_of_moment

_UNUSUAL = {"as_of", "begin", "end", "cursor"}


async def answer(call: Call) -> Response:
    """The answer, or a page of it."""
    return await call.run(_answer, call, call.accepted((wire.JSON, wire.CSV, wire.ARROW)))


def _answer(call: Call, media: str) -> Response:
    arguments, service = call.arguments, call.service
    handle = service.query(arguments["query"])
    limits = service.limits
    limit = arguments.get("limit", limits.page_rows if media == wire.JSON else limits.answer_rows)
    question = (handle.id, media, limit)
    usual = not _UNUSUAL & arguments.keys()
    if usual and (kept := service.replies.find(question, service.watch.epoch)) is not None:
        return kept
    begin, end, as_of = arguments.get("begin"), arguments.get("end"), _as_of(arguments.get("as_of"))
    offset, name = 0, ""
    if "cursor" in arguments:
        if as_of is not None or begin is not None or end is not None:
            raise bad_request("a cursor has its own window: leave out as_of, begin and end")
        cursor = PageCursor.parse(arguments["cursor"])
        if cursor.query != handle.id:
            raise bad_request("this cursor belongs to another query")
        offset, name, begin, end = cursor.offset, cursor.answer, cursor.begin, cursor.end
        found = service.held.find(name, call.caller.owner)
        if found is None:
            found, name = _again(handle, cursor), ""
        repeatable = cursor.epoch >= 0
    else:
        with _of_the_request():
            as_edge(begin, "BEGIN"), as_edge(end, "END")
        found = handle.result(as_of=as_of, begin=begin, end=end)
        repeatable = as_of is None or (isinstance(as_of, tuple) and as_of[0] == "epoch")
    table = found.table
    page = table.slice(offset, limit) if offset or table.num_rows > limit else table
    service.metrics.given.inc(page.num_rows)
    following: str | None = None
    if offset + page.num_rows < table.num_rows:
        name = name or service.held.hold(call.caller.owner, found, table.nbytes)
        epoch = found.epoch if repeatable else -1
        following = str(PageCursor(name, offset + page.num_rows, handle.id, epoch, begin, end))
    elif name:
        service.held.release(name)
    reply = _response(found, page, handle, media, following)
    if usual and following is None:
        service.replies.keep(question, found.epoch, reply)
    return reply


def _again(handle: Any, cursor: PageCursor) -> Any:
    """The same answer once more: the rows up to an epoch do not change."""
    if cursor.epoch < 0:
        raise gone()
    try:
        found = handle.result(as_of=("epoch", cursor.epoch), begin=cursor.begin, end=cursor.end)
    except QueryError:
        raise gone() from None
    if cursor.offset > found.table.num_rows:
        raise gone()
    return found


@contextmanager
def _of_the_request() -> Iterator[None]:
    """What is no instant is a wrong request (400), and not a question that this query cannot answer (409)."""
    try:
        yield
    except QueryError as error:
        raise Failure(400, "QueryError", str(error)) from None


def _as_of(text: str | None) -> Any:
    """`watermark`, `epoch:<n>`, or an instant as the language reads it."""
    if text is None:
        return None
    kind, _, number = text.partition(":")
    if kind == "epoch" and number.isascii() and number.isdigit() and len(number) < 19:
        return ("epoch", int(number))
    try:
        return as_of_moment(text)
    except QueryError:
        raise Failure(400, "QueryError", f"'as_of' is watermark, epoch:<number>, or {INSTANT}") from None


def _response(found: Any, page: Any, handle: Any, media: str, following: str | None) -> Response:
    now, watermark = instant(found.now), instant(found.watermark)
    begin, end = instant(found.begin), instant(found.end)
    headers = {wire.EPOCH: str(found.epoch), wire.ROWS: str(found.table.num_rows)}
    headers[wire.FINAL] = "true" if found.final else "false"
    named = {wire.NOW: now, wire.WATERMARK: watermark, wire.BEGIN: begin, wire.END: end, wire.NEXT: following}
    headers |= {name: value for name, value in named.items() if value is not None}
    if not found.exact:
        headers[wire.EXACT] = "false"
    if media == wire.CSV:
        return Response(csv_bytes(page), 200, headers, media)
    if media == wire.ARROW:
        return Response(wire.ipc_bytes(page), 200, headers, media)
    about = {
        "query": {"id": handle.id, "name": handle.name},
        "epoch": found.epoch,
        "now": now,
        "watermark": watermark,
        "begin": begin,
        "end": end,
        "final": bool(found.final),
        "exact": bool(found.exact),
        "columns": columns_json(page.schema),
        "row_count": found.table.num_rows,
        "next": following,
    }
    head = json_bytes(about)
    return Response(head[:-1] + b',"rows":' + rows_json(page) + b"}", 200, headers, wire.JSON)
