"""POST /v1/statements: run a script. JSON for people; frames of Arrow, sent as they are made, for the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa
from starlette.responses import Response, StreamingResponse

from millpond import language as lang
from millpond.server.access.permissions import check
from millpond.server.bodies.encoding import columns_json
from millpond.server.bodies.pages import PageCursor, gone
from millpond.server.failures import bad_request, of_exception
from millpond.server.operations import Call
from millpond.server.responses import json_bytes
from millpond.support import wire
from millpond.support.errors import MillpondError, QueryError, StatementError
from millpond.support.sql_values import of_json
from millpond.support.texts.json_texts import csv_bytes, rows_json
from millpond.types.results import StatementResult

SQL = "application/sql"
_CHANGES = (lang.CreateQuery, lang.AlterQuery, lang.Drop)


async def run_script(call: Call) -> Response:
    """Run the statements of the body."""
    if call.media == SQL:
        try:
            script = call.body.decode("utf-8")
        except UnicodeDecodeError:
            raise bad_request("the script is not UTF-8") from None
        if "\0" in script:
            raise bad_request("the script has a NUL character")
        filled, limit = lang.with_parameters(script, None), None
    else:
        body = call.json()
        given, limit = body.get("parameters"), body.get("limit")
        filled = lang.with_parameters(body["statements"], None if given is None else of_json(given))
    limits = call.service.limits
    media = call.accepted((wire.JSON, wire.RESULTS, wire.ARROW, wire.CSV))
    statements = await call.run(_parsed, filled)
    waits = any(isinstance(s, lang.Drain) for s in statements)
    run = call.service.run_long if waits else call.run
    if media == wire.RESULTS:
        chunks = _frames(call, statements, filled)
        first = await run(next, chunks)

        async def body_of() -> AsyncIterator[bytes]:
            chunk: bytes | None = first
            while chunk is not None:
                yield chunk
                chunk = await run(next, chunks, None)

        return StreamingResponse(body_of(), media_type=media)
    return await run(_answer, call, statements, filled, media, limit or limits.page_rows)


def _parsed(filled: lang.Filled) -> list[lang.Statement]:
    with _pointing(filled):
        return lang.parse(filled.text)


@contextmanager
def _pointing(filled: lang.Filled) -> Iterator[None]:
    """Errors point into the script as it was sent."""
    try:
        yield
    except StatementError as error:
        raise filled.pointing(error) from None


def _results(call: Call, statements: list[Any], filled: lang.Filled) -> Iterator[StatementResult]:
    """The results, statement by statement; a script that changes queries is over before the first is given."""
    service = call.service
    changes = [s for s in statements if isinstance(s, _CHANGES)]
    if not changes:
        check(statements, call.caller, service.owner_of_name)
        return service.pond.run_for_others(filled)
    created = [s.name for s in changes if isinstance(s, lang.CreateQuery)]
    guarded = call.caller.role != "admin" and not any(isinstance(s, lang.Drain) for s in statements)
    with service.changing if guarded else nullcontext():
        check(statements, call.caller, service.owner_of_name)
        service.room_for_queries(call.caller, len(created))
        gone_ids = [i for s in changes if isinstance(s, lang.Drop) for i in _ids(call, s.name)]
        results: list[StatementResult] = []
        fault: MillpondError | None = None
        try:
            results.extend(service.pond.run_for_others(filled))
        except MillpondError as error:
            fault = error
        if call.caller.owner:
            service.owners.record(call.caller.owner, [i for name in created for i in _ids(call, name)])
        service.owners.record("", dropped=[i for i in gone_ids if not _exists(call, i)])
    service.watch.wake()

    def given() -> Iterator[StatementResult]:
        yield from results
        if fault is not None:
            raise fault

    return given()


def _ids(call: Call, name: str) -> list[int]:
    try:
        return [call.service.pond.query(name).id]
    except QueryError:
        return []


def _exists(call: Call, query: int) -> bool:
    try:
        call.service.pond.query(query)
    except QueryError:
        return False
    return True


def _frames(call: Call, statements: list[Any], filled: lang.Filled) -> Iterator[bytes]:
    sent = False
    try:
        for result in _pointed(_results(call, statements, filled), filled):
            header = _about(result)
            if result.table is None:
                yield wire.frame(header)
            else:
                call.service.metrics.given.inc(result.table.num_rows)
                for start in range(0, max(1, result.table.num_rows), wire.BATCH_ROWS):
                    part = result.table.slice(start, wire.BATCH_ROWS)
                    more = start + part.num_rows < result.table.num_rows
                    yield wire.frame({**header, "more": more}, part)
            sent = True
    except Exception as error:
        if not sent:
            raise
        yield wire.frame(of_exception(error, call.id).body())
        return
    yield wire.frame({"end": True})


def _pointed(results: Iterator[StatementResult], filled: lang.Filled) -> Iterator[StatementResult]:
    with _pointing(filled):
        yield from results


def _answer(call: Call, statements: list[Any], filled: lang.Filled, media: str, limit: int) -> Response:
    results: list[StatementResult] = []
    try:
        for result in _pointed(_results(call, statements, filled), filled):
            results.append(result)
    except Exception as error:
        failure = of_exception(error, call.id)
        if results:
            failure.fields["executed"] = len(results)
        raise failure from error
    if media != wire.JSON:
        table = results[-1].to_arrow() if results else pa.table({})
        return table_response(call, table, media, 0, call.service.limits.answer_rows)
    parts = [_result_json(call, result, limit) for result in results]
    return Response(b'{"results":[' + b",".join(parts) + b"]}", media_type=wire.JSON)


def _about(result: StatementResult) -> dict[str, Any]:
    about = {"kind": result.kind, "message": result.message, "statement": result.statement}
    return about if result.report is None else about | {"report": result.report.to_dict()}


def _result_json(call: Call, result: StatementResult, limit: int) -> bytes:
    about = _about(result)
    if result.table is None:
        return json_bytes(about)
    page, cursor = _page(call, result.table, 0, limit)
    about |= {"columns": columns_json(page.schema), "row_count": result.table.num_rows, "next": cursor}
    about |= {} if result.plan is None else {"plan": result.plan.to_dict()}
    head = json_bytes(about)
    return head[:-1] + b',"rows":' + rows_json(page) + b"}"


def _page(call: Call, table: pa.Table, offset: int, limit: int, held: str = "") -> tuple[pa.Table, str | None]:
    """A page and the cursor of the next one; the answer is held for it."""
    page = table.slice(offset, limit)
    call.service.metrics.given.inc(page.num_rows)
    end = offset + page.num_rows
    if end >= table.num_rows:
        call.service.held.release(held)
        return page, None
    held = held or call.service.held.hold(call.caller.owner, table, table.nbytes)
    return page, str(PageCursor(held, end))


def table_response(call: Call, table: pa.Table, media: str, offset: int, limit: int, held: str = "") -> Response:
    """A page of an ad hoc answer in any format."""
    page, cursor = _page(call, table, offset, limit, held)
    headers = {wire.ROWS: str(table.num_rows)} | ({wire.NEXT: cursor} if cursor else {})
    if media == wire.JSON:
        about = {"columns": columns_json(page.schema), "row_count": table.num_rows, "next": cursor}
        head = json_bytes(about)
        return Response(head[:-1] + b',"rows":' + rows_json(page) + b"}", 200, headers, wire.JSON)
    data = csv_bytes(page) if media == wire.CSV else wire.ipc_bytes(page)
    return Response(data, 200, headers, media)


async def next_page(call: Call) -> Response:
    """GET /v1/pages/{cursor}: the next page of an ad hoc answer."""
    media = call.accepted((wire.JSON, wire.CSV, wire.ARROW))
    cursor = PageCursor.parse(call.arguments["cursor"])
    table = call.service.held.find(cursor.answer, call.caller.owner)
    if not isinstance(table, pa.Table) or cursor.offset > table.num_rows:
        raise gone()
    limits = call.service.limits
    limit = call.arguments.get("limit", limits.page_rows if media == wire.JSON else limits.answer_rows)
    return await call.run(table_response, call, table, media, cursor.offset, limit, cursor.answer)
