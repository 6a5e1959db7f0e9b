"""Registered functions as files of a pond."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from millpond.functions import Function, put, share
from millpond.tables import write_durably
from millpond.types import FunctionDefinition


def keep_function(pond: str, definition: FunctionDefinition, function: Callable[..., Any]) -> None:
    """Keep a function for a pond and its workers. Raises: QueryError when it cannot be pickled, or has no such type."""
    blob = share(pond, definition, function)
    made = Function(definition, function)
    made.call  # noqa: B018 - its type is one that Arrow has
    path = os.path.join(pond, "functions", f"{definition.reference}.pickle")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_durably(path, lambda out: out.write(blob))
    put(made)
