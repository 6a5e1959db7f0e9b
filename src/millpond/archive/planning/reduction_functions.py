"""Registered reduction functions: Python of the administrator, kept in the pond's folder, run in the pond's process."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from typing import Any

from millpond.catalog import Catalog
from millpond.catalog.catalogs import Catalogs
from millpond.support.errors import QueryError
from millpond.support.file_cache import FileCache
from millpond.tables import remove_file, write_durably
from millpond.types.reduction_forms import FORMS

_loaded: FileCache[Callable[..., Any]] = FileCache(64)


def register_reduction(pond: str, catalogs: Catalogs, name: str, function: Callable[..., Any]) -> None:
    """Keep a function under a name; it is there again when the pond is opened again.

    Raises: QueryError when the name is none, is taken by a function of the language, or the function cannot be called
        with a run or cannot be pickled.
    """
    from pyspark import cloudpickle

    low = name.lower()
    if not re.fullmatch(r"[a-z_]\w{0,127}", low, re.ASCII):
        raise QueryError(f"'{name}' cannot be the name of a reduction function; letters, digits and _ can")
    if low in FORMS or low == "by":
        raise QueryError(f"'{low}' is a reduction function of the language; choose another name")
    try:
        inspect.signature(function).bind(None, *_placeholders(function))
    except (TypeError, ValueError) as error:
        raise QueryError(f"reduction function '{low}' has to take a run, and then its arguments: {error}") from None
    try:
        blob = cloudpickle.dumps(function)
    except Exception as error:
        raise QueryError(f"reduction function '{low}' cannot be kept: {error}") from None
    with catalogs.lock:
        number = catalogs.catalog.version + 1
        file = os.path.join("functions", f"{low}-{number}.pickle")
        path = os.path.join(pond, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_durably(path, lambda out: out.write(blob))
        old = catalogs.catalog.reductions.get(low)
        catalogs.log.record({"do": "create_reduction", "name": low, "file": file})
        _loaded.put(path, function)
        if old is not None:
            remove_file(os.path.join(pond, old))


def _placeholders(function: Callable[..., Any]) -> list[None]:
    """As many arguments as the function needs behind the run."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return [None] * max(0, sum(p.default is p.empty for p in found) - 1)


def drop_reduction(pond: str, catalogs: Catalogs, name: str) -> None:
    """Forget a function.

    Raises: QueryError when there is none of that name, or a standing query uses it.
    """
    low = name.lower()
    with catalogs.lock:
        file = catalogs.catalog.reductions.get(low)
        if file is None:
            raise QueryError(f"there is no reduction function '{name}'")
        users = [
            q.definition.name
            for q in catalogs.catalog.queries.values()
            if any(r.function == low for r in q.definition.query.reductions)
        ]
        if users:
            raise QueryError(f"reduction function '{low}' is used by {', '.join(sorted(users))}; DROP QUERY first")
        catalogs.log.record({"do": "drop_reduction", "name": low})
        remove_file(os.path.join(pond, file))


def function_of(pond: str, catalog: Catalog, name: str) -> Callable[..., Any]:
    """The function registered under a name.

    Raises: QueryError when there is none, or it cannot be loaded.
    """
    from pyspark import cloudpickle

    file = catalog.reductions.get(name)
    if file is None:
        raise QueryError(f"there is no reduction function '{name}'; pond.register_reduction makes one")
    path = os.path.join(pond, file)

    def load() -> Callable[..., Any]:
        with open(path, "rb") as source:
            loaded: Callable[..., Any] = cloudpickle.loads(source.read())
            return loaded

    try:
        return _loaded.get(path, load)
    except Exception as error:
        raise QueryError(f"reduction function '{name}' cannot be loaded: {error}") from error
