"""Millpond: live data streams and their whole past behind one SQL, on Apache Spark.

    import millpond
    pond = millpond.open("my-pond")
    pond.sql("CREATE STREAM …")

Names are imported when they are first used: workers import only the engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond.client import RemotePond, connect
    from millpond.errors import (
        EngineError,
        MillpondError,
        PondError,
        QueryError,
        SourceError,
        StatementError,
    )
    from millpond.interpreter import StatementResult
    from millpond.pond import Pond, open
    from millpond.results.subscription import AnswerBatch, Cursor

__version__ = "0.1.0"

_HOMES = {
    "EngineError": "errors",
    "MillpondError": "errors",
    "PondError": "errors",
    "QueryError": "errors",
    "SourceError": "errors",
    "StatementError": "errors",
    "StatementResult": "interpreter",
    "Pond": "pond",
    "open": "pond",
    "RemotePond": "client",
    "connect": "client",
    "AnswerBatch": "results.subscription",
    "Cursor": "results.subscription",
}

__all__ = [
    "AnswerBatch",
    "Cursor",
    "EngineError",
    "MillpondError",
    "Pond",
    "PondError",
    "QueryError",
    "RemotePond",
    "SourceError",
    "StatementError",
    "StatementResult",
    "connect",
    "open",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'millpond' has no attribute '{name}'")
    return getattr(importlib.import_module(f"millpond.{_HOMES[name]}"), name)
