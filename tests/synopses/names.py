"""The names of a catalog, as the binder sees them."""

from __future__ import annotations

from typing import Any

from millpond.catalog import Catalog
from millpond.types import FunctionDefinition


class Names:
    """A `Schema` over a catalog, which keeps functions in a field where a schema has a method."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def functions(self) -> dict[str, FunctionDefinition]:
        return self._catalog.functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)
