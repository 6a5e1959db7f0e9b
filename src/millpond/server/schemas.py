"""JSON schemas of bodies and answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from millpond.types.options import QueryOptions, options_of

Schema = dict[str, Any]


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
ANYTHING: Final[Schema] = {"type": "object"}
_MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}
_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 200}
_STATEMENT: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 100_000}

ROW: Final[Schema] = {"type": "object", "additionalProperties": True}
ROWS: Final[Schema] = {"type": "array", "items": ROW}
COLUMNS: Final[Schema] = {"type": "array", "items": _object(["name", "type"], name=TEXT, type=TEXT)}

PLAN: Final[Schema] = _object(
    ["operator", "title", "facts", "children"],
    operator={"type": "string", "description": "a kind of operator (panes, relation, …), or another part of an answer"},
    title={"type": "string", "description": "what it is, in words"},
    facts={
        "type": "array",
        "items": _object(
            ["name", "value", "sentence"],
            name=TEXT,
            value=TEXT,
            sentence={"type": "boolean", "description": "the value is a sentence, which is printed without the name"},
        ),
    },
    children={"type": "array", "items": {"$ref": "#/components/schemas/Plan"}},
)
_CAUSE: Final[Schema] = _object(
    ["cause", "rows", "source", "position"],
    cause=TEXT,
    rows=WHOLE,
    source={"type": "string", "description": "where the first of them stood"},
    position={"type": ["integer", "null"], "description": "null: a whole file"},
)
_STREAM_REPORT: Final[Schema] = _object(
    ["stream", "rows", "total_rows", "late", "dead", "causes", "files", "skipped", "changed", "nothing_at", "shut"],
    stream=TEXT,
    rows={"type": "integer", "description": "since the last report, as late, dead, files, skipped and changed"},
    total_rows=WHOLE,
    late=WHOLE,
    dead=WHOLE,
    causes={"type": "array", "items": _CAUSE},
    files=WHOLE,
    skipped=WHOLE,
    changed={"type": "array", "items": TEXT},
    nothing_at={"type": "string", "description": "the path of a stream that has never found a file"},
    shut={
        "type": "boolean",
        "description": "its source has ended, and what comes from now on is left out (late='drop')",
    },
)
_QUERY_REPORT: Final[Schema] = _object(
    ["query", "too_late", "quarantined", "waits_for"], query=TEXT, too_late=WHOLE, quarantined=TEXT, waits_for=TEXT
)
REPORT: Final[Schema] = _object(
    ["final", "streams", "queries"],
    final=FLAG,
    streams={"type": "array", "items": _STREAM_REPORT},
    queries={"type": "array", "items": _QUERY_REPORT},
)
ERROR: Final[Schema] = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string", "description": "the kind: StatementError, QueryError, limit, unauthorized, …"},
        "message": {"type": "string", "description": "for people; of a statement with line, column and caret"},
        "place": _object(["line", "column", "start", "end"], line=WHOLE, column=WHOLE, start=WHOLE, end=WHOLE),
        "limit": {"type": "string", "description": "the limit that was met"},
        "request": {"type": "string", "description": "the request's number in the server's log"},
    },
    "additionalProperties": True,
}

SCRIPT: Final[Schema] = _object(
    ["statements"],
    statements={"type": "string", "maxLength": 1_000_000},
    limit={"type": "integer", "minimum": 1, "x-limit": "answer_rows"},
    parameters={
        "type": ["object", "array"],
        "items": {},
        "description": "values for $name, or for ? and $1, $2, …; a value that JSON has not is"
        ' {"type": "TIMESTAMP", "value": "2026-03-01 08:00:00"}, of any SQL type',
    },
)
RESULT: Final[Schema] = {
    "type": "object",
    "required": ["kind", "message", "statement"],
    "properties": {
        "kind": {"enum": ["message", "rows"]},
        "message": TEXT,
        "statement": TEXT,
        "columns": COLUMNS,
        "row_count": WHOLE,
        "next": _MAYBE_TEXT,
        "rows": ROWS,
        "plan": {"$ref": "#/components/schemas/Plan"},
        "report": {"$ref": "#/components/schemas/Report"},
    },
}
RESULTS: Final[Schema] = _object(["results"], results={"type": "array", "items": RESULT})
PAGE: Final[Schema] = _object(
    ["columns", "row_count", "next", "rows"], columns=COLUMNS, row_count=WHOLE, next=_MAYBE_TEXT, rows=ROWS
)
ANSWER: Final[Schema] = _object(
    ["query", "epoch", "now", "watermark", "begin", "end", "final", "exact", "columns", "row_count", "next", "rows"],
    query=_object(["id", "name"], id=WHOLE, name=TEXT),
    epoch=WHOLE,
    now=_MAYBE_TEXT,
    watermark=_MAYBE_TEXT,
    begin=_MAYBE_TEXT,
    end=_MAYBE_TEXT,
    final=FLAG,
    exact=FLAG,
    columns=COLUMNS,
    row_count=WHOLE,
    next=_MAYBE_TEXT,
    rows=ROWS,
)
_OPTIONS: Final = options_of(QueryOptions)
OPTIONS: Final[Schema] = {
    "type": "object",
    "properties": {name: option.schema for name, option in _OPTIONS.items()},
    "additionalProperties": False,
}
REGISTRATION: Final[Schema] = {
    "oneOf": [
        _object(
            ["query"],
            query=_STATEMENT,
            name={"type": ["string", "null"], "minLength": 1, "maxLength": 200},
            materialize=_OPTIONS["materialize"].schema,
            options=OPTIONS,
        ),
        _object(
            ["queries"],
            queries={"type": "array", "items": _STATEMENT, "minItems": 1, "maxItems": 200_000},
            names={"type": ["array", "null"], "items": {"type": ["string", "null"], "minLength": 1, "maxLength": 200}},
            materialize=_OPTIONS["materialize"].schema,
        ),
    ]
}
REGISTERED: Final[Schema] = {
    "oneOf": [
        _object(["id", "name"], id=WHOLE, name=TEXT),
        _object(["queries"], queries={"type": "array", "items": _object(["id", "name"], id=WHOLE, name=TEXT)}),
    ]
}
NAMED: Final[Schema] = _object(["id", "name"], id=WHOLE, name=TEXT)
QUERIES: Final[Schema] = _object(["queries", "next"], queries=ROWS, next={"type": ["integer", "null"]})
STREAMS: Final[Schema] = _object(["streams"], streams=ROWS)
INGEST: Final[Schema] = {
    "anyOf": [ROWS, _object(["rows"], rows=ROWS), ROW],
    "description": "rows, or one row; an object with nothing but `rows` holds rows",
}
INGESTED: Final[Schema] = _object(["ordinal", "rows"], ordinal={"type": ["integer", "null"]}, rows=WHOLE)
DRAIN: Final[Schema] = _object([], final=FLAG)
DRAINED: Final[Schema] = _object(
    ["drained", "final", "report"], drained=FLAG, final=FLAG, report={"$ref": "#/components/schemas/Report"}
)
HEALTH: Final[Schema] = _object(["status"], status={"enum": ["ok", "failed"]})
