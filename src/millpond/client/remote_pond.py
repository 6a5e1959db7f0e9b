"""A pond on another machine, or in another process: the same interface as an open pond, over HTTP.

import millpond
with millpond.connect("http://localhost:7474", token="…") as pond:
    pond.sql("SHOW STREAMS").to_arrow()
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self
from urllib.parse import urlencode

import pyarrow as pa

from millpond.client.http import Broken, Http, segment
from millpond.support import wire
from millpond.support.errors import MillpondError, PondError, QueryError, StatementError
from millpond.support.sql import quote
from millpond.support.sql_values import NoConstant, Parameters, parameters_json
from millpond.types import QueryOptions, micros_of, moment_of
from millpond.types.as_of import as_of_moment, not_an_edge
from millpond.types.batches import Shape, array_of, columns_of
from millpond.types.instants import FOREVER, NEVER
from millpond.types.json_records import from_json
from millpond.types.options import OptionFault, options_of, read
from millpond.types.plan_nodes import PlanNode, explain_statement
from millpond.types.results import Answer, AnswerBatch, Cursor, DrainReport, StatementResult
from millpond.types.selections import ConstantEdge, NowEdge, OpenEdge, RowsEdge

#: How long a subscription tries to find a server again that it has lost, seconds.
_PATIENCE = 120.0


class RemoteQueryHandle:
    """A standing query on a server, as `QueryHandle` of the embedded pond."""

    def __init__(self, http: Http, query: int, name: str) -> None:
        self._http, self.id, self.name = http, query, name
        self._path = f"/v1/queries/{query}"

    def __repr__(self) -> str:
        return f"<query {self.name} on {self._http.url}>"

    def result(self, as_of: Any = None, begin: Any = None, end: Any = None) -> Answer:
        """The current answer; arguments as of the embedded handle's `result`."""
        query = {"as_of": _as_of(as_of), "begin": _edge(begin, "BEGIN"), "end": _edge(end, "END")}
        accept = {"Accept": wire.ARROW}
        parts: list[pa.Table] = []
        path = f"{self._path}/answer"
        headers, data = self._http.request("GET", path, query, headers=accept, repeat=True)
        first = headers
        parts.append(pa.ipc.open_stream(data).read_all())
        while (cursor := headers.get(wire.NEXT)) is not None:
            headers, data = self._http.request("GET", path, {"cursor": cursor}, headers=accept, repeat=True)
            parts.append(pa.ipc.open_stream(data).read_all())
        table = pa.concat_tables(parts) if len(parts) > 1 else parts[0]
        return Answer(
            table,
            int(first[wire.EPOCH]),
            _bound(first.get(wire.NOW)),
            _bound(first.get(wire.WATERMARK)),
            _micros(first.get(wire.BEGIN)),
            _micros(first.get(wire.END)),
            first.get(wire.FINAL) == "true",
            first.get(wire.EXACT) != "false",
        )

    def drop(self) -> None:
        """Drop the query."""
        self._http.request("DELETE", self._path)

    def pause(self) -> None:
        """Stop keeping it ready, and its subscriptions."""
        self._http.request("POST", f"{self._path}/pause")

    def resume(self) -> None:
        """Go on after `pause`."""
        self._http.request("POST", f"{self._path}/resume")

    def info(self) -> dict[str, Any]:
        """What is known of it."""
        found: dict[str, Any] = self._http.json("GET", self._path)
        return found

    def explain(self, analyze: bool = False) -> PlanNode:
        """How it is answered, as a tree; as the embedded handle's."""
        return _plan(self._http, quote(self.name), analyze)

    def subscribe(
        self,
        since: Cursor | str | None = None,
        timeout: float | None = None,
        *,
        final: bool = False,
        status: str | None = None,
    ) -> Iterator[AnswerBatch]:
        """Its answers as they are published, from `since` on; a lost connection is made again, from the cursor.

        `final`, `status`: as of the embedded handle's.
        """
        return _subscribe(self._http, str(self.id), since, timeout, final, status)


