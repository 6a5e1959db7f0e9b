"""Answers as JSON."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from millpond.support import wire
from millpond.support.texts.json_texts import plain


def json_bytes(value: Any) -> bytes:
    """A value as JSON."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with a value as JSON."""
    return Response(json_bytes(value), status, headers, wire.JSON)
