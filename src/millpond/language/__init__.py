"""Text into statements and bound queries.

`parse` turns a script into statements; `bind_standing`, `bind_selection`, `bind_query` and `bind_select` resolve names
and types against a `Schema`; `Binder` does so quickly for queries of a shape that it has seen.
Everything that a text can say passes through the allow-lists of `functions` and `expressions`: a function is added in
`functions.py` alone, a statement in `script.py` and `statements.py`; nothing outside of this folder needs to change.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond.language.binding import bind_query
    from millpond.language.from_items import Schema
    from millpond.language.relations import DEAD_COLUMNS, RelationRef, TableQuery
    from millpond.language.rewindow import with_window
    from millpond.language.script import parse
    from millpond.language.selections import bind_select, bind_selection, bind_standing
    from millpond.language.statements import (
        AlterColumns,
        AlterQuery,
        AlterStream,
        AlterSystem,
        AlterTable,
        CreateQuery,
        CreateStream,
        CreateTable,
        DeriveStream,
        Drain,
        Drop,
        Explain,
        Invoke,
        RefreshTable,
        Select,
        Show,
        Statement,
    )
    from millpond.language.templates import Binder
    from millpond.language.token_places import pointing, pointing_into, token_place
    from millpond.language.widening import is_wider, wider_than

#: Where the names are defined; imported when first used, since tasks of the engine need little of the language.
_HOMES = {
    "AlterColumns": "statements",
    "AlterQuery": "statements",
    "AlterStream": "statements",
    "AlterSystem": "statements",
    "AlterTable": "statements",
    "Binder": "templates",
    "CreateQuery": "statements",
    "CreateStream": "statements",
    "CreateTable": "statements",
    "DEAD_COLUMNS": "relations",
    "DeriveStream": "statements",
    "Drain": "statements",
    "Drop": "statements",
    "Explain": "statements",
    "Invoke": "statements",
    "RefreshTable": "statements",
    "TableQuery": "relations",
    "RelationRef": "relations",
    "Schema": "from_items",
    "Select": "statements",
    "Show": "statements",
    "Statement": "statements",
    "bind_query": "binding",
    "bind_select": "selections",
    "bind_selection": "selections",
    "bind_standing": "selections",
    "is_wider": "widening",
    "parse": "script",
    "pointing": "token_places",
    "pointing_into": "token_places",
    "token_place": "token_places",
    "wider_than": "widening",
    "with_window": "rewindow",
}

__all__ = [
    "DEAD_COLUMNS",
    "AlterColumns",
    "AlterQuery",
    "AlterStream",
    "AlterSystem",
    "AlterTable",
    "Binder",
    "CreateQuery",
    "CreateStream",
    "CreateTable",
    "DeriveStream",
    "Drain",
    "Drop",
    "Explain",
    "Invoke",
    "RefreshTable",
    "RelationRef",
    "Schema",
    "Select",
    "Show",
    "Statement",
    "TableQuery",
    "bind_query",
    "bind_select",
    "bind_selection",
    "bind_standing",
    "is_wider",
    "parse",
    "pointing",
    "pointing_into",
    "token_place",
    "wider_than",
    "with_window",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'millpond.language' has no attribute '{name}'")
    found = getattr(importlib.import_module(f"millpond.language.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