class RemotePond:
    """A pond on a server. Made by `millpond.connect`; safe to use from several threads."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 120.0) -> None:
        self._http = Http(url, token, timeout)
        self._shapes: dict[str, dict[str, Shape]] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<pond at {self._http.url}>"

    def register_function(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a function is Python code, which a server takes from nobody but who opens its pond."""
        raise PondError(
            "a client cannot register functions, which are Python code that the server would run; on the server's "
            "machine, while the server is stopped: millpond.open(folder).register_function(…), which the pond keeps"
        )

    def register_window_kind(self, *_: Any, **__: Any) -> NoReturn:
        """Refused as `register_function` is."""
        raise PondError(
            "a client cannot register window kinds, which are Python code that the server would run; the process that "
            "opens the pond gives them: millpond.open(folder, window_kinds={…})"
        )

    @property
    def path(self) -> str:
        """The server's address."""
        return self._http.url

    def run(self, script: str, parameters: Parameters | None = None) -> Iterator[StatementResult]:
        """Execute a script, giving the result of each statement as it is there; arguments and errors as `Pond.run`."""
        self._check()
        yield from _run(self._http, script, parameters)

    def sql(self, script: str, parameters: Parameters | None = None) -> StatementResult:
        """Execute a script and return the result of its last statement; arguments as `Pond.sql`."""
        results = list(self.run(script, parameters))
        return results[-1] if results else StatementResult("message", "nothing to do")

    def explain(self, query: str, analyze: bool = False) -> PlanNode:
        """How a SELECT, a query or a stream is answered, as a tree; as `Pond.explain`."""
        self._check()
        return _plan(self._http, query, analyze)

    def register(
        self, text: str, name: str | None = None, owner: str = "", materialize: str = "auto", **options: Any
    ) -> RemoteQueryHandle:
        """Register a standing query; its owner is the token's."""
        self._check()
        if owner:
            raise PondError("over HTTP, a query's owner is the token's; leave 'owner' out")
        body = {"query": text, "name": name, "options": _options({"materialize": materialize, **options})}
        found = self._http.json("POST", "/v1/queries", body)
        return RemoteQueryHandle(self._http, found["id"], found["name"])

    def register_many(
        self,
        texts: Sequence[str],
        names: Sequence[str | None] | None = None,
        owner: str = "",
        materialize: str = "auto",
    ) -> list[RemoteQueryHandle]:
        """Register many standing queries with one request."""
        self._check()
        if owner:
            raise PondError("over HTTP, a query's owner is the token's; leave 'owner' out")
        if not texts:
            return []
        form = _options({"materialize": materialize})
        body = {"queries": list(texts), "names": None if names is None else list(names), **form}
        found = self._http.json("POST", "/v1/queries", body)["queries"]
        return [RemoteQueryHandle(self._http, q["id"], q["name"]) for q in found]

    def query(self, name: str | int) -> RemoteQueryHandle:
        """The handle of a standing query, by name or id. Raises: QueryError when there is none."""
        self._check()
        found = self._http.json("GET", f"/v1/queries/{segment(f'#{name}' if isinstance(name, int) else name)}")
        return RemoteQueryHandle(self._http, found["id"], found["name"])

    def ingest(self, stream: str, data: Any, key: str | None = None, partition: str = "") -> int | None:
        """Take rows into a stream; when this returns they are durable on the server.

        Without a key one is made for this call, so that it can be repeated when the connection breaks, and the rows are
        taken once. Arguments and errors as of `Pond.ingest`.
        """
        self._check()
        body = wire.ipc_bytes(self._table(stream, data))
        headers = {"Idempotency-Key": key or uuid.uuid4().hex, "Content-Type": wire.ARROW}
        path = f"/v1/streams/{segment(stream)}/rows"
        try:
            answer = self._http.request("POST", path, {"partition": partition or None}, body, headers, repeat=True)[1]
        except MillpondError:
            self._shapes.pop(stream, None)
            raise
        ordinal: int | None = json.loads(answer)["ordinal"]
        return ordinal

    def _table(self, stream: str, data: Any) -> pa.Table:
        """The rows as Arrow, by the code that an open pond has for it; the server makes the stream's types of them."""
        columns, length = columns_of(data, stream)
        if columns and all(isinstance(values, pa.ChunkedArray) for values in columns.values()):
            return pa.table(dict(columns))
        shapes = self._shapes_of(stream)
        if not {name.lower() for name in columns} <= shapes.keys():  # the stream may have been made anew
            del self._shapes[stream]
            shapes = self._shapes_of(stream)
        if not columns:  # rows without any value
            return pa.table({shape.name: pa.nulls(length, shape.arrow) for shape in shapes.values()})
        found = {}
        for name, values in columns.items():
            shape = shapes.get(name.lower())
            # a column that there is not is refused by the server
            found[name] = pa.nulls(length) if shape is None else array_of(values, shape, stream)
        return pa.table(found)

    def _shapes_of(self, stream: str) -> dict[str, Shape]:
        """The columns that rows of a stream have, by name in small letters."""
        if stream not in self._shapes:
            path = f"/v1/streams/{segment(stream)}/schema"
            schema = pa.ipc.open_stream(self._http.request("GET", path, repeat=True)[1]).schema
            shapes = [Shape(f.name, f.metadata[wire.DECLARED].decode(), f.type) for f in schema]
            self._shapes[stream] = {shape.name.lower(): shape for shape in shapes}
        return self._shapes[stream]

    def drain(self, final: bool = False) -> DrainReport:
        """Wait until all that the sources hold now is committed, and say what happened; `final` closes all windows."""
        self._check()
        body = json.dumps({"final": final}).encode()
        headers = {"Content-Type": wire.JSON}
        _, answer = self._http.request("POST", "/v1/drain", body=body, headers=headers, timeout=86_400.0)
        return from_json(DrainReport, json.loads(answer)["report"])

    def subscribe(
        self,
        query: str,
        since: Cursor | str | None = None,
        timeout: float | None = None,
        *,
        final: bool = False,
        status: str | None = None,
    ) -> Iterator[AnswerBatch]:
        """Iterate over a query's answers as they are published, from `since` (None: the first) on."""
        self._check()
        return _subscribe(self._http, query, since, timeout, final, status)

    def status(self) -> dict[str, Any]:
        """What the pond is doing: streams, queries, epochs."""
        self._check()
        found: dict[str, Any] = self._http.json("GET", "/v1/status")
        return found

    def describe(self, name: str) -> dict[str, Any]:
        """The definition of a stream, table or query."""
        self._check()
        found: dict[str, Any] = self._http.json("GET", f"/v1/definitions/{segment(name)}")
        return found

    def close(self) -> None:
        """Close the connections; the pond stays open on the server."""
        self._closed = True
        self._http.close()

    def _check(self) -> None:
        if self._closed:
            raise PondError("the pond is closed; open it again with millpond.connect")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(url: str, token: str | None = None, timeout: float = 120.0) -> RemotePond:
    """The pond that a server serves.

    Arguments:
        url: as `millpond serve` prints it. token: as `millpond token` printed it; None for a loopback server without.
        timeout: seconds that a request may be silent for.
    Raises: PondError when the server cannot be reached, or does not know the token.
    """
    pond = RemotePond(url, token, timeout)
    try:
        pond._http.json("GET", "/v1/streams")
    except BaseException:
        pond.close()
        raise
    return pond


