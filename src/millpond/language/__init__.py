"""Text into statements and bound queries.

`parse` turns a script into statements; `bind_standing`, `bind_selection`, `bind_query` and `bind_select` resolve names
and types against a `Schema`; `Binder` does so quickly for queries of a shape that it has seen.
Everything that a text can say passes through the allow-lists of `functions` and `resolve.expressions`: a function is
added in `functions.allowed` alone, a statement in `script` and `syntax.statement_types`.

    text ─▶ syntax ─▶ resolve ─▶ check ─▶ rewrite ─▶ plan ─▶ query

Each of these rooms imports those before it. `functions` says what may be called; `render` makes SQL of trees, and
`inference` asks DuckDB for its types; `conditions` takes conditions apart; `with_options` reads `WITH (…)`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millpond.language.conditions.unfailing import without_failures
    from millpond.language.filled_scripts import Filled, Parameters, with_parameters
    from millpond.language.inference.widening import is_wider, wider_than
    from millpond.language.plan.binding import bind_query
    from millpond.language.plan.standing import bind_selection
    from millpond.language.plan.table_queries import TableQuery
    from millpond.language.registering import bind_select, bind_standing
    from millpond.language.resolve.relation_refs import DEAD_COLUMNS, FileInput, StreamInput
    from millpond.language.resolve.schema import Schema
    from millpond.language.rewindow import select_text, with_window
    from millpond.language.rewrite.answers_read import queries_read
    from millpond.language.script import parse
    from millpond.language.syntax.statement_types import (
        AlterColumns,
        AlterQuery,
        AlterStream,
        AlterSystem,
        AlterTable,
        Copy,
        CreateQuery,
        CreateStream,
        CreateStreamFrom,
        CreateTable,
        DeriveStream,
        Describe,
        Drain,
        Drop,
        Explain,
        Invoke,
        RefreshTable,
        Select,
        Show,
        ShowCreate,
        Statement,
    )
    from millpond.language.syntax.token_places import pointing, pointing_into
    from millpond.language.syntax.tokens import is_plain_name
    from millpond.language.templates import Binder

#: Where the names are defined; imported when first used, since tasks of the engine need little of the language.
_HOMES = {
    "AlterColumns": "syntax.statement_types",
    "AlterQuery": "syntax.statement_types",
    "AlterStream": "syntax.statement_types",
    "AlterSystem": "syntax.statement_types",
    "AlterTable": "syntax.statement_types",
    "Binder": "templates",
    "Copy": "syntax.statement_types",
    "CreateQuery": "syntax.statement_types",
    "CreateStream": "syntax.statement_types",
    "CreateStreamFrom": "syntax.statement_types",
    "CreateTable": "syntax.statement_types",
    "DEAD_COLUMNS": "resolve.relation_refs",
    "DeriveStream": "syntax.statement_types",
    "Describe": "syntax.statement_types",
    "Drain": "syntax.statement_types",
    "Drop": "syntax.statement_types",
    "Explain": "syntax.statement_types",
    "FileInput": "resolve.relation_refs",
    "Invoke": "syntax.statement_types",
    "RefreshTable": "syntax.statement_types",
    "TableQuery": "plan.table_queries",
    "Schema": "resolve.from_items",
    "Select": "syntax.statement_types",
    "Show": "syntax.statement_types",
    "ShowCreate": "syntax.statement_types",
    "Statement": "syntax.statement_types",
    "StreamInput": "resolve.relation_refs",
    "bind_query": "plan.binding",
    "bind_select": "registering",
    "bind_selection": "plan.standing",
    "bind_standing": "registering",
    "is_plain_name": "syntax.tokens",
    "is_wider": "inference.widening",
    "parse": "script",
    "pointing": "syntax.token_places",
    "pointing_into": "syntax.token_places",
    "Filled": "filled_scripts",
    "Parameters": "filled_scripts",
    "queries_read": "rewrite.answers_read",
    "select_text": "rewindow",
    "wider_than": "inference.widening",
    "with_parameters": "filled_scripts",
    "with_window": "rewindow",
    "without_failures": "conditions.unfailing",
}

__all__ = [
    "DEAD_COLUMNS",
    "AlterColumns",
    "AlterQuery",
    "AlterStream",
    "AlterSystem",
    "AlterTable",
    "Binder",
    "Copy",
    "CreateQuery",
    "CreateStream",
    "CreateStreamFrom",
    "CreateTable",
    "DeriveStream",
    "Describe",
    "Drain",
    "Drop",
    "Explain",
    "FileInput",
    "Filled",
    "Invoke",
    "Parameters",
    "RefreshTable",
    "Schema",
    "Select",
    "Show",
    "ShowCreate",
    "Statement",
    "StreamInput",
    "TableQuery",
    "bind_query",
    "bind_select",
    "bind_selection",
    "bind_standing",
    "is_plain_name",
    "is_wider",
    "parse",
    "pointing",
    "pointing_into",
    "queries_read",
    "select_text",
    "wider_than",
    "with_parameters",
    "with_window",
    "without_failures",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'millpond.language' has no attribute '{name}'")
    found = getattr(importlib.import_module(f"millpond.language.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
