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
    from millpond.api.pond import Pond, open
    from millpond.client.remote_pond import RemotePond, connect
    from millpond.support.errors import EngineError, MillpondError, PondError, QueryError, SourceError, StatementError
    from millpond.types.results import AnswerBatch, Cursor, StatementResult

__version__ = "0.1.0"

_HOMES = {
    "EngineError": "support.errors",
    "MillpondError": "support.errors",
    "PondError": "support.errors",
    "QueryError": "support.errors",
    "SourceError": "support.errors",
    "StatementError": "support.errors",
    "StatementResult": "types.results",
    "Pond": "api.pond",
    "open": "api.pond",
    "RemotePond": "client.remote_pond",
    "connect": "client.remote_pond",
    "AnswerBatch": "types.results",
    "Cursor": "types.results",
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


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'millpond' has no attribute '{name}'")
    return getattr(importlib.import_module(f"millpond.{_HOMES[name]}"), name)