def _run(http: Http, script: str, parameters: Parameters | None = None) -> Iterator[StatementResult]:
    """The results of a script, each as it is there."""
    try:
        given = {} if parameters is None else {"parameters": parameters_json(parameters)}
    except NoConstant as fault:
        raise StatementError(f"a parameter has no constant: {fault}", script) from None
    body = json.dumps({"statements": script, **given}).encode()
    headers = {"Content-Type": wire.JSON, "Accept": wire.RESULTS}
    with http.stream("POST", "/v1/statements", {}, body, headers) as answer:
        parts: list[pa.Table] = []
        for header, table in wire.frames(answer.read):
            if "error" in header:
                raise wire.error_of(header)
            if table is not None:
                parts.append(table)
            if header.get("end") or header.get("more"):
                continue
            rows = (pa.concat_tables(parts) if len(parts) > 1 else parts[0]) if parts else None
            parts = []
            told = header.get("report")
            report = None if told is None else from_json(DrainReport, told)
            yield StatementResult(header["kind"], header["message"], rows, header["statement"], report)
        answer.read()


def _plan(http: Http, query: str, analyze: bool) -> PlanNode:
    [result] = _run(http, explain_statement(query, analyze))
    assert result.plan is not None
    return result.plan


def _subscribe(
    http: Http, query: str, since: Cursor | str | None, timeout: float | None, final: bool, status: str | None
) -> Iterator[AnswerBatch]:
    cursor = None if since is None else str(since)
    path = f"/v1/queries/{segment(query)}/subscription"
    lost: float | None = None
    while True:
        arguments = {"since": cursor, "timeout": timeout, "rows": "arrow", "status": status}
        arguments["final"] = "true" if final else None
        try:
            with contextlib.closing(_events(http, f"{path}?{urlencode(_given(arguments))}")) as events:
                for kind, data in events:
                    lost = None
                    if kind == "answers":
                        cursor = data["cursor"]
                        yield _batch(data)
                    elif kind == "error":
                        raise wire.error_of(data)
                    elif kind == "end":
                        cursor = cursor if cursor is None or data["cursor"] is None else data["cursor"]
                        if data["reason"] != "the server stops":
                            return
            raise Broken("the server stopped")
        except PondError as error:
            # Only connections that were lost come back here: answers go on from the cursor.
            lost = lost or time.monotonic()
            refused = not isinstance(error, Broken)
            if refused or time.monotonic() - lost > _PATIENCE:
                raise
            time.sleep(0.5)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Options as values that JSON has. Raises: QueryError as `Pond.register`."""
    try:
        return read(options_of(QueryOptions), given)
    except OptionFault as fault:
        raise QueryError(str(fault)) from None


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _events(http: Http, target: str) -> Generator[tuple[str, Any]]:
    """The server-sent events of a stream."""
    with http.stream("GET", target, {}, None, {"Accept": wire.EVENTS}) as answer:
        kind, data = "", b""
        while line := answer.readline():
            name, _, value = line.rstrip(b"\r\n").partition(b": ")
            if name == b"event":
                kind = value.decode()
            elif name == b"data":
                data = value
            elif not line.strip() and kind:
                yield kind, json.loads(data)
                kind, data = "", b""
        if kind:
            raise Broken("the server's answer broke off")


def _batch(data: dict[str, Any]) -> AnswerBatch:
    import base64

    rows = pa.ipc.open_stream(base64.b64decode(data["arrow"])).read_all()
    return AnswerBatch(rows, Cursor.parse(data["cursor"]), data["epoch"], data["backfilled"], data["replaced"])


def _text(micros: int) -> str:
    try:
        return moment_of(micros).isoformat(" ", "microseconds")
    except OverflowError:
        raise QueryError(f"{micros} microseconds: over HTTP an instant lies in the years 1 to 9999") from None


def _instant(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value.isoformat(" ", "microseconds")


def _as_of(value: Any) -> str | None:
    if isinstance(value, str) and value not in ("watermark", "progress"):
        return value  # an instant in words, which the server reads
    moment = as_of_moment(value)
    if not isinstance(moment, tuple):
        return moment
    return f"epoch:{moment[1]}" if moment[0] == "epoch" else _text(moment[1])


def _edge(value: Any, which: str) -> str | None:
    if isinstance(value, datetime.datetime):
        return _instant(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _text(value)
    if isinstance(value, NowEdge):
        sign = "-" if value.value < 0 else "+"
        return f"NOW {sign} INTERVAL '{abs(value.value)} microseconds'" if value.value else "NOW"
    if isinstance(value, ConstantEdge):
        return _text(value.value)
    if isinstance(value, RowsEdge):
        return str(value)
    if isinstance(value, OpenEdge):
        return None
    if value is None or isinstance(value, str):
        return value
    raise not_an_edge(value, which)


def _bound(text: str | None) -> int:
    micros = _micros(text)
    return NEVER if micros is None else micros


def _micros(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "end":
        return FOREVER
    try:
        instant = datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return int(text)
    return micros_of(instant)
