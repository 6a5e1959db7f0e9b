"""What a client is told when something goes wrong: a status and JSON; never a trace, never a secret."""

from __future__ import annotations

from typing import Any

from millpond.support import errors
from millpond.support.event_log import event_log
from millpond.support.wire import error_json

LOG = event_log(__name__)


class Failure(Exception):
    """An answer other than success: `status`, `error` (a word for programs), `message`, further fields and headers."""

    def __init__(
        self, status: int, error: str, message: str, headers: dict[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(message)
        self.status, self.error, self.message = status, error, message
        self.headers, self.fields = headers or {}, fields

    def body(self) -> dict[str, Any]:
        """The JSON of it."""
        return {"error": self.error, "message": self.message, **self.fields}


def bad_request(message: str, **fields: Any) -> Failure:
    """400: the request is not what this operation takes."""
    return Failure(400, "bad_request", message, **fields)


def not_found(message: str) -> Failure:
    """404, as the QueryError that the embedded pond raises."""
    return Failure(404, "QueryError", message)


def forbidden(message: str, **fields: Any) -> Failure:
    """403: the token's role or owner may not do this."""
    return Failure(403, "forbidden", message, **fields)


def over_limit(status: int, limit: str, message: str, **headers: str) -> Failure:
    """429, 413 or 403 with the name of the limit."""
    return Failure(status, "limit", f"{message} (limit '{limit}')", headers, limit=limit)


def of_exception(error: BaseException, request_id: str) -> Failure:
    """What the client is told of an exception; what it is not told is logged under the request's id."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, errors.EngineError):
        LOG.error("request met a stopped engine", request=request_id, error=str(error))
        text = "the engine has stopped; the server's log says why"
        return Failure(503, "EngineError", text, request=request_id)
    if isinstance(error, errors.MillpondError):
        body = error_json(error)
        status = {"StatementError": 400, "SourceError": 400, "QueryError": 409, "PondError": 503}
        return Failure(status.get(body["error"], 503), body.pop("error"), body.pop("message"), **body)
    if isinstance(error, (MemoryError, RecursionError)):
        LOG.error("request failed", request=request_id, error=type(error).__name__)
        return Failure(413, "too_large", "the request needs more memory than the server has for one")
    LOG.error("request failed", error, request=request_id, error=f"{type(error).__name__}: {error}")
    text = f"internal error; the server's log has it as request {request_id}"
    return Failure(500, "internal", text, request=request_id)
