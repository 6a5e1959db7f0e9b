"""Every operation of the server, in one list."""

from __future__ import annotations

from typing import Final

from millpond.server import schemas as s
from millpond.server.handlers import about
from millpond.server.handlers import answer_handlers as answers
from millpond.server.handlers import query_handlers as queries
from millpond.server.handlers import statement_handlers as statements
from millpond.server.handlers import stream_handlers as streams
from millpond.server.handlers import subscription_handlers as subscription
from millpond.server.operations import Operation
from millpond.server.parameters import Parameter
from millpond.support import wire

_QUERY = Parameter("query", place="path", summary="the query's name, or its id", example="7")
_STREAM = Parameter("stream", place="path", summary="the stream's name")
_FORMAT = Parameter("format", choices=("json", "csv", "arrow"), summary="in place of an Accept header")
_LIMIT = Parameter("limit", "integer", "rows of a page", least=1, limit="answer_rows")
_CURSOR = Parameter("cursor", summary="`next` of the page before")
_JSON = wire.JSON


def _page(json_schema: s.Schema) -> dict[str, s.Schema | None]:
    return {wire.JSON: json_schema, wire.CSV: None, wire.ARROW: None}


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        "GET",
        "/v1/health",
        "health",
        "Whether the pond works",
        about.health,
        None,
        answers={200: ("It works", {_JSON: s.HEALTH}), 503: ("Its engine has stopped", {_JSON: s.HEALTH})},
    ),
    Operation(
        "GET",
        "/v1/openapi.json",
        "openapi",
        "This document",
        about.document,
        None,
        answers={200: ("OpenAPI 3.1", {_JSON: s.ANYTHING})},
    ),
    Operation(
        "GET",
        "/v1/metrics",
        "metrics",
        "Metrics in Prometheus' format",
        about.metrics,
        answers={200: ("Metrics", {"text/plain": None})},
    ),
    Operation(
        "GET",
        "/v1/status",
        "status",
        "What the pond is doing",
        about.status,
        answers={200: ("Streams, queries, epochs", {_JSON: s.ANYTHING})},
    ),
    Operation(
        "POST",
        "/v1/statements",
        "run",
        "Run a script of statements",
        statements.run_script,
        parameters=(_FORMAT,),
        bodies={_JSON: s.SCRIPT, statements.SQL: None},
        answers={
            200: (
                "The statements' results; CSV and Arrow: the last one's rows",
                {_JSON: s.RESULTS, wire.RESULTS: None, wire.ARROW: None, wire.CSV: None},
            )
        },
    ),
    Operation(
        "GET",
        "/v1/pages/{cursor}",
        "page",
        "The next page of a statement's rows",
        statements.next_page,
        parameters=(Parameter("cursor", place="path", summary="`next` of the page before"), _LIMIT, _FORMAT),
        answers={200: ("A page", _page(s.PAGE)), 410: ("It is not kept any more", {_JSON: s.ERROR})},
    ),
    Operation(
        "GET",
        "/v1/streams",
        "list_streams",
        "All streams with their statistics",
        streams.listing,
        answers={200: ("Streams", {_JSON: s.STREAMS})},
    ),
    Operation(
        "GET",
        "/v1/streams/{stream}",
        "get_stream",
        "One stream",
        streams.inspect,
        parameters=(_STREAM,),
        answers={200: ("Definition and statistics", {_JSON: s.ANYTHING}), 404: ("No such stream", {_JSON: s.ERROR})},
    ),
    Operation(
        "GET",
        "/v1/streams/{stream}/schema",
        "schema",
        "What rows of a stream have to look like",
        streams.schema,
        parameters=(_STREAM,),
        answers={200: ("An Arrow stream without rows", {wire.ARROW: None}), 404: ("No such stream", {_JSON: s.ERROR})},
    ),
    Operation(
        "POST",
        "/v1/streams/{stream}/rows",
        "ingest",
        "Take rows in; they are durable when this is answered",
        streams.ingest,
        "write",
        big=True,
        parameters=(
            _STREAM,
            Parameter("partition", summary="the source partition, where watermarks are kept per partition"),
            Parameter(
                "Idempotency-Key",
                place="header",
                summary="the same rows with this key are not taken again; others are refused",
                shortest=1,
                longest=255,
                pattern=r"^[\x20-\x7e]*$",
                holds="printable ASCII characters",
            ),
        ),
        bodies={
            _JSON: s.INGEST,
            wire.NDJSON: None,
            wire.CSV: None,
            wire.ARROW: None,
            "application/ndjson": None,
            "application/vnd.apache.arrow.file": None,
        },
        answers={
            200: ("Taken", {_JSON: s.INGESTED}),
            404: ("No such stream", {_JSON: s.ERROR}),
            409: ("The key was used for other rows", {_JSON: s.ERROR}),
        },
    ),
    Operation(
        "POST",
        "/v1/drain",
        "drain",
        "Wait until everything taken in is committed",
        streams.drain,
        "write",
        bodies={_JSON: s.DRAIN},
        optional_body=True,
        long=True,
        answers={200: ("Done", {_JSON: s.DRAINED})},
    ),
    Operation(
        "GET",
        "/v1/definitions/{name}",
        "describe",
        "The definition of a stream, table or query",
        streams.describe,
        parameters=(Parameter("name", place="path", summary="its name"),),
        answers={200: ("The definition", {_JSON: s.ANYTHING}), 404: ("No such name", {_JSON: s.ERROR})},
    ),
    Operation(
        "GET",
        "/v1/queries",
        "list_queries",
        "Standing queries, by id",
        queries.listing,
        parameters=(
            Parameter("after", "integer", "only ids behind this one", least=-1, most=2**53),
            Parameter("prefix", summary="only names that begin so"),
            Parameter("limit", "integer", "how many", least=1, most=10_000),
        ),
        answers={200: ("Queries, and `after` for the next page", {_JSON: s.QUERIES})},
    ),
    Operation(
        "POST",
        "/v1/queries",
        "register",
        "Register a query, or many",
        queries.register,
        "write",
        big=True,
        bodies={_JSON: s.REGISTRATION},
        answers={201: ("Registered", {_JSON: s.REGISTERED}), 409: ("It cannot be registered", {_JSON: s.ERROR})},
    ),
    Operation(
        "GET",
        "/v1/queries/{query}",
        "get_query",
        "One query",
        queries.inspect,
        parameters=(_QUERY,),
        answers={200: ("What is known of it", {_JSON: s.ANYTHING}), 404: ("No such query", {_JSON: s.ERROR})},
    ),
    Operation(
        "DELETE",
        "/v1/queries/{query}",
        "drop_query",
        "Drop a query",
        queries.drop,
        "write",
        (_QUERY,),
        answers={204: ("Dropped", {}), 404: ("No such query", {_JSON: s.ERROR})},
    ),
    Operation(
        "POST",
        "/v1/queries/{query}/pause",
        "pause_query",
        "Pause a query",
        queries.pause,
        "write",
        (_QUERY,),
        answers={200: ("Paused", {_JSON: s.NAMED}), 404: ("No such query", {_JSON: s.ERROR})},
    ),
    Operation(
        "POST",
        "/v1/queries/{query}/resume",
        "resume_query",
        "Resume a query",
        queries.resume,
        "write",
        (_QUERY,),
        answers={
            200: ("It runs", {_JSON: s.NAMED}),
            404: ("No such query", {_JSON: s.ERROR}),
            409: ("It cannot be resumed", {_JSON: s.ERROR}),
        },
    ),
    Operation(
        "GET",
        "/v1/queries/{query}/answer",
        "invoke",
        "The current answer of a query",
        answers.answer,
        parameters=(
            _QUERY,
            Parameter("as_of", summary="watermark, epoch:<number>, or a timestamp that stands for NOW"),
            Parameter("begin", summary="another BEGIN: a timestamp, or NOW - INTERVAL …"),
            Parameter("end", summary="another END"),
            _LIMIT,
            _CURSOR,
            _FORMAT,
        ),
        answers={
            200: ("The answer, or a page of it", _page(s.ANSWER)),
            404: ("No such query", {_JSON: s.ERROR}),
            409: ("It has no answer", {_JSON: s.ERROR}),
            410: ("Not kept any more", {_JSON: s.ERROR}),
        },
    ),
    Operation(
        "GET",
        "/v1/queries/{query}/subscription",
        "subscribe",
        "Answers as they come, as server-sent events",
        subscription.subscribe,
        parameters=(
            _QUERY,
            Parameter("since", summary="the cursor to go on from; without it: from the first answer", longest=80),
            Parameter("timeout", "number", "end after this many seconds without an answer", least=0, most=86_400),
            Parameter("final", "boolean", "only rows that can no longer change, each once (window queries)"),
            Parameter(
                "status", choices=("all", "closed", "final"), summary="closed: no early answers; final: as `final`"
            ),
            Parameter("rows", choices=("json", "arrow"), summary="how an event carries rows; arrow: IPC in base64"),
            Parameter("Last-Event-ID", place="header", summary="as `since`; browsers send it", longest=80),
        ),
        answers={
            200: ("Events: answers, error, end", {wire.EVENTS: None}),
            404: ("No such query", {_JSON: s.ERROR}),
            409: ("The cursor is another query's", {_JSON: s.ERROR}),
        },
    ),
)
