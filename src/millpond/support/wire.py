"""What server and client both know: media types, headers, errors as JSON, and the framing of a script's results.

A frame is four bytes (big-endian) with the length of a JSON header, the header, and `size` bytes of Arrow IPC stream
when the header has a `size`. The results of a script are frames in order; an error is the last one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from millpond.support import errors

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
RESULTS: Final = "application/vnd.millpond.results"
EVENTS: Final = "text/event-stream"

#: Headers of an answer.
EPOCH: Final = "X-Millpond-Epoch"
NOW: Final = "X-Millpond-Now"
WATERMARK: Final = "X-Millpond-Watermark"
BEGIN: Final = "X-Millpond-Begin"
END: Final = "X-Millpond-End"
EXACT: Final = "X-Millpond-Exact"
FINAL: Final = "X-Millpond-Final"
NEXT: Final = "X-Millpond-Next"
ROWS: Final = "X-Millpond-Rows"

#: What a field of a stream's schema has as metadata: the type of the column as it was declared.
DECLARED: Final = b"declared"

#: Rows of a frame, an event, a batch of an Arrow answer: what is in memory twice at a time.
BATCH_ROWS: Final = 65_536

_KINDS: Final = {
    kind.__name__: kind
    for kind in (errors.MillpondError, errors.PondError, errors.SourceError, errors.QueryError, errors.EngineError)
}


def error_json(error: errors.MillpondError) -> dict[str, Any]:
    """An error of Millpond as JSON: `error` (its kind), `message` (its text), and where a statement is wrong.

    >>> error_json(errors.QueryError("there is no query 'q'"))
    {'error': 'QueryError', 'message': "there is no query 'q'"}
    """
    kind = errors.QueryError if isinstance(error, errors.Refusal) else type(error)
    found: dict[str, Any] = {"error": kind.__name__, "message": str(error)}
    if isinstance(error, errors.StatementError):
        found |= {
            "problem": error.message,
            "place": {"line": error.line, "column": error.column, "start": error.start, "end": error.end},
            "expected": error.expected,
            "nearest": error.nearest,
            "source": error.text,
        }
    return found


def error_of(found: dict[str, Any]) -> errors.MillpondError:
    """The error that `error_json` wrote; a kind that is not Millpond's (a refusal of the server) is a PondError.

    >>> error_of({"error": "QueryError", "message": "gone"})
    QueryError('gone')
    """
    if found.get("error") == "StatementError":
        place = found.get("place") or {}
        return errors.StatementError(
            str(found.get("problem", found.get("message", ""))),
            str(found.get("source", "")),
            int(place.get("start", 0)),
            int(place.get("end", 1)),
            str(found.get("expected", "")),
            str(found.get("nearest", "")),
        )
    kind = _KINDS.get(str(found.get("error")), errors.PondError)
    return kind(str(found.get("message", "the server gave no reason")))


def ipc_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def frame(header: dict[str, Any], table: pa.Table | None = None) -> bytes:
    """One frame."""
    payload = b"" if table is None else ipc_bytes(table)
    if table is not None:
        header = {**header, "size": len(payload)}
    head = json.dumps(header).encode()
    return len(head).to_bytes(4, "big") + head + payload


def frames(read: Callable[[int], bytes]) -> Iterator[tuple[dict[str, Any], pa.Table | None]]:
    """The frames of a stream; `read(n)` gives n bytes, fewer at its end.

    Raises: PondError when the stream breaks off within a frame, or before the frame that ends it (`end`, `error`).
    """
    while True:
        head = read(4)
        if len(head) < 4:
            raise errors.PondError("the server's answer broke off")
        text = read(int.from_bytes(head, "big"))
        try:
            header: dict[str, Any] = json.loads(text)
        except ValueError:
            raise errors.PondError("the server's answer broke off") from None
        table = None
        if "size" in header:
            payload = read(header["size"])
            if len(payload) < header["size"]:
                raise errors.PondError("the server's answer broke off")
            table = pa.ipc.open_stream(payload).read_all()
        yield header, table
        if header.get("end") or "error" in header:
            return
